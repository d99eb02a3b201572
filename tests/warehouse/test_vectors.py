from __future__ import annotations

import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from rag_assay.warehouse import segments, vectors
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.identity import sha256_text
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.segments import read_name
from rag_assay.warehouse.vectors import VectorCache
from tests.fakes.forking import PROGRAM

ROOT = Path(__file__).parents[2]


def hashed(*names: object) -> list[str]:
    return [sha256_text(str(name)) for name in names]


def numbered(first: int, n: int) -> tuple[list[str], np.ndarray]:
    """Texts and vectors of three numbers, all of them the number of the text."""
    keys = hashed(*range(first, first + n))
    return keys, np.arange(first, first + n, dtype=np.float32)[:, None] * np.ones((1, 3), np.float32)


def names(cache: VectorCache) -> list[str]:
    return sorted(path.name for path in cache.folder.glob("*.vectors"))


def shards(cache: VectorCache) -> dict[str, int]:
    """Vectors by shard, as the names of the files tell."""
    found: dict[str, int] = {}
    for name in names(cache):
        told = read_name(name)
        assert told is not None
        found[told.shard] = found.get(told.shard, 0) + told.rows
    return found


@pytest.fixture
def cache(tmp_path: Path) -> VectorCache:
    return VectorCache(Home(tmp_path), "revision")


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of 16, joined by four or three, shards of 64: a thousand texts are three digits deep."""
    for name, value in {"LARGE": 16, "MANY": 4, "FEW": 3, "FULL": 64}.items():
        monkeypatch.setattr(vectors, name, value)


def test_what_is_put_is_got_in_the_order_that_was_wanted(cache: VectorCache) -> None:
    a, b, none = hashed("a", "b", "none")
    assert cache.get([a, b]) == {}
    assert cache.take([]).vectors.shape == (0, 0)
    cache.put([b, a, b], np.array([[3, 4], [1, 2], [9, 9]], np.float32), np.array([5, -1, 7], np.int32))
    found = cache.take([a, none, b, a])
    assert found.known.tolist() == [True, False, True, True]
    assert found.vectors.tolist() == [[1, 2], [0, 0], [3, 4], [1, 2]], "of a text that comes twice the first"
    assert found.vectors.dtype == np.float32
    assert cache.tokens([b, a, none]).tolist() == [5, -1, -1]
    assert cache.has([none, b]).tolist() == [False, True]
    assert cache.take([none]).vectors.shape == (1, 0)
    assert set(cache.get([a, none])) == {a}


@pytest.mark.parametrize("shape", [(3,), (2, 4), (1, 3, 4)])
def test_an_array_of_another_shape_is_refused(cache: VectorCache, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="expected 3 vectors"):
        cache.put(hashed("a", "b", "c"), np.zeros(shape, np.float32))


def test_nothing_to_put_writes_nothing(cache: VectorCache) -> None:
    cache.put([], np.zeros((0, 4), np.float32))
    assert not cache.folder.exists()


@pytest.mark.parametrize(("count", "files"), [(1, 1), (16, 1), (17, 1), (32, 2), (63, 4)])
def test_a_put_is_as_few_segments_as_it_needs(cache: VectorCache, tiny: None, count: int, files: int) -> None:
    keys, given = numbered(0, count)
    cache.put(keys, given)
    assert len(names(cache)) == files
    assert cache.take(keys).vectors.tolist() == given.tolist()


def test_a_shard_that_has_grown_is_divided_by_the_next_digit(
    cache: VectorCache, tmp_path: Path, tiny: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "FULL", 32)
    reader = VectorCache(Home(tmp_path), "revision")
    keys, given = numbered(0, 600)
    counts = np.arange(600, dtype=np.int32)
    for first in range(0, 600, 5):
        cache.put(keys[first : first + 5], given[first : first + 5], counts[first : first + 5])
        if first % 100 == 0:
            assert reader.take(keys[: first + 5]).known.all(), "a reader sees each put, and misses no move"
    found = shards(cache)
    assert sum(found.values()) == len(cache) == 600
    assert max(len(shard) for shard in found) >= 2
    assert max(found.values()) < 64 + 16
    for path in cache.folder.glob("*.vectors"):
        told = read_name(path.name)
        assert told is not None
        segment = segments.open_segment(path, segments.seed_of("revision"))
        least, greatest = segments.bounds(told.shard)
        assert len(segment.keys) == told.rows
        assert least <= segment.keys.min() <= segment.keys.max() <= greatest
    assert np.array_equal(reader.take(keys).vectors, given)
    assert reader.tokens(keys).tolist() == counts.tolist()
    assert not reader.has(hashed("x", "y")).any()


def test_a_lookup_opens_only_segments_of_its_shards(
    cache: VectorCache, tmp_path: Path, tiny: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, given = numbered(0, 1000)
    cache.put(keys, given)
    reader = VectorCache(Home(tmp_path), "revision")
    seen: list[str] = []
    plain = vectors.open_segment
    monkeypatch.setattr(
        vectors, "open_segment", lambda path, seed: seen.append(path.name) or plain(path, seed)
    )
    reader.refresh()
    assert not seen, "names are enough"
    assert reader.get(keys[:1])[keys[0]].tolist() == [0] * 3
    assert seen
    assert all(keys[0].startswith(told.shard) for name in seen if (told := read_name(name)))
    seen.clear()
    reader.take(keys[:1])
    assert not seen, "the index of a segment is read once"


def test_indexes_in_memory_are_bounded(
    cache: VectorCache, tmp_path: Path, tiny: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, given = numbered(0, 1000)
    cache.put(keys, given)
    monkeypatch.setattr(vectors, "HELD", 12 * 100)
    reader = VectorCache(Home(tmp_path), "revision")
    for _ in range(2):
        assert np.array_equal(reader.take(keys).vectors, given)
        assert reader._bytes == sum(one.size for one in reader._held.values()) <= 12 * 100


def test_other_texts_of_the_same_short_key_are_told_apart(cache: VectorCache, tmp_path: Path) -> None:
    alike = ["ab" * 8 + f"{n:048x}" for n in (3, 1, 2)]
    first, last = "00" * 32, "ff" * 32
    cache.put([*alike, first, last], np.arange(5, dtype=np.float32)[:, None])
    cache.put(["ab" * 8 + f"{4:048x}"], np.full((1, 1), 9, np.float32))
    reader = VectorCache(Home(tmp_path), "revision")
    wanted = [last, *alike, "ab" * 8 + f"{4:048x}", "ab" * 8 + f"{5:048x}", first]
    found = reader.take(wanted)
    assert found.known.tolist() == [True] * 5 + [False, True]
    assert found.vectors[:, 0].tolist() == [4, 0, 1, 2, 9, 0, 3]


# Damage ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage", ["torn", "longer", "text", "empty", "of another revision", "of another name"]
)
def test_a_damaged_segment_is_put_aside_and_only_costs_computing_again(
    cache: VectorCache, tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = hashed("a", "b")
    cache.put([a], np.array([[1, 2]], np.float32))
    (segment,) = cache.folder.glob("*.vectors")
    cache.put([b], np.array([[3, 4]], np.float32))
    whole = segment.read_bytes()
    if damage == "of another revision":
        other = VectorCache(Home(tmp_path), "other")
        other.put([a], np.array([[7, 7]], np.float32))
        shutil.copy(next(other.folder.glob("*.vectors")), segment)
    else:
        content = {"torn": whole[:-9], "longer": whole + b"x", "text": b"text", "empty": b""}
        segment.write_bytes(content.get(damage, whole))
    if damage == "of another name":
        kept = segment.rename(segment.with_name(segment.name.replace("all.", f"{a[0]}.")))
        assert set(cache.get([a, b])) == {a, b}
        kept.rename(segment.with_name(segment.name.replace("all.", f"{'0' if a[0] > '7' else 'f'}.")))
        assert set(cache.get([a, b])) == {b}, "computed again, and nothing else"
        return
    with caplog.at_level(logging.WARNING):
        assert set(VectorCache(Home(tmp_path), "revision").get([a, b])) == {b}
    assert segment.name in caplog.text
    assert not segment.exists()
    assert segment.with_suffix(".damaged").exists()
    caplog.clear()
    cache.put([a], np.array([[1, 2]], np.float32))
    assert set(cache.get([a, b])) == {a, b}
    assert not caplog.text, "said once"


def test_a_bit_that_flips_is_no_vector_and_no_count(cache: VectorCache, tmp_path: Path) -> None:
    """Each of 400 bits, drawn from all of a segment, is found."""
    keys, given = numbered(0, 40)
    counts = np.arange(40, dtype=np.int32)
    cache.put(keys, given, counts)
    (path,) = cache.folder.glob("*.vectors")
    whole = path.read_bytes()
    for bit in random.Random(1).sample(range(8 * len(whole)), 400):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        reader = VectorCache(Home(tmp_path), "revision")
        assert not reader.take(keys).known.any(), f"bit {bit}"
        assert not path.exists(), f"bit {bit}"


def test_what_the_system_refuses_to_read_is_not_damaged(
    cache: VectorCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.put(*numbered(0, 4))
    reader = VectorCache(Home(tmp_path), "revision")

    def refused(*_: object, **__: object) -> None:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", refused)
        with pytest.raises(OSError, match="Too many open files"):
            reader.take(numbered(0, 4)[0])
    assert reader.take(numbered(0, 4)[0]).known.all()


def test_vectors_of_another_width_are_refused(cache: VectorCache, tmp_path: Path) -> None:
    cache.put(*numbered(0, 4))
    for look in (True, False):
        other = VectorCache(Home(tmp_path), "revision")
        if look:
            other.refresh()
        else:
            assert other.take(numbered(0, 4)[0]).known.all()
        with pytest.raises(
            AssayError, match="holds vectors of 3 numbers, and now one of 5 came: another model"
        ):
            other.put(hashed("x"), np.ones((1, 5), np.float32))
    assert cache.take(numbered(0, 4)[0]).known.all()


# Kills and others at work ---------------------------------------------------------------------------------


def test_what_killed_writers_left_is_removed_after_a_day(cache: VectorCache) -> None:
    cache.put(*numbered(0, 4))
    old, new = (cache.folder / f".{name}.vectors.1.2.tmp" for name in ("old", "new"))
    for path in (old, new):
        path.write_bytes(b"assay")
    os.utime(old, (time.time() - 90_000,) * 2)
    cache.compact()
    assert (old.exists(), new.exists()) == (False, True), "the new one may be written just now"


def dying(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """Be killed, as it were, before the file that follows ``steps`` others that appear or go."""
    left = iter(range(steps))
    replace, unlink = Path.replace, Path.unlink

    def step() -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt

    def replacing(path: Path, target: Path) -> Path:
        step()
        return replace(path, target)

    def unlinking(path: Path, missing_ok: bool = False) -> None:
        if path.suffix != ".tmp":
            step()
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "replace", replacing)
    monkeypatch.setattr(Path, "unlink", unlinking)


@pytest.mark.parametrize(("count", "together"), [(50, 2), (80, 8)], ids=["joined", "divided"])
def test_a_kill_at_any_file_of_a_move_leaves_every_vector(
    tmp_path: Path, tiny: None, monkeypatch: pytest.MonkeyPatch, count: int, together: int
) -> None:
    """Killed before each rename and each removal."""
    keys, given = numbered(0, count)
    killed, steps = True, 0
    while killed:
        cache = VectorCache(Home(tmp_path / str(steps)), "revision")
        with monkeypatch.context() as patch:
            patch.setattr(VectorCache, "_untidy", lambda *_: False)
            for first in range(0, count, together):
                cache.put(keys[first : first + together], given[first : first + together])
        with monkeypatch.context() as patch:
            dying(patch, steps)
            try:
                cache.compact()
                killed = False
            except KeyboardInterrupt:
                steps += 1
        after = VectorCache(Home(cache.folder.parents[2]), "revision")
        assert np.array_equal(after.take(keys).vectors, given)
        after.compact()
        assert np.array_equal(after.take(keys).vectors, given)
    assert steps > 16


BOTH = """
import sys
from pathlib import Path
import numpy as np
from rag_assay.warehouse import vectors
from rag_assay.warehouse.identity import sha256_text
from rag_assay.warehouse.paths import Home
vectors.LARGE, vectors.MANY, vectors.FEW, vectors.FULL = 16, 4, 3, 64
if sys.argv[3] == "no locks":
    vectors.try_lock = lambda handle: None
