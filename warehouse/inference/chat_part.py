"""A part of a study that may ask a language model: which one, and what its calls may cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rag_assay.warehouse.inference.chat_model import ChatModel


JSON_TOKENS = 600  # that a model may write at most to say what it understood


class CallsEach(NamedTuple):
    """How many calls one question or case takes."""

    least: int
    most: int


class ChatComponent:
    """A part that may ask a language model; one that does returns it as `chat`."""

    @property
    def chat(self) -> ChatModel | None:
        return None

    @property
    def longest_reply(self) -> int:
        return JSON_TOKENS

    @property
    def budget_limit(self) -> float | None:
        """US dollars that its calls may cost in one run, within the study's budget; None: only that holds."""
        chat = self.chat
        return None if chat is None or all(one.is_local for one in chat.ranked()) else chat.budget_usd

    def _calls_each(self, most: int = 1) -> CallsEach:
        return CallsEach(0, 0) if self.chat is None else CallsEach(1, most)
