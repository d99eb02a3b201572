"""The trust box and the verdict: each line's state, and no winner below the gate."""

from __future__ import annotations

from dataclasses import replace
from html import unescape

import polars as pl
import pytest

from rag_assay.evals.reporting.data import ChunkingFacts, Duplicates, ReportData
from rag_assay.evals.reporting.page import render_html
from rag_assay.evals.reporting.stored_rows import UNCALIBRATED
from rag_assay.evals.reporting.trust import SIGNS, TrustLine, trust_lines
from rag_assay.evals.successive_halving.records import SearchRecord
from rag_assay.warehouse.schemas import Status
from tests.fakes.report_data import SIMILARITY, decided, report_data


@pytest.fixture(scope="module")
def data() -> ReportData:
    return report_data()


def line(data: ReportData, name: str) -> TrustLine:
    (found,) = [one for one in trust_lines(data) if one.name == name]
    return found


def test_questions_with_their_gold_and_types(data: ReportData) -> None:
    found = line(data, "Questions")
    assert found.state == "look"
    assert found.text.startswith("40 questions: 40 with evidence, 40 with a ground truth; by type 10 × defin")
    lost = data.questions.filter(
        ~pl.col("evidence").list.eval(pl.element().struct.field("doc_id").is_not_null()).list.any()
    ).height
    assert f"the evidence of {lost} is in no document" in found.text
    assert line(replace(data, questions=data.questions.head(3)), "Questions").text.endswith(
        "only large differences are significant"
    )
    assert line(replace(data, questions=data.questions.clear()), "Questions").state == "wrong"


def test_coverage_and_gate(data: ReportData) -> None:
    assert line(data, "Coverage").state == "look"
    assert line(data, "Coverage").text.startswith("from 75 % to 100 %"), "the sample's cells too"
    assert "values of nDCG@10 missing: 7 × error" in line(data, "Coverage").text
    assert line(data, "Gate").text.endswith("11 cells passed, 1 did not and cannot win")
    whole = data.leaderboard.filter(pl.col("rank").is_not_null())
    assert line(replace(data, leaderboard=whole), "Gate").state == "ok"


def test_coverage_names_every_cell_below_the_gate(data: ReportData) -> None:
    """Also one that another metric or its answers lack, or that only a sample was asked of."""
    whole = data.leaderboard.with_columns(coverage=pl.lit(1.0), answered=pl.lit(1.0))
    found = line(replace(data, leaderboard=whole), "Coverage")
    assert (found.state, found.text.partition(";")[0]) == (
        "ok",
        "100 % of the questions have a value and an answer, in every cell",
    )
    cell = "energy.articles.minilm.bm25.extractive"
    mine = pl.col("cell") == cell
    silent = whole.with_columns(answered=pl.when(mine).then(1 / 3).otherwise("answered"))
    found = line(replace(data, leaderboard=silent), "Coverage")
    assert found.state == "look"
    assert "below 98 %: articles · bm25 · extractive 33.3 % (answers)" in found.text
    lacking = mine & (pl.col("metric") == "semantic_similarity")
    gaps = whole.with_columns(coverage=pl.when(lacking).then(0.5).otherwise("coverage"))
    found = line(replace(data, leaderboard=gaps), "Coverage")
    assert "below 98 %: articles · bm25 · extractive 50 % (Semantic similarity)" in found.text
    exempt = frozenset({(cell, "semantic_similarity")})
    assert line(replace(data, leaderboard=gaps, unmeasured=exempt), "Coverage").state == "ok"
    sampled = whole.with_columns(
        answered=pl.when(pl.col("generator") == "small").then(0.5).otherwise("answered")
    )
    found = line(replace(data, leaderboard=sampled), "Coverage")
    assert "small 50 % (answers)" in found.text
    assert found.text.count("small 50 %") == 5
    assert "and 7 more" in found.text, "so many are named, and the others counted"
    empty = line(replace(data, leaderboard=whole.with_columns(value=pl.lit(None, pl.Float64))), "Coverage")
    assert (empty.state, empty.text) == ("wrong", "no cell has a value of nDCG@10")


