"""What became of a piece of evidence, in words."""

from __future__ import annotations

from typing import Any

from rag_assay.evals.question_sets.losses import Loss
from rag_assay.evals.reporting.display import several


def fate_words(loss: dict[str, Any]) -> str:
    """Say what became of a piece of evidence, a row of `schemas.LOSSES`."""
    if loss["lost_at"] is None:
        return (
            f"held by the first {several(loss['found_at'], 'passage')}" if loss["found_at"] else "delivered"
        )
    step = f" ({loss['step']})" if loss["step"] else ""
    return f"lost at {Loss(loss['lost_at']).label}{step}"
