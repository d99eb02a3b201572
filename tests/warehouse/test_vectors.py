from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

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


@pytest.mark.parametrize("damage", ["torn", "text", "other columns"])
def test_a_damaged_segment_is_put_aside_and_only_costs_computing_again(
    cache: VectorCache, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    cache.put(["a"], np.array([[1, 2]], np.float32))
    (segment,) = cache.folder.glob("*.parquet")
    cache.put(["b"], np.array([[3, 4]], np.float32))
    if damage == "other columns":
        import polars as pl

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
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert not err
    keys = [f"{name}-{n}" for name in ("one", "two") for n in range(20)]
    found = cache.get(keys)
    assert [found[key].tolist() for key in keys] == [[n] * 4 for _ in range(2) for n in range(20)]
