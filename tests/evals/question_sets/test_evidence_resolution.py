"""Written evidence in the documents of a corpus: by page, offsets, context, anywhere, by ground truth."""

from __future__ import annotations

from typing import Any

import pytest

from rag_assay.evals.question_sets.evidence_resolution import Lookup, Resolver
from tests.fakes.evidence import resolve_all
from tests.fakes.tiny import TEXTS

LONG = {
    "tariff": (
        "Harbour dues. A mooring costs twelve pounds a night in summer and four pounds in winter. Boats of "
        "more than nine metres pay half as much again. The dues are paid at the harbour office before the "
        "boat leaves."
    ),
    "storms": (
        "In a storm above nine Beaufort the ferry stays in port. Passengers may travel on the next day with "
        "the same ticket, or have the price paid back. The crew decides alone whether the ferry sails."
    ),
}
DOCUMENTS = [
    {"doc_id": name, "source": "s", "url": f"https://x/{name}", "text": text}
    for name, text in {**TEXTS, **LONG}.items()
]
TEXT_OF = {row["doc_id"]: row["text"] for row in DOCUMENTS}


def one(**item: Any) -> dict[str, Any]:
    (row,) = resolve_all(item, DOCUMENTS)
    return row


def words_of(row: dict[str, Any]) -> str:
    return TEXT_OF[row["doc_id"]][row["start"] : row["end"]]


def test_a_quote_that_is_nearly_there_counts_with_its_similarity() -> None:
    row = one(
        url="https://x/tariff", quote="A mooring costs 12 pounds a night in summer and four pounds in winter"
    )
    assert words_of(row) == "A mooring costs twelve pounds a night in summer and four pounds in winter"
    assert row["reason"] is None
    assert 0.9 <= row["similarity"] < 1


def test_a_quote_of_another_page_is_lost_and_the_page_is_known() -> None:
    row = one(url="https://x/tariff", quote="In a storm above nine Beaufort the ferry stays in port")
    assert (row["doc_id"], row["start"], row["similarity"]) == ("tariff", None, None)
    assert "nor anything that is similar (0.9 or more)" in row["reason"]


START = LONG["tariff"].index("twelve pounds")


@pytest.mark.parametrize(
    ("offsets", "quote", "words", "reason"),
    [
        ((START, START + 13), "twelve pounds", "twelve pounds", None),
        ((START, START + 13), None, "twelve pounds", None),
        ((START, START + 13), "Twelve  pounds", "twelve pounds", None),
        ((START + 40, START + 53), "pounds", "pounds", None),  # the nearest of two
        ((0, 6), "twelve pounds", "twelve pounds", None),
        ((5_000, 5_006), "twelve pounds", "twelve pounds", None),
        ((5_000, 5_006), None, None, "the document ends at"),
        ((0, 6), "thirteen guineas", None, "the quote is not in the document's text"),
    ],
)
def test_offsets(offsets: tuple[int, int], quote: str | None, words: str | None, reason: str | None) -> None:
    row = one(url="https://x/tariff", start=offsets[0], end=offsets[1], quote=quote)
    assert (words_of(row) if row["start"] is not None else None) == words
    assert row["quote"] is not None or row["reason"]
    assert (row["reason"] is None) == (reason is None)
    assert reason is None or reason in row["reason"]
    if quote == "pounds":
        assert row["start"] == LONG["tariff"].index("pounds in winter")


def test_a_quote_without_a_page_is_found_in_any_document() -> None:
    row = one(quote="Passengers may travel on the next day with the same ticket")
    assert (row["doc_id"], row["url"], row["similarity"]) == ("storms", "https://x/storms", 1.0)
    row = one(quote="Passengers may travel on the next day with the same tickets")
    assert (row["doc_id"], words_of(row)[-6:]) == ("storms", "ticket")
    assert row["similarity"] < 1
    lost = one(quote="Dogs travel free of charge at all times")
    assert (lost["doc_id"], lost["url"], lost["start"]) == (None, None, None)
    assert "is in no document" in lost["reason"]


def test_a_page_may_be_a_hint_only() -> None:
    quote = "The dues are paid at the harbour office"
    assert one(url="chunk-17", anywhere=True, quote=quote)["doc_id"] == "tariff"
    assert one(url="chunk-17", quote=quote)["reason"].startswith("no document has this URL")


def test_an_answer_in_a_context_is_found_at_its_place_there() -> None:
    context = LONG["tariff"][14:110]
    second = context.rindex("pounds")
    row = one(context=context, quote="pounds", start=second, end=second + 6)
    assert (row["doc_id"], row["start"]) == ("tariff", LONG["tariff"].index("pounds in winter"))
    misread = one(context=context.replace("mooring", "moaring"), quote="pounds", start=second, end=second + 6)
    assert misread["start"] == row["start"]
    assert misread["similarity"] < 1
    lost = one(context=context.replace("pounds", "guilders", 1), quote="guilders", start=24, end=32)
    assert "the answer is not in its context" in lost["reason"]


