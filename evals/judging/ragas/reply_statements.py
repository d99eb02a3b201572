"""What ragas' replies say, as statements with verdicts, and in words; where ragas rounds, the value too."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from rag_assay.evals.judging.contract import Statement
from rag_assay.evals.judging.ragas.metrics import BATCH
from rag_assay.evals.judging.ragas.texts import Texts

ANSWER, TRUTH = "answer", "ground_truth"


class Read(NamedTuple):
    """What was read of the replies of a metric.

    value: the exact one, where ragas rounds its own; None: ragas' value is it
    """

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
    found = tuple(
        Statement(
            ANSWER,
            one.question,
            "noncommittal" if one.noncommittal else "committal",
            0.0 if evasive else cosine(one.question, texts.question),
        )
        for one in values
    )
    if evasive:
        return Read(found, "the judge finds the answer evasive each time, which counts as 0")
    return Read(found, f"mean cosine of the question and {len(found)} questions that the answer would answer")


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
    """Read which statements of the answer are wrong, and from passages that are, or are not, relevant."""
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
    found = [
        Statement(
            f"passage {number}",
            texts.passages[number - 1],
            "useful" if one.verdict else "not useful",
            float(one.verdict),
            one.reason,
        )
        for number, one in enumerate(values, 1)
    ]
    return Read(tuple(found), f"{_share(found)} passages are useful{_of_all(texts)}; average precision")


def _recall(values: Sequence[Any], _texts: Texts, _cosine: Cosine) -> Read:
    found = [
        Statement(
            TRUTH,
            one.statement,
            "attributed" if one.attributed else "not attributed",
            float(one.attributed),
            one.reason,
        )
        for one in values[0].classifications
    ]
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
    """Yield the verdicts of statements, which may be those of several replies."""
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
