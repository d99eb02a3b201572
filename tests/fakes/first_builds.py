"""What the first build of a test left: later tests of this process that build the same begin with a copy."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copytree
from typing import TYPE_CHECKING

import pytest

from rag_assay.evals.study.registry import JUDGES
from rag_assay.warehouse.identity import digest, sha256_bytes

if TYPE_CHECKING:
    from rag_assay.assets.engine.stage import KeyOutcome
    from tests.fakes.tiny import Bench

Outcomes = dict[str, list["KeyOutcome"]]
_HARMLESS = {"encode", "FEW", "opened", "_known", "_recorder", "ASSAY_HOME"}
"""What `conftest.py` patches in every test."""
_kept: dict[str, tuple[Path, Outcomes]] = {}


@dataclass
class FirstBuild:
    """The first build of one test; its further ones compute, so that it may compare what they give.

    folder: for all tests of a process
    patch: a test that patches anything before it builds computes itself
    """

    folder: Path
    patch: pytest.MonkeyPatch
    done: bool = field(default=False, init=False)

    def build(self, bench: Bench, names: Sequence[str], compute: Callable[[], Outcomes]) -> Outcomes:
        key = None if self.done or self._is_patched() else self._key(bench, names)
        self.done = True
        if key in _kept:
            home, outcomes = _kept[key]
            copytree(home, bench.home.root, dirs_exist_ok=True)
            return {name: list(found) for name, found in outcomes.items()}
        outcomes = compute()
        if key and all(one.ok for found in outcomes.values() for one in found):
            home = self.folder / key
            copytree(bench.home.root, home)
            _kept[key] = home, {name: list(found) for name, found in outcomes.items()}
        return outcomes

    def _is_patched(self) -> bool:
        names = {name for _, name, _ in (*self.patch._setattr, *self.patch._setitem)}
        return not names <= _HARMLESS

    def _key(self, bench: Bench, names: Sequence[str]) -> str | None:
        """Digest of all that the build reads; None: it asks a server, or its home is not new."""
        root, home = bench.study.base, bench.home.root
        if {path.name for path in home.iterdir()} - {"pages", "documents", "pointers"}:
            return None
        read = {
            path.relative_to(root).as_posix(): sha256_bytes(path.read_bytes())
            for path in root.rglob("*")
            if path.is_file() and home not in path.parents
        }
        if b"api_base" in bench.study.path.read_bytes():
            return None
        documents = [
            sha256_bytes((bench.folder("documents", name) / "documents.parquet").read_bytes())
            for name in bench.study.corpus.sources
        ]
        return digest([read, documents, list(names), str(JUDGES._built_in), os.environ.get("ASSAY_MODELS")])
