"""The worker threads of a server: requests are answered by one pipeline, each within its timeout."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from rag_assay.evals.pipeline.pipeline import Pipeline
from rag_assay.orchestration.server.failures import RequestError, timed_out, too_many
from rag_assay.warehouse.cancellation import CancelledError, cancel_scope
from rag_assay.warehouse.cooperative_scheduler import OneAtATime
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.inference.redaction import one_line

Result = TypeVar("Result")


@dataclass(frozen=True)
class ServerLimits:
    """What a server takes.

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
    Requests begin, and compute, in the order of their arrival.
    """

    def __init__(self, limits: ServerLimits) -> None:
        self.limits = limits
        self._turns = OneAtATime()
        self._pool = ThreadPoolExecutor(limits.at_once, thread_name_prefix="answer")
        self._under_way = 0
        self._recent: deque[float] = deque()
        self._lock = threading.Lock()
        self._is_closed = False

    @property
    def under_way(self) -> int:
        """How many requests are being answered or wait."""
        return self._under_way

    @property
    def is_open(self) -> bool:
        """Whether requests are taken."""
        return not self._is_closed

    def begin(self, work: Callable[[], Result]) -> Future[Result]:
        """Begin work in a thread, which computes where it says so by `turn`."""
        with self._place():
            future = self._pool.submit(work)
            # The place is free when the thread is, and not when its client stops waiting.
            future.add_done_callback(lambda _: self._left())
        return future

    def turn(self) -> AbstractContextManager[None]:
        """Compute in the block, as soon as no other thread does.

        Raises:
            CancelledError: the work of the calling thread was cancelled.
        """
        return self._turns.turn()

    def drop_cancelled(self) -> None:
        """Let work that was cancelled leave the queue at once."""
        self._turns.drop_cancelled()

    def close(self) -> None:
        """Take no more requests, and wait for none."""
        self._is_closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)

    @contextmanager
    def _place(self) -> Iterator[None]:
        """Take a place, which `_left` gives back; it is given back here where the work cannot begin."""
        with self._lock:
            if self._is_closed:
                raise RequestError(503, "the server is stopping", kind="server_error", code="stopping")
            now = time.monotonic()
            while self._recent and now - self._recent[0] >= 60:
                self._recent.popleft()
            if self._under_way >= self.limits.at_once + self.limits.queued:
                raise too_many(
                    f"{self._under_way} requests are being answered or wait; try again in a moment"
                )
            if self.limits.per_minute is not None:
                if len(self._recent) >= self.limits.per_minute:
                    wait = int(60 - (now - self._recent[0])) + 1
                    raise too_many(f"more than {self.limits.per_minute} requests in a minute", wait)
                self._recent.append(now)
            self._under_way += 1
        try:
            yield
        except BaseException:
            self._left()
            raise

    def _left(self) -> None:
        with self._lock:
            self._under_way -= 1


class RequestPool(Workers):
    """Answers the requests of a server by one pipeline."""

    def __init__(self, pipeline: Pipeline, limits: ServerLimits) -> None:
        super().__init__(limits)
        self.pipeline = pipeline

    async def do(self, work: Callable[[Pipeline], Result]) -> Result:
        """Do what asks the pipeline, in a thread."""
        unwanted = threading.Event()
        future = self.begin(partial(self._work, work, unwanted))
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self.limits.timeout)
        except TimeoutError:
            raise timed_out(self.limits.timeout) from None
        finally:
            unwanted.set()
            future.cancel()  # one that has not begun frees its place now
            self.drop_cancelled()

    def _work(self, work: Callable[[Pipeline], Result], unwanted: threading.Event) -> Result:
        try:
            with cancel_scope(unwanted.is_set), self.turn():
                return work(self.pipeline)
        except RequestError:
            raise
        except CancelledError:
            raise timed_out(self.limits.timeout) from None
        except AssayError as error:
            raise RequestError(500, one_line(str(error)), kind="server_error", code="failed") from error
