from __future__ import annotations

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
from rag_assay.warehouse.parquet import frame
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import CALLS

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


def test_what_is_put_is_got(cache: CallCache) -> None:
    assert cache.get("abcdef") is None
    cache.put("abcdef", RECORD)
    assert cache.get("abcdef") == {**RECORD, "call_id": "abcdef"}
    assert (cache.folder / "ab" / "abcdef.json").is_file()


@pytest.mark.parametrize(
    "content", [b"", b'{"call_id": "abcdef", "mod', b"[1]", b"\xff\xfe", b'{"call_id": "other"}']
)
def test_a_torn_file_counts_as_absent(cache: CallCache, content: bytes) -> None:
    cache.put("abcdef", RECORD)
    (cache.folder / "ab" / "abcdef.json").write_bytes(content)
    assert cache.get("abcdef") is None


def test_the_rows_are_a_frame_of_the_schema(cache: CallCache) -> None:
    cache.put("b" * 20, RECORD)
    cache.put("a" * 20, RECORD)
    cache.put("c" * 20, RECORD)
    (cache.folder / "cc" / f"{'c' * 20}.json").write_text('{"torn')
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
        [sys.executable, "-c", HOLDS, str(tmp_path), "1"], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        begin = time.monotonic()
        with cache.turn("abcdee"):
            pass  # another call's
        with cache.turn("abcdef"):
            assert time.monotonic() - begin > 0.5
            assert other.wait(30) == 0
    assert not list(tmp_path.rglob("*.lock"))


def test_the_turn_of_a_killed_process_is_taken_over(cache: CallCache, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(tmp_path), "600"], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        other.kill()
    assert len(list(tmp_path.rglob("*.lock"))) == 1
    with cache.turn("abcdef"):
        pass
    assert not list(tmp_path.rglob("*.lock"))


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


def test_without_locks_all_have_the_turn(cache: CallCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_assay.warehouse.call_cache.try_lock", lambda _handle: None)
    with cache.turn("abcdef"), cache.turn("abcdef"):
        pass
