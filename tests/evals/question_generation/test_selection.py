"""Which candidates are asked: their evidence stands there once, none repeats another, few are easy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from rag_assay.evals.question_generation.generator import (
    AGAIN,
    LOST,
    MOST,
    EvidenceIndex,
    FirstPlaces,
    Near,
    chosen,
    group_titles,
    in_turn,
    passages_in,
    verify_questions,
)
from rag_assay.evals.question_generation.texts import Drop, QuestionCandidate, Quote, Tally
from tests.evals.question_generation.texts import text

WORDS = ["anchor", "berth", "canal", "dock", "eddy", "fairway", "gale", "harbour"]


def near(number: int) -> Near:
    """Vectors that have nothing to do with each other."""
    vectors = np.eye(number, dtype=np.float32)
    return Near([str(at) for at in range(number)], lambda asked: vectors[[int(one) for one in asked]])


def question(number: int, words: str, quote: str | None = None) -> QuestionCandidate:
    evidence = (Quote(f"s:{number}.md", "s", f"{number}.md", quote),)
    return QuestionCandidate("title", words, "en", evidence)


def body(number: int) -> str:
    first, second = WORDS[number % 8], WORDS[number // 8 % 8]
    return f"Every {first} and {second} has the number {number}x{number}, says the list of the harbour."


def corpus(number: int) -> tuple[list[QuestionCandidate], EvidenceIndex, list[Tally]]:
    """So many documents, and of each a question in words of its own (easy), or of no document (hard)."""
    texts = [text(body(n), name=f"{n}.md", language="en") for n in range(number)]
    words = [f"{n}x{n} {WORDS[n % 8]}" if n % 2 else f"unheard{n} of{n}" for n in range(number)]
    candidates = [question(n, words[n], body(n)) for n in range(number)]
    return candidates, EvidenceIndex(candidates, lambda: texts, 7), [Tally()]


def asked(number: int, n: int) -> tuple[Sequence[QuestionCandidate], Tally]:
    candidates, evidence, (tally,) = corpus(number)
    return chosen(candidates, near(number), evidence, n, number, tally), tally


def test_a_third_is_easy_and_what_is_left_out_is_counted() -> None:
    found, tally = asked(120, 60)
    easy = [one for one in found if "x" in one.question]
    assert (len(found), len(easy)) == (60, 20)
    assert tally.dropped[Drop("title", "search by words finds it at once")] >= 20
    found, _ = asked(120, 1_000)
    easy = [one for one in found if "x" in one.question]
    assert (len(found), len(easy)) == (90, 30), "60 are not easy: half as many easy ones come to them"


def test_a_small_corpus_keeps_easy_ones_rather_than_nothing() -> None:
    found, _ = asked(10, 100)
    assert len(found) == 10
    found, _ = asked(30, 100)
    assert len(found) == 22, "15 that are not easy, and about half as many that are"


def test_evidence_must_stand_there_once() -> None:
    texts = [text(body(0), name="0.md"), text(f"{body(1)}\n\n{body(1)}", name="1.md")]
    candidates = [question(0, "one two", "not there at all"), question(1, "three four", body(1))]
    tally = Tally()
    assert chosen(candidates, near(2), EvidenceIndex(candidates, lambda: texts, 7), 9, 2, tally) == []
    assert {drop.reason for drop in tally.dropped} == {LOST, AGAIN}
    tally = Tally()
    assert verify_questions([*candidates, question(9, "a document that is gone")], lambda: texts, tally) == []
    assert tally.dropped.total() == 3


def test_quotes_that_a_run_takes_for_the_same_are_found_twice() -> None:
    other = body(0).replace(" ", "\u00a0").replace("Every", "Every\u00ad")
    texts = [text(f"{other}\n{body(0)}", name="0.md")]
    tally = Tally()
    assert verify_questions([question(0, "one two", body(0))], lambda: texts, tally) == []
    assert tally.dropped == {Drop("title", AGAIN): 1}


def test_repetitions_and_documents_with_many_questions() -> None:
    texts = [text(" ".join(map(body, range(9))), name="0.md"), text(body(99), name="1.md")]
    candidates = [question(0, f"unheard{n} of{n}", body(n)) for n in range(8)]
    candidates[1] = question(0, "of0 unheard0?", body(1))
    tally = Tally()
    found = chosen(candidates, near(8), EvidenceIndex(candidates, lambda: texts, 7), 2, 2, tally)
    assert len(found) == 2
    assert tally.dropped[Drop("title", "repeats another question")] == 1
    tally = Tally()
    assert len(chosen(candidates, near(8), EvidenceIndex(candidates, lambda: texts, 7), 8, 50, tally)) == 3
    assert tally.dropped[Drop("title", "its document has 3 questions already")] == 4


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("the fines of the library", True),
        ("a fine at some libraries", True),
        ("Grey Heron", True),  # only its title says so
        ("a mooring in summer", False),
        ("something else entirely", False),
    ],
)
def test_any_search_by_words(words: str, found: bool) -> None:
    bodies = {
        "s:0.md": ("Grey Heron", "The library lends books. Fines stop at five pounds."),
        "s:1.md": ("Moorings", "A mooring costs twelve pounds a night in summer."),
    }
    firsts = FirstPlaces(
        [one for doc, (title, body) in bodies.items() for one in passages_in(doc, title, body)]
    )
    assert firsts.any_finds(question(0, words), [("s:0.md", 0, 1_000)]) == found


def test_kinds_take_turns() -> None:
    one, other = [question(n, f"a{n}") for n in range(3)], [question(9, "b")]
    assert [c.question for c in in_turn([one, [], other])] == ["a0", "b", "a1", "a2"]


def test_titles_that_say_the_same_are_one_question_that_any_answers() -> None:
    titles = [question(n, f"Title {n}", body(n)) for n in range(4)]
    vectors = np.array([[1, 0], [0.95, 0.3122], [0, 1], [0.6, 0.8]], np.float32)
    tally = Tally()
    found = list(group_titles(titles, vectors, tally))
    assert [(one.question, len(one.evidence), one.needs) for one in found] == [
        ("Title 0", 2, "any"),
        ("Title 2", 1, "all"),
        ("Title 3", 1, "all"),
    ]
    assert tally.lines() == ["1 title: in a group with another title"]


def test_titles_all_alike_tell_nothing_apart() -> None:
    titles = [question(n, "Weekly report", body(n)) for n in range(MOST + 1)]
    tally = Tally()
    assert list(group_titles(titles, np.ones((MOST + 1, 1), np.float32), tally)) == []
    assert tally.dropped[Drop("title", f"more than {MOST} documents have one like it")] == 1
