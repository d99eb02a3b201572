"""What judges said of an answer, as it is shown: each judgement with its reason and its statements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rag_assay.evals.reporting.display import number, several
from rag_assay.evals.reporting.stored_cards import UNCALIBRATED
from rag_assay.warehouse.schemas import Status

Row = Mapping[str, Any]


@dataclass(frozen=True)
class ShownStatement:
    """One thing that a judge looked at.

    verdict: the judge's word for it, or what it counts; empty where it gave neither
    """

    verdict: str
    text: str
    of: str
    reason: str


@dataclass(frozen=True)
class ShownJudgement:
    """One replicate of a judgement.

    said: its value, or its status in brackets
    left_out: statements that are not among those shown
    """

    metric: str
    said: str
    good: bool
    reason: str
    statements: tuple[ShownStatement, ...] = ()
    left_out: int = 0


@dataclass(frozen=True)
class ShownJudgements:
    """All judgements of one answer; empty for most."""

    judgements: tuple[ShownJudgement, ...] = ()

    @property
    def summary(self) -> str:
        """How many there are; empty where there are none."""
        return several(len(self.judgements), "judgement") if self.judgements else ""


NONE_JUDGED = ShownJudgements()


def judgements_of(rows: Iterable[Row], most: int) -> ShownJudgements:
    """Return what is shown of judgements, in their order.

    rows: of `schemas.JUDGEMENTS`, with `judge`, and whether its metric is `uncalibrated`
    most: statements of each that are shown
    """
    return ShownJudgements(tuple(_shown(row, most) for row in rows))


def _shown(row: Row, most: int) -> ShownJudgement:
    good = row["status"] == Status.OK
    again = f" (replicate {row['replicate']})" if row["replicate"] > 1 else ""
    again += f" ({UNCALIBRATED})" if row["uncalibrated"] else ""
    statements = row["statements"] or []
    return ShownJudgement(
        f"{row['judge']}.{row['metric']}{again}",
        number(row["value"]) if good else f"[{row['status']}]",
        good,
        row["reason"] or "",
        tuple(map(_statement, statements[:most])),
        max(0, len(statements) - most),
    )


def _statement(one: Row) -> ShownStatement:
    """Return a statement as it is shown.

    >>> _statement({"of": "answer", "text": "It sails.", "verdict": None, "value": 1.0, "reason": None})
    ShownStatement(verdict='1.000', text='It sails.', of='answer', reason='')
    """
    value = "" if one["value"] is None else number(one["value"])
    return ShownStatement(one["verdict"] or value, one["text"] or "", one["of"] or "", one["reason"] or "")
