"""The leaderboard as Markdown, CSV and Parquet: the numbers of the page, and nothing of a text that acts."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import polars as pl
import pytest

from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.exports import csv_text, export_table, write_csv
from rag_assay.evals.reporting.markdown import NOWHERE, escape_markdown, render_markdown
from rag_assay.evals.reporting.page import render_html
from rag_assay.warehouse.schemas import LEADERBOARD
from tests.fakes.report_data import HOSTILE_ANSWER, HOSTILE_TITLE, OVERRIDE, report_data

NUMBER = re.compile(r"[−+]?\d+\.\d+")
ACTING = (
    "@channel",
    "https://evil.example/x.png",
    "www.evil.example",
    "![x](https://evil.example)",
    "[x](javascript:alert(1))",
    "a | b",
    "`code` **bold** _it_ ~~gone~~",
    "<img src=x onerror=alert(1)>",
    "&copy; $x$",
    "line\nbreak\r\n# head",
    "- list",
    "+ list",
    "1. list",
    "12) list",
    "===",
    "\\",
    HOSTILE_TITLE,
    HOSTILE_ANSWER,
    f"{OVERRIDE}back",
)


@pytest.fixture(scope="module")
def data() -> ReportData:
    return report_data()


@pytest.mark.parametrize("text", ACTING)
def test_a_text_shows_as_it_is_and_does_nothing(text: str) -> None:
    found = escape_markdown(text)
    assert "\n" not in found
    assert OVERRIDE not in found
    assert not re.search(r"(?<!\\)(?:\\\\)*[`*_\[\]|<>~&$]", found), "a sign that Markdown reads"
    assert "://" not in found.replace("\\://", "")
    assert not re.search(r"www\.", found)
    assert not re.search(r"@\w", found)
    assert not re.match(r"(?:[-+#=]|\d+[.)])", found)
    shown = re.sub(r"\\(.)", r"\1", found).replace(NOWHERE, "")
    assert shown == re.sub(r"\s+", " ", text.replace(OVERRIDE, "\ufffd"))


def test_every_table_has_as_many_cells_in_each_row(data: ReportData) -> None:
    hostile = replace(data, notes=tuple(ACTING), description=HOSTILE_ANSWER)
    tables = re.findall(r"(?:^\|.*\n?)+", render_markdown(hostile), re.M)
    assert len(tables) == 3  # trust and two leaderboards
    for table in tables:
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(widths) == 1


def test_the_numbers_are_those_of_the_page(data: ReportData) -> None:
    """Of every row of the leaderboard: means, intervals, differences, costs, in their order."""
    page = render_html(data)
    board = page[page.index('id="leaderboard"') : page.index("Leaderboard on a sample of 12")]
    text = render_markdown(data)
    lines = text[text.index("## Leaderboard\n") : text.index("## Leaderboard on")].splitlines()
    rows = [line for line in lines if line.startswith("| ")][2:]
    shown = re.findall(r"<tr[ >].*?</tr>", board[board.index("<tbody>") :], re.S)
    assert len(rows) == len(shown) == 12
    for row, drawn in zip(rows, shown, strict=True):
        cells = re.sub(r"<svg.*?</svg>", "", drawn, flags=re.S)
        words = unescape(re.sub(r'<[^>]*>|data-sort="[^"]*"', " ", cells))
        of_page = NUMBER.findall(words.replace("†", " "))
        of_text = NUMBER.findall(row.replace("&lt;", "<").replace("†", " "))
        assert of_text == of_page
        assert row.split(" | ")[0].removeprefix("| ") in " ".join(words.split())


def test_the_verdict_and_the_trust_box_are_there(data: ReportData) -> None:
    text = render_markdown(data)
    shown = re.sub(r"\\(.)", r"\1", text).replace(NOWHERE, "")
    for sentence in data.verdict.sentences:
        assert sentence in shown
    assert "| ! | Coverage | look at this | from 75 % to 100 %" in shown
    assert shown.count("**(recommended)**") == 1
    assert f"**{data.verdict.sentences[0]}**" in shown


def test_the_table_holds_the_leaderboard_its_costs_and_one_recommendation(
    data: ReportData, tmp_path: Path
) -> None:
    table = export_table(data)
    assert table.select(list(LEADERBOARD)).equals(data.leaderboard)
    assert table.filter(pl.col("recommended"))["cell"].n_unique() == 1
    assert table.filter(pl.col("recommended"))["subset"].unique().to_list() == ["all"]
    rows = list(csv.DictReader(io.StringIO(csv_text(table))))
    assert [row["cell"] for row in rows] == table["cell"].to_list()
    for name in ("value", "low", "difference", "p", "seconds_p50"):
        assert [float(row[name]) if row[name] else None for row in rows] == table[name].to_list()
    path = write_csv(table, tmp_path / "rows.csv")
    assert path.read_bytes().startswith(b"\xef\xbb\xbfstudy,")


@pytest.mark.parametrize("name", ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1", "a;=1", "a\n=1"])
def test_no_cell_of_the_csv_is_a_formula(data: ReportData, name: str) -> None:
    board = data.leaderboard.with_columns(chunking=pl.lit(name))
    text = csv_text(export_table(replace(data, leaderboard=board)))
    (found,) = {row["chunking"] for row in csv.DictReader(io.StringIO(text, newline=""))}
    for cell in re.split(r"[;\t\r\n]", found):
        assert not re.match(r"\s*[=+\-@]", cell)
