"""Line breaks in long names such as `bm25+dense+recency`, never inside a word."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

_AFTER = re.compile(r"(?<=[+\-_./,])(?!(?<=\d[.,])\d)(?=\w)")


def breakable(name: str) -> Markup:
    """Escape ``name`` and allow a line break after each sign that joins its parts, but not within a number.

    >>> str(breakable("bm25+<b>"))
    'bm25+&lt;b&gt;'
    >>> str(breakable("bm25+dense"))
    'bm25+<wbr>dense'
    >>> str(breakable("by 0.25 with v2.tokens"))
    'by 0.25 with v2.<wbr>tokens'
    """
    return Markup("<wbr>").join(escape(part) for part in _AFTER.split(name))
