"""The queue of a server: in the order of asking, of bounded length, and left by whoever does not wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from rag_assay.orchestration.question_service.worker_pool import BusyError, ServiceLimits, Workers
from rag_assay.orchestration.server.app import application
from rag_assay.orchestration.server.guard import AccessRules


class Held:
    """A desk whose first request computes until the test lets it end."""

    def __init__(self, limits: ServiceLimits) -> None:
        self.desk = Workers(limits)
        self.order: list[int] = []
        self.begun, self.ends = threading.Event(), threading.Event()

    def first(self) -> asyncio.Task[None]:
        return asyncio.ensure_future(self.desk.do(self._hold))

    def _hold(self) -> None:
        self.begun.set()
        self.ends.wait()

    def ask(self, number: int) -> asyncio.Task[None]:
        return asyncio.ensure_future(self.desk.do(lambda: self.order.append(number)))

    async def queue(self, numbers: Iterator[int] | range) -> list[asyncio.Task[None]]:
        """Ask in this order; a thread that has begun waits for its turn before the next one is asked."""
        tasks = []
        for number in numbers:
            tasks.append(self.ask(number))
            threads = min(self.desk.under_way, self.desk.limits.at_once)
            while self.desk._turns._slot.waiting < threads - 1:
                await asyncio.sleep(0)
        return tasks


@pytest.mark.parametrize("at_once", [1, 4, 64])
def test_requests_are_answered_in_the_order_in_which_they_came(at_once: int) -> None:
    held = Held(ServiceLimits(at_once=at_once, queued=64))

    async def talk() -> None:
        first = held.first()
        await asyncio.to_thread(held.begun.wait)
        tasks = await held.queue(range(20))
        held.ends.set()
        await asyncio.gather(first, *tasks)

    asyncio.run(talk())
    waited = min(at_once - 1, 20)  # the others begin in several threads: in order, but side by side
    assert held.order[:waited] == list(range(waited))
    assert sorted(held.order) == list(range(20))
    if at_once == 1:
        assert held.order == list(range(20))
    held.desk.close()


def test_one_more_than_a_minute_allows_is_refused() -> None:
    desk = Workers(ServiceLimits(per_minute=2))

    async def talk() -> None:
        assert [await desk.do(lambda: 1), await desk.do(lambda: 2)] == [1, 2]
        with pytest.raises(BusyError) as refused:
            await desk.do(lambda: 3)
        assert 50 < (refused.value.retry_after or 0) <= 60

    asyncio.run(talk())
    desk.close()


@pytest.mark.parametrize("at_once", [1, 4])
def test_one_more_than_the_queue_holds_is_refused(at_once: int) -> None:
    held = Held(ServiceLimits(at_once=at_once, queued=2))

    async def talk() -> None:
        first = held.first()
        await asyncio.to_thread(held.begun.wait)
        tasks = await held.queue(range(at_once - 1 + 2))
        with pytest.raises(BusyError) as refused:
            await held.ask(99)
        assert refused.value.retry_after == 1
        tasks[-1].cancel()  # its client has gone
        await asyncio.sleep(0)
        again = held.ask(7)
        await asyncio.sleep(0.01)
        held.ends.set()
        await asyncio.gather(first, *tasks, again, return_exceptions=True)
        waited = at_once - 1
        assert held.order[:waited] == list(range(waited))
        assert sorted(held.order) == [*range(at_once), 7]

    asyncio.run(talk())
    held.desk.close()


def test_a_deadline_counts_the_time_in_the_queue_and_frees_the_place() -> None:
    held = Held(ServiceLimits(at_once=2, queued=1, timeout=0.2))

    async def talk() -> None:
        first = held.first()
        await asyncio.to_thread(held.begun.wait)
        tasks = await held.queue(range(2))
        failed = await asyncio.gather(first, *tasks, return_exceptions=True)
        assert [type(one) for one in failed] == [TimeoutError] * 3
        while held.desk.under_way > 1:  # the one that computes
            await asyncio.sleep(0.01)
        held.ends.set()

    asyncio.run(talk())
    assert held.order == []
    held.desk.close()


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/retrieve", b'{"question": "Who?"}'),
        ("/v1/chat/completions", b'{"model": "m", "messages": [{"role": "user", "content": "Who?"}]}'),
    ],
)
def test_a_request_whose_client_hangs_up_leaves_the_queue(path: str, body: bytes) -> None:
    held = Held(ServiceLimits(at_once=1, queued=1))
    opened: Any = SimpleNamespace(key="m")
    app = application(held.desk, opened, AccessRules(None, "127.0.0.1"), lambda _line: None)
    sent: list[Any] = []

    async def talk() -> None:
        first = held.first()
        await asyncio.to_thread(held.begun.wait)
        hung_up = asyncio.Event()
        messages: list[Any] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Any:
            if messages:
                return messages.pop()
            await hung_up.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": path, "scheme": "http", "query_string": b""}
        asking = asyncio.ensure_future(app({**scope, "headers": [(b"host", b"127.0.0.1")]}, receive, send))
        while held.desk.under_way < 2:
            await asyncio.sleep(0)
        hung_up.set()
        await asking
        while held.desk.under_way > 1:
            await asyncio.sleep(0)
        held.ends.set()
        await first

    asyncio.run(asyncio.wait_for(talk(), 30))
    assert sent[0]["status"] == 499
    held.desk.close()
