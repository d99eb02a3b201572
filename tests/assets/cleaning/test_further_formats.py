"""OpenDocument files, mails, notebooks, code, XLS, and data without passages: text, sections, facts."""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Callable
from email.message import EmailMessage
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from rag_assay.assets.cleaning.data_files import clean_json, clean_table
from rag_assay.assets.cleaning.draft import DocumentDraft, UnusablePage
from rag_assay.assets.cleaning.mail import clean_eml, clean_msg
from rag_assay.assets.cleaning.notebooks import clean_notebook
from rag_assay.assets.cleaning.old_workbooks import clean_xls
from rag_assay.assets.cleaning.opendocument import MAX_CELLS, clean_odp, clean_ods, clean_odt
from rag_assay.assets.cleaning.page_cleaner import clean_page
from rag_assay.assets.cleaning.source_code import clean_source
from rag_assay.assets.cleaning.subtitles import clean_subtitles
from rag_assay.assets.cleaning.xml_files import clean_xml
from rag_assay.crawlers.crawl import crawl
from rag_assay.warehouse.pages import read_manifest
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.source import Source
from tests.contracts.test_readers import a_pptx

_SPACES = ["office", "text", "table", "draw", "presentation", "meta", "style"]
_ODF = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{"drawing" if name == "draw" else name}:1.0"'
    for name in _SPACES
)
_META = (
    f'<office:document-meta {_ODF} xmlns:dc="http://purl.org/dc/elements/1.1/"><office:meta>'
    "<dc:title>Harbour rules</dc:title><meta:initial-creator>Ann Lee</meta:initial-creator>"
    "<meta:creation-date>2024-05-06T07:08:09</meta:creation-date><meta:keyword>ferry</meta:keyword>"
    "<dc:language>en-GB</dc:language></office:meta></office:document-meta>"
)


def odf(kind: str, body: str, **parts: str) -> bytes:
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", f"application/vnd.oasis.opendocument.{kind}")
        archive.writestr(
            "content.xml",
            f"<office:document-content {_ODF}><office:body><office:{kind}>{body}</office:{kind}>"
            "</office:body></office:document-content>",
        )
        archive.writestr("meta.xml", _META)
        for name, text in parts.items():
            archive.writestr(name.replace("__", "/").replace("_xml", ".xml"), text)
    return out.getvalue()


def sections(draft: DocumentDraft) -> dict[str, str]:
    return {one["heading"]: draft.text[one["start"] : one["end"]] for one in draft.sections}


def reason(clean: Callable[..., DocumentDraft], *arguments: Any) -> str:
    with pytest.raises(UnusablePage) as error:
        clean(*arguments)
    return str(error.value)


# -------------------------------------------------------------------------------------------- OpenDocument

_TEXT = """
<text:tracked-changes><text:p>deleted words</text:p></text:tracked-changes>
<text:h text:outline-level="1">Fees</text:h>
<text:p>Twelve<text:s text:c="2"/>pounds<text:tab/>a <text:span>week</text:span><text:note
><text:note-citation>1</text:note-citation><text:note-body><text:p>In winter six.</text:p></text:note-body
></text:note>.<office:annotation><text:p>a comment</text:p></office:annotation></text:p>
<text:list><text:list-item><text:p>cash</text:p><text:list><text:list-item><text:p>coins</text:p></text:list-item>
</text:list></text:list-item><text:list-item><text:p>card</text:p></text:list-item></text:list>
<text:h text:outline-level="2">Berths</text:h>
<text:section><table:table><table:table-header-rows><table:table-row><table:table-cell><text:p>boat</text:p>
</table:table-cell><table:table-cell><text:p>price</text:p></table:table-cell></table:table-row>
</table:table-header-rows><table:table-row><table:table-cell><text:p>dinghy</text:p></table:table-cell>
<table:table-cell><text:p>3</text:p></table:table-cell></table:table-row></table:table></text:section>
<text:p><draw:frame><draw:text-box><text:p>Boxed words.</text:p></draw:text-box></draw:frame></text:p>
"""


