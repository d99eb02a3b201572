"""Git repositories by the real `git`, and buckets of a real S3 server: what is read, and what is fetched."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from rag_assay.crawlers.crawl import crawl
from rag_assay.crawlers.readers import pages_of
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.remote.store import RemoteStore
from rag_assay.warehouse.source import Source
from tests.fakes.object_storage import KEYS, Server, s3_server

WORDS = "The ferry leaves the harbour at noon."


def bodies(source: Source) -> dict[str, str | None]:
    """URL -> text of a page, or its reason in brackets."""
    return {page.url: page.body.decode() if page.body else f"({page.reason})" for page in pages_of(source)}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    return Home(tmp_path / "home")


# -------------------------------------------------------------------------------------------- git


def git(folder: Path, *arguments: str) -> str:
    names = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *names, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / "docs").mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    (folder / "README.md").write_text(f"# Ferry\n\n{WORDS}")
    (folder / "docs" / "code.py").write_text("def go():\n    pass\n")
    (folder / "old.txt").write_text(WORDS)
    git(folder, "add", "-A")
    git(folder, "commit", "--quiet", "-m", "one")
    git(folder, "tag", "v1")
    return folder


def test_a_repository_is_read_as_committed_and_later_changes_come_alone(repository: Path, home: Home) -> None:
    (repository / "uncommitted.txt").write_text("not yet")
    source = Source(reader="git", path=str(repository))
    first = crawl(home, "code", source, print)
    assert (first["new"], first["failed"]) == (3, "{}")
    before = source.state()
    (repository / "old.txt").unlink()
    (repository / "README.md").write_text("# Ferry\n\nIt leaves at one.")
    git(repository, "add", "README.md", "old.txt")
    git(repository, "commit", "--quiet", "-m", "two")
    assert source.state() != before
    second = crawl(home, "code", source, print)
    assert {name: second[name] for name in ("new", "changed", "unchanged", "gone")} == {
        "new": 0, "changed": 1, "unchanged": 1, "gone": 1,
    }  # fmt: skip
    assert bodies(source)["README.md"] == "# Ferry\n\nIt leaves at one."
    tagged = source.model_copy(update={"options": {"ref": "v1", "suffixes": [".txt", ".md"]}})
    assert bodies(tagged) == {"README.md": f"# Ferry\n\n{WORDS}", "old.txt": WORDS}


def test_a_hostile_repository_runs_nothing_and_leads_nowhere(repository: Path, tmp_path: Path) -> None:
    flag, secret = tmp_path / "ran", tmp_path / "secret.txt"
    secret.write_text("not yours")
    (repository / "link.txt").symlink_to(secret)
    (repository / ".gitattributes").write_text("*.txt filter=evil\n")
    git(repository, "config", "filter.evil.smudge", f"touch {flag}")
    hook = repository / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {flag}\n")
    hook.chmod(0o755)
    git(repository, "add", "-A")
    git(repository, "commit", "--quiet", "-m", "evil")
    found = bodies(Source(reader="git", path=str(repository)))
    assert found["link.txt"] == "(a symbolic link, which is not followed)"
    assert not flag.exists()


def test_links_and_submodules_are_counted_and_no_documents(repository: Path) -> None:
    (repository / "link.md").symlink_to("README.md")
    (repository / "docs" / "all").symlink_to("..")
    (repository / ".hidden").symlink_to("README.md")
    commit = git(repository, "rev-parse", "HEAD").strip()
    git(repository, "update-index", "--add", "--cacheinfo", f"160000,{commit},parts")
    git(repository, "add", "link.md", "docs/all", ".hidden")
    git(repository, "commit", "--quiet", "-m", "links")
    source = Source(reader="git", path=str(repository), options={"suffixes": [".md", ".txt"]})
    for _ in range(2):  # the second time from the copy
        assert bodies(source) == {
            "README.md": f"# Ferry\n\n{WORDS}",
            "old.txt": WORDS,
            "link.md": "(a symbolic link, which is not followed)",
            "docs/all": "(a symbolic link, which is not followed)",
            "parts": "(a submodule, which is not read)",
        }


def test_a_repository_that_is_too_large_is_refused(
    repository: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Source(reader="git", path=str(repository))
    (repository / "noise.txt").write_bytes(os.urandom(300_000))
    git(repository, "add", "noise.txt")
    git(repository, "commit", "--quiet", "-m", "noise")
    monkeypatch.setattr("rag_assay.crawlers.readers.git.MAX_BYTES", 100_000)
    with pytest.raises(InputError, match="more than 100000 bytes"):
        bodies(source)
    left = [path for path in home.root.rglob("*") if path.is_file() and path.stat().st_size > 50_000]
    assert not left, "nothing of it stays"
    (repository / "noise.txt").write_bytes(b"x" * 300_000)  # small until it is unpacked
    git(repository, "commit", "--quiet", "-am", "repeated")
    with pytest.raises(InputError, match="more than 100000 bytes"):
        bodies(source)


@pytest.mark.parametrize(
    ("path", "options", "words"),
    [
        ("https://ann:secret@example.org/x.git", {}, "holds a user name or password"),
        ("ext::sh -c touch% x", {}, "there is no folder"),
        ("ftp://example.org/x", {}, "not ftp"),
        ("{repository}", {"ref": "absent"}, "git says: "),
        ("{repository}/docs", {}, "git says: "),
        ("{repository}/absent", {}, "there is no folder"),
    ],
)
def test_what_is_no_repository_is_wrong_input(
    repository: Path, path: str, options: dict[str, Any], words: str
) -> None:
    source = Source(reader="git", path=path.format(repository=repository), options=options)
    with pytest.raises(InputError, match=words) as error:
        bodies(source)
    assert "secret" not in str(error.value)


def test_a_ref_is_no_option_of_git(repository: Path) -> None:
    with pytest.raises(ValueError, match="ref"):
        Source(reader="git", path=str(repository), options={"ref": "--upload-pack=touch x"})


# -------------------------------------------------------------------------------------------- buckets


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with s3_server() as server:
        yield server


@pytest.fixture
def bucket(server: Server, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    keys = {
        "aws_access_key_id": KEYS["AWS_ACCESS_KEY_ID"],
        "aws_secret_access_key": KEYS["AWS_SECRET_ACCESS_KEY"],
    }
    client = boto3.client("s3", endpoint_url=server.address, region_name=KEYS["AWS_REGION"], **keys)
    url = server.bucket()

    class Objects:
        address = url

        def put(self, key: str, text: str) -> None:
            client.put_object(Bucket=url.removeprefix("s3://"), Key=key, Body=text.encode())

        def delete(self, key: str) -> None:
            client.delete_object(Bucket=url.removeprefix("s3://"), Key=key)

    return Objects()


def test_a_bucket_is_read_and_only_changed_objects_are_fetched(
    bucket: Any, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[str] = []
    download = RemoteStore.download

    def counting(self: RemoteStore, path: str, *more: Any) -> bool:
        fetched.append(path)
        return download(self, path, *more)

    monkeypatch.setattr(RemoteStore, "download", counting)
    bucket.put("handbook/a.txt", WORDS)
    bucket.put("handbook/sub/b.csv", f"text,id\n{WORDS},one\n")
    bucket.put("handbook/c.txt", "x" * 5000)
    bucket.put("handbook/.hidden.txt", WORDS)
    bucket.put("elsewhere/d.txt", WORDS)
    source = Source(reader="bucket", path=f"{bucket.address}/handbook", limits={"page_bytes": 2000})
    first = crawl(home, "handbook", source, print)
    assert (first["new"], first["failed"]) == (2, '{"larger than 2000 bytes":1}')
    assert fetched == ["a.txt", "sub/b.csv"]
    fetched.clear()
    assert crawl(home, "handbook", source, print)["unchanged"] == 2
    assert fetched == []
    bucket.put("handbook/a.txt", f"{WORDS} Today at one.")
    bucket.delete("handbook/sub/b.csv")
    last = crawl(home, "handbook", source, print)
    assert (last["changed"], last["gone"], fetched) == (1, 1, ["a.txt"])
    assert bodies(source)["a.txt"] == f"{WORDS} Today at one."


def test_a_killed_reading_of_a_bucket_goes_on(
    bucket: Any, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[str] = []
    download = RemoteStore.download

    def stopping(self: RemoteStore, path: str, *more: Any) -> bool:
        fetched.append(path)
        if fetched == ["a.txt", "b.txt", "c.txt"]:
            raise KeyboardInterrupt
        return download(self, path, *more)

    monkeypatch.setattr(RemoteStore, "download", stopping)
    for name in "abcd":
        bucket.put(f"x/{name}.txt", f"{WORDS} {name}")
    source = Source(reader="bucket", path=f"{bucket.address}/x")
    with pytest.raises(KeyboardInterrupt):
        bodies(source)
    (listing,) = home.root.rglob("etags.jsonl")
    assert len(listing.read_text().splitlines()) == 2
    with listing.open("a") as torn:
        torn.write('["c.txt", "')
    fetched.clear()
    assert bodies(source) == {f"{name}.txt": f"{WORDS} {name}" for name in "abcd"}
    assert fetched == ["c.txt", "d.txt"]


def test_a_bucket_that_is_empty_absent_or_misnamed_is_wrong_input(bucket: Any) -> None:
    for path, words in (
        (f"{bucket.address}/none", "there are no objects at"),
        ("https://example.org/x", "a bucket has an address such as"),
        ("docs", "a bucket has an address such as"),
        ("s3://name:secret@bucket/x", "path: the URL holds a name, a password or a query"),
    ):
        with pytest.raises(InputError, match=words):
            bodies(Source(reader="bucket", path=path))


def test_object_names_that_are_no_files_are_reasons(bucket: Any) -> None:
    bucket.put("x/good.txt", WORDS)
    bucket.put(f"x/{'n' * 250}.txt", WORDS)
    bucket.put("x/good.txt/below.txt", WORDS)
    found = bodies(Source(reader="bucket", path=f"{bucket.address}/x"))
    assert found["good.txt"] == WORDS
    assert found[f"{'n' * 250}.txt"] == "(cannot be read: its key is not a valid file name)"
    assert found["good.txt/below.txt"].startswith("(cannot be read: ")
    assert not any(os.sep + "home" in url for url in found)


def test_git_connects_by_the_users_own_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path))
    monkeypatch.setenv("GIT_SSH_COMMAND", "sh -c 'echo by our own key >&2; exit 1'")
    source = Source(reader="git", path="ssh://host.invalid/handbook.git")
    with pytest.raises(InputError, match="by our own key"):
        bodies(source)
    # In another session than ours there is no terminal on which ssh could ask for a host key.
    saying = "import os, sys; sys.exit(f'session {os.getsid(0)}')"
    monkeypatch.setenv("GIT_SSH_COMMAND", f'"{sys.executable}" -c "{saying}"')
    with pytest.raises(InputError, match=r"session \d+") as error:
        bodies(source)
    assert int(str(error.value).split()[-1]) != os.getsid(0)
