"""What a model says beside the JSON that was wanted: read where it can be read in one way, else not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rag_assay.evals.judging.criteria import Grade, Met
from rag_assay.evals.judging.structured_calls import (
    LONGEST,
    choice_within,
    grade_within,
    mending,
    met_within,
)

READ = [
    ("Score: 4/5", 4),
    ("It is short. **Score:** 4/5.", 4),
    ("Bewertung: 3 von 5", 3),
    ("The grade is 2, for it rambles.", 2),
    ("4", 4),
    ("**4/5**", 4),
    ('{"score": 4}', 4),
    ("{'grade': 4, 'reason': 'single quotes'}", 4),
    ('{"reason": "it says "noon" twice", "grade": 5}', 5),
    ("Ｓｃｏｒｅ： ４", 4),
    ("Score: 4\n\nScore: 4 out of 5", 4),
    ("Score: 4.0", 4),
]
NOT_READ = [
    "",
    "It is good.",
    "4.5",
    "Score: 4.5/5",
    "Score: 4-5",
    "Score: 4 or 5",
    "Score: 4, grade: 2",
    "Score: 8/10",
    "80/100",
    "Score: 0",
    "Score: 6",
    "Score: 1000000000",
    "Score: NaN",
    "Score: -4",
    "Score: 4 would be too much",
    "I would not give a score of 5.",
    "A score from 1 to 5 is wanted.",
    "3 of 5 facts are there.",
    "3/5 of it is right, I think",
    "punteggio: 4",
    "Score: four",
    "score: 4" + " " * LONGEST,
]


@pytest.mark.parametrize(("text", "grade"), READ)
def test_a_grade_that_is_sure_is_read(text: str, grade: int) -> None:
    assert grade_within(text, 5) == grade


@pytest.mark.parametrize("text", NOT_READ)
def test_a_grade_that_is_not_sure_is_none(text: str) -> None:
    assert grade_within(text, 5) is None


@pytest.mark.parametrize(
    ("text", "met"),
    [
        ("met: true", True),
        ("Verdict: **No**", False),
        ("Urteil: ja.", True),
        ("No, it rambles.", False),
        ("{'met': True, 'reason': 'x'}", True),
        ("met: true\nmet: false", None),
        ("Verdict: yes. Met: no.", None),
        ("It is not met.", None),
        ("true", None),
        ("1", None),
        ("sí", None),
        ("yes" + " " * LONGEST, None),
    ],
)
def test_whether_a_criterion_is_met(text: str, met: bool | None) -> None:
    assert met_within(text) is met


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("1", "1"),
        ("Better: 2.", "2"),
        ("Winner: Answer 1", "1"),
        ('{"better": "tie"}', "tie"),
        ("**TIE**", "tie"),
        ("Better: 1. Better: 2.", None),
        ("Better: 12", None),
        ("Better: 1 or 2", None),
        ("3", None),
        ("Answer 1 is not better.", None),
        ("Both.", None),
    ],
)
def test_which_answer_is_better(text: str, choice: str | None) -> None:
    assert choice_within(text) == choice


GOOD = {"reason": "Short.", "grade": 4}


def test_json_that_is_right_is_left_alone() -> None:
    def said(text: str) -> Any:
        raise AssertionError(text)

    for text in (json.dumps(GOOD), f"```json\n{json.dumps(GOOD)}\n``` Score: 2"):
        assert mending(Grade, said)(text) is None
    assert mending(Met, lambda _: {"met": True})("Surely.") == '{"reason": "Surely.", "met": true}'
    assert mending(Met, lambda _: None)("Perhaps.") is None


@pytest.mark.timeout(30)
@pytest.mark.parametrize("sign", ["\n", "*", "score:", "the ", "{", '{"a":', "(", "4", "met "])
def test_what_is_repeated_without_end_is_read_at_once(sign: str) -> None:
    text = (sign * LONGEST)[:LONGEST]
    found = [grade_within(text, 5), met_within(text), choice_within(text)]
    assert found == [None] * 3
