"""The texts of a case as ragas is given them: quoted, and passages with what the generator read of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from rag_assay.evals.generation.contract import Passage
from rag_assay.evals.judging.contract import JudgeCase, Judgement, Need
from rag_assay.evals.judging.frames import quote_for_judge
from rag_assay.warehouse.inference.quoting import quote_line
from rag_assay.warehouse.schemas import Status


@dataclass(frozen=True)
class Texts:
    """What the metrics of one case read.

    passages: each with the line of its document, without blank ones
    first: how many of them are looked at one by one
    """

    question: str
    answer: str
    truth: str
    passages: tuple[str, ...]
    first: int

    def of(self, fields: Sequence[str]) -> dict[str, object]:
        """Return the texts by the names that ragas' metrics have for them."""
        found: dict[str, object] = {
            "user_input": self.question,
            "response": self.answer,
            "reference": self.truth,
            "retrieved_contexts": list(self.passages),
        }
        if "first_contexts" in fields:
            found["retrieved_contexts"] = list(self.passages[: self.first])
        wanted = {"retrieved_contexts" if name == "first_contexts" else name for name in fields}
        return {name: text for name, text in found.items() if name in wanted}

    def missing(self, needs: Collection[Need]) -> Judgement | None:
        """Return why nothing can be judged, as a text may hold only what nobody sees; None where it can."""
        if not self.question or ("answer" in needs and not self.answer):
            what = "answer" if self.question else "question"
            return Judgement(Status.PARSE_FAILED, reason=f"the {what} has no text that can be seen")
        if "passages" in needs and not self.passages:
            return Judgement(Status.NO_CONTEXT, reason="the passages have no text that can be seen")
        if "ground_truth" in needs and not self.truth:
            return Judgement(Status.NO_CONTEXT, reason="the ground truth has no text that can be seen")
        return None


def texts_of(case: JudgeCase, first: int) -> Texts:
    """Return the texts of a case."""
    passages = tuple(_passage(one) for one in case.passages if quote_for_judge(one.text))
    question, answer, truth = map(
        quote_for_judge, (case.question, case.answer or "", case.ground_truth or "")
    )
    return Texts(question, answer, truth, passages, first)


def _passage(passage: Passage) -> str:
    facts = [*filter(None, (passage.title, " › ".join(passage.section), (passage.date or "")[:10]))]
    line = quote_for_judge(quote_line(" · ".join(facts)))
    return f"{line}\n{quote_for_judge(passage.text)}" if line else quote_for_judge(passage.text)
