"""What a pipeline makes of a question, as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rag_assay.evals.pipeline.pipeline import PipelineResult


def record_of(result: PipelineResult) -> dict[str, Any]:
    """Return a result in types of JSON: cell, question, passages with scores, trace, notes, losses, answer.

    It says what was understood of the question, and what declined it, too. The trace says how many candidates
    each step left.
    """
    found = result.found
    return {
        "cell": result.cell.key,
        "question": result.question["question"],
        "status": str(found.status),
        "reason": found.reason,
        "seconds": found.spent.seconds if found.spent else None,
        "passages": [asdict(passage) for passage in result.passages],
        "understood": understood_records(result),
        "trace": [
            {"step": step.step, "kind": step.kind, "candidates": len(step.rows)} for step in found.trace.steps
        ],
        "notes": [note._asdict() for note in found.trace.notes],
        "losses": [dict(loss) for loss in result.losses],
        "declined": result.declined,
        "answer": None if result.answer is None else asdict(result.answer),
    }


def understood_records(result: PipelineResult) -> list[dict[str, Any]]:
    """Return what was understood of the question of a result in types of JSON."""
    return [{**one._asdict(), "removable": one.is_removable} for one in result.understood]
