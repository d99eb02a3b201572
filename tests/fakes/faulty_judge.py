"""A judge whose mistakes are known: a server makes them, at rates that a test sets."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from rag_assay.evals.generation.contract import Passage
from rag_assay.evals.judging.contract import Judge, JudgeCase, JudgeContext, JudgedMetric, Judgement
from rag_assay.evals.judging.structured_calls import make_judgement
from rag_assay.warehouse.inference.chat_model import ChatModel
from rag_assay.warehouse.inference.gateway import Messages
from rag_assay.warehouse.schemas import Status
from tests.fakes.openai_server import Received, Scripted, answer

SUPPORT = JudgedMetric("support", frozenset({"answer", "passages"}))
PREFERRED = JudgedMetric("preferred", frozenset({"answer", "rival"}))


class FaultyJudge(ChatModel, Judge):
    """Asks for one number a metric, and reads nothing else."""

    kind: ClassVar[str] = "faulty"

    @property
    def judged_metrics(self) -> tuple[JudgedMetric, ...]:
        return (SUPPORT, PREFERRED)

    @property
    def chat(self) -> ChatModel:
        return self

    def verdicts(self, cases: Sequence[JudgeCase], context: JudgeContext) -> list[dict[str, Judgement]]:
        def ask(case: JudgeCase) -> dict[str, Judgement]:
            metrics = [one for one in self.judged_metrics if one.obstacle(case) is None]
            return {one.name: self._ask(one, case, context) for one in metrics}

        return list(context.gateway.map(ask, cases, self))

    def _ask(self, metric: JudgedMetric, case: JudgeCase, context: JudgeContext) -> Judgement:
        reply = context.gateway.ask(
            self,
            messages(metric, case),
            seed=context.seed,
            replicate=context.replicate,
            purpose=context.purpose.of(case.question_id),
        )
        found = re.fullmatch(r"[01]", (reply.text or "").strip())
        if found is None:
            return make_judgement(
                [reply], status=None if reply.status is not Status.OK else Status.PARSE_FAILED
            )
        return make_judgement([reply], value=float(found.group()))

    def dependencies(self, seed: int) -> list[str | int]:
        return ["faulty", seed]


def messages(metric: JudgedMetric, case: JudgeCase) -> Messages:
    passages = " ".join(passage.text for passage in case.passages)
    parts = (metric.name, case.question, passages, case.answer or "", case.rival or "")
    return [{"role": "user", "content": "\n¦".join(part.replace("¦", "") for part in parts)}]


@dataclass
class Faults:
    """Answers as a judge with known rates of error.

    unparsable: share of replies that are prose
    flips: share of two replicates of the same case that differ
    right: share of the labelled cases on the right side; of the others, the longer half is called good
    first: share of pairs of which the first answer is preferred, whichever it is
    long: characters from which an answer is long
    """

    unparsable: float = 0.05
    flips: float = 0.10
    right: float = 0.80
    first: float = 0.30
    long: int = 100
    seen: Counter[str] = field(default_factory=Counter)

    def respond(self, received: Received) -> Scripted:
        content = received.body["messages"][-1]["content"]
        self.seen[content] += 1
        time = self.seen[content]
        if _draw("prose", content, time) < self.unparsable:
            return answer("I would rather not say.")
        metric, _, passages, *answers = content.split("\n¦")
        text, rival = (" ".join(one.replace("*", "").split()) for one in answers)
        verdict = self._preferred(text, rival) if metric == "preferred" else self._support(passages, text)
        once = (1 - (1 - 2 * self.flips) ** 0.5) / 2  # of one replicate, so that two differ so often
        return answer(str(int(verdict != (_draw("flip", content, time) < once))))

    def _support(self, passages: str, text: str) -> bool:
        if _draw("wrong", text) < 2 * (1 - self.right):  # half of them are right by chance
            return len(text) >= self.long
        return is_supported(passages, text)

    def _preferred(self, text: str, rival: str) -> bool:
        pair = " ".join(sorted((text, rival)))
        return _draw("first", pair) < self.first or text > rival


def is_supported(passages: str, text: str) -> bool:
    """Whether every number of an answer stands in the passages, and it denies nothing."""
    return set(re.findall(r"\d+", text)) <= set(re.findall(r"\d+", passages)) and " not " not in text


def _draw(*key: object) -> float:
    digest = hashlib.sha256(repr(key).encode()).digest()
    return int.from_bytes(digest[:8]) / 2**64


def labelled_case(number: int, *, rival: bool = True) -> tuple[JudgeCase, float]:
    """Return a case and its label; half are good, half are long, neither hangs on the other."""
    is_good, is_long = number % 2 == 0, number % 4 < 2
    boats = 1000 + number
    text = f"The harbour of Ort{number:04} holds {boats if is_good else boats + 5000} boats."
    text += " So it stands in the book of the harbour, which anybody may read there." * is_long
    return (
        JudgeCase(
            f"How many boats does harbour {number:04} hold?",
            "en",
            text,
            passages=(Passage(f"There are {boats} boats in Ort{number:04}."), Passage("The quay is long.")),
            rival=f"It holds {boats} boats, more or less {number:04}." if rival else None,
        ),
        float(is_good),
    )
