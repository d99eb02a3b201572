"""Reranks the first candidates by a cross-encoder, which reads question and passage together."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from assets.chunking.sentence_splitter import sentences
from evals.retrieving.around import Around
from evals.retrieving.context import LoadedModels, RetrievalContext
from evals.retrieving.contract import OpenStep, Step
from evals.retrieving.delivering import passages
from evals.retrieving.index import OpenIndex
from evals.retrieving.query import Kind, Query
from evals.retrieving.ranking import Ranking, Scores, nothing
from warehouse.errors import InputError
from warehouse.identity import digest, sha256_file
from warehouse.recipe import Strict

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder as Model

DECIMALS = 6  # of a score that are kept: below them, it hangs on what else is in the batch


class _Reading(Strict):
    """What the step and the retriever have in common.

    model: a folder with a sentence-transformers CrossEncoder, or its name on the Hugging Face hub
    revision: of a model of the hub: the commit, so that the same weights are loaded again
    n: how many candidates are read, the first ones; those after them are left out
    over: passages, or their sentences, of which `pool` makes the score of the passage
    pool: max (one sentence answers it) | mean
    batch_size: pairs of question and text that are read together; changes no score
    max_length: tokens of question and text together that are read, at most as many as the model has places
    """

    model: Annotated[str, Field(min_length=1)]
    revision: str | None = None
    n: Annotated[int, Field(ge=1, le=1_000)] = 50
    over: Literal["passages", "sentences"] = "passages"
    pool: Literal["max", "mean"] = "max"
    batch_size: Annotated[int, Field(ge=1, le=1_024)] = 32
    max_length: Annotated[int, Field(ge=16, le=32_768)] = 512

    @model_validator(mode="after")
    def _names_weights(self) -> _Reading:
        is_path = self.model.startswith(("/", ".", "~")) or self.folder.is_dir()
        if is_path and not self.folder.is_dir():
            raise ValueError(f"there is no folder {self.folder} with a cross-encoder")
        if is_path and not (self.folder / "config.json").is_file():
            raise ValueError(f"{self.folder} holds no cross-encoder: it has no config.json")
        if not is_path and self.revision is None:
            raise ValueError(
                f"`{self.model}` is no folder; a model of the hub needs its `revision` (the commit), "
                "so that the same weights are loaded again"
            )
        return self

    @property
    def folder(self) -> Path:
        """The model as a folder; relative paths start from the working folder."""
        return Path(self.model).expanduser()

    def weights(self) -> str:
        """Return the digest of the model's files, or its name and revision on the hub."""
        if not self.folder.is_dir():
            return digest([self.model, self.revision])
        files = sorted(path for path in self.folder.rglob("*") if path.is_file())
        return digest([[str(path.relative_to(self.folder)), _sha256(path)] for path in files])


def _mean(values: list[float]) -> float:
    return round(sum(values) / len(values), DECIMALS)


class CrossEncoder(_Reading, Step):
    """Re-ranks the first n passages by a cross-encoder (Nogueira and Cho, 2019, arXiv:1901.04085)."""

    kind: ClassVar[str] = "cross_encoder"
    code_version: ClassVar[str] = "2"
    role: ClassVar[Kind] = "rerank"
    costly: ClassVar[bool] = True

    def versions(self) -> list[str]:
        """Return its code version and the digest of its weights."""
        return [self.code_version, self.weights()]

    def open(self, index: OpenIndex, context: RetrievalContext) -> OpenStep:
        """Keep the first n, in the order of their new scores."""
        models = context.models
        return OpenStep(lambda ranking, query: self._reranked(ranking, query, index, models))

    def _reranked(self, ranking: Ranking, query: Query, index: OpenIndex, models: LoadedModels) -> Ranking:
        """Score the first n candidates anew and sort them."""
        if not len(ranking) or not query.text.strip():
            return nothing()
        first = ranking.take(slice(self.n))
        model = models.get(load, self.model, self.revision, self.max_length)
        # A question that is longer than any model reads is cut before it is tokenised for every passage.
        scores = self._scores(model, query.text[: 32 * self.max_length], passages(first, index))
        order = np.lexsort((first.rows, -scores))
        return replace(first.take(order), scores=scores[order])

    def _scores(self, model: Model, question: str, texts: list[str]) -> Scores:
        parts = (
            [sentences(text) or [text] for text in texts]
            if self.over == "sentences"
            else [[t] for t in texts]
        )
        # Each distinct text once: equal ones tie, wherever in a batch they would have come.
        distinct = sorted({part for of_passage in parts for part in of_passage})
        found = model.predict(
            [(question, part) for part in distinct], batch_size=self.batch_size, show_progress_bar=False
        )
        known = dict(zip(distinct, np.round(np.asarray(found, np.float64), DECIMALS), strict=True))
        pool = max if self.pool == "max" else _mean
        scores = np.array(
            [pool([float(known[part]) for part in of_passage]) for of_passage in parts], np.float64
        )
        if not np.isfinite(scores).all():
            raise ValueError(f"the cross-encoder {self.model} returned a score that is no number")
        return scores


class CrossEncoded(_Reading, Around):
    """Another retriever's first n passages, re-ranked by a cross-encoder.

    of: the retriever; its `k` should be at least `n`
    """

    kind: ClassVar[str] = "cross_encoder"

    @property
    def step(self) -> CrossEncoder:
        """The step that reads the passages."""
        return CrossEncoder(**{name: getattr(self, name) for name in _Reading.model_fields})


def load(model: str, revision: str | None, max_length: int) -> Model:
    """Load a cross-encoder with one output; it reads ``max_length`` tokens, or as many as it has places.

    Raises:
        InputError: the files are no cross-encoder, or it gives more than one score.
    """
    if Path(model).expanduser().is_dir():
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
    logging.getLogger("sentence_transformers").setLevel(logging.WARNING)
    from sentence_transformers import CrossEncoder as Model
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        found = Model(str(Path(model).expanduser()), revision=revision)
    except Exception as error:  # a torn file of weights has an error class of its own library
        raise InputError(f"the cross-encoder {model} cannot be loaded: {error}") from error
    if found.config.num_labels != 1:
        raise InputError(
            f"{model} gives {found.config.num_labels} scores for a pair; one that ranks gives one"
        )
    found.max_seq_length = min(max_length, found.max_seq_length or max_length, *_places(found))
    return found


def _places(model: Model) -> list[int]:
    """Return how many tokens each table of positions has room for; RoBERTa's begin after its padding."""
    tables = [part for name, part in model.named_modules() if name.endswith("position_embeddings")]
    return [
        table.num_embeddings - (0 if table.padding_idx is None else table.padding_idx + 1)
        for table in tables
        if hasattr(table, "num_embeddings")
    ]


@lru_cache(maxsize=256)
def _sha256_of(path: Path, size: int, changed: int) -> str:
    return sha256_file(path)


def _sha256(path: Path) -> str:
    facts = path.stat()
    return _sha256_of(path, facts.st_size, facts.st_mtime_ns)
