"""Chunkers: one file each. A chunker is a recipe: its fields are the parameters in a study file."""

from __future__ import annotations

from rag_assay.assets.chunking.contract import Chunker, ChunkerInput, ChunkSpan, Section, Tools
from rag_assay.assets.chunking.document import WholeDocument
from rag_assay.assets.chunking.parent import Parent
from rag_assay.assets.chunking.recursive import Recursive
from rag_assay.assets.chunking.semantic import Semantic
from rag_assay.assets.chunking.sentence_window import SentenceWindow
from rag_assay.assets.chunking.sentences import SentenceChunker
from rag_assay.assets.chunking.structure import Structure
from rag_assay.assets.chunking.tokens import TokenWindows
from rag_assay.warehouse.registry import Registry

CHUNKERS: Registry[Chunker] = Registry("chunkers", Chunker)
CHUNKERS.add(
    TokenWindows, Recursive, SentenceChunker, Structure, Semantic, WholeDocument, SentenceWindow, Parent
)

__all__ = ["CHUNKERS", "ChunkSpan", "Chunker", "ChunkerInput", "Section", "Tools"]
