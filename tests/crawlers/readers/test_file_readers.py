"""The readers of PDF, passages, tables and WARC: what they take, and the reason for what they do not."""

from __future__ import annotations

import gzip
import io
import json
import tracemalloc
from datetime import date

import brotli
import openpyxl
import polars as pl
import pypdfium2 as pdfium
import pytest

from rag_assay.assets.cleaning.page_cleaner import clean_page
from rag_assay.crawlers.crawl import crawl
from rag_assay.crawlers.readers.jsonl import values
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.pages import read_manifest
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.pdf import MAX_PAGES
from rag_assay.warehouse.source import Source
from rag_assay.warehouse.source_kinds import READERS


def read(kind, path, **more):
    source = Source.model_validate({"reader": kind, "path": str(path), **more})
    pages = list(READERS[kind]().read(source))
    assert len({page.url for page in pages}) == len(pages), "a URL comes twice"
    return {page.url: page for page in pages}


def reasons(pages):
    return {url: page.reason for url, page in pages.items()}


def passage(page):
    return json.loads(page.body)


@pytest.mark.parametrize("kind", ["html", "jsonl", "pdf", "table", "text", "warc"])
def test_a_missing_path_and_a_folder_without_such_files(tmp_path, kind):
    with pytest.raises(InputError, match=r"^path: there is no .*missing"):
        read(kind, tmp_path / "missing")
    (tmp_path / "x.docx").write_text("x")
    with pytest.raises(InputError, match=r"^path: the folder .* holds no file that ends in \."):
        read(kind, tmp_path)


# ------------------------------------------------------------------------------------------- PDF


def pdf_with_text(*lines, encrypt=""):
    """A PDF written out by hand, an A4 page with a line each; with a password's dictionary where wanted."""
    objects = ["<</Type/Catalog/Pages 2 0 R>>", "", "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"]
    kids = []
    for line in lines:
        content = f"BT /F1 12 Tf 50 700 Td ({line}) Tj ET"
        objects.append(f"<</Length {len(content)}>>\nstream\n{content}\nendstream")
        objects.append(
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents {len(objects)} 0 R"
            "/Resources<</Font<</F1 3 0 R>>>>>>"
        )
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<</Type/Pages/Count {len(kids)}/Kids[{' '.join(kids)}]>>"
    if encrypt:
        objects.append(encrypt)
    out, places = b"%PDF-1.4\n", []
    for number, text in enumerate(objects, start=1):
        places.append(len(out))
        out += f"{number} 0 obj\n{text}\nendobj\n".encode()
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    key = f"/Encrypt {len(objects)} 0 R/ID[<00><00>]" if encrypt else ""
    return (
        out
        + (
            f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
            f"trailer\n<</Size {len(objects) + 1}/Root 1 0 R{key}>>\nstartxref\n{len(out)}\n%%EOF\n"
        ).encode()
    )


