from __future__ import annotations

from typing import Any

from rag_assay.evals.judge_calibration.card import FEWEST, CardMeasure, people_rows, rated_of, with_people
from rag_assay.evals.judging.criteria import CriteriaJudge
from rag_assay.evals.judging.pairwise import PairwiseJudge
from rag_assay.evals.judging.ragas.judge import Ragas
from rag_assay.evals.judging.similarity import Similarity
from rag_assay.evals.rubrics.pairwise import PairwiseRubric
from rag_assay.evals.rubrics.points import Points
from rag_assay.evals.rubrics.rubric import Rubric
from rag_assay.evals.statistics.estimate import Estimate
from rag_assay.evals.statistics.question_clusters import ALONE
from rag_assay.warehouse.parquet import frame
from rag_assay.warehouse.schemas import ANNOTATIONS, HUMAN_SCORES

CELL, OTHER = "s.c.e.r.g", "s.c.e.r.h"
JUDGE = Similarity()
SCORES = [5.0, 3.0, 0.0]


def said(
    value: float, question: int, cell: str = CELL, item: str | None = None, **more: Any
) -> dict[str, Any]:
    row = {"cell": cell, "question_id": f"q{question}", "rubric": "points", "criterion": None, "value": value}
    return {**row, "annotators": 1, "item_id": item or f"item-{cell}-{question}", **more}


def counted(rows: list[dict[str, Any]], annotator: str = "ann") -> list[dict[str, Any]]:
    names = ("item_id", "rubric", "criterion", "value")
    return [
        {
            **{name: row[name] for name in names},
            "annotator": annotator,
            "status": "ok",
            "showing": 1,
            "score_id": f"{annotator}{n}",
        }
        for n, row in enumerate(rows)
    ]


def judgement(
    value: float | None, question: int, metric: str = "passage", replicate: int = 1
) -> dict[str, Any]:
    status = "ok" if value is not None else "parse_failed"
    return {
        "question_id": f"q{question}",
        "metric": metric,
        "replicate": replicate,
        "status": status,
        "value": value,
        "reason": None,
    }


def rows(
    given: list[dict[str, Any]],
    judged: dict[str, list[dict[str, Any]]],
    judge: Any = JUDGE,
    scores: list[dict[str, Any]] | None = None,
    rubrics: dict[str, Rubric] | None = None,
) -> list[CardMeasure]:
    people = frame(counted(given) if scores is None else scores, HUMAN_SCORES)
    rated = rated_of(rubrics or {"points": Points()}, frame(given, ANNOTATIONS), people, 7, ALONE)
    return list(people_rows(judge, judged, rated, ALONE))


def one(
    found: list[CardMeasure], measure: str, metric: str = "passage", part: str = "people.points"
) -> Estimate:
    (row,) = (one for one in found if (one.metric, one.measure, one.part) == (metric, measure, part))
    return row.estimate


def scored(n: int) -> tuple[list[dict[str, Any]], dict[str, list[dict[str, Any]]]]:
    """So many answers, and a judge that orders them as people do, though it gives none more than 0.3."""
    values = [SCORES[at % 3] for at in range(n)]
    return [said(value, at) for at, value in enumerate(values)], {
        CELL: [judgement(value / 20 + at / 10_000, at) for at, value in enumerate(values)]
    }


def test_a_judge_that_orders_as_people_do() -> None:
    found = rows(*scored(30))
    assert one(found, "labels").value == 30
    assert (one(found, "auc").value, one(found, "people").value) == (1.0, 1.0)
    assert one(found, "auc").low > 0.7
    assert one(found, "tau").value > 0.7
    assert one(found, "kappa").value < 0.6, "its numbers are not theirs"
    assert one(found, "people_alpha").reason == "no item was scored by two people"
    assert {row.metric for row in found} == {"passage"}, "the baseline looks at no answer"


def test_a_good_answer_is_one_in_the_upper_half_of_the_rubric() -> None:
    """3 of 5 points is a good one: the judge tells 0 from the others, and not 3 from 5."""
    given = [said(SCORES[at % 3], at) for at in range(30)]
    judged = {CELL: [judgement(0.0 if at % 3 == 2 else 0.5, at) for at in range(30)]}
    found = rows(given, judged)
    assert one(found, "auc").value == 1.0
    assert one(found, "tau").value < 1.0


