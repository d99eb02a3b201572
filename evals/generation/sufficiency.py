"""Asks a language model whether the passages suffice; if not, the retriever searches once more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, StringConstraints

from rag_assay.evals.generation.context_budget import with_cut
from rag_assay.evals.generation.contract import Answer, Attempt, Passage, Request, Retrieve, with_costs
from rag_assay.warehouse.inference.structured import Structured
from rag_assay.warehouse.recipe import Strict
from rag_assay.warehouse.status import RETRYABLE

if TYPE_CHECKING:
    from rag_assay.warehouse.inference.replies import Reply

VERDICT_TOKENS = 160  # of the model's verdict


class Sufficiency(Strict):
    """A check of the passages before the answer, by the model that answers.

    passages: how many are read at most where the first ones do not suffice; default: twice as many. Of a
        generator with a budget of context, twice that budget is read at most
    reformulate: they are searched by the question and what is missing; false: the ranking is read further
    """

    passages: Annotated[int, Field(ge=1, le=200)] | None = None
    reformulate: bool = True


class SufficiencyReply(Strict):
    """The model's reply: whether the passages hold the answer, and what is missing, in words to search by."""

    sufficient: bool
    missing: Annotated[str, StringConstraints(strip_whitespace=True), Field(max_length=300)]


@dataclass(frozen=True)
class Looked:
    """A request as it is answered after the check; attempts: each look; missing: in the model's words"""

    request: Request
    attempts: tuple[Attempt, ...] = ()
    missing: str = ""
    replies: tuple[Reply, ...] = ()
    seconds: float = 0.0
    failed: Structured[SufficiencyReply] | None = None

    def completed(self, answer: Answer) -> Answer:
        if not self.attempts:
            return answer
        cuts = with_cut(answer.cuts, self.request.cut)
        looked = replace(answer, attempts=self.attempts, passages=self.request.passages, cuts=cuts)
        return with_costs(looked, [*self.replies, answer], self.seconds)

    def unanswered(self, failed: Structured[SufficiencyReply]) -> Answer:
        return Answer(
            failed.status, f"its passages could not be checked: {failed.reason}", attempts=self.attempts
        )


Check = Callable[[Sequence[Request]], list[Structured[SufficiencyReply]]]
"""Requests -> what the model says of the passages of each."""


def looked_again(
    requests: Sequence[Request],
    recipe: Sufficiency,
    check: Check,
    retrieve: Retrieve | None,
    most: int,
    tokens: int | None = None,
) -> list[Looked]:
    """Check the passages, and search once more where they do not suffice; what is unreadable says nothing."""
    looked = [
        _with_verdict(Looked(request), request.question, verdict)
        for request, verdict in zip(requests, check(requests), strict=True)
    ]
    larger: dict[int, str] = {}
    for place, one in enumerate(looked):
        if one.attempts[-1].sufficient is not False:
            continue
        query = (
            f"{one.request.question} {one.missing}".strip() if recipe.reformulate else one.request.question
        )
        looked[place] = _with_more(one, query, retrieve, most, tokens)
        if looked[place].request is not one.request:
            larger[place] = query
    verdicts = check([looked[place].request for place in larger])
    for (place, query), verdict in zip(larger.items(), verdicts, strict=True):
        looked[place] = _with_verdict(looked[place], query, verdict)
    return looked


def _with_verdict(looked: Looked, query: str, found: Structured[SufficiencyReply]) -> Looked:
    verdict = found.value
    reason, missing = found.reason, ""
    if verdict and not verdict.sufficient:
        missing = verdict.missing
        reason = f"missing: {missing}" if missing else "the model does not say what is missing"
    attempt = Attempt(query, _ids(looked.request.passages), verdict.sufficient if verdict else None, reason)
    return replace(
        looked,
        attempts=(*looked.attempts, attempt),
        missing=missing,
        replies=(*looked.replies, found.reply),
        failed=found if found.status in RETRYABLE else None,
    )


def _with_more(
    looked: Looked, query: str, retrieve: Retrieve | None, most: int, tokens: int | None
) -> Looked:
    request = looked.request
    if retrieve is None:
        return _without_more(looked, query, "no retriever can be asked here")
    found = retrieve(request, query, most)
    seconds = looked.seconds + (found.seconds or 0.0)
    before = list(request.passages)
    if request.cut is not None:  # what was cut is read as a whole, where it is found again
        whole = {passage.chunk: passage for passage in found.passages}
        before[-1] = whole.get(request.cut.chunk, before[-1])
    known = {_place(passage) for passage in before}
    new = [passage for passage in found.passages if _place(passage) not in known]
    passages = (*before, *new)[: max(most, len(before))]
    larger = replace(request, passages=passages, cut=None).within(tokens)
    if larger.passages == request.passages:
        reason = f"the search failed: {found.reason}" if found.reason else "no further passage was found"
        return replace(_without_more(looked, query, reason), seconds=seconds)
    return replace(looked, request=larger, seconds=seconds)


def _without_more(looked: Looked, query: str, reason: str) -> Looked:
    attempt = Attempt(query, _ids(looked.request.passages), None, reason)
    return replace(looked, attempts=(*looked.attempts, attempt))


def _place(passage: Passage) -> tuple[str, str, int, int]:
    return passage.chunk, passage.document, passage.start, passage.end


def _ids(passages: Sequence[Passage]) -> tuple[str, ...]:
    return tuple(passage.chunk for passage in passages)
