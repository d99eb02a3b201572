"""Artifacts of a home at a URL: machines with scratch folders of their own see and adopt each other's."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rag_assay.warehouse.artifacts import Artifact, ArtifactStore
from rag_assay.warehouse.attempts import attempt
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.paths import home
from rag_assay.warehouse.remote.mirror import Mirror
from rag_assay.warehouse.remote.store import RemoteStore
from tests.fakes.forking import PROGRAM
from tests.fakes.object_storage import Server

KEY = "a study.cell ü"
Machine = Callable[[str], ArtifactStore]


@pytest.fixture(params=["s3", "file"])
def machine(
    request: pytest.FixtureRequest, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Machine:
    """Give the store of a home at a URL as a machine of some name sees it."""
    url = f"{server.bucket()}/home" if request.param == "s3" else f"file://{tmp_path}/disk"
    monkeypatch.setenv("ASSAY_REMOTE", "")
    monkeypatch.setenv("ASSAY_HOME", url)

    def of(name: str) -> ArtifactStore:
        monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path / name))
        found = ArtifactStore(home())
        found.refresh()
        return found

    return of


def build(store: ArtifactStore, text: str, identity: str = "id", **fields: object) -> Artifact:
    with attempt(store.place("documents", identity), resumes=False) as folder:
        (folder / "lance" / "ä").mkdir(parents=True)
        (folder / "rows.parquet").write_text(text)
        (folder / "lance" / "ä" / "x y#1.txn").write_text(text * 2)
        (folder / "empty").write_bytes(b"")
        instead_of = store.find("documents", identity)
        return store.commit_once(
            Artifact("documents", KEY, identity, text, **fields),  # type: ignore[arg-type]
            folder,
            instead_of if instead_of and not instead_of.complete else None,
        )


def remote() -> RemoteStore:
    return RemoteStore(os.environ["ASSAY_HOME"])


def objects() -> list[str]:
    return [one.path for one in remote().list("documents")]


def test_one_machine_reads_what_another_has_built(machine: Machine) -> None:
    one = machine("one")
    assert one.current("documents", KEY) is None
    assert one.keys("documents") == one.all("documents") == []
    built = build(one, "first")
    assert one.current("documents", KEY) == built
    two = machine("two")
    assert two.current("documents", KEY) == two.find("documents", "id") == built
    assert two.all("documents") == [built]
    assert two.keys("documents") == [KEY]
    assert two.pointed_at("documents", KEY) is not None
    folder = two.folder("documents", "id")
    assert folder.parent.parent.parent == two.home.root
    assert (folder / "rows.parquet").read_text() == "first"
    assert (folder / "lance" / "ä" / "x y#1.txn").read_text() == "firstfirst"
    assert (folder / "empty").read_bytes() == b""
    assert two.damage(built) is None
    again = build(two, "second", "id2")
    one.refresh()
    assert one.current("documents", KEY) == again
    two.unpoint("documents", [KEY])
    two.remove("documents", "id2")
    one.refresh()
    assert one.current("documents", KEY) is None
    assert not any("id2" in path for path in objects())


def test_an_artifact_without_files_is_one(machine: Machine) -> None:
    one = machine("one")
    with attempt(one.place("documents", "id"), resumes=False) as folder:
        built = one.commit_once(Artifact("documents", KEY, "id", "nothing"), folder)
    two = machine("two")
    assert two.current("documents", KEY) == built
    assert list(two.folder("documents", "id").iterdir()) == []


def test_a_second_start_reads_no_record_again(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    build(machine("one"), "first")
    asked: list[str] = []
    read = RemoteStore.read
    monkeypatch.setattr(RemoteStore, "read", lambda self, path: asked.append(path) or read(self, path))
    for _ in range(2):
        two = machine("two")
        assert two.current("documents", KEY)
        assert two.current("documents", "absent") is None
        assert two.find("documents", "absent") is None
    assert asked == [f"pointers/documents/{KEY}.json", "documents/id/artifact.json"]


def test_an_incomplete_artifact_is_replaced_and_a_complete_one_adopted(machine: Machine) -> None:
    one, two = machine("one"), machine("two")
    half = build(one, "half", complete=False)
    two.refresh()
    assert two.find("documents", "id") == half
    assert (two.files_of(half) / "rows.parquet").read_text() == "half"
    whole = build(two, "whole")
    one.refresh()
    assert one.current("documents", KEY) == whole
    assert (one.folder("documents", "id") / "rows.parquet").read_text() == "whole"
    before = objects()
    assert build(one, "late") == whole, "who comes second adopts the winner's"
    assert objects() == before, "and its files are removed"


def test_two_builders_of_one_identity_end_well(machine: Machine) -> None:
    for number in range(20):
        stores = [machine("one"), machine("two")]
        with ThreadPoolExecutor(2) as pool:
            built = list(pool.map(lambda s, at=number: build(s, s.home.root.name, f"id{at}"), stores))
        assert built[0] == built[1]
        for store in stores:
            store.refresh()
            assert store.find("documents", f"id{number}") == built[0]
            assert store.damage(built[0]) is None
        assert len([path for path in objects() if f"/id{number}/" in path]) == 4


def test_damage_is_found_and_built_again(machine: Machine) -> None:
    one = machine("one")
    built = build(one, "first")
    (one.folder("documents", "id") / "rows.parquet").write_text("worse")
    assert one.damage(built) is None, "what is damaged in the scratch alone is fetched again"
    assert (one.folder("documents", "id") / "rows.parquet").read_text() == "first"
    path = f"documents/id/{built.folder}/rows.parquet"
    for harm, sentence in (
        (lambda: remote().put(path, b"other"), "other bytes than were written"),
        (lambda: remote().put(path, b"fir"), "3 bytes instead of 5"),
        (lambda: remote().delete([path]), "is missing"),
    ):
        harm()
        two = machine(f"two {sentence}")
        found = two.current("documents", KEY)
        assert found
        assert sentence in str(two.damage(found))
        with pytest.raises(AssayError, match=sentence):
            two.folder("documents", "id")
    two.set_aside(built)
    assert two.find("documents", "id") is None
    assert two.broken("documents", "id") is not None
    one = machine("three")
    assert one.find("documents", "id") is None, "for all machines"
    again = build(one, "again")
    two.refresh()
    assert two.current("documents", KEY) == again
    two.set_aside(built)
    assert two.current("documents", KEY) == again, "what was built again stays"


def test_torn_records_and_pointers_do_not_count(machine: Machine) -> None:
    one = machine("one")
    built = build(one, "first")
    remote().put(f"pointers/documents/{KEY}.json", b'{"identity": "i')
    assert machine("two").current("documents", KEY) == built, "made again from the newest artifact"
    assert machine("three").current("documents", KEY) == built
    data = remote().read("documents/id/artifact.json")
    assert data
    for torn in (data[:50], data.replace(b"first", b"worst"), b"", data.replace(b'"id"', b'"id2"')):
        remote().put("documents/id/artifact.json", torn)
        assert machine(f"four {len(torn)} {torn[60:70]!r}").find("documents", "id") is None
    assert build(machine("five"), "again").data_version == "again"


def test_what_was_killed_while_it_uploaded_does_not_count(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = machine("one")
    remote().put("documents/id/abc/rows.parquet", b"half")
    one.refresh()
    assert one.find("documents", "id") is None
    assert one.all("documents") == []
    built = build(one, "half whole", complete=False)
    assert len(objects()) == 5, "another machine may be uploading it"
    assert machine("two").all("documents") == [built]
    monkeypatch.setattr("rag_assay.warehouse.remote.artifacts.ABANDONED", -60.0)
    built = build(machine("two"), "whole")
    assert len(objects()) == 4
    assert machine("three").all("documents") == [built]
    assert machine("three").damage(built) is None


@pytest.mark.parametrize("machine", ["file"], indirect=True)
def test_what_was_used_longest_ago_leaves_the_scratch(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    one = machine("one")
    for number in range(6):
        build(one, "x" * 1000, f"id{number}")
    monkeypatch.setenv("ASSAY_SCRATCH_GB", str(10_000 / 1e9))
    script = (
        "import sys\nfrom rag_assay.warehouse.artifacts import ArtifactStore\n"
        "from rag_assay.warehouse.paths import home\n"
        "store = ArtifactStore(home())\n"
        "for name in sys.argv[1:]: store.folder('documents', name)\n"
    )
    machine("two")

    def use(*names: str) -> None:
        subprocess.run([sys.executable, "-m", PROGRAM, script, *names], check=True, timeout=60)

    use("id0", "id1", "id2")
    use("id3", "id0")
    use("id4")
    there = {path.parent.parent.name for path in (tmp_path / "two").glob("documents/*/*/rows.parquet")}
    assert "id4" in there
    assert "id1" not in there
    assert len(there) <= 3
    two = machine("two")
    assert (two.folder("documents", "id1") / "rows.parquet").read_text() == "x" * 1000
    for number in range(6):
        two.folder("documents", f"id{number}")
    there = {path.parent.parent.name for path in (tmp_path / "two").glob("documents/*/*/rows.parquet")}
    assert len(there) == 6, "what a living process uses stays"


@pytest.fixture
def small_files() -> Iterator[None]:
    """Let no file grow beyond some bytes, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def test_a_full_scratch_is_a_sentence_and_loses_nothing(
    machine: Machine, request: pytest.FixtureRequest
) -> None:
    built = build(machine("one"), "x" * 30_000)
    two = machine("two")
    assert two.current("documents", KEY) == built
    remote().put("bodies/packs/a.pack", b"x" * 30_000)
    request.getfixturevalue("small_files")
    with pytest.raises(AssayError, match="the disk of the scratch folder is full") as caught:
        two.folder("documents", "id")
    assert "ASSAY_SCRATCH" in str(caught.value)
    with pytest.raises(AssayError, match="the disk of the scratch folder is full"):
        Mirror(two.home, remote()).pull("bodies")
    resource.setrlimit(
        resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.getrlimit(resource.RLIMIT_FSIZE)[1])
    )
    assert (two.folder("documents", "id") / "rows.parquet").read_text() == "x" * 30_000