def by_truth(truth: str, question: str) -> dict[str, Any]:
    item = {"url": None, "quote": truth, "by_truth": True}
    row = {"question_id": "q", "question": question, "evidence": [item], "gold": "none", "needs": "all"}
    return Resolver(DOCUMENTS, [row]).resolve(row)


@pytest.mark.parametrize(
    ("truth", "question", "words"),
    [
        (
            "A night's mooring costs twelve pounds in summer, and four in winter.",
            "What is a mooring?",
            "A mooring costs twelve pounds a night in summer and four pounds in winter.",
        ),
        (
            "The ferry stays in port in a storm of more than nine Beaufort.",
            "When does it not sail?",
            "In a storm above nine Beaufort the ferry stays in port.",
        ),
        (
            "Yes.",
            "Does the ferry stay in port in a storm above nine Beaufort?",
            "In a storm above nine Beaufort the ferry stays in port.",
        ),
    ],
)
def test_a_ground_truth_in_other_words_is_found(truth: str, question: str, words: str) -> None:
    row = by_truth(truth, question)
    (item,) = row["evidence"]
    assert words_of(item) == item["quote"] == words
    assert 0.75 <= item["similarity"] < 1
    assert (row["gold"], row["needs"]) == ("spans", "any")


@pytest.mark.parametrize("truth", ["The mayor is elected every five years by all residents.", "Yes", "", "…"])
def test_a_ground_truth_that_stands_nowhere_leaves_a_question_without_evidence(truth: str) -> None:
    row = by_truth(truth, "Who is elected mayor of the town?")
    assert (row["evidence"], row["gold"]) == ([], "none")


@pytest.mark.parametrize(
    ("truth", "question", "words"),
    [
        ("Twelve pounds.", "How much does a visiting yacht pay in summer?", "twelve pounds"),
        ("Twenty pounds.", "How much does a visiting yacht pay in summer?", None),
        ("Nine Beaufort", "Above which wind force does the ferry stay in port?", "above nine Beaufort"),
        ("Ten Beaufort", "Above which wind force does the ferry stay in port?", None),
    ],
)
def test_a_place_with_all_facts_needs_fewer_of_the_other_words(
    truth: str, question: str, words: str | None
) -> None:
    row = by_truth(truth, question)
    assert [words in item["quote"] for item in row["evidence"]] == ([True] if words else [])
    assert all(item["similarity"] < 0.85 for item in row["evidence"])


def test_each_sentence_of_a_ground_truth_may_have_a_place_of_its_own() -> None:
    paid = "The dues are paid at the harbour office before the boat leaves."
    travel = "Passengers may travel on the next day with the same ticket."
    row = by_truth(f"{paid} {travel}", "What has to be known?")
    assert [item["doc_id"] for item in row["evidence"]] == ["tariff", "storms"]
    assert (row["gold"], row["needs"]) == ("spans", "all")
    half = by_truth(f"{paid} The mayor is elected every five years.", "What has to be known?")
    assert (half["evidence"], half["gold"]) == ([], "none")


def test_equal_places_all_count_and_any_suffices() -> None:
    copy = {**DOCUMENTS[-1], "doc_id": "copy", "url": "https://x/copy"}
    twice = [*DOCUMENTS, copy]
    item = {"url": None, "quote": "Passengers travel the next day with the same ticket", "by_truth": True}
    row = {"question_id": "q", "question": "And then?", "evidence": [item], "gold": "none", "needs": "all"}
    found = Resolver(twice, [row]).resolve(row)
    assert [item["doc_id"] for item in found["evidence"]] == ["storms", "copy"]
    assert found["needs"] == "any"


TRUTHS = [
    "Fines are paid at the harbour office",
    "the lamp and the keeper of the sea",
    "the price of the ticket",
    "a storm in 1987 and the old crane",
    "children travel with the same ticket in winter",
]


@pytest.mark.parametrize("truth", TRUTHS)
def test_the_bound_of_a_document_never_hides_the_best_place(
    truth: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lookup = Lookup([row["text"] for row in DOCUMENTS], TRUTHS)
    found = lookup.ground_truth(truth, "", 0.1)
    monkeypatch.setattr(
        "rag_assay.evals.question_sets.evidence_resolution._LITTLE", 10.0
    )  # so that every document is read
    assert found == lookup.ground_truth(truth, "", 0.1)
    assert found


def test_a_corpus_without_documents_or_words() -> None:
    assert Lookup([], ["noon"]).quote("noon") is None
    assert Lookup(["", "…"], ["noon"]).quote("noon") is None
    assert Lookup(["noon"], []).ground_truth("", "", 0.5) == []
