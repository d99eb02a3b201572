"""Reads the charts of a report back from its page: what is drawn, and what is written beside it."""

from __future__ import annotations

import re
from typing import Any

import lxml.html


def figure(html: str, anchor: str) -> Any:
    """Return the element of a chart."""
    (found,) = lxml.html.fromstring(html).xpath(f'//*[@id="{anchor}"]')
    return found


def anchors(html: str) -> set[str]:
    """Return the ids of all charts on a page."""
    return set(lxml.html.fromstring(html).xpath('//*[contains(concat(" ",@class," ")," figure ")]/@id'))


def number(text: str) -> float:
    """Read a number as a report writes it.

    >>> number("−0.500 ≈"), number("12\u202f346"), number("0.298†")
    (-0.5, 12346.0, 0.298)
    """
    return float(re.sub(r"[^\d.\-]", "", text.replace("−", "-").replace("\u202f", "")))


def bars(chart: Any) -> list[tuple[str, list[tuple[float, float, float] | None]]]:
    """Return the rows of a table of bars: name, and of each column start, width and number, or None."""
    rows = []
    for row in chart.xpath(".//tbody/tr"):
        marks: list[tuple[float, float, float] | None] = []
        for cell in row.xpath("./td"):
            drawn = cell.xpath('.//*[local-name()="rect"][@class="of"]')
            written = "".join(cell.xpath("./text()|./b/text()"))
            if drawn:
                start, width = (float(drawn[0].get(name).rstrip("%")) for name in ("x", "width"))
                marks.append((start, width, number(written)))
            else:
                marks.append(None)
        rows.append((" ".join(row.xpath("string(./th)").split()), marks))
    return rows


def coordinates(html: str) -> list[float]:
    """Return every number that places anything in any chart of a page."""
    found = re.findall(r'\b(?:x|y|x1|x2|y1|y2|cx|cy|width|height)="([^"]*)%?"', html)
    lines = re.findall(r'points="([^"]*)"', html)
    numbers = [one.rstrip("%") for one in found] + [n for line in lines for n in re.split(r"[ ,]", line)]
    return [float(one) for one in numbers]
