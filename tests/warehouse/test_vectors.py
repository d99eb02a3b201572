from __future__ import annotations

import errno
import logging
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet
import pytest

from warehouse import segments, vectors
from warehouse.errors import AssayError
from warehouse.paths import Home
from warehouse.vectors import VectorCache

ROOT = Path(__file__).parents[2]


@pytest.fixture
def cache(tmp_path: Path) -> VectorCache:
    return VectorCache(Home(tmp_path), "revision")


def test_what_is_put_is_got(cache: VectorCache) -> None:
    assert cache.get(["a", "b"]) == {}
    cache.put(["a", "b"], np.array([[1, 2], [3, 4]], np.float32))
    cache.put(["c"], np.array([[5, 6]], np.float32))
    found = cache.get(["c", "a", "a", "none"])
    assert {key: vector.tolist() for key, vector in found.items()} == {"a": [1, 2], "c": [5, 6]}
    assert found["a"].dtype == np.float32


def test_a_segment_is_smaller_than_its_vectors(cache: VectorCache) -> None:
    given = np.random.default_rng(1).standard_normal((3000, 384)).astype(np.float32)
    cache.put([f"{n:064}" for n in range(3000)], given)
    (path,) = cache.folder.glob("*.parquet")
    assert path.stat().st_size < 0.95 * given.nbytes


def test_revisions_share_nothing(cache: VectorCache, tmp_path: Path) -> None:
    cache.put(["a"], np.ones((1, 2), np.float32))
    assert VectorCache(Home(tmp_path), "other").get(["a"]) == {}


@pytest.mark.parametrize("shape", [(3,), (2, 4), (1, 3, 4)])
def test_an_array_of_another_shape_is_refused(cache: VectorCache, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="expected 3 vectors"):
        cache.put(["a", "b", "c"], np.zeros(shape, np.float32))


def test_nothing_to_put_writes_nothing(cache: VectorCache) -> None:
    cache.put([], np.zeros((0, 4), np.float32))
    assert not cache.folder.exists()


