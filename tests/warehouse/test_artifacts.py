from __future__ import annotations

from pathlib import Path

import pytest

from warehouse.artifacts import Artifact, ArtifactStore
from warehouse.paths import Home


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(Home(tmp_path))


def built(store: ArtifactStore, key: str, identity: str, text: str = "rows") -> Artifact:
    folder = store.folder("chunks", identity)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rows.txt").write_text(text)
    return store.commit(Artifact("chunks", key, identity, data_version=f"v-{text}", meta={"n": 3}))


def test_what_is_committed_is_found_by_identity_and_by_key(store: ArtifactStore) -> None:
    artifact = built(store, "energy.t16", "aa")
    assert store.find("chunks", "aa") == artifact
    assert store.current("chunks", "energy.t16") == artifact
    assert artifact.files == {"rows.txt": 4}
    assert artifact.created_at.endswith("+00:00")
    assert store.find("chunks", "bb") is None
    assert store.find("answers", "aa") is None
    assert store.current("chunks", "energy.t32") is None


def test_files_without_an_artifact_json_do_not_count(store: ArtifactStore) -> None:
    folder = store.folder("chunks", "aa")
    folder.mkdir(parents=True)
    (folder / "rows.txt").write_text("half of the ro")
    store.point("chunks", "energy.t16", "aa")
    assert store.find("chunks", "aa") is None
    assert store.current("chunks", "energy.t16") is None
    assert store.all("chunks") == []


def test_the_pointer_moves_and_goes_back_to_an_old_identity(store: ArtifactStore) -> None:
    old = built(store, "energy.t16", "aa", "old rows")
    new = built(store, "energy.t16", "bb", "new rows")
    assert store.current("chunks", "energy.t16") == new
    assert store.find("chunks", "aa") == old, "old rows stay"
    store.point("chunks", "energy.t16", "aa")
    assert store.current("chunks", "energy.t16") == old
    assert (store.folder("chunks", "aa") / "rows.txt").read_text() == "old rows"
    assert store.all("chunks") == [old, new]


def test_one_identity_can_have_two_keys(store: ArtifactStore) -> None:
    built(store, "energy.t16", "aa")
    store.point("chunks", "energy.sixteen", "aa")
    assert store.keys("chunks") == ["energy.sixteen", "energy.t16"]
    assert store.current("chunks", "energy.sixteen") == store.current("chunks", "energy.t16")


@pytest.mark.parametrize(
    "content", [b"", b'{"stage": "chu', b"[1]", b"null", b'{"stage": "chunks"}', b"\xff\xfe"]
)
def test_a_torn_artifact_json_counts_as_none(store: ArtifactStore, content: bytes) -> None:
    built(store, "energy.t16", "aa")
    (store.folder("chunks", "aa") / "artifact.json").write_bytes(content)
    assert store.find("chunks", "aa") is None
    assert store.current("chunks", "energy.t16") is None


@pytest.mark.parametrize(
    "content", [b"", b'{"ident', b"[1]", b"null", b"{}", b'{"identity": 5}', b"\xff\xfe"]
)
def test_a_torn_pointer_counts_as_none(store: ArtifactStore, content: bytes) -> None:
    built(store, "energy.t16", "aa")
    (store.home.root / "pointers" / "chunks" / "energy.t16.json").write_bytes(content)
    assert store.current("chunks", "energy.t16") is None
    assert built(store, "energy.t16", "aa") == store.current("chunks", "energy.t16")


@pytest.mark.parametrize("damage", ["deleted", "torn"])
def test_an_artifact_whose_file_was_deleted_or_torn_does_not_count(store: ArtifactStore, damage: str) -> None:
    built(store, "energy.t16", "aa")
    file = store.folder("chunks", "aa") / "rows.txt"
    file.unlink() if damage == "deleted" else file.write_text("ro")
    assert store.find("chunks", "aa") is None
    file.write_text("rows")
    assert store.find("chunks", "aa") is not None