def empty_pdf(pages):
    document = pdfium.PdfDocument.new()
    for _ in range(pages):
        document.new_page(100, 100)
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def test_pdfs(tmp_path):
    good = pdf_with_text("Words on a page.", "And more of them.")
    locked = f"<</Filter/Standard/V 1/R 2/O<{'41' * 32}>/U<{'42' * 32}>/P -4>>"
    files = {
        "good.pdf": good,
        "sub/second.PDF": good,
        "locked.pdf": pdf_with_text("Secret.", encrypt=locked),
        "cut.pdf": good[: len(good) // 2],
        "cut-at-the-end.pdf": good[: good.rindex(b"trailer")],
        "damaged.pdf": b"%PDF-1.4\nnothing that is a PDF\n%%EOF",
        "scan.pdf": empty_pdf(3),
        "long.pdf": empty_pdf(MAX_PAGES + 1),
        "big.pdf": good + b" " * 2_000_000,
        "no.pdf": b"<html>",
        "empty.pdf": b"",
        "notes.txt": b"passed over",
    }
    (tmp_path / "sub").mkdir()
    for name, body in files.items():
        (tmp_path / name).write_bytes(body)
    pages = read("pdf", tmp_path, limits={"page_bytes": 1_000_000})
    assert reasons(pages) == {
        "good.pdf": None,
        "sub/second.PDF": None,
        "locked.pdf": "encrypted: it asks for a password",
        "cut.pdf": "truncated: the file ends early",
        "cut-at-the-end.pdf": "truncated: the file ends early",
        "damaged.pdf": "damaged: it cannot be opened",
        "scan.pdf": "no text: images only; the source option `ocr` reads them",
        "long.pdf": f"more than {MAX_PAGES} pages: {MAX_PAGES + 1}",
        "big.pdf": "larger than 1000000 bytes",
        "no.pdf": "not a PDF file",
        "empty.pdf": "empty file",
    }
    assert pages["good.pdf"].body == good
    assert list(read("pdf", tmp_path / "good.pdf")) == ["good.pdf"]


# ------------------------------------------------------------------------------------------- passages

OBJECTS = [
    {"id": 7, "title": "Ferry", "text": "It runs.", "url": "https://a.example/f", "date": "2024-05-06"},
    {"text": "The same URL again.", "url": "https://a.example/f", "date": "some day in May"},
    "A passage that is a string only.",
    {"id": "7", "text": "The same id."},
    {"title": "No text"},
    {"id": "e", "text": " "},
    17,
]
WANTED = {
    "https://a.example/f": None,
    "{}#2": None,
    "{}#3": None,
    "{}:4": "repeated id",
    "{}:5": "not a passage: it has no 'text'",
    "{}:6": "empty passage",
    "{}:7": "not a passage: int",
}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.jsonl", "\n".join(map(json.dumps, OBJECTS))),
        ("a.ndjson", "\r\n".join(map(json.dumps, OBJECTS)) + "\r\n"),
        ("a.json", json.dumps(OBJECTS)),
        ("b.json", json.dumps(OBJECTS, indent=4)),
        ("c.json", "\n".join(json.dumps(one, indent=1) for one in OBJECTS)),
        ("a.jsonl.gz", "\n".join(map(json.dumps, OBJECTS))),
    ],
)
def test_json_passages(tmp_path, name, text):
    data = ("\ufeff" + text).encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    pages = read("jsonl", tmp_path)
    assert reasons(pages) == {url.format(name): reason for url, reason in WANTED.items()}
    first, second = pages["https://a.example/f"], pages[f"{name}#2"]
    assert first.body == b'{"text":"It runs.","title":"Ferry"}'
    assert first.fields == {"id": "7", "file": name, "published_at": "2024-05-06"}
    assert first.content_type == "application/x-beir+json"
    assert second.fields == {"url": "https://a.example/f", "date_text": "some day in May"}


def test_ids_count_within_their_file(tmp_path):
    for name in ("a.jsonl", "b.jsonl"):
        rows = [{"id": 1, "text": f"one of {name}"}, {"id": 1, "text": "again"}, {"id": 2, "text": "two"}]
        (tmp_path / name).write_text("\n".join(map(json.dumps, rows)))
    pages = read("jsonl", tmp_path)
    assert reasons(pages) == {
        "a.jsonl#1": None,
        "a.jsonl:2": "repeated id",
        "a.jsonl#2": None,
        "b.jsonl#1": None,
        "b.jsonl:2": "repeated id",
        "b.jsonl#2": None,
    }
    assert passage(pages["b.jsonl#1"])["text"] == "one of b.jsonl"


@pytest.mark.parametrize("kind", ["jsonl", "table", "beir"])
def test_no_passage_takes_the_place_of_one_that_failed(tmp_path, kind):
    rows = [
        {"id": "2", "text": "first"},
        {"id": "x", "text": ""},
        {"text": "third"},
        {"id": "3", "text": "x"},
    ]
    name = {"jsonl": "good.jsonl", "table": "good.csv", "beir": "corpus.jsonl"}[kind]
    home, tmp_path = Home(tmp_path / "home"), tmp_path / "docs"
    tmp_path.mkdir()
    if kind == "table":
        (tmp_path / name).write_text('id,text\n1,"torn" cell\n1,first\n,third\n3,fourth\n')
    else:
        lines = ["{torn", *(json.dumps({"_id": "line-1", **row} if kind == "beir" else row) for row in rows)]
        (tmp_path / name).write_text("\n".join(lines))
    row = crawl(home, "s", Source(reader=kind, path=str(tmp_path)), print)
    manifest = read_manifest(home, "s")
    assert f"{name}:1" in manifest.filter(pl.col("reason").is_not_null())["url"].to_list()
    assert manifest.height == row["requests"], "each line is there, those that failed too"


def test_json_with_other_names_for_its_columns(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"body": "B", "headline": "H", "text": "no"}\n"S"')
    pages = read("jsonl", tmp_path / "a.jsonl", columns={"text": "body", "title": "headline"})
    assert [passage(page) for page in pages.values()] == [
        {"text": "B", "title": "H"},
        {"text": "S", "title": ""},
    ]


