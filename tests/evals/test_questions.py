"""Evidence in documents that the corpus leaves out as copies."""

from __future__ import annotations

from typing import Any

from rag_assay.evals.question_sets.evidence import gold_of, in_first_copies
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.spans import Span
from tests.evals.conftest import MakeBench
from tests.fakes.evidence import resolve
from tests.fakes.tiny import TEXTS

QUOTE = "The ferry leaves at noon."
FIRST = {
    "doc_id": "a",
    "source": "s",
    "url": "https://a",
    "text": f"Harbour news. {QUOTE} It returns before dusk.",
}
COPY = {"doc_id": "b", "source": "s", "url": "https://b", "text": f"{QUOTE} It returns before dusk."}
BY_URL = {document["url"]: [document] for document in (FIRST, COPY)}


def found(*evidence: dict[str, Any]) -> list[dict[str, Any]]:
    return in_first_copies([resolve(item, BY_URL) for item in evidence], {"b": FIRST})


def test_evidence_in_a_copy_counts_in_the_first_copy() -> None:
    (item,) = found({"url": "https://b", "quote": QUOTE})
    assert (item["doc_id"], item["start"], item["end"]) == ("a", 14, 14 + len(QUOTE))
    assert item["url"] == "https://b", "what the question names stays"
    assert gold_of({"evidence": [item], "needs": "all"}).spans == (Span("a", 14, 39),)


def test_evidence_that_names_both_copies_counts_once() -> None:
    both = {"url": "https://a", "quote": QUOTE}, {"url": "https://b", "quote": QUOTE}
    assert [item["doc_id"] for item in found(*both)] == ["a"]
    assert [item["doc_id"] for item in found(*both[::-1])] == ["a"]
    other = {"url": "https://b", "quote": "It returns before dusk."}
    assert [item["start"] for item in found(*both, other)] == [14, 40]


def test_whole_documents_move_with_their_grade() -> None:
    (item,) = found({"url": "https://b", "grade": 2})
    assert (item["doc_id"], item["grade"], item["reason"]) == ("a", 2, None)


def test_a_quote_that_only_the_copy_has_is_lost_with_the_reason() -> None:
    by_url = {**BY_URL, "https://b": [{**COPY, "text": f"{COPY['text']} Dogs travel free."}]}
    evidence = resolve({"url": "https://b", "quote": "Dogs travel free."}, by_url)
    (item,) = in_first_copies([evidence], {"b": FIRST})
    assert item["doc_id"] is None
    assert item["reason"] == "the document is left out as a near copy of https://a, which lacks the quote"
    assert gold_of({"evidence": [item], "needs": "all"}).missing == len("Dogs travel free.")


def test_what_is_no_copy_stays_as_it_is() -> None:
    twice = [resolve({"url": "https://a", "quote": QUOTE}, BY_URL)] * 2
    assert in_first_copies(twice, {}) == twice


def test_questions_and_chunks_of_a_corpus_agree_on_the_first_copy(make_bench: MakeBench) -> None:
    ferry = "The ferry leaves the harbour at noon. It calls at the island and returns before dusk."
    tickets = "Tickets are sold on the quay in the morning. Children under six travel without one."
    texts = {"aferry": ferry, "ferry": ferry, "tickets": tickets}
    bench = make_bench({"sources: [docs]}": "sources: [docs], near_duplicates: 0.9}"}, texts=texts)
    bench.build("chunks", "questions")
    (chunks,), (questions,) = (bench.stages[name].keys() for name in ("chunks", "questions"))
    cut = set(read_parquet(bench.folder("chunks", chunks) / "chunks.parquet")["doc_id"])
    rows = read_parquet(bench.folder("questions", questions) / "questions.parquet").rows(named=True)
    evidence = {item["doc_id"] for row in rows for item in row["evidence"] if item["start"] is not None}
    assert len(cut) == 2
    assert evidence == cut, "the question names the second copy's address"


