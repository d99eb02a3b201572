"""Makes a call in as many attempts as it takes: passing faults are tried again, rate limits waited out."""

from __future__ import annotations

import random
from collections.abc import Callable
from time import perf_counter
from typing import Generic, NamedTuple, TypeVar

from rag_assay.warehouse.cancellation import CancelledError, cancellable_sleep
from rag_assay.warehouse.inference import call_failures
from rag_assay.warehouse.inference.throttle import LONGEST_WAIT, PATIENCE, LeftAloneError, Throttle, Ticket

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


def send_with_retries(
    send: Callable[[], Response],
    throttle: Throttle,
    ticket: Ticket,
    retries: int,
    *,
    asked_at: float,
    tokens_of: Callable[[Response], int | None] = lambda _response: None,
) -> Attempted[Response]:
    """Send a request until it is answered, or fails for good.

    A rate limit is waited out, and takes up none of the retries; unless there are none at all, or the call
    has waited PATIENCE seconds.

    retries: further attempts after a passing fault; 0: none after anything
    asked_at: when the call was asked for, by `perf_counter`
    tokens_of: that a response took; None: not known

    Raises:
        LeftAloneError: no attempt was made, for the server has long refused all calls.
        UnwantedError: the call was cancelled.
    """
    faults = attempts = 0
    waited = 0.0
    ended: Attempted[Response] | None = None
    while True:
        try:
            with throttle.passed(ticket):
                begin = perf_counter()
                try:
                    response = send()
                except CancelledError:
                    throttle.failed(ticket)
                    raise
                except (
                    Exception
                ) as error:  # LiteLLM raises its own, openai's, httpx's and plain Python errors
                    ended = Attempted(None, error, perf_counter() - begin, begin - asked_at, attempts)
                    fault = call_failures.fault_of(error)
                    throttle.failed(ticket)
                else:
                    throttle.answered(ticket, tokens_of(response))
                    return Attempted(response, None, perf_counter() - begin, begin - asked_at, attempts)
                wait = throttle.limited(ticket, fault.retry_after) if fault.is_limit else backoff(faults)
                waited += wait if fault.is_limit else 0.0
                faults += not fault.is_limit
                if not fault.is_passing or not retries or waited > PATIENCE or faults > retries:
                    return ended
                if fault.is_limit:
                    cancellable_sleep(wait)  # in its slot
        except LeftAloneError:
            if ended is None:
                raise
            return ended
        attempts += 1
        if not fault.is_limit:
            cancellable_sleep(wait)


def backoff(faults: int) -> float:
    """Return the seconds to wait after a passing fault: by chance, up to twice as long as before.

    "Full jitter": calls that failed together do not come back together.

    faults: how many there were before
    """
    return random.uniform(0.0, min(2.0**faults, LONGEST_WAIT))  # noqa: S311 -- no secret
