"""Names of cells on the pages of changes, and tables that are cut for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from rag_assay.evals.reporting.display import several
from rag_assay.evals.reporting.sections import Block, Details, PageSection, Table, TitledPage

Labels = Callable[[str], str]


def labels_of(cells: Collection[str]) -> Labels:
    """Return a function that names a cell by the axes on which these cells differ; a single one by all.

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


def truncate_page(page: TitledPage, rows: int, option: str) -> TitledPage:
    """Keep at most ``rows`` rows a table and details a section, and count the rest."""

    def cut(section: PageSection) -> PageSection:
        kept: list[Block] = []
        left = folds = 0
        for block in section.blocks:
            if isinstance(block, Table):
                left += max(0, len(block.rows) - rows)
                kept.append(replace(block, rows=block.rows[:rows]))
            elif isinstance(block, Details) and folds == rows:
                left += 1
            else:
                folds += isinstance(block, Details)
                kept.append(block)
        more = [f"{several(left, 'further row')}: {option}"] if left else []
        return replace(section, blocks=[*more, *kept])

    return replace(page, sections=[cut(one) for one in page.sections])
