"""Runs ragas' classes: each metric on one case, with what the model was asked kept as statements."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rag_assay.assets.embedding.embedder import Matrix
from rag_assay.evals.judging.contract import Judgement
from rag_assay.evals.judging.ragas.calls import CaseCalls, MetricCalls, StoppedError
from rag_assay.evals.judging.ragas.gateway_models import GatewayLlm, JudgeEmbedding, run_coroutine
from rag_assay.evals.judging.ragas.metrics import BATCH, METRICS
from rag_assay.evals.judging.ragas.reply_statements import READERS, Read
from rag_assay.evals.judging.ragas.texts import Texts
from rag_assay.warehouse.schemas import Status

from ragas.metrics.collections import (  # isort: skip - after what keeps it from tracking
    AnswerCorrectness,
    AnswerRelevancy,
    ContextPrecisionWithoutReference,
    ContextPrecisionWithReference,
    ContextRecall,
    ContextRelevance,
    FactualCorrectness,
    Faithfulness,
    NoiseSensitivity,
)

_ROUNDING = 1e-6  # by which a cosine of 32-bit vectors may pass 1


def batches(statements: Sequence[str]) -> Iterator[list[str]]:
    """Yield statements, as many at once as one prompt is given."""
    for place in range(0, len(statements), BATCH):
        yield list(statements[place : place + BATCH])


class _Faithfulness(Faithfulness):
    """Judges statements in batches, each verdict being expected."""

    async def _create_verdicts(self, statements: list[str], context: str) -> Any:
        found: Any = None
        for batch in batches(statements):
            with self.llm.expecting(batch):
                reply = await super()._create_verdicts(batch, context)
            found = _joined(found, reply)
        return found


class _FactualCorrectness(FactualCorrectness):
    """Judges claims in batches, each verdict being expected."""

    async def _verify_claims(self, claims: list[str], reference: str) -> Any:
        found: Any = None
        for batch in batches(claims):
            with self.llm.expecting(batch):
                reply = await super()._verify_claims(batch, reference)
            found = _joined(found, reply)
        return found


class _NoiseSensitivity(NoiseSensitivity):
    """Judges statements in batches, each verdict being expected."""

    async def _evaluate_statement_faithfulness(self, statements: list[str], context: str) -> list[int]:
        found: list[int] = []
        for batch in batches(statements):
            with self.llm.expecting(batch):
                found += await super()._evaluate_statement_faithfulness(batch, context)
        return found


class _AnswerCorrectness(AnswerCorrectness):
    """Expects each statement of the answer to be classified."""

    async def _classify_statements(
        self, question: str, answer_statements: list[str], ground_truth_statements: list[str]
    ) -> Any:
        with self.llm.expecting(answer_statements, ground_truth_statements):
            return await super()._classify_statements(question, answer_statements, ground_truth_statements)


def _joined(found: Any, reply: Any) -> Any:
    if found is None:
        return reply
    return type(reply)(statements=[*found.statements, *reply.statements])


@dataclass(frozen=True)
class _Tools:
    llm: GatewayLlm
    embeddings: JudgeEmbedding
    questions: int


_MAKERS: dict[str, Callable[[_Tools], Any]] = {
    "faithfulness": lambda one: _Faithfulness(llm=one.llm),
    "answer_relevancy": lambda one: AnswerRelevancy(
        llm=one.llm, embeddings=one.embeddings, strictness=one.questions
    ),
    "answer_correctness": lambda one: _AnswerCorrectness(llm=one.llm, embeddings=one.embeddings),
    "factual_correctness": lambda one: _FactualCorrectness(llm=one.llm),
    "noise_sensitivity": lambda one: _NoiseSensitivity(llm=one.llm, mode="relevant"),
    "noise_sensitivity_irrelevant": lambda one: _NoiseSensitivity(llm=one.llm, mode="irrelevant"),
    "context_precision": lambda one: ContextPrecisionWithReference(llm=one.llm),
    "context_utilization": lambda one: ContextPrecisionWithoutReference(llm=one.llm),
    "context_recall": lambda one: ContextRecall(llm=one.llm),
    # Its own repetitions would ask the same call again, and it has none of what went wrong.
    "context_relevance": lambda one: ContextRelevance(llm=one.llm, max_retries=1),
}
_FIELDS: dict[str, tuple[str, ...]] = {
    "faithfulness": ("user_input", "response", "retrieved_contexts"),
    "answer_relevancy": ("user_input", "response"),
    "answer_correctness": ("user_input", "response", "reference"),
    "factual_correctness": ("response", "reference"),
    "noise_sensitivity": ("user_input", "response", "reference", "first_contexts"),
    "noise_sensitivity_irrelevant": ("user_input", "response", "reference", "first_contexts"),
    "context_precision": ("user_input", "reference", "first_contexts"),
    "context_utilization": ("user_input", "response", "first_contexts"),
    "context_recall": ("user_input", "retrieved_contexts", "reference"),
    "context_relevance": ("user_input", "retrieved_contexts"),
}


def judge_case(
    name: str,
    texts: Texts,
    case: CaseCalls,
    embed: Callable[[Sequence[str]], Matrix],
    questions: int,
) -> Judgement:
    """Judge one case by one metric of ragas.

    questions: that answer_relevancy has written
    """
    metric, calls = METRICS[name], MetricCalls(case)
    turns = questions if name == "answer_relevancy" else 1
    tools = _Tools(GatewayLlm(calls, metric.lists, turns), JudgeEmbedding(embed), questions)
    fields = texts.of(_FIELDS[name])
    try:
        found = float(run_coroutine(_MAKERS[name](tools).ascore(**fields)).value)
        if calls.stopped is not None:  # which ragas has swallowed
            return calls.judgement(None, None)
        read = READERS[name](calls.values, texts, tools.embeddings.cosine)
    except StoppedError:
        return calls.judgement(None, None)
    except Exception as error:  # whatever ragas raises of what it was given
        calls.stop(Status.ERROR, f"ragas failed: {type(error).__name__}: {error}")
        return calls.judgement(None, None)
    return calls.judgement(*_valued(found, read, metric.judged.bounds), read.statements)


def _valued(found: float, read: Read, bounds: tuple[float, float]) -> tuple[float | None, str]:
    """Return ragas' value, or the exact one where it rounds its own; and the reason."""
    value = found if read.value is None else read.value
    if math.isnan(value):
        return None, "ragas gave no number: it had nothing to count"
    least, most = bounds
    if least - _ROUNDING <= value <= most + _ROUNDING:
        value = min(most, max(least, value))
    return value, read.reason
