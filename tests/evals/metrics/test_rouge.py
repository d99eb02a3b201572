"""ROUGE-L in any script: equal texts are equal, and English is measured as ragas measures it."""

from __future__ import annotations

import asyncio
import random

import pytest

from rag_assay.evals.metrics.text_overlap import RougeL, rouge_tokens
from tests.fakes.cases import CONTEXT, answer, case, question


def value(truth: str, text: str) -> float | None:
    (score,) = RougeL().measure(
        [case(question=question(ground_truth=truth), answer=answer(text=text))], CONTEXT
    )
    return score.value


@pytest.mark.parametrize(
    "text",
    [
        "Паром отходит в полдень.",
        "フェリーは正午に港を出ます。",
        "渡轮中午离港",
        "เรือออกตอนเที่ยง",
        "연락선은 정오에 항구를 떠난다",
        "مركب يغادر الميناء عند الظهر",
        "नौका दोपहर को बंदरगाह छोड़ती है",
        "Το πλοίο φεύγει το μεσημέρι",
        "Die Fähre fährt über den Fluß",
        "Ελλάδα 2024",
        "١٢٣",
        "a",
    ],
)
def test_equal_texts_have_1_in_every_script(text: str) -> None:
    assert value(text, text) == pytest.approx(1)


@pytest.mark.parametrize(
    ("truth", "text", "expected"),
    [
        ("Паром отходит в полдень", "Катер отходит в полдень", 3 / 4),
        ("正午に出る", "夜に出る", 2 * (3 / 4) * (3 / 5) / (3 / 4 + 3 / 5)),  # に, 出, る of 4 and of 5
        ("Die Fähre fährt", "Die Fahrt fährt", 2 / 3),  # `f` and `hre` are no words
        ("Паром", "Катер", 0),
        ("Straße", "STRASSE", 1),
        ("Fa\u0308hre", "Fähre", 1),  # a letter and its mark, or one sign
        ("ＡＢＣ１２３", "abc123", 1),  # full width
        ("snake_case", "snake case", 1),
    ],
)
def test_by_hand(truth: str, text: str, expected: float) -> None:
    assert value(truth, text) == pytest.approx(expected)


def test_umlauts_do_not_cut_words() -> None:
    assert rouge_tokens("Öffentliche Grünfläche") == ["öffentliche", "grünfläche"]


@pytest.mark.parametrize("truth", ["…", "🛳️", " — "])
def test_a_truth_without_a_word_is_no_question_for_it(truth: str) -> None:
    assert not RougeL().applies(question(ground_truth=truth))
    assert RougeL().applies(question(ground_truth="noon"))


def test_an_answer_without_a_word_shares_none() -> None:
    assert value("noon", "🛳️") == 0


def test_texts_in_ascii_are_measured_as_by_ragas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGAS_DO_NOT_TRACK", "true")
    from ragas.metrics.collections import RougeScore

    chance = random.Random(7)
    words = ["The", "ferries", "leaving", "harbours", "12:30,", "don't", "they?", "re-used", "_x_", "KEEPERS"]
    metric = RougeScore(rouge_type="rougeL", mode="fmeasure")
    for _ in range(40):
        truth, text = (" ".join(chance.choices(words, k=chance.randint(1, 12))) for _ in "ab")
        theirs = asyncio.run(metric.ascore(reference=truth, response=text)).value
        assert value(truth, text) == pytest.approx(theirs), (truth, text)
