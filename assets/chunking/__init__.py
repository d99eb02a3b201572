"""Chunkers: one file each. A chunker is its own recipe: its fields are what a study file says of it."""

from __future__ import annotations

from assets.chunking.contract import Chunker, Material, Section, Span, Tools
from assets.chunking.document import WholeDocument
from assets.chunking.tokens import TokenWindows

CHUNKERS: dict[str, type[Chunker]] = {"tokens": TokenWindows, "document": WholeDocument}

__all__ = ["CHUNKERS", "Chunker", "Material", "Section", "Span", "Tools"]
