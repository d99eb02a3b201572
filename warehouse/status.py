"""How results end, and how many of them must have a value."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """How one (cell, question, metric) row ended. Anything but `ok` has a reason and no value."""

    OK = "ok"
    REFUSED = "refused"
    NO_CONTEXT = "no_context"
    PARSE_FAILED = "parse_failed"
    TRUNCATED = "truncated"
    TIMEOUT = "timeout"
    RATE_LIMITED = "rate_limited"
    OVER_BUDGET = "over_budget"
    ERROR = "error"
    NOT_RUN = "not_run"


RETRYABLE = frozenset({Status.TIMEOUT, Status.RATE_LIMITED, Status.OVER_BUDGET, Status.ERROR, Status.NOT_RUN})
"""Outcomes that another run may fix: a result that holds one is not complete, and is tried again."""

MIN_COVERAGE = 0.98
"""Share of its questions that must have a value; below it a cell has no rank and cannot win."""