def test_json_that_breaks_and_what_follows(tmp_path):
    (tmp_path / "1.jsonl").write_bytes(b'"a"\n{broken\n"\xff"\n' + b'"' + b"x" * 3000 + b'"\n"b"')
    (tmp_path / "2.json").write_text('["c", {broken}, "d"]')
    (tmp_path / "3.json").write_text('["e", "f"')
    (tmp_path / "4.json").write_text('["g", "' + "x" * 300_000 + '"]')
    (tmp_path / "5.jsonl.gz").write_bytes(gzip.compress(b'"h"\n' * 10_000)[:-12])
    (tmp_path / "6.json").write_bytes(b'["i", "\xff"]')
    (tmp_path / "7.jsonl").write_text("[" * 100_000)
    (tmp_path / "8.json").write_text("")
    (tmp_path / "9.jsonl").write_text('"j"')
    pages = read("jsonl", tmp_path, limits={"page_bytes": 2048})
    good = [passage(page)["text"] for page in pages.values() if page.body]
    assert [text for text in good if text != "h"] == ["a", "b", "c", "e", "f", "g", "j"]
    assert {url: reason for url, reason in reasons(pages).items() if reason} == {
        "1.jsonl:2": "not a passage: JSONDecodeError",
        "1.jsonl:3": "not a passage: UnicodeDecodeError",
        "1.jsonl:4": "larger than 2048 bytes",
        "2.json:2": "not a passage: JSONDecodeError",
        "3.json:3": "not a passage: the list does not end",
        "4.json:2": "larger than 2048 bytes",
        "5.jsonl.gz": "truncated: the file ends early",
        "6.json": "cannot be read: not UTF-8",
        "7.jsonl:1": "larger than 2048 bytes",
    }


@pytest.mark.parametrize("block", [1, 2, 3, 7, 64])
def test_json_values_at_any_cut(monkeypatch, block):
    monkeypatch.setattr("rag_assay.crawlers.readers.jsonl.BLOCK", block)
    listed = ["ä]", {"a": [1, {"b": "},["}]}, -12.5e3, True, None, [], 'x\\"y', 1234567]
    for text in (json.dumps(listed), json.dumps(listed, ensure_ascii=False, indent=2)):
        assert list(values(io.BytesIO(text.encode()), 1000)) == listed


def test_lines_of_text(tmp_path):
    (tmp_path / "a.txt").write_bytes(
        "One\n\n  Zwölf \r\n".encode() + b"x" * 5000 + "\nK\xf6ln\n".encode("cp1252")
    )
    pages = read("text", tmp_path, lines=True, limits={"page_bytes": 1024})
    assert reasons(pages) == {
        "a.txt#1": None,
        "a.txt#3": None,
        "a.txt:4": "larger than 1024 bytes",
        "a.txt#5": None,
    }
    assert [passage(page)["text"] for page in pages.values() if page.body] == ["One", "Zwölf", "Köln"]


def test_whole_texts_and_html(tmp_path):
    for name in ("a.txt", "b.md", "c.html", "d.HTM", "e.pdf"):
        (tmp_path / name).write_text("words")
    assert list(read("text", tmp_path)) == ["a.txt", "b.md"]
    assert list(read("html", tmp_path)) == ["c.html", "d.HTM"]
    assert read("text", tmp_path / "b.md")["b.md"].content_type == "text/markdown"


# ------------------------------------------------------------------------------------------- tables

ROWS = {"key": ["a", "b", "c"], "body": ["One, two", 'He said "ü"', ""], "when": ["2024-01-02", "", "x"]}
COLUMNS = {"text_column": "body", "id_column": "key", "date_column": "when"}


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252"])
def test_csv(tmp_path, delimiter, encoding):
    path = tmp_path / ("t.tsv" if delimiter == "\t" else "t.csv")
    path.write_bytes(pl.DataFrame(ROWS).write_csv(separator=delimiter).encode(encoding))
    pages = read("table", path, **COLUMNS)
    assert list(pages) == [f"{path.name}#a", f"{path.name}#b", f"{path.name}:3"]
    assert passage(pages[f"{path.name}#b"])["text"] == 'He said "ü"'
    assert pages[f"{path.name}#a"].fields == {"id": "a", "file": path.name, "published_at": "2024-01-02"}
    assert pages[f"{path.name}:3"].reason == "empty passage"


def test_parquet(tmp_path):
    frame = pl.DataFrame(
        {
            "text": ["One", None, "Three"],
            "id": [1, 2, 3],
            "date": [date(2024, 1, 2), None, None],
            "other": [1, 2, 3],
        }
    )
    frame.write_parquet(tmp_path / "t.parquet")
    pages = read("table", tmp_path)
    assert reasons(pages) == {"t.parquet#1": None, "t.parquet:2": "empty passage", "t.parquet#3": None}
    assert pages["t.parquet#1"].fields == {"id": "1", "file": "t.parquet", "published_at": "2024-01-02"}


