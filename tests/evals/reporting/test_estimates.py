"""What people, judges and both together say, as the page, the terminal and the rows show it."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.judge_cards import (
    COLUMNS,
    PEOPLE_COLUMNS,
    estimate_json,
    estimate_sentences,
    estimates_section,
    judge_cards,
)
from rag_assay.evals.reporting.page import json_rows, other_rows, render_html
from rag_assay.evals.reporting.sections import PageHeading, Table, TableFigure
from rag_assay.evals.reporting.terminal import leaderboard_table
from rag_assay.warehouse.parquet import frame
from rag_assay.warehouse.schemas import HUMAN_ESTIMATES, JUDGE_CARDS
from tests.fakes.report_data import report_data

HOSTILE = "<b>x</b>{{ 7 }}"


def row(cell: str | None, metric: str, **more: Any) -> dict[str, Any]:
    means = {"people": 3.1, "people_low": 2.6, "people_high": 3.5, "judged": 1.25, "judged_low": 1.1}
    both = {"judged_high": 1.4, "combined": 3.0, "combined_low": 2.7, "combined_high": 3.3}
    counts = {"items": 200, "labels": 60, "judgements": 198, "left_out": 0, "saved": 33.4, "width": 0.801}
    wanted = {"share": 0.6, "wanted": 0.25, "labels_needed": 90, "rubric": "points", "study": "s"}
    return {
        **dict.fromkeys(HUMAN_ESTIMATES),
        **means,
        **both,
        **counts,
        **wanted,
        "cell": cell,
        "metric": metric,
        **more,
    }


def shown(*rows: dict[str, Any]) -> ReportData:
    return replace(report_data(), human_estimates=frame(list(rows), HUMAN_ESTIMATES))


def page_of(data: ReportData) -> str:
    return render_html(data).partition('<section id="estimates">')[2].partition("</section>")[0]


@pytest.fixture
def data() -> ReportData:
    leading = {"leader": "a.b.c.d.e", "difference": 0.0}
    behind = {"leader": "a.b.c.d.e", "difference": -0.4, "difference_low": -0.9, "difference_high": 0.1}
    nobody = dict.fromkeys(
        ("people", "people_low", "people_high", "combined", "combined_low", "combined_high", "saved", "width")
    )
    return shown(
        row(None, "rouge_l", saved=2.0),
        row(None, "small.support"),
        row("a.b.c.d.f", "small.support", combined=2.6, **behind),
        row("a.b.c.d.e", "small.support", left_out=3, **leading),
        row(HOSTILE, "small.support", **nobody, labels=0, reason="there are no ratings of its answers"),
        row("a.b.c.d.e", "rouge_l", combined=1.111),
    )


def tables(data: ReportData, labels: dict[str, str] | None = None) -> list[Table]:
    """Return the tables of one criterion: by judge, and by cell."""
    found = estimates_section(data, labels or {})
    assert found is not None
    assert [one.text for one in found.blocks if isinstance(one, PageHeading)] == ["people.points"]
    return [one for one in found.blocks if isinstance(one, Table)]


def lines(table: Table, column: int) -> list[tuple[str, ...]]:
    """Return the texts of a column with their small lines."""
    figures = [row[column] for row in table.rows]
    return [(one.text, *one.small) for one in figures if isinstance(one, TableFigure)]


def test_three_means_stand_side_by_side(data: ReportData) -> None:
    judges, _ = tables(data)
    assert lines(judges, 0) == [("small.support",), ("rouge_l",)], "what saves most first"
    assert [lines(judges, at)[0] for at in range(1, 6)] == [
        ("3.100", "2.600–3.500", "60 of 200 scored"),
        ("1.250", "1.100–1.400", "198 of 200 judged"),
        ("3.000", "2.700–3.300"),
        ("19.9 %",),
        ("33",),
    ]


def test_cells_are_by_their_estimate_and_say_how_far_they_are_apart(data: ReportData) -> None:
    _, cells = tables(data, {"a.b.c.d.e": "e"})
    assert lines(cells, 0) == [
        ("e", "3 scores left out that the queue did not draw"),
        ("a.b.c.d.f",),
        (HOSTILE, "there are no ratings of its answers"),
    ]
    assert lines(cells, 6)[:2] == [("the highest",), ("−0.400", "−0.900 to 0.100")]
    assert lines(cells, 3)[2] == ("–",)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {},
            "19.9 % narrower, as if 33 more answers had been scored. An interval of ±0.25 needs about 30 ",
        ),
        ({"labels_needed": 60}, "An interval of ±0.25 is reached."),
        ({"labels_needed": 61}, "needs about 1 further score."),
        (
            {"labels_needed": None},
            "is out of reach with these answers, all of them scored: it needs more questions.",
        ),
        ({"saved": 0.2, "width": 0.99}, "No judge makes the interval narrower."),
        ({"labels": 200, "saved": 0.0}, "scored 200. So the estimate is the mean of their scores."),
        ({"combined_low": None}, "people have scored 60. That is too few for an interval."),
    ],
)
def test_a_sentence_says_what_is_saved_and_what_is_needed(changes: dict[str, Any], said: str) -> None:
    (sentence,) = estimate_sentences(shown(row(None, "small.support", **changes)))
    assert said in sentence
    assert sentence.startswith("people.points: Of 200 answers, people have scored")


def test_the_page_shows_them_and_nothing_of_them_as_markup(data: ReportData) -> None:
    section = page_of(data)
    assert section.count("<table") == 2
    for heading in ("People alone", "Judge alone", "Combined estimate", "Scores saved"):
        assert section.count(f'<th scope="col" class="num">{heading}</th>') == 2
    assert HOSTILE not in section
    assert "&lt;b&gt;" in section
    assert 'href="#estimates"' in render_html(data)
    for nothing in (report_data(), shown()):
        assert "#estimates" not in render_html(nothing)


def test_further_cells_are_counted() -> None:
    some = [row(f"a.b.c.d.{n}", "m", combined=float(n)) for n in range(33)]
    data = shown(row(None, "m"), *some)
    assert len(tables(data)[1].rows) == 30
    assert "3 further cells left out" in page_of(data)


def test_the_rows_and_the_terminal_have_them(data: ReportData) -> None:
    written = json.loads(json_rows(data.leaderboard, other_rows(data)))
    rows = [one for one in written if one.get("estimate_of")]
    assert len(rows) == len(estimate_json(data)) == 6
    assert {one["metric"] for one in rows} == {None}, "none is taken for a score"
    assert {one["value"] for one in rows} == {None}
    assert rows[1]["judged_by"] == "small.support"
    assert (rows[1]["people"], rows[1]["judged"], rows[1]["combined"]) == (3.1, 1.25, 3.0)
    screen = StringIO()
    Console(file=screen, width=400).print(leaderboard_table(data, width=400))
    assert "People: people.points: Of 200 answers, people have scored 60." in screen.getvalue()


def test_a_card_says_of_how_many_scores_by_how_many_people_and_what_is_the_ceiling() -> None:
    def of(
        measure: str, value: float | None, part: str | None = "people.points", **more: Any
    ) -> dict[str, Any]:
        names = {
            "study": "s",
            "judge": "small",
            "metric": "support",
            "measure": measure,
            "value": value,
            "slice": part,
        }
        return {**dict.fromkeys(JUDGE_CARDS), "n": 40, **names, **more}

    cards = [
        of("labels", 40.0),
        of("people", 2.0),
        of("people_alpha", 0.61, low=0.4, high=0.8),
        of("auc", 0.8, low=0.6, high=0.9),
        of("labels", 3.0, None, n=3),
        of("auc", None, None, n=3, reason="all cases have the same label"),
        of(
            "labels",
            5.0,
            "people.tone",
            reason="uncalibrated: 20 scored answers or more tell a judge from a coin",
        ),
    ]
    data = replace(report_data(), judges={"small": "yes_no"}, judge_cards=frame(cards, JUDGE_CARDS))
    (card,) = judge_cards(data)
    assert [one.by for one in card.people] == ["people.points", "labelled cases", "people.tone"]
    figures = dict(zip((title for title, *_ in PEOPLE_COLUMNS), card.people[0].figures, strict=True))
    assert (figures["Cases"].text, figures["People"].text) == ("40", "2")
    assert figures["Their own agreement"].small == ("0.400–0.800", "n = 40", "people.points")
    assert figures["AUC"].text == "0.800"
    assert card.people[2].figures[3].why.startswith("uncalibrated: 20")
    assert card.rows[0].calibrated
    shown_auc = card.rows[0].figures[[title for title, *_ in COLUMNS].index("AUC")]
    assert (shown_auc.text, shown_auc.small[-1]) == ("0.800", "people.points")
    assert "Agreement with people" in render_html(data)