def test_odt() -> None:
    draft = clean_odt(odf("text", _TEXT))
    assert draft.text == (
        "Fees\n\nTwelve  pounds\ta week.\n\nIn winter six.\n\n- cash\n\n  - coins\n\n- card\n\n"
        "Berths\n\nboat | price\ndinghy | 3\n\nBoxed words."
    )
    assert [(one["heading"], one["level"]) for one in draft.sections] == [("Fees", 1), ("Berths", 2)]
    assert sections(draft)["Fees"] == draft.text
    assert (draft.title, draft.published_at, draft.language) == ("Harbour rules", "2024-05-06", "en")
    assert (draft.authors, draft.keywords) == (("Ann Lee",), ("ferry",))


def test_ods_repeats_cells_and_passes_over_a_million_empty_ones() -> None:
    cell = "<table:table-cell><text:p>{}</text:p></table:table-cell>".format
    rows = (
        f'<table:table-row>{cell("boat")}<table:table-cell table:number-columns-repeated="2"/>{cell("price")}'
        '<table:table-cell table:number-columns-repeated="16380"/></table:table-row>'
        '<table:table-row table:number-rows-repeated="1048000"><table:table-cell '
        'table:number-columns-repeated="16384"/></table:table-row>'
        '<table:table-row table:number-rows-repeated="2"><table:table-cell office:value="7" '
        'table:number-columns-repeated="2"/></table:table-row>'
    )
    draft = clean_ods(odf("spreadsheet", f'<table:table table:name="Berths">{rows}</table:table>'))
    assert sections(draft) == {"Berths": "Berths\n\nboat |  |  | price\n7 | 7\n7 | 7"}
    assert draft.metadata["sheets"] == 1


def test_odp() -> None:
    frame = "<draw:frame {}><draw:text-box><text:p>{}</text:p></draw:text-box></draw:frame>".format
    notes = f"<presentation:notes>{frame('', 'Say it slowly.')}</presentation:notes>"
    first = frame('presentation:class="title"', "Fees") + frame("", "Twelve pounds.") + notes
    slides = f"<draw:page>{first}</draw:page><draw:page>{frame('', 'No title here.')}</draw:page>"
    draft = clean_odp(odf("presentation", slides))
    assert sections(draft) == {
        "Fees": "Fees\n\nTwelve pounds.\n\nSay it slowly.",
        "Slide 2": "Slide 2\n\nNo title here.",
    }


def test_hostile_odf_is_a_reason() -> None:
    full = '<table:table-cell table:number-columns-repeated="64"><text:p>x</text:p></table:table-cell>'
    row = f'<table:table-row table:number-rows-repeated="64">{full * 10}</table:table-row>'
    huge = odf("spreadsheet", f"<table:table>{row * (MAX_CELLS // 40_000)}</table:table>")
    assert reason(clean_ods, huge) == f"more than {MAX_CELLS} cells"
    entities = odf("text", "<text:p>x</text:p>", styles_xml='<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>')
    assert reason(clean_odt, entities) == "ODT: it declares XML entities, in styles.xml"
    locked = odf("text", "", **{"META-INF__manifest_xml": "<x><manifest:encryption-data/></x>"})
    assert reason(clean_odt, locked) == "ODT: encrypted: it asks for a password"
    assert reason(clean_odt, odf("spreadsheet", "")) == "ODT: it holds no text"
    assert reason(clean_odt, odf("text", "<text:p/>")) == "no text in the file"
    nested = "<text:list><text:list-item>" * 5000 + "</text:list-item></text:list>" * 5000
    for damaged in ("<text:p>", nested):
        with pytest.raises(etree.XMLSyntaxError):  # a reason, as any error of a parser
            clean_odt(odf("text", damaged))


# -------------------------------------------------------------------------------------------- mails


