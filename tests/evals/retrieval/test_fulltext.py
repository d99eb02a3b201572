from __future__ import annotations

import unicodedata
from pathlib import Path

import numpy as np
import pytest

from rag_assay.evals.retrieval import lancedb_hybrid as fulltext
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.lancedb_hybrid import FullText
from tests.fakes.indexing import build_index, query, searched


def test_words_are_stemmed_and_stop_words_left_out(tmp_path: Path) -> None:
    index = build_index(tmp_path, ["Tickets are sold here.", "The keeper of the lamp.", "Quay"])
    assert searched(FullText(), query("TICKET selling"), index).rows.tolist() == [0]
    assert not len(searched(FullText(), query("the of are"), index).rows)


def test_a_question_in_parts_of_letters_finds_what_the_composed_one_finds(tmp_path: Path) -> None:
    index = build_index(tmp_path, ["Die Fähre legt ab.", "Quay"])
    assert searched(FullText(), query(unicodedata.normalize("NFD", "Fähre")), index).rows.tolist() == [0]


def test_ties_that_the_search_cut_off_are_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LanceDB does not promise which of many equal chunks it returns: here, the last ones."""
    index = build_index(tmp_path, ["quay"] * 300)
    limits = []

    def last_ones(
        text: str, limit: int, index: OpenIndex, where: str | None
    ) -> tuple[np.ndarray, np.ndarray]:
        limits.append(limit)
        rows = np.arange(len(index))[-limit:]
        return rows, np.ones(len(rows))

    monkeypatch.setattr(fulltext, "_search", last_ones)
    assert searched(FullText(k=3), query("quay"), index).rows.tolist() == [0, 1, 2]
    assert limits == [53, 212, 848]
