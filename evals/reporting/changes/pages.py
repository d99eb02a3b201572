"""A page of sections with tables, written as HTML, as Markdown, or for a terminal to show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from evals.reporting import display
from evals.reporting.github import markdown_table
from evals.reporting.markdown import escaped
from evals.reporting.page import joined, policy, templates


@dataclass(frozen=True)
class Grid:
    """A table: all cells are plain text; ``numbers`` are the columns that are set to the right."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[int] = frozenset()
    caption: str = ""


@dataclass(frozen=True)
class Fold:
    """A detail that a reader may open: what stood before and stands now, in paragraphs."""

    title: str
    parts: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Section:
    """A heading with sentences, tables and folds; ``chart`` is an SVG of ours, texts escaped."""

    heading: str
    sentences: tuple[str, ...] = ()
    grids: tuple[Grid, ...] = ()
    folds: tuple[Fold, ...] = ()
    chart: Markup | None = None


@dataclass(frozen=True)
class Page:
    """A title with a lead, and sections."""

    title: str
    kicker: str
    lead: tuple[str, ...]
    sections: tuple[Section, ...] = field(default_factory=tuple)


def as_html(page: Page) -> str:
    """Return a page as one HTML file in the style of the report, without a script or an outside resource."""
    style = joined("styles")
    html = (
        templates()
        .get_template("changes.html")
        .render(
            page=page,
            style=Markup(style),  # noqa: S704 -- our own files, no data in them
            policy=policy(style, ""),
        )
    )
    return display.plain(html)


def as_markdown(page: Page) -> str:
    """Return a page as Markdown; whatever its texts hold is shown as it is."""
    parts = [f"# {escaped(page.title)}", *map(escaped, page.lead)]
    for section in page.sections:
        parts += [f"## {escaped(section.heading)}", *map(escaped, section.sentences)]
        parts += [markdown_table(grid.head, grid.rows) for grid in section.grids]
        parts += [_fold(fold) for fold in section.folds]
    return "\n\n".join(parts) + "\n"


def _fold(fold: Fold) -> str:
    lines = [f"- {escaped(fold.title)}"]
    lines += [f"  - {escaped(label)}: {escaped(text)}" for label, text in fold.parts]
    return "\n".join(lines)


def shortened(page: Page, rows: int, option: str) -> Page:
    """Return a page whose tables and lists have at most so many rows, and say where there are more."""

    def cut(section: Section) -> Section:
        left = sum(max(0, len(grid.rows) - rows) for grid in section.grids)
        left += max(0, len(section.folds) - rows)
        grids = tuple(Grid(g.head, g.rows[:rows], g.numbers, g.caption) for g in section.grids)
        more = (f"{display.several(left, 'further row')}: {option}",) if left else ()
        return Section(
            section.heading, (*section.sentences, *more), grids, section.folds[:rows], section.chart
        )

    return Page(page.title, page.kicker, page.lead, tuple(map(cut, page.sections)))


def table_of(head: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int] = ()) -> Grid:
    """Return a table of sequences."""
    return Grid(tuple(head), tuple(tuple(row) for row in rows), frozenset(numbers))