def test_below_the_gate_there_is_no_winner_anywhere(data: ReportData) -> None:
    below = data.leaderboard.with_columns(
        coverage=pl.lit(0.9), rank=pl.lit(None, pl.Int64), tie_group=pl.lit(None, pl.Int64)
    )
    none = replace(data, leaderboard=below)
    assert line(none, "Gate").state == "wrong"
    assert line(none, "Enough questions").state == "wrong"
    none = replace(none, verdict=decided("energy", below, data.metrics))
    assert none.verdict.recommended is None
    assert "Use " not in render_html(none).partition('id="leaderboard"')[0]


def test_cells_planned_run_failed_and_not_tried(data: ReportData) -> None:
    assert line(data, "Cells").state == "ok"
    board = data.leaderboard
    one = board["cell"][0]
    gone = board.with_columns(cell_id=pl.when(pl.col("cell") == one).then(None).otherwise(pl.col("cell_id")))
    found = line(replace(data, leaderboard=gone, planned=30), "Cells")
    cells = board["cell"].n_unique()
    assert found.text == f"{cells - 1} of 30 planned cells run, 1 failed, {30 - cells} not tried"
    rows = [{"rule": "kept"}, {"rule": "budget"}, {"rule": "significance"}]
    searched = line(replace(data, search=SearchRecord("recipe", (), rows)), "Cells")
    assert (searched.state, searched.section) == ("look", "left-out")
    assert searched.text.endswith("; of the grid, the search left out 2 more")
    assert found.state == "look"


def test_truncation_of_chunks_and_answers(data: ReportData) -> None:
    assert line(data, "Truncation").state == "ok"
    cut = data.answers.with_columns(
        status=pl.when(pl.int_range(pl.len()) < 3).then(pl.lit(Status.TRUNCATED.value)).otherwise("status")
    )
    long = ChunkingFacts("long", "", 10, 300.0, 300.0, 400, 7)
    found = line(replace(data, answers=cut, chunkings=(*data.chunkings, long)), "Truncation")
    assert (found.state, found.section) == ("look", "corpus")
    assert found.text.startswith("7 chunks of long longer than the embedder reads; 3 answers cut")


@pytest.mark.parametrize(
    ("duplicates", "state", "text"),
    [
        (Duplicates(0, 0, 0, 0.9), "ok", "no document is a copy of another"),
        (Duplicates(0, 0, 0, None), "ok", "near copies were not looked for"),
        (Duplicates(1, 2, 3, 0.9), "ok", "3 documents that are copies of another (1 exact, 2 near) left out"),
        (Duplicates(1, 0, 0, None), "look", "1 document that is a copy of another (1 exact, 0 near) kept"),
    ],
)
def test_duplicates(data: ReportData, duplicates: Duplicates, state: str, text: str) -> None:
    found = line(replace(data, duplicates=duplicates), "Duplicates")
    assert found.state == state
    assert text in found.text


def test_judges_that_nobody_has_calibrated(data: ReportData) -> None:
    assert line(data, "Judges").state == "ok"
    judged = replace(SIMILARITY, name="small.supported")
    open_one = replace(judged, title=f"Supported ({UNCALIBRATED})")
    others = data.metrics[1:]
    asked = replace(data, judges={"small": "yes_no"})
    assert line(replace(asked, metrics=(*data.metrics, judged)), "Judges").state == "ok"
    assert line(replace(asked, metrics=(*data.metrics, open_one)), "Judges").state == "look"
    assert line(replace(asked, metrics=(open_one, *others)), "Judges").state == "wrong"


def test_every_line_has_a_sign_a_word_and_a_section_of_the_page(data: ReportData) -> None:
    page = render_html(data)
    for one in trust_lines(data):
        assert f'id="{one.section}"' in page
        assert f'<a href="#{one.section}">{one.name}</a> <b class="state">{one.word}</b>' in page
        assert SIGNS[one.state] in page


def test_the_verdict_stands_on_the_page_and_marks_its_row(data: ReportData) -> None:
    page = render_html(data)
    assert data.verdict.recommended is not None
    (row,) = [part for part in page.split("<tr")[1:] if "taken-mark" in part.partition("</tr>")[0]]
    for part in data.verdict.recommended.label.split(" · "):
        assert f'data-name="{part}"' in row
    for sentence in data.verdict.sentences:
        assert sentence in unescape(page.replace("<wbr>", ""))
