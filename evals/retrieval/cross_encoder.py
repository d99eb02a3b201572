"""Reranks the first candidates by a cross-encoder, which reads question and passage together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from rag_assay.assets.chunking.sentence_splitter import sentences
from rag_assay.evals.retrieval.chain import Around
from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.retrieval.contract import IndexStep
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.passage_steps import passages
from rag_assay.evals.retrieval.query import Kind, Query
from rag_assay.evals.retrieval.ranking import Ranking, Scores, nothing
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.inference.cross_encoders import PairModel, load_pair_model

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder as Model

DECIMALS = 6  # of a score that are kept: below them, it depends on what else is in the batch


class _Reading(PairModel):
    """What the step and the retriever have in common.

    n: how many candidates are read, the first ones; those after them are left out
    over: passages, or their sentences, of which `pool` makes the score of the passage
    pool: max (one sentence answers it) | mean
    batch_size: pairs of question and text that are read together; changes no score
    max_length: tokens of question and text together that are read, at most as many as the model has places
    """

    n: Annotated[int, Field(ge=1, le=1_000)] = 50
    over: Literal["passages", "sentences"] = "passages"
    pool: Literal["max", "mean"] = "max"
    batch_size: Annotated[int, Field(ge=1, le=1_024)] = 32
    max_length: Annotated[int, Field(ge=16, le=32_768)] = 512


def _mean(values: list[float]) -> float:
    return round(sum(values) / len(values), DECIMALS)


class CrossEncoder(_Reading, IndexStep):
    """Re-ranks the first n passages by a cross-encoder (Nogueira and Cho, 2019, arXiv:1901.04085)."""

    kind: ClassVar[str] = "cross_encoder"
    code_version: ClassVar[str] = "3"
    role: ClassVar[Kind] = "rerank"
    costly: ClassVar[bool] = True

    def versions(self) -> list[str]:
        return [self.code_version, self.weights()]

    def apply(self, ranking: Ranking, query: Query, index: OpenIndex, context: RetrievalContext) -> Ranking:
        if not len(ranking) or not query.text.strip():
            return nothing()
        first = ranking.take(slice(self.n))
        model = context.models.get(load, self.model, self.revision, self.max_length)
        # A question that is longer than any model reads is cut before it is tokenised for every passage.
        scores = self._scores(model, query.text[: 32 * self.max_length], passages(first, index))
        order = np.lexsort((first.rows, -scores))
        return replace(first.take(order), scores=scores[order])

    def _scores(self, model: Model, question: str, texts: list[str]) -> Scores:
        by_sentence = self.over == "sentences"
        parts = [(sentences(text) if by_sentence else []) or [text] for text in texts]
        # Each distinct text once: equal ones tie, wherever in a batch they would have come.
        distinct = sorted({part for of_passage in parts for part in of_passage})
        found = model.predict(
            [(question, part) for part in distinct], batch_size=self.batch_size, show_progress_bar=False
        )
        known = dict(zip(distinct, np.round(np.asarray(found, np.float64), DECIMALS), strict=True))
        pool = max if self.pool == "max" else _mean
        pooled = [pool([float(known[part]) for part in of_passage]) for of_passage in parts]
        scores = np.array(pooled, np.float64)
        if not np.isfinite(scores).all():
            raise ValueError(f"the cross-encoder {self.model} returned a score that is not a number")
        return scores


class CrossEncoded(_Reading, Around):
    """Another retriever's first n passages, re-ranked by a cross-encoder.

    of: the retriever; its `k` should be at least `n`
    """

    kind: ClassVar[str] = "cross_encoder"

    @property
    def step(self) -> CrossEncoder:
        return CrossEncoder(**{name: getattr(self, name) for name in _Reading.model_fields})


def load(model: str, revision: str | None, max_length: int) -> Model:
    found = load_pair_model(model, revision, max_length)
    if found.config.num_labels != 1:
        raise InputError(
            f"{model} gives {found.config.num_labels} scores for a pair; one that ranks gives one"
        )
    return found
