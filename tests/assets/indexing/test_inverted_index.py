from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from rag_assay.assets.indexing import lexical
from rag_assay.assets.indexing.lexical import PostingsWriter, invert, lexical_of, open_lexical, write_lexical

FILES = ["begins.npy", "counts.npy", "lengths.npy", "rows.npy", "words.parquet"]


def texts(count: int) -> list[str]:
    """Texts in which some words are frequent, most rare, and some texts are empty."""
    random = np.random.default_rng(3)
    drawn = (random.zipf(1.4, random.integers(0, 30)) for _ in range(count))
    return [
        " ".join(f"w{number % 997}" for number in numbers) + " Öre" * (at % 5)
        for at, numbers in enumerate(drawn)
    ]


@pytest.mark.parametrize("count", [0, 1, 10, 11, 60])
@pytest.mark.parametrize(("run", "merged"), [(1, 1), (200, 50), (200, 10_000), (10**9, 1)])
def test_runs_that_were_merged_are_one_index_to_the_byte(
    count: int, run: int, merged: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lexical, "BLOCK", 10)
    write_lexical(lexical_of(texts(count)), tmp_path / "one")
    invert(iter(texts(count)), tmp_path / "other", run, merged)
    assert sorted(path.name for path in (tmp_path / "other").iterdir()) == FILES, (
        "nothing is left of the runs"
    )
    for name in FILES[:-1]:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes(), name
    assert open_lexical(tmp_path / "one").words == open_lexical(tmp_path / "other").words


def write(folder: Path, words: list[str]) -> None:
    with PostingsWriter(folder) as writer:
        writer.add(np.array([2]), np.array([0, 3], np.int32), np.array([1, 1], np.int32))
        writer.finish(pl.Series(words), np.ones(4, np.int32))


def test_what_is_not_finished_does_not_appear(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="1 words have postings, but 2 are named"):
        write(tmp_path, ["a", "b"])
    assert not list(tmp_path.iterdir())
    write(tmp_path, ["a"])
    assert open_lexical(tmp_path).postings("a")[0].tolist() == [0, 3]