def test_a_quote_that_stands_twice_is_told(make_bench: MakeBench) -> None:
    bench = make_bench(texts={**TEXTS, "ferry": f"{TEXTS['ferry']} {TEXTS['ferry']}"})
    (outcome,) = bench.build("questions")["questions"]
    checks = {check.name: check for check in outcome.checks}
    assert checks["evidence_unique"].passed is False
    assert checks["evidence_unique"].description == (
        "1 of 3 pieces of evidence stand in their document more than once (the first place counts; a longer "
        "quote says which), first noon: 'The ferry leaves the harbour at noon.': https://x.example/ferry"
    )
    assert not checks["evidence_unique"].severe
    assert outcome.artifact is not None
    assert (outcome.artifact.meta["evidence_lost"], outcome.artifact.meta["evidence_repeated"]) == (1, 1)
    (unique,) = make_bench().build("questions")["questions"]
    assert {check.name: check.passed for check in unique.checks} == {
        "gold_resolvable": True,
        "evidence_found": False,
        "evidence_unique": True,
        "evidence_exact": True,
    }


def test_sources_that_share_a_page_share_its_evidence(make_bench: MakeBench) -> None:
    """The first source's document is meant, and with copies left out the one that is kept."""
    sources = "  docs: {reader: folder, path: docs}\n"
    more = {
        sources: sources + "  again: {reader: folder, path: docs}\n",
        "sources: [docs]}": "sources: [docs, again], near_duplicates: 0.9}",
    }
    bench = make_bench(more)
    bench.give(TEXTS, "again")
    outcomes = bench.build("chunks", "questions")
    assert [outcome.error for found in outcomes.values() for outcome in found] == [None, None]
    (chunks,), (questions,) = (bench.stages[name].keys() for name in ("chunks", "questions"))
    cut = set(read_parquet(bench.folder("chunks", chunks) / "chunks.parquet")["doc_id"])
    rows = read_parquet(bench.folder("questions", questions) / "questions.parquet").rows(named=True)
    evidence = {item["doc_id"] for row in rows for item in row["evidence"] if item["start"] is not None}
    assert len(cut) == len(TEXTS)
    assert evidence <= cut


def test_a_quote_that_is_nearly_there_counts_and_is_named_with_its_similarity(make_bench: MakeBench) -> None:
    texts = {
        **TEXTS,
        "ferry": TEXTS["ferry"].replace("leaves the harbour at noon", "leaves the harbor at noon"),
    }
    bench = make_bench(texts=texts)
    (outcome,) = bench.build("questions")["questions"]
    checks = {check.name: check for check in outcome.checks}
    assert checks["evidence_exact"].description == (
        "1 of 3 pieces of evidence are not there word for word: similarity, first 0.98 noon: "
        "https://x.example/ferry"
    )
    assert outcome.artifact is not None
    assert outcome.artifact.meta["evidence_similar"] == 1
    (key,) = bench.stages["questions"].keys()
    rows = read_parquet(bench.folder("questions", key) / "questions.parquet").rows(named=True)
    assert [item["similarity"] for row in rows for item in row["evidence"]] == [0.986, 1.0, None]


def test_what_an_earlier_version_found_word_for_word_means_the_same_and_is_not_asked_again(
    make_bench: MakeBench,
) -> None:
    """The rows of version 6, which had no similarity, have the digest that they had."""
    bench = make_bench()
    (outcome,) = bench.build("questions")["questions"]
    (key,) = bench.stages["questions"].keys()
    rows = read_parquet(bench.folder("questions", key) / "questions.parquet").rows(named=True)
    as_before = [
        {
            **row,
            "evidence": [
                {name: value for name, value in item.items() if name != "similarity"}
                for item in row["evidence"]
            ],
        }
        for row in rows
    ]
    assert outcome.artifact is not None
    assert outcome.artifact.data_version == digest(as_before)
