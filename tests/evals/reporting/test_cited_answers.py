"""Answers with their citations, on a page: linked, flagged, and never markup of their own."""

from __future__ import annotations

from typing import Any

import pytest

from rag_assay.evals.reporting.answers import CitedAnswer, render_cited_answer
from rag_assay.evals.reporting.page import render_html
from tests.evals.reporting.test_page import Page
from tests.fakes.report_data import report_data

WEB = "https://example.org/fees"


def one(marker: int, sentence: int | None = 0, chunk: str | None = None, **place: Any) -> dict[str, Any]:
    names = ("doc_id", "url", "section", "start", "end")
    found = {"doc_id": "d", "url": WEB, "section": ["Fees"], "start": 10, "end": 90} if chunk else {}
    return {
        "marker": marker,
        "sentence": sentence,
        "chunk_id": chunk,
        **dict.fromkeys(names),
        **found,
        **place,
    }


def answered(text: str | None, *citations: dict[str, Any]) -> dict[str, Any]:
    return {"answer": text, "citations": list(citations), "chunk_ids": ["c1", "c2"]}


def words(found: CitedAnswer) -> str:
    return "".join(
        f"<{piece.cited.number} {piece.cited.link}>" if piece.cited else piece.text for piece in found.pieces
    )


def test_a_marker_leads_to_its_passage_or_is_flagged() -> None:
    citations = (one(1, 0, "c1"), one(2, 0, "c2", url="fees.md"), one(9, 1))
    found = render_cited_answer(answered("Five [1, 2]. Ten [9].", *citations), 360, {"c1": "hit-1"})
    assert words(found) == "Five <1 #hit-1><2 None>. Ten <9 None>."
    assert [piece.cited.valid for piece in found.pieces if piece.cited] == [True, True, False]
    assert found.pieces[-2].cited is not None
    assert found.pieces[-2].cited.why == "points nowhere: 2 passages given"
    first = found.pieces[1].cited
    assert first is not None
    assert first.why == f"Fees, {WEB}, characters 10 to 90"
    assert found.beside == ()


def test_where_the_passage_is_not_on_the_page_its_source_is_linked() -> None:
    assert words(render_cited_answer(answered("Five [1].", one(1, 0, "c1")), 360, {})) == f"Five <1 {WEB}>."


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "data:text/html,x", "https:///x", "https://a b", "notes.md"]
)
def test_no_other_address_becomes_a_link(url: str) -> None:
    assert (
        words(render_cited_answer(answered("Five [1].", one(1, 0, "c1", url=url)), 360, {}))
        == "Five <1 None>."
    )


def test_a_number_that_is_no_citation_stays_text() -> None:
    assert words(render_cited_answer(answered("Five [1]. Ten [1].", one(1, 1, "c1")), 360, {})) == (
        f"Five [1]. Ten <1 {WEB}>."
    )
    assert words(render_cited_answer(answered("Five [1] <b>."), 360, {})) == "Five [1] <b>."


def test_what_quotes_without_markers_is_said_beside_it() -> None:
    found = render_cited_answer(
        answered("Five. Ten.", one(2, 0, "c2"), one(1, 1, "c1"), one(2, 1, "c2")), 360, {}
    )
    assert words(found) == "Five. Ten."
    assert [cited.number for cited in found.beside] == [1, 2]


def test_a_passage_that_holds_evidence_says_so() -> None:
    evidence = [
        {"doc_id": "d", "quote": "q", "start": 80, "end": 120},
        {"doc_id": "e", "quote": None, "start": None},
    ]
    found = render_cited_answer(
        answered("Five [1] [2].", one(1, 0, "c1"), one(2, 0, "c2", start=120)), 360, {}, evidence
    )
    assert [piece.cited.evidence for piece in found.pieces if piece.cited] == [True, False]


@pytest.mark.parametrize("limit", range(1, 30))
def test_a_cut_text_never_ends_within_a_marker(limit: int) -> None:
    text = "Five [1]. Ten [1](https://x.org)."
    found = render_cited_answer(answered(text, one(1, 0, "c1"), one(1, 1, "c1")), limit, {"c1": "h"})
    shown = words(found).replace("<1 #h>", "")
    assert len(shown) <= limit + 1


@pytest.mark.parametrize("text", [None, "", "[1]"])
def test_an_answer_without_words_has_no_pieces_but_its_citations(text: str | None) -> None:
    found = render_cited_answer(answered(text, *([one(1, None, "c1")] if text else [])), 360, {})
    assert words(found) == (f"<1 {WEB}>" if text else "")


def test_old_answers_have_none() -> None:
    assert words(render_cited_answer({**answered("Five [1]."), "citations": None}, 360, {})) == "Five [1]."


def test_the_page_flags_and_links_and_runs_nothing() -> None:
    page = Page(render_html(report_data(n_questions=24)))
    flagged = [attributes for attributes in page.all("s") if "nowhere" in (attributes["class"] or "")]
    assert flagged
    assert all("points nowhere" in (attributes["title"] or "") for attributes in flagged)
    links = [a for a in page.all("a") if "cited" in (a.get("class") or "")]
    assert {(a["href"] or "")[:10] for a in links} <= {"#question-", "https://eu"}
    assert any("<script>alert(1)" in (a["title"] or "") for a in links), "a hostile section is a title's text"
    assert [one for one in page.all("script") if one.get("type") != "application/octet-stream"] == [{}]
