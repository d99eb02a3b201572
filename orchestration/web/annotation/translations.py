"""What the page of rating says, in English and German; `components/scoring/` gets all of it."""

from __future__ import annotations

from rag_assay.orchestration.web.languages import read_texts

TEXTS = read_texts("annotation")
