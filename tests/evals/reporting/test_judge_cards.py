"""How far judges can be trusted, as the page, the terminal and the rows show it."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from typing import Any

import polars as pl
import pytest
from rich.console import Console

from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.reporting.judge_cards import (
    COLUMNS,
    PEOPLE_COLUMNS,
    card_rows,
    judge_cards,
    judge_sentences,
)
from rag_assay.evals.reporting.page import json_rows, render_html
from rag_assay.evals.reporting.stored_rows import calibrated_metrics
from rag_assay.evals.reporting.terminal import leaderboard_table
from rag_assay.warehouse.parquet import frame
from rag_assay.warehouse.schemas import JUDGE_CARDS
from tests.fakes.report_data import report_data

HOSTILE = "<b>x</b>"


def row(judge: str, metric: str | None, measure: str, value: float | None, **more: Any) -> dict[str, Any]:
    names = {"study": "s", "judge": judge, "metric": metric, "measure": measure, "value": value}
    return {**dict.fromkeys(JUDGE_CARDS), "n": 40, **names, **more}


CARDS = [
    row("small", "support", "parse_rate", 0.95, low=0.9, high=0.98, n=120),
    row("small", "support", "flip_rate", None, reason=f"no case was judged twice {HOSTILE}"),
    row("small", "support", "labels", 0.0, reason="uncalibrated: there are no labelled cases of it"),
    row("small", "support", "caught", 0.75, low=0.6, high=0.86),
    row("small", "support", "caught", 0.5, slice="numbers", low=0.2, high=0.8, n=8),
    row("small", "support", "tied", 0.25, slice="numbers", n=8),
    row("small", "support", "caught", None, slice="names", n=0, reason="8 not made: no name"),
    row("small", None, "calls_per_1000", 1000.0),
    row("small", None, "prompt_tokens_per_1000", 350_000.0),
    row("small", None, "completion_tokens_per_1000", 1_000.0),
    row("small", None, "seconds_per_1000", 412.0),
    row("small", None, "usd_per_1000", 0.12345),
    row("large", "support", "auc", 0.86, low=0.8, high=0.9),
    row("large", "support", "length_bias", 0.4, slice="equal labels", low=0.1, high=0.6),
    row("large", "support", "length_bias", 0.6, low=0.2, high=0.8),
    row("large", "agreement", "labels", 0.0),
    row("gone", "support", "auc", 0.5),
]


@pytest.fixture
def data() -> ReportData:
    found = report_data()
    info = MetricInfo("large.support", "Support by large", "answer", True, (0.0, 1.0), "", "")
    return replace(
        found,
        metrics=(*found.metrics, info),
        judges={"small": "yes_no, local/tiny", "large": f"criteria {HOSTILE}"},
        judge_cards=frame(CARDS, JUDGE_CARDS),
    )


def test_cards_are_those_of_the_judges_of_now_in_their_order(data: ReportData) -> None:
    small, large = judge_cards(data)
    assert (small.judge, large.judge) == ("small", "large")
    assert (small.calibrated, large.calibrated) == (False, False)
    assert [one.calibrated for one in large.rows] == [True, False]
    assert small.sentence.startswith("It is uncalibrated")
    assert large.sentence.startswith("Agreement is uncalibrated")
    assert calibrated_metrics(frame(CARDS, JUDGE_CARDS)) == {"large.support", "gone.support"}


def test_a_figure_has_its_interval_its_cases_or_its_reason(data: ReportData) -> None:
    small, large = judge_cards(data)
    figures = dict(zip((title for title, *_ in COLUMNS), small.rows[0].figures, strict=True))
    assert (figures["Gives a number"].text, figures["Gives a number"].small) == (
        "95 %",
        ("90–98 %", "n = 120"),
    )
    assert figures["Changes its mind"].text == "–"
    assert "no case was judged twice" in figures["Changes its mind"].why
    assert figures["AUC"].why == "no labelled cases"
    assert [kind for kind, _ in small.kinds] == ["numbers", "names"]
    numbers, names = small.rows[0].caught
    assert numbers.small == ("20–80 %", "n = 8", "25 % as high")
    assert names.why == "8 not made: no name"
    length = large.rows[0].figures[[title for title, *_ in COLUMNS].index("Length")]
    assert (length.text, length.small) == ("0.400", ("0.100–0.600", "n = 40", "equal labels"))
    assert small.costs == (
        "1\u202f000 cases, judged once by all of its metrics: "
        "1\u202f000 calls, 351\u202f000 tokens, 412 s, US$\u00a00.1235."
    )
    assert large.costs == ""


def test_the_page_shows_the_cards_and_nothing_of_them_as_markup(data: ReportData) -> None:
    page = render_html(data)
    section = page.partition('<section id="judges">')[2].partition("</section>")[0]
    assert "How far the judges can be trusted" in section
    assert section.count('class="uncalibrated"') >= 3
    assert HOSTILE not in section
    assert "&lt;b&gt;" in section
    assert 'href="#judges"' in page
    assert 'id="judges"' not in render_html(replace(data, judge_cards=None))
    assert 'id="judges"' not in render_html(replace(data, judges={}))


def test_the_terminal_has_a_line_a_judge(data: ReportData) -> None:
    assert judge_sentences(data)[0] == (
        "small, yes_no, local/tiny: Support (uncalibrated): a value for 95 %, detects 75 %."
    )
    console = Console(width=100, record=True, file=StringIO())
    console.print(leaderboard_table(data))
    shown = " ".join(console.export_text().split())
    assert "Judge small, yes_no, local/tiny: Support (uncalibrated)" in shown


LABELLED = [
    row("small", "support", "labels", 40.0),
    row("small", "support", "auc", 0.463, low=0.33, high=0.6),
    row("small", "support", "accuracy", None, reason="by its AUC it is no better than chance"),
    row("small", "support", "parse_rate", 0.95),
    row("large", "support", "labels", 40.0),
    row("large", "support", "auc", 0.86, low=0.8, high=0.9),
    row(
        "large",
        "support",
        "accuracy",
        0.75,
        low=0.6,
        high=0.85,
        reason="good from 0, the middle of its range",
    ),
]


def test_auc_leads_and_a_coin_is_called_one(data: ReportData) -> None:
    labelled = replace(data, judge_cards=frame(LABELLED, JUDGE_CARDS))
    small, large = judge_cards(labelled)
    assert [title for title, *_ in COLUMNS][:2] == ["AUC", "Gives a number"]
    assert [title for title, *_ in PEOPLE_COLUMNS][:2] == ["AUC", "Accuracy"]
    assert small.sentence.startswith("By the labels that there are, Support is no better than chance.")
    assert "coin" not in large.sentence
    assert [one.text for one in small.people[0].figures[:2]] == ["0.463", "–"]
    accuracy = large.people[0].figures[1]
    assert (accuracy.text, accuracy.small) == (
        "75 %",
        ("60–85 %", "n = 40", "good from 0, the middle of its range"),
    )
    first, second = judge_sentences(labelled)
    assert "Support: AUC 0.463 [0.330–0.600] (no better than chance), a value for 95 %." in first
    assert "Support: AUC 0.860 [0.800–0.900]." in second
    page = render_html(labelled).partition('<section id="judges">')[2].partition("</section>")[0]
    assert page.count('<small><span class="uncalibrated">no better than chance</span></small>') == 1
    assert page.index(">AUC<") < page.index(">Gives a number<")


def test_an_auc_without_an_interval_is_a_coin(data: ReportData) -> None:
    same = [row("small", "support", "auc", 0.5, reason="all scores are the same")]
    (card,) = judge_cards(replace(data, judge_cards=frame(same, JUDGE_CARDS)))
    assert card.rows[0].coin
    people = [*same, row("small", "support", "auc", 0.8, low=0.6, high=0.9, slice="people.points")]
    (card,) = judge_cards(replace(data, judge_cards=frame(people, JUDGE_CARDS)))
    assert not card.rows[0].coin, "the answers that people scored show that it is none"


def test_the_rows_of_cards_come_last_and_name_their_judge(data: ReportData) -> None:
    rows = json.loads(json_rows(data.leaderboard, card_rows(data)))
    board, cards = rows[: len(data.leaderboard)], rows[len(data.leaderboard) :]
    assert not any("judge" in one for one in board)
    assert len(cards) == len(CARDS)
    assert cards[0]["judge"] == "small"
    assert (cards[0]["metric"], cards[0]["measure"], cards[0]["value"]) == (
        "small.support",
        "parse_rate",
        0.95,
    )
    assert cards[7]["metric"] is None
    assert isinstance(data.judge_cards, pl.DataFrame)
