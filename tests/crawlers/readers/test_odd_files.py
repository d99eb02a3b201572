"""Files as people have them: odd charsets, torn quotes, values that are no text, links to elsewhere."""

from __future__ import annotations

import gzip
import io
import json
import os
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyarrow import parquet

from rag_assay.crawlers.crawl import crawl
from rag_assay.crawlers.readers.jsonl import values
from rag_assay.warehouse.files import fingerprint
from rag_assay.warehouse.pages import read_manifest
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.source import Source
from rag_assay.warehouse.source_kinds import READERS


def read(kind, path, **more):
    """URL -> the page's text, or the reason why there is none."""
    source = Source.model_validate({"reader": kind, "path": str(path), **more})
    pages = READERS[kind]().read(source)
    return {page.url: page.reason or json.loads(page.body)["text"] for page in pages}


def table(path, data, **more):
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return list(read("table", path, **more).values())


# ------------------------------------------------------------------------------------------- CSV


def test_only_line_ends_end_a_row(tmp_path):
    signs = "\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e"
    assert table(tmp_path / "t.csv", f"text,title\na{signs}b,T\nc,T\n") == [f"a{signs}b", "c"]


def test_a_row_with_more_cells_than_columns_is_not_cut_off(tmp_path):
    rows = table(tmp_path / "t.csv", "id,text\n1,Hello, world\n2,fine\n3,trailing,,\n")
    assert rows == ["not a passage: 3 cells for 2 columns", "fine", "trailing"]


def test_a_quotation_mark_that_is_never_closed_makes_no_passage_of_the_rows_below(tmp_path):
    rows = table(tmp_path / "t.csv", 'text\n"good"\n"torn" here\n"two\nlines"\n"open\nmore\n')
    assert rows[0] == "good"
    assert rows[1].startswith("not a passage: ',' expected after")
    assert rows[2] == "two\nlines"
    assert rows[3].startswith("not a passage: a quotation mark that is never closed")
    assert rows[4:] == ["more"], "the rows below are read"


@pytest.mark.parametrize("end", ["", '8,"quoted, late"\n', '8,"quoted" torn\n', '8,"a ""b"" c"\n'])
@pytest.mark.parametrize("opening", ['2,"open\n', '"2,open\n', '2,"open ""twice""\n', '2,"\n'])
def test_an_open_quotation_mark_swallows_no_row_below(tmp_path, opening, end):
    below = "".join(f"{number},row {number}\n" for number in range(3, 8))
    rows = table(tmp_path / "t.csv", f"id,text\n1,first\n{opening}{below}{end}")
    assert rows[0] == "first"
    assert rows[1].startswith("not a passage: a quotation mark")
    assert rows[2:7] == [f"row {number}" for number in range(3, 8)]
    assert len(rows) == 7 + bool(end)


def test_a_line_of_a_torn_text_is_no_passage_where_cells_are_missing(tmp_path):
    rows = table(tmp_path / "t.csv", 'id,text\n1,"open\na line of its text\n2,two\n')
    assert rows[1:] == ["not a passage: 1 cells for 2 columns", "two"]


def test_many_open_quotation_marks_are_read_in_one_go(tmp_path, monkeypatch):
    number = 3000
    reads = 0
    readline = io.TextIOWrapper.readline

    def counted(file, *size):
        nonlocal reads
        reads += 1
        return readline(file, *size)

    monkeypatch.setattr("rag_assay.crawlers.readers.table.as_text", lambda file, newline: Text(file, counted))
    rows = table(tmp_path / "t.csv", "id,text\n" + "".join(f'{n},"open {n}\n' for n in range(number)))
    assert len(rows) == number
    assert reads < 2 * number


class Text(io.TextIOWrapper):
    """Text whose lines are read by a function of the test."""

    def __init__(self, file, read):
        super().__init__(file, "utf-8", newline="")
        self._read = read

    def readline(self, *size):
        return self._read(self, *size)


@pytest.mark.parametrize(
    ("head", "row"),
    [('"a, b, c, d";"text"', "1;hello"), (" text | note ", "hello|x"), ("\ufefftext;note", "hello;x")],
)
def test_the_head_of_a_table(tmp_path, head, row):
    assert table(tmp_path / "t.csv", f"{head}\n{row}\n") == ["hello"]