def test_eml() -> None:
    mail = EmailMessage()
    mail["Subject"] = "Fähre nach Föhr"
    mail["From"] = "Ann Lee <ann@example.org>"
    mail["To"] = "bob@example.org"
    mail["Date"] = "Mon, 06 May 2024 07:08:09 +0000"
    mail.set_content("The ferry leaves at noon.\n\nBring cash.")
    mail.add_alternative("<p>The same as <b>HTML</b></p>", subtype="html")
    mail.add_attachment(b"%PDF-", maintype="application", subtype="pdf", filename="plan.pdf")
    draft = clean_eml(mail.as_bytes())
    assert draft.text == (
        "Fähre nach Föhr\n\nFrom: Ann Lee <ann@example.org>\nTo: bob@example.org\n"
        "Date: Mon, 06 May 2024 07:08:09 +0000\n\nThe ferry leaves at noon.\n\nBring cash."
    )
    assert (draft.title, draft.published_at) == ("Fähre nach Föhr", "2024-05-06")
    assert (draft.authors, draft.metadata["attachments"]) == (("Ann Lee",), "plan.pdf")
    html = b"Subject: x\nContent-Type: text/html\n\n<h1>Fees</h1><p>Twelve pounds.</p>"
    assert clean_eml(html).text == "x\n\nFees\n\nTwelve pounds."
    latin = b"Subject: x\nContent-Type: text/plain; charset=iso-8859-1\n\nF\xe4hre"
    assert clean_eml(latin).text == "x\n\nFähre"


def test_a_broken_mail_is_text_or_a_reason() -> None:
    assert reason(clean_eml, b"\n\nno header") == "not a mail: it has no header"
    nested = b"Content-Type: multipart/mixed; boundary=a\n\n" + b"--a\nContent-Type: text/plain\n\nx\n" * 1200
    assert reason(clean_eml, nested) == "more than 1000 parts"
    deep = b"".join(b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (n, n) for n in range(500))
    assert reason(clean_eml, deep)
    assert reason(clean_msg, b"not an OLE file").startswith("MSG: damaged: ")
    for head in ('"', "<", ".:", "=?utf-8?q?=?x?b?a?=<@[ "):  # at which Python's parser of addresses fails
        mail = f"From: {head}\nto: {head}\nSubject: Fees\n\nTwelve pounds.".encode()
        assert clean_eml(mail).text == f"Fees\n\nFrom: {head.strip()}\nTo: {head.strip()}\n\nTwelve pounds."


# -------------------------------------------------------------------------------------------- notebooks, code


def test_notebook() -> None:
    book = {
        "nbformat": 4,
        "metadata": {"kernelspec": {"language": "julia"}},
        "cells": [
            {"cell_type": "markdown", "source": ["# Tides\n", "When the water is high."]},
            {
                "cell_type": "code",
                "source": "# not a heading\nprint(1)",
                "outputs": [
                    {"output_type": "stream", "text": ["\x1b[31m1\x1b[0m\n"]},
                    {"output_type": "display_data", "data": {"image/png": "iVBORw0KGgo="}},
                    {"output_type": "error", "ename": "ValueError", "evalue": "no tide"},
                ],
            },
            {"cell_type": "markdown", "source": "## Harbours\nThree of them."},
        ],
    }
    draft = clean_notebook(json.dumps(book).encode(), None)
    assert draft.text == (
        "# Tides\nWhen the water is high.\n\n```julia\n# not a heading\nprint(1)\n```\n\n```\n1\n```\n\n"
        "```\nValueError: no tide\n```\n\n## Harbours\nThree of them."
    )
    assert list(sections(draft)) == ["Tides", "Harbours"]
    assert draft.title == "Tides"
    old = {"worksheets": [{"cells": [{"cell_type": "heading", "level": 2, "source": "Old"}]}]}
    assert list(sections(clean_notebook(json.dumps(old).encode(), None))) == ["Old"]
    assert reason(clean_notebook, b"{}", None) == "not a notebook: it has no list of cells"
    assert reason(clean_notebook, b"[" * 100_000, None).startswith("not a notebook: no JSON")


PYTHON = '''"""Tides of a harbour."""

import os


@decorated
class Harbour:
    def tide(self, at):
        if at:
            def inner():
                """def not_one(): pass"""
        return "class Nor(this): pass"


async def main():
    pass
'''


