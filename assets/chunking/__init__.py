"""Chunkers: one file each. A chunker is a recipe: its fields are the parameters in a study file."""

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
from warehouse.registry import Registry

CHUNKERS: Registry[Chunker] = Registry("chunkers", Chunker)
CHUNKERS.add(
    TokenWindows,
    Recursive,
    Sentences,
    Structure,
    Semantic,
    WholeDocument,
    SentenceWindow,
    Parent,
)

__all__ = ["CHUNKERS", "Chunker", "Material", "Section", "Span", "Tools"]