def test_too_few_scores_leave_it_uncalibrated_and_say_how_many_it_takes() -> None:
    found = rows(*scored(FEWEST - 1))
    assert one(found, "labels").value == FEWEST - 1
    assert "uncalibrated: 20" in (one(found, "labels").reason or "")
    assert not any(row.measure in {"auc", "kappa", "tau"} for row in found)
    assert any(row.measure == "auc" for row in rows(*scored(FEWEST)))


def test_what_the_judge_gives_no_value_is_counted() -> None:
    given, judged = scored(40)
    judged[CELL] = [judgement(None, at) if at < 15 else row for at, row in enumerate(judged[CELL])]
    found = rows(given, judged)
    assert one(found, "labels").value == 25
    assert one(found, "labels").reason == "15 more that people have scored have no value"
    assert not rows([], judged)
    assert one(rows(given, {}), "labels").value == 0


def test_an_answer_of_several_cells_is_one_case_and_unequal_scores_are_two() -> None:
    values = [SCORES[at % 3] for at in range(30)]
    given = [said(value, at, cell, f"item-{at}") for cell in (CELL, OTHER) for at, value in enumerate(values)]
    judged = {cell: [judgement(value / 5, at) for at, value in enumerate(values)] for cell in (CELL, OTHER)}
    assert one(rows(given, judged), "labels").value == 30
    given[0] = {**given[0], "value": 0.0}
    assert one(rows(given, judged), "labels").value == 31


def test_replicates_vote_as_they_do_in_the_study() -> None:
    given, _ = scored(30)
    plain = {CELL: [judgement(SCORES[at % 3] / 5, at, "conciseness") for at in range(30)]}
    one_more = [judgement(1.0, at, "conciseness", replicate=3) for at in range(30)]
    thrice = {CELL: [{**row, "replicate": n} for n in (1, 2) for row in plain[CELL]] + one_more}
    judge, often = (
        CriteriaJudge(model="openai/x", metrics=("conciseness",), temperature=1, replicates=n, vote=vote)
        for n, vote in ((1, "mean"), (3, "majority"))
    )
    alone = one(rows(given, plain, judge), "kappa", "conciseness")
    assert alone.value == 1.0
    assert one(rows(given, thrice, often), "kappa", "conciseness") == alone, "the third is outvoted"


def test_people_are_held_against_each_other_too() -> None:
    given, judged = scored(30)
    others = [{**row, "value": 5.0 - row["value"]} for row in given]
    together = rows(given, judged, scores=counted(given) + counted(others, "bob"))
    assert one(together, "people").value == 2
    assert one(together, "people_alpha").value < 0
    alike = rows(given, judged, scores=counted(given) + counted(given, "bob"))
    assert one(alike, "people_alpha").value == 1


def test_only_what_compares_the_same_answers_is_held_against_pairs() -> None:
    rubrics: dict[str, Rubric] = {"duel": PairwiseRubric(against="c.e.r.h")}
    given = [said(at % 2, at, rubric="duel") for at in range(30)]
    judged = {CELL: [judgement(at % 2, at, "win") for at in range(30)]}
    same, other = (PairwiseJudge(model="openai/x", against=cell) for cell in ("c.e.r.h", "c.e.r.other"))
    assert one(rows(given, judged, same, rubrics=rubrics), "auc", "win", "people.duel").value == 1.0
    assert not rows(given, judged, other, rubrics=rubrics)
    assert not rows(*scored(30), same)


def test_less_is_better_where_the_metric_says_so() -> None:
    judge = Ragas(model="openai/x", metrics=("noise_sensitivity",))
    given = [said(SCORES[at % 3], at) for at in range(30)]
    judged = {CELL: [judgement(1 - SCORES[at % 3] / 5, at, "noise_sensitivity") for at in range(30)]}
    found = rows(given, judged, judge)
    for measure in ("auc", "kappa", "tau", "accuracy"):
        assert one(found, measure, "noise_sensitivity").value == 1.0


def test_a_card_says_uncalibrated_until_people_have_scored_enough() -> None:
    open_row = CardMeasure(
        "passage", "labels", Estimate(0.0, reason="uncalibrated: there are no labelled cases of it")
    )
    few, enough = rows(*scored(5)), rows(*scored(30))
    assert open_row in with_people([open_row], few)
    assert open_row not in with_people([open_row], enough)
    of_file = CardMeasure("passage", "labels", Estimate(3.0, n=3))
    assert of_file in with_people([of_file], enough), "those of a file stand beside"
