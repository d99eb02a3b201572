"""The judge `ragas`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Annotated, ClassVar, Literal, NamedTuple

from pydantic import Field, field_validator

from rag_assay.assets.chunking.sentence_splitter import sentence_places
from rag_assay.assets.embedding.embedder import Matrix
from rag_assay.evals.judging.contract import JudgeCase, JudgeContext, JudgedMetric, Judgement, Statement
from rag_assay.evals.judging.prompt_files import frame_text
from rag_assay.evals.judging.ragas.metrics import (
    METRICS,
    MOST_SENTENCE_CALLS,
    REASON_TOKENS,
    SENTENCES,
    CaseCalls,
    MetricCalls,
    StoppedError,
    Times,
    calls_of,
    prompt,
    prompts_digest,
    reply_of,
    texts_of,
)
from rag_assay.evals.judging.structured_calls import ModelJudge, ReplyForm
from rag_assay.warehouse.inference.chat_part import CallsEach
from rag_assay.warehouse.inference.structured import MOST_ASKED, schema_only
from rag_assay.warehouse.recipe import Strict

NAME = "relevant_sentence_ratio"


class RelevantSentences(Strict):
    """The model's reply: numbers of sentences, from 1."""

    relevant: Annotated[tuple[Annotated[int, Field(ge=1)], ...], schema_only(maxItems=1)]


class _Sentence(NamedTuple):
    passage: int
    text: str


def sentence_ratio(case: JudgeCase, calls: CaseCalls) -> Judgement:
    """Return |relevant sentences| / |sentences of the passages| (Es et al., 2023, section 3)."""
    own = MetricCalls(calls)
    sentences = [
        _Sentence(number, passage.text[start:end])
        for number, passage in enumerate(case.passages, 1)
        for start, end in sentence_places(passage.text)
    ]
    size = max(SENTENCES, -(-len(sentences) // MOST_SENTENCE_CALLS))
    found: list[Statement] = []
    try:
        for start in range(0, len(sentences), size):
            batch = sentences[start : start + size]
            relevant = _relevant(case.question, batch, own)
            for number, one in enumerate(batch, 1):
                word = "relevant" if number in relevant else "irrelevant"
                found.append(Statement(f"passage {one.passage}", one.text, word, float(number in relevant)))
    except StoppedError:
        return own.judgement(None, None)
    if not found:
        return own.judgement(None, "the passages hold no sentence")
    counted = sum(one.value or 0 for one in found)
    reason = f"{counted:.0f} of {len(found)} sentences of the passages are relevant"
    return own.judgement(counted / len(found), reason, tuple(found))


def _relevant(question: str, batch: list[_Sentence], calls: MetricCalls) -> frozenset[int]:
    numbered = [frame_text(one.text, "sentence", number=number) for number, one in enumerate(batch, 1)]

    def check(reply: RelevantSentences) -> None:
        unknown = sorted(number for number in reply.relevant if number > len(batch))
        if unknown:
            raise ValueError(f"there are {len(batch)} sentences, and none with the number {unknown[0]}")

    numbers = {"type": "integer", "minimum": 1, "maximum": len(batch)}
    bounds: dict[str, object] = {"maxItems": len(batch), "items": numbers}
    sentences = "\n".join(["<sentences>", *numbered, "</sentences>"])
    reply = calls.ask(
        prompt("relevant_sentences").messages(
            {"sentences": sentences, "question": frame_text(question, "question")}
        ),
        RelevantSentences,
        ReplyForm({"RelevantSentences.relevant": bounds}, REASON_TOKENS + 6 * len(batch), check),
    )
    return frozenset(reply.relevant)


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


class Ragas(ModelJudge):
    """The metrics of RAGAS that need a model, by the prompts and steps of ragas 0.4.3 (Es et al., 2023).

    metrics: metrics to compute
    passages: number of first passages that metrics judge one by one (`context_precision`,
        `context_utilization`, `noise_sensitivity`); all others read all passages
    questions: number of questions that `answer_relevancy` generates (ragas: strictness)
    """

    kind: ClassVar[str] = "ragas"

    metrics: Annotated[tuple[MetricName, ...], Field(min_length=1)] = (
        "faithfulness",
        "answer_relevancy",
        "context_precision",
        "context_recall",
    )
    passages: Annotated[int, Field(ge=1, le=100)] = 10
    questions: Annotated[int, Field(ge=1, le=10)] = 3

    @field_validator("metrics")
    @classmethod
    def _once_each(cls, names: tuple[MetricName, ...]) -> tuple[MetricName, ...]:
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ValueError(f"{twice[0]} is listed twice")
        return names

    @property
    def judged_metrics(self) -> tuple[JudgedMetric, ...]:
        return tuple(METRICS[name].judged for name in self.metrics)

    def dependencies(self, seed: int) -> list[str | int]:
        embeds = any(METRICS[name].embeds for name in self.metrics)
        return [
            prompts_digest(self.metrics),
            seed,
            *self.served(),
            *([self.embeds_with.passage_revision()] if embeds else []),
        ]

    def calls_per_case(self) -> CallsEach:
        return calls_of(self.metrics, Times(self.passages, self.questions), MOST_ASKED)

    @property
    def longest_reply(self) -> int:
        return self.max_tokens or reply_of(self.metrics, Times(self.passages, self.questions))

    def verdicts(self, cases: Sequence[JudgeCase], context: JudgeContext) -> list[dict[str, Judgement]]:
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
    lock = threading.Lock()

    def locked(texts: Sequence[str]) -> Matrix:
        with lock:
            return embed(texts)

    return locked
