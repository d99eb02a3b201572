"""How an answer came about, as rows, words and a box on the page that opens."""

from __future__ import annotations

import pytest

from rag_assay.evals.generation.contract import Answer, Attempt, Bin
from rag_assay.evals.reporting import limits
from rag_assay.evals.reporting.answers import AnswerSteps, steps_of, steps_of_answer, verdict_words
from rag_assay.evals.reporting.page import render_html
from rag_assay.warehouse.parquet import frame
from rag_assay.warehouse.schemas import ANSWERS, Status
from tests.evals.reporting.test_page import Page
from tests.fakes.report_data import HOSTILE_ANSWER, report_data

ATTEMPTS = (
    Attempt("Who?", ("c1", "c2"), False, "missing: the year"),
    Attempt("Who? the year", ("c1",), True),
)
BINS = (
    Bin("Text.", ("c1",), Status.OK, None, "Ann."),
    Bin("More.", ("c2", "c3"), Status.ERROR, "overloaded"),
)


def test_a_row_and_an_answer_have_the_same_steps() -> None:
    row = {
        "attempts": [
            {
                "query": one.query,
                "chunk_ids": list(one.chunks),
                "sufficient": one.sufficient,
                "reason": one.reason,
            }
            for one in ATTEMPTS
        ],
        "bins": [
            {
                "text": one.text,
                "chunk_ids": list(one.chunks),
                "status": str(one.status),
                "reason": one.reason,
                "answer": one.answer,
            }
            for one in BINS
        ],
        "turns_left_out": 2,
    }
    stored = frame([row], {name: ANSWERS[name] for name in row}).to_dicts()[0]
    answer = Answer(Status.OK, attempts=ATTEMPTS, bins=BINS, turns_left_out=2)
    assert steps_of(stored) == steps_of_answer(answer) == AnswerSteps(ATTEMPTS, BINS, 2)
    assert steps_of(stored).summary == "2 looks for passages · 2 bins · 2 turns of the conversation left out"


@pytest.mark.parametrize("row", [{}, {"attempts": None, "bins": None, "turns_left_out": None}])
def test_answers_of_earlier_versions_have_no_steps(row: dict[str, None]) -> None:
    assert steps_of(row) == AnswerSteps()
    assert AnswerSteps().summary == ""


def test_a_verdict_in_words() -> None:
    assert [verdict_words(one) for one in ATTEMPTS] == [
        "2 passages: does not suffice (missing: the year)",
        "1 passage: suffices",
    ]
    assert verdict_words(Attempt("?", (), None, "no JSON")) == "0 passages: not checked (no JSON)"


def test_steps_stand_on_the_page_in_a_box_that_opens_and_stay_text() -> None:
    html = render_html(report_data(n_questions=24))
    assert '<details class="steps"><summary>2 looks for passages · 15 bins · 3 turns' in html
    assert f"{15 - limits.BINS} further bins left out" in html
    page = Page(html)
    assert [one for one in page.all("script") if one.get("type") != "application/octet-stream"] == [{}]
    assert all((image["src"] or "").startswith("data:") for image in page.all("img"))
    assert page.text.count(HOSTILE_ANSWER[:40]) > 10
