"""A ranked list of models: where one cannot answer, the next is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from rag_assay.warehouse.inference.redaction import one_line
from rag_assay.warehouse.schemas import RETRYABLE, Status

if TYPE_CHECKING:
    from rag_assay.warehouse.inference.chat_model import ChatModel
    from rag_assay.warehouse.inference.replies import Reply

PASSED_ON = RETRYABLE - {Status.OVER_BUDGET}
"""How a call ends that may go well with another model: unreachable, refused key, rate limit, error, timeout.

Not what the model said of the question (a refusal, an answer that was cut or cannot be read), and not a spent
budget, which is one for all of them.
"""


def first_answer(ask: Callable[[ChatModel], Reply], chat: ChatModel) -> Reply:
    """Ask the models of a recipe in their order until one answers; its name is the reply's `model`.

    Where none does, the reply is that of the last one, and its reason names all of them with theirs.

    ask: asks one model; whatever was asked before comes from the cache
    """
    first, *others = chat.ranked()
    reply = ask(first)
    reasons = []
    for other in others:
        if reply.status not in PASSED_ON:
            return reply
        reasons.append(f"{reply.model}: {reply.status}: {reply.reason}")
        reply = ask(other)
    if reply.status is Status.OK or not reasons:
        return reply
    before = one_line("; ".join(reasons))
    return replace(reply, reason=f"{reply.model}: {reply.reason} (asked before: {before})")
