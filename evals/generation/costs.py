"""Adds up what an answer took that several calls made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rag_assay.evals.generation.contract import Answer
from rag_assay.warehouse.inference.replies import Reply, sum_of_known
from rag_assay.warehouse.schemas import RETRYABLE


def with_costs(answer: Answer, parts: Sequence[Answer | Reply], seconds: float = 0.0) -> Answer:
    """Return an answer with the costs of all calls that it took; one that a further run mends has none.

    A cost that is not known of one call is not known of all; it is from the cache where all calls are.

    parts: the calls, that which gave the answer among them
    seconds: that were spent between them
    """
    if answer.status in RETRYABLE or not parts:
        return answer
    spent = sum_of_known(part.seconds for part in parts)
    return replace(
        answer,
        seconds=None if spent is None else spent + seconds,
        prompt_tokens=sum_of_known(part.prompt_tokens for part in parts),
        completion_tokens=sum_of_known(part.completion_tokens for part in parts),
        usd=sum_of_known(part.usd for part in parts),
        cached=all(part.cached for part in parts),
    )