def test_python_code_has_the_sections_of_its_syntax_tree() -> None:
    draft = clean_source(PYTHON.encode(), "text/x-python")
    found = [(one["heading"], one["level"]) for one in draft.sections]
    assert found == [("class Harbour", 1), ("def tide", 2), ("def inner", 3), ("def main", 1)]
    assert sections(draft)["class Harbour"].startswith("@decorated\nclass Harbour:")
    assert sections(draft)["class Harbour"].endswith('pass"')
    assert draft.title == "Tides of a harbour."
    broken = clean_source(b"class A:\n  def f(self:\n", "text/x-python")
    assert [one["heading"] for one in broken.sections] == ["class A", "def f"]


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("export default class Boat extends Ship {\n  constructor() {}\n}\nconst go = async (a) => {\n}", 2),
        ("pub struct Boat {\n}\nimpl Boat {\n    pub fn go(&self) -> u32 {\n    }\n}", 3),
        ("package main\n\nfunc (b *Boat) Go(to string) error {\n\treturn nil\n}\n", 1),
        ("static int go(struct boat *b, int to)\n{\n    return call(b);\n}\nstruct boat {\n};", 2),
        ("public class Boat {\n    public void go(int to) throws Wet {\n        if (to > 1) {\n", 2),
        ("create table if not exists boats (\n  name text\n);", 1),
        ("#!/bin/sh\ngo() {\n  echo on\n}\n", 1),
    ],
)
def test_code_of_other_languages_has_sections_where_something_is_defined(code: str, wanted: int) -> None:
    draft = clean_source(code.encode(), "text/x-source")
    assert len(draft.sections) == wanted, [one["heading"] for one in draft.sections]
    assert draft.text == code.strip()


# -------------------------------------------------------------------------------------------- data, XLS


def test_data_that_holds_no_passages_is_one_document() -> None:
    table = clean_table(b'boat;price\n"a; b";3\n\n;;\n', "text/csv")
    assert (table.text, table.metadata) == ("boat | price\na; b | 3", {"rows": 2})
    corner = clean_table(b"\n\tboat\tprice\n1\tdinghy\t3\n", "text/tab-separated-values")
    assert corner.text == "| boat | price\n1 | dinghy | 3", "the first cell is empty"
    quoted = clean_table(b'boat;"fee, tax, tip"\ndinghy;3\n', "text/csv")
    assert quoted.text == "boat | fee, tax, tip\ndinghy | 3"
    data = clean_json(b'{"limits": {"pages": 500, "none": null}, "names": ["a", true]}', None)
    assert data.text == "limits.pages: 500\nnames.1: a\nnames.2: true"
    assert clean_json(b'{"a": 1}\n{"a": 2}\n', None).text == "a: 1\na: 2"
    assert reason(clean_json, b"{", None).startswith("not JSON: ")


def xls(*rows: tuple[str | float, ...]) -> bytes:
    """A worksheet as Excel 2 wrote it (BIFF2): labels and numbers."""
    out = struct.pack("<HHHH", 0x0009, 4, 2, 0x0010)
    for row, cells in enumerate(rows):
        for column, cell in enumerate(cells):
            place = struct.pack("<HHBBB", row, column, 0, 0, 0)
            if isinstance(cell, str):
                data = cell.encode("latin-1")
                out += struct.pack("<HH", 0x0004, 8 + len(data)) + place + bytes([len(data)]) + data
            else:
                out += struct.pack("<HH", 0x0003, 15) + place + struct.pack("<d", cell)
    return out + struct.pack("<HH", 0x000A, 0)


def test_xls() -> None:
    draft = clean_xls(xls(("boat", "price"), ("dinghy", 3.0), (0.5,)))
    assert sections(draft) == {"Sheet 1": "Sheet 1\n\nboat | price\ndinghy | 3\n0.5"}
    assert reason(clean_xls, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"x" * 600).startswith("XLS: damaged: ")


# -------------------------------------------------------------------------------------------- a mixed folder


