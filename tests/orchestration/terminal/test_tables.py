"""Tables of a page on a terminal."""

from __future__ import annotations

import pytest
from rich.console import Console

from rag_assay.evals.reporting.sections import Column, Table, numbers
from rag_assay.orchestration.terminal.page_view import block_lines

TABLE = Table(
    "Results",
    [
        Column("result"),
        Column("leader"),
        *numbers("Evidence coverage in 2,000 tokens", "tied"),
        Column("why"),
    ],
    [("@0", "articles · bilingual · extractive", "0.848", "19", "the first that is known " * 4)],
)


@pytest.mark.parametrize("width", [60, 100])
def test_no_word_and_no_number_is_broken_where_there_is_room(width: int) -> None:
    out = Console(width=width, record=True)
    for line in block_lines(TABLE):
        out.print(line)
    words = set(out.export_text().split())
    assert {
        "@0",
        "articles",
        "bilingual",
        "extractive",
        "0.848",
        "coverage",
        "tokens",
        "tied",
        "known",
    } <= words
