"""Office files, books and RST: what is kept of them, and why some are not taken."""

from __future__ import annotations

import json
import re
import warnings
import zipfile
from datetime import UTC, datetime
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import docx
import openpyxl
import pptx
import pytest
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls
from pptx.chart.data import CategoryChartData, XyChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

from rag_assay.assets.cleaning.batches import Cleaning, Known
from rag_assay.assets.cleaning.office import clean_pptx
from rag_assay.assets.cleaning.text_files import clean_rst
from rag_assay.crawlers.crawl import crawl
from rag_assay.warehouse.office_packages import KINDS, MAX_UNPACKED, VARIANTS
from rag_assay.warehouse.pages import read_manifest
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.source import Source
from rag_assay.warehouse.source_kinds import READERS

STORY = "The harbour office opens at seven in the morning, and a mooring costs twelve pounds a night."
DOT = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010800000000"
    "3a7e9b550000000a49444154789c6360000000020001e221bc330000000049454e44ae426082"
)
"""A picture of one black dot (PNG)."""
DAY = datetime(2024, 5, 6, 7, 8, 9)  # noqa: DTZ001 -- Office files know no time zones
CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="OEBPS/book.opf"/></rootfiles></container>'
)


def word_file(**said: Any) -> Any:
    document = docx.Document()
    for name, value in ({"title": "Rules", "author": "Ada Pilot; Ben Quay", "created": DAY} | said).items():
        setattr(document.core_properties, name, value)
    return document


def saved(document: Any) -> bytes:
    out = BytesIO()
    document.save(out)
    return out.getvalue()


def a_docx() -> bytes:
    document = word_file(keywords="harbour, fees", language="en-GB")
    document.add_paragraph("Harbour rules", style="Title")
    document.add_heading("Moorings", 1)
    document.add_paragraph(STORY)
    document.add_heading("In winter", 3)
    document.add_paragraph("eight pounds", style="List Bullet")
    table = document.add_table(2, 2)
    for cell, text in zip((c for row in table.rows for c in row.cells), "abcd", strict=True):
        cell.text = text
    document.add_heading("Pilots", 1)
    body = document.element.body
    control = (
        f"<w:sdt {nsdecls('w')}><w:sdtContent><w:p><w:r><w:t>In a control.</w:t></w:r></w:p>"
        "</w:sdtContent></w:sdt>"
    )
    changed = (
        f"<w:p {nsdecls('w')}><w:ins w:id='1'><w:r><w:t>Inserted.</w:t></w:r></w:ins>"
        "<w:del w:id='2'><w:r><w:delText>Deleted.</w:delText></w:r></w:del></w:p>"
    )
    for xml in (control, changed):
        body.insert(len(body) - 1, parse_xml(xml))
    return saved(document)


def an_xlsx() -> bytes:
    book = openpyxl.Workbook()
    book.properties.title, book.properties.creator, book.properties.created = "Fees", "Ada Pilot", DAY
    book.active.title = "Summer"
    for row in (
        ["berth", "pounds", "from"],
        ["north quay of the old harbour", 12.0, DAY],
        [],
        ["south", "=6*2"],
    ):
        book.active.append(row)
    book.create_sheet("Nothing")
    book.create_sheet("Winter").append(["north", 8, None, None])
    return saved(book)


def a_pptx() -> bytes:
    show = pptx.Presentation()
    show.core_properties.author, show.core_properties.title = "Ada Pilot", "PowerPoint Presentation"
    slide = show.slides.add_slide(show.slide_layouts[1])
    slide.shapes.title.text, slide.placeholders[1].text = "Moorings", STORY
    slide.notes_slide.notes_text_frame.text = "Say that it was cheaper."
    empty = show.slides.add_slide(show.slide_layouts[6])
    group = empty.shapes.add_group_shape()
    group.shapes.add_textbox(0, 0, 9, 9).text_frame.text = "Within a group"
    table = empty.shapes.add_table(1, 2, 0, 0, 9, 9).table
    table.cell(0, 0).text, table.cell(0, 1).text = "a", "b"
    return saved(show)


