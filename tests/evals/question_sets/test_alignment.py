"""A quote that is not there word for word: the right place, its similarity, or nothing."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assay.evals.question_sets.alignment import LONGEST, NOT_EXACT, SIMILAR, WordedText, most_similar

SENTENCES = [
    "The ferry to the island leaves the harbour every forty minutes and carries nineteen cars.",
    "In a storm above nine Beaufort it stays in port until the master gives the all-clear.",
    "Tickets are sold on the quay in the morning, and on board to those who come late.",
    "The lighthouse has one lamp and one keeper, who lights it at sunset every day of the year.",
    "Fines of the library stop at five pounds, however late a book is brought back.",
    "A mooring costs twelve pounds a night in summer and four pounds a night in winter.",
]
TEXT = " ".join(SENTENCES)
WORDED = WordedText(TEXT)
OTHER = ["seven", "pilot", "under", "which", "quickly", "barrel", "x"]


def _words(change: Callable[[random.Random, str], list[str]]) -> Callable[[random.Random, str], str]:
    """One of the words in ten, and at least one of them, is changed."""

    def changed(rng: random.Random, quote: str) -> str:
        words = quote.split()
        at = set(rng.sample(range(1, len(words) - 1), max(1, len(words) // 12)))
        return " ".join(
            part for n, word in enumerate(words) for part in (change(rng, word) if n in at else [word])
        )

    return changed


def _noise(rng: random.Random, quote: str) -> str:
    """As an OCR reads it: one letter in 25 is another one, or two."""
    letters = list(quote)
    for at in rng.sample(range(len(letters)), max(1, len(letters) // 25)):
        letters[at] = rng.choice(["rn", "1", "", "c", letters[at] * 2])
    return "".join(letters)


CHANGES: dict[str, Callable[[random.Random, str], str]] = {
    "a word is left out": _words(lambda _, __: []),
    "a word is put in": _words(lambda rng, word: [word, rng.choice(OTHER)]),
    "a short word is another": _words(lambda rng, word: ["of" if len(word) < 5 else word]),
    "letters are misread": _noise,
    "all capitals": lambda _, quote: quote.upper(),
    "other quotation marks and dashes": lambda _, quote: quote.replace(" and ", " – »and« "),
    "white space": lambda _, quote: quote.replace(" ", " \n "),
    "soft hyphens": lambda _, quote: quote.replace("tt", "t\u00adt").replace("ou", "o\u00adu"),
    "hyphenated at the ends of lines": lambda _, quote: quote.replace("mi", "mi-\n", 1),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
@given(number=st.integers(0, len(SENTENCES) - 1), seed=st.integers(0, 1_000))
@settings(deadline=None, derandomize=True, max_examples=40)
def test_a_changed_quote_is_found_at_its_place(change: str, number: int, seed: int) -> None:
    quote = CHANGES[change](random.Random(seed), SENTENCES[number])
    place = most_similar(WORDED, quote, 0.8)
    assert place is not None
    start = TEXT.index(SENTENCES[number])
    end = start + len(SENTENCES[number])
    shared = min(end, place.end) - max(start, place.start)
    assert shared > 0.75 * (max(end, place.end) - min(start, place.start)), TEXT[place.start : place.end]
    assert 0.8 <= place.similarity <= NOT_EXACT


@given(number=st.integers(0, len(SENTENCES) - 1))
@settings(deadline=None, derandomize=True)
def test_a_quote_of_another_document_is_not_found(number: int) -> None:
    rest = WordedText(" ".join(one for one in SENTENCES if one != SENTENCES[number]))
    assert most_similar(rest, SENTENCES[number], SIMILAR) is None
    nearest = most_similar(rest, SENTENCES[number], 0.0)
    assert nearest is None or nearest.similarity < 0.75


def test_of_two_places_the_more_similar_one_counts_and_of_equal_ones_the_first() -> None:
    near = "The ferry leaves the harbour at noom on weekdays."
    nearer = "The ferry leaves the harbour at noon on weekday."
    quote = "The ferry leaves the harbour at noon on weekdays"
    for text, found in ((f"{near} {nearer}", nearer), (f"{nearer} {near}", nearer), (f"{near} {near}", near)):
        place = most_similar(WordedText(text), quote)
        assert place is not None
        assert text[place.start : place.end] == found.rstrip(".")
        assert place.start == text.index(found)


@pytest.mark.parametrize("quote", ["", "…", "?!", "   ", "word " * (LONGEST // 4)])
def test_what_cannot_be_looked_for_is_nowhere(quote: str) -> None:
    assert most_similar(WORDED, quote) is None
    assert most_similar(WordedText(""), quote or "noon") is None


def test_scripts_without_spaces() -> None:
    text = "港务局七点开门。夏季停泊每晚十二镑。图书馆借书四周。"
    place = most_similar(WordedText(text), "夏季停泊每晩十二镑", 0.8)
    assert place is not None
    assert text[place.start : place.end] == "夏季停泊每晚十二镑"


@given(text=st.text(max_size=200), quote=st.text(max_size=60))
@settings(deadline=None, derandomize=True)
def test_any_two_texts(text: str, quote: str) -> None:
    place = most_similar(WordedText(text), quote, 0.0)
    if place is not None:
        assert 0 <= place.start < place.end <= len(text)
        assert 0 <= place.similarity <= NOT_EXACT
