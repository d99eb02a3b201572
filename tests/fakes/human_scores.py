"""Human ratings, made up."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from rag_assay.warehouse.human_scores import HumanScore

BEGIN = datetime(2026, 11, 23, 9, 0, tzinfo=UTC)


def score(number: int = 1, **changes: Any) -> HumanScore:
    """A score whose id and time hang on a number; all else is the same unless it is said."""
    row: dict[str, Any] = {
        "score_id": f"id-{number}",
        "study": "tiny",
        "annotator": "Anna",
        "item_id": "item-1",
        "rubric": "points",
        "rubric_version": "v1",
        "scored_at": BEGIN + timedelta(seconds=number),
        "value": 5.0,
    }
    return HumanScore(**{**row, **changes})
