"""Where the figures of a study are from: corpus, cells, machine, and the command that makes each again."""

from __future__ import annotations

import os
import platform
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from rag_assay.evals.study.study import Study
from rag_assay.warehouse.identity import digest


@dataclass(frozen=True)
class Provenance:
    """corpus: digest of all documents

    machine: fact -> value, of the machine that wrote the report
    commands: cell -> the command that makes it again; identities: cell -> digest of all that made it
    """

    corpus: str | None
    machine: Mapping[str, str]
    commands: Mapping[str, str]
    identities: Mapping[str, str]


def provenance(study: Study, digests: Sequence[str | None], board: pl.DataFrame) -> Provenance:
    """digests: of the documents of each source; board: schemas.LEADERBOARD"""
    ids = board.drop_nulls("cell_id").select("cell", "cell_id").unique("cell").iter_rows()
    name = study.slice.whole if study.slice else study.study
    return Provenance(
        digest([*digests]) if digests and all(digests) else None,
        machine(),
        {cell.name: command(name, cell.name.partition(".")[2]) for cell in study.cells()},
        dict(ids),
    )


def command(study: str, cell: str) -> str:
    """
    >>> command("demo", "tokens-128.minilm.bm25.quote")
    'assay run demo --cells tokens-128.minilm.bm25.quote'
    """
    return shlex.join(["assay", "run", study, "--cells", cell])


def machine() -> dict[str, str]:
    lines = _lines(Path("/proc/cpuinfo"))
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    found = {
        "processor": (named[0] if named else platform.processor()),
        "cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
        "memory": _memory(),
        "graphics processors": ", ".join(_graphics()) or "none",
        "system": f"{platform.system()} {platform.release()} ({platform.machine()})",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
    }
    return {name: value for name, value in found.items() if value}


def _memory() -> str:
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not every system says it
        return ""
    return f"{size / 2**30:.1f} GiB"


def _graphics() -> Sequence[str]:
    found = sorted(Path("/proc/driver/nvidia/gpus").glob("*/information"))
    lines = [line for path in found for line in _lines(path) if line.startswith("Model:")]
    return [line.partition(":")[2].strip() for line in lines]


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