def zipped(parts: dict[str, str]) -> bytes:
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return out.getvalue()


def an_epub(**more: str) -> bytes:
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/">'
        "<dc:title>The Harbour</dc:title><dc:creator>Ada Pilot</dc:creator><dc:creator>Ben Quay</dc:creator>"
        "<dc:date>2024-05-06</dc:date><dc:language>en-GB</dc:language><dc:subject>sea</dc:subject></metadata>"
        '<manifest><item id="b" href="two.xhtml" media-type="application/xhtml+xml"/>'
        '<item id="a" href="part%201.xhtml" media-type="application/xhtml+xml"/>'
        '<item id="i" href="i.png" media-type="image/png"/></manifest>'
        '<spine><itemref idref="a"/><itemref idref="i"/><itemref idref="b"/></spine></package>'
    )
    page = '<?xml version="1.0" encoding="utf-8"?><html xmlns="http://www.w3.org/1999/xhtml"><body>{}</body></html>'
    return zipped(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": CONTAINER,
            "OEBPS/book.opf": package,
            "OEBPS/two.xhtml": page.format("<h1>Pilots</h1><p>They report by radio.</p>"),
            "OEBPS/part 1.xhtml": page.format(f"<h1>Moorings</h1><p>{STORY}</p><h3>Größe</h3><p>Ten m.</p>"),
            **more,
        }
    )


RST = f"""\
=============
Harbour rules
=============

:Author: Ada Pilot
:Date: 2024-05-06

Moorings
--------

{STORY}

.. code-block:: python

    Not a heading
    -------------

`Winter <https://a.example/>`_
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~

A paragraph of two lines,
the second over a transition

----------

Pilots
------

They report.
"""
FILES = {
    "a.docx": a_docx,
    "a.xlsx": an_xlsx,
    "a.pptx": a_pptx,
    "a.epub": an_epub,
    "a.rst": RST.encode,
}


def read(folder: Path, kind: str, home: Home) -> tuple[dict[str, Any], dict[str, str]]:
    """URL -> document, and URL -> why there is none, in reading or in cleaning."""
    crawl(home, kind, Source(reader=kind, path=str(folder)), print)  # type: ignore[arg-type]
    manifest = read_manifest(home, kind)
    batches = list(
        Cleaning(kind, home, None, home.root / "parts" / kind).run(manifest, Known(), lambda *_: None)
    )
    documents = {row["url"]: row for batch in batches for row in batch.documents.iter_rows(named=True)}
    failed = dict(manifest.filter(manifest["reason"].is_not_null()).select("url", "reason").iter_rows())
    dropped = {url: why for b in batches for url, why in b.dropped.select("url", "reason").iter_rows()}
    return documents, failed | dropped


def sections(document: dict[str, Any]) -> list[tuple[int, str]]:
    for one in document["sections"]:
        assert document["text"][one["start"] : one["end"]].lstrip("= \n").startswith(one["heading"][:5])
    return [(one["level"], one["heading"]) for one in document["sections"]]


@pytest.mark.parametrize("name", FILES)
def test_each_kind_has_a_reader_of_its_own_and_is_read_in_a_folder(tmp_path: Path, name: str) -> None:
    folder, home = tmp_path / "docs", Home(tmp_path / "home")
    folder.mkdir()
    (folder / name).write_bytes(FILES[name]())
    kind = name.partition(".")[2]
    assert kind in READERS
    own, _ = read(folder, kind, home)
    mixed, why = read(folder, "folder", home)
    assert own[name]["text"] == mixed[name]["text"]
    assert STORY in own[name]["text"] or kind == "xlsx"
    assert not why
    assert own[name]["authors"][0] == "Ada Pilot"
    if kind != "pptx":
        assert own[name]["published_at"] == "2024-05-06"
        assert json.loads(own[name]["metadata"])["date_source"] == "file"


