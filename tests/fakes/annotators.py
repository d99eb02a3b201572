"""Human ratings as rows that hold, made up or simulated with habits that are known."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl

from rag_assay.warehouse.parquet import frame
from rag_assay.warehouse.schemas import HUMAN_SCORES

BEGAN = datetime(2026, 11, 2, 9, tzinfo=UTC)
POINTS = np.array([0.0, 3.0, 5.0])


def row(annotator: str, item: str, value: float | None, /, **other: Any) -> dict[str, Any]:
    """Return a row of HUMAN_SCORES by the rubric `points`, unless another is named."""
    name = "-".join(str(one) for one in (annotator, item, *other.values()))
    return {
        "score_id": name,
        "study": "s",
        "annotator": annotator,
        "item_id": item,
        "rubric": "points",
        "rubric_version": "v1",
        "value": value,
        "status": "ok" if value is not None else "skipped",
        "showing": 1,
        "scored_at": BEGAN,
        "place": "page",
        **other,
    }


def frame_of(rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """Return rows with exactly the columns of HUMAN_SCORES."""
    return frame([{**dict.fromkeys(HUMAN_SCORES), **one} for one in rows], HUMAN_SCORES)


@dataclass(frozen=True)
class Habit:
    """How somebody scores: `bias` and `drift`, from first item to last, in points; `noise` by chance."""

    bias: float = 0.0
    drift: float = 0.0
    noise: float = 0.6
    repeats: float = 0.1  # share of the items shown once more
    seen: float = 1.0  # share of the items shown at all
    seconds: float = 40.0


def simulated(
    people: Mapping[str, Habit], items: Mapping[str, str], seed: int = 7, scale: np.ndarray = POINTS
) -> list[dict[str, Any]]:
    """Return the rows of people who score items (id -> question), each in an order of their own.

    An item's worth is drawn from the scale; what somebody gives is the grade nearest to what they see.
    """
    chance = np.random.default_rng(seed)
    worth = dict(zip(items, chance.choice(scale, size=len(items)), strict=True))
    rows = []
    for name, habit in people.items():
        order = [one for one in chance.permutation(list(items)) if chance.random() < habit.seen]
        again = [one for one in order if chance.random() < habit.repeats]
        shown = [*((one, 1) for one in order), *((one, 2) for one in again)]
        for at, (item, showing) in enumerate(shown):
            along = habit.drift * (at / len(shown) - 0.5)
            sees = worth[item] + habit.bias + along + habit.noise * chance.standard_normal()
            rows.append(
                row(
                    name,
                    str(item),
                    float(scale[np.argmin(np.abs(scale - sees))]),
                    showing=showing,
                    position=at + 1,
                    seconds=habit.seconds,
                    scored_at=BEGAN + timedelta(seconds=habit.seconds * at),
                    question_id=items[item],
                )
            )
    return rows
