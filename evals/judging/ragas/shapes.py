"""What ragas' replies must be beyond their classes: bounds for the server, and checks of what came.

ragas asks for whole numbers and lists without bounds, and believes what comes: a verdict of 7 gives a value
above 1, a missing verdict another denominator. Here such a reply cannot be used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rag_assay.evals.judging.ragas.metrics import (
    BATCH,
    LIST_TOKENS,
    MOST_STATEMENTS,
    RATING_TOKENS,
    REASON_TOKENS,
    reply_tokens,
)
from rag_assay.warehouse.inference.structured import Bounds

ASKED_STATEMENTS = 40  # that a server is asked for at most; a few more are taken
STATEMENT = {"type": "string", "maxLength": 400}
REASON = {"maxLength": 240}
BINARY = {"minimum": 0, "maximum": 1}


@dataclass(frozen=True)
class ReplyExpectations:
    """What a reply must be about.

    statements: that are judged; of a classification those of the answer
    truths: those of the ground truth, which it may miss
    """

    statements: tuple[str, ...] = ()
    truths: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReplyForm:
    """How one class of replies is asked for.

    bounds: see `Gateway.structured`
    max_tokens: of a reply
    check: raises ValueError for what cannot be used
    size: how many statements a reply holds, where it takes a text apart; none then stops the metric
    """

    bounds: Bounds
    max_tokens: int
    check: Callable[[Any], None]
    size: Callable[[Any], int] | None = None


def form_of(name: str, expected: ReplyExpectations) -> ReplyForm:
    """Return how replies of a class of ragas are asked for.

    Raises:
        KeyError: a class that no metric of ours asks by.
    """
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
    """Return verdicts in the order of the statements that were to be judged.

    By their texts, where these are the same; else by their places, as ragas takes them.
    """
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
