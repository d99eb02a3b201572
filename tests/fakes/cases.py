"""Questions, rankings and answers, for the metrics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rag_assay.evals.metrics.contract import Case, EvaluatedAnswer, Gold, MetricContext, Ranked
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import ANSWERS, Status
from rag_assay.warehouse.spans import Span

CONTEXT = MetricContext(Home(Path("nowhere")))
"""For metrics that ask no model."""


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


def ranked(status: Status = Status.OK, **changes: Any) -> Ranked:
    """Return how a ranking ended."""
    good = status is Status.OK
    found = Ranked(status, None if good else "it broke", 0.25 if good else None)
    return found._replace(**changes)


def answer(status: Status = Status.OK, text: str | None = "At noon.", **changes: Any) -> EvaluatedAnswer:
    """Return how an answer ended, and what it took."""
    asked = status in {Status.OK, Status.REFUSED}
    found = EvaluatedAnswer(
        status,
        None if status is Status.OK else f"because of {status}",
        text if asked else None,
        1.5 if asked else None,
        100 if asked else None,
        20 if asked else None,
    )
    return found._replace(**changes)


def answer_row(question_id: str, status: Status = Status.OK, text: str | None = "At noon.") -> dict[str, Any]:
    """Return a row of schemas.ANSWERS."""
    found = answer(status, text)
    row = found._asdict()
    row["answer"] = row.pop("text")
    return {**dict.fromkeys(ANSWERS), **row, "question_id": question_id}


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
