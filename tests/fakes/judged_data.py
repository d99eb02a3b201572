"""Parts of a report with judges of whom people know better, and one that works in stages."""

from __future__ import annotations

import random
from typing import Any

import polars as pl

from rag_assay.evals.reporting.stored_rows import PAIRS
from rag_assay.warehouse.parquet import frame
from rag_assay.warehouse.schemas import JUDGE_CARDS, JUDGEMENTS

CARD = {"study": "energy", "measure": "auc", "slice": "people.points", "value": 0.8, "low": 0.7, "high": 0.9}


def judged(rows: int = 60) -> dict[str, Any]:
    """Return them by their names in `ReportData`.

    rows: answers that each of two judges and people have rated
    """
    chance = random.Random(7)
    pairs = [
        {
            "judge": judge,
            "metric": "right",
            "slice": "people.points",
            "good": good,
            "value": chance.gauss(apart * good, 1.0),
        }
        for judge, apart in (("sharp", 3.0), ("blunt", 0.2))
        for good in [chance.random() < 0.5 for _ in range(rows)]
    ]
    stages = [("pronouns of the answer", "2 calls, 1.25 s, 310 + 84 tokens"), ("entailment", "no call")]
    said = [
        {
            "cell": "c",
            "cell_replicate": 1,
            "judge": "nli",
            "uncalibrated": False,
            "question_id": f"q{n}",
            "metric": "entailed",
            "replicate": 1,
            "status": "ok",
            "value": 1.0,
            "statements": [
                {"of": "stage", "text": text, "verdict": None, "value": None, "reason": reason}
                for text, reason in (*stages, ("entailment", f"{n + 1} calls, 0.50 s"))
            ],
        }
        for n in range(3)
    ]
    asked = {"calls": 2, "seconds": 0.4, "prompt_tokens": 20, "completion_tokens": 5}
    said.append({**said[0], **asked, "metric": "answer_refusal", "statements": []})
    of_cell = {"cell": pl.String, "cell_replicate": pl.Int64, "judge": pl.String, "uncalibrated": pl.Boolean}
    cards = [{**CARD, "judge": "sharp", "metric": "right"}]
    return {
        "judge_pairs": frame(pairs, PAIRS),
        "judgements": frame(said, {**JUDGEMENTS, **of_cell}),
        "judge_cards": frame(cards, JUDGE_CARDS),
        "judges": {"sharp": "a", "blunt": "b", "nli": "entailment"},
    }