def workbook(path, **sheets):
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def test_the_rows_of_a_workbook_that_is_named(tmp_path):
    head = ["key", " body ", "when"]
    rows = [head, ["a", "One, two", date(2024, 1, 2)], [None], [7, "Three"], ["c", None, None]]
    one = workbook(tmp_path / "one.xlsx", Sheet=rows, Empty=[])
    pages = read("table", one, **COLUMNS)
    assert reasons(pages) == {"one.xlsx#a": None, "one.xlsx#7": None, "one.xlsx:3": "empty passage"}
    assert passage(pages["one.xlsx#7"])["text"] == "Three"
    assert pages["one.xlsx#a"].fields["published_at"].startswith("2024-01-02")
    two = workbook(tmp_path / "two.xlsx", North=rows[:2], South=rows[:2], Notes=[["x"], [1]])
    assert reasons(read("table", two, **COLUMNS)) == {
        "two.xlsx/North#a": None,
        "two.xlsx/South#a": None,
        "two.xlsx/Notes": "no column 'body'; there are x",
    }
    (tmp_path / "no.xlsx").write_bytes(b"PK and no more")
    (reason,) = reasons(read("table", tmp_path / "no.xlsx")).values()
    assert reason == "cannot be read: truncated or damaged: its list of parts cannot be read"
    (tmp_path / "t.csv").write_text("text\ngood\n")
    assert list(read("table", tmp_path)) == ["t.csv#1"], "in a folder workbooks are documents"


def test_tables_that_cannot_be_read_do_not_keep_others_from_it(tmp_path):
    (tmp_path / "1.csv").write_text("a,b\n1,2\n")
    (tmp_path / "2.csv").write_text("text\n" + "x" * 5000 + "\n")
    (tmp_path / "3.csv").write_text("")
    (tmp_path / "4.parquet").write_bytes(b"PAR1 and no more")
    (tmp_path / "5.csv.gz").write_bytes(gzip.compress(b"text\n" + b"plain\n" * 20_000)[:-12])
    (tmp_path / "6.csv").write_text("text\ngood\n")
    pages = read("table", tmp_path, limits={"page_bytes": 1024})
    failed = {url: reason for url, reason in reasons(pages).items() if reason}
    assert failed.pop("4.parquet").startswith("cannot be read: ")
    assert failed.pop("5.csv.gz") == "truncated: the file ends early"
    assert failed == {
        "1.csv": "no column 'text'; there are a, b",
        "2.csv:1": "not a passage: field larger than field limit (1024)",
        "3.csv": "no column 'text'; there are none",
    }
    assert passage(pages["6.csv#1"])["text"] == "good"


# ------------------------------------------------------------------------------------------- WARC


def record(url, body, kind="response", http="200 OK", version="1.0", **headers):
    fields = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    block = f"HTTP/1.1 {http}\r\n{fields}\r\n".encode() + body if kind == "response" else body
    head = (
        f"WARC/{version}\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\n"
        f"WARC-Date: 2024-05-06T07:08:09Z\r\nContent-Length: {len(block)}\r\n\r\n"
    )
    return head.encode() + block + b"\r\n\r\n"


def records():
    html, page = {"Content_Type": "text/html"}, b"<p>Words.</p>"
    chunked = b"5\r\n<p>Wo\r\n8;x=y\r\nrds.</p>\r\n0\r\n\r\n"
    return [
        record("", b"software: x", kind="warcinfo"),
        record("https://a.example/1", page, ETag='"e"', **html),
        record("https://a.example/1", b"", kind="request"),
        record("<https://a.example/2>", chunked, version="1.1", Transfer_Encoding="chunked", **html),
        record("https://a.example/3", gzip.compress(page), Content_Encoding="gzip", **html),
        record(
            "https://a.example/joined", page, Transfer_Encoding="chunked", Content_Encoding="gzip", **html
        ),
        record("https://a.example/gone", b"no", http="404 Not Found", **html),
        record("https://a.example/moved", b"", http="301 Moved", Location="/1"),
        record("https://a.example/x.png", b"x", Content_Type="image/png"),
        record("https://a.example/big", b"x" * 200_000, **html),
        record("https://a.example/bomb", gzip.compress(bytes(10_000_000)), Content_Encoding="gzip", **html),
        record("https://a.example/br", brotli.compress(page), Content_Encoding="br", **html),
        record("dns:a.example", b"1.2.3.4"),
        record("https://a.example/last", page, **html),
    ]


