"""Objects: of a real S3 server and of a shared disk, by one contract."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rag_assay.warehouse.errors import AssayError, InputError
from rag_assay.warehouse.identity import sha256_bytes
from rag_assay.warehouse.paths import home
from rag_assay.warehouse.remote import mirror_of
from rag_assay.warehouse.remote.store import DamagedObjectError, RemoteStore, Version, at_once
from tests.fakes.object_storage import Server

ODD = [
    "a b",
    "ä ö",
    "a#b?c",
    "100%",
    "a%20b",
    "a*b[1]",
    "a:b+c&d=e",
    "'q'\"d\"",
    "..x",
    "a\\b",
    "😀",
    "e\u0301",
]


@pytest.fixture(params=["s3", "file"])
def store(request: pytest.FixtureRequest, server: Server, tmp_path: Path) -> RemoteStore:
    return RemoteStore(
        f"{server.bucket()}/some/prefix" if request.param == "s3" else f"file://{tmp_path}/a shared disk"
    )


def test_of_two_writers_one_is_first_and_the_other_learns_of_it(store: RemoteStore) -> None:
    assert store.read("a/b.json") is None
    assert store.create("a/b.json", b"one")
    assert not store.create("a/b.json", b"two")
    assert store.create("a/b.json", b"one")  # the answer to the first request was lost
    found = store.read_with_version("a/b.json")
    assert found
    assert found[0] == b"one"
    assert store.replace("a/b.json", b"three", found[1])
    assert not store.replace("a/b.json", b"four", found[1])
    assert store.replace("a/b.json", b"three", found[1])
    assert store.read("a/b.json") == b"three"
    assert not store.replace("absent", b"four", Version('"0"'))
    store.put("a/b.json", b"")
    assert store.read("a/b.json") == b""


def test_one_of_twenty_at_once_creates_and_one_replaces(store: RemoteStore) -> None:
    for number in range(3):
        made = at_once(lambda n, at=number: store.create(f"{at}", f"{n}".encode()), range(20))
        assert sum(made) == 1
        found = store.read_with_version(f"{number}")
        assert found
        swapped = at_once(
            lambda n, at=number, v=found[1]: store.replace(f"{at}", f"x{n}".encode(), v), range(20)
        )
        assert sum(swapped) == 1


def test_files_go_and_come_whole_or_not_at_all(store: RemoteStore, tmp_path: Path) -> None:
    for size in (0, 1, 8 << 20, (8 << 20) + 1):
        data = os.urandom(size)
        (tmp_path / "out").write_bytes(data)
        store.upload(tmp_path / "out", f"files/{size}")
        back = tmp_path / "in" / str(size)
        assert store.download(f"files/{size}", back, size, sha256_bytes(data))
        assert back.read_bytes() == data
        assert store.download(f"files/{size}", back)
        for wrong in (size + 1, max(size - 1, 0)):
            if wrong != size:
                with pytest.raises(DamagedObjectError, match=f"{size} bytes instead of {wrong}"):
                    store.download(f"files/{size}", tmp_path / "bad", wrong)
        with pytest.raises(DamagedObjectError, match="other bytes"):
            store.download(f"files/{size}", tmp_path / "bad", size, sha256_bytes(data + b"!"))
    assert not store.download("files/absent", tmp_path / "bad")
    assert not store.download("files/absent", tmp_path / "bad", 5)
    assert not (tmp_path / "bad").exists()
    assert [one.size for one in store.list("files")] == [0, 1, 8 << 20, (8 << 20) + 1]


def test_names_may_hold_odd_characters(store: RemoteStore) -> None:
    for name in ODD:
        store.put(f"odd/{name}/artifact.json", name.encode())
    assert store.folders("odd") == sorted(ODD)
    assert {one.path for one in store.list("odd")} == {f"odd/{name}/artifact.json" for name in ODD}
    assert at_once(store.read, [f"odd/{name}/artifact.json" for name in ODD]) == [n.encode() for n in ODD]
    assert store.list("od") == []  # no path begins with half a name
    with pytest.raises(AssayError, match="it is not a valid object name"):
        store.put("a//b", b"")
    store.delete([f"odd/{name}/artifact.json" for name in ODD] + ["odd/absent"])
    assert store.list("odd") == []


def test_a_listing_of_several_answers_is_whole(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "10")
    store = RemoteStore(f"{server.bucket()}/many")
    at_once(lambda n: store.put(f"p/{n:04}/x", b""), range(31))
    assert len(store.list("p")) == len(store.folders("p")) == 31


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("s4://bucket/x", "a workspace cannot be at s4"),
        ("s3:///x", "names no bucket"),
        ("s3://name:hunter2@bucket/x", "put keys into AWS_"),
        ("file://host/x", "needs an absolute path"),
    ],
)
def test_a_wrong_url_is_a_sentence(
    url: str, sentence: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ASSAY_HOME", url)
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path))
    monkeypatch.setenv("ASSAY_REMOTE", "")
    with pytest.raises(InputError, match=sentence) as caught:
        home()
    assert "hunter2" not in str(caught.value)


def test_a_bucket_that_is_not_there_and_a_server_that_is_not_are_sentences(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = RemoteStore("s3://absent-bucket/x")
    for request in (
        lambda: store.read("a"),
        lambda: store.put("a", b""),
        lambda: store.create("a", b""),
        lambda: store.list("a"),
    ):
        with pytest.raises(InputError, match="the bucket does not exist"):
            request()
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("ASSAY_REMOTE_PATIENCE", "0.3")
    with pytest.raises(
        AssayError, match=r"s3://bucket/x: reading a failed \(no server could be reached"
    ) as caught:
        RemoteStore("s3://bucket/x").read("a")
    assert "secret-of-test" not in str(caught.value)
    assert "key-of-test" not in str(caught.value)


def test_a_home_at_a_url_has_a_scratch_folder_of_its_own(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    url = f"{server.bucket()}/prefix"
    monkeypatch.setenv("ASSAY_HOME", f"{url}/")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("ASSAY_REMOTE", "")
    here = home()
    mirror = mirror_of(here)
    assert mirror is not None
    assert mirror.store.url == url
    assert tmp_path in here.root.parents
    monkeypatch.setenv("ASSAY_SCRATCH", str(here.root))
    assert home() == here
    monkeypatch.setenv("ASSAY_HOME", server.bucket())
    with pytest.raises(InputError, match=f"is the scratch folder of {url}"):
        home()
    (tmp_path / "local" / "documents").mkdir(parents=True)
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path / "local"))
    with pytest.raises(InputError, match="holds files of something else"):
        home()
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "local"))
    assert mirror_of(home()) is None
