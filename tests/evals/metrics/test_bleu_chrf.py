"""BLEU, chrF and exact match: by hand, in any script, and as sacrebleu and ragas measure them."""

from __future__ import annotations

import asyncio
import math
import random

import pytest
import sacrebleu

from rag_assay.evals.metrics import get_metric
from rag_assay.evals.metrics.text_overlap import Bleu, Chrf
from tests.fakes.cases import CONTEXT, answer, case, question

SCRIPTS = [
    "Паром отходит в полдень.",
    "フェリーは正午に港を出ます。",
    "渡轮中午离港",
    "เรือออกตอนเที่ยง",
    "مركب يغادر الميناء عند الظهر",
    "Die Fähre fährt über den Fluß",
    "1,500.50 euro",
    "a",
    "🛳️",
]


def value(name: str, truth: str, text: str) -> float | None:
    (score,) = get_metric(name).measure(
        [case(question=question(ground_truth=truth), answer=answer(text=text))], CONTEXT
    )
    return score.value


@pytest.mark.parametrize("name", ["bleu", "chrf", "exact_match"])
@pytest.mark.parametrize("text", SCRIPTS)
def test_equal_texts_have_1_in_every_script(name: str, text: str) -> None:
    assert value(name, text, text) == pytest.approx(1)


@pytest.mark.parametrize(
    ("truth", "text", "expected"),
    [
        # 1- to 4-grams: 4/5, 3/4, 2/3, 1/2; the lengths are equal
        ("the ferry leaves at noon", "the ferry leaves at dawn", (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** (1 / 4)),
        # 2 of 2 tokens and 1 of 1 pair: short by 3 of 5, which costs exp(1 - 5/2)
        ("the ferry leaves at noon", "the ferry", math.exp(1 - 5 / 2)),
        # 2 of 3 tokens; no pair of 2 and no triple of 1: a half of 1/2, a quarter of 1/1
        ("noon the ferry", "the noon boat", (2 / 3 * (1 / 2) / 2 * (1 / 4) / 1) ** (1 / 3)),
        ("the the the", "a boat", 0.0),
        (
            "the",
            "the the the",
            (1 / 3 * (1 / 2) / 2 * (1 / 4) / 1) ** (1 / 3),
        ),  # counted once, as it is there
        ("At noon.", "at noon.", (2 / 3 * 1 / 2 * (1 / 2) / 1) ** (1 / 3)),  # case counts
        ("正午に", "正午", math.exp(1 - 3 / 2)),
    ],
)
def test_bleu_by_hand(truth: str, text: str, expected: float) -> None:
    assert value("bleu", truth, text) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("truth", "text", "expected"),
    [
        # precision (1/2 + 0) / 2, recall the same
        ("ab", "ac", 0.25),
        # one character of each: only 1-grams; precision 1, recall 1/2: 5 x 1 x 1/2 / (4 + 1/2)
        ("ab", "a", 5 * 0.5 / 4.5),
        ("a b", "ab", 1.0),
        ("ab", "cd", 0.0),
        ("noon", "\n", None),
    ],
)
def test_chrf_by_hand(truth: str, text: str, expected: float | None) -> None:
    if expected is None:
        assert Chrf().value(truth, text) == 0
    else:
        assert value("chrf", truth, text) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("truth", "text", "expected"),
    [
        ("At noon.", "At  noon.\n", 1),
        ("Fa\u0308hre", "Fähre", 1),
        ("At noon.", "at noon.", 0),
        ("At noon.", "At noon", 0),
    ],
)
def test_exact_match(truth: str, text: str, expected: float) -> None:
    assert value("exact_match", truth, text) == expected


def test_order_and_more_than_one_case() -> None:
    cases = [
        case(question=question(ground_truth=truth), answer=answer(text=text))
        for truth, text in [("a b", "a b"), ("a b", "c"), ("a b", "a b")]
    ]
    for name in ("bleu", "chrf", "exact_match"):
        assert [score.value for score in get_metric(name).measure(cases, CONTEXT)] == pytest.approx([1, 0, 1])


WORDS = [
    "The",
    "ferry,",
    "leaves",
    "12:30.",
    "don't",
    "1,500",
    "A&amp;B",
    "re-used",
    "3-4",
    "(see",
    "Fähre)",
    "<x>",
]


def _texts(count: int) -> list[tuple[str, str]]:
    chance = random.Random(7)
    return [
        (
            " ".join(chance.choices(WORDS, k=chance.randint(1, 14))),
            " ".join(chance.choices(WORDS, k=chance.randint(1, 14))),
        )
        for _ in range(count)
    ]


def test_it_is_the_number_of_sacrebleu() -> None:
    for truth, text in [*_texts(300), ("a\nb-\nc", "a b c"), ("x.", "x")]:
        assert Bleu().value(truth, text) == pytest.approx(
            sacrebleu.sentence_bleu(text, [truth]).score / 100, abs=1e-9
        )
        assert Chrf().value(truth, text) == pytest.approx(
            sacrebleu.sentence_chrf(text, [truth]).score / 100, abs=1e-9
        )


def test_chrf_and_exact_match_are_the_numbers_of_ragas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGAS_DO_NOT_TRACK", "true")
    from ragas.metrics.collections import BleuScore, CHRFScore, ExactMatch

    for truth, text in _texts(20):
        theirs = asyncio.run(CHRFScore().ascore(reference=truth, response=text)).value
        assert value("chrf", truth, text) == pytest.approx(theirs)
        assert value("exact_match", truth, text) == asyncio.run(ExactMatch().ascore(truth, text)).value
    # Why its BLEU is not taken: a right answer of two words has none, and only the first sentence counts.
    assert asyncio.run(BleuScore().ascore(reference="At noon", response="At noon")).value == 0
    assert value("bleu", "At noon", "At noon") == pytest.approx(1)
    truth, wrong = (
        "It leaves at noon today. It is full.",
        "It leaves at noon today. Nothing else is right at all.",
    )
    assert asyncio.run(BleuScore().ascore(reference=truth, response=wrong)).value == pytest.approx(1)
    assert 0.3 < (value("bleu", truth, wrong) or 0) < 0.7


def test_a_long_text_takes_no_square_of_time() -> None:
    assert Bleu().value("noon, " * 50_000, "noon, " * 50_000) == pytest.approx(1)
