from __future__ import annotations

import numpy as np
import pytest

from rag_assay.assets.indexing.lexical import lexical_of
from rag_assay.evals.retrieval import index as module
from rag_assay.evals.retrieval.analyzer import Analyzer, merge_forms, with_titles
from rag_assay.evals.retrieval.index import count_forms

TEXTS = ["the studies of ferries", "a study: the ferry", "", "Quays, quay and the quay's", "of the", "noon"]
TITLES = ["Ferries", "", "Quays at noon", "Ferries", "Studying", ""]
ANALYZERS = [Analyzer(), Analyzer("stemmed"), Analyzer("lemmatised", "english", functional=False)]


@pytest.mark.parametrize("analyzer", ANALYZERS)
@pytest.mark.parametrize("times", [0, 1, 3])
@pytest.mark.parametrize("merged", [1, 4, 1_000])
def test_in_files_words_are_counted_as_in_memory(
    analyzer: Analyzer, times: int, merged: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RANGE", merged)
    texts, titles = lexical_of(TEXTS), lexical_of(TITLES) if times else None
    plain = texts if titles is None else with_titles(texts, titles, times)
    expected = merge_forms(plain, analyzer)
    for held in (0, 10**6):
        found = count_forms(texts, titles, times, analyzer, held)
        assert found.words == expected.words
        for name in ("begins", "rows", "counts", "lengths"):
            one, other = getattr(found, name), getattr(expected, name)
            assert (one.dtype, one.tolist()) == (other.dtype, other.tolist()), name
        mapped = isinstance(found.rows, np.memmap)
        assert mapped == (held == 0 and not (analyzer.as_they_stand and not times))
