"""What came of the bins of one request, and the one answer that is made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rag_assay.evals.generation.contract import Answer, Bin, Passage, Request
from rag_assay.evals.generation.costs import with_costs
from rag_assay.warehouse.schemas import RETRYABLE, Status

_ANSWERED = frozenset({Status.OK, Status.REFUSED})


class PartialAnswers:
    """The bins of one request, each with its answer, on their way to one answer.

    request: with the whole context
    requests: a request a bin; a single one is answered as it is
    remaining: answers that are to be put together, or the one that came of it
    """

    def __init__(self, request: Request, requests: Sequence[Request]) -> None:
        self.request = request
        self.requests = requests
        self.remaining: list[Answer] = []
        self._answers: list[Answer] = []
        self._united: list[Answer] = []
        self._failed: Answer | None = None

    @property
    def is_open(self) -> bool:
        """Whether there are answers to be put together."""
        waits = any(answer.status in RETRYABLE for answer in self._answers)
        return len(self.remaining) > 1 and not waits and self._failed is None

    def add(self, answer: Answer) -> None:
        """Add the answer of the next bin; of one that holds nothing, nothing remains to be put together."""
        self._answers.append(answer)
        if answer.status is Status.OK:
            self.remaining.append(answer)

    def unite(self, answers: Sequence[Answer]) -> None:
        """Let answers that were made of the remaining ones take their place."""
        self._united += [answer for answer in answers if all(answer is not one for one in self.remaining)]
        self._failed = next((one for one in answers if one.status not in _ANSWERED), None)
        self.remaining = [answer for answer in answers if answer.status is Status.OK]

    def whole(self) -> Answer:
        """Return the one answer, with its bins and the costs of all calls."""
        if len(self.requests) == 1:
            return self._answers[0]
        found = replace(
            self._one(),
            bins=tuple(map(_bin, self.requests, self._answers)),
            cuts=tuple(cut for answer in self._answers for cut in answer.cuts),
        )
        return with_costs(found, [*self._answers, *self._united])

    def _one(self) -> Answer:
        n = len(self._answers)
        bad = [
            (f"bin {number} of {n} has no answer ({one.status}: {one.reason})", one)
            for number, one in enumerate(self._answers, start=1)
            if one.status not in _ANSWERED
        ]
        for reason, one in bad:
            if one.status in RETRYABLE:
                return Answer(one.status, reason)
        if self._failed is not None:
            return replace(
                self._failed, reason=f"the answers of the bins were not put together: {self._failed.reason}"
            )
        if bad and self.remaining:
            reason, one = bad[0]
            return replace(
                self.remaining[0], status=one.status, reason=f"{reason}; the text is of the others"
            )
        if bad:
            return Answer(bad[0][1].status, bad[0][0])
        if self.remaining:
            return self.remaining[0]
        return replace((self._united or self._answers)[-1], reason=f"none of {n} bins holds the answer")


def _bin(request: Request, answer: Answer) -> Bin:
    chunks = tuple(dict.fromkeys(passage.chunk for passage in request.passages))
    return Bin(_text(request.passages), chunks, answer.status, answer.reason, answer.text)


def _text(pieces: Sequence[Passage]) -> str:
    """Return the text of a bin, with a blank line where its pieces do not follow on each other."""
    text = ""
    end: tuple[str, int] | None = None
    for piece in pieces:
        text += piece.text if not text or end == (piece.document, piece.start) else f"\n\n{piece.text}"
        end = (piece.document, piece.end)
    return text
