"""What the page says, in English and German."""

from __future__ import annotations

from rag_assay.orchestration.web.languages import read_texts

TEXTS = read_texts("chat")
