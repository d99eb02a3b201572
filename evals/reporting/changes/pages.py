"""A page of sections with tables, written as HTML, as Markdown, or for a terminal to show."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from rag_assay.evals.reporting import display
from rag_assay.evals.reporting.markdown import escape_markdown, markdown_table
from rag_assay.evals.reporting.page import join_files, policy, templates

Labels = Callable[[str], str]


def labels_of(cells: Collection[str]) -> Labels:
    """Return what writes a cell's key by the axes on which these cells differ, by all where there is one.

    >>> label = labels_of(["s.t.e.bm25.g", "s.t.e.dense.g", "s.u.e.dense.g"])
    >>> label("s.u.e.bm25.g")
    'u · bm25'
    """
    axes = [cell.split(".")[1:] for cell in cells]
    width = max(map(len, axes), default=0)
    differing = [at for at in range(width) if len({tuple(one[at : at + 1]) for one in axes}) > 1]

    def label(cell: str) -> str:
        parts = cell.split(".")[1:]
        shown = [parts[at] for at in differing if at < len(parts)] or parts
        return " · ".join(shown)

    return label


@dataclass(frozen=True)
class PageTable:
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
class PageSection:
    """A heading with sentences, tables and folds; ``chart`` is an SVG of ours, texts escaped."""

    heading: str
    sentences: tuple[str, ...] = ()
    grids: tuple[PageTable, ...] = ()
    folds: tuple[Fold, ...] = ()
    chart: Markup | None = None


@dataclass(frozen=True)
class ChangePage:
    """A title with a lead, and sections."""

    title: str
    kicker: str
    lead: tuple[str, ...]
    sections: tuple[PageSection, ...] = field(default_factory=tuple)


def as_html(page: ChangePage) -> str:
    """Return a page as one HTML file in the style of the report, without a script or an outside resource."""
    style = join_files("styles")
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


def as_markdown(page: ChangePage) -> str:
    """Return a page as Markdown; whatever its texts hold is shown as it is."""
    parts = [f"# {escape_markdown(page.title)}", *map(escape_markdown, page.lead)]
    for section in page.sections:
        parts += [f"## {escape_markdown(section.heading)}", *map(escape_markdown, section.sentences)]
        parts += [markdown_table(grid.head, grid.rows) for grid in section.grids]
        parts += [_fold(fold) for fold in section.folds]
    return "\n\n".join(parts) + "\n"


def _fold(fold: Fold) -> str:
    lines = [f"- {escape_markdown(fold.title)}"]
    lines += [f"  - {escape_markdown(label)}: {escape_markdown(text)}" for label, text in fold.parts]
    return "\n".join(lines)


def truncate_page(page: ChangePage, rows: int, option: str) -> ChangePage:
    """Return a page whose tables and lists have at most so many rows, and say where there are more."""

    def cut(section: PageSection) -> PageSection:
        left = sum(max(0, len(grid.rows) - rows) for grid in section.grids)
        left += max(0, len(section.folds) - rows)
        grids = tuple(PageTable(g.head, g.rows[:rows], g.numbers, g.caption) for g in section.grids)
        more = (f"{display.several(left, 'further row')}: {option}",) if left else ()
        return PageSection(
            section.heading, (*section.sentences, *more), grids, section.folds[:rows], section.chart
        )

    return ChangePage(page.title, page.kicker, page.lead, tuple(map(cut, page.sections)))


def table_of(head: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int] = ()) -> PageTable:
    return PageTable(tuple(head), tuple(tuple(row) for row in rows), frozenset(numbers))
