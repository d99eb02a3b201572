from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from rag_assay.assets.cleaning.duplicates import _Words, bands_for, find_duplicates, jaccard
from rag_assay.warehouse.parquet import frame
from rag_assay.warehouse.schemas import DOCUMENTS, DUPLICATES

WORDS = [f"w{number}" for number in range(104)]  # 100 shingles of five words


def document(doc_id: str, words: list[str] | str, day: str | None = None) -> dict[str, object]:
    text = words if isinstance(words, str) else " ".join(words)
    return {"doc_id": doc_id, "url": f"https://x.example/{doc_id}", "text": text, "published_at": day}


def links(documents: list[dict[str, object]], threshold: float | None = 0.9) -> dict[str, tuple[Any, ...]]:
    found = find_duplicates(frame(documents, DOCUMENTS), threshold)
    assert found.schema == pl.Schema(DUPLICATES)
    return {row[0]: row[1:] for row in found.iter_rows()}


def test_one_word_in_a_hundred_is_a_near_copy() -> None:
    # The changed word is in 5 of 100 shingles: 95 are common, 105 there are in all, 95 / 105 = 0.905.
    near = [*WORDS[:50], "changed", *WORDS[51:]]
    found = links([document("a", WORDS), document("b", near)])
    assert found == {"b": ("a", pytest.approx(95 / 105), False)}
    assert links([document("a", WORDS), document("b", near)], 0.91) == {}


def test_shingles_are_sets_of_five_words() -> None:
    shingles = _Words().shingles
    assert len(shingles(" ".join(WORDS))) == 100
    assert len(shingles("one two three")) == 1, "a short text is one n-gram"
    assert len(shingles(" — !")) == 0
    assert len(shingles("a a a a a a a")) == 1
    assert jaccard(shingles("a b c d e f"), shingles("b c d e f a")) == pytest.approx(1 / 3)
    # a b c d e, b c d e f | b c d e f, c d e f a


def test_the_first_copy_is_the_earliest_then_the_first_by_url() -> None:
    def first(*documents: dict[str, object]) -> set[str]:
        return {str(link[0]) for link in links(list(documents)).values()}

    undated, late, early = (
        document(*a) for a in (("a", WORDS), ("b", WORDS, "2024-05-02"), ("c", WORDS, "2024-05-01"))
    )
    assert first(undated, late, early) == {"c"}
    assert first(undated, late) == {"b"}, "a dated one comes before one without a date"
    assert first(document("z", WORDS), document("y", WORDS)) == {"y"}
    # 23:30 in New York is the next day in London.
    over = document("a", WORDS, "2024-05-01T23:30:00-04:00")
    assert first(over, document("b", WORDS, "2024-05-02T01:00:00+00:00")) == {"b"}


def test_exact_copies_are_found_whatever_is_asked_for() -> None:
    loud = document("b", f"  {' '.join(WORDS).upper()}\n\n")
    near = document("c", [*WORDS[:-1], "changed"])
    assert links([document("a", WORDS), loud, near], None) == {"b": ("a", 1.0, True)}
    assert links([document("a", "Ja."), document("b", "Nein.")], None) == {}
    assert set(links([document("a", WORDS), loud, near], 0.9)) == {"b", "c"}


def test_no_link_leads_to_a_copy() -> None:
    """Each is 0.905 from the next and less from the one after: a chain must not pull in what is not alike."""
    chain = [list(WORDS)]
    for number in range(4):
        at = 10 + 20 * number
        chain.append([*chain[-1][:at], f"new{number}", *chain[-1][at + 1 :]])
    found = links([document(str(number), words) for number, words in enumerate(chain)])
    assert found == {"1": ("0", pytest.approx(95 / 105), False), "3": ("2", pytest.approx(95 / 105), False)}
    twin = document("4-twin", chain[3])
    found = links([*(document(str(number), words) for number, words in enumerate(chain)), twin])
    assert found["4-twin"][0] == "2", "the copy of a copy is linked to what that is linked to"
    assert not {link[0] for link in found.values()} & set(found)


def test_the_order_of_the_documents_does_not_matter() -> None:
    documents = [
        document(f"{n}", [*WORDS[:n], "x", *WORDS[n + 1 :]], f"2024-05-{n % 28 + 1:02}") for n in range(60)
    ]
    assert links(documents) == links(documents[::-1])
    assert links(documents)


@pytest.mark.parametrize("threshold", [0.05, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0])
def test_the_bands_miss_hardly_any_pair(threshold: float) -> None:
    bands, rows = bands_for(threshold)
    assert bands * rows <= 128
    assert (1 - threshold**rows) ** bands < (0.002 if threshold < 0.1 else 1e-4) + 1e-12


def test_no_near_copy_of_a_thousand_is_missed() -> None:
    draw = np.random.default_rng(3)
    documents = []
    for number in range(500):
        words = [f"v{n}" for n in draw.integers(0, 5000, 204)]
        at = int(draw.integers(5, 199))
        documents += [
            document(f"{number}", words),
            document(f"{number}-copy", [*words[:at], "x", *words[at + 1 :]]),
        ]
    found = links(documents)  # 195 of 205 shingles are common: 0.951
    assert {doc: link[0] for doc, link in found.items()} == {f"{n}-copy": f"{n}" for n in range(500)}


@pytest.mark.parametrize("threshold", [0.5, 0.8])
def test_bands_find_what_comparing_each_with_each_finds(threshold: float) -> None:
    draw = np.random.default_rng(4)
    texts: list[list[str]] = []
    for number in range(240):
        if number % 3:
            words = list(texts[int(draw.integers(max(0, number - 40), number))])
            for at in draw.integers(0, len(words), int(draw.integers(0, 5))):
                words[at] = f"x{draw.integers(30)}"
        else:
            words = [f"v{n}" for n in draw.integers(0, 800, int(draw.integers(1, 90)))]
        texts.append(words)
    shingles = [_Words().shingles(" ".join(words)) for words in texts]
    kept: list[int] = []
    expected: dict[str, tuple[str, float]] = {}
    for number in range(len(texts)):
        alike = (other for other in kept if jaccard(shingles[number], shingles[other]) >= threshold)
        first = next(alike, None)
        if first is None:
            kept.append(number)
        else:
            expected[f"{number:03}"] = (f"{first:03}", jaccard(shingles[number], shingles[first]))
    found = links([document(f"{n:03}", words) for n, words in enumerate(texts)], threshold)
    near = {doc: link[:2] for doc, link in found.items() if not link[2]}
    exact = {doc for doc, link in found.items() if link[2]}
    assert near == {doc: link for doc, link in expected.items() if doc not in exact}
    assert len(near) >= 20
    assert set(found) == set(expected)
