"""Reads JSON-LD leniently: unfolded, values as strings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

Node = dict[str, Any]

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")
# Each is tried at one place of a stripped text, and only there: a page of blanks must not take hours.
_OPENING = re.compile(r"(?:<!--|/\*\s*<!\[CDATA\[\s*\*/|//\s*<!\[CDATA\[|<!\[CDATA\[)")
_CLOSING = re.compile(r"(?:-->|/\*\s{0,9}\]\]>\s{0,9}\*/|//\s{0,9}\]\]>|\]\]>)\Z")
_CLOSING_LENGTH = 40


def nodes_in(text: str, *through: str) -> list[Node]:
    """Return the nodes of one block, lists and what stands below the keys ``through`` unfolded.

    A block may hold control characters, a trailing comma or comment marks around it; one that is broken
    beyond that has no nodes.

    >>> [node["@type"] for node in nodes_in('{"@type": "Web", "@graph": [{"@type": "Article"},]};', "@graph")]
    ['Web', 'Article']
    """
    try:
        return list(_unfolded(lenient_json(text), through))
    except RecursionError:
        return []


def lenient_json(text: str) -> Any:
    """Return the value of JSON as pages write it, or None.

    >>> lenient_json('<!-- {"a": [1, 2,],} -->')
    {'a': [1, 2]}
    """
    bare = _bare(_bare(text))
    for attempt in (bare, _TRAILING_COMMA.sub(r"\1", _CONTROL.sub(" ", bare))):
        try:
            return json.loads(attempt, strict=False)
        except (ValueError, RecursionError):
            continue
    return None


def _bare(text: str) -> str:
    bare = text.strip().rstrip("; \t\r\n")
    if opening := _OPENING.match(bare):
        bare = bare[opening.end() :]
    if closing := _CLOSING.search(bare, max(0, len(bare) - _CLOSING_LENGTH)):
        bare = bare[: closing.start()]
    return bare.strip().rstrip("; \t\r\n")


def _unfolded(value: Any, through: tuple[str, ...]) -> Iterator[Node]:
    if isinstance(value, list):
        for item in value:
            yield from _unfolded(item, through)
    elif isinstance(value, dict):
        yield value
        for name in through:
            yield from _unfolded(value.get(name), through)


def strings(value: Any) -> list[str]:
    """Return the strings of a JSON-LD value: itself, its items, or what its `name` says.

    >>> strings(["Ada", {"@type": "Person", "name": "Ben"}, {"url": "x"}, None])
    ['Ada', 'Ben']
    """
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for item in value for text in strings(item)]
    return strings(value.get("name")) if isinstance(value, dict) else []
