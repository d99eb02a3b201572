"""What the replies of a model cost, as a judgement has it."""

from __future__ import annotations

from collections.abc import Sequence

from rag_assay.evals.judging.contract import Judgement, Statement
from rag_assay.warehouse.inference.replies import Reply, together
from rag_assay.warehouse.schemas import Status


def make_judgement(
    replies: Sequence[Reply],
    *,
    value: float | None = None,
    status: Status | None = None,
    reason: str | None = None,
    statements: tuple[Statement, ...] = (),
) -> Judgement:
    """Return a judgement that one or several replies came to, with what they cost together.

    status: `ok` where there is a value, else that of the last reply that failed, unless said
    """
    if not replies:
        return Judgement(status or Status.OK, value, reason, statements=statements)
    whole = together(tuple(replies))
    failed = next((one for one in reversed(replies) if one.status is not Status.OK), None)
    ended = status or (Status.OK if value is not None else failed.status if failed else Status.PARSE_FAILED)
    return Judgement(
        ended,
        value if ended is Status.OK else None,
        reason or (failed.reason if failed and ended is not Status.OK else None),
        whole.raw,
        whole.seconds,
        whole.prompt_tokens,
        whole.completion_tokens,
        whole.usd,
        whole.cached,
        len(replies),
        whole.model,
        statements,
    )