def test_a_column_that_comes_twice_is_not_guessed(tmp_path):
    assert table(tmp_path / "t.csv", "text,text\none,two\n") == ["more than one column 'text'"]
    twice = pa.Table.from_arrays([pa.array(["one"]), pa.array(["two"])], names=["text", "text"])
    parquet.write_table(twice, tmp_path / "t.parquet")
    assert read("table", tmp_path / "t.parquet") == {"t.parquet": "more than one column 'text'"}


def test_a_charset_that_shows_late(tmp_path):
    plain = b"text\n" + b"plain words only\n" * 10_000
    assert table(tmp_path / "t.csv", plain + "Köln\n".encode("cp1252"))[-1] == "Köln"
    assert table(tmp_path / "u.csv", plain + "Köln".encode())[-1] == "Köln"
    assert table(tmp_path / "v.csv", "id;text\n1;Köln\n".encode("utf-16")) == ["Köln"]


# ------------------------------------------------------------------------------------------- text


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_in_any_charset_with_any_end(tmp_path, encoding, end):
    (tmp_path / "a.txt").write_bytes(end.join(["Größe", "", "Füße"]).encode(encoding))
    assert read("text", tmp_path, lines=True) == {"a.txt#1": "Größe", "a.txt#3": "Füße"}


# ------------------------------------------------------------------------------------------- values


def test_what_is_no_text_is_not_written_as_python_writes_it(tmp_path):
    lines = [{"text": ["one", "two"]}, {"text": {"a": 1}}, {"text": True}, {"text": "x", "title": ["t"]}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, [*lines, {"text": 1.5}, {"text": 7.0}])))
    assert list(read("jsonl", tmp_path).values()) == [
        "not a passage: its 'text' is not text but list",
        "not a passage: its 'text' is not text but dict",
        "not a passage: its 'text' is not text but bool",
        "not a passage: its 'title' is not text but list",
        "1.5",
        "7",
    ]


def test_parquet_of_odd_types(tmp_path):
    columns = {
        "text": pa.array(["Größe".encode(), b"two"], pa.binary()),
        "id": pa.array([b"a", b"b"], pa.binary()),
        "date": pa.array([1714694400123456789, None], pa.timestamp("ns", tz="Europe/Berlin")),
    }
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    parquet.write_table(pa.table({"text": pa.array([["one"], ["two"]])}), tmp_path / "b.parquet")
    assert read("table", tmp_path) == {
        "a.parquet#a": "Größe",
        "a.parquet#b": "two",
        "b.parquet:1": "not a passage: its 'text' is not text but list",
        "b.parquet:2": "not a passage: its 'text' is not text but list",
    }
    (first, _, *_) = READERS["table"]().read(Source(reader="table", path=str(tmp_path)))
    assert first.fields["published_at"] == "2024-05-03T02:00:00.123456+02:00"


@pytest.mark.parametrize("kind", ["jsonl", "beir"])
def test_half_a_surrogate_pair_does_not_end_the_crawl(tmp_path, kind):
    lines = [
        {"_id": "\ud800", "id": "\ud800", "url": "https://a.example/\udfff", "text": "one \ud800"},
        {"_id": "b", "id": "b", "text": "two"},
    ]
    (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, lines)))
    home = Home(tmp_path / "home")
    row = crawl(home, "s", Source(reader=kind, path=str(tmp_path / "corpus.jsonl")), print)
    assert (row["new"], row["failed"]) == (2, "{}")
    assert any("?" in url for url in read_manifest(home, "s")["url"])


def test_beir_lines_that_no_parser_takes(tmp_path):
    lines = [
        "[" * 100_000,
        json.dumps({"_id": None, "text": "x"}),
        json.dumps({"_id": "1", "text": ["a", "b"]}),
        json.dumps({"_id": "2", "text": "y" * 300_000}),
        json.dumps({"_id": "3", "text": "z"}),
    ]
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines))
    assert read("beir", tmp_path, limits={"page_bytes": 200_000}) == {
        "corpus.jsonl:1": "not a passage: RecursionError",
        "corpus.jsonl:2": "not a passage: its '_id' is empty",
        "corpus.jsonl:3": "not a passage: TypeError",
        "corpus.jsonl:4": "larger than 200000 bytes",
        "beir:3": "z",
    }


