"""Chunkers: one file each. A chunker is a recipe: its fields are the parameters in a study file."""

from __future__ import annotations

from rag_assay.assets.chunking.contract import Chunker, ChunkerInput, ChunkSpan, Section, Tools
from rag_assay.warehouse.registry import Registry

CHUNKERS: Registry[Chunker] = Registry("chunkers", Chunker)
CHUNKERS.add_places(
    "rag_assay.assets.chunking",
    tokens="tokens:TokenWindows",
    recursive="recursive:Recursive",
    sentences="sentences:SentenceChunker",
    structure="structure:Structure",
    semantic="semantic:Semantic",
    document="document:WholeDocument",
    sentence_window="sentence_window:SentenceWindow",
    parent="parent:Parent",
)

__all__ = ["CHUNKERS", "ChunkSpan", "Chunker", "ChunkerInput", "Section", "Tools"]
