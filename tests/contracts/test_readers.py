"""What every reader keeps to (`crawlers.readers.contract`), and proof that a broken one is noticed."""

from __future__ import annotations

import json
import random
import zipfile
from collections.abc import Callable, Iterator
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import ClassVar

import docx
import openpyxl
import pptx
import pytest
from pydantic import ValidationError

from rag_assay.crawlers.items import Page
from rag_assay.crawlers.readers.contract import Reader
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.source import Source
from rag_assay.warehouse.source_kinds import READERS
from tests.assets.cleaning.pdf_writer import Sheet, pdf

WORDS = "The ferry leaves the harbour at noon."


def saved(document: object) -> bytes:
    out = BytesIO()
    document.save(out)  # type: ignore[attr-defined]
    return out.getvalue()


def a_docx() -> bytes:
    found = docx.Document()
    found.add_paragraph(WORDS)
    return saved(found)


def a_pptx() -> bytes:
    show = pptx.Presentation()
    slide = show.slides.add_slide(show.slide_layouts[0])
    slide.shapes.title.text = WORDS
    return saved(show)


def an_xlsx() -> bytes:
    book = openpyxl.Workbook()
    book.active.append(["text"])
    book.active.append([WORDS])
    return saved(book)


def an_epub() -> bytes:
    out = BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("mimetype", "application/epub+zip")
        archive.writestr("META-INF/container.xml", "<container/>")
    return out.getvalue()


def a_pdf() -> bytes:
    sheet = Sheet()
    sheet.put(50, 700, WORDS, 12)
    return pdf(sheet)


def a_warc() -> bytes:
    body = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>{WORDS}</p>".encode()
    head = (
        "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: https://a.example/{}\r\n"
        "WARC-Date: 2024-05-06T07:08:09Z\r\nContent-Length: {}\r\n\r\n"
    )
    return b"".join(head.format(n, len(body)).encode() + body + b"\r\n\r\n" for n in range(2))


def beir_corpus() -> bytes:
    return b"".join(json.dumps({"_id": str(n), "text": WORDS}).encode() + b"\n" for n in range(2))


# Of each kind: the file that holds something, and what it holds.
GOOD: dict[str, tuple[str, Callable[[], bytes]]] = {
    "beir": ("corpus.jsonl", beir_corpus),
    "docx": ("b.docx", a_docx),
    "epub": ("b.epub", an_epub),
    "folder": ("b.txt", WORDS.encode),
    "html": ("b.html", f"<p>{WORDS}</p>".encode),
    "jsonl": ("b.jsonl", f'"{WORDS}"\n"again"\n'.encode),
    "pdf": ("b.pdf", a_pdf),
    "pptx": ("b.pptx", a_pptx),
    "rst": ("b.rst", WORDS.encode),
    "table": ("b.csv", f"text\n{WORDS}\nagain\n".encode),
    "text": ("b.txt", WORDS.encode),
    "warc": ("b.warc", a_warc),
    "xlsx": ("b.xlsx", an_xlsx),
}


def check(reader: Reader, kind: str, folder: Path) -> None:
    """Hold a reader to the contract, on a folder that it is to fill."""
    name, content = GOOD[kind]
    source = Source(reader=kind, path=str(folder))
    missing = source.model_copy(update={"path": str(folder / "absent")})
    for wrong in (missing, source):
        folder.mkdir(exist_ok=True)
        with pytest.raises(InputError):
            list(reader.read(wrong))
    (folder / name).write_bytes(content())
    if kind != "beir":  # whose folder has one file
        (folder / f"a{Path(name).suffix}").write_bytes(b"")
        (folder / f"c{Path(name).suffix}").write_bytes(content())
    pages = list(reader.read(source))
    assert any(page.body for page in pages), "something can be read"
    if kind != "warc":  # the first answer of a URL counts, whichever file it is in
        urls = [page.url for page in pages]
        assert len(set(urls)) == len(urls), "two pages have one URL"
    assert all((page.body is None) == bool(page.reason) for page in pages)
    again = list(reader.read(source))
    assert [(page.url, page.body, page.reason) for page in again] == [
        (page.url, page.body, page.reason) for page in pages
    ], "the same files give the same pages, in the same order"
    if kind not in {"beir", "warc"}:
        names = {page.url: page.url.partition("://")[2].rpartition("/")[2] or page.url for page in pages}
        last = [page for page in pages if names[page.url].partition(".")[0] == "c"]
        assert any(page.body for page in last), "what follows a file that cannot be read is read"


# What lies elsewhere has no folder that a test could fill: tests/crawlers/readers/test_remote_readers.py.
REMOTE = {"bucket", "git"}


@pytest.mark.parametrize("kind", [kind for kind in READERS.built_in if kind not in REMOTE])
def test_a_reader_keeps_to_the_contract(kind: str, tmp_path: Path) -> None:
    check(READERS[kind](), kind, tmp_path / "files")


@pytest.mark.parametrize("kind", READERS.built_in)
def test_a_reader_refuses_options_that_it_has_not(kind: str, tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match=r"options\.colour"):
        Source.model_validate({"reader": kind, "path": str(tmp_path), "options": {"colour": "red"}})


class Sound(Reader):
    """A good reader of text files, which others break."""

    kind: ClassVar[str] = "text"

    def read(self, source: Source) -> Iterator[Page]:
        files = sorted(Path(source.path or "").glob("*.txt"))
        if not files:
            raise InputError("no text file")
        for file in files:
            body = file.read_bytes()
            if body:
                yield Page(file.name, file.name, body=body)
            else:
                yield Page(file.name, file.name, reason="empty file")


class Same(Sound):
    def read(self, source: Source) -> Iterator[Page]:
        yield from (Page("file", "file", body=page.body, reason=page.reason) for page in super().read(source))


class Fragile(Sound):
    def read(self, source: Source) -> Iterator[Page]:
        for page in super().read(source):
            if page.body is None:
                raise ValueError(page.reason)
            yield page


class Silent(Sound):
    def read(self, source: Source) -> Iterator[Page]:
        try:
            yield from super().read(source)
        except InputError:
            return


class Moody(Sound):
    turns: ClassVar[Iterator[int]] = count()

    def read(self, source: Source) -> Iterator[Page]:
        pages = list(super().read(source))
        random.Random(next(self.turns)).shuffle(pages)
        yield from pages


class Impatient(Sound):
    def read(self, source: Source) -> Iterator[Page]:
        for page in super().read(source):
            yield page
            if page.body is not None:
                return


class Blind(Sound):
    def read(self, source: Source) -> Iterator[Page]:
        yield from (Page(page.url, page.url, reason="unreadable") for page in super().read(source))


def test_a_sound_reader_passes(tmp_path: Path) -> None:
    check(Sound(), "text", tmp_path / "files")


@pytest.mark.parametrize("broken", [Same, Fragile, Silent, Moody, Impatient, Blind])
def test_a_broken_reader_is_noticed(broken: type[Reader], tmp_path: Path) -> None:
    with pytest.raises((AssertionError, ValueError, pytest.fail.Exception)):
        check(broken(), "text", tmp_path / "files")