@pytest.mark.parametrize("damage", ["torn", "text", "other columns", "other types"])
def test_a_damaged_segment_is_put_aside_and_only_costs_computing_again(
    cache: VectorCache, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    cache.put(["a"], np.array([[1, 2]], np.float32))
    (segment,) = cache.folder.glob("*.parquet")
    cache.put(["b"], np.array([[3, 4]], np.float32))
    if damage == "other types":
        pl.DataFrame({"sha256": ["a"], "vector": [1], "tokens": ["x"]}).write_parquet(segment)
    elif damage == "other columns":
        pl.DataFrame({"n": [1]}).write_parquet(segment)
    else:
        segment.write_bytes(segment.read_bytes()[:-9] if damage == "torn" else b"text")
    with caplog.at_level(logging.WARNING):
        assert set(cache.get(["a", "b"])) == {"b"}
    assert segment.name in caplog.text
    assert not segment.exists()
    assert segment.with_suffix(".damaged").exists()
    caplog.clear()
    cache.put(["a"], np.array([[1, 2]], np.float32))
    assert set(cache.get(["a", "b"])) == {"a", "b"}
    assert not caplog.text, "said once"


def test_a_bit_that_flips_is_no_vector_and_no_count(cache: VectorCache, tmp_path: Path) -> None:
    """Each of 400 bits, drawn from all of a segment, is found, or changes nothing."""
    keys, given = numbered(0, 40)
    counts = np.arange(40, dtype=np.int32)
    cache.put(keys, given, counts)
    (path,) = cache.folder.glob("*.parquet")
    whole = path.read_bytes()
    found = 0
    for bit in random.Random(1).sample(range(8 * len(whole)), 400):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        reader = VectorCache(Home(tmp_path), "revision")
        taken = reader.take(keys)
        found += not taken.known.any()
        if taken.known.any():
            assert taken.known.all()
            assert np.array_equal(taken.vectors, given), f"bit {bit}"
            assert np.array_equal(reader.tokens(keys), counts), f"bit {bit}"
    assert found > 300, "the others are in what no reader needs"


def test_what_the_system_refuses_to_read_is_not_damaged(
    cache: VectorCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.put(*numbered(0, 4))
    reader = VectorCache(Home(tmp_path), "revision")
    with monkeypatch.context() as patch:
        refused = OSError(errno.EMFILE, "Too many open files")
        patch.setattr(pyarrow.parquet, "ParquetFile", lambda *_, **__: (_ for _ in ()).throw(refused))
        with pytest.raises(OSError, match="Too many open files"):
            reader.refresh()
    assert reader.take(numbered(0, 4)[0]).known.all()


def test_vectors_of_another_width_are_refused(cache: VectorCache, tmp_path: Path) -> None:
    cache.put(*numbered(0, 4))
    other = VectorCache(Home(tmp_path), "revision")
    other.refresh()
    with pytest.raises(AssayError, match="holds vectors of 3 numbers, and now one of 5 came: another model"):
        other.put(["x"], np.ones((1, 5), np.float32))
    assert other.take(numbered(0, 4)[0]).known.all()


def test_what_killed_writers_left_is_removed_after_a_day(cache: VectorCache) -> None:
    cache.put(*numbered(0, 4))
    old, new = (cache.folder / f".{name}.parquet.1.2.tmp" for name in ("old", "new"))
    for path in (old, new):
        path.write_bytes(b"PAR1")
    os.utime(old, (time.time() - 90_000,) * 2)
    cache.compact()
    assert (old.exists(), new.exists()) == (False, True), "the new one may be written just now"


ADD = """
import sys
from pathlib import Path
import numpy as np
from warehouse.paths import Home
from warehouse.vectors import VectorCache
cache = VectorCache(Home(Path(sys.argv[1])), "revision")
for n in range(20):
    cache.put([f"{sys.argv[2]}-{n}"], np.full((1, 4), n, np.float32))
    cache.get([f"one-{n}", f"two-{n}"])
"""


def test_two_processes_add_and_read_at_once(cache: VectorCache, tmp_path: Path) -> None:
    running = [
        subprocess.Popen(
            [sys.executable, "-c", ADD, str(tmp_path), name], cwd=ROOT, stderr=subprocess.PIPE, text=True
        )
        for name in ("one", "two")
    ]
    for process in running:
        _, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        assert not err
    keys = [f"{name}-{n}" for name in ("one", "two") for n in range(20)]
    found = cache.get(keys)
    assert [found[key].tolist() for key in keys] == [[n] * 4 for _ in range(2) for n in range(20)]


def numbered(first: int, n: int) -> tuple[list[str], np.ndarray]:
    keys = [f"k{number}" for number in range(first, first + n)]
    return keys, np.arange(first, first + n, dtype=np.float32)[:, None] * np.ones((1, 3), np.float32)


def test_vectors_come_in_the_order_that_was_asked_for(cache: VectorCache) -> None:
    cache.put(*numbered(0, 3000))
    cache.put(*numbered(3000, 5))
    found = cache.take(["k3004", "none", "k0", "k2999", "k1024", "k0"])
    assert found.known.tolist() == [True, False, True, True, True, True]
    assert found.vectors[:, 0].tolist() == [3004, 0, 0, 2999, 1024, 0]
    assert cache.take(["none"]).vectors.shape == (1, 0)


def test_the_tokens_of_a_text_are_remembered(cache: VectorCache, tmp_path: Path) -> None:
    cache.put(["a", "b"], np.ones((2, 3), np.float32), np.array([7, 9], np.int32))
    cache.put(["c"], np.ones((1, 3), np.float32))
    again = VectorCache(Home(tmp_path), "revision")
    again.refresh()
    assert again.tokens(["b", "c", "none", "a"]).tolist() == [9, -1, -1, 7]
    assert again.has(["c", "none"]).tolist() == [True, False]


def test_a_segment_is_read_once_and_only_its_wanted_part(
    cache: VectorCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(6):
        cache.put(*numbered(n * 2000, 2000))
    reader = VectorCache(Home(tmp_path), "revision")
    opened: list[str] = []
    plain = segments.opened
    monkeypatch.setattr(segments, "opened", lambda path: opened.append(path.name) or plain(path))
    reader.refresh()
    assert len(opened) == 6, "the hashes, once a segment"
    opened.clear()
    assert reader.get(["k4100"])["k4100"].tolist() == [4100] * 3
    assert len(opened) == 1
    opened.clear()
    assert reader.get(["k99999"]) == {}
    assert not opened


def test_segments_are_joined_while_another_reads(
    cache: VectorCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "MANY", 8)
    for n in range(10):
        cache.put(*numbered(n * 300, 310))  # ten texts are in two segments each
    reader = VectorCache(Home(tmp_path), "revision")
    keys = [f"k{n}" for n in range(3010)]
    reader.refresh()
    assert cache.compact() == 10
    assert len(list(cache.folder.glob("*.parquet"))) == 1
    assert len(cache) == 3010
    assert reader.take(keys).vectors[:, 0].tolist() == list(range(3010)), "it looked again"
    assert cache.take(keys).known.all()
    assert cache.compact() == 0


def test_large_segments_are_left_alone(cache: VectorCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "MANY", 3)
    monkeypatch.setattr(vectors, "LARGE", 100)
    cache.put(*numbered(0, 120))
    large = {path.name for path in cache.folder.glob("*.parquet")}
    for n in range(4):
        cache.put(*numbered(1000 + n * 40, 40))
    assert cache.compact() == 3, "three make a large one; the fourth is alone"
    left = {path.name for path in cache.folder.glob("*.parquet")}
    assert large < left
    assert len(left) == 3
    assert cache.take([f"k{n}" for n in (5, 1000, 1159)]).vectors[:, 0].tolist() == [5, 1000, 1159]


def test_a_kill_between_writing_and_removing_leaves_every_vector(
    cache: VectorCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "MANY", 4)
    for n in range(5):
        cache.put(*numbered(n * 10, 10))
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            cache.compact()
    after = VectorCache(Home(tmp_path), "revision")
    assert after.take([f"k{n}" for n in range(50)]).known.all()
    assert after.compact() == 6, "the joined one and the five that it was made of"
    assert len(after) == 50
    assert len(list(after.folder.glob("*.parquet"))) == 1


JOIN = ADD.replace("cache.get(", "cache.compact(); cache.get(").replace(
    "cache = ", "from warehouse import vectors; vectors.MANY = 4; cache = "
)


def test_processes_add_read_and_join_at_once(cache: VectorCache, tmp_path: Path) -> None:
    running = [
        subprocess.Popen(
            [sys.executable, "-c", JOIN, str(tmp_path), name], cwd=ROOT, stderr=subprocess.PIPE, text=True
        )
        for name in ("one", "two")
    ]
    for process in running:
        _, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        assert not err
    keys = [f"{name}-{n}" for name in ("one", "two") for n in range(20)]
    found = cache.take(keys)
    assert found.vectors.tolist() == [[n] * 4 for _ in range(2) for n in range(20)]
    assert not list(cache.folder.glob("*.damaged"))
