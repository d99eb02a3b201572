"""The agreement of annotators from their scores: what is paired, who is found out, and what has no number."""

import json
import math
from datetime import timedelta

import numpy as np
import polars as pl
import pytest

from rag_assay.evals.judge_calibration.agreement import FEW, MEASURES, agreement_rows, agreement_warnings
from rag_assay.evals.rubrics.points import Points
from rag_assay.evals.rubrics.rubric import Criterion, Rubric
from rag_assay.evals.statistics.question_clusters import Clustering
from rag_assay.warehouse.parquet import frame
from rag_assay.warehouse.schemas import AGREEMENT
from tests.fakes.annotators import BEGAN, Habit, frame_of, row, simulated

RUBRICS = {"points": Points()}
GRADES = np.arange(0.0, 11.0)


def measured(rows, rubrics=None, questions=None, clusters=None):
    given = [] if clusters is None else [clusters]
    found = agreement_rows(frame_of(rows), rubrics or RUBRICS, questions or {}, 7, *given)
    frame(found, AGREEMENT)  # raises where a column or a type is another one
    for one in found:
        assert one["measure"] in MEASURES
        assert (one["value"] is None) <= bool(one["reason"]), one
        assert all(math.isfinite(one[x]) for x in ("value", "low", "high") if one[x] is not None), one
    json.dumps(found, allow_nan=False)
    return found


def the(found, measure, annotator=None, other=None, criterion=None):
    (one,) = [
        one
        for one in found
        if (one["measure"], one["annotator"], one["other"], one["criterion"])
        == (measure, annotator, other, criterion)
    ]
    return one


def test_people_with_known_habits_are_found_out():
    people = {
        "anna": Habit(noise=0.4, repeats=0.3),
        "ben": Habit(bias=1.5, noise=0.4, repeats=0.3),
        "cem": Habit(drift=3.0, noise=0.4, seconds=10.0),
        "dora": Habit(noise=3.0, repeats=0.3),
    }
    items = {f"i{n}": f"q{n % 60}" for n in range(240)}
    found = measured(simulated(people, items, scale=GRADES))
    biases = {name: the(found, "bias", name) for name in people}
    assert max(biases, key=lambda name: biases[name]["value"]) == "ben"
    assert biases["ben"]["low"] > 0.7
    drifts = {name: the(found, "drift", name) for name in people}
    assert drifts["cem"]["low"] > 0.5
    trends = {name: the(found, "trend", name) for name in people}
    assert 2.0 < trends["cem"]["value"] < 3.5
    assert all(trends[name]["low"] < 0.6 for name in ("anna", "ben", "dora"))
    assert the(found, "repeats_apart", "dora")["value"] > 3 * the(found, "repeats_apart", "anna")["value"]
    assert the(found, "repeats_alpha", "anna")["value"] > 0.9
    assert the(found, "repeats", "cem")["n"] == the(found, "repeats_alpha", "cem")["n"]
    kappas = {(one["annotator"], one["other"]): one["value"] for one in found if one["measure"] == "kappa"}
    assert len(kappas) == 6
    assert min(kappas, key=kappas.get)[1] == "dora"
    assert the(found, "minutes", "cem")["value"] == pytest.approx(the(found, "minutes", "cem")["n"] / 6)


def test_one_person_has_no_agreement_and_no_bias_and_says_why():
    found = measured([row("anna", f"i{n}", 5.0 * (n % 2), question_id="q") for n in range(30)])
    assert the(found, "alpha")["reason"] == "anna alone has scored"
    assert the(found, "bias", "anna")["reason"] == "no other annotator has scored these items"
    assert the(found, "repeats", "anna")["reason"] == "no item was shown twice"
    assert the(found, "minutes", "anna")["reason"] == "it was not measured"
    assert (the(found, "items")["value"], the(found, "shared")["value"]) == (30, 0)
    assert not [one for one in found if one["measure"] == "kappa"]


def test_nobody_and_no_overlap_and_equal_values_have_reasons():
    assert the(measured([]), "alpha")["reason"] == "there are no ratings by it yet"
    apart = measured([row("anna", "i1", 5.0), row("ben", "i2", 3.0)])
    assert the(apart, "alpha")["reason"] == "no item was scored by two people"
    equal = measured([row(name, f"i{n}", 5.0) for name in ("anna", "ben") for n in range(30)])
    assert the(equal, "alpha")["reason"] == "all scores of these items are equal"
    assert the(equal, "equal")["value"] == 1.0
    assert the(equal, "kappa", "anna", "ben")["reason"] == "both raters give one grade to all cases"


def test_a_skipped_item_and_a_repeat_are_no_second_opinion():
    rows = [row("anna", "i1", 5.0), row("anna", "i1", 0.0, showing=2), row("ben", "i1", None)]
    found = measured([*rows, row("ben", "i2", 3.0)])
    assert the(found, "shared")["value"] == 0
    assert the(found, "repeats", "anna")["value"] == 0.0
    assert the(found, "repeats_apart", "anna")["value"] == 5.0
    assert the(found, "scores", "ben")["n"] == 1


def test_the_first_showing_counts_in_whatever_order_the_rows_come():
    rows = [row("anna", "i1", 0.0, showing=2, position=9), row("anna", "i1", 5.0, position=1)]
    rows += [row("ben", "i1", 5.0)]
    for given in (rows, rows[::-1]):
        assert the(measured(given), "equal", "anna", "ben")["value"] == 1.0


