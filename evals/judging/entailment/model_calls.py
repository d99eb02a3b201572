"""Asks the model of an entailment judge, by prompts that are files; one file a stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, TypeVar

from rag_assay.evals.generation.templates import Template
from rag_assay.evals.judging.contract import JudgeContext
from rag_assay.evals.judging.structured_calls import ReplyBudget, ask_in_room
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.inference.chat_model import ChatModel
from rag_assay.warehouse.inference.replies import Reply, together
from rag_assay.warehouse.inference.structured import Bounds, Shape, Structured

Stage = Literal["pronouns", "facts", "refusals"]
STAGES: tuple[Stage, ...] = ("pronouns", "facts", "refusals")
LEAST_REPLY = 200  # tokens of a reply; with less room nothing is sent
_VERSION = "2"  # of how values are made of a case
Item = TypeVar("Item")
Result = TypeVar("Result")


@cache
def _prompt(stage: Stage) -> Template:
    return Template.read(Path(__file__).parent / "prompts" / f"{stage}.j2")


def prompts_identity() -> str:
    """Return the digest of every prompt: with another wording, judgements are others."""
    return digest([_VERSION, [_prompt(stage).identity() for stage in STAGES]])


@dataclass(frozen=True)
class EntailmentModel:
    """A model, and the context in which a judge asks it.

    window: tokens that the model reads, as the recipe says; None: what is known of it
    """

    chat: ChatModel
    context: JudgeContext
    window: int | None = None

    def ask(
        self,
        stage: Stage,
        values: dict[str, object],
        shape: type[Shape],
        *,
        max_tokens: int,
        question_id: str | None,
        bounds: Bounds | None = None,
        check: Callable[[Shape], None] | None = None,
    ) -> Structured[Shape]:
        """Ask by the prompt of a stage, whose values are quoted already.

        Where the prompt leaves too little of the model's window for a reply, nothing is sent.
        """
        messages = _prompt(stage).messages(values)
        room = ReplyBudget(max_tokens, LEAST_REPLY, self.window)
        return ask_in_room(
            self.chat,
            self.context,
            messages,
            shape,
            name=stage,
            room=room,
            question_id=question_id,
            bounds=bounds,
            check=check,
        )

    def each(self, ask: Callable[[Item], Result], items: Sequence[Item], label: str) -> list[Result]:
        """Do what asks the model for each item, side by side, and say how far it is."""
        return list(self.context.each(ask, items, self.chat, label))


SPENT = r"^(\d+) calls?, ([\d.]+) s(?:, (\d+) \+ (\d+) tokens)?"
"""Reads what `spent` writes: calls, seconds, tokens read and written; no match where there was no call."""


def spent(replies: Sequence[Reply]) -> str:
    """Return in words what calls took, as in `2 calls, 1.25 s, 310 + 84 tokens`: read and written."""
    if not replies:
        return "no call"
    whole = together(tuple(replies))
    words = [f"{len(replies)} {'call' if len(replies) == 1 else 'calls'}", f"{whole.seconds:.2f} s"]
    if whole.prompt_tokens is not None and whole.completion_tokens is not None:
        words.append(f"{whole.prompt_tokens} + {whole.completion_tokens} tokens")
    return ", ".join(words)
