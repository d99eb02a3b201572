"""The tags of the prompts that make questions, and verdicts on them."""

from __future__ import annotations

from rag_assay.warehouse.inference.quoting import Frames

TAGS = ("passage", "title", "quote", "question", "answer", "conversation")
framed = Frames(*TAGS).framed
