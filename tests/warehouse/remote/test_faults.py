"""A server that is overloaded, slow, or lost in the middle: success or a sentence, and nothing half."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rag_assay.warehouse.artifacts import Artifact, ArtifactStore
from rag_assay.warehouse.attempts import attempt
from rag_assay.warehouse.errors import AssayError, InputError
from rag_assay.warehouse.paths import home
from rag_assay.warehouse.remote.store import RemoteStore
from tests.fakes.faulty_proxy import Proxy, faulty_proxy
from tests.fakes.object_storage import Server

FAULTS = ["503", "slow", "lost", "unanswered"]


@pytest.fixture
def proxy(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    with faulty_proxy(server.address) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.address)
        monkeypatch.setenv("ASSAY_REMOTE_PATIENCE", "3")
        yield proxy


def of_first(fault: str, count: int, what: str) -> object:
    left = [count]

    def faulty(line: str) -> str:
        if line.startswith(what) and left[0]:
            left[0] -= 1
            return fault
        return ""

    return faulty


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_that_passes_is_not_noticed(server: Server, proxy: Proxy, fault: str, tmp_path: Path) -> None:
    store = RemoteStore(f"{server.bucket()}/home")
    for what in ("PUT", "GET", "HEAD"):
        proxy.fault = of_first(fault, 2, what)  # type: ignore[assignment]
        assert store.create(f"{what}/a", b"one" * 30_000)
        found = store.read_with_version(f"{what}/a")
        assert found
        assert found[0] == b"one" * 30_000
        assert store.replace(f"{what}/a", b"two", found[1])
        assert not store.replace(f"{what}/a", b"three", found[1])
        assert store.download(f"{what}/a", tmp_path / what, 3)
        assert [one.path for one in store.list(what)] == [f"{what}/a"]
    assert len([line for line in proxy.seen if line.startswith("PUT")]) > 6


@pytest.mark.parametrize("fault", ["503", "lost"])
def test_a_fault_that_stays_is_a_sentence_and_leaves_nothing_half(
    server: Server, proxy: Proxy, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_REMOTE", "")
    monkeypatch.setenv("ASSAY_REMOTE_PATIENCE", "0.5")
    monkeypatch.setenv("ASSAY_HOME", f"{server.bucket()}/home")
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path / "one"))
    one = ArtifactStore(home())

    def build() -> Artifact:
        with attempt(one.place("documents", "id"), resumes=False) as folder:
            for name in ("a", "b"):
                (folder / name).write_bytes(b"x" * 100_000)
            return one.commit_once(Artifact("documents", "key", "id", "v"), folder)

    for what in ("/b ", "artifact.json", "pointers"):
        proxy.fault = lambda line, what=what: fault if line.startswith("PUT") and what in line else ""  # type: ignore[misc]
        with pytest.raises(AssayError, match=r"writing .* failed") as caught:
            build()
        assert "secret-of-test" not in str(caught.value)
        assert proxy.address not in str(caught.value)
        proxy.fault = lambda _line: ""
        monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path / what.strip("/ ")))
        other = ArtifactStore(home())
        other.refresh()
        assert other.current("documents", "key") is None
        found = other.find("documents", "id")
        assert found is None or other.damage(found) is None, "a record stands for whole files"
    built = build()
    other.refresh()
    assert other.current("documents", "key") == built


def test_a_server_that_ignores_conditions_is_refused(
    server: Server, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_REMOTE", "")
    monkeypatch.setenv("ASSAY_HOME", f"{server.bucket()}/home")
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path / "one"))
    one = ArtifactStore(home())
    for careless in (True, True, False):
        proxy.careless = careless
        with attempt(one.place("documents", "id"), resumes=False) as folder:
            if careless:
                with pytest.raises(InputError, match="with conditional writes"):
                    one.commit_once(Artifact("documents", "key", "id", "v"), folder)
            else:
                assert one.commit_once(Artifact("documents", "key", "id", "v"), folder)
    assert [one.path for one in RemoteStore(os.environ["ASSAY_HOME"]).list("")] == [
        "documents/id/artifact.json",
        "pointers/documents/key.json",
    ]
