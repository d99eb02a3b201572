"""The judge `ragas`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator

from rag_assay.assets.embedding.embedder import Matrix
from rag_assay.evals.judging.contract import Judge, JudgeCase, JudgeContext, JudgedMetric, Judgement
from rag_assay.evals.judging.ragas.calls import CaseCalls
from rag_assay.evals.judging.ragas.metrics import METRICS, Times, calls_of, prompts_digest, reply_of
from rag_assay.evals.judging.ragas.sentence_ratio import NAME, sentence_ratio
from rag_assay.evals.judging.ragas.texts import texts_of
from rag_assay.warehouse.inference.chat_model import ChatModel
from rag_assay.warehouse.inference.chat_part import CallsEach
from rag_assay.warehouse.inference.structured import MOST_ASKED

MetricName = Literal[
    "faithfulness",
    "answer_relevancy",
    "answer_correctness",
    "factual_correctness",
    "noise_sensitivity",
    "noise_sensitivity_irrelevant",
    "context_precision",
    "context_utilization",
    "context_recall",
    "context_relevance",
    "relevant_sentence_ratio",
]


class Ragas(ChatModel, Judge):
    """The metrics of RAGAS that need a model, by the prompts and steps of ragas 0.4.3 (Es et al., 2023).

    metrics: which of them
    passages: how many of a case are looked at where each is judged by itself (`context_precision`,
        `context_utilization`, `noise_sensitivity`): the first ones; all others read all of them
    questions: how many `answer_relevancy` has written of an answer (ragas: strictness)
    window: tokens that the model reads, prompt and reply together; unless said, what is known of it
    """

    kind: ClassVar[str] = "ragas"
    unless_said: ClassVar[frozenset[str]] = frozenset({"window"})

    metrics: Annotated[tuple[MetricName, ...], Field(min_length=1)] = (
        "faithfulness",
        "answer_relevancy",
        "context_precision",
        "context_recall",
    )
    passages: Annotated[int, Field(ge=1, le=100)] = 10
    questions: Annotated[int, Field(ge=1, le=10)] = 3
    window: Annotated[int, Field(ge=64, le=100_000_000)] | None = None

    @field_validator("metrics")
    @classmethod
    def _once_each(cls, names: tuple[MetricName, ...]) -> tuple[MetricName, ...]:
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ValueError(f"{twice[0]} stands there twice")
        return names

    @property
    def chat(self) -> ChatModel:
        """The recipe itself."""
        return self

    @property
    def judged_metrics(self) -> tuple[JudgedMetric, ...]:
        """The metrics of the recipe, in their order."""
        return tuple(METRICS[name].judged for name in self.metrics)

    def dependencies(self, seed: int) -> list[str | int]:
        """Return the digest of the prompts with ragas' version, the seed, who answers, and what embeds."""
        served = self.served_by()
        embeds = any(METRICS[name].embeds for name in self.metrics)
        return [
            prompts_digest(self.metrics),
            seed,
            *([served] if served else []),
            *([self.embeds_with.passage_revision()] if embeds else []),
        ]

    def calls_per_case(self) -> CallsEach:
        """Return the calls of a case that is judged to the end; what two metrics share is asked once."""
        return calls_of(self.metrics, Times(self.passages, self.questions), MOST_ASKED)

    @property
    def longest_reply(self) -> int:
        """Tokens that a reply has at most, on average over the calls of a case."""
        return self.max_tokens or reply_of(self.metrics, Times(self.passages, self.questions))

    def verdicts(self, cases: Sequence[JudgeCase], context: JudgeContext) -> list[dict[str, Judgement]]:
        """Judge cases side by side; the metrics of one, one after another."""
        embed = _one_at_a_time(context.embed)
        return list(context.each(lambda case: self._of(case, context, embed), cases, self, "judging"))

    def _of(
        self, case: JudgeCase, context: JudgeContext, embed: Callable[[Sequence[str]], Matrix]
    ) -> dict[str, Judgement]:
        calls, texts = CaseCalls(self, context, case.question_id, self.window), texts_of(case, self.passages)
        found: dict[str, Judgement] = {}
        for name in self.metrics:
            metric = METRICS[name].judged
            if not metric.can_judge(case):
                continue
            missing = texts.missing(metric.needs)
            if missing:
                found[name] = missing
            elif name == NAME:
                found[name] = sentence_ratio(case, calls)
            else:
                from rag_assay.evals.judging.ragas.metric_runner import judge_case  # takes seconds to import

                found[name] = judge_case(name, texts, calls, embed, self.questions)
        return found


def _one_at_a_time(embed: Callable[[Sequence[str]], Matrix]) -> Callable[[Sequence[str]], Matrix]:
    """Return an embedder that several threads may ask."""
    lock = threading.Lock()

    def locked(texts: Sequence[str]) -> Matrix:
        with lock:
            return embed(texts)

    return locked
