"""Answers from a context that is too long for one prompt: one answer a bin, then one of all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, ClassVar

from pydantic import Field

from rag_assay.evals.generation.answer_prompt import frame_passages
from rag_assay.evals.generation.bins import balance_bins, bins
from rag_assay.evals.generation.contract import Answer, GenerationContext, Request
from rag_assay.evals.generation.llm import Llm
from rag_assay.evals.generation.partial_answers import PartialAnswers
from rag_assay.evals.generation.prompt_fitting import ContextWindow
from rag_assay.evals.generation.token_sizes import Count, bound_count
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.inference.chat_part import CallsEach
from rag_assay.warehouse.inference.quoting import quote_answer

LEAST_ROOM = 16  # tokens of text that a bin must have room for
TRIES = 8  # limits that are tried until the bins, as the model counts them, fit


class LlmBinned(Llm):
    """Asks a language model about a context of any length, bin by bin.

    What fits into the model's window, and into `bin_tokens`, is asked as `llm` asks it. A longer context is
    cut into bins of contiguous sentences, in the order of the documents, and the model answers from each;
    bins that hold nothing say so. The answers of the others are then put together by one more call. Passages
    keep their numbers throughout.

    bin_tokens: of the passages of one prompt at most, by the cell's tokenizer; as many as fit unless said
    """

    kind: ClassVar[str] = "llm_binned"
    unless_said: ClassVar[frozenset[str]] = Llm.unless_said | {"bin_tokens"}

    passages: Annotated[int, Field(ge=1, le=100)] = 20
    bin_tokens: Annotated[int, Field(ge=16, le=1_000_000)] | None = None

    def answers(self, requests: Sequence[Request], context: GenerationContext) -> list[Answer]:
        """Ask the bins of all requests together, then put the answers of each request together."""
        parts = [PartialAnswers(request, self._bins(request, context)) for request in requests]
        tasks = [(part, one) for part in parts for one in part.requests]
        is_one = len(tasks) == 1  # of several bins the text that is put together is the answer

        def ask(task: tuple[PartialAnswers, Request]) -> Answer:
            return self.ask(self.prompts, task[1], context, drafted=is_one)

        found = self.in_turn(ask, tasks, "asking", context)
        for (part, _), answer in zip(tasks, found, strict=True):
            part.add(answer)
        while waiting := [part for part in parts if part.is_open]:
            self._put_together(waiting, context)
        return [part.whole() for part in parts]

    def _bins(self, request: Request, context: GenerationContext) -> list[Request]:
        """Return a request for each bin; the request itself where it fits, or where no passage ever would."""
        window = ContextWindow(self, context.gateway, self.max_tokens, self.window)
        write = self.prompts.messages

        def tokens(one: Request) -> int:
            return context.gateway.count_tokens(self, write(one))

        def fullness(one: Request) -> float:
            """How many times the room for passages its passages take, by the model's own tokenizer."""
            if window.fits(write(one)):
                return 0.0
            bare = tokens(replace(one, passages=()))
            room = (window.tokens or 0) - self.max_tokens - bare
            return (tokens(one) - bare) / room if room > 0 else 0.0

        try:
            return bin_request(request, self.bin_tokens, context.count_tokens, fullness)
        except AssayError:  # a template that fails, or no weights: the call says so
            return [request]

    def _put_together(self, parts: Sequence[PartialAnswers], context: GenerationContext) -> None:
        """Make fewer answers of the remaining ones of each request, all requests together."""
        grouped = [
            _groups(part.remaining, self._answer_room(context), context.count_tokens) for part in parts
        ]
        tasks = [(part, group) for part, groups in zip(parts, grouped, strict=True) for group in groups]
        is_one = len(tasks) == 1

        def unite(task: tuple[PartialAnswers, list[Answer]]) -> Answer:
            part, group = task
            if len(group) == 1:
                return group[0]
            texts = [quote_answer(answer.text or "") for answer in group]
            request = replace(part.request, passages=())
            return self.ask(self.task("aggregate"), request, context, drafted=is_one, answers=texts)

        found = iter(self.in_turn(unite, tasks, "putting answers together by", context))
        for part, groups in zip(parts, grouped, strict=True):
            part.unite([next(found) for _ in groups])

    def _answer_room(self, context: GenerationContext) -> int | None:
        """Return how many tokens the answers in one prompt may have; half of the window is for all else."""
        window = ContextWindow(self, context.gateway, self.max_tokens, self.window).tokens
        rooms = [self.bin_tokens, window and max(1, (window - self.max_tokens) // 2)]
        return min((room for room in rooms if room), default=None)

    def calls_per_question(self) -> CallsEach:
        """Return the calls of `llm` or, at most, one for each passage and one for all of their answers.

        Passages that are longer than a bin take more.
        """
        least, most = super().calls_per_question()
        read = self.sufficiency.passages or 2 * self.passages if self.sufficiency else self.passages
        return CallsEach(least, most + read if self.bin_tokens else most)

    @property
    def tasks(self) -> list[str]:
        """What it asks its model beside answers from passages."""
        return [*super().tasks, "aggregate"]


def bin_request(
    request: Request, room: int | None, count: Count, fullness: Callable[[Request], float] = lambda _one: 0.0
) -> list[Request]:
    """Return a request for each bin of its passages; the request itself where it has room in one.

    room: tokens of the passages of a prompt, with their frame, by ``count``; None: any number
    fullness: how full the prompt of a request is, by the model's own tokenizer; above 1 it does not fit
    """
    sizes = bound_count(count)
    [size] = sizes([frame_passages(request.passages)])
    whole = fullness(request)
    if (room is None or size <= room) and whole <= 1:
        return [request]
    around, *frames = sizes(
        [frame_passages(()), *(frame_passages([replace(one, text="")]) for one in request.passages)]
    )
    frames = [n - around for n in frames]
    least = max(frames) + LEAST_ROOM
    limit = min(size if room is None else room, int(size / max(1.0, whole))) - around
    found: list[Request] = []
    for _ in range(TRIES):
        parts = bins(request.passages, max(limit, least), sizes, frames)
        found = [replace(request, passages=tuple(one)) for one in parts]
        over = max(sizes([frame_passages(one) for one in parts]), default=0) - room if room else 0
        fullest = max(map(fullness, found), default=0.0)
        if limit <= least or (over <= 0 and fullest <= 1):
            break
        limit = min(limit - max(over, 1), int(limit / max(1.0, fullest)))
    return found or [request]


def _groups(answers: list[Answer], room: int | None, count: Count) -> list[list[Answer]]:
    """Return answers in groups that fit into a prompt, or in one group where no two of them would."""
    if room is None:
        return [answers]
    tokens = [n + 2 for n in count([answer.text or "" for answer in answers])]
    zeros = [0] * len(tokens)
    places = balance_bins(tokens, zeros, zeros, room)
    if len(places) == len(answers):
        return [answers]
    return [answers[first:after] for first, after in places]
