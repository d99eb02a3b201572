"""Merges the build halves of several studies; one name must mean the same recipe in all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rag_assay.assets.embedding.embedder import EmbedderRecipe
from rag_assay.assets.recipes.build_half import BuildHalf, Chunking, Corpus
from rag_assay.assets.recipes.paths import absolute
from rag_assay.warehouse.source import Source


@dataclass(frozen=True)
class Build:
    """All that is to be built, for all studies together.

    chunkings, embedders: by their names; where a name means something else in another corpus, with the name
        of the corpus before it
    chunk_sets: (corpus, chunking) pairs; indexes: (corpus, chunking, embedder) triples
    """

    sources: dict[str, Source] = field(default_factory=dict)
    corpora: dict[str, Corpus] = field(default_factory=dict)
    chunkings: dict[str, Chunking] = field(default_factory=dict)
    embedders: dict[str, EmbedderRecipe] = field(default_factory=dict)
    chunk_sets: dict[str, tuple[str, str]] = field(default_factory=dict)
    indexes: dict[str, tuple[str, str, str]] = field(default_factory=dict)

    @staticmethod
    def of(halves: Sequence[tuple[BuildHalf, Sequence[str], Path]]) -> Build:
        """Merge build halves, each with the keys of its study's indexes and the folder of its paths."""
        build = Build()
        for half, indexes, base in halves:
            build.corpora[half.corpus.name] = half.corpus
            for name in half.corpus.sources:
                build.sources[name] = _absolute(half.sources[name], base)
            chunkings = _added(build.chunkings, half.chunkings, half.corpus.name)
            embedders = _added(build.embedders, half.embedders, half.corpus.name)
            for key in indexes:
                corpus, chunking, embedder = key.split(".")
                build.chunk_sets[f"{corpus}.{chunking}"] = (corpus, chunkings[chunking])
                build.indexes[key] = (corpus, chunkings[chunking], embedders[embedder])
        return build


def _added(known: dict[str, Any], recipes: Mapping[str, Any], corpus: str) -> dict[str, str]:
    """Add recipes to those that are known; return the name by which each of them is found there."""
    names = {
        name: name if known.get(name, recipe) == recipe else f"{corpus}.{name}"
        for name, recipe in recipes.items()
    }
    known.update({names[name]: recipe for name, recipe in recipes.items()})
    return names


def _absolute(source: Source, base: Path) -> Source:
    """Return the source with its path resolved: what a child process with another working folder reads."""
    if source.path is None:
        return source
    return source.model_copy(update={"path": str(absolute(source.path, base))})
