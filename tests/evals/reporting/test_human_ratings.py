"""The report's section on human ratings: figures equal those counted from the sheet by other code."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from typing import Any

import lxml.html
import polars as pl
import pytest
from rich.console import Console

from rag_assay.evals.reporting import limits
from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.human_ratings import (
    PEOPLE_COLUMNS,
    AxisSaid,
    agreement_words,
    axes_said,
    differences_words,
    people_section,
    people_sentences,
    scored_words,
)
from rag_assay.evals.reporting.page import CARD_COLUMNS, COLUMNS, json_rows, other_rows, render_html
from rag_assay.evals.reporting.rating_scores import ScoredAnswers
from rag_assay.evals.reporting.terminal import leaderboard_table
from rag_assay.evals.rubrics.points import Points
from rag_assay.evals.rubrics.rubric import Criterion, Rubric
from rag_assay.evals.study.cells import UNREAD, Cell
from tests.fakes.annotators import Habit, row
from tests.fakes.people_data import SHEET, Scored, data_of, sheet_data, sheet_rows, simulated_data
from tests.fakes.report_data import board_data

needs_sheet = pytest.mark.skipif(not SHEET.exists(), reason=f"the sheet is not there: {SHEET}")
TRIO = {"Anna": Habit(repeats=0.2), "Ben": Habit(bias=1.0, noise=0.4), "Cem": Habit(noise=2.0, repeats=0.2)}


def answers_of(data: ReportData) -> ScoredAnswers:
    assert data.people is not None
    return next(iter(data.people.criteria()))


def axes_of(data: ReportData) -> list[AxisSaid]:
    assert data.people is not None
    return axes_said(data.people, answers_of(data), data)


def text_of(html: str) -> str:
    (found,) = lxml.html.fromstring(html).xpath("//section[@id='people']")
    return " ".join(found.text_content().split())


def tables(html: str) -> list[list[list[str]]]:
    """Return the texts of the section's tables, small print left out."""
    page = lxml.html.fromstring(html)
    for small in page.xpath("//section[@id='people']//small"):
        small.drop_tree()
    return [
        [[" ".join(cell.text_content().split()) for cell in line] for line in table.xpath(".//tr")]
        for table in page.xpath("//section[@id='people']//table")
    ]


@pytest.fixture(scope="module")
def sheet() -> pl.DataFrame:
    """The sheet as polars counts it, with nothing of ours between."""
    return pl.DataFrame(
        {
            "size": [one["chunk_strategie"] for one in sheet_rows()],
            "methods": [one["retrieve_methods"] for one in sheet_rows()],
            "question": [one["question"] for one in sheet_rows()],
            "score": [float(one["Score"]) for one in sheet_rows()],
        }
    )


@needs_sheet
def test_the_answers_at_each_value_are_those_of_the_sheet(sheet: pl.DataFrame) -> None:
    axes = {one.axis: one for one in axes_of(sheet_data())}
    assert [(one["called"], tuple(one["counts"].values())) for one in axes["chunking"].levels] == [
        ("(128, 42)", (76, 6, 94)),
        ("(508, 170)", (58, 7, 111)),
        ("(256, 85)", (44, 10, 122)),
    ]
    for axis, column, count in (("chunking", "size", 3), ("retriever", "methods", 16)):
        assert len(axes[axis].levels) == count
        for level in axes[axis].levels:
            own = sheet.filter(pl.col(column) == level["called"])
            counted = Counter(own["score"].to_list())
            assert tuple(level["counts"].values()) == tuple(counted[value] for value in (5.0, 3.0, 0.0))
            assert (level["n"], level["between"]) == (len(own), 0)
            assert level["value"] == pytest.approx(own["score"].mean())
    assert set(axes) == {"chunking", "retriever"}  # there is one model


