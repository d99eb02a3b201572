from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from rag_assay.evals.judge_calibration.human_estimates import estimate_rows, judging_metrics
from rag_assay.evals.statistics.question_clusters import ALONE, Clustering
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.parquet import frame
from rag_assay.warehouse.schemas import ANNOTATIONS, HUMAN_ESTIMATES, SCORES
from tests.fakes.town import PLAIN

GOOD, BAD = "tiny.t16.minilm.bm25.quote", "tiny.t16.minilm.bm25.long"
N = 80


def study(**changes: Any) -> Study:
    generators = {name: {"extractive": {"passages": n}} for name, n in (("quote", 2), ("long", 3))}
    parts = {"generators": generators, "metrics": ["rouge_l", "semantic_similarity", "ndcg@10", "abstention"]}
    return Study.model_validate({**PLAIN, **parts, "rubrics": {"points": {"points": {}}}, **changes})


def worth(cell: str, seed: int = 1) -> np.ndarray:
    """What each answer is worth, 0 to 1: that of one cell more; of a question alike in both."""
    hard = np.random.default_rng(seed).random(N)
    return np.clip(hard + (0.15 if cell == GOOD else -0.15), 0, 1)


def score_of(value: float) -> float:
    return 5.0 if value > 0.6 else 3.0 if value > 0.35 else 0.0


def annotation(cell: str, question: int, value: float | None, **changes: Any) -> dict[str, Any]:
    row = {"cell": cell, "question_id": f"q{question}", "rubric": "points", "criterion": None}
    seen = {"annotators": int(value is not None), "item_id": f"{cell}-{question}", "probability": None}
    return {**row, "value": value, "low": value, "high": value, **seen, **changes}


def annotations(labels: int, cells: tuple[str, ...] = (GOOD, BAD), **changes: Any) -> list[dict[str, Any]]:
    return [
        annotation(cell, n, score_of(worth(cell)[n]) if n < labels else None, **changes)
        for cell in cells
        for n in range(N)
    ]


def scored(cells: tuple[str, ...] = (GOOD, BAD), seed: int = 4) -> dict[str, pl.DataFrame]:
    chance = np.random.default_rng(seed)
    return {
        cell: frame(
            [
                {"question_id": f"q{n}", "metric": "rouge_l", "status": "ok", "value": float(value)}
                for n, value in enumerate(worth(cell) / 3 + 0.05 * chance.normal(size=N))
            ],
            SCORES,
        )
        for cell in cells
    }


def rows(
    given: list[dict[str, Any]], judged: dict[str, pl.DataFrame] | None = None, of: Study | None = None
) -> pl.DataFrame:
    found = estimate_rows(
        of or study(), frame(given, ANNOTATIONS), scored() if judged is None else judged, ALONE
    )
    return frame(found, HUMAN_ESTIMATES)


def one(found: pl.DataFrame, cell: str | None, metric: str = "rouge_l") -> dict[str, Any]:
    (row,) = found.filter(pl.col("cell").eq_missing(pl.lit(cell, pl.String)), metric=metric).iter_rows(
        named=True
    )
    return dict(row)


def test_people_judgements_and_both_stand_side_by_side() -> None:
    found = rows(annotations(30))
    truth = {cell: np.mean([score_of(value) for value in worth(cell)]) for cell in (GOOD, BAD)}
    for cell in (GOOD, BAD):
        row = one(found, cell)
        assert (row["items"], row["labels"], row["judgements"], row["left_out"]) == (N, 30, N, 0)
        assert row["people"] == pytest.approx(np.mean([score_of(value) for value in worth(cell)[:30]]))
        assert row["combined_high"] - row["combined_low"] < 0.9 * (row["people_high"] - row["people_low"])
        assert row["combined_low"] < truth[cell] < row["combined_high"]
        assert row["judged"] < 2, "a third of the scale is no score of people"
        assert row["judged_low"] < row["judged"] < row["judged_high"]
        assert row["saved"] > 10
        assert row["width"] < 0.9
        assert row["reason"] is None
    together = one(found, None)
    assert (together["items"], together["labels"], together["leader"]) == (2 * N, 60, None)
    assert together["people_high"] - together["people_low"] > 0.9 * (
        one(found, GOOD)["people_high"] - one(found, GOOD)["people_low"]
    )


def test_cells_are_held_against_the_best_on_the_same_questions() -> None:
    found = rows(annotations(30))
    assert (one(found, GOOD)["leader"], one(found, GOOD)["difference"]) == (GOOD, 0.0)
    apart = one(found, BAD)
    assert apart["leader"] == GOOD
    assert apart["difference_low"] < apart["difference"] < apart["difference_high"] < 0
    assert apart["difference_high"] - apart["difference_low"] < apart["people_high"] - apart["people_low"]


def test_what_cannot_be_held_against_people_is_left_out() -> None:
    assert [one.name for one in judging_metrics(study())] == ["rouge_l", "semantic_similarity", "abstention"]
    assert set(rows(annotations(5))["metric"]) == {"rouge_l", "semantic_similarity", "abstention"}
    assert rows(annotations(0)).is_empty(), "nobody has scored anything"
    other = [{**row, "rubric": "other"} for row in annotations(5)]
    gone = [{**row, "cell": "tiny.gone.minilm.bm25.quote"} for row in annotations(5)]
    assert rows(other).is_empty()
    assert rows(gone).is_empty()


def test_a_judge_without_values_leaves_people_alone() -> None:
    found = one(rows(annotations(30)), GOOD, "semantic_similarity")
    assert (found["judgements"], found["judged"], found["saved"], found["share"]) == (0, None, 0.0, 0.0)
    assert (found["combined"], found["combined_low"]) == (found["people"], found["people_low"])


