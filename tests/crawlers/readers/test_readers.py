"""Readers over real files, and what they leave in the store."""

import gzip
import json
import os

import pytest

from rag_assay.crawlers.crawl import crawl
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.pages import manifest_digest, read_body, read_manifest
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.source import Source
from rag_assay.warehouse.source_kinds import READERS
from tests.fakes.crawling import crawling

LINES = [
    {"_id": "1", "title": "Cells", "text": "They divide."},
    {"_id": "2", "text": "No title"},
    {"_id": 3, "title": "", "text": "Número"},
]


def read(kind, path, **limits):
    source = Source.model_validate({"reader": kind, "path": str(path), "limits": limits})
    return {page.url: page for page in READERS[kind]().read(source)}


def corpus(folder, *lines, packed=False):
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines).encode()
    name = "corpus.jsonl.gz" if packed else "corpus.jsonl"
    (folder / name).write_bytes(gzip.compress(text) if packed else text)
    return folder


@pytest.mark.parametrize("packed", [False, True])
def test_beir_passages(tmp_path, packed):
    pages = read("beir", corpus(tmp_path, *LINES, packed=packed))
    assert list(pages) == ["beir:1", "beir:2", "beir:3"]
    assert pages["beir:3"].body == '{"text":"Número","title":""}'.encode()
    assert pages["beir:3"].fields == {"id": "3"}
    assert pages["beir:1"].content_type == "application/x-beir+json"


def test_beir_lines_that_are_no_passages(tmp_path):
    lines = ["{broken", '"text"', {"text": "no id"}, LINES[0], LINES[0], {"_id": "9", "text": " "}, ""]
    pages = read("beir", corpus(tmp_path, *lines))
    assert {url: page.reason for url, page in pages.items()} == {
        "corpus.jsonl:1": "not a passage: JSONDecodeError",
        "corpus.jsonl:2": "not a passage: TypeError",
        "corpus.jsonl:3": "not a passage: KeyError",
        "beir:1": None,
        "corpus.jsonl:5": "repeated _id",
        "beir:9": "empty passage",
    }


def test_beir_without_a_corpus(tmp_path):
    with pytest.raises(InputError, match=r"^path: the BEIR folder .*missing does not exist"):
        read("beir", tmp_path / "missing")
    with pytest.raises(InputError, match=r"^path: the BEIR folder .* has no corpus.jsonl or corpus.jsonl.gz"):
        read("beir", tmp_path)
    with pytest.raises(InputError, match=r"^path: .* holds no passage"):
        read("beir", corpus(tmp_path))
    (tmp_path / "torn.gz").write_bytes(gzip.compress(b'{"_id": "1", "text": "x"}\n' * 500)[:-20])
    with pytest.raises(InputError, match="Is the file whole"):
        read("beir", tmp_path / "torn.gz")


@pytest.fixture
def documents(tmp_path):
    root = tmp_path / "docs"
    (root / "sub" / ".git").mkdir(parents=True)
    (root / "a page.html").write_bytes("<p>Köln</p>".encode("cp1252"))
    (root / "sub" / "b.HTM").write_text("<p>b</p>")
    (root / "sub" / "notes.md").write_text("# N")
    (root / "plain.txt").write_text("t")
    (root / "paper.pdf").write_bytes(b"%PDF-1.4 x")
    (root / ".hidden.txt").write_text("x")
    (root / "sub" / ".git" / "x.txt").write_text("x")
    return root


def test_folder_files(documents):
    os.utime(documents / "plain.txt", (0, 0))
    pages = read("folder", documents)
    assert {url: page.content_type for url, page in pages.items()} == {
        "a page.html": "text/html",
        "paper.pdf": "application/pdf",
        "plain.txt": "text/plain",
        "sub/b.HTM": "text/html",
        "sub/notes.md": "text/markdown",
    }
    assert pages["a page.html"].fields == {"encoding": "cp1252"}
    assert pages["a page.html"].status is None
    assert pages["plain.txt"].last_modified == "Thu, 01 Jan 1970 00:00:00 GMT"


def test_folder_files_that_cannot_be_used(documents):
    (documents / "table.docx").write_bytes(b"x")
    (documents / "old.odt").write_bytes(b"x")
    (documents / "README").write_bytes(b"x")
    (documents / "empty.txt").touch()
    (documents / "wrong.pdf").write_bytes(b"<html>")
    (documents / "big.txt").write_bytes(b"x" * 2000)
    (documents / "broken.txt").symlink_to("nowhere")
    os.mkfifo(documents / "pipe.txt")
    (documents / os.fsdecode(b"m\xfcll.txt")).write_text("x")
    pages = read("folder", documents, page_bytes=1024)
    assert {url: page.reason for url, page in pages.items() if page.reason} == {
        "table.docx": "not a DOCX file",
        "old.odt": "not an ODT file",
        "README": "unsupported file type: none",
        "empty.txt": "empty file",
        "wrong.pdf": "not a PDF file",
        "big.txt": "larger than 1024 bytes",
        "broken.txt": "cannot be read: No such file or directory",
        "pipe.txt": "cannot be read: not a regular file",
        "m\\xfcll.txt": "the file's name is not UTF-8",
    }


def test_folder_missing_or_empty(tmp_path):
    with pytest.raises(InputError, match=r"^path: the folder .*missing does not exist"):
        read("folder", tmp_path / "missing")
    with pytest.raises(InputError, match=r"^path: the folder .* holds no file"):
        read("folder", tmp_path)


def test_reading_again_sees_what_was_changed_and_removed(documents, tmp_path):
    home = Home(tmp_path / "home")
    source = Source(reader="folder", path=str(documents))
    first = crawl(home, "docs", source, print)
    version = manifest_digest(read_manifest(home, "docs"))
    assert (first["new"], first["requests"], first["outcome"]) == (5, 5, "finished")
    again = crawl(home, "docs", source, print)
    assert (again["new"], again["unchanged"]) == (0, 5)
    assert manifest_digest(read_manifest(home, "docs")) == version
    (documents / "plain.txt").write_text("changed")
    (documents / "paper.pdf").unlink()
    third = crawl(home, "docs", source, print)
    assert (third["changed"], third["unchanged"]) == (1, 3)
    manifest = read_manifest(home, "docs")
    assert "paper.pdf" not in manifest["url"].to_list()
    changed = manifest.filter(url="plain.txt")["sha256"][0]
    assert read_body(home, changed) == b"changed"


def test_a_limit_of_pages_says_so_and_what_it_cuts_off_is_no_page_of_the_source(documents, tmp_path):
    home = Home(tmp_path / "home")
    crawl(home, "docs", Source(reader="folder", path=str(documents)), print)
    few = Source.model_validate({"reader": "folder", "path": str(documents), "limits": {"pages": 2}})
    row = crawl(home, "docs", few, print)
    assert (row["outcome"], row["unchanged"], row["gone"]) == ("limit: 2 pages", 2, 3)
    assert read_manifest(home, "docs").height == 2


def test_as_a_command(tmp_path):
    source = crawling(tmp_path, "passages", reader="beir", path=str(corpus(tmp_path, *LINES, "{broken")))
    row = source.run()
    assert row["stdout"] == (
        "passages: finished; 3 new, 0 changed, 0 unchanged, 1 failed (1 not a passage: JSONDecodeError); "
        f"4 requests, {row['bytes']} bytes\n"
    )
