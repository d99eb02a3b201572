"""Questions, rankings and answers as rows, for the metrics."""

from __future__ import annotations

from typing import Any

from evals.measuring.contract import Case, Gold
from warehouse.schemas import ANSWERS, Status
from warehouse.spans import Span


def question(name: str = "q", **changes: Any) -> dict[str, Any]:
    """Return a row of schemas.QUESTIONS."""
    return {
        "question_id": name,
        "question_set": "set",
        "type": "normal",
        "language": "en",
        "question": "When does the ferry leave?",
        "ground_truth": "At noon.",
        "answerable": True,
        "needs": "all",
        "gold": "spans",
        "time_from": None,
        "time_to": None,
        "evidence": [],
        **changes,
    }


def ranked(status: Status = Status.OK, **changes: Any) -> dict[str, Any]:
    """Return a row of schemas.RANKED."""
    good = status is Status.OK
    row = {
        "question_id": "q",
        "status": str(status),
        "reason": None if good else "it broke",
        "seconds": 0.25 if good else None,
        "n_hits": 1 if good else None,
    }
    return row | changes


def answer(status: Status = Status.OK, text: str | None = "At noon.", **changes: Any) -> dict[str, Any]:
    """Return a row of schemas.ANSWERS."""
    asked = status in {Status.OK, Status.REFUSED}
    row = {
        **dict.fromkeys(ANSWERS),
        "question_id": "q",
        "status": str(status),
        "reason": None if status is Status.OK else f"because of {status}",
        "answer": text if asked else None,
        "seconds": 1.5 if asked else None,
        "prompt_tokens": 100 if asked else None,
        "completion_tokens": 20 if asked else None,
    }
    return row | changes


def case(**changes: Any) -> Case:
    """Return a case whose ranking and answer went well, but for ``changes``."""
    found: dict[str, Any] = {
        "question": question(),
        "gold": Gold({"a": 1}, (Span("a", 0, 10),)),
        "hits": (Span("a", 0, 10),),
        "ranked": ranked(),
        "answer": answer(),
    }
    return Case(**{**found, **changes})
