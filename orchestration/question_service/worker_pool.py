"""Worker threads in which questions are answered: in the order of asking, and so many at a time."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

from rag_assay.warehouse.cancellation import cancel_scope
from rag_assay.warehouse.cooperative_scheduler import OneAtATime
from rag_assay.warehouse.errors import AssayError

Result = TypeVar("Result")


class BusyError(AssayError):
    """A question that is refused; retry_after: seconds after which it may be asked again, None: never."""

    def __init__(self, message: str, retry_after: int | None = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after


@dataclass(frozen=True)
class ServiceLimits:
    """What a service takes.

    at_once: requests that are answered at a time
    per_minute: requests in any minute, of all clients together; None: as many as come
    body: bytes of a request
    question: characters of a question
    timeout: seconds that an answer may take, its time in the queue included
    queued: requests that wait in the order in which they came; one more is refused at once
    """

    at_once: int = 16
    per_minute: int | None = None
    body: int = 1_000_000
    question: int = 8_000
    timeout: float = 120.0
    queued: int = 64


class Workers:
    """Threads of which one computes at a time while others wait for models.

    Pipelines' indexes, models and tokenizers are not made for many threads at once; a model's server is.
    So answers are those of questions asked one after another, and a slow model blocks no other request.
    Requests begin in the order of their arrival, and compute in the order in which they ask for their turn.
    """

    def __init__(self, limits: ServiceLimits) -> None:
        self.limits = limits
        self._turns = OneAtATime()
        self._pool = ThreadPoolExecutor(limits.at_once, thread_name_prefix="answer")
        self._under_way = 0
        self._recent: deque[float] = deque()
        self._lock = threading.Lock()
        self._is_closed = False

    @property
    def under_way(self) -> int:
        return self._under_way

    @property
    def is_open(self) -> bool:
        return not self._is_closed

    def begin(self, work: Callable[[], Result]) -> Future[Result]:
        with self._lock:
            self._refuse_when_full()
            future = self._pool.submit(work)
            self._under_way += 1
        # The place is free when the thread is, and not when its client stops waiting.
        future.add_done_callback(self._left)
        return future

    def turn(self) -> AbstractContextManager[None]:
        """Compute in the block, as soon as no other thread does; CancelledError: the work was cancelled."""
        return self._turns.turn()

    async def do(self, work: Callable[[], Result]) -> Result:
        """Do work in a thread, in its turn, until the task that waits for it ends or it takes too long."""
        unwanted = threading.Event()

        def in_turn() -> Result:
            with cancel_scope(unwanted.is_set), self.turn():
                return work()

        future = self.begin(in_turn)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self.limits.timeout)
        except TimeoutError:
            raise TimeoutError(f"there was no answer within {self.limits.timeout:g} s") from None
        finally:
            unwanted.set()
            future.cancel()  # one that has not begun frees its place now
            self._turns.drop_cancelled()

    def close(self) -> None:
        self._is_closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _refuse_when_full(self) -> None:
        if self._is_closed:
            raise BusyError("the program is stopping, and takes no more questions", None)
        now = time.monotonic()
        while self._recent and now - self._recent[0] >= 60:
            self._recent.popleft()
        if self._under_way >= self.limits.at_once + self.limits.queued:
            raise BusyError(f"{self._under_way} questions are being answered; ask again in a moment")
        if self.limits.per_minute is not None:
            if len(self._recent) >= self.limits.per_minute:
                wait = int(60 - (now - self._recent[0])) + 1
                raise BusyError(f"more than {self.limits.per_minute} questions in a minute", wait)
            self._recent.append(now)

    def _left(self, _future: Future[Any]) -> None:
        with self._lock:
            self._under_way -= 1