def test_a_cell_without_scores_says_so() -> None:
    some = annotations(30, (GOOD,)) + annotations(0, (BAD,))
    row = one(rows(some), BAD)
    assert (row["people"], row["combined"], row["labels"]) == (None, None, 0)
    assert row["judged"] is not None
    assert row["reason"] == "there are no ratings of its answers"
    single = one(rows(annotations(1, (GOOD,))), GOOD)
    assert (single["people"] is not None, single["combined_low"]) == (True, None)
    assert single["reason"] == "scores of one question alone have no interval"


def test_scores_beside_a_queue_are_no_sample_and_left_out() -> None:
    drawn = annotations(30, (GOOD,), probability=0.5)
    stray = [{**row, "probability": None} if n < 7 else row for n, row in enumerate(drawn)]
    row = one(rows(stray), GOOD)
    assert (row["labels"], row["left_out"]) == (23, 7)
    everything = [
        {**row, "probability": None} if n < 7 else row
        for n, row in enumerate(annotations(N, (GOOD,), probability=0.5))
    ]
    assert (one(rows(everything), GOOD)["labels"], one(rows(everything), GOOD)["left_out"]) == (N, 0)


def test_what_is_drawn_more_counts_less() -> None:
    values = worth(GOOD)
    bad = values < np.median(values)
    given = []
    for n in range(N):
        likely = 1.0 if bad[n] else 0.25
        is_drawn = bad[n] or n % 4 == 0
        given.append(annotation(GOOD, n, score_of(values[n]) if is_drawn else None, probability=likely))
    row = one(rows(given), GOOD)
    truth = np.mean([score_of(value) for value in values])
    assert np.mean([one["value"] for one in given if one["value"] is not None]) < truth - 0.7
    assert row["people_low"] < truth < row["people_high"]


def test_ties_are_known_of_all_and_say_nothing_of_the_others() -> None:
    ties = [annotation(GOOD, n, 2.5, annotators=0, item_id=None) for n in range(40)]
    others = [annotation(GOOD, n, 5.0 if n < 50 else None) for n in range(40, 80)]
    row = one(rows(ties + others), GOOD, "semantic_similarity")
    assert row["people"] == pytest.approx((40 * 2.5 + 40 * 5.0) / 80)
    assert rows(ties).is_empty(), "nobody has scored anything"


def test_the_study_says_which_interval_is_wanted() -> None:
    plain, wide = (
        one(rows(annotations(30), of=of), GOOD) for of in (study(), study(annotation={"precision": 0.2}))
    )
    assert (plain["wanted"], wide["wanted"]) == (0.25, 1.0)
    assert wide["labels_needed"] <= 30
    assert plain["labels_needed"] is None or plain["labels_needed"] > 30


def test_questions_about_one_document_are_no_independent_ones() -> None:
    given = frame(annotations(40), ANNOTATIONS)
    of = {f"q{n}": n // 4 for n in range(N)}
    shared = frame(estimate_rows(study(), given, scored(), Clustering("documents", of)), HUMAN_ESTIMATES)
    assert one(shared, GOOD)["people"] == one(rows(annotations(40)), GOOD)["people"]
    assert one(shared, GOOD)["people_low"] != one(rows(annotations(40)), GOOD)["people_low"]


def test_rows_in_another_order_are_the_same() -> None:
    given = annotations(30)
    mixed = [given[at] for at in np.random.default_rng(5).permutation(len(given))]
    assert rows(given).equals(rows(mixed))


def test_of_a_queue_that_shows_the_disputed_sooner_half_is_no_random_sample() -> None:
    """Bad answers are disputed, and come sooner: five to one are scored, when half of the queue is."""
    chance = np.random.default_rng(2)
    values = worth(GOOD)
    weights = np.where(values < np.median(values), 5.0, 1.0)
    truth, plain, weighted = np.mean([score_of(value) for value in values]), [], []
    for _ in range(40):
        first = set(np.argsort(chance.random(N) / weights)[: N // 4].tolist())
        given = [
            annotation(GOOD, n, score_of(values[n]) if n in first else None, probability=1.0)
            for n in range(N)
        ]
        sooner = {f"{GOOD}-{n}": float(weights[n]) for n in range(N)}
        for found, order in ((plain, None), (weighted, sooner)):
            made = estimate_rows(study(), frame(given, ANNOTATIONS), scored(), ALONE, order)
            found.append(one(frame(made, HUMAN_ESTIMATES), GOOD)["people"])
    assert np.mean(plain) < truth - 0.5
    assert np.mean(weighted) == pytest.approx(truth, abs=0.15)
    whole = annotations(N, (GOOD,), probability=1.0)
    made = estimate_rows(study(), frame(whole, ANNOTATIONS), scored(), ALONE, sooner)
    assert one(frame(made, HUMAN_ESTIMATES), GOOD)["people"] == pytest.approx(truth)


def test_a_cell_of_which_one_answer_is_scored_is_held_against_no_other() -> None:
    given = annotations(30, (GOOD,)) + [annotation(BAD, n, 5.0 if n == 0 else None) for n in range(N)]
    found = rows(given)
    single = one(found, BAD)
    assert single["combined"] > one(found, GOOD)["combined"], "it stands above the one that leads"
    assert one(found, GOOD)["leader"] == GOOD
    assert (single["combined_low"], single["leader"], single["difference"]) == (None, None, None)


def test_a_few_equal_scores_are_no_narrow_interval() -> None:
    given = [annotation(GOOD, n, 3.0 if n < 2 else None) for n in range(N)]
    row = one(rows(given), GOOD)
    assert row["combined_high"] - row["combined_low"] > 2 * row["wanted"]
    assert row["labels_needed"] is None or row["labels_needed"] > row["labels"]
