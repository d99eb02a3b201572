"""What is disputed: where judges disagree, and where the answers to a question differ."""

from __future__ import annotations

import polars as pl
import pytest

from rag_assay.evals.human.queue_builder import dispute_scores

Row = tuple[str, str, str, float]


def found(rows: list[Row], lower: tuple[str, ...] = ()) -> dict[tuple[str, str], float]:
    frame = pl.DataFrame(rows, ["cell", "question_id", "metric", "value"], orient="row")
    return {(cell, question): value for cell, question, value in dispute_scores(frame, lower).iter_rows()}


def test_judges_that_disagree_dispute_an_answer() -> None:
    """Three answers to three questions; one judge has the second best, the other worst: ranks 5/6 and 1/6."""
    kind = [("c", "q1", "a.x", 0.1), ("c", "q2", "a.x", 0.9), ("c", "q3", "a.x", 0.5)]
    strict = [("c", "q1", "b.x", 1.0), ("c", "q2", "b.x", 0.0), ("c", "q3", "b.x", 0.5)]
    of = found([*kind, *strict])
    assert of["c", "q2"] == pytest.approx(2 * (5 / 6 - 1 / 6) / 2)
    assert of["c", "q3"] == pytest.approx(0.0)
    assert of["c", "q1"] == of["c", "q2"]
    turned = found([*kind, *strict], lower=("b.x",))
    assert set(turned.values()) == {0.0}, "where less is better, they agree"


def test_scales_of_judges_say_nothing() -> None:
    rows = [("c", f"q{n}", "a.x", n / 10) for n in range(5)]
    assert set(found([*rows, *(("c", q, "b.x", 100 + 50 * v) for _, q, _, v in rows)]).values()) == {0.0}


def test_a_question_whose_answers_differ_is_disputed_in_all_of_its_cells() -> None:
    rows = [
        ("c1", "q1", "a.x", 0.0),
        ("c2", "q1", "a.x", 1.0),
        ("c1", "q2", "a.x", 0.5),
        ("c2", "q2", "a.x", 0.5),
    ]
    of = found(rows)
    assert of["c1", "q1"] == of["c2", "q1"] == pytest.approx(2 * (7 / 8 - 1 / 8) / 2)
    assert of["c1", "q2"] == of["c2", "q2"] == 0.0


def test_one_value_alone_is_not_disputed() -> None:
    assert found([("c", "q", "a.x", 0.3)]) == {("c", "q"): 0.0}
    assert found([("c", "q1", "a.x", 0.3), ("c", "q2", "a.x", 0.7)]) == {("c", "q1"): 0.0, ("c", "q2"): 0.0}
