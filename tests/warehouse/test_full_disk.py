"""A full disk is told as one, whatever library has met it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from rag_assay.warehouse.full_disk import is_full, sentence_of
from rag_assay.warehouse.parquet import write_batches, write_parquet


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of 60 kB."""
    if os.getuid():
        pytest.skip("only root can mount a small disk")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=60k", "tmpfs", tmp_path], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("no disk can be mounted here")
    try:
        yield tmp_path
    finally:
        subprocess.run(["umount", "-l", tmp_path], check=True)


FRAME = pl.DataFrame({"number": np.random.default_rng(7).random(20_000)})


def test_each_way_to_write_is_told_as_a_full_disk(small: Path) -> None:
    ways = (
        lambda path: write_parquet(FRAME, path),
        lambda path: write_batches([FRAME], dict(FRAME.schema), path),
        lambda path: path.write_bytes(bytes(100_000)),
    )
    for number, way in enumerate(ways):
        with pytest.raises(Exception, match=r"No space left|os error 28|transport|thrift") as caught:
            way(small / f"{number}.parquet")
        assert is_full(caught.value, small)
        assert sentence_of(caught.value, small).startswith(f"the disk of {small} is full (")
        for path in small.iterdir():
            path.unlink()


def test_what_is_another_fault_is_none(tmp_path: Path) -> None:
    assert not is_full(ValueError("no such column"), tmp_path)
    caused = KeyError("second")
    caused.__cause__ = ValueError("first")
    assert not is_full(caused, tmp_path)
    caused.__cause__ = OSError(28, "No space left on device")
    assert is_full(caused, tmp_path)
    assert not is_full(OSError(2, "no such file"), tmp_path / "nowhere")
