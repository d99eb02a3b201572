"""Formats numbers, lists, names and links for readers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from urllib.parse import quote, urlsplit

from markupsafe import Markup, escape

MISSING = "–"
THIN_SPACE = "\u202f"

# Beside control characters, those that turn around the direction of the text after them: crawled text could
# read as ours.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def number(value: float | None, unit: str = "") -> str:
    """Three decimals, tokens without, few seconds with two significant digits; None and NaN are a dash.

    >>> number(0.71249), number(None), number(-0.5), number(12345.6, "tokens")
    ('0.712', '–', '−0.500', '12\u202f346')
    >>> number(0.00042, "s"), number(0.0095, "s"), number(0.01, "s"), number(0.0, "s")
    ('0.00042', '0.0095', '0.010', '0.000')
    """
    if value is None or not math.isfinite(value):
        return MISSING
    if unit == "tokens":
        return count(round(value)) if abs(value) >= 100 else f"{value:.1f}".replace("-", "−")
    decimals = 3
    if unit == "s" and 0 < abs(value) < 0.01:
        decimals = min(9, 1 - math.floor(math.log10(abs(value))))
    return f"{value:.{decimals}f}".replace("-", "−")


def with_sign(value: float | None, unit: str = "") -> str:
    text = number(value, unit)
    return f"+{text}" if value is not None and value > 0 and text != MISSING else text


def p_value(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def quantity(value: float | None, unit: str = "") -> str:
    text = number(value, unit)
    return f"{text} {unit}" if unit and text != MISSING else text


def interval(low: float | None, high: float | None, unit: str = "", to: str = " to ") -> str:
    """to: between ends of which one is negative"""
    ends = (number(low, unit), number(high, unit))
    if MISSING in ends:
        return MISSING
    return (to if "−" in ends[0] + ends[1] else "–").join(ends)


def percent(share: float | None) -> str:
    """Round down, so that 97.99 % never reads as 98 %.

    >>> percent(0.97999), percent(1.0), percent(0.9996)
    ('97.9 %', '100 %', '99.9 %')
    """
    if share is None or not math.isfinite(share):
        return MISSING
    tenths = math.floor(share * 1000 + 1e-9)
    return f"{tenths // 10} %" if tenths % 10 == 0 else f"{tenths / 10:.1f} %"


def count(n: int) -> str:
    return f"{n:,}".replace(",", THIN_SPACE).replace("-", "−")


def times(ratio: float) -> str:
    """Two significant digits."""
    if not math.isfinite(ratio):
        return MISSING
    text = f"{ratio:.1e}"
    decimals = max(0, 1 - int(text.partition("e")[2]))
    return f"{float(text):.{decimals}f}" if decimals else count(int(float(text)))


def several(n: int, noun: str) -> str:
    """Count a regular noun."""
    return f"{count(n)} {noun}" if n == 1 else f"{count(n)} {noun}s"


IN_ROWS = "the rows beside the report (JSON) hold them"


def left_out(why: str, **counts: int) -> str:
    found = [several(n, f"further {noun}") for noun, n in counts.items() if n]
    return f"{' and '.join(found)} left out; {why}." if found else ""


def listed(names: Sequence[str], most: int = 3, *, last: str = "and", more: str = "more") -> str:
    """At most ``most`` items; the last one counts the rest."""
    items = list(names) if len(names) <= most else [*names[: most - 1], f"{len(names) - most + 1} {more}"]
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} {last} {items[-1]}"


def format_counts(counts: Mapping[str, int]) -> str:
    """The largest first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count(n)} × {name}" for name, n in ordered)


def truncate(text: str | None, limit: int) -> str:
    """Cut to ``limit`` characters with an ellipsis as the last."""
    text = text or ""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def plain(text: str) -> str:
    """Replace control characters, text direction overrides and lone surrogates."""
    return _CONTROLS.sub("\ufffd", text.encode("utf-8", "replace").decode())


_AFTER = re.compile(r"(?<=[+\-_./,])(?!(?<=\d[.,])\d)(?=\w)")


def breakable(name: str) -> Markup:
    """Escape ``name`` and allow line breaks after joining signs, not within a number; markup stays as it is.

    >>> str(breakable("bm25+<b>")), str(breakable("by 0.25 with v2.tokens"))
    ('bm25+&lt;b&gt;', 'by 0.25 with v2.<wbr>tokens')
    """
    if isinstance(name, Markup):
        return name
    return Markup("<wbr>").join(escape(part) for part in _AFTER.split(name))


def safe_link(url: str | None) -> str | None:
    """Return a plain http or https address with a host, else None.

    >>> safe_link("https://example.org/a"), safe_link("javascript:alert(1)"), safe_link("https:///x")
    ('https://example.org/a', None, None)
    """
    if not url or any(ord(character) <= 32 or ord(character) == 127 for character in url):
        return None
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    return url if parts.scheme in ("http", "https") and parts.hostname else None


def natural(name: str) -> tuple[tuple[bool, int, str], ...]:
    """Sort key by which `tokens-64` precedes `tokens-128`."""
    parts = "".join(c if c.isdigit() else f" {c} " for c in name).split()
    return tuple((not part.isdigit(), int(part) if part.isdecimal() else 0, part) for part in parts)


def link_of(question_id: str) -> str:
    return f"#q={quote(question_id, safe='')}"