def test_scores_of_one_cell_are_of_that_cell_and_those_of_all_stand_beside_each():
    sheet = [
        row("anna", "i1", value, cell=f"s.c{n}.e.r.g", question_id="q") for n, value in enumerate((5.0, 0.0))
    ]
    found = measured([*sheet, row("ben", "i1", 5.0)])
    assert (the(found, "items")["value"], the(found, "shared")["value"]) == (2, 2)
    assert the(found, "equal", "anna", "ben")["value"] == 0.5
    other = measured([*sheet, row("ben", "i2", 5.0)])
    assert (the(other, "items")["value"], the(other, "shared")["value"]) == (3, 0)


def test_items_of_one_question_and_questions_of_one_cluster_are_drawn_together():
    rows = simulated({"anna": Habit(), "ben": Habit(noise=2.0)}, {f"i{n}": f"q{n}" for n in range(120)})
    for one in rows:
        one["question_id"] = None
    alone = the(measured(rows), "alpha")
    of_questions = {f"i{n}": f"q{n // 20}" for n in range(120)}
    together = the(measured(rows, questions=of_questions), "alpha")
    assert together["value"] == alone["value"]
    assert (together["low"], together["high"]) != (alone["low"], alone["high"])
    few = Clustering("documents", {f"q{n}": n // 3 for n in range(6)})
    assert the(measured(rows, questions=of_questions, clusters=few), "alpha")["low"] is None


def test_the_order_is_that_of_the_clock_or_is_not_known():
    rows = [row(name, f"i{n}", 5.0 * (n % 2), position=None) for name in ("anna", "ben") for n in range(30)]
    assert the(measured(rows), "drift", "anna")["reason"] == "the order of these scores is not known"
    for n, one in enumerate(rows):
        one["scored_at"] = BEGAN + timedelta(minutes=n)
    assert the(measured(rows), "drift", "anna")["value"] == 0.0


class Two(Rubric):
    """A rubric of two criteria."""

    kind = "two"

    @property
    def criteria(self):
        return tuple(Criterion(name, "?", {1.0: "yes", 0.0: "no"}) for name in ("brief", "kind"))


def test_criteria_and_rubrics_have_rows_of_their_own_and_time_is_not_counted_twice():
    rows = [
        row(name, f"i{n}", float(n % 2), rubric="two", criterion=criterion, seconds=30.0)
        for name in ("anna", "ben")
        for n in range(24)
        for criterion in ("brief", "kind")
    ]
    rows += [row("anna", "i1", 5.0)]
    found = measured(rows, {"points": Points(), "two": Two()})
    assert [one["value"] for one in found if one["measure"] == "alpha"] == [None, 1.0, 1.0]
    minutes = [one for one in found if one["measure"] == "minutes" and one["rubric"] == "two"]
    assert [(one["annotator"], one["value"], one["n"]) for one in minutes] == [
        ("anna", 12, 24),
        ("ben", 12, 24),
    ]


def test_an_ordinal_rubric_counts_ranks_and_points_their_distance():
    rows = [row(name, f"i{n}", value) for name, values in PAIR.items() for n, value in enumerate(values)]

    class Ordered(Points):
        kind = "ordered"
        level = "ordinal"

    points = the(measured(rows), "alpha")["value"]
    ordered = the(measured(rows, {"points": Ordered()}), "alpha")["value"]
    assert points != ordered


PAIR = {"anna": [0.0, 0, 0, 0, 3, 5, 5, 3], "ben": [0.0, 0, 0, 3, 3, 5, 3, 5]}


def test_warnings_name_what_is_too_low_and_what_is_not_known():
    def warned(noise, n):
        people = {"anna": Habit(noise=noise), "ben": Habit(noise=noise)}
        return agreement_warnings(measured(simulated(people, {f"i{i}": f"q{i}" for i in range(n)})))

    assert warned(0.2, 60) == []
    (low,) = warned(6.0, 60)
    assert "people.points: people agree too little" in low
    assert "below 0.667" in low
    (few,) = warned(0.2, FEW - 1)
    assert f"only {FEW - 1} items were scored by two people; {FEW} or more" in few
    equal = [row(name, f"i{n}", 5.0) for name in ("anna", "ben") for n in range(FEW)]
    (none,) = agreement_warnings(measured(equal))
    assert none.endswith("no agreement can be computed: all scores of these items are equal")
    assert agreement_warnings(measured([])) == []


def test_names_of_any_kind_stay_apart():
    names = ["Ärzte", "arzte", "a\x1fb", "{x}", "<b>", " "]
    rows = [row(name, f"i\x1f{n}", 5.0 * (n % 2)) for name in names for n in range(3)]
    found = measured(rows)
    assert {one["annotator"] for one in found if one["measure"] == "scores"} == set(names)
    assert the(found, "items")["value"] == 3


def test_many_people_and_scores_are_counted_once_each():
    items = {f"i{n}": f"q{n % 40}" for n in range(400)}
    people = {f"p{n}": Habit(seen=0.3, repeats=0.0) for n in range(12)}
    rows = simulated(people, items)
    found = measured(rows)
    assert sum(one["n"] for one in found if one["measure"] == "scores") == len(rows)
    by_hand = (
        pl.DataFrame(rows, infer_schema_length=None)
        .group_by("item_id")
        .agg(pl.col("value").mean(), n=pl.len())
    )
    assert the(found, "shared")["value"] == by_hand.filter(pl.col("n") > 1).height