@needs_sheet
def test_the_heat_map_and_the_questions_are_those_of_the_sheet(sheet: pl.DataFrame) -> None:
    data = sheet_data()
    _, _, heat, questions, _ = tables(render_html(data))
    names = {one[axis.axis]: one["called"] for axis in axes_of(data) for one in axis.levels}
    chunkings = heat[0][1:-1]
    assert len(heat) - 2 == 16
    for retriever, *means, mean in heat[1:-1]:
        of_retriever = sheet.filter(pl.col("methods") == names[retriever])
        assert float(mean) == pytest.approx(of_retriever["score"].mean(), abs=0.0006)
        for chunking, shown in zip(chunkings, means, strict=True):
            own = of_retriever.filter(pl.col("size") == names[chunking])
            assert (own.height, float(shown)) == (11, pytest.approx(own["score"].mean(), abs=0.0006))
    page = lxml.html.fromstring(render_html(data))
    styles = page.xpath("//section[@id='people']//table[@class='heat']/tbody//td/@class")
    assert {"num h0", "num h8"} <= set(styles)
    asked = {question["question_id"]: question["question"] for question in data.questions.to_dicts()}
    ids = page.xpath("//section[@id='people']//table[@class='said-questions']/tbody//th/small/text()")
    for name, line in zip(ids, questions[1:], strict=True):
        own = sheet.filter(pl.col("question") == asked[name])
        assert (line[5], float(line[-1])) == ("48", pytest.approx(own["score"].mean(), abs=0.0006))
    means = [float(line[-1]) for line in questions[1:]]
    assert means == sorted(means)
    assert len(means) == 11


@needs_sheet
def test_no_difference_of_the_sheet_is_significant_and_it_says_how_large_one_had_to_be() -> None:
    data = sheet_data()
    assert (
        differences_words(axes_of(data))
        == "No level is significantly below the best of its axis (17 levels compared)."
    )
    for axis in axes_of(data):
        assert all(one["tied"] for one in axis.levels)
        best, least = axis.sentences
        assert "has the best mean" in best
        assert least.startswith(
            "The smallest true difference from the best that 11 questions would have shown"
        )
    answers = answers_of(data)
    assert (scored_words(answers), agreement_words(answers)) == (
        "developer gave 528 scores (5 / 3 / 0) to 528 answers, all answers of the study.",
        "The agreement of annotators is unknown: developer alone has scored.",
    )


@needs_sheet
def test_the_page_shows_the_figures_of_the_sheet(sheet: pl.DataFrame) -> None:
    chunkings, retrievers, heat, questions, annotators = tables(render_html(sheet_data()))
    assert chunkings[0] == ["Chunking", "Answers by value", "5", "3", "0", "Answers", "Mean", "Difference"]
    assert chunkings[1] == ["128-42", "", "76", "6", "94", "176", "2.261", "best"]
    assert [line[2] for line in chunkings[1:]] == ["76", "58", "44"]
    assert len(retrievers) == len(heat) - 1 == 17
    assert [line[-1] for line in questions[1:3]] == ["0.000", "0.000"]
    assert annotators[1][:2] == ["developer", "528"]
    total = sheet["score"].mean()
    assert isinstance(total, float)
    weighted = [float(line[6]) * int(line[5]) for line in chunkings[1:]]
    assert sum(weighted) / len(sheet) == pytest.approx(total, abs=0.001)


@needs_sheet
def test_the_rows_hold_the_same_and_the_terminal_says_it_in_a_line(sheet: pl.DataFrame) -> None:
    data = sheet_data()
    rows = json.loads(json_rows(data.leaderboard, other_rows(data)))
    mine = [one for one in rows if one["metric"] == "said:people.points"]
    assert all(set(one) == {*COLUMNS, *PEOPLE_COLUMNS} for one in mine)
    (size,) = [one for one in mine if one["chunking"] == "128-42" and one["retriever"] is None]
    assert size["counts"] == {"5": 76, "3": 6, "0": 94}
    assert (size["called"], size["leader"], size["tied"]) == ("(128, 42)", "128-42", True)
    combinations = [one for one in mine if one["chunking"] and one["retriever"]]
    assert sum(one["value"] * one["n"] for one in combinations) == pytest.approx(sheet["score"].sum())
    assert sum(one["question_id"] is not None for one in mine) == 11
    (alpha,) = [one for one in rows if one["metric"] == "agreement:alpha"]
    assert (alpha["value"], alpha["reason"]) == (None, "developer alone has scored")
    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    console.print(leaderboard_table(data))
    said_there = " ".join(console.export_text().split())
    assert "People by points: developer scored 528 of 528 answers, mean 1.816." in said_there
    assert len(people_sentences(data)) == 1


def test_without_rubrics_there_is_nothing_and_without_scores_a_sentence() -> None:
    bare = board_data([])
    html = render_html(bare)
    assert people_section(bare) is None
    assert people_sentences(bare) == []
    assert 'id="people"' not in html
    assert 'href="#people"' not in html
    scored = [Scored(Cell("s", "c", "e", "r", "g"), "q1", "Why?", "So.", "i1")]
    open_study = data_of(scored, [])
    html = render_html(open_study)
    wanted = "No ratings by points yet: `assay ui s --page review` opens the annotation page."
    assert text_of(html) == f"Human ratings {wanted}"
    assert people_sentences(open_study) == [wanted]
    assert not [one for one in other_rows(open_study) if one["metric"].startswith("said:")]


