"""Where questions were lost, counted by ranking: each question once, whatever pieces its evidence has."""

from __future__ import annotations

import dataclasses
from typing import Any

import polars as pl
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rag_assay.evals.question_sets.losses import Loss
from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.page import render_html
from rag_assay.evals.reporting.retrieval_funnel import Lost, fates_of, funnel_of, legend
from rag_assay.warehouse.parquet import frame
from rag_assay.warehouse.schemas import LOSSES, QUESTIONS, SCORES
from tests.fakes.report_data import GONE, NDCG, SIMILARITY, board_data, report_data


def piece(lost_at: str | None = None, found_at: int | None = None, **more: Any) -> dict[str, Any]:
    return {
        "question_id": "q1",
        "evidence": 0,
        "lost_at": lost_at,
        "step": None,
        "found_at": found_at,
        **more,
    }


def fate_of(pieces: list[dict[str, Any]], needs: str, k: int) -> str | None:
    rows = frame([{"url": None, "cell": "c", **one} for one in pieces], {**LOSSES, "cell": pl.String})
    questions = pl.DataFrame({"question_id": ["q1"], "needs": [needs]})
    ((_, _, found),) = fates_of(rows, questions, k).iter_rows()
    return str(found) if found else None


HERE, LATE, NOWHERE = piece(found_at=3), piece(found_at=11), piece("corpus")


def test_a_question_that_needs_all_is_lost_at_its_earliest_loss() -> None:
    assert fate_of([HERE], "all", 10) is None
    assert fate_of([HERE, piece("fusion"), piece("cut")], "all", 10) == Loss.FUSION
    assert fate_of([HERE, NOWHERE, piece("fusion")], "all", 10) == Loss.CORPUS
    assert fate_of([HERE, HERE], "all", 10) is None


def test_a_question_that_needs_any_is_lost_when_all_of_it_is_and_at_the_latest() -> None:
    assert fate_of([NOWHERE, HERE], "any", 10) is None
    assert fate_of([NOWHERE, piece("fusion")], "any", 10) == Loss.FUSION


def test_what_comes_after_the_first_passages_was_cut() -> None:
    assert fate_of([LATE], "all", 10) == Loss.CUT
    assert fate_of([LATE], "all", 11) is None
    assert fate_of([NOWHERE, LATE], "any", 10) == Loss.CUT


def study(questions: list[dict[str, Any]], losses: list[dict[str, Any]], **more: Any) -> ReportData:
    """Build a report of two chunkings, `a` and `b`, each with one cell."""
    board = board_data([{"chunking": name, "value": 0.5, "rank": 1} for name in "ab"], **more)
    own = [{"question": row["question_id"], "needs": "all", "gold": "spans", **row} for row in questions]
    found = frame([{"url": None, **row} for row in losses], {**LOSSES, "cell": pl.String})
    return dataclasses.replace(board, questions=frame(own, QUESTIONS), losses=found)


def question(question_id: str, pieces: int = 1) -> dict[str, Any]:
    empty = dict.fromkeys(("doc_id", "url", "quote", "start", "end", "reason"))
    return {"question_id": question_id, "evidence": [{**empty, "grade": 1}] * pieces}


def of(cell: str, **lost_at: str | int) -> list[dict[str, Any]]:
    """Say where the question of each name was lost in a cell, or at which rank it was found."""
    return [
        piece(**({"found_at": at} if isinstance(at, int) else {"lost_at": at}), cell=f"c.{cell}.e.r.g")
        | {"question_id": name}
        for name, at in lost_at.items()
    ]


QUESTIONS_OF = [question("q1"), question("q2"), question("q3"), question("q4"), question("none", 0)]
A = of("a", q1=1, q2="corpus", q3="chunking", q4="candidates")
B = of("b", q1="cut", q2="corpus", q3="chunking")  # its ranking of q4 failed


def made(data: ReportData) -> Lost:
    found = funnel_of(data, ["q4", "q2"])
    assert found is not None
    return found


def test_every_question_with_evidence_is_counted_once_in_each_ranking() -> None:
    found = made(study(QUESTIONS_OF, A + B, metric=NDCG))
    assert [(one.label, one.found, one.lost, one.failed) for one in found.rankers] == [
        ("a", 1, {Loss.CORPUS: 1, Loss.CHUNKING: 1, Loss.CANDIDATES: 1}, 0),
        ("b", 0, {Loss.CUT: 1, Loss.CORPUS: 1, Loss.CHUNKING: 1}, 1),
    ]
    assert found.causes == (Loss.CORPUS, Loss.CHUNKING, Loss.CANDIDATES, Loss.CUT)
    assert [name for name, _ in legend(found.causes, found.k, failed=found.any_failed)] == [
        "Found",
        "Corpus",
        "Chunking",
        "Candidates",
        "Cut at k",
        "Failed",
    ]
    assert found.n == 4