@pytest.mark.parametrize("variant", VARIANTS)
def test_files_with_macros_templates_and_shows_are_read_as_the_plain_kind(
    tmp_path: Path, variant: str
) -> None:
    suffix = VARIANTS[variant]
    word = {".docx": "word.document", ".pptx": "powerpoint.presentation", ".xlsx": "excel.sheet"}[suffix]
    named = (
        f"{KINDS[suffix].media_type.rpartition('.')[0]}.{'slideshow' if 's' in variant[3:] else 'template'}"
    )
    kind = f"application/vnd.ms-{word}.macroEnabled" if variant.endswith("m") else named
    plain = FILES[f"a{suffix}"]()
    types = zipfile.ZipFile(BytesIO(plain)).read("[Content_Types].xml")
    told = types.replace(f"{KINDS[suffix].media_type}.main+xml".encode(), f"{kind}.main+xml".encode())
    assert told != types
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / f"a{suffix}").write_bytes(plain)
    (folder / f"b{variant}").write_bytes(with_part(plain, "[Content_Types].xml", told))
    found, why = read(folder, "folder", Home(tmp_path / "home"))
    assert not why
    assert found[f"b{variant}"]["text"] == found[f"a{suffix}"]["text"]


def test_a_workbook_with_an_impossible_date_gives_no_warning_of_a_library(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    body = an_xlsx()
    sheet = zipfile.ZipFile(BytesIO(body)).read("xl/worksheets/sheet1.xml")
    odd = re.sub(
        rb'(<c r="C2"[^>]*><v>)[^<]*|(<c r="C2"[^>]*)t="d"[^>]*><v>[^<]*', rb"\g<1>2994626999", sheet
    )
    assert odd != sheet
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.xlsx").write_bytes(with_part(body, "xl/worksheets/sheet1.xml", odd))
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        found, why = read(folder, "folder", Home(tmp_path / "home"))
    assert (len(found), why, [str(one.message) for one in shown]) == (1, {}, [])
    assert "Warning" not in capfd.readouterr().err


def test_a_word_document(tmp_path: Path) -> None:
    (tmp_path / "a.docx").write_bytes(a_docx())
    found, _ = read(tmp_path, "docx", Home(tmp_path / "home"))
    document = found["a.docx"]
    assert (document["title"], document["authors"]) == ("Rules", ["Ada Pilot", "Ben Quay"])
    assert (document["language"], document["keywords"]) == ("en", ["harbour", "fees"])
    assert sections(document) == [(1, "Moorings"), (2, "In winter"), (1, "Pilots")]
    assert "- eight pounds\n\na | b\n\nc | d\n\nPilots\n\nIn a control.\n\nInserted." in document["text"]
    assert "Deleted" not in document["text"]


def test_notes_stand_below_what_refers_to_them(tmp_path: Path) -> None:
    rel = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/footnotes"
    space = nsdecls("w")
    notes = (
        f"<w:footnotes {space}><w:footnote w:id='3'><w:p><w:r><w:t>Since 1901.</w:t></w:r></w:p>"
        "</w:footnote></w:footnotes>"
    )
    document = word_file()
    paragraph = document.add_paragraph(STORY)
    paragraph._p.append(parse_xml(f"<w:r {space}><w:footnoteReference w:id='3'/></w:r>"))
    from docx.opc.packuri import PackURI
    from docx.opc.part import Part

    part = Part(PackURI("/word/footnotes.xml"), "application/xml", notes.encode(), document.part.package)
    document.part.relate_to(part, rel)
    (tmp_path / "a.docx").write_bytes(saved(document))
    found, _ = read(tmp_path, "docx", Home(tmp_path / "home"))
    assert found["a.docx"]["text"] == f"{STORY}\n\nSince 1901."


def test_a_workbook(tmp_path: Path) -> None:
    (tmp_path / "a.xlsx").write_bytes(an_xlsx())
    found, _ = read(tmp_path, "xlsx", Home(tmp_path / "home"))
    document = found["a.xlsx"]
    assert sections(document) == [(1, "Summer"), (1, "Winter")]
    assert document["text"] == (
        "Summer\n\nberth | pounds | from\nnorth quay of the old harbour | 12 | 2024-05-06T07:08:09\n"
        "south | =6*2\n\nWinter\n\nnorth | 8"
    )


def test_a_presentation(tmp_path: Path) -> None:
    (tmp_path / "a.pptx").write_bytes(a_pptx())
    found, _ = read(tmp_path, "pptx", Home(tmp_path / "home"))
    document = found["a.pptx"]
    assert document["title"] == "Moorings", "what the program wrote is no title"
    assert sections(document) == [(1, "Moorings"), (1, "Slide 2")]
    assert document["text"].endswith("Say that it was cheaper.\n\nSlide 2\n\nWithin a group\n\na | b")
    assert document["published_at"] is None, "the day of the template is nobody's"


def test_a_book(tmp_path: Path) -> None:
    (tmp_path / "a.epub").write_bytes(an_epub())
    found, _ = read(tmp_path, "epub", Home(tmp_path / "home"))
    document = found["a.epub"]
    assert (document["title"], document["authors"]) == ("The Harbour", ["Ada Pilot", "Ben Quay"])
    assert (document["language"], document["keywords"]) == ("en", ["sea"])
    assert sections(document) == [(1, "Moorings"), (2, "Größe"), (1, "Pilots")]
    assert document["text"].index("Moorings") < document["text"].index("They report by radio.")


def test_restructured_text() -> None:
    draft = clean_rst(RST.encode(), "text/x-rst")
    assert draft.text == RST.strip(), "as it is written"
    assert [(one["level"], one["heading"]) for one in draft.sections] == [
        (1, "Harbour rules"),
        (2, "Moorings"),
        (3, "Winter"),
        (2, "Pilots"),
    ]
    assert (draft.title, draft.authors, draft.published_at) == ("Harbour rules", ("Ada Pilot",), "2024-05-06")


# ------------------------------------------------------------------------------------------- reasons


@cache
def powder() -> bytes:
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for number in range(MAX_UNPACKED // 10_000_000 + 1):
            archive.writestr(f"{number}.bin", bytes(10_000_000))
    return out.getvalue()


def bomb(kind: str) -> bytes:
    """A few kilobytes that declare more than may be unpacked: 10 MB, listed many times over."""
    out = BytesIO(powder())
    with zipfile.ZipFile(out, "a") as archive:
        archive.writestr(KINDS[f".{kind}"].part, "<x/>")
    return out.getvalue()


def with_part(body: bytes, name: str, text: bytes) -> bytes:
    """The same package with one part replaced."""
    out = BytesIO()
    with zipfile.ZipFile(BytesIO(body)) as old, zipfile.ZipFile(out, "w") as new:
        for part in old.namelist():
            new.writestr(part, text if part == name else old.read(part))
    return out.getvalue()


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        ("docx", "word/document.xml"),
        ("xlsx", "xl/workbook.xml"),
        ("pptx", "ppt/presentation.xml"),
        ("epub", "OEBPS/book.opf"),
    ],
)
def test_what_cannot_be_used_has_its_reason(tmp_path: Path, kind: str, part: str) -> None:
    good = FILES[f"a.{kind}"]()
    lol = b'<!DOCTYPE x [<!ENTITY a "lol"><!ENTITY b "&a;&a;&a;">]><x>&b;</x>'
    files = {
        "cut": good[: len(good) // 2],
        "old": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600),
        "none": b"<html>",
        "other": zipped({"readme.txt": "a zip of something else"}),
        "empty": b"",
        "bomb": bomb(kind),
        "entities": with_part(good, part, lol),
        "wide": with_part(good, part, b"\xff\xfe" + lol.decode().encode("utf-16-le")),
        "torn": with_part(good, part, b"<x>"),
    }
    folder = tmp_path / "docs"
    folder.mkdir()
    for name, body in files.items():
        (folder / f"{name}.{kind}").write_bytes(body)
    found, reasons = read(folder, kind, Home(tmp_path / "home"))
    assert not found
    told = {
        "cut": "truncated or damaged",
        "old": "encrypted, or of an Office before 2007",
        "none": f"{kind.upper()} file",
        "other": "it has no ",
        "empty": "empty file",
        "bomb": "unpacks to more than",
        "entities": "declares XML entities",
        "wide": "declares XML entities",
        "torn": "",
    }
    assert reasons.keys() == {f"{name}.{kind}" for name in told}
    for name, why in told.items():
        assert why in reasons[f"{name}.{kind}"], name
    _, again = read(folder, "folder", Home(tmp_path / "home"))
    assert again.keys() == reasons.keys(), "of a folder nothing is silent, either"


