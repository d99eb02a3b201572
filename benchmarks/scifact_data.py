"""SciFact in BEIR's layout as an index and two sets of questions, for `benchmarks/scifact.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rag_assay.assets.cleaning.text_files import clean_beir
from rag_assay.assets.embedding.cached_embedder import CachedEmbedder
from rag_assay.assets.embedding.embedder import EmbedderRecipe
from rag_assay.assets.indexing import index_table
from rag_assay.assets.indexing.index_recipe import read_facts
from rag_assay.crawlers.readers.beir import Beir
from rag_assay.evals.metrics.contract import Gold
from rag_assay.evals.metrics.ranking_metrics import Ndcg
from rag_assay.evals.question_sets.readers.beir import read_beir
from rag_assay.evals.retrieval.clock import Clock
from rag_assay.evals.retrieval.context import RetrievalContext, TextEmbedder
from rag_assay.evals.retrieval.fusion_tuning import TrainQuestion, Worth, apart
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Query
from rag_assay.evals.retrieval.ranking import Ranking
from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.parquet import frame
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import CHUNKS, QUESTIONS
from rag_assay.warehouse.source import Source
from tests.fakes.indexing import HeldRows

MINILM = EmbedderRecipe(model="all-MiniLM-L6-v2", max_tokens=256, overflow="truncate")


@dataclass(frozen=True)
class Questions:
    """The questions of one split, as they are asked, and what they should find.

    worths: what a ranking is worth to each question: nDCG@10, by the product's own metric
    """

    queries: list[Query]
    worths: list[Worth]

    def ndcg(self, rankings: Sequence[Ranking]) -> float:
        """Return the mean nDCG@10."""
        pairs = zip(rankings, self.worths, strict=True)
        return float(np.mean([worth.of(ranking.take(slice(10))) for ranking, worth in pairs]))

    def with_arms(self, arms: Sequence[Sequence[Ranking]]) -> list[TrainQuestion]:
        """Join the rankings of several arms for `choose_weights`."""
        return [
            TrainQuestion(rankings, worth)
            for rankings, worth in zip(zip(*arms, strict=True), self.worths, strict=True)
        ]


@dataclass(frozen=True)
class SciFact:
    """The index of whole abstracts, what searchers of it may use, and the questions of both splits."""

    index: OpenIndex
    context: RetrievalContext
    train: Questions
    test: Questions


def read(folder: Path, home: Home) -> SciFact:
    """Open the index, and build it first where it is not there (some minutes of embedding)."""
    place = home.root / "bench" / "scifact" / MINILM.revision()
    embedder = CachedEmbedder(MINILM, home)
    try:
        read_facts(place)
    except CorruptFileError:
        _build(folder, place, embedder)
    index = OpenIndex(place)
    context = RetrievalContext(embed=TextEmbedder(embedder, Clock()))
    test = read_beir(folder, "test", "scifact")
    # Two of the train questions are test questions under another id: nothing may be chosen on them.
    written = read_beir(folder, "train", "scifact")
    own = apart(frame(written, QUESTIONS), frame(test, QUESTIONS))["question_id"].to_list()
    train = [row for row in written if row["question_id"] in own]
    return SciFact(index, context, *(_questions(split, embedder, index) for split in (train, test)))


def _build(folder: Path, place: Path, embedder: CachedEmbedder) -> None:
    pages = Beir().read(Source.model_validate({"reader": "beir", "path": str(folder)}))
    drafts = {page.url: clean_beir(page.body) for page in pages if page.body}
    texts = [draft.text for draft in drafts.values()]
    print(f"embedding {len(texts)} abstracts ...")
    vectors = embedder.passages(texts).vectors
    rows: list[dict[str, object]] = [
        {
            **{"chunk_id": url, "doc_id": url, "doc_version": "1", "ordinal": 0, "start": 0, "gap": ""},
            **{
                "end": len(draft.text),
                "text": draft.text,
                "context_start": 0,
                "context_end": len(draft.text),
            },
            **{"prefix": "", "n_tokens": len(draft.text.split()), "title": draft.title, "url": url},
        }
        for url, draft in drafts.items()
    ]
    index_table.build(place, HeldRows(frame(rows, CHUNKS), vectors))


def _questions(found: list[dict[str, Any]], embedder: CachedEmbedder, index: OpenIndex) -> Questions:
    vectors = embedder.queries([row["question"] for row in found]).vectors
    queries = [Query(row["question"], vector) for row, vector in zip(found, vectors, strict=True)]
    golds = [Gold({item["url"]: int(item["grade"]) for item in row["evidence"]}) for row in found]
    return Questions(queries, [Worth(Ndcg(10), gold, index) for gold in golds])
