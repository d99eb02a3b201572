"""How similar an answer is to the passage that the question is about, beside how similar the question is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from rag_assay.assets.embedding.embedder import Matrix
from rag_assay.evals.judging import contract
from rag_assay.warehouse.schemas import Status

PASSAGE = contract.JudgedMetric(
    "passage",
    frozenset({"answer", "passages"}),
    (-1.0, 1.0),
    about="Cosine of the answer with the passage that is most similar to the question",
)
BASELINE = contract.JudgedMetric(
    "passage_baseline",
    frozenset({"passages"}),
    (-1.0, 1.0),
    about="Cosine of the question with the passage that is most similar to it: what an answer adds to",
)
ROUNDED = 1e-6  # a cosine of float32 vectors may lie so much outside of its bounds


class Similarity(contract.Judge):
    """Cosines of the answer, and of the question, with the passage that is most similar to the question.

    An answer that is no nearer to that passage than the question was adds nothing that can be seen so. No
    model is asked. The cosine of answer and ground truth is the metric `semantic_similarity`.
    """

    kind: ClassVar[str] = "similarity"
    varies: ClassVar[bool] = False

    @property
    def judged_metrics(self) -> tuple[contract.JudgedMetric, ...]:
        return (PASSAGE, BASELINE)

    def verdicts(
        self, cases: Sequence[contract.JudgeCase], context: contract.JudgeContext
    ) -> list[dict[str, contract.Judgement]]:
        texts = sorted({text for case in cases for text in _texts(case)})
        vectors = dict(zip(texts, context.embed(texts), strict=True)) if texts else {}
        context.progress("similarity", len(cases), len(cases))
        return [_judgements(case, vectors) for case in cases]

    def dependencies(self, seed: int) -> list[str | int]:
        return [self.embeds_with.passage_revision()]


def _passages(case: contract.JudgeCase) -> list[tuple[int, str]]:
    return [(number, one.text) for number, one in enumerate(case.passages, 1) if one.text.strip()]


def _texts(case: contract.JudgeCase) -> list[str]:
    answer = [case.answer] if case.answer and case.answer.strip() else []
    passages = [text for _, text in _passages(case)]
    return [case.question, *answer, *passages] if passages else []


def _judgements(case: contract.JudgeCase, vectors: dict[str, Matrix]) -> dict[str, contract.Judgement]:
    passages = _passages(case)
    if not passages:
        return {}
    question = vectors[case.question]
    near = [_cosine(question, vectors[text]) for _, text in passages]
    best = int(np.argmax(near))
    number, text = passages[best]
    found = contract.Statement(f"passage {number}", text, "most similar to the question", near[best])
    judgements = {BASELINE.name: _judgement(near[best], f"of the question with passage {number}", found)}
    if PASSAGE.obstacle(case) is None:
        value = _cosine(vectors[case.answer or ""], vectors[text])
        judgements[PASSAGE.name] = _judgement(value, f"of the answer with passage {number}", found)
    return judgements


def _judgement(value: float, reason: str, statement: contract.Statement) -> contract.Judgement:
    return contract.Judgement(Status.OK, value, f"cosine {reason}", usd=0.0, statements=(statement,))


def _cosine(one: Matrix, other: Matrix) -> float:
    value = float(np.dot(one, other))
    return max(-1.0, min(1.0, value)) if abs(value) <= 1 + ROUNDED else value
