"""Evidence is found in the documents as they are, and what is not found still counts."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assay.evals.metrics.contract import Gold
from rag_assay.evals.metrics.ranking_metrics import EvidenceCoverage
from rag_assay.evals.question_sets.alignment import find_quote, places_of
from rag_assay.evals.question_sets.evidence import gold_of
from rag_assay.warehouse.spans import Span
from tests.fakes.cases import question
from tests.fakes.evidence import resolve


@pytest.mark.parametrize(
    ("text", "quote", "found"),
    [
        ("The ferry leaves at noon.", "leaves at", "leaves at"),
        ("The ferry\n  leaves\tat noon.", "ferry leaves at", "ferry\n  leaves\tat"),
        ("one two", "one\n\n two", "one two"),
        ("said “noon” – or ’later’", "said \"noon\" - or 'later'", "said “noon” – or ’later’"),
        ('said "noon"', "said „noon“", 'said "noon"'),
        ("100\u00a0kg", "100 kg", "100\u00a0kg"),
        ("a (b)* [c] $1.00?", "(b)* [c] $1.00?", "(b)* [c] $1.00?"),
        ("Fährhafen", "Fa\u0308hrhafen", "Fährhafen"),
        ("twice noon twice noon", "noon", "noon"),
        ("the non\u2011binding act", "non-binding", "non\u2011binding"),
        ("said »noon« or ‚later‘", "said \"noon\" or 'later'", "said »noon« or ‚later‘"),
        ("minus −5 °C", "-5 °C", "−5 °C"),
        ("Do\u00adnau\u00addampf\u200bschiff.", "Donaudampfschiff", "Do\u00adnau\u00addampf\u200bschiff"),
        ("Donaudampfschiff.", "Donau\u00addampf", "Donaudampf"),
        ("a ﬁnal oﬀer", "final offer", "ﬁnal oﬀer"),
        ("a final offer", "ﬁnal oﬀer", "final offer"),
        ("a ﬁnal oﬀer", "inal", "ﬁnal"),  # a ligature is not cut
        ("a ﬁnal final", "final", "final"),  # letters that are there come before those that a sign stands for
        ("12 m² and １２", "12 m2", "12 m²"),
        ("a\u2003b\u3000c", "a b c", "a\u2003b\u3000c"),
        ("Fährhafen", unicodedata.normalize("NFKD", "Fährhafen"), "Fährhafen"),
        ("x\u00ad", "\u00ad", None),  # nothing that a reader sees
        ("The ferry", "ferries", None),
        ("The Ferry", "the ferry", None),  # a quote is a quote
        ("text", "", None),
        ("text", " \n ", None),
        ("", "quote", None),
    ],
)
def test_find_quote(text: str, quote: str, found: str | None) -> None:
    span = find_quote(text, quote)
    assert (text[span[0] : span[1]] if span else None) == found


def test_the_first_of_two_places_is_taken() -> None:
    assert find_quote("noon and noon", "noon") == (0, 4)


DOCUMENTS: dict[str, list[dict[str, Any]]] = {
    "https://x": [{"doc_id": "d1", "source": "one", "url": "https://x", "text": "At noon it goes."}]
}


@given(
    words=st.lists(
        st.sampled_from(["noon", "ﬁn", "Fähre", "„a“", "x²", "Do\u00adnau", "漢字", "-", "é"]), min_size=1
    ),
    form=st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"]),
    data=st.data(),
)
@settings(deadline=None, derandomize=True)
def test_what_stands_there_is_found_in_any_form(words: list[str], form: Any, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(words) - 1))
    last = data.draw(st.integers(first + 1, len(words)))
    quote = " ".join(words[first:last])
    text = "\n ".join(words)
    span = find_quote(text, unicodedata.normalize(form, quote))
    assert span is not None
    plain = [
        unicodedata.normalize("NFKC", one.replace("\u00ad", "")).split()
        for one in (text[slice(*span)], quote)
    ]
    assert plain[0] == plain[1]


def test_every_place_of_a_quote() -> None:
    assert list(places_of("noon, Noon and noon\n", "noon")) == [(0, 4), (15, 19)]
    assert list(places_of("aaaa", "aa")) == [(0, 2), (2, 4)]
    assert list(places_of("a b", "")) == []


def test_resolve_a_quote() -> None:
    found = resolve({"url": "https://x", "quote": "noon it", "grade": 2}, DOCUMENTS)
    assert found == {
        "doc_id": "d1",
        "url": "https://x",
        "quote": "noon it",
        "start": 3,
        "end": 10,
        "grade": 2,
        "reason": None,
        "similarity": 1.0,
    }


def test_resolve_a_whole_document() -> None:
    found = resolve({"url": "https://x"}, DOCUMENTS)
    assert (found["doc_id"], found["start"], found["grade"], found["reason"]) == ("d1", None, 1, None)


def test_what_is_lost_is_told_with_its_stage() -> None:
    gone = resolve({"url": "https://y", "quote": "noon"}, DOCUMENTS)
    assert (gone["doc_id"], gone["start"]) == (None, None)
    assert "no document has this URL" in gone["reason"]
    changed = resolve({"url": "https://x", "quote": "at midnight"}, DOCUMENTS)
    assert (changed["doc_id"], changed["start"]) == ("d1", None)
    assert "the quote is not in the document's text" in changed["reason"]


def test_of_several_sources_with_one_url_the_one_is_meant_that_is_named_or_holds_the_quote() -> None:
    other = {"doc_id": "d2", "source": "two", "url": "https://x", "text": "It goes at dusk."}
    both = {"https://x": [*DOCUMENTS["https://x"], other]}
    assert resolve({"url": "https://x"}, both)["doc_id"] == "d1"
    assert resolve({"url": "https://x", "source": "two"}, both)["doc_id"] == "d2"
    assert resolve({"url": "https://x", "quote": "at dusk"}, both)["doc_id"] == "d2"
    assert resolve({"url": "https://x", "quote": "goes"}, both)["doc_id"] == "d1"
    lost = resolve({"url": "https://x", "quote": "noon", "source": "two"}, both)
    assert "the quote is not in the document's text" in lost["reason"]
    assert "source three" in resolve({"url": "https://x", "source": "three"}, both)["reason"]


def asked(*evidence: dict[str, Any], needs: str = "all") -> dict[str, Any]:
    return question(needs=needs, evidence=[resolve(item, DOCUMENTS) for item in evidence])


def test_missing_evidence_stays_in_the_denominator() -> None:
    gold = gold_of(
        asked(
            {"url": "https://x", "quote": "At noon"},
            {"url": "https://x", "quote": "at midnight"},  # 11 characters that are nowhere
            {"url": "https://y", "quote": "never"},  # 5 more, and a document that is nowhere
        )
    )
    assert gold == Gold(
        {"d1": 1, "missing evidence 2: https://y": 1}, (Span("d1", 0, 7),), 16, needs_all=True
    )
    everything = [Span("d1", 0, 16)]
    assert EvidenceCoverage(5).value(gold, everything) == pytest.approx(7 / (7 + 16))


def test_two_lost_documents_are_two() -> None:
    gold = gold_of(asked({"url": "https://y"}, {"url": "https://y", "quote": "never"}))
    assert len(gold.documents) == 2
    assert gold.spans == ()


def test_a_document_counts_once_with_its_best_grade() -> None:
    evidence = (
        {"url": "https://x", "quote": "noon", "grade": 1},
        {"url": "https://x", "quote": "goes", "grade": 3},
    )
    gold = gold_of(asked(*evidence))
    assert gold.documents == {"d1": 3}
    assert len(gold.spans) == 2


def test_needs_any() -> None:
    assert not gold_of(asked({"url": "https://x"}, needs="any")).needs_all
    assert gold_of(question(evidence=None)) == Gold({})
