from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from rag_assay.warehouse.call_cache import CallCache
from rag_assay.warehouse.cancellation import CancelledError, cancel_scope
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.full_disk import is_full
from rag_assay.warehouse.parquet import frame
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import CALLS
from tests.fakes.forking import PROGRAM

RECORD: dict[str, Any] = {
    "model": "openai/any",
    "status": "ok",
    "reason": None,
    "request": "{}",
    "response": '{"text": "Größe – 5 €"}',
    "prompt_tokens": 11,
    "completion_tokens": 7,
    "seconds": 0.25,
    "usd": None,
    "created_at": "2026-11-21T10:00:00+00:00",
    "text": "Größe – 5 €",
}


@pytest.fixture
def cache(tmp_path: Path) -> CallCache:
    return CallCache(Home(tmp_path))


def test_what_is_put_is_got(cache: CallCache, tmp_path: Path) -> None:
    assert cache.get("abcdef") is None
    cache.put("abcdef", RECORD)
    assert cache.get("abcdef") == {**RECORD, "call_id": "abcdef"}
    assert CallCache(Home(tmp_path)).get("abcdef") == {**RECORD, "call_id": "abcdef"}
    cache.put("abcdef", {**RECORD, "usd": 1.0})
    assert [row["usd"] for row in cache.rows()] == [1.0]


@pytest.mark.parametrize(
    "content", [b"", b'{"call_id": "abcdef", "mod', b"[1]", b"\xff\xfe", b'{"call_id": "other"}']
)
@pytest.mark.parametrize("end", [b"", b"\n", b'\n{"call_id": "abcded", "torn'])
def test_a_torn_line_counts_as_absent_and_costs_itself_alone(
    cache: CallCache, content: bytes, end: bytes
) -> None:
    cache.put("abcdee", RECORD)
    path = cache.folder / "calls.jsonl"
    path.write_bytes(path.read_bytes() + content + end)
    assert cache.get("abcdef") is None
    cache.put("abcdef", RECORD)
    assert cache.get("abcdef") == {**RECORD, "call_id": "abcdef"}
    assert [row["call_id"] for row in cache.rows() if row["model"]] == ["abcdee", "abcdef"]


def test_a_journal_that_was_removed_or_replaced_is_read_anew(cache: CallCache) -> None:
    cache.put("abcdef", RECORD)
    path = cache.folder / "calls.jsonl"
    whole = path.read_bytes()
    path.unlink()
    assert cache.get("abcdef") is None
    cache.put("abcdee", RECORD)
    assert [row["call_id"] for row in cache.rows()] == ["abcdee"]
    path.write_bytes(b"")
    assert cache.get("abcdee") is None
    path.write_bytes(whole)
    assert cache.get("abcdef") is not None


