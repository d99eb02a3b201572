"""The section model of a report; renderers: `page.py`, `markdown.py`, `orchestration/terminal/tables.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

from markupsafe import Markup

from rag_assay.evals.reporting.display import MISSING
from rag_assay.evals.reporting.texts import CHARTS, Language, read_yaml, words_in
from rag_assay.evals.statistics.significance import Standing

NOTHING = Markup("")
PAGE_ONLY = ("part", "bar", "drawn", "shares")  # styles of columns that repeat others, or are drawn
SIGNS: Mapping[Standing | None, str] = {"tied": "≈", "within": "="}


def mark(standing: Standing | None, language: Language = "en") -> Markup:
    if standing not in SIGNS:
        return NOTHING
    title = words_in(CHARTS, language)(f"{standing}_mark")
    return Markup('<span title="{}">{}</span> ').format(title, SIGNS[standing])


@dataclass(frozen=True)
class TableFigure:
    """A figure of a table; small: lines below it; why: why there is no value, else a tooltip.

    sort: number that the page sorts by; style: class; drawn: a small chart above; behind: a mark after it
    """

    text: str
    small: tuple[str, ...] = ()
    why: str = ""
    sort: float | None = None
    style: str = ""
    drawn: Markup = NOTHING
    behind: Markup = NOTHING


def missing(why: str) -> TableFigure:
    return TableFigure(MISSING, why=why)


@dataclass(frozen=True)
class Column:
    """A column of a table; about: tooltip; style: class; renderers of text leave out `PAGE_ONLY`.

    best: which of its numbers are best, "high" or "low"; is_axis: rows can be filtered by it
    """

    title: str
    unit: str = ""
    about: str = ""
    is_number: bool = False
    style: str = ""
    best: str = ""
    is_axis: bool = False
    drawn: Markup = NOTHING


def numbers(*titles: str, unit: str = "") -> list[Column]:
    return [Column(title, unit, is_number=True) for title in titles]


Row: TypeAlias = Sequence[str | TableFigure]


@dataclass(frozen=True)
class Table:
    """A table; texts are escaped but those that are `Markup`; caption: accessible name; rest: what is not
    shown.

    anchor: of a chart, which shows its caption as a title; foot: rows below; name: column that names a row
    row_styles: index of a row -> its class; row_pipelines: keys of each row's pipelines
    """

    kind: ClassVar[str] = "table"
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    rest: str = ""
    style: str = ""
    anchor: str = ""
    about: str = ""
    foot: Sequence[Row] = ()
    name: int = 0
    row_styles: Mapping[int, str] = field(default_factory=dict)
    row_pipelines: Sequence[Sequence[str]] = ()


@dataclass(frozen=True)
class PageParagraph:
    """A paragraph with a class of its own; a plain one is a string."""

    kind: ClassVar[str] = "paragraph"
    text: str
    style: str = "left-out"


@dataclass(frozen=True)
class PageHeading:
    """A heading within a section."""

    kind: ClassVar[str] = "heading"
    text: str
    unit: str = ""
    level: int = 3


@dataclass(frozen=True)
class Bullets:
    """A list of texts."""

    kind: ClassVar[str] = "bullets"
    items: Sequence[str]
    style: str = ""


@dataclass(frozen=True)
class Definitions:
    """Terms with what they mean."""

    kind: ClassVar[str] = "definitions"
    items: Sequence[tuple[str, str]]
    style: str = "metrics"


@dataclass(frozen=True)
class Details:
    """A detail that a reader may open; tally: a line below its title."""

    kind: ClassVar[str] = "details"
    title: str
    blocks: Sequence[Block]
    tally: str = ""
    style: str = ""


@dataclass(frozen=True)
class Code:
    """A text as it is written in a file or on a terminal."""

    kind: ClassVar[str] = "code"
    text: str


@dataclass(frozen=True)
class Tiles:
    """Groups of blocks that stand side by side where there is room."""

    kind: ClassVar[str] = "tiles"
    groups: Sequence[Sequence[Block]]
    wide: bool = False


@dataclass(frozen=True)
class Html:
    """A chart of ours, its texts escaped, which only a page shows."""

    kind: ClassVar[str] = "html"
    html: Markup


@dataclass(frozen=True)
class PageTemplate:
    """A template of the page with its values: controls and texts that only a page shows."""

    kind: ClassVar[str] = "template"
    name: str
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Tick:
    """A line of the grid, in percent, and its label; above: at the other end of the line."""

    at: float
    label: str
    above: str = ""


Shape = Literal["disc", "ring", "diamond", "cross"]


@dataclass(frozen=True)
class Point:
    """A mark at a place in percent, y from the top; number: as in the list below the chart.

    label: where the number is written, in pixels from the point; low, high: ends of its vertical interval
    style: of its line, if it is on one
    """

    x: float
    y: float
    shape: Shape
    full: str
    number: int | None = None
    low: float | None = None
    high: float | None = None
    label: tuple[int, int] | None = None
    pipeline: str = ""
    style: int | None = None


@dataclass(frozen=True)
class PlotLine:
    """A line in percent, y from the top; label, lines: in the list below the chart; number: at a place of
    it.
    """

    points: str
    style: int
    label: str = ""
    lines: tuple[str, ...] = ()
    number: int | None = None
    number_at: tuple[float, float] = (50.0, 50.0)


@dataclass(frozen=True)
class Plane:
    """A chart of two scales; x_title, y_title: with the unit; key: shape -> meaning.

    table: the values, to be read without the chart; below: where the numbers are, for those who do not see it
    diagonal: what chance would be; makes it a square of two shares
    """

    kind: ClassVar[str] = "plane"
    anchor: str
    caption: str
    about: str
    x_title: str
    y_title: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    points: tuple[Point, ...] = ()
    lines: tuple[PlotLine, ...] = ()
    key: tuple[tuple[Shape, str], ...] = ()
    table: Details | None = None
    diagonal: str = ""
    rest: str = ""
    below: str = CHARTS["below"][0]


Chart: TypeAlias = "Table | Plane"
Block: TypeAlias = (
    "str | PageParagraph | PageHeading | Chart | Bullets | Definitions | Details | Code | Tiles | Html "
    "| PageTemplate"
)


@dataclass(frozen=True)
class PageSection:
    """A part of a page; short: its name in the navigation, if any; folded: closed at first"""

    anchor: str
    title: str
    blocks: Sequence[Block]
    short: str = ""
    folded: bool = False


@dataclass(frozen=True)
class TitledPage:
    """A page of a title with a lead, and sections."""

    title: str
    kicker: str
    lead: Sequence[Block]
    sections: Sequence[PageSection]


def explain(name: str, language: Language = "en", **values: object) -> Markup:
    """Return an explanation of `sections.yaml`, filled in."""
    about = read_yaml("templates/sections.yaml")[name][_in("about", language)]
    return Markup(about).format(**values)  # noqa: S704 -- our own file


def _in(key: str, language: Language) -> str:
    return key if language == "en" else f"{key}_{language}"


def section(
    anchor: str, blocks: Sequence[Block], title: str = "", language: Language = "en", **values: object
) -> PageSection:
    """Return a section of `sections.yaml`; values: of its explanation, which comes first."""
    known = read_yaml("templates/sections.yaml")[anchor]
    about = [explain(anchor, language, **values)] if "about" in known else []
    folded, short = known.get("folded", False), known.get("short", "")
    return PageSection(anchor, title or known[_in("title", language)], [*about, *blocks], short, folded)


def plain_text(text: str) -> str:
    return text.striptags() if isinstance(text, Markup) else text


def bold(text: str) -> Markup:
    return Markup("<b>{}</b>").format(text)


def link(text: str, address: str | None) -> str:
    return Markup('<a href="{}">{}</a>').format(address, text) if address else text
