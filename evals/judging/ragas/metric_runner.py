"""Runs ragas' metrics, each on one case.

Their coroutines wait for LLM and embeddings alone, which are called in the same thread: so a metric runs
to its end without an event loop, in any thread.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import signature
from typing import Any, NamedTuple, TypeVar

import numpy as np
from pydantic import BaseModel
from ragas.metrics.collections import (
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

from rag_assay.assets.embedding.embedder import Matrix
from rag_assay.evals.judging.contract import Judgement, Statement
from rag_assay.evals.judging.ragas.metrics import (
    BATCH,
    LIST_TOKENS,
    METRICS,
    MOST_STATEMENTS,
    RATING_TOKENS,
    REASON_TOKENS,
    CaseCalls,
    MetricCalls,
    StoppedError,
    Texts,
    reply_tokens,
)
from rag_assay.evals.judging.ragas.metrics import prompt as prompt_file
from rag_assay.evals.judging.structured_calls import ReplyForm
from rag_assay.warehouse.inference.structured import Bounds
from rag_assay.warehouse.schemas import Status

os.environ.setdefault("RAGAS_DO_NOT_TRACK", "true")

from ragas.embeddings.base import BaseRagasEmbedding
from ragas.llms.base import InstructorBaseRagasLLM

Shape = TypeVar("Shape", bound=BaseModel)
Result = TypeVar("Result")
ASKED_STATEMENTS = 40  # that a server is asked for at most; a few more are taken
STATEMENT = {"type": "string", "maxLength": 400}
REASON = {"maxLength": 240}
BINARY = {"minimum": 0, "maximum": 1}


Expected = tuple[tuple[str, ...], tuple[str, ...]]
"""The statements of the answer, and of the truth, that a reply must be about."""
Form = Callable[[Expected], ReplyForm]


def _list_of(owner: str, field: str) -> Form:
    def check(reply: Any) -> None:
        said = [one for one in getattr(reply, field) if one.strip()]
        _count(len(said), f"`{field}`")
        setattr(reply, field, said)

    bounds: Bounds = {f"{owner}.{field}": {"items": STATEMENT, "maxItems": ASKED_STATEMENTS}}
    form = ReplyForm(bounds, LIST_TOKENS, check, lambda reply: len(getattr(reply, field)))
    return lambda _: form


def _verdict_form(owner: str) -> Form:
    def form(expected: Expected) -> ReplyForm:
        wanted = expected[0]

        def check(reply: Any) -> None:
            if len(reply.statements) != len(wanted):
                found = len(reply.statements)
                raise ValueError(f"there are {len(wanted)} statements to be judged, and {found} verdicts")
            for one in reply.statements:
                _binary(one.verdict, "verdict")
            reply.statements = _in_order(reply.statements, wanted)

        bounds: Bounds = {
            f"{owner}.statements": {"minItems": len(wanted), "maxItems": len(wanted)},
            "StatementFaithfulnessAnswer.statement": {"maxLength": STATEMENT["maxLength"]},
            "StatementFaithfulnessAnswer.reason": REASON,
            "StatementFaithfulnessAnswer.verdict": BINARY,
        }
        return ReplyForm(bounds, reply_tokens(len(wanted)), check)

    return form


def _in_order(verdicts: Sequence[Any], wanted: Sequence[str]) -> list[Any]:
    def plain(text: str) -> str:
        return " ".join(text.split()).casefold()

    places = {plain(text): place for place, text in enumerate(wanted)}
    named = {places.get(plain(one.statement)): one for one in verdicts}
    if len(places) == len(wanted) and named.keys() == set(places.values()):
        return [named[place] for place in range(len(wanted))]
    return list(verdicts)


def _classification(expected: Expected) -> ReplyForm:
    n_answer, n_truth = map(len, expected)

    def check(reply: Any) -> None:
        right, wrong, missed = len(reply.TP), len(reply.FP), len(reply.FN)
        if right + wrong != n_answer:
            raise ValueError(
                f"each of the {n_answer} statements of the answer belongs into TP or FP; "
                f"they hold {right + wrong}"
            )
        if missed > n_truth:
            raise ValueError(f"the ground truth has {n_truth} statements, and FN holds {missed}")

    most = {"TP": n_answer, "FP": n_answer, "FN": n_truth}
    bounds: Bounds = {
        **{f"ClassificationWithReason.{name}": {"maxItems": n} for name, n in most.items()},
        "StatementsWithReason.statement": {"maxLength": STATEMENT["maxLength"]},
        "StatementsWithReason.reason": REASON,
    }
    return ReplyForm(bounds, reply_tokens(n_answer + n_truth), check)


def _recall_form(_expected: Expected) -> ReplyForm:
    def check(reply: Any) -> None:
        _count(len(reply.classifications), "`classifications`")
        for one in reply.classifications:
            _binary(one.attributed, "attributed")

    bounds: Bounds = {
        "ContextRecallOutput.classifications": {"maxItems": ASKED_STATEMENTS},
        "ContextRecallClassification.statement": {"maxLength": STATEMENT["maxLength"]},
        "ContextRecallClassification.reason": REASON,
        "ContextRecallClassification.attributed": BINARY,
    }
    return ReplyForm(bounds, reply_tokens(BATCH), check, lambda reply: len(reply.classifications))


def _precision(_expected: Expected) -> ReplyForm:
    bounds: Bounds = {"ContextPrecisionOutput.reason": REASON, "ContextPrecisionOutput.verdict": BINARY}
    return ReplyForm(bounds, REASON_TOKENS, lambda reply: _binary(reply.verdict, "verdict"))


def _relevance_form(_expected: Expected) -> ReplyForm:
    def check(reply: Any) -> None:
        if reply.rating not in {0, 1, 2}:
            raise ValueError(f"`rating` is 0, 1 or 2, not {reply.rating}")

    return ReplyForm({"ContextRelevanceOutput.rating": {"minimum": 0, "maximum": 2}}, RATING_TOKENS, check)


def _question(_expected: Expected) -> ReplyForm:
    def check(reply: Any) -> None:
        _binary(reply.noncommittal, "noncommittal")
        if not reply.question.strip():
            raise ValueError("`question` is empty")

    bounds: Bounds = {
        "AnswerRelevanceOutput.question": {"maxLength": STATEMENT["maxLength"]},
        "AnswerRelevanceOutput.noncommittal": BINARY,
    }
    return ReplyForm(bounds, REASON_TOKENS, check)


def _binary(value: int, name: str) -> None:
    if value not in {0, 1}:
        raise ValueError(f"`{name}` is 0 or 1, not {value}")


def _count(found: int, name: str) -> None:
    if found > MOST_STATEMENTS:
        raise ValueError(f"{name} has {found} statements, and at most {MOST_STATEMENTS} are read")


_FORMS: dict[str, Form] = {
    "StatementGeneratorOutput": _list_of("StatementGeneratorOutput", "statements"),
    "ClaimDecompositionOutput": _list_of("ClaimDecompositionOutput", "claims"),
    "NLIStatementOutput": _verdict_form("NLIStatementOutput"),
    "StatementFaithfulnessOutput": _verdict_form("StatementFaithfulnessOutput"),
    "ClassificationWithReason": _classification,
    "ContextRecallOutput": _recall_form,
    "ContextPrecisionOutput": _precision,
    "ContextRelevanceOutput": _relevance_form,
    "AnswerRelevanceOutput": _question,
}


class GatewayLlm(InstructorBaseRagasLLM):
    """Calls the gateway for one metric of one case; turns: how often the same is asked on purpose."""

    def __init__(self, calls: MetricCalls, lists: Sequence[str] = (), turns: int = 1) -> None:
        self.calls = calls
        self._lists = iter(lists)
        self._turns = turns
        self._asked: Counter[str] = Counter()
        self._expected: Expected = ((), ())

    def generate(self, prompt: str, response_model: type[Shape]) -> Shape:
        form = _FORMS[response_model.__name__](self._expected)
        turn = min(self._asked[prompt], self._turns - 1)
        self._asked[prompt] += 1
        found = self.calls.ask(
            prompt_file("asking").messages({"prompt": prompt}),
            response_model,
            form,
            (turn, self._turns),
        )
        if form.size is not None:
            text = next(self._lists)
            if not form.size(found):
                raise self.calls.stop(Status.PARSE_FAILED, f"the judge found no statement in the {text}")
        return found

    async def agenerate(self, prompt: str, response_model: type[Shape]) -> Shape:
        return self.generate(prompt, response_model)

    @contextmanager
    def expecting(self, statements: Sequence[str], truths: Sequence[str] = ()) -> Iterator[None]:
        self._expected = tuple(statements), tuple(truths)
        try:
            yield
        finally:
            self._expected = ((), ())


class JudgeEmbedding(BaseRagasEmbedding):
    """Embeds by the embedder of a judge, each text of a metric once."""

    def __init__(self, embed: Callable[[Sequence[str]], Matrix]) -> None:
        super().__init__()
        self._embed = embed
        self._vectors: dict[str, list[float]] = {}

    def embed_texts(self, texts: Sequence[str], **_: object) -> list[list[float]]:
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if new:
            vectors = np.asarray(self._embed(new), dtype=np.float64)
            self._vectors.update(zip(new, vectors.tolist(), strict=True))
        return [self._vectors[text] for text in texts]

    def embed_text(self, text: str, **_: object) -> list[float]:
        return self.embed_texts([text])[0]

    async def aembed_texts(self, texts: Sequence[str], **_: object) -> list[list[float]]:
        return self.embed_texts(texts)

    async def aembed_text(self, text: str, **_: object) -> list[float]:
        return self.embed_text(text)

    def cosine(self, one: str, other: str) -> float:
        first, second = self.embed_texts([one, other])
        return float(np.dot(first, second) / (np.linalg.norm(first) * np.linalg.norm(second)))


def run_coroutine(metric: Coroutine[object, None, Result]) -> Result:
    try:
        metric.send(None)
    except StopIteration as ended:
        return ended.value
    metric.close()
    raise RuntimeError("a metric of ragas waits for something that is neither its LLM nor its embeddings")


ANSWER, TRUTH = "answer", "ground_truth"


class Read(NamedTuple):
    """value: the exact one, where ragas rounds its own"""

    statements: tuple[Statement, ...]
    reason: str
    value: float | None = None


Cosine = Callable[[str, str], float]
Reader = Callable[[Sequence[Any], Texts, Cosine], Read]


def _faithfulness(values: Sequence[Any], _texts: Texts, _cosine: Cosine) -> Read:
    replies = iter(values)
    found = [
        _stated(ANSWER, one, ("supported", "not supported"))
        for one in _verdicts(replies, next(replies).statements)
    ]
    return Read(tuple(found), f"{_share(found)} statements of the answer are supported by the passages")


def _relevancy(values: Sequence[Any], texts: Texts, cosine: Cosine) -> Read:
    evasive = all(one.noncommittal for one in values)
    found = []
    for one in values:
        alike = 0.0 if evasive else cosine(one.question, texts.question)
        word = "noncommittal" if one.noncommittal else "committal"
        found.append(Statement(ANSWER, one.question, word, alike))
    if evasive:
        return Read(tuple(found), "the judge finds the answer evasive each time, which counts as 0")
    return Read(
        tuple(found), f"mean cosine of the question and {len(found)} questions that the answer would answer"
    )


def _correctness(values: Sequence[Any], texts: Texts, cosine: Cosine) -> Read:
    sorted_ = values[-1]
    found = tuple(
        Statement(ANSWER if verdict != "fn" else TRUTH, one.statement, verdict, None, one.reason)
        for verdict, group in (("tp", sorted_.TP), ("fp", sorted_.FP), ("fn", sorted_.FN))
        for one in group
    )
    right, wrong, missed = len(sorted_.TP), len(sorted_.FP), len(sorted_.FN)
    alike = cosine(texts.answer, texts.truth)
    return Read(found, f"{_counts(right, wrong, missed)}; cosine of answer and ground truth {alike:.2f}")


def _factual(values: Sequence[Any], _texts: Texts, _cosine: Cosine) -> Read:
    replies = iter(values)
    of_answer = list(_verdicts(replies, next(replies).claims))
    of_truth = list(_verdicts(replies, next(replies).claims))
    right = sum(one.verdict for one in of_answer)
    wrong = len(of_answer) - right
    missed = len(of_truth) - sum(one.verdict for one in of_truth)
    found = [
        *(_stated(ANSWER, one, ("tp", "fp"), counts=False) for one in of_answer),
        *(_stated(TRUTH, one, ("found", "fn"), counts=False) for one in of_truth),
    ]
    # F1 of precision and recall; ragas' own is rounded to two decimals.
    value = 2 * right / (2 * right + wrong + missed) if right else 0.0
    return Read(tuple(found), _counts(right, wrong, missed), value)


def _noise(values: Sequence[Any], texts: Texts, *, relevant: bool) -> Read:
    replies = iter(values)
    truths, said = next(replies).statements, next(replies).statements
    n_passages = len(texts.passages[: texts.first])
    holds_truth, held_by = [], []
    for _ in range(n_passages):
        holds_truth.append(any(one.verdict for one in _verdicts(replies, truths)))
        held_by.append([bool(one.verdict) for one in _verdicts(replies, said)])
    right = list(_verdicts(replies, said))
    found = []
    for place, one in enumerate(right):
        sources = [number for number in range(n_passages) if held_by[number][place]]
        from_relevant = any(holds_truth[number] for number in sources)
        counted = not one.verdict and bool(sources) and from_relevant is relevant
        named = ", ".join(str(number + 1) for number in sources) or "none"
        verdict = f"{'right' if one.verdict else 'wrong'}, of passage {named}"
        found.append(Statement(ANSWER, one.statement, verdict, float(counted), one.reason))
    kind = "relevant" if relevant else "irrelevant"
    reason = f"{_share(found)} statements of the answer are wrong and taken from {kind} passages"
    return Read(tuple(found), reason + _of_all(texts))


def _usefulness(values: Sequence[Any], texts: Texts, _cosine: Cosine) -> Read:
    found = []
    for number, (text, one) in enumerate(zip(texts.passages, values, strict=False), 1):
        word = "useful" if one.verdict else "not useful"
        found.append(Statement(f"passage {number}", text, word, float(one.verdict), one.reason))
    return Read(tuple(found), f"{_share(found)} passages are useful{_of_all(texts)}; average precision")


def _recall(values: Sequence[Any], _texts: Texts, _cosine: Cosine) -> Read:
    found = []
    for one in values[0].classifications:
        word = "attributed" if one.attributed else "not attributed"
        found.append(Statement(TRUTH, one.statement, word, float(one.attributed), one.reason))
    return Read(tuple(found), f"{_share(found)} statements of the ground truth are in the passages")


def _relevance(values: Sequence[Any], _texts: Texts, _cosine: Cosine) -> Read:
    if not values:
        return Read((), "the passages only repeat the question: 0 by ragas' rule, and nothing was asked")
    names = ("first rating of all passages", "second rating of all passages")
    found = tuple(
        Statement("passages", name, f"{one.rating} of 2", one.rating / 2)
        for name, one in zip(names, values, strict=True)
    )
    ratings = " and ".join(str(one.rating) for one in values)
    return Read(found, f"the passages are rated {ratings} of 2")


def _verdicts(replies: Iterator[Any], statements: Sequence[str]) -> Iterator[Any]:
    for _ in range(-(-len(statements) // BATCH)):
        yield from next(replies).statements


def _stated(of: str, one: Any, words: tuple[str, str], *, counts: bool = True) -> Statement:
    verdict = words[0] if one.verdict else words[1]
    return Statement(of, one.statement, verdict, float(one.verdict) if counts else None, one.reason)


def _share(found: Sequence[Statement]) -> str:
    return f"{sum(one.value or 0 for one in found):.0f} of {len(found)}"


def _counts(right: int, wrong: int, missed: int) -> str:
    return f"{right} statements are right (tp), {wrong} wrong (fp), {missed} missing (fn)"


def _of_all(texts: Texts) -> str:
    n = len(texts.passages)
    return f" (the first {texts.first} of {n} passages)" if n > texts.first else ""


READERS: dict[str, Reader] = {
    "faithfulness": _faithfulness,
    "answer_relevancy": _relevancy,
    "answer_correctness": _correctness,
    "factual_correctness": _factual,
    "noise_sensitivity": lambda values, texts, _: _noise(values, texts, relevant=True),
    "noise_sensitivity_irrelevant": lambda values, texts, _: _noise(values, texts, relevant=False),
    "context_precision": _usefulness,
    "context_utilization": _usefulness,
    "context_recall": _recall,
    "context_relevance": _relevance,
}
"""Name of a metric -> what reads its replies."""

_ROUNDING = 1e-6  # by which a cosine of 32-bit vectors may pass 1


async def _in_batches(
    llm: GatewayLlm, judge: Callable[[list[str], str], Any], statements: Sequence[str], text: str
) -> list[Any]:
    found = []
    for place in range(0, len(statements), BATCH):
        batch = list(statements[place : place + BATCH])
        with llm.expecting(batch):
            found.append(await judge(batch, text))
    return found


def _joined(replies: Sequence[Any]) -> Any:
    if not replies:
        return None
    return type(replies[0])(statements=[one for reply in replies for one in reply.statements])


class _Faithfulness(Faithfulness):
    async def _create_verdicts(self, statements: list[str], context: str) -> Any:
        return _joined(await _in_batches(self.llm, super()._create_verdicts, statements, context))


class _FactualCorrectness(FactualCorrectness):
    async def _verify_claims(self, claims: list[str], reference: str) -> Any:
        return _joined(await _in_batches(self.llm, super()._verify_claims, claims, reference))


class _NoiseSensitivity(NoiseSensitivity):
    async def _evaluate_statement_faithfulness(self, statements: list[str], context: str) -> list[int]:
        judge = super()._evaluate_statement_faithfulness
        return [one for part in await _in_batches(self.llm, judge, statements, context) for one in part]


class _AnswerCorrectness(AnswerCorrectness):
    async def _classify_statements(
        self, question: str, answer_statements: list[str], ground_truth_statements: list[str]
    ) -> Any:
        with self.llm.expecting(answer_statements, ground_truth_statements):
            return await super()._classify_statements(question, answer_statements, ground_truth_statements)


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
    # Its own repetitions would ask the same call again, and does not keep what went wrong.
    "context_relevance": lambda one: ContextRelevance(llm=one.llm, max_retries=1),
}


def judge_case(
    name: str, texts: Texts, case: CaseCalls, embed: Callable[[Sequence[str]], Matrix], questions: int
) -> Judgement:
    metric, calls = METRICS[name], MetricCalls(case)
    turns = questions if name == "answer_relevancy" else 1
    tools = _Tools(GatewayLlm(calls, metric.lists, turns), JudgeEmbedding(embed), questions)
    each_passage = any(asks.of_each_passage for asks in metric.asks.values())
    try:
        score = _MAKERS[name](tools).ascore
        inputs = texts.inputs(signature(score).parameters, each_passage=each_passage)
        found = float(run_coroutine(score(**inputs)).value)
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
    value = found if read.value is None else read.value
    if math.isnan(value):
        return None, "ragas gave no number: it had nothing to count"
    least, most = bounds
    if least - _ROUNDING <= value <= most + _ROUNDING:
        value = min(most, max(least, value))
    return value, read.reason
