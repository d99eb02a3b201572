"""Fits a case into what a judge's model reads: its passages are cut, or its reply has less room."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from rag_assay.evals.generation.contract import Request
from rag_assay.evals.generation.prompt_fitting import ContextWindow, fit_prompt
from rag_assay.evals.judging.contract import JudgeCase, Judgement
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.inference.chat_model import ChatModel
from rag_assay.warehouse.inference.gateway import Gateway, Messages
from rag_assay.warehouse.schemas import Status


class FittedCase(NamedTuple):
    """A prompt that fits, and what it does not show.

    note: which passages were cut, for the reason of the judgement; empty where none was
    """

    messages: Messages
    note: str = ""


def fit_case(
    case: JudgeCase, write: Callable[[JudgeCase], Messages], window: ContextWindow, *, needs_passages: bool
) -> FittedCase | Judgement:
    """Return the longest prompt of a case that fits, or a judgement that says why there is none.

    write: makes the prompt of a case
    needs_passages: a prompt without any of its passages is of no use
    """
    request = Request(case.question, case.language, passages=case.passages)
    try:
        found = fit_prompt(request, lambda one: write(replace(case, passages=one.passages)), window.fits)
    except AssayError:  # weights that are not there fail the call itself
        return FittedCase(write(case))
    if found is None:
        return Judgement(Status.TRUNCATED, reason=f"the case does not fit into {window.words}")
    left_out, total = len(found.left_out), len(case.passages)
    if needs_passages and left_out == total:
        return Judgement(Status.NO_CONTEXT, reason=f"no passage fits into {window.words}")
    note = f"{len(found.cuts)} of {total} passages were cut or left out to fit" if found.cuts else ""
    return FittedCase(found.messages, note)


def reply_room(
    chat: ChatModel, gateway: Gateway, messages: Messages, wanted: int, window: int | None = None
) -> int:
    """Return how many tokens a reply may have: as many as wanted, or as a prompt leaves of the window.

    window: as the recipe says, in tokens; None: what is known of the model
    """
    tokens = ContextWindow(chat, gateway, wanted, window).tokens
    if tokens is None:
        return wanted
    try:
        return min(wanted, tokens - gateway.count_tokens(chat, messages))
    except AssayError:  # weights that are not there fail the call itself
        return wanted
