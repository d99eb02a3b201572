from __future__ import annotations

import pytest

from rag_assay.evals.generation.answer_sentences import answer_units, passage_stretches
from rag_assay.evals.generation.contract import Passage


def texts(text: str) -> list[str]:
    return [one.text for one in answer_units(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "It repeals Regulations\n(EC) No 1275/2008 and (EC) No 107/2009. It applies at once.",
            ["It repeals Regulations (EC) No 1275/2008 and (EC) No 107/2009.", "It applies at once."],
        ),
        (
            "Nach § 5 Abs. 2 Nr. 3 gilt Art. 7 der Verordnung (EU) Nr. 347/2013. Das ist neu.",
            ["Nach § 5 Abs. 2 Nr. 3 gilt Art. 7 der Verordnung (EU) Nr. 347/2013.", "Das ist neu."],
        ),
        (
            "Article 4\nStocks\n1. States hold 90 days.\n2. They report monthly.",
            ["States hold 90 days.", "They report monthly."],
        ),
        ("# Titel\nDer Klub hat Geld.\nDie Lage\nSie ist gut.", ["Der Klub hat Geld.", "Sie ist gut."]),
        (
            "Year | Passengers\n2021 | 4,000\n2022 | 5,000",
            ["Year | Passengers", "2021 | 4,000", "2022 | 5,000"],
        ),
        (
            "It pays (see Art. 4. It is old) at once. Yes.",
            ["It pays (see Art. 4. It is old) at once.", "Yes."],
        ),
    ],
)
def test_sentences_are_whole_and_headings_are_none(text: str, expected: list[str]) -> None:
    assert [one.text for one in answer_units(text) if not one.is_broken] == expected


def test_items_know_the_clause_before_them_and_the_next_paragraph_does_not() -> None:
    act = "1. It counts:\n(a) price: 60 %;\n(b) safety: 40 %.\n2. Of two equal bids the lower wins."
    leads = {one.text: one.lead for one in answer_units(act)}
    assert leads["safety: 40 %."] == "It counts:"
    assert leads["Of two equal bids the lower wins."] == ""


def test_what_the_edge_of_a_chunk_cut_is_broken() -> None:
    found = answer_units("der Klub siegte. Er blieb oben. Dann kam", begins_whole=False)
    assert [one.is_broken for one in found] == [True, False, True]
    assert answer_units("16. Januar kam er. Er blieb.", begins_whole=False)[0].is_broken


@pytest.mark.parametrize(
    ("chunk", "first"),
    [
        ("(3) The Council agreed to 55 %. It is high.", "The Council agreed to 55 %."),
        ("4. The fee is 5 €. It is due.", "The fee is 5 €."),
        ("4. States pay.\n5. They report.", "States pay."),
    ],
)
def test_a_numbered_paragraph_at_the_beginning_of_a_chunk_is_whole(chunk: str, first: str) -> None:
    found = answer_units(chunk, begins_whole=False)[0]
    assert (found.text, found.is_broken) == (first, False)


def test_recitals_stand_under_no_heading() -> None:
    recital = answer_units("(3) The market is small. It grows.", begins_whole=False)
    paragraph = answer_units("§ 5 Gebühren\n(1) Die Gebühr beträgt 5 €.")
    definition = answer_units("(1) ‘stock’ means oil.", begins_whole=False)
    assert [one.is_recital for one in (*recital, *paragraph, *definition)] == [True, True, False, False]


def test_neighbouring_chunks_are_read_as_one_text() -> None:
    text = "The ferry leaves at noon, and calls at the island."
    parts = [Passage(text[20:], "b", "d", start=20, end=50), Passage(text[:30], "a", "d", start=0, end=30)]
    (stretch,) = passage_stretches(parts)
    assert (stretch.text, stretch.places) == (text, (1, 0))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (
            "It rains.",
            "Eight weeks in numbers\nThere were 19 alarms.",
            ["It rains.", "There were 19 alarms."],
        ),
        ("Das gilt nach Nr.", "5 des Plans. Ende.", ["Das gilt nach Nr. 5 des Plans.", "Ende."]),
        ("The ferry leaves", "at noon. It is full.", ["The ferry leaves at noon.", "It is full."]),
    ],
)
def test_the_heading_of_the_next_chunk_is_no_part_of_a_sentence(
    first: str, second: str, expected: list[str]
) -> None:
    begin = len(first) + 1
    parts = [
        Passage(first, "a", "d", start=0, end=len(first)),
        Passage(second, "b", "d", start=begin, end=begin + len(second)),
    ]
    (stretch,) = passage_stretches(parts)
    assert texts(stretch.text) == expected
