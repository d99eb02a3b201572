"""ragas' view of our models: an LLM that asks the gateway, an embedding that asks the judge's embedder.

ragas' metrics are coroutines that wait for nothing but their LLM and their embeddings. Those are asked in the
thread that runs the metric, so a metric is run to its end without an event loop, in any thread, also in one
that has a loop already.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from pydantic import BaseModel

from rag_assay.assets.embedding.embedder import Matrix
from rag_assay.evals.judging.ragas.calls import MetricCalls
from rag_assay.evals.judging.ragas.metrics import (
    BATCH,
    LIST_TOKENS,
    MOST_STATEMENTS,
    RATING_TOKENS,
    REASON_TOKENS,
    reply_tokens,
)
from rag_assay.evals.judging.ragas.metrics import prompt as prompt_file
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


@dataclass(frozen=True)
class ReplyExpectations:
    """What a reply must be about.

    statements: that are judged; of a classification those of the answer
    """

    statements: tuple[str, ...] = ()
    truths: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReplyForm:
    """How one class of replies is asked for.

    bounds: see `Gateway.structured`
    check: raises ValueError for what cannot be used
    size: how many statements a reply holds, where it takes a text apart; none then stops the metric
    """

    bounds: Bounds
    max_tokens: int
    check: Callable[[Any], None]
    size: Callable[[Any], int] | None = None


def form_of(name: str, expected: ReplyExpectations) -> ReplyForm:
    """Return how replies of a class of ragas are asked for."""
    return _FORMS[name](expected)


def _list_of(owner: str, field: str) -> Callable[[ReplyExpectations], ReplyForm]:
    def form(_expected: ReplyExpectations) -> ReplyForm:
        def check(reply: Any) -> None:
            said = [one for one in getattr(reply, field) if one.strip()]
            _count(len(said), f"`{field}`")
            setattr(reply, field, said)

        bounds: Bounds = {f"{owner}.{field}": {"items": STATEMENT, "maxItems": ASKED_STATEMENTS}}
        return ReplyForm(bounds, LIST_TOKENS, check, lambda reply: len(getattr(reply, field)))

    return form


def _verdicts(owner: str) -> Callable[[ReplyExpectations], ReplyForm]:
    def form(expected: ReplyExpectations) -> ReplyForm:
        wanted = expected.statements

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
    places = {_plain(text): place for place, text in enumerate(wanted)}
    named = {places.get(_plain(one.statement)): one for one in verdicts}
    if len(places) == len(wanted) and named.keys() == set(places.values()):
        return [named[place] for place in range(len(wanted))]
    return list(verdicts)


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def _classification(expected: ReplyExpectations) -> ReplyForm:
    n_answer, n_truth = len(expected.statements), len(expected.truths)

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
    bounds: Bounds = {f"ClassificationWithReason.{name}": {"maxItems": n} for name, n in most.items()}
    texts: Bounds = {
        "StatementsWithReason.statement": {"maxLength": STATEMENT["maxLength"]},
        "StatementsWithReason.reason": REASON,
    }
    return ReplyForm({**bounds, **texts}, reply_tokens(n_answer + n_truth), check)


def _recall(_expected: ReplyExpectations) -> ReplyForm:
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


def _precision(_expected: ReplyExpectations) -> ReplyForm:
    bounds: Bounds = {"ContextPrecisionOutput.reason": REASON, "ContextPrecisionOutput.verdict": BINARY}
    return ReplyForm(bounds, REASON_TOKENS, lambda reply: _binary(reply.verdict, "verdict"))


def _relevance(_expected: ReplyExpectations) -> ReplyForm:
    def check(reply: Any) -> None:
        if reply.rating not in {0, 1, 2}:
            raise ValueError(f"`rating` is 0, 1 or 2, not {reply.rating}")

    return ReplyForm({"ContextRelevanceOutput.rating": {"minimum": 0, "maximum": 2}}, RATING_TOKENS, check)


def _question(_expected: ReplyExpectations) -> ReplyForm:
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


_FORMS: dict[str, Callable[[ReplyExpectations], ReplyForm]] = {
    "StatementGeneratorOutput": _list_of("StatementGeneratorOutput", "statements"),
    "ClaimDecompositionOutput": _list_of("ClaimDecompositionOutput", "claims"),
    "NLIStatementOutput": _verdicts("NLIStatementOutput"),
    "StatementFaithfulnessOutput": _verdicts("StatementFaithfulnessOutput"),
    "ClassificationWithReason": _classification,
    "ContextRecallOutput": _recall,
    "ContextPrecisionOutput": _precision,
    "ContextRelevanceOutput": _relevance,
    "AnswerRelevanceOutput": _question,
}


class GatewayLlm(InstructorBaseRagasLLM):
    """Asks the gateway for one metric of one case.

    calls: keeps what came
    lists: the texts that are taken apart, in that order
    turns: how often the same is asked on purpose
    """

    def __init__(self, calls: MetricCalls, lists: Sequence[str] = (), turns: int = 1) -> None:
        self.calls = calls
        self._lists = iter(lists)
        self._turns = turns
        self._asked: Counter[str] = Counter()
        self._expected = ReplyExpectations()

    def generate(self, prompt: str, response_model: type[Shape]) -> Shape:
        form = form_of(response_model.__name__, self._expected)
        turn = min(self._asked[prompt], self._turns - 1)
        self._asked[prompt] += 1
        found = self.calls.ask(
            prompt_file("asking").messages({"prompt": prompt}),
            response_model,
            bounds=form.bounds,
            max_tokens=form.max_tokens,
            check=form.check,
            turn=(turn, self._turns),
        )
        if form.size is not None:
            text = next(self._lists)
            if not form.size(found):
                raise self.calls.stop(Status.PARSE_FAILED, f"the judge found no statement in the {text}")
        return found

    async def agenerate(self, prompt: str, response_model: type[Shape]) -> Shape:
        """Return the same as `generate`; nothing is waited for."""
        return self.generate(prompt, response_model)

    @contextmanager
    def expecting(self, statements: Sequence[str], truths: Sequence[str] = ()) -> Iterator[None]:
        """Hold the replies in this block to be about these statements."""
        self._expected = ReplyExpectations(tuple(statements), tuple(truths))
        try:
            yield
        finally:
            self._expected = ReplyExpectations()


class JudgeEmbedding(BaseRagasEmbedding):
    """Embeds by the embedder of a judge, each text of a metric once."""

    def __init__(self, embed: Callable[[Sequence[str]], Matrix]) -> None:
        super().__init__()
        self._embed = embed
        self._vectors: dict[str, list[float]] = {}

    def embed_texts(self, texts: Sequence[str], **_: object) -> list[list[float]]:
        """Return the vectors of texts, in their order."""
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if new:
            vectors = np.asarray(self._embed(new), dtype=np.float64)
            self._vectors.update(zip(new, vectors.tolist(), strict=True))
        return [self._vectors[text] for text in texts]

    def embed_text(self, text: str, **_: object) -> list[float]:
        return self.embed_texts([text])[0]

    async def aembed_texts(self, texts: Sequence[str], **_: object) -> list[list[float]]:
        """Return the same as `embed_texts`; nothing is waited for."""
        return self.embed_texts(texts)

    async def aembed_text(self, text: str, **_: object) -> list[float]:
        """Return the same as `embed_text`; nothing is waited for."""
        return self.embed_text(text)

    def cosine(self, one: str, other: str) -> float:
        """Return the cosine of two texts."""
        first, second = self.embed_texts([one, other])
        return float(np.dot(first, second) / (np.linalg.norm(first) * np.linalg.norm(second)))


def run_coroutine(metric: Coroutine[object, None, Result]) -> Result:
    try:
        metric.send(None)
    except StopIteration as ended:
        return ended.value
    metric.close()
    raise RuntimeError("a metric of ragas waits for something that is neither its LLM nor its embeddings")