class Counting(io.BytesIO):
    """Counts how often it is read."""

    reads = 0

    def read(self, size=-1):
        self.reads += 1
        return super().read(size)


def test_a_long_item_of_a_list_is_tried_a_few_times_only():
    file = Counting(json.dumps(["x" * 20_000_000, "y"]).encode())
    assert [len(value) for value in values(file, 30_000_000)] == [20_000_000, 1]
    assert file.reads < 15  # each read is a try: as much again as there is already, from 64 kB on


# ------------------------------------------------------------------------------------------- WARC


def record(url, body, head="Content-Type: text/html\r\n"):
    block = f"HTTP/1.1 200 OK\r\n{head}\r\n".encode() + body
    fields = f"WARC-Type: response\r\nWARC-Target-URI: {url}\r\nWARC-Date: 2024-05-06T07:08:09Z\r\n"
    return f"WARC/1.0\r\n{fields}Content-Length: {len(block)}\r\n\r\n".encode() + block + b"\r\n\r\n"


def test_responses_that_cannot_be_read_do_not_keep_others_from_it(tmp_path):
    many = "".join(f"X-{number}: 1\r\n" for number in range(150))
    packed = gzip.compress(os.urandom(5000))
    (tmp_path / "a.warc").write_bytes(
        record("https://a.example/many", b"x", many)
        + record("https://a.example/long", b"x", f"X: {'y' * 70_000}\r\n")
        + record("https://a.example/cut", packed[:2000], "Content-Encoding: gzip\r\n")
        + record("https://a.example/größe", b"<p>x</p>")
    )
    pages = list(READERS["warc"]().read(Source(reader="warc", path=str(tmp_path))))
    assert {page.url.removeprefix("https://a.example/"): page.reason for page in pages} == {
        "many": "cannot be read: got more than 100 headers",
        "long": "cannot be read: got more than 65536 bytes when reading header line",
        "cut": "truncated: the packed body ends early",
        "größe": None,
    }
    assert pages[-1].fetched_at == datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)


def test_a_record_whose_head_never_ends(tmp_path):
    (tmp_path / "a.warc").write_bytes(b"WARC/1.0\r\n" + b"X: y\r\n" * 200)
    (tmp_path / "b.warc").write_bytes(record("https://b.example/", b"<p>x</p>"))
    reasons = [page.reason for page in READERS["warc"]().read(Source(reader="warc", path=str(tmp_path)))]
    assert reasons == ["cannot be read: the head of a WARC record: got more than 100 headers", None]


# ------------------------------------------------------------------------------------------- links


def test_a_link_out_of_the_folder_is_not_followed(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("not yours")
    (folder / "own.txt").write_text("words")
    (folder / "same.txt").symlink_to("own.txt")
    (folder / "out.txt").symlink_to("../secret.txt")
    (folder / "out.jsonl").symlink_to(tmp_path / "secret.txt")
    (folder / "up").symlink_to(tmp_path)
    (tmp_path / "link").symlink_to(folder)
    reason = "cannot be read: a symbolic link that leads out of the source's folder"
    for root in (folder, tmp_path / "link"):
        assert read("text", root, lines=True) == {
            "own.txt#1": "words",
            "same.txt#1": "words",
            "out.txt": reason,
            "up": reason,
        }
        assert read("jsonl", root) == {"out.jsonl": reason, "up": reason}
        pages = READERS["folder"]().read(Source(reader="folder", path=str(root)))
        assert {page.url: page.reason for page in pages} == {
            "own.txt": None,
            "same.txt": None,
            "out.txt": reason,
            "out.jsonl": reason,
            "up": reason,
        }
    named = Source(reader="text", path=str(folder / "out.txt"))
    assert [page.body for page in READERS["text"]().read(named)] == [b"not yours"], "who names it means it"


@pytest.mark.parametrize("kind", ["folder", "text", "html", "jsonl", "table", "pdf", "warc"])
def test_links_that_lead_round_in_a_circle_end_nothing(tmp_path, kind):
    end = {"folder": "txt", "text": "txt", "table": "csv"}.get(kind, kind)
    root = tmp_path / "docs"
    root.mkdir()
    (root / f"self.{end}").symlink_to(f"self.{end}")
    (root / f"there.{end}").symlink_to(f"back.{end}")
    (root / f"back.{end}").symlink_to(f"there.{end}")
    (root / "loop").symlink_to(".")
    before = fingerprint(root)
    (root / f"z.{end}").write_text("words")
    assert fingerprint(root) != before
    pages = {page.url: page.reason for page in READERS[kind]().read(Source(reader=kind, path=str(root)))}
    wrong = {url for url, reason in pages.items() if reason and "in a circle" in reason}
    assert wrong == {f"self.{end}", f"there.{end}", f"back.{end}"}
    assert any(url.startswith("z.") for url in pages), "what comes after them is read"


@pytest.mark.parametrize("kind", ["folder", "jsonl", "text"])
def test_a_home_within_the_folder_is_not_read(tmp_path, monkeypatch, kind):
    """A crawl that read its own journal would never end."""
    (tmp_path / "a.jsonl").write_text('"words"')
    (tmp_path / "a.txt").write_text("words and some more of them")
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "var"))
    source = Source(reader=kind, path=str(tmp_path), limits={"pages": 50})
    before = fingerprint(tmp_path)
    for _ in range(2):
        row = crawl(Home(tmp_path / "var"), "s", source, print)
        assert (row["outcome"], row["requests"]) == ("finished", 2 if kind == "folder" else 1)
    assert fingerprint(tmp_path) == before, "what assay writes there makes no source look changed"