def test_three_annotators_have_an_agreement_habits_and_differences() -> None:
    data = simulated_data(3, 2, 1, 20, TRIO)
    words = agreement_words(answers_of(data))
    assert "Krippendorff's alpha is 0." in words
    assert "on the 120 items that two or more scored" in words
    html = render_html(data)
    *_, annotators, pairs, disputed = tables(html)
    assert [line[0] for line in annotators[1:]] == ["Anna", "Ben", "Cem"]
    assert pairs[1][0].endswith("and Cem")  # the noisy one
    assert len(pairs) == 1 + 3
    assert annotators[2][2].startswith("+")
    (chunkings, *_) = tables(html)
    assert "between" in chunkings[0]
    for axis in axes_of(data):
        for level in axis.levels:
            assert sum(level["counts"].values()) + level["between"] == level["n"]
    widths = lxml.html.fromstring(html).xpath("//section[@id='people']//td[@class='shares']/svg")
    for bar in widths:
        assert sum(float(one) for one in bar.xpath("./rect/@width")) == pytest.approx(120.0, abs=0.1)
    assert len(disputed) == 1 + limits.PEOPLE_DISPUTED
    assert re.search(r"\d+ further items left out", text_of(html))
    values = lxml.html.fromstring(html).xpath("//section[@id='people']//td[@class='opinions']")
    assert all(len(set(one.xpath(".//li/b/text()"))) > 1 for one in values)
    ids = lxml.html.fromstring(html).xpath("//@id")
    links = lxml.html.fromstring(html).xpath("//section[@id='people']//a/@href")
    assert len(ids) == len(set(ids))
    assert links
    assert {link.removeprefix("#") for link in links} <= set(ids)


def planted(effect: float) -> ReportData:
    """A study of two retrievers, one of which is better by so many points with most questions."""
    scored, scores = [], []
    for n in range(40):
        for retriever in ("good", "bad"):
            cell = Cell("s", "c", "e", retriever, "g")
            one = Scored(cell, f"q{n}", f"What is {n}?", "It is.", f"{retriever} {n}")
            scored.append(one)
            value = 5.0 if (n % 4 == 0) or (retriever == "good" and n % 10 < effect) else 0.0
            scores.append(row("Anna", one.item, value, question_id=one.question_id))
    return data_of(scored, scores)


def test_a_planted_difference_is_found_and_none_is_not() -> None:
    axes = axes_of(planted(5))
    assert (
        differences_words(axes)
        == "1 of 1 level is significantly below the best of the axis: bad (retriever, −1.750)."
    )
    (axis,) = axes
    assert axis.levels[0]["retriever"] == "good"
    assert axis.levels[1]["p"] < 0.05
    assert not axis.levels[1]["tied"]
    assert differences_words(axes_of(planted(0))).endswith("(1 level compared).")


def test_levels_that_meet_in_no_context_are_not_compared() -> None:
    cells = [Cell("s", "small", "e", "bm25", "g"), Cell("s", "large", "e", "dense", "g")]
    scored = [Scored(cell, f"q{n}", "?", "!", f"{cell.key} {n}") for cell in cells for n in range(12)]
    data = data_of(scored, [row("Anna", one.item, 5.0 * (at % 2)) for at, one in enumerate(scored)])
    axes = axes_of(data)
    assert differences_words(axes) == "No two levels of an axis could be compared."
    assert all("cannot be compared" in axis.sentences[0] for axis in axes)
    assert all("difference" not in level for axis in axes for level in axis.levels)
    assert "not compared: too few answers in equal contexts" in render_html(data)


def test_a_generator_without_a_ranking_has_its_row_and_is_not_compared() -> None:
    cells = [Cell("s", "c", "e", r, "g") for r in ("bm25", "dense")]
    cells += [Cell("s", UNREAD, UNREAD, UNREAD, "closed")]
    scored = [Scored(cell, f"q{n}", "?", "!", f"{cell.key} {n}") for cell in cells for n in range(12)]
    found = axes_of(data_of(scored, [row("Anna", one.item, 5.0) for one in scored]))
    axes = {one.axis: one for one in found}
    assert [(one["generator"], one["n"]) for one in axes["generator"].levels] == [("closed", 12), ("g", 24)]
    assert set(axes) == {"generator", "retriever"}


