from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rag_assay.warehouse.artifacts import Artifact, ArtifactStore
from rag_assay.warehouse.attempts import attempt, turn
from rag_assay.warehouse.paths import Home
from tests.fakes.forking import PROGRAM


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(Home(tmp_path))


WHOLE = {
    **{"stage": "chunks", "key": "energy.t16", "identity": "aa", "data_version": "v", "complete": True},
    **{"meta": {}, "created_at": "", "files": {"rows.txt": 4}, "sums": {}, "folder": ""},
}


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


def test_a_record_that_was_read_long_ago_is_read_anew_when_it_is_another(store: ArtifactStore) -> None:
    built(store, "energy.t16", "aa")
    record = store.place("chunks", "aa") / "artifact.json"
    os.utime(record, (1_700_000_000, 1_700_000_000))
    data = record.read_bytes()
    assert store.find("chunks", "aa") is store.find("chunks", "aa"), "it is remembered"
    record.write_bytes(data.replace(b"v-rows", b"v-rowt"))
    assert store.find("chunks", "aa") is None
    record.write_bytes(data)
    assert store.find("chunks", "aa") is not None
    assert store.find("answers", "aa") is None
    os.utime(record, (1_700_000_000, 1_700_000_000))
    assert store.find("chunks", "aa") is not None
    assert built(store, "energy.t16", "aa", "other rows") == store.find("chunks", "aa")
    record.unlink()
    assert store.find("chunks", "aa") is None


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
    "content",
    [
        *(b"", b'{"stage": "chu', b"[1]", b"null", b'{"stage": "chunks"}', b"\xff\xfe", b"[" * 100_000),
        *(json.dumps({**WHOLE, name: 5}).encode() for name in WHOLE),
        *(json.dumps({**WHOLE, name: ["x"]}).encode() for name in WHOLE),
        *(json.dumps({**WHOLE, name: "other"}).encode() for name in ("stage", "identity", "folder")),
        *(json.dumps({**WHOLE, "folder": name}).encode() for name in ("../aa", "a\0b")),
        *(json.dumps({**WHOLE, "files": files}).encode() for files in ({"rows.txt": "4"}, {"../rows": 4})),
    ],
)
def test_a_torn_artifact_json_counts_as_none(store: ArtifactStore, content: bytes) -> None:
    built(store, "energy.t16", "aa")
    (store.folder("chunks", "aa") / "artifact.json").write_bytes(content)
    assert store.find("chunks", "aa") is None
    assert store.current("chunks", "energy.t16") is None


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b'{"ident', b"[1]", b"null", b"{}", b'{"identity": 5}', b"\xff\xfe"),
        *(b'{"identity": {"a": 1}}', b'{"identity": "../../etc"}', b'{"identity": "a\\u0000b"}'),
        b'{"identity": "cc", "key": "energy.t32"}',  # of another key
        b"[" * 100_000,
    ],
)
def test_a_torn_pointer_means_the_newest_artifact_of_its_key_and_is_made_again(
    store: ArtifactStore, content: bytes
) -> None:
    built(store, "energy.t16", "aa")
    newest = built(store, "energy.t16", "bb")
    built(store, "energy.t32", "cc")
    pointer = store.home.root / "pointers" / "chunks" / "energy.t16.json"
    pointer.write_bytes(content)
    assert store.current("chunks", "energy.t16") == newest
    assert json.loads(pointer.read_text()) == {"identity": "bb", "key": "energy.t16"}
    (store.home.root / "pointers" / "chunks" / "energy.t64.json").write_bytes(content)
    assert store.current("chunks", "energy.t64") is None, "nothing was built for it"


@pytest.mark.parametrize("damage", ["deleted", "torn"])
def test_an_artifact_whose_file_was_deleted_or_torn_does_not_count(store: ArtifactStore, damage: str) -> None:
    built(store, "energy.t16", "aa")
    file = store.folder("chunks", "aa") / "rows.txt"
    file.unlink() if damage == "deleted" else file.write_text("ro")
    assert store.find("chunks", "aa") is None
    file.write_text("rows")
    assert store.find("chunks", "aa") is not None


def test_each_flipped_byte_of_a_record_is_noticed(store: ArtifactStore) -> None:
    artifact = built(store, "energy.t16", "aa")
    path = store.place("chunks", "aa") / "artifact.json"
    good = path.read_bytes()
    for at in range(len(good)):
        path.write_bytes(good[:at] + bytes([good[at] ^ 0x04]) + good[at + 1 :])
        assert store.find("chunks", "aa") in (None, artifact), f"byte {at}"
    path.write_bytes(good)
    assert store.find("chunks", "aa") == artifact