@pytest.mark.parametrize(("kind", "name"), [("text", "a.txt"), ("table", "a.csv")])
def test_lines_of_other_bytes_are_no_passages(tmp_path, kind, name):
    (tmp_path / name).write_bytes(b"text\n" + gzip.compress(os.urandom(4000)))
    more = {"lines": True} if kind == "text" else {}
    assert read(kind, tmp_path, **more) == {name: "cannot be read: not text, but other bytes"}


# ------------------------------------------------------------------------------- folders and names


@pytest.fixture
def shut(tmp_path, monkeypatch):
    """A folder that may not be entered, whoever runs the test; beside it a text and a table."""
    folder = tmp_path / "shut"
    folder.mkdir()
    (tmp_path / "a.txt").write_text("The ferry leaves at seven.")
    (tmp_path / "b.csv").write_text("text\nThe ferry returns at nine.\n")
    scandir = os.scandir

    def refusing(path="."):
        if os.fspath(path) == str(folder):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr("os.scandir", refusing)
    return folder


@pytest.mark.parametrize("kind", ["folder", "text", "table", "pdf", "jsonl", "warc"])
def test_a_folder_that_may_not_be_entered_is_told(tmp_path, shut, kind):
    pages = READERS[kind]().read(Source.model_validate({"reader": kind, "path": str(tmp_path)}))
    told = {page.url: page.reason for page in pages}
    assert told["shut"] == "cannot be read: Permission denied"


def test_a_source_that_may_not_be_entered_says_so(shut):
    pages = list(READERS["folder"]().read(Source.model_validate({"reader": "folder", "path": str(shut)})))
    assert [page.reason for page in pages] == ["cannot be read: Permission denied"]


@pytest.mark.parametrize("kind", ["folder", "text"])
def test_a_link_to_a_folder_elsewhere_is_told_and_one_to_within_is_not(tmp_path, kind):
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    for folder in (root / "sub", elsewhere):
        folder.mkdir(parents=True)
        (folder / "a.txt").write_text("The ferry leaves at seven.")
    (root / "out").symlink_to(elsewhere)
    (root / "sub" / "up").symlink_to(root)
    pages = READERS[kind]().read(Source.model_validate({"reader": kind, "path": str(root)}))
    assert {page.url: page.reason for page in pages} == {
        "out": "cannot be read: a symbolic link that leads out of the source's folder",
        "sub/a.txt": None,
    }


def test_two_names_that_are_not_utf_8_stay_two(tmp_path):
    for name in (b"ferry\xff.txt", b"ferry\xfe.txt"):
        (tmp_path / os.fsdecode(name)).write_text("The ferry leaves at seven.")
    pages = list(READERS["folder"]().read(Source.model_validate({"reader": "folder", "path": str(tmp_path)})))
    assert {page.url for page in pages} == {"ferry\\xff.txt", "ferry\\xfe.txt"}
    assert {page.reason for page in pages} == {"the file's name is not UTF-8"}