def test_one_score_counts_for_all_cells_with_the_item_and_a_part_is_a_part() -> None:
    cells = [Cell("s", "c", "e", r, "g") for r in ("bm25", "dense")]
    scored = [Scored(cell, f"q{n}", "?", "!", f"i{n}") for cell in cells for n in range(12)]
    data = data_of(scored, [row("Anna", f"i{n}", 3.0) for n in range(6)])
    assert scored_words(answers_of(data)) == (
        "Anna gave 6 scores (5 / 3 / 0) to 12 answers, 50 % of the study's 24; equal answers with equal "
        "passages were scored once, 6 items in all."
    )
    (axis,) = axes_of(data)
    assert [tuple(one["counts"].values()) for one in axis.levels] == [(0, 6, 0), (0, 6, 0)]
    assert axis.levels[0]["value"] == 3.0


class Two(Rubric):
    """A rubric of two criteria."""

    kind = "two"

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        return tuple(Criterion(name, f"Is it {name}?", {1.0: "yes", 0.0: "no"}) for name in ("brief", "kind"))


def test_further_criteria_fold_out_and_one_without_scores_says_so() -> None:
    scored = [Scored(Cell("s", "c", "e", "r", "g"), f"q{n}", "?", "!", f"i{n}") for n in range(6)]
    scores = [
        row(name, f"i{n}", float(n % 2), rubric="two", criterion=criterion)
        for criterion in ("brief", "kind")
        for name in ("Anna", "Ben")
        for n in range(6)
    ]
    data = data_of(scored, scores, {"two": Two(), "points": Points()})
    shown = text_of(render_html(data))
    assert shown.index("two, brief") < shown.index("two, kind") < shown.index("No ratings by points yet")
    html = render_html(data)
    assert len(lxml.html.fromstring(html).xpath("//section[@id='people']/details[@class='criterion']")) == 1
    ids = lxml.html.fromstring(html).xpath("//@id")
    assert len(ids) == len(set(ids))


HOSTILE = "<img src=x onerror=alert(1)></td>{{ 7*7 }}\u202e\x00 ../../etc/passwd " + "long " * 900


def test_comments_names_and_answers_cannot_become_markup() -> None:
    cell = Cell("s", "<script>alert(2)</script>", "e", "{{ r }}", "g")
    scored = [Scored(cell, "q<b>1", HOSTILE, HOSTILE, "i1")]
    scores = [
        row("<b>Anna</b>", "i1", 5.0, comment=HOSTILE),
        row("Ben {% x %}", "i1", 0.0, comment="=1+1"),
    ]
    html = render_html(data_of(scored, scores, called={("chunking", cell.chunking): "<i>"}))
    page = lxml.html.fromstring(html)
    assert not page.xpath("//section[@id='people']//img | //section[@id='people']//script")
    assert not page.xpath("//section[@id='people']//@style")
    assert "<b>Anna</b>" in text_of(html)
    assert "{{ 7*7 }}" in text_of(html)
    assert "\u202e" not in html
    assert "\x00" not in html
    assert text_of(html).count("long") < 400


def test_a_large_study_stays_small_and_says_what_is_left_out() -> None:
    many = {f"person {n}": Habit(seen=0.1, repeats=0.0) for n in range(limits.PEOPLE_ANNOTATORS + 3)}
    data = simulated_data(2, limits.PEOPLE_LEVELS + 2, 1, limits.PEOPLE_QUESTIONS + 5, many)
    noted = data.people.scores.with_columns(comment=pl.lit("Because."))  # type: ignore[union-attr]
    data = replace(data, people=replace(data.people, scores=noted))  # type: ignore[type-var]
    assert len(axes_of(data)[1].levels) == limits.PEOPLE_LEVELS + 2
    html = render_html(data)
    assert len(html) < 250_000
    shown = text_of(html)
    *_, questions, annotators, pairs, _ = (len(one) - 1 for one in tables(html))
    assert (questions, annotators, pairs) == (
        limits.PEOPLE_QUESTIONS,
        limits.PEOPLE_ANNOTATORS,
        limits.PEOPLE_PAIRS,
    )
    comments = lxml.html.fromstring(html).xpath("//section[@id='people']//ul[@class='comments']/li")
    assert len(comments) == limits.PEOPLE_COMMENTS
    for what in (
        "2 further levels left out",
        "5 further questions",
        "3 further annotators",
        "further pairs left out",
        "shorter comments",
    ):
        assert what in shown
    rows: list[dict[str, Any]] = other_rows(data)
    assert sum(one.get("question_id") is not None for one in rows) == limits.PEOPLE_QUESTIONS + 5
    assert all("judge" not in one or set(CARD_COLUMNS) <= set(one) for one in rows)
