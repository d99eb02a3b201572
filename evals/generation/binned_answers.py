"""Answers from a context that is too long for one prompt: one answer a bin, then one of all of them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, groupby
from typing import Annotated, ClassVar, NamedTuple

from pydantic import Field

from rag_assay.assets.chunking.sentence_splitter import sentence_places
from rag_assay.evals.generation.answer_prompt import frame_passages
from rag_assay.evals.generation.answer_sentences import PassageStretch, holder, is_placed, passage_stretches
from rag_assay.evals.generation.context_budget import Count, bound_count
from rag_assay.evals.generation.contract import Answer, Bin, GenerationContext, Passage, Request, with_costs
from rag_assay.evals.generation.llm import Llm
from rag_assay.evals.generation.prompt_fitting import ContextWindow
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.inference.chat_part import CallsEach
from rag_assay.warehouse.inference.quoting import quote_answer
from rag_assay.warehouse.schemas import RETRYABLE, Status

_WORDS = re.compile(r".*\s", re.DOTALL)  # up to the last white space


class Sentence(NamedTuple):
    """A sentence of the context, with the white space behind it; place: of the passage with most of it"""

    place: int
    start: int
    end: int
    text: str


def context_sentences(passages: Sequence[Passage]) -> list[Sentence]:
    """Return the sentences of passages, each once, in the order of the documents.

    What lies between two passages is not there, so a sentence ends with a passage that no other continues. A
    passage without a document, or whose text is not as long as its offsets say, stands for itself.
    """
    # A line feed between two chunks would change the prompts whose answers are stored.
    found = passage_stretches(passages, keep_lines=False)
    return [one for stretch in found for one in _sentences(stretch, passages)]


def _sentences(stretch: PassageStretch, passages: Sequence[Passage]) -> Iterator[Sentence]:
    found = sentence_places(stretch.text)
    starts = [0, *(start for start, _ in found[1:])]
    for start, end in zip(starts, [*starts[1:], len(stretch.text)], strict=True) if found else ():
        begin, stop = stretch.start + start, stretch.start + end
        place = holder(begin, stop, stretch, passages)
        yield Sentence(place, begin, stop, stretch.text[start:end])


def bins(passages: Sequence[Passage], limit: int, count: Count, frames: Sequence[int]) -> list[list[Passage]]:
    """Return the fewest bins of at most ``limit`` tokens that hold all sentences, about equally full.

    A bin is made of pieces of passages, each with the text and offsets of its sentences alone, and with the
    number by which the whole passage is cited: its place in the request.

    A sentence is whole unless it is longer than a bin alone: then it is cut between words, or within one that
    is longer still.

    count: tokens of texts; those of a bin are counted as the sum of its sentences'
    frames: tokens of what a prompt puts around each passage
    """
    sentences = context_sentences(passages)
    whole = count([sentence.text for sentence in sentences])
    fitted: list[Sentence] = []
    tokens: list[int] = []
    for sentence, n_tokens in zip(sentences, whole, strict=True):
        room = max(1, limit - frames[sentence.place])
        parts = [sentence] if n_tokens <= room else list(_cut(sentence, room, count))
        fitted += parts
        tokens += [n_tokens] if len(parts) == 1 else count([part.text for part in parts])
    leads = [frames[one.place] for one in fitted]
    return [
        [_piece(list(run), passages) for _, run in groupby(fitted[first:after], lambda one: one.place)]
        for first, after in balance_bins(tokens, leads, [one.place for one in fitted], limit)
    ]


def _piece(run: Sequence[Sentence], passages: Sequence[Passage]) -> Passage:
    place = run[0].place
    piece = replace(passages[place], text="".join(one.text for one in run), number=place + 1)
    if not is_placed(passages[place]):
        return piece
    return replace(piece, start=run[0].start, end=run[-1].end)


def _cut(sentence: Sentence, room: int, count: Count) -> Iterator[Sentence]:
    """Cut a sentence into parts of at most ``room`` tokens, of at least one character each."""
    rest = sentence
    while rest.text:
        size = _longest_beginning(rest.text, room, count)
        if size < len(rest.text):
            words = _WORDS.match(rest.text, 0, size)
            size = words.end() if words else size
        yield Sentence(rest.place, rest.start, rest.start + size, rest.text[:size])
        rest = Sentence(rest.place, rest.start + size, rest.end, rest.text[size:])


def _longest_beginning(text: str, room: int, count: Count) -> int:
    """Return how many characters of a text have at most ``room`` tokens; at least 1."""
    size = min(len(text), 4 * room)
    while size < len(text) and count([text[:size]])[0] <= room:
        size = min(len(text), 2 * size)
    low, high = 1, size
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count([text[:middle]])[0] <= room else (low, middle - 1)
    return low


def balance_bins(
    tokens: Sequence[int], leads: Sequence[int], places: Sequence[int], limit: int
) -> list[tuple[int, int]]:
    """Return (first, after) of as few bins as can be, each as near as can be to the mean of those to come.

    leads: tokens of the frame of its passage, which is repeated wherever a bin or another passage begins
    limit: tokens of a bin; only a sentence that is longer than that alone passes it
    """
    n = len(tokens)
    opens = [at == 0 or places[at] != places[at - 1] for at in range(n)]
    sums = [
        0,
        *accumulate(one + lead * opened for one, lead, opened in zip(tokens, leads, opens, strict=True)),
    ]
    # What a bin costs that begins at a sentence: sums[after] - base[first].
    base = [sums[at] - (0 if opens[at] else leads[at]) for at in range(n)]
    furthest = [max(at + 1, bisect_right(sums, base[at] + limit) - 1) for at in range(n)]
    needed = [0] * (n + 1)  # bins that the sentences from here on take at least
    for at in reversed(range(n)):
        needed[at] = 1 + needed[furthest[at]]
    found: list[tuple[int, int]] = []
    at = 0
    while at < n:
        left = needed[at]
        goal = base[at] + (sums[n] - base[at]) / left
        possible = [after for after in range(at + 1, furthest[at] + 1) if needed[after] <= left - 1]
        after = min(possible, key=lambda place: (abs(sums[place] - goal), place))
        found.append((at, after))
        at = after
    return found


_ANSWERED = frozenset({Status.OK, Status.REFUSED})


class PartialAnswers:
    """The bins of one request, each with its answer, on their way to one answer."""

    def __init__(self, request: Request, requests: Sequence[Request]) -> None:
        self.request = request
        self.requests = requests
        self.remaining: list[Answer] = []
        self._answers: list[Answer] = []
        self._united: list[Answer] = []
        self._failed: Answer | None = None

    @property
    def is_open(self) -> bool:
        waits = any(answer.status in RETRYABLE for answer in self._answers)
        return len(self.remaining) > 1 and not waits and self._failed is None

    def add(self, answer: Answer) -> None:
        """Add the answer of the next bin; of one that holds nothing, nothing remains."""
        self._answers.append(answer)
        if answer.status is Status.OK:
            self.remaining.append(answer)

    def unite(self, answers: Sequence[Answer]) -> None:
        self._united += [answer for answer in answers if all(answer is not one for one in self.remaining)]
        self._failed = next((one for one in answers if one.status not in _ANSWERED), None)
        self.remaining = [answer for answer in answers if answer.status is Status.OK]

    def whole(self) -> Answer:
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
    text = ""
    end: tuple[str, int] | None = None
    for piece in request.passages:
        text += piece.text if not text or end == (piece.document, piece.start) else f"\n\n{piece.text}"
        end = (piece.document, piece.end)
    return Bin(text, chunks, answer.status, answer.reason, answer.text)


LEAST_ROOM = 16  # tokens of text that a bin must have room for
TRIES = 8  # limits that are tried until the bins, as the model counts them, fit


class LlmBinned(Llm):
    """Calls a language model for a context of any length, bin by bin.

    What fits into the model's window, and into `bin_tokens`, is asked as `llm` asks it. A longer context is
    cut into bins of contiguous sentences, in the order of the documents, and the model answers from each;
    bins that hold nothing say so. The answers of the others are then put together by one more call. Passages
    keep their numbers throughout.

    bin_tokens: of the passages of one prompt at most, by the cell's tokenizer; default: as many as fit
    """

    kind: ClassVar[str] = "llm_binned"
    unless_said: ClassVar[frozenset[str]] = Llm.unless_said | {"bin_tokens"}

    passages: Annotated[int, Field(ge=1, le=100)] = 20
    bin_tokens: Annotated[int, Field(ge=16, le=1_000_000)] | None = None

    def answers(self, requests: Sequence[Request], context: GenerationContext) -> list[Answer]:
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
        window = ContextWindow(self, context.gateway, self.max_tokens, self.window).tokens
        rooms = [self.bin_tokens, window and max(1, (window - self.max_tokens) // 2)]
        return min((room for room in rooms if room), default=None)

    def calls_per_question(self) -> CallsEach:
        """Return the calls of `llm` or, at most, one for each passage and one for all of their answers."""
        least, most = super().calls_per_question()
        read = self.sufficiency.passages or 2 * self.passages if self.sufficiency else self.passages
        return CallsEach(least, most + read if self.bin_tokens else most)

    @property
    def tasks(self) -> list[str]:
        return [*super().tasks, "aggregate"]


def bin_request(
    request: Request, room: int | None, count: Count, fullness: Callable[[Request], float] = lambda _one: 0.0
) -> list[Request]:
    """Return a request for each bin; room: tokens of its passages; fullness: of the prompt, 1: full"""
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
    if room is None:
        return [answers]
    tokens = [n + 2 for n in count([answer.text or "" for answer in answers])]
    zeros = [0] * len(tokens)
    places = balance_bins(tokens, zeros, zeros, room)
    if len(places) == len(answers):
        return [answers]
    return [answers[first:after] for first, after in places]