def test_a_folder_of_all_kinds_gives_documents_passages_and_reasons(tmp_path: Path) -> None:
    words = "The ferry leaves the harbour at noon."
    files = {
        "a.csv": f"text,id\n{words},one\n{words},two\n",
        "b.json": json.dumps([words, {"text": words, "id": "x"}]),
        "c.csv": "boat,price,harbour\ndinghy,3,north\ncutter,9,south\n",
        "settings.json": json.dumps({"ferry": {"leaves": "at noon", "from": "the north harbour"}}),
        "d.eml": f"Subject: Ferry\n\n{words}",
        "e.ipynb": json.dumps({"cells": [{"cell_type": "markdown", "source": f"# Ferry\n{words}"}]}),
        "sub/f.py": f'def go():\n    """{words}"""\n',
        "g.parquet": "no Parquet",
        "h.xyz": words,
    }
    (tmp_path / "docs" / "sub").mkdir(parents=True)
    for name, text in files.items():
        (tmp_path / "docs" / name).write_text(text)
    (tmp_path / "docs" / "i.ods").write_bytes(
        odf(
            "spreadsheet",
            "<table:table><table:table-row>"
            f"<table:table-cell><text:p>{words}</text:p></table:table-cell></table:table-row></table:table>",
        )
    )
    (tmp_path / "docs" / "j.xls").write_bytes(xls((words,)))
    (tmp_path / "docs" / "k.pptx").write_bytes(_without(a_pptx(), "ppt/slides/slide1.xml"))
    home = Home(tmp_path / "home")
    crawl(home, "docs", Source(reader="folder", path=str(tmp_path / "docs")), print)
    rows = read_manifest(home, "docs").rows(named=True)
    failed = {row["url"]: row["reason"] for row in rows if row["reason"]}
    assert failed.keys() == {"g.parquet", "h.xyz"}
    cleaned = {row["url"]: clean_page("docs", row, home, "en") for row in rows if not row["reason"]}
    dropped = {url: one.dropped["reason"] for url, one in cleaned.items() if one.dropped}
    assert set(cleaned) - set(dropped) == {
        *("a.csv#one", "a.csv#two", "b.json#1", "b.json#x", "c.csv", "settings.json"),
        *("d.eml", "e.ipynb", "sub/f.py", "i.ods", "j.xls"),
    }
    assert dropped["k.pptx"].startswith("damaged PPTX file: a part of it is missing (KeyError: no relation")


def _without(package: bytes, name: str) -> bytes:
    out = BytesIO()
    with zipfile.ZipFile(BytesIO(package)) as old, zipfile.ZipFile(out, "w") as new:
        for part in old.namelist():
            if part != name:
                new.writestr(part, old.read(part))
    return out.getvalue()


def test_small_files_that_say_a_great_deal_are_a_reason() -> None:
    table = ""
    for _ in range(3):
        table = (
            '<table:table><table:table-row table:number-rows-repeated="64"><table:table-cell '
            f'table:number-columns-repeated="64"><text:p>a</text:p>{table}</table:table-cell>'
            "</table:table-row></table:table>"
        )
    assert "characters in cells" in reason(clean_ods, odf("spreadsheet", table))
    paths = json.dumps({"k" * 20_000: [1] * 20_000}).encode()
    assert "characters of paths" in reason(clean_json, paths, None)
    digits = "1" * 5000
    heading = f'<text:h text:outline-level="{digits}">Fees</text:h>'
    assert clean_odt(odf("text", f'{heading}<text:p>a<text:s text:c="{digits}"/>b</text:p>')).text


def test_a_mail_that_is_attached_is_named_and_not_read() -> None:
    inner, outer = EmailMessage(), EmailMessage()
    inner["Subject"], outer["Subject"] = "Old fees", "New fees"
    inner.set_content("Twelve pounds.")
    outer.set_content("Six pounds.")
    outer.add_attachment(inner, filename="old.eml")
    draft = clean_eml(outer.as_bytes())
    assert ("Six" in draft.text, "Twelve" in draft.text) == (True, False)
    assert draft.metadata["attachments"] == "old.eml"


YAML = """# Fees of the harbour
services:
  ferry: &base
    image: ferry:2
    run: |
      note:
        no key
  "pilot":
    - a
empty:
steps:
- name: x
  with:
    path: /a
"""


def test_yaml_and_toml_have_sections_of_their_keys_and_tables() -> None:
    draft = clean_source(YAML.encode(), "text/x-yaml")
    assert (draft.text, draft.title) == (YAML.strip(), "Fees of the harbour")
    assert [(one["heading"], one["level"]) for one in draft.sections] == [
        ("services", 1), ("ferry", 2), ("steps", 1), ("with", 2)
    ]  # fmt: skip
    toml = clean_source(
        b"[tool.ruff]\nline = 1\n[tool.ruff.lint]\nselect = ['[x]',\n  2]\n[[run]]\na=1", "text/x-toml"
    )
    assert [(one["heading"], one["level"]) for one in toml.sections] == [
        ("tool.ruff", 2), ("tool.ruff.lint", 3), ("run", 1)
    ]  # fmt: skip


