"""SciFact in BEIR's layout as an index and two sets of questions, for `benchmarks/scifact.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from assets.cleaning.plain import clean_beir
from assets.embedding.cached import CachedEmbedder
from assets.embedding.embedder import EmbedderRecipe
from assets.indexing import index_table
from assets.indexing.index_facts import read_facts
from assets.indexing.index_rows import HeldRows
from crawlers.reading.beir import Beir
from evals.gold.reading.beir import read_beir
from evals.measuring.contract import Gold
from evals.measuring.ndcg import Ndcg
from evals.retrieving.clock import Clock
from evals.retrieving.context import RetrievalContext, TextEmbedder
from evals.retrieving.index import OpenIndex
from evals.retrieving.query import Query
from evals.retrieving.ranking import Ranking
from evals.retrieving.tuning import TrainQuestion, Worth, apart
from warehouse.errors import CorruptFileError
from warehouse.parquet import frame
from warehouse.paths import Home
from warehouse.schemas import CHUNKS, QUESTIONS
from warehouse.source import Source

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
