from __future__ import annotations

import dataclasses
import io

import pytest
from rich.console import Console

from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.terminal import leaderboard_table
from tests.fakes.report_data import board_data, report_data


@pytest.fixture(scope="module")
def data() -> ReportData:
    return report_data()


def printed(data: ReportData, width: int, **options: int) -> str:
    console = Console(width=width, color_system=None, file=io.StringIO())
    with console.capture() as captured:
        console.print(leaderboard_table(data, width, **options))
    return captured.get()


@pytest.mark.parametrize("width", [60, 80, 120, 160])
def test_no_line_is_wider_than_the_terminal(data: ReportData, width: int) -> None:
    assert max(len(line.rstrip()) for line in printed(data, width).splitlines()) <= width


def test_the_verdict_comes_last_and_is_that_of_the_report(data: ReportData) -> None:
    decision, *why = data.verdict.sentences
    last = printed(data, 2000).rstrip("\n").split("\n")[-2:]
    assert [" ".join(line.split()) for line in last] == [decision, " ".join(why)]


def test_the_leaderboard_and_the_verdict_fill_the_last_screen(data: ReportData) -> None:
    lines = printed(data, 100).rstrip("\n").split("\n")[-30:]
    text = "\n".join(lines)
    assert "All questions (40 questions)" in text
    assert data.verdict.sentences[0] in text
    assert len([line for line in lines if "[" in line and "100 %" in line]) >= 8


def test_the_primary_metric_stands_unbroken_with_its_interval(data: ReportData) -> None:
    for width in (80, 120):
        board = printed(data, width).partition("All questions")[2].partition(data.verdict.sentences[0])[0]
        lines = [line for line in board.splitlines() if "tokens-256-84" in line and "[" in line]
        assert any("0.452 [0.360–0.583]" in line for line in lines)
        assert all("100 %" in line for line in lines)


def test_a_wider_terminal_shows_more_metrics_and_a_narrow_one_names_the_rest(data: ReportData) -> None:
    narrow, wide = printed(data, 80), printed(data, 120)
    assert "Not shown here: Semantic similarity, Latency, Tokens." in narrow
    assert "Not shown here" not in wide
    assert "similarity" in wide


def test_a_cell_without_coverage_is_marked_and_unranked(data: ReportData) -> None:
    (line,) = [
        line
        for line in printed(data, 120).partition("All questions")[2].splitlines()
        if "†" in line and "87.5 %" in line
    ]
    assert line.split()[0] == "–"
    assert "0.298† {0.260–0.385}" in line


def test_coverage_is_a_column_where_a_cell_has_gaps(data: ReportData) -> None:
    assert "coverage" in printed(data, 120).partition("All questions")[2].splitlines()[3]
    rows = [{"chunking": name, "value": 0.5, "low": 0.4, "high": 0.6, "rank": 1} for name in ("a", "b")]
    board = printed(board_data(rows), 120).partition("All questions")[2]
    assert "coverage" not in board.partition("─")[0].split()
    assert "100 %" not in board


def test_what_is_tied_is_marked(data: ReportData) -> None:
    text = printed(data, 120)
    marked = [line.split()[0] for line in text.splitlines() if line.strip().startswith("≈") and "[" in line]
    assert marked == [f"≈{rank}" for rank in range(2, 2 + len(marked))]
    assert 0 < len(marked) < 10
    assert "≈ tied with the leader (not significantly different) by a paired permutation test" in " ".join(
        text.split()
    )


def test_there_is_one_table_and_smaller_samples_have_a_line(data: ReportData) -> None:
    text = printed(data, 120)
    heads = [line for line in text.splitlines() if line.strip() and set(line) <= {" ", "─"}]
    assert len(heads) == 1
    (line,) = [line for line in text.splitlines() if line.startswith("Sample of 12")]
    assert "in the report; first " in line


def test_many_notes_are_counted() -> None:
    row = {"chunking": "a", "value": 0.5, "low": 0.4, "high": 0.6, "rank": 1}
    notes = tuple(f"note {n} " + "x" * 500 for n in range(9))
    text = printed(dataclasses.replace(board_data([row]), notes=notes), 120)
    assert text.count("Note: ") == 3
    assert "6 further notes in the report." in text


def test_a_long_board_counts_what_it_leaves_out(data: ReportData) -> None:
    assert "9 further pipelines in the report." in printed(data, 120, rows=3)


def test_names_are_text_and_not_terminal_markup() -> None:
    row = {"chunking": "[red]a[/red]\x1b[31m", "value": 0.5, "low": 0.4, "high": 0.6, "rank": 1}
    text = printed(dataclasses.replace(board_data([row]), notes=("[bold]note[/bold]",)), 120)
    assert "[red]a[/red]" in text
    assert "[bold]note[/bold]" in text
    assert "\x1b" not in text
