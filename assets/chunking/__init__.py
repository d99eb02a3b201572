"""Chunkers: one file each. A chunker is its own recipe: its fields are what a study file says of it."""

from __future__ import annotations

from assets.chunking.contract import Chunker, Material, Section, Span, Tools
from assets.chunking.document import WholeDocument
from assets.chunking.parent import Parent
from assets.chunking.recursive import Recursive
from assets.chunking.semantic import Semantic
from assets.chunking.sentence_window import SentenceWindow
from assets.chunking.sentences import Sentences
from assets.chunking.structure import Structure
from assets.chunking.tokens import TokenWindows

CHUNKERS: dict[str, type[Chunker]] = {
    "tokens": TokenWindows,
    "recursive": Recursive,
    "sentences": Sentences,
    "structure": Structure,
    "semantic": Semantic,
    "document": WholeDocument,
    "sentence_window": SentenceWindow,
    "parent": Parent,
}

__all__ = ["CHUNKERS", "Chunker", "Material", "Section", "Span", "Tools"]