def test_a_line_longer_than_what_is_read_at_once_is_got(
    cache: CallCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag_assay.warehouse.call_cache.AT_ONCE", 64)
    records = {f"{number:x}" * 6: {**RECORD, "text": "x" * number * 50} for number in range(12)}
    for call_id, record in records.items():
        cache.put(call_id, record)
    for found in (cache, CallCache(Home(tmp_path))):
        assert {one: found.get(one) for one in records} == {
            one: {**record, "call_id": one} for one, record in records.items()
        }


def test_records_that_many_threads_and_processes_put_at_once_are_all_there(
    cache: CallCache, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", PROGRAM, PUTS, str(tmp_path)]
    others = [subprocess.Popen([*command, name]) for name in "ab"]
    with ThreadPoolExecutor(16) as pool:

        def put(number: int) -> bool:
            cache.put(f"c{number:05}", RECORD)
            return CallCache(Home(tmp_path)).get(f"c{number:05}") is not None

        assert all(pool.map(put, range(200)))
    assert [other.wait(60) for other in others] == [0, 0]
    assert len(list(cache.rows())) == 600
    assert sorted(row["call_id"] for row in cache.paid()) == sorted(row["call_id"] for row in cache.rows())
    assert (cache.folder / "calls.jsonl").read_bytes().count(b"\n") == 600


def test_a_record_that_cannot_be_written_is_an_error_for_each_thread(
    cache: CallCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    cache.put("abcdee", RECORD)
    with monkeypatch.context() as patch, ThreadPoolExecutor(8) as pool:
        patch.setattr("rag_assay.warehouse.journal.os.fsync", full)
        failed = [pool.submit(cache.put, f"abcd{number:02}", RECORD) for number in range(8)]
        errors = [one.exception(30) for one in failed]
    assert all(isinstance(error, AssayError) and is_full(error, cache.folder) for error in errors)
    assert [row["call_id"] for row in cache.rows()] == ["abcdee"]
    cache.put("abcdef", RECORD)
    assert [row["call_id"] for row in cache.rows()] == ["abcdee", "abcdef"]


def test_a_bit_that_flips_anywhere_in_a_record_never_changes_what_is_got(
    cache: CallCache, tmp_path: Path
) -> None:
    cache.put("abcdef", RECORD)
    path = cache.folder / "calls.jsonl"
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        found = CallCache(Home(tmp_path)).get("abcdef")
        assert found is None or {name: found.get(name) for name in RECORD} == RECORD, at
    path.write_bytes(whole)
    assert CallCache(Home(tmp_path)).get("abcdef") == {**RECORD, "call_id": "abcdef"}


def test_records_on_a_bad_sector_count_as_absent(
    cache: CallCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"{number:x}" * 6 for number in range(12)]
    for name in names:
        cache.put(name, {**RECORD, "text": "x" * 400})
    bad = (cache.folder / "calls.jsonl").stat().st_size // 2
    real = os.pread

    def pread(handle: int, length: int, begin: int) -> bytes:
        if begin <= bad < begin + length:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(handle, length, begin)

    monkeypatch.setattr("rag_assay.warehouse.call_cache.os.pread", pread)
    for found in (cache, CallCache(Home(tmp_path))):
        lost = [name for name in names if found.get(name) is None]
        assert 1 <= len(lost) <= 2
        assert {row["call_id"] for row in found.rows()} == {*names} - {*lost}


def test_what_calls_cost_is_kept_beside_their_answers(cache: CallCache) -> None:
    for name in ("abcdef", "abcdee", "abcded"):
        cache.put(name, {**RECORD, "usd": 0.25})
    (ledger,) = (cache.folder.parents[1] / "paid").iterdir()
    ledger.write_bytes(ledger.read_bytes()[:-20])  # a killed writer has torn the last line
    cache.put("abcdec", {**RECORD, "usd": 0.5})
    paid = {row["call_id"]: row for row in cache.paid({"abcdee"})}
    assert {name: row["usd"] for name, row in paid.items()} == {"abcdef": 0.25, "abcdec": 0.5}
    assert paid["abcdef"]["request"] is None, "the texts are in the cache alone"
    assert set(paid["abcdef"]) == set(CALLS)


def test_the_rows_are_a_frame_of_the_schema(cache: CallCache) -> None:
    cache.put("b" * 20, RECORD)
    cache.put("a" * 20, RECORD)
    rows = list(cache.rows())
    assert [row["call_id"] for row in rows] == ["a" * 20, "b" * 20]
    table = frame(rows, CALLS)
    assert table.columns == list(CALLS)
    assert table["created_at"].to_list() == [datetime(2026, 11, 21, 10, tzinfo=UTC)] * 2
    assert table["usd"].dtype == pl.Float64
    assert table["usd"].null_count() == 2


def test_a_value_that_json_does_not_know_is_refused_and_leaves_no_file(cache: CallCache) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        cache.put("abcdef", {**RECORD, "seconds": float("nan")})
    assert list(cache.rows()) == []


def test_text_with_a_lone_surrogate_survives(cache: CallCache) -> None:
    cache.put("abcdef", {**RECORD, "text": "a\ud800b"})
    found = cache.get("abcdef")
    assert found is not None
    assert found["text"] == "a\ud800b"


PUTS = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from rag_assay.warehouse.call_cache import CallCache
from rag_assay.warehouse.paths import Home
cache = CallCache(Home(Path(sys.argv[1])))
with ThreadPoolExecutor(16) as pool:
    list(pool.map(lambda number: cache.put(f"{sys.argv[2]}{number:05}", {"text": "x" * number}), range(200)))
"""

HOLDS = """
import sys, time
from pathlib import Path
from rag_assay.warehouse.call_cache import CallCache
from rag_assay.warehouse.paths import Home
with CallCache(Home(Path(sys.argv[1]))).turn("abcdef"):
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
"""


def test_one_process_at_a_time_has_the_turn(cache: CallCache, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", PROGRAM, HOLDS, str(tmp_path), "1"], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        begin = time.monotonic()
        with cache.turn("abcdee"):
            pass  # another call's
        with cache.turn("abcdef"):
            assert time.monotonic() - begin > 0.5
            assert other.wait(30) == 0


def test_the_turn_of_a_killed_process_is_taken_over(cache: CallCache, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", PROGRAM, HOLDS, str(tmp_path), "600"], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        other.kill()
    with cache.turn("abcdef"):
        pass


def test_a_turn_lasts_though_others_end_and_another_cache_is_opened(cache: CallCache, tmp_path: Path) -> None:
    command = [sys.executable, "-m", PROGRAM, HOLDS, str(tmp_path), "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        assert other.wait(30) == 0
    with cache.turn("abcdef"):
        with cache.turn("abcdee"), CallCache(Home(tmp_path)).turn("abcded"):
            pass
        waiting = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(4)
    assert waiting.communicate(timeout=30) == ("held\n", None)


def test_many_threads_have_the_turn_one_by_one(cache: CallCache) -> None:
    inside, most = [0], [0]

    def go(_number: int) -> None:
        with cache.turn("abcdef"):
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            time.sleep(0.005)
            inside[0] -= 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(go, range(16)))
    assert most[0] == 1


def test_who_is_not_wanted_any_more_does_not_wait_for_the_turn(cache: CallCache) -> None:
    with (
        cache.turn("abcdef"),
        cancel_scope(lambda: True),
        pytest.raises(CancelledError),
        cache.turn("abcdef"),
    ):
        raise AssertionError


def test_without_locks_each_process_has_the_turn(
    cache: CallCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", PROGRAM, HOLDS, str(tmp_path), "600"], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        monkeypatch.setattr("rag_assay.warehouse.call_cache.try_lock_byte", lambda _handle, _at: None)
        with cache.turn("abcdef"):
            assert other.poll() is None
        other.kill()