def test_a_ranking_that_failed_on_every_question_is_no_gap() -> None:
    data = study(QUESTIONS_OF, A, metric=NDCG)
    row = {"question_id": "q1", "metric": NDCG.name, "status": "error", "reason": "?", "cell": "c.b.e.r.g"}
    scores = frame([row], {**SCORES, "cell": pl.String, "replicate": pl.Int64})
    found = made(dataclasses.replace(data, scores=scores))
    assert [(one.label, one.found, one.lost, one.failed) for one in found.rankers] == [
        ("a", 1, {Loss.CORPUS: 1, Loss.CHUNKING: 1, Loss.CANDIDATES: 1}, 0),
        ("b", 0, {}, 4),
    ]
    assert found.any_failed
    assert len(made(data).rankers) == 1, "b was not run"


@given(data=st.data())
@settings(deadline=None, derandomize=True, max_examples=50)
def test_counts_add_up_to_the_questions_that_have_evidence(data: st.DataObject) -> None:
    """Whatever became of each piece: found, lost and failed are all of the questions, in every ranking."""
    questions = [
        {**question(f"q{number}", pieces), "needs": data.draw(st.sampled_from(["all", "any"]))}
        for number, pieces in enumerate(data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=8)))
    ]
    assume(any(row["evidence"] for row in questions))
    losses = []
    for cell in "ab":
        for row in questions:
            if data.draw(st.booleans()):  # its ranking ended well
                for number in range(len(row["evidence"])):
                    lost_at = data.draw(st.sampled_from([None, *map(str, Loss)]))
                    rank = None if lost_at else data.draw(st.integers(1, 20))
                    own = piece(lost_at, rank, cell=f"c.{cell}.e.r.g", evidence=number)
                    losses.append({**own, "question_id": row["question_id"]})
    assume(losses)
    found = made(study(questions, losses, metric=NDCG))
    with_evidence = sum(bool(row["evidence"]) for row in questions)
    assert found.n == with_evidence
    for ranker in found.rankers:
        assert ranker.found + sum(ranker.lost.values()) + ranker.failed == with_evidence
        assert ranker.failed >= 0


def test_what_no_retriever_could_find_is_said_first() -> None:
    found = made(study(QUESTIONS_OF, A + B, metric=NDCG))
    assert found.summary == (
        "Of 4 questions with evidence, 2 are lost before any retriever: 1 because no document holds the "
        "evidence and 1 because every chunking cuts it. 3 questions are found by no retriever."
    )
    assert [(one["question_id"], one["lost"], one["number"]) for one in found.unfound] == [
        ("q2", "lost at corpus in every ranking", 2),
        ("q3", "lost at chunking in every ranking", None),
        ("q4", "lost at candidates in every ranking", 1),
    ]
    found = made(study(QUESTIONS_OF[:2], of("a", q1=1, q2=1) + of("b", q1=1, q2="fusion"), metric=NDCG))
    assert found.summary == (
        "Of 2 questions with evidence, none is lost before any retriever. "
        "Every one is found by at least one retriever."
    )
    assert found.unfound == ()


def test_the_depth_is_that_of_the_primary_metric_or_ten() -> None:
    at_ten = of("a", q1=10) + of("b", q1=11)
    for metric in (NDCG, SIMILARITY):
        found = made(study([question("q1")], at_ten, metric=metric))
        assert [(one.label, one.found) for one in found.rankers] == [("a", 1), ("b", 0)]
    at_five = dataclasses.replace(NDCG, name="ndcg@5")
    assert [one.found for one in made(study([question("q1")], at_ten, metric=at_five)).rankers] == [0, 0]


def test_without_losses_there_is_no_section() -> None:
    data = report_data()
    for none in (None, frame([], {**LOSSES, "cell": pl.String})):
        html = render_html(dataclasses.replace(data, losses=none))
        assert 'id="lost"' not in html
        assert 'href="#lost"' not in html


def test_cells_of_other_generators_add_no_ranking_and_all_questions_are_there() -> None:
    data = report_data()
    found = made(data)
    assert len(found.rankers) == 12
    assert all(one.found + sum(one.lost.values()) + one.failed == 40 for one in found.rankers)
    (failing,) = [one for one in found.rankers if one.failed]
    assert (failing.label, failing.failed) == ("articles · dense", 5)
    assert all(one.lost[Loss.CORPUS] == 1 for one in found.rankers)
    assert f"q{GONE:03}" in {one["question_id"] for one in found.unfound}


def test_a_question_that_no_retriever_finds_leads_to_its_hits() -> None:
    html = render_html(report_data())
    section = html[html.index('<section id="lost">') : html.index('<section id="failures">')]
    assert f">q{GONE:03}</a> · lost at corpus in every ranking" in section
    assert "Causes without a column lost no question: filter and reranking." in section


def test_the_list_of_unfound_questions_is_cut_and_says_so() -> None:
    many = {f"q{number}": "candidates" for number in range(20)}
    data = study([question(name) for name in many], of("a", **many) + of("b", **many), metric=NDCG)
    found = made(data)
    assert len(found.unfound) == 20
    assert "12 further questions left out" in render_html(data)
