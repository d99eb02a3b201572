"""Semantic chunking: cut where neighbouring groups of sentences differ most (Greg Kamradt, "5 Levels Of Text
Splitting", 2024, level 4; thresholds as `SemanticChunker` of langchain-experimental).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, ClassVar, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import Field, field_validator, model_validator

from rag_assay.assets.chunking.contract import Chunker, ChunkerInput, ChunkSpan, Tools
from rag_assay.assets.chunking.ruler import fit_chunks, fits
from rag_assay.assets.chunking.sentences import Units

Floats: TypeAlias = "npt.NDArray[np.float64]"
Breakpoint = Literal["percentile", "standard_deviation", "interquartile", "gradient"]

AMOUNTS: dict[str, float] = {"percentile": 90, "standard_deviation": 3, "interquartile": 1.5, "gradient": 90}


class Semantic(Chunker):
    """Neighbouring sentences that are about the same, up to a limit.

    embedding_model: a name of the model registry (`assay models list`)
    buffer: sentences on each side that a sentence is embedded with
    breakpoint: how the threshold follows from a document's distances; they exceed it at
        percentile: their percentile `amount` (90)
        standard_deviation: mean + `amount` (3) standard deviations
        interquartile: mean + `amount` (1.5) x the interquartile range
        gradient: the percentile `amount` (90) of the slope of the distances, which is what must exceed it
    amount: 0 to 100 for percentile and gradient, else greater than 0; the number in brackets unless given
    limit: most tokens of a chunk as the embedder reads it, special tokens counted; a longer one is cut
        between sentences, and a longer sentence as `recursive` does
    """

    kind: ClassVar[str] = "semantic"
    code_version: ClassVar[str] = "3"

    model: str = Field("all-MiniLM-L6-v2", alias="embedding_model")
    buffer: Annotated[int, Field(ge=0, le=20)] = 2
    breakpoint: Breakpoint = "percentile"
    amount: Annotated[float, Field(ge=0)] | None = None
    limit: Annotated[int, Field(ge=16, le=8192)] = 256

    @field_validator("model")
    @classmethod
    def _is_an_embedder(cls, name: str) -> str:
        from rag_assay.warehouse.inference import models

        known = [model.name for model in models.known() if model.kind == "embedder"]
        if name not in known:
            raise ValueError(f"unknown embedding model {name!r}; known are {', '.join(known)}")
        return name

    @model_validator(mode="after")
    def _amount_suits(self) -> Self:
        percent = self.breakpoint in {"percentile", "gradient"}
        if self.amount is not None and percent and self.amount > 100:
            raise ValueError(f"amount ({self.amount:g}) is a percentile for {self.breakpoint}: 0 to 100")
        if self.amount is not None and not percent and self.amount <= 0:
            raise ValueError(f"amount ({self.amount:g}) must be greater than 0 for {self.breakpoint}")
        return self

    @property
    def embedding_model(self) -> str | None:
        return self.model

    def split(self, material: ChunkerInput, tools: Tools) -> list[ChunkSpan]:
        return self.split_many([material], tools)[0]

    def split_many(self, materials: Sequence[ChunkerInput], tools: Tools) -> list[list[ChunkSpan]]:
        size = self.limit - tools.tokenizer.special_tokens
        cut = self._cut(materials, tools, size)
        return [
            spans
            if fits(spans, size)
            else fit_chunks(partial(self._alone, one, tools), size, tools.tokenizer)
            for one, spans in zip(materials, cut, strict=True)
        ]

    def _alone(self, material: ChunkerInput, tools: Tools, size: int) -> list[ChunkSpan]:
        return self._cut([material], tools, size)[0]

    def _cut(self, materials: Sequence[ChunkerInput], tools: Tools, size: int) -> list[list[ChunkSpan]]:
        if tools.embed is None:
            raise ValueError("semantic chunking needs Tools.embed")
        units = [Units(material.text, tools.tokenizer, size) for material in materials]
        groups = [sentence_groups(one, self.buffer) for one in units]
        texts = [text for group in groups for text in group]
        vectors = tools.embed(texts) if texts else np.zeros((0, 1), np.float32)
        found, done = [], 0
        for one, group in zip(units, groups, strict=True):
            distances = neighbour_distances(vectors[done : done + len(group)])
            done += len(group)
            ends = [*breakpoints(distances, self.breakpoint, self.amount), len(one.places)]
            places = []
            for first, after in zip([0, *ends[:-1]], ends, strict=True):
                places += one.packed(first, after, size)
            found.append(one.ruler.spans(places))
        return found


def sentence_groups(units: Units, buffer: int) -> list[str]:
    places, text = units.places, units.ruler.text
    if len(places) < 2:
        return []
    last = len(places) - 1
    return [
        " ".join(text[places[max(0, n - buffer)][0] : places[min(last, n + buffer)][1]].split())
        for n in range(len(places))
    ]


def neighbour_distances(vectors: npt.NDArray[np.float32]) -> Floats:
    """Return 1 - cosine of each unit vector and the next, shape (vectors - 1,), rounded."""
    cosines = np.einsum("ij,ij->i", vectors[:-1].astype(np.float64), vectors[1:].astype(np.float64))
    return np.round(1 - cosines, 5)


def breakpoints(distances: Floats, kind: Breakpoint, amount: float | None = None) -> list[int]:
    """Return the numbers of the sentences that begin a chunk, the first one aside.

    >>> breakpoints(np.array([0.1, 0.2, 0.8, 0.1]), "percentile", 75)
    [3]
    """
    if len(distances) < 2:  # of one distance there is no slope, and nothing to compare it with
        return []
    value = AMOUNTS[kind] if amount is None else amount
    if kind == "percentile":
        found, threshold = distances, np.percentile(distances, value)
    elif kind == "standard_deviation":
        found, threshold = distances, distances.mean() + value * distances.std()
    elif kind == "interquartile":
        low, high = np.percentile(distances, [25, 75])
        found, threshold = distances, distances.mean() + value * (high - low)
    else:
        found = np.gradient(distances)
        threshold = np.percentile(found, value)
    return (np.flatnonzero(found > threshold) + 1).tolist()
