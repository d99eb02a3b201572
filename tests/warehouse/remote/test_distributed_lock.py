"""Machines take turns at what is paid for, and one that was lost gives its turn away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from rag_assay.warehouse.cancellation import CancelledError, cancel_scope
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.remote.mirror import FOLDER, Turns
from rag_assay.warehouse.remote.store import RemoteStore
from tests.fakes.forking import PROGRAM
from tests.fakes.object_storage import Server
from tests.fakes.processes import ROOT, wait_until


@pytest.fixture(params=["s3", "disk"])
def store(request: pytest.FixtureRequest, server: Server, tmp_path: Path) -> RemoteStore:
    return RemoteStore(server.bucket() if request.param == "s3" else f"file://{tmp_path}/shared")


def test_of_two_machines_one_does_it_and_the_other_finds_it_done(store: RemoteStore) -> None:
    done: list[int] = []

    def work(number: int) -> None:
        with Turns(RemoteStore(store.url)).turn("calls/one", lambda: bool(done)):
            if not done:
                time.sleep(0.3)
                done.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 1
    assert store.list(FOLDER) == []


def test_what_failed_is_tried_by_the_next(store: RemoteStore) -> None:
    one, two = Turns(store), Turns(RemoteStore(store.url))
    with pytest.raises(ZeroDivisionError), one.turn("calls/one", lambda: False):
        raise ZeroDivisionError
    with two.turn("calls/one", lambda: False):
        assert len(store.list(FOLDER)) == 1


def test_a_turn_that_is_held_long_is_not_taken(store: RemoteStore) -> None:
    one, two = Turns(store, beat=0.1), Turns(RemoteStore(store.url), lost=1.0)
    began = time.monotonic()

    def hold() -> None:
        with one.turn("calls/one", lambda: False):
            time.sleep(2.5)

    holder = threading.Thread(target=hold)
    holder.start()
    assert wait_until(lambda: store.list(FOLDER))
    with two.turn("calls/one", lambda: False):
        assert time.monotonic() - began >= 2.5
    holder.join()
    assert store.list(FOLDER) == []


HOLD = """
import sys, time
from rag_assay.warehouse.remote.store import RemoteStore
from rag_assay.warehouse.remote.mirror import Turns
with Turns(RemoteStore(sys.argv[1]), beat=0.1).turn("calls/one", lambda: False):
    print("held", flush=True)
    time.sleep(100)
"""


def test_a_killed_machine_gives_its_turn_away(store: RemoteStore) -> None:
    command = [sys.executable, "-m", PROGRAM, HOLD, store.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, env=os.environ) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"held\n"
        holder.send_signal(signal.SIGKILL)
    with Turns(store, lost=0.5).turn("calls/one", lambda: False):
        assert len(store.list(FOLDER)) == 1


def test_who_was_taken_over_does_not_take_back_nor_remove(store: RemoteStore) -> None:
    slow, other = Turns(store, beat=0.8), Turns(RemoteStore(store.url), lost=0.2)
    with slow.turn("calls/one", lambda: False):
        with other.turn("calls/one", lambda: False):
            held = store.read(f"{FOLDER}/calls/one")
            time.sleep(1.0)  # the first has looked, and found another's
            assert store.read(f"{FOLDER}/calls/one") == held
        assert store.list(FOLDER) == []


def test_who_waits_for_what_nobody_wants_stops(store: RemoteStore) -> None:
    with Turns(store).turn("calls/one", lambda: False):
        stopped = threading.Event()
        threading.Timer(0.3, stopped.set).start()
        waiter = Turns(RemoteStore(store.url))
        with cancel_scope(stopped.is_set), pytest.raises(CancelledError), waiter.turn("calls/one", bool):
            pass


def test_a_server_that_is_gone_is_a_sentence(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("ASSAY_REMOTE_PATIENCE", "0.5")
    turns = Turns(RemoteStore("s3://b/home"))
    with pytest.raises(AssayError, match="s3://b/home"), turns.turn("calls/one", bool):
        pass