@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz"])
def test_warc(tmp_path, name):
    packed = gzip.compress if name.endswith(".gz") else bytes
    (tmp_path / name).write_bytes(b"".join(packed(one) for one in records()))
    pages = read("warc", tmp_path, limits={"page_bytes": 20_000})
    assert {url.removeprefix("https://a.example/"): page.reason for url, page in pages.items()} == {
        "1": None,
        "2": None,
        "3": None,
        "joined": None,
        "gone": "status 404",
        "moved": "status 301",
        "x.png": "not text: image/png",
        "big": "larger than 20000 bytes",
        "bomb": "cannot be read: larger than 20000 bytes when unpacked",
        "br": "cannot be read: Content-Encoding br is not known",
        "last": None,
    }
    assert {page.body for page in pages.values() if page.body} == {b"<p>Words.</p>"}
    first = pages["https://a.example/1"]
    assert (first.status, first.etag, first.content_type) == (200, '"e"', "text/html")
    assert first.fetched_at.isoformat() == "2024-05-06T07:08:09+00:00"


def test_warcs_that_end_early_or_are_none(tmp_path):
    whole = b"".join(records())
    (tmp_path / "1.warc").write_bytes(whole[: whole.index(b"rds.</p>\r\n0")])
    (tmp_path / "2.warc").write_bytes(b"<html>")
    (tmp_path / "3.warc.gz").write_bytes(gzip.compress(whole)[:400])
    (tmp_path / "4.warc").write_bytes(record("https://b.example/", b"<p>b</p>", Content_Type="text/html"))
    source = Source(reader="warc", path=str(tmp_path))
    pages = [(page.url, page.reason) for page in READERS["warc"]().read(source)]
    assert pages[1] == ("1.warc", "truncated: the file ends early")
    assert ("2.warc", "cannot be read: no WARC record, but b'<html>'") in pages
    assert ("3.warc.gz", "truncated: the file ends early") in pages
    assert pages[-1] == ("https://b.example/", None)


# ------------------------------------------------------------------------------------------- all


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.csv", "a.parquet", "a.txt", "a.warc"])
def test_memory_does_not_grow_with_the_file(tmp_path, name):
    number, text = 3_000, "words " * 180
    path = tmp_path / name
    if name == "a.parquet":
        pl.DataFrame({"text": [text] * number}).write_parquet(path, row_group_size=2000)
    elif name == "a.warc":
        one = record("https://a.example/", b"x" * 1_200, Content_Type="image/png")
        path.write_bytes(one * number)
    else:
        line = text if name in {"a.txt", "a.csv"} else json.dumps(text)
        start, between, end = (
            ("[", ",\n", "]") if name == "a.json" else ("text\n" * (name == "a.csv"), "\n", "")
        )
        path.write_text(start + between.join([line] * number) + end)
    kind = {"jsonl": "jsonl", "json": "jsonl", "txt": "text", "warc": "warc"}.get(name[2:], "table")
    source = Source(reader=kind, path=str(path), lines=kind == "text", limits={"page_bytes": 10_000})
    next(READERS[kind]().read(source))  # imports what it needs
    tracemalloc.start()
    seen = sum(1 for _ in READERS[kind]().read(source))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert seen == number
    assert peak < 2_000_000  # the URLs that were seen, and a part of the file, which holds 3 MB and more


def test_passages_reach_the_documents(tmp_path):
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, OBJECTS)))
    home = Home(tmp_path / "home")
    row = crawl(home, "s", Source(reader="jsonl", path=str(tmp_path / "a.jsonl")), print)
    assert (row["new"], row["outcome"]) == (3, "finished")
    page = read_manifest(home, "s").row(by_predicate=pl.col("url") == "https://a.example/f", named=True)
    ferry = clean_page("s", page, home, None).document
    assert ferry["doc_id"] == "s:a.jsonl#7"
    assert (ferry["url"], ferry["title"], ferry["published_at"]) == (
        "https://a.example/f",
        "Ferry",
        "2024-05-06",
    )
    assert ferry["text"] == "Ferry\nIt runs."


def test_the_limit_of_bytes(tmp_path):
    (tmp_path / "a.txt").write_text("\n".join(["x" * 400] * 10))
    limited = Source(reader="text", path=str(tmp_path), lines=True, limits={"bytes": 1024})
    row = crawl(Home(tmp_path / "home"), "s", limited, print)
    assert (row["outcome"], row["new"]) == ("limit: 1024 bytes", 3)
