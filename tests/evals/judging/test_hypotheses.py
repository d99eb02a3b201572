"""What a text is judged by: sentences of a length, and lists with what introduces them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rag_assay.evals.judging.entailment.hypotheses import ListBlock, Splitting, blocks

PLAIN = Splitting()
SMALL = Splitting(longest=40, shortest=5)


def test_a_long_sentence_is_split_at_lines_then_hard() -> None:
    lines = ["a" * 300, "b" * 300, "c" * 1_100]
    assert PLAIN.hypotheses("\n".join(lines)) == [*lines[:2], "c" * 500, "c" * 500, "c" * 100]


def test_one_that_is_just_as_long_as_it_may_be_stays() -> None:
    assert PLAIN.hypotheses("a" * 500) == ["a" * 500]
    assert PLAIN.hypotheses("a" * 521) == ["a" * 500, "a" * 21]
    assert PLAIN.hypotheses("a" * 519) == ["a" * 500 + " " + "a" * 19], (
        "too short a rest joins what is before"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Yes. It sails at noon every day.", ["Yes. It sails at noon every day."]),
        ("It sails at noon every day. Yes.", ["It sails at noon every day. Yes."]),
        ("Yes. No. Yes.", ["Yes. No. Yes."]),
        ("Yes.", ["Yes."]),
        ("A" * 19 + ". " + "B" * 20, ["A" * 19 + ".", "B" * 20]),
        ("A" * 18 + ". " + "B" * 20, ["A" * 18 + ". " + "B" * 20]),
        ("Das gilt laut Art. 5 ab dem 3. Mai. Und zwar überall dort.",
         ["Das gilt laut Art. 5 ab dem 3. Mai.", "Und zwar überall dort."]),
        ("It sails at high noon [1]. It rests at dead of night.[2, 3]\n\nSources:\n[1] a",
         ["It sails at high noon.", "It rests at dead of night."]),
        ("", []),
        (" \n*** 🛳️ \n", []),
    ],
)  # fmt: skip
def test_short_sentences_are_joined(text: str, expected: list[str]) -> None:
    assert PLAIN.hypotheses(text) == expected


LISTS = [
    ("Fares:\n- adult 5\n- child 2", ("Fares:", "- adult 5", "- child 2")),
    ("Fares:\n\n- adult 5\n\n- child 2", ("Fares:", "- adult 5", "- child 2")),
    ("# Fares\n\n1. adult 5\n2. child 2", ("# Fares", "1. adult 5", "2. child 2")),
    ("The fares are these.\n* adult 5\n* child 2", ("The fares are these.", "* adult 5", "* child 2")),
    ("All pay\n\n* adult 5\n* child 2", ("All pay", "* adult 5", "* child 2")),
    ("Only that:\n- adult 5 euro", ("Only that:", "- adult 5 euro")),
    ("**Only:**\n- adult 5\n  and more", ("**Only:**", "- adult 5\nand more")),
    ("a) adult 5\nb) child 2", ("a) adult 5", "b) child 2")),
    ("Fares:\n| of | fee |\n|---|---|\n| all | 5 |", ("Fares:", "| of | fee |", "|---|---|", "| all | 5 |")),
    ("who | fee\n--- | ---\nadult | 5", ("who | fee", "--- | ---", "adult | 5")),
    ("who\tfee\nadult\t5\nchild\t2", ("who\tfee", "adult\t5", "child\t2")),
]  # fmt: skip


@pytest.mark.parametrize(("text", "lines"), LISTS, ids=[text for text, _ in LISTS])
def test_a_list_is_one_hypothesis_with_what_introduces_it(text: str, lines: tuple[str, ...]) -> None:
    assert PLAIN.hypotheses(text) == ["\n".join(lines)]
    around = f"It sails at noon every day.\n\n{text}\n\nPlease pay the crew in cash."
    assert PLAIN.hypotheses(around) == [
        "It sails at noon every day.",
        "\n".join(lines),
        "Please pay the crew in cash.",
    ]


@pytest.mark.parametrize(
    "text",
    ["It sails at noon.\n- A. Skipper, in the log", "It is 5 | 2.\nAnd 3 | 1 at night.", "5. May is a day."],
)
def test_what_is_no_list(text: str) -> None:
    assert not any(isinstance(one, ListBlock) for one in blocks(text))


def test_only_the_last_sentence_introduces_a_list() -> None:
    text = "It is an old line, too. It was sold twice since. Today it calls at:\n- Skye\n- Mull"
    assert PLAIN.hypotheses(text) == [
        "It is an old line, too.",
        "It was sold twice since.",
        "Today it calls at:\n- Skye\n- Mull",
    ]


def test_a_paragraph_that_has_ended_introduces_nothing() -> None:
    assert PLAIN.hypotheses("It sails at noon every day.\n\n- Skye is an island\n- Mull is one") == [
        "It sails at noon every day.",
        "- Skye is an island\n- Mull is one",
    ]


def test_each_piece_of_a_long_list_begins_with_its_lead() -> None:
    text = "Calls at:\n- the isle of Skye\n- Mull\n- the harbour of Oban\n- " + "x" * 70
    assert SMALL.hypotheses(text) == [
        "Calls at:\n- the isle of Skye\n- Mull",
        "Calls at:\n- the harbour of Oban",
        "Calls at:\n- " + "x" * 28,
        "Calls at:\n" + "x" * 30,
        "Calls at:\n" + "x" * 12,
    ]


def test_each_piece_of_a_long_table_has_its_head() -> None:
    rows = [f"| isle {n:02} | {n} |" for n in range(4)]
    found = Splitting(longest=60, shortest=5).hypotheses(
        "\n".join(["Fees:", "| to | fee |", "|---|---|", *rows])
    )
    lead = "Fees:\n| to | fee |\n|---|---|\n"
    assert found == [lead + "\n".join(rows[:2]), lead + "\n".join(rows[2:])]


def test_a_lead_that_leaves_no_room_stands_alone() -> None:
    lead = "It calls at each of the following:"
    assert SMALL.hypotheses(f"{lead}\n- Skye\n- Mull\n- Oban and Iona") == [
        lead,
        "- Skye\n- Mull\n- Oban and Iona",
    ]


def test_bounds_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValidationError, match="`shortest` is more than `longest`"):
        Splitting(longest=100, shortest=200)


@given(st.text(alphabet="ab.:|-\n\t 1)#[]", max_size=300))
def test_no_word_is_lost_and_none_invented(text: str) -> None:
    """What is repeated is a lead; all else stands once, in its order."""
    from rag_assay.evals.generation.citations import without_markers

    whole = Splitting(longest=5_000, shortest=0)
    found = "".join("".join(whole.hypotheses(text)).split())
    kept = "".join(without_markers(text).split())
    assert [sign for sign in found if sign.isalnum()] == [sign for sign in kept if sign.isalnum()]


@given(st.text(alphabet="ab.:|-\n\t 1)", max_size=400), st.integers(40, 80))
def test_none_is_far_too_long(text: str, longest: int) -> None:
    splitting = Splitting(longest=longest, shortest=5)
    assert max(map(len, splitting.hypotheses(text)), default=0) <= longest + 2 * (5 + 1)