def test_books_that_are_locked_or_lack_a_chapter(tmp_path: Path) -> None:
    locked = "<encryption><CipherReference URI='OEBPS/two.xhtml'/></encryption>"
    (tmp_path / "locked.epub").write_bytes(an_epub(**{"META-INF/encryption.xml": locked}))
    (tmp_path / "lacks.epub").write_bytes(an_epub().replace(b"two.xhtml", b"six.xhtml", 1))
    found, why = read(tmp_path, "epub", Home(tmp_path / "home"))
    assert "DRM" in why["locked.epub"]
    assert "lacks.epub" in why
    assert not found


def test_a_sheet_that_says_it_is_endless(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.active["A1"] = "the first of all the words here"
    book.active["XFD1048576"] = "the last one"
    (tmp_path / "a.xlsx").write_bytes(saved(book))
    found, _ = read(tmp_path, "xlsx", Home(tmp_path / "home"))
    assert found["a.xlsx"]["text"].startswith("Sheet\n\nthe first of all the words here\n")
    assert found["a.xlsx"]["text"].endswith("the last one")


def test_the_time_of_now_is_not_taken_from_templates() -> None:
    assert saved(docx.Document())
    assert docx.Document().core_properties.created < datetime(2014, 1, 1, tzinfo=UTC)


def test_charts_and_described_pictures_of_slides_are_text_and_counted() -> None:
    show = pptx.Presentation()
    slide = show.slides.add_slide(show.slide_layouts[6])
    data = CategoryChartData()
    data.categories = ["Monday", "Sunday"]
    data.add_series("Ferries", (12, 3.5))
    data.add_series("Berths", (40, None))
    where = (Inches(1), Inches(1), Inches(4), Inches(3))
    chart = slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, *where, data).chart
    chart.has_title = True
    chart.chart_title.text_frame.text = "Traffic by day"
    points = XyChartData()
    points.add_series("Tide").add_data_point(1, 2.5)
    slide.shapes.add_chart(XL_CHART_TYPE.XY_SCATTER, *where, points)
    body = BytesIO()
    show.save(body)
    unknown = _replaced(body.getvalue(), b"barChart", b"area3DChart")  # a type that python-pptx does not know
    assert "Monday | 12 | 40" in clean_pptx(unknown).text
    for description in ("A map of the quays", "image1.png"):
        picture = slide.shapes.add_picture(BytesIO(DOT), *where)
        picture._element._nvXxPr.cNvPr.set("descr", description)
    body = BytesIO()
    show.save(body)
    draft = clean_pptx(body.getvalue())
    assert "Traffic by day" in draft.text
    assert " | Ferries | Berths\nMonday | 12 | 40\nSunday | 3.5" in draft.text
    assert "| Tide\n1 | 2.5" in draft.text
    assert "[A map of the quays]" in draft.text
    assert "image1" not in draft.text
    assert draft.metadata["fidelity"] == {"charts": [2, 2], "images": [1, 1]}


def _replaced(package: bytes, old: bytes, new: bytes) -> bytes:
    """Return an Office file in which a word of its charts is another."""
    out = BytesIO()
    with zipfile.ZipFile(BytesIO(package)) as source, zipfile.ZipFile(out, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            target.writestr(name, content.replace(old, new) if "/charts/" in name else content)
    return out.getvalue()