cache = vectors.VectorCache(Home(Path(sys.argv[1])), "revision")
for n in range(int(sys.argv[2]), 150):
    cache.put([sha256_text(str(n))], np.full((1, 4), n, np.float32))
    if n % 5 == 0:
        cache.take([sha256_text(str(k)) for k in range(n)])
"""


def running(tmp_path: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", PROGRAM, BOTH, str(tmp_path), *arguments]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("locks", ["locks", "no locks"])
def test_processes_add_read_and_move_at_once_and_one_is_killed(
    cache: VectorCache, tmp_path: Path, locks: str
) -> None:
    """Two write the same texts in part; a third is killed while it works."""
    working = [running(tmp_path, first, locks) for first in ("0", "60")]
    third = running(tmp_path, "100", locks)
    while third.poll() is None and not shards(cache).keys() - {""}:
        time.sleep(0.01)
    third.send_signal(signal.SIGKILL)
    third.communicate(timeout=100)
    for process in working:
        _, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        assert not err
    found = cache.take(hashed(*range(150)))
    assert found.known.all()
    assert found.vectors.tolist() == [[n] * 4 for n in range(150)]
    assert not list(cache.folder.glob("*.damaged"))


def test_a_claim_keeps_others_off_until_it_ends_or_its_process_is_killed(
    cache: VectorCache, tmp_path: Path
) -> None:
    keys = hashed("a", "b", "c")
    other = VectorCache(Home(tmp_path), "revision")
    with cache.claim(keys[:2]) as mine, other.claim(keys) as rest:
        assert (mine.tolist(), rest.tolist()) == ([True, True], [False, False, True])
        other.wait_for(keys[2:2])
    with other.claim(keys) as rest:
        assert rest.all()
    child = f"""
import sys, time
from pathlib import Path
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.vectors import VectorCache
with VectorCache(Home(Path({str(tmp_path)!r})), "revision").claim({keys[:1]!r}):
    print("claimed", flush=True)
    time.sleep(100)
"""
    process = subprocess.Popen(
        [sys.executable, "-m", PROGRAM, child], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "claimed\n"
    with other.claim(keys) as rest:
        assert rest.tolist() == [False, True, True]
    process.kill()
    process.communicate(timeout=100)
    other.wait_for(keys)
    with other.claim(keys) as rest:
        assert rest.all(), "the claim of a killed process is void"
    assert not list(cache.folder.glob(".claim-*"))