VTT = """WEBVTT - Harbour

NOTE not shown

STYLE
::cue { color: red }

intro
00:01.000 --> 00:03.000 align:start
<v Ann>The ferry <i>leaves</i>

00:03.000 --> 00:05.000
The ferry leaves
at noon &amp; at six.

1:00:09.500 --> 1:00:12.000
- When?
- {\\an8}Daily.
"""


def test_subtitles_are_text_without_time_stamps() -> None:
    draft = clean_subtitles(VTT.encode(), "text/vtt")
    assert draft.text == "Ann: The ferry leaves The ferry leaves at noon & at six.\n\n- When?\n- Daily."
    assert draft.metadata == {"cues": 3, "duration_seconds": 3612}
    srt = "1\r\n00:00:01,000 --> 00:00:02,000\r\nLow tide\r\n\r\n2\r\n00:00:02,000 --> 00:00:04,000\r\n"
    srt += "Low tide\r\nat six\r\n"
    assert clean_subtitles(srt.encode(), "application/x-subrip").text == "Low tide at six"
    with pytest.raises(UnusablePage, match="no subtitle"):
        clean_subtitles(b"Low tide at six", "application/x-subrip")


def test_xml_has_its_titles_as_sections() -> None:
    book = """<book xmlns="http://docbook.org/ns/docbook" xml:lang="en-GB"><info><title>Harbour</title></info>
      <!-- no --><chapter><title>Fees</title><para>Twelve <emphasis>pounds</emphasis> a tide.</para>
      <section><title>Ships</title><programlisting>a = 1\n  b</programlisting><itemizedlist><listitem>
      <para>Ferry</para></listitem></itemizedlist></section></chapter><chapter><title>End</title></chapter></book>"""
    draft = clean_xml(book.encode(), "application/xml")
    assert (draft.title, draft.language) == ("Harbour", "en")
    assert draft.text == "Harbour\n\nFees\n\nTwelve pounds a tide.\n\nShips\n\na = 1\n  b\n\nFerry\n\nEnd"
    assert sections(draft)["Fees"].endswith("Ferry")
    assert sections(draft)["Ships"].startswith("Ships\n\na = 1")
    html = "&lt;p&gt;High &lt;b&gt;tide&lt;/b&gt;&lt;/p&gt;&lt;ul&gt;&lt;li&gt;six"
    feed = (
        "<?xml version='1.0'?><rss version='2.0'><channel><title>News</title><language>de</language><item>"
        f"<title>Tide</title><link>https://x.example</link><description>{html}</description></item></channel></rss>"
    )
    read = clean_xml(feed.encode(), "text/xml")
    assert (read.text, read.language) == ("News\n\nTide\n\nHigh tide\n\n- six", "de")
    tei = b"<TEI><text><body><div><head>One</head><p>Text one.</p></div></body></text></TEI>"
    assert sections(clean_xml(tei, "application/xml")) == {"One": "One\n\nText one."}


def test_hostile_xml_expands_and_fetches_nothing(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret words")
    laughs = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12))
    with pytest.raises(etree.XMLSyntaxError, match="amplification"):
        clean_xml(f"<!DOCTYPE r [<!ENTITY a0 'ha'>{laughs}]><r>&a11;</r>".encode(), "application/xml")
    file = f"<!DOCTYPE r [<!ENTITY f SYSTEM 'file://{tmp_path}/secret'>]><r>Tide &f;</r>"
    text = clean_xml(file.encode(), "application/xml").text
    assert text.startswith("Tide")
    assert "secret words" not in text
    assert len(text) < 100
    with pytest.raises(etree.XMLSyntaxError):
        clean_xml(b"<r>" * 100_000, "application/xml")
    with pytest.raises(UnusablePage, match="no text"):
        clean_xml(b"<r><a x='1'/></r>", "application/xml")
