"""ROUGE-L between answer and ground truth, by ragas."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

from evals.measuring.contract import AnswerMetric, Case, Score
from warehouse.schemas import Status


class RougeL(AnswerMetric):
    """F-measure of the longest common subsequence of words (Lin, ACL workshop 2004): ragas' RougeScore."""

    name, title = "rouge_l", "ROUGE-L"
    explanation = (
        "F-measure of the longest common subsequence of words of answer and ground truth (ragas RougeScore)."
    )

    def values(self, cases: Sequence[Case]) -> list[Score]:
        """Score every answer; equal pairs of texts are scored once."""
        os.environ.setdefault("RAGAS_DO_NOT_TRACK", "true")
        from ragas.metrics.collections import RougeScore

        metric = RougeScore(rouge_type="rougeL", mode="fmeasure")

        async def score() -> dict[tuple[str, str], float]:
            pairs = {(c.question["ground_truth"], c.answer["answer"]) for c in cases if c.answer}
            return {
                pair: float((await metric.ascore(reference=pair[0], response=pair[1])).value)
                for pair in sorted(pairs)
            }

        found = asyncio.run(score()) if cases else {}
        return [
            Score(Status.OK, found[(c.question["ground_truth"], c.answer["answer"])])
            for c in cases
            if c.answer
        ]
