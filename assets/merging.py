"""What several studies build together: their recipes by name, which mean the same in all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from assets.embedding.embedder import EmbedderRecipe
from assets.recipes import BuildHalf, Chunking, Corpus
from warehouse.source import Source


@dataclass(frozen=True)
class Build:
    """All that is to be built, for all studies together.

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
            build.chunkings.update(half.chunkings)
            build.embedders.update(half.embedders)
            for key in indexes:
                corpus, chunking, embedder = key.split(".")
                build.chunk_sets[f"{corpus}.{chunking}"] = (corpus, chunking)
                build.indexes[key] = (corpus, chunking, embedder)
        return build


def _absolute(source: Source, base: Path) -> Source:
    """Return the source with its path resolved: what a child process with another working folder reads."""
    if source.path is None:
        return source
    given = Path(source.path).expanduser()
    beside = (base / given).resolve()
    path = (
        given
        if given.is_absolute()
        else given.resolve()
        if given.exists() and not beside.exists()
        else beside
    )
    return source.model_copy(update={"path": str(path)})
