"""Makes a call in as many attempts as it takes: passing faults are tried again, rate limits waited out."""

from __future__ import annotations

import random
from collections.abc import Callable
from time import perf_counter
from typing import Generic, NamedTuple, TypeVar

from warehouse.inference import call_failures
from warehouse.inference.throttle import LONGEST_WAIT, PATIENCE, Throttle, Ticket
from warehouse.waiting import UnwantedError, pause

Response = TypeVar("Response")


class Attempted(NamedTuple, Generic[Response]):
    """How a call ended: with a response, or with the error of its last attempt.

    seconds: of the last attempt
    queued: seconds from when the call was asked for until its last attempt began
    retries: attempts before the last
    """

    response: Response | None
    error: Exception | None
    seconds: float
    queued: float
    retries: int


def attempted(
    send: Callable[[], Response],
    throttle: Throttle,
    ticket: Ticket,
    retries: int,
    *,
    asked_at: float,
    tokens_of: Callable[[Response], int | None] = lambda _response: None,
) -> Attempted[Response]:
    """Send a request until it is answered, or fails for good.

    A rate limit is waited out, with the whole server, and takes up none of the retries; unless there are none
    at all, or the server asks for more than LONGEST_WAIT seconds, or the call has waited PATIENCE seconds.

    retries: further attempts after a passing fault; 0: none after anything
    asked_at: when the call was asked for, by `perf_counter`
    tokens_of: that a response took; None: not known

    Raises:
        LeftAloneError: no attempt was made, for the server is to be left alone.
        UnwantedError: nobody wants the call any more.
    """
    faults = attempts = 0
    waited = 0.0
    while True:
        with throttle.passed(ticket):
            begin = perf_counter()
            try:
                response = send()
            except UnwantedError:
                throttle.failed(ticket)
                raise
            except Exception as error:  # LiteLLM raises its own, openai's, httpx's and plain Python errors
                ended = Attempted[Response](None, error, perf_counter() - begin, begin - asked_at, attempts)
                fault = call_failures.fault_of(error)
                if fault.is_limit:
                    throttle.limited(ticket, fault.retry_after)
                else:
                    throttle.failed(ticket)
            else:
                throttle.answered(ticket, tokens_of(response))
                return Attempted(response, None, perf_counter() - begin, begin - asked_at, attempts)
        wait = backoff(attempts if fault.is_limit else faults, fault.retry_after)
        waited += wait if fault.is_limit else 0.0
        faults += not fault.is_limit
        is_over = wait > LONGEST_WAIT or waited > PATIENCE or faults > retries
        if not fault.is_passing or not retries or is_over:
            return ended
        attempts += 1
        if not (fault.is_limit and fault.retry_after):  # else the throttle holds the server's calls back
            pause(wait)


def backoff(attempt: int, retry_after: float | None) -> float:
    """Return the seconds to wait before the next attempt: what the server asks for, or by chance up to twice
    as long as before ("full jitter"), so that calls that failed together do not come back together.

    attempt: how many there were before the one that failed
    """
    return retry_after or random.uniform(0.0, min(2.0**attempt, LONGEST_WAIT))  # noqa: S311 -- no secret
