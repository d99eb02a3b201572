"""Fits passages into a model's window: whole ones from the first on, the last one shortened at a sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from rag_assay.evals.generation.context_budget import WORTH, Count, Cut, bound_count, sentence_ends, word_ends
from rag_assay.warehouse.inference.token_counts import known_window, most_tokens

if TYPE_CHECKING:
    from rag_assay.evals.generation.contract import Request
    from rag_assay.warehouse.inference.chat_model import ChatModel
    from rag_assay.warehouse.inference.gateway import Gateway, Messages

HISTORY_TOKENS = 512  # of a conversation, unless a generator says another number


class History(NamedTuple):
    """What a model is given of a conversation; an answer that was left out is empty."""

    turns: tuple[str, ...]
    left_out: int


def recent_turns(conversation: Sequence[str], limit: int, count: Count) -> History:
    """Return the newest turns of a conversation that have at most ``limit`` tokens together.

    A question goes with its answer. Of the oldest question that is kept the answer may be missing, where it
    alone is too long: the question tells what was talked of.

    conversation: question and answer by turns, oldest first; the last question may have no answer
    """
    sizes = count(conversation) if conversation else []
    room = limit
    kept: list[str] = []
    for first in reversed(range(0, len(conversation), 2)):
        turns, tokens = list(conversation[first : first + 2]), sum(sizes[first : first + 2])
        if tokens <= room:
            kept = [*turns, *kept]
            room -= tokens
            continue
        if sizes[first] <= room:
            kept = [turns[0], *("" for _ in turns[1:]), *kept]
        break
    texts = [turn for turn in conversation if turn.strip()]
    return History(tuple(kept), len(texts) - len([turn for turn in kept if turn.strip()]))


def with_recent(request: Request, limit: int, count: Count) -> tuple[Request, int]:
    if not request.conversation:
        return request, 0
    history = recent_turns(request.conversation, limit, bound_count(count))
    return replace(request, conversation=history.turns), history.left_out


LEAST_WINDOW = 4096  # tokens: no model in use reads fewer
_MARK = " …"


@dataclass(frozen=True)
class FittedPrompt:
    """A request whose prompt fits."""

    messages: Messages
    cuts: tuple[Cut, ...]

    @property
    def left_out(self) -> list[Cut]:
        return [cut for cut in self.cuts if not cut.kept]


@dataclass(frozen=True)
class ContextWindow:
    """How much a model reads; said: tokens by the recipe; None: what is known of the model"""

    chat: ChatModel
    gateway: Gateway
    answer: int
    said: int | None = None

    def fits(self, messages: Messages) -> bool:
        """Return whether a prompt leaves room for the answer; what fits by any tokenizer is not counted."""
        most = most_tokens([one["content"] for one in messages]) + self.answer
        if most <= (self.said or LEAST_WINDOW) and most <= self._local:
            return True
        tokens = self.tokens
        if tokens is None or most <= tokens:
            return True
        return self.gateway.count_tokens(self.chat, messages) + self.answer <= tokens

    @property
    def tokens(self) -> int | None:
        """Tokens that the model reads; None: not known."""
        if self.chat.is_local:
            return min(self.said or self._local, self._local)
        return self.said or known_window(self.chat.model)

    @property
    def words(self) -> str:
        return (
            f"the model's window of {self.tokens} tokens, {self.answer} of which are for the answer; "
            "nothing was sent"
        )

    @property
    def _local(self) -> int:
        return self.gateway.local_context if self.chat.is_local else LEAST_WINDOW


def fit_prompt(
    request: Request, write: Callable[[Request], Messages], fits: Callable[[Messages], bool]
) -> FittedPrompt | None:
    """Return the longest prompt that fits; None: not even without passages. One that does not fit is cut at
    the end of a sentence or word, and all after it are left out: the order is the retriever's.
    """
    whole = write(request)
    if fits(whole):
        return FittedPrompt(whole, ())
    passages = request.passages
    if not fits(write(replace(request, passages=()))):
        return None
    n = _most(len(passages) - 1, lambda n: fits(write(replace(request, passages=passages[:n]))))

    def shortened(kept: int) -> Request:
        last = passages[n]
        text = last.text[:kept].rstrip() + _MARK
        short = replace(last, text=text, end=last.start + kept)
        return replace(request, passages=(*passages[:n], short))

    kept = _kept(passages[n].text, lambda end: fits(write(shortened(end))))
    given = shortened(kept) if kept else replace(request, passages=passages[:n])
    left_out = [Cut(passage.chunk, 0) for passage in passages[n + 1 :]]
    return FittedPrompt(write(given), (Cut(passages[n].chunk, kept), *left_out))


def _kept(text: str, fits: Callable[[int], bool]) -> int:
    """Return how many characters of a text fit, cut where a sentence or a word ends; 0: not worth it."""
    for ends in (sentence_ends(text), word_ends(text)):
        n = _most(len(ends), lambda n, ends=ends: n == 0 or fits(ends[n - 1]))  # type: ignore[misc]
        if n and ends[n - 1] >= WORTH:
            return ends[n - 1]
    return 0


def _most(most: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number up to ``most`` that fits, 0 being known to, by halving."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low