@pytest.mark.parametrize("name", ["rows.txt", "lexical/words.txt"])
def test_other_bytes_and_missing_files_are_found_in_folders_too(store: ArtifactStore, name: str) -> None:
    folder = store.folder("chunks", "aa")
    (folder / "lexical").mkdir(parents=True)
    (folder / "lexical" / "words.txt").write_text("some words")
    artifact = built(store, "energy.t16", "aa")
    assert artifact.files == {"rows.txt": 4, "lexical/words.txt": 10}
    assert store.damage(artifact) is None
    good = (folder / name).read_bytes()
    (folder / name).write_bytes(good[:-1] + b"!")
    assert store.damage(artifact) == f"{name} has other bytes than were written"
    (folder / name).write_bytes(good + b"!")
    assert store.damage(artifact) == f"{name} has {len(good) + 1} bytes instead of {len(good)}"
    (folder / name).unlink()
    assert store.damage(artifact) == f"{name} cannot be read (No such file or directory)"
    store.set_aside(artifact)
    assert store.find("chunks", "aa") is None
    assert store.damaged("chunks") == [artifact]


def attempted(store: ArtifactStore, text: str, *, complete: bool = True) -> tuple[Artifact, Path]:
    folder = store.place("chunks", "aa") / f".build-{text}"
    folder.mkdir(parents=True)
    (folder / "rows.txt").write_text(text)
    return Artifact("chunks", "k", "aa", f"v-{text}", complete), folder


def rows_of(store: ArtifactStore) -> str:
    return (store.folder("chunks", "aa") / "rows.txt").read_text()


def test_the_first_of_two_builders_wins_and_the_second_adopts_its_artifact(store: ArtifactStore) -> None:
    one, two = attempted(store, "one"), attempted(store, "two")
    first = store.commit_once(*one)
    second = store.commit_once(*two)
    assert second == first
    assert rows_of(store) == "one"
    assert sorted(path.name for path in store.place("chunks", "aa").iterdir()) == ["artifact.json", "one"]


def test_what_is_whole_takes_the_place_of_what_is_not_and_never_the_other_way(store: ArtifactStore) -> None:
    half, whole = attempted(store, "half", complete=False), attempted(store, "whole")
    late = attempted(store, "late", complete=False)
    store.commit_once(*half)
    assert store.commit_once(*whole).data_version == "v-whole"
    assert store.commit_once(*late).data_version == "v-whole"
    assert rows_of(store) == "whole"
    assert (store.place("chunks", "aa") / "half" / "rows.txt").exists(), "somebody may still read it"


def test_a_damaged_artifact_is_replaced_by_a_new_build(store: ArtifactStore) -> None:
    first = store.commit_once(*attempted(store, "one"))
    (store.folder("chunks", "aa") / "rows.txt").write_text("0ne")
    store.set_aside(first)
    store.commit_once(*attempted(store, "two"))
    assert rows_of(store) == "two"
    assert store.damaged("chunks") == []


def test_what_a_killed_attempt_left_is_carried_on_or_removed(tmp_path: Path) -> None:
    place = tmp_path / "chunks" / "aa"
    left = place / ".build-0000"
    left.mkdir(parents=True)
    (left / "part").write_text("done")
    (left / ".part.12.ab.tmp").write_text("torn")
    with attempt(place, resumes=True) as folder:
        assert [path.name for path in folder.iterdir()] == ["part"]
    assert folder.exists(), "the next one goes on"
    with attempt(place, resumes=False, alone=False) as other:
        assert not list(other.iterdir())
    assert folder.exists(), "it may be another process that builds"
    with attempt(place, resumes=False) as other:
        assert not list(other.iterdir())
        (other / "part").write_text("half")
    assert not list(place.iterdir())


def test_a_build_waits_for_its_turn_and_a_killed_process_gives_it_away(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from rag_assay.warehouse.attempts import turn\n"
        "with turn(Path(sys.argv[1]), print):\n    print('mine', flush=True); time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-m", PROGRAM, code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "mine\n"
        with turn(tmp_path, other.kill):
            assert other.wait() == -signal.SIGKILL, "it was waited for"
