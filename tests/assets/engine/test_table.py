"""What people see of rows in the UI: previews of hostile text, plots of odd numbers, files that are torn."""

from __future__ import annotations

import re
from base64 import b64decode
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest
from markdown_it import MarkdownIt

from rag_assay.assets.engine.table import (
    PlotInterval,
    StageTable,
    bars,
    distribution,
    histogram,
    intervals,
    literal,
    preview,
    preview_table,
)
from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.schemas import ANSWERS, CHUNKS, LEADERBOARD, Schema, notes_of

HOSTILE = [
    "a | b",
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "![x](https://evil.example/pixel.png)",
    "[click](javascript:alert(1))",
    "`code` **bold** ~~gone~~ _it_ # head",
    "line one\nline two\r\n| forged | row |",
    "&lt;b&gt; &amp; &#60;",
    "\\| \\\\ \\",
    "{{ braces }} ${x} $$y$$",
    "nul\x00 bell\x07 \u202eright to left\u202c",
    "https://evil.example/ www.evil.example someone@evil.example",
    "| --- | --- |",
    "",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_cell_shows_its_text_and_is_nothing_else(text: str) -> None:
    shown = preview(pl.DataFrame({"text": [text, "next"], "n": [1, 2]}), 2)
    html = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(shown)
    assert set(re.findall(r"</?(\w+)", html)) <= {"table", "thead", "tbody", "tr", "th", "td", "p"}
    cells = [unescape(one) for one in re.findall(r"<td>(.*?)</td>", html, re.DOTALL)]
    expected = " ".join("".join(one if one.isprintable() else " " for one in text).split())
    plain = cells[0].replace("\u2060", "")
    assert " ".join(plain.split()) == (expected if len(expected) <= 60 else f"{expected[:59]}…")
    assert cells[1:] == ["1", "next", "2"]
    assert not re.search(r"https?://|www\.", cells[0]), "addresses would become links"


def test_a_huge_text_is_cut_before_it_is_looked_at() -> None:
    assert len(preview(pl.DataFrame({"text": ["|" * 1_000_000]}), 1)) < 1_000
    assert literal("a" * 10) == "a" * 10


def svg_of(markdown: str | None) -> ElementTree.Element:
    assert markdown is not None
    found = re.fullmatch(r"!\[([^\[\]()|<>]*)\]\(data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)\)", markdown)
    assert found, markdown[:200]
    return ElementTree.fromstring(b64decode(found[2]))  # noqa: S314 -- our own


def texts_of(markdown: str | None) -> list[str]:
    return [
        text for one in svg_of(markdown).iter("{http://www.w3.org/2000/svg}text") for text in one.itertext()
    ]


def test_a_histogram_counts_every_number() -> None:
    drawn = histogram(pl.Series([0.0] * 3 + [1.0]))
    assert texts_of(drawn) == ["0", "n = 4", "1"]
    path = next(svg_of(drawn).iter("{http://www.w3.org/2000/svg}path")).attrib["d"]
    assert re.findall(r"v-(\d+)", path) == ["60", "20"], "heights are as the counts"
    assert drawn is not None
    assert len(drawn) < 1_000, "longer Markdown stands behind a link"


@pytest.mark.parametrize("values", [[], [None, None], [float("nan")], [float("inf"), float("-inf")]])
def test_of_no_numbers_there_is_no_picture(values: list[float | None]) -> None:
    assert histogram(pl.Series(values, dtype=pl.Float64)) is None
    assert bars({}) is None
    assert intervals([]) is None


def test_odd_numbers_are_drawn() -> None:
    assert texts_of(histogram(pl.Series([7]))) == ["7", "n = 1", "7"]
    assert texts_of(histogram(pl.Series([1e300, -1e300])))[1] == "n = 2"
    assert len(texts_of(histogram(pl.Series([None, 1.0, float("nan"), 2.0])))) == 3
    assert texts_of(bars({"none": 0.0})) == ["none", "0"]
    assert texts_of(intervals([PlotInterval("one", 0.5, None, None)])) == ["one", "0.5", "0.5"]


def test_hostile_names_are_text_of_a_picture() -> None:
    name = "</text><script>x</script>&\x00]("
    for drawn in (bars({name: 1.0}), intervals([PlotInterval(name, 0.5, 0.1, 0.9)])):
        assert {one.tag.rpartition("}")[2] for one in svg_of(drawn).iter()} == {
            "svg",
            "path",
            "text",
            "tspan",
        }
    many = bars({f"metric {n}" * 9: n / 7 for n in range(500)})
    assert len(texts_of(many)) == 14
    cells = intervals(
        [
            PlotInterval(f"study.tokens-512-128.minilm.retriever.generator-{n}", n / 7, n / 9, n / 5)
            for n in range(99)
        ]
    )
    assert many is not None
    assert len(many) < 1_600
    assert cells is not None
    assert len(cells) < 1_150, "about what the UI shows in place"


TABLE = StageTable("rows.parquet", {"a": pl.Int64}, ("a",), (distribution("a of all", "a"),))


def test_a_table_is_seen_by_its_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pl.DataFrame({"a": range(1_000)}).write_parquet(path)
    found = preview_table(TABLE, path)
    assert found.rows == 1_000
    assert list(found.markdown) == ["preview", "a of all"]
    assert "5 of 1,000 rows" in found.markdown["preview"]
    pl.DataFrame({"a": []}, schema={"a": pl.Int64}).write_parquet(path)
    assert preview_table(TABLE, path) == (0, {})
    for broken in (b"", b"no parquet", path.read_bytes()[:-9]):
        path.write_bytes(broken)
        with pytest.raises(CorruptFileError):
            preview_table(TABLE, path)
    pl.DataFrame({"other": [1]}).write_parquet(path)
    with pytest.raises(CorruptFileError):
        preview_table(TABLE, path)


@pytest.mark.parametrize("schema", [CHUNKS, ANSWERS, LEADERBOARD])
def test_columns_are_described_by_the_comments_beside_them(schema: Schema) -> None:
    notes = notes_of(schema)
    assert set(notes) < set(schema)
    assert len(notes) > 5
    assert notes_of({"a": pl.Int64}) == {}
