"""Processes with scratch folders of their own that build the same at once, and one that is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.paths import home
from rag_assay.warehouse.remote.store import RemoteStore
from tests.fakes.object_storage import Server

IDENTITIES = [f"id{number}" for number in range(20)]


def builder(name: str, folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.fakes.remote_builder", name, *IDENTITIES],
        env={**os.environ, "ASSAY_SCRATCH": str(folder / name)},
    )


def test_what_two_processes_build_at_once_is_whole_though_a_third_was_killed(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_REMOTE", "")
    monkeypatch.setenv("ASSAY_HOME", f"{server.bucket()}/home")
    remote = RemoteStore(os.environ["ASSAY_HOME"])
    killed = builder("killed", tmp_path)
    while len(remote.list("documents")) < 6:
        assert killed.poll() is None
        time.sleep(0.002)
    killed.kill()
    killed.wait()
    for process in [builder("one", tmp_path), builder("two", tmp_path)]:
        assert process.wait(120) == 0
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path / "reader"))
    store = ArtifactStore(home())
    built = store.all("documents")
    assert sorted(one.identity for one in built) == sorted(IDENTITIES)
    for one in built:
        assert store.damage(one) is None
        files = {path.name: path.read_text() for path in store.folder("documents", one.identity).iterdir()}
        assert files == {name: f"{one.data_version} {one.identity} {name}" * 1000 for name in ("a", "b", "c")}
        assert store.current("documents", one.key) == one
    left = [one.path for one in remote.list("documents")]
    assert len(left) - 4 * len(IDENTITIES) in range(4), "but for what the killed one was uploading"
