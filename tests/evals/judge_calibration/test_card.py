"""A judge with known rates of error gets the card that says so."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag_assay.evals.judge_calibration.card import CardMeasure, card_rows
from rag_assay.evals.judge_calibration.judge_trials import CalibrationJudgements, Trials, trials_of
from rag_assay.evals.judging.cards.labels import Label, LabelFile, LabelledCase, read_labels
from rag_assay.evals.judging.contract import (
    Judge,
    JudgeCase,
    JudgeContext,
    JudgedMetric,
    Judgement,
    Statement,
)
from rag_assay.evals.judging.judge_runner import JudgeTask, Row, case_id, judgement_rows
from rag_assay.evals.judging.pairwise import PLACES
from rag_assay.evals.statistics.estimate import Estimate
from rag_assay.warehouse.inference.gateway import Gateway
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import Status
from tests.fakes.faulty_judge import PREFERRED, Faults, FaultyJudge, labelled_case
from tests.fakes.indexing import vector_of
from tests.fakes.judges import CountingJudge
from tests.fakes.openai_server import FakeOpenAI

N_LABELLED = 240
Card = dict[tuple[str | None, str, str | None], CardMeasure]


def card_of(
    judge: Judge,
    trials: Trials,
    home: Path,
    metrics: Sequence[JudgedMetric] | None = None,
    of_study: Mapping[str, Sequence[Row]] | None = None,
    lengths: Mapping[str, int] | None = None,
) -> Card:
    wanted = judge.judged_metrics if metrics is None else metrics
    with Gateway(Home(home), retries=0) as gateway:
        context = JudgeContext(gateway, lambda texts: np.stack([vector_of(text) for text in texts]), 7)
        rows = judgement_rows(JudgeTask(judge, wanted, [one.case for one in trials.trials]), context)
    judged = CalibrationJudgements(judge, wanted, trials.trials, rows, of_study or {}, lengths or {}, 7)
    return {(one.metric, one.measure, one.part): one for one in card_rows(judged, trials.unmade)}


def labelled(n: int) -> list[LabelledCase]:
    cases = [labelled_case(number) for number in range(n)]
    return [
        LabelledCase(case, {"support": Label(label > 0.5, label)}, f"labels:{at}")
        for at, (case, label) in enumerate(cases)
    ]


@pytest.fixture(scope="module")
def card(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Card, FakeOpenAI]]:
    faults = Faults()
    with FakeOpenAI(respond=faults.respond) as server:
        judge = FaultyJudge(model="openai/any", api_base=server.api_base, replicates=3, vote="majority")
        cases = [labelled_case(number)[0] for number in range(1000, 1096, 2)]
        trials = trials_of(cases, labelled(N_LABELLED), judge.judged_metrics, 48, 7)
        yield card_of(judge, trials, tmp_path_factory.mktemp("home")), server


@pytest.mark.parametrize(
    ("metric", "measure", "part", "truth"),
    [
        ("support", "parse_rate", None, 0.95),
        ("preferred", "parse_rate", None, 0.95),
        ("support", "status", "parse_failed", 0.05),
        ("support", "flip_rate", None, 0.10),
        ("support", "spread", None, 0.10),
        ("support", "accuracy", None, 0.80),
        ("support", "auc", None, 0.80),
        ("support", "kappa", None, 0.60),
        ("support", "tau", None, 0.60),
        ("support", "caught", "numbers", 0.75),  # of 1.0, a half of what is judged wrong and long stays
        ("support", "tied", "numbers", 0.25),
        ("support", "false_alarm", None, 0.01),
        ("support", "length_bias", "equal labels", 0.5),  # 0.4 / sqrt(1 - 0.6^2)
        ("preferred", "position_bias", "sides", 0.30),
    ],
)
def test_a_measure_holds_the_rate_that_the_judge_was_given(
    card: tuple[Card, FakeOpenAI], metric: str, measure: str, part: str | None, truth: float
) -> None:
    found = card[0][metric, measure, part].estimate
    assert found.value is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low <= truth <= found.high
    assert found.high - found.low < 0.32
    assert found.n >= 30


def test_the_card_says_what_judging_costs(card: tuple[Card, FakeOpenAI]) -> None:
    found, server = card
    calls = found[None, "calls_per_1000", None].estimate
    # Of two equal calls at once one is made, and both are counted.
    assert calls.value == pytest.approx(1000 * len(server.requests) / calls.n, rel=0.005)
    assert found[None, "prompt_tokens_per_1000", None].estimate.value == pytest.approx(
        11 * (calls.value or 0)
    )
    assert found[None, "completion_tokens_per_1000", None].estimate.value == pytest.approx(
        7 * (calls.value or 0)
    )
    assert (found[None, "seconds_per_1000", None].estimate.value or 0) > 0


def test_a_card_without_labels_is_uncalibrated_and_one_without_trials_measures_nothing(
    tmp_path: Path,
) -> None:
    judge = CountingJudge()
    cases = [labelled_case(number, rival=False)[0] for number in range(8)]
    found = card_of(judge, trials_of(cases, [], judge.judged_metrics, 4, 7), tmp_path)
    labels = found["support", "labels", None].estimate
    assert labels.value == 0
    assert "uncalibrated" in (labels.reason or "")
    assert ("support", "auc", None) not in found
    assert found["support", "caught", None].estimate.n > 4
    assert "alike each time" in (found["support", "flip_rate", None].estimate.reason or "")
    assert found["support", "false_alarm", None].estimate.n == 4
    empty = card_of(judge, trials_of([], [], judge.judged_metrics, 8, 7), tmp_path)
    assert empty["support", "parse_rate", None].estimate.reason == "it was asked for nothing yet"
    assert all(one.estimate.value in {None, 0.0} for one in empty.values())
    assert all(one.estimate.reason for one in empty.values())


class BrokenJudge(CountingJudge):
    """Says nothing that is a number, or breaks."""

    kind = "broken"
    breaks: bool = False

    def verdicts(self, cases: Sequence[JudgeCase], context: JudgeContext) -> list[dict[str, Judgement]]:
        if self.breaks:
            raise ZeroDivisionError("by design")
        return [{"support": Judgement(Status.OK, float("nan"), raw="NaN")} for _ in cases]


@pytest.mark.parametrize("breaks", [True, False])
def test_a_judge_that_fails_gets_a_card_that_says_so(tmp_path: Path, breaks: bool) -> None:
    judge = BrokenJudge(breaks=breaks)
    metrics = [one for one in judge.judged_metrics if one.name == "support"]
    found = card_of(judge, trials_of([labelled_case(0)[0]], labelled(6), metrics, 4, 7), tmp_path, metrics)
    assert found["support", "parse_rate", None].estimate.value == 0.0
    status = "error" if breaks else "parse_failed"
    assert found["support", "status", status].estimate.value == 1.0
    assert "6 of 6 labelled cases have no value" in (found["support", "labels", None].estimate.reason or "")
    for measure, part in (("auc", None), ("kappa", None), ("tau", None), ("caught", "numbers")):
        one = found["support", measure, part].estimate
        assert one.value is None
        assert one.reason


def test_labels_of_one_class_and_grades(tmp_path: Path) -> None:
    judge = CountingJudge()
    metrics = [one for one in judge.judged_metrics if one.name == "support"]
    good = [replace(one, labels={"support": Label(True, 1.0)}) for one in labelled(8)]
    found = card_of(judge, trials_of([], good, metrics, 0, 7), tmp_path, metrics)
    assert found["support", "auc", None].estimate.reason == "all cases have the same label"
    assert found["support", "accuracy", None].estimate.value is None
    assert "no AUC can be computed" in (found["support", "accuracy", None].estimate.reason or "")
    assert ("support", "caught", None) not in found, "no answer was to be made worse"
    grades = [
        replace(one, labels={"support": Label(at % 4 > 1, at % 4 / 3)}) for at, one in enumerate(labelled(12))
    ]
    found = card_of(judge, trials_of([], grades, metrics, 0, 7), tmp_path, metrics)
    assert found["support", "kappa", "quadratic"].estimate.n == 12


def test_a_metric_that_is_better_when_it_is_lower_is_read_the_other_way_round(tmp_path: Path) -> None:
    class Unsupported(CountingJudge):
        kind = "unsupported"

        @property
        def judged_metrics(self) -> tuple[JudgedMetric, ...]:
            return (JudgedMetric("unsupported", frozenset({"answer", "passages"}), higher_is_better=False),)

        def of(self, case: JudgeCase) -> dict[str, Judgement]:
            support = super().of(case)["support"]
            return {"unsupported": replace(support, value=1 - (support.value or 0))}

    cases = [labelled_case(number, rival=False)[0] for number in range(0, 24, 4)]
    one, other = (CountingJudge(), Unsupported())
    metrics = [one.judged_metrics[0]]
    plain = card_of(one, trials_of(cases, [], metrics, 6, 7), tmp_path / "a", metrics)
    turned = card_of(other, trials_of(cases, [], other.judged_metrics, 6, 7), tmp_path / "b")
    for kind in ("numbers", "denied", "other_answer"):
        assert turned["unsupported", "caught", kind] == plain["support", "caught", kind]._replace(
            metric="unsupported"
        )
    assert ("unsupported", "caught", "no_evidence") not in turned


def test_a_judge_of_pairs_that_prefers_what_stands_first_is_known_by_its_two_orders(tmp_path: Path) -> None:
    class Pairs(CountingJudge):
        kind = "pairs"

        @property
        def judged_metrics(self) -> tuple[JudgedMetric, ...]:
            return (PREFERRED,)

        def of(self, case: JudgeCase) -> dict[str, Judgement]:
            number = int(case.question.split()[5])
            points = (1.0, 0.0) if number % 10 < 3 else (1.0, 1.0)  # in three of ten pairs, what stands first
            said = tuple(Statement(of, "?", value=each) for of, each in zip(PLACES, points, strict=True))
            return {PREFERRED.name: Judgement(Status.OK, sum(points) / 2, statements=said)}

    judge = Pairs()
    cases = [labelled_case(number)[0] for number in range(40)]
    found = card_of(
        judge,
        trials_of(
            [],
            [LabelledCase(one, {"preferred": Label(True, 1.0)}, "") for one in cases],
            judge.judged_metrics,
            0,
            7,
        ),
        tmp_path,
    )
    assert found["preferred", "position_bias", "places"].estimate.value == pytest.approx(0.3)
    assert found["preferred", "position_bias", "places"].estimate.n == 40


def test_what_the_study_has_judged_counts_too(tmp_path: Path) -> None:
    judge = CountingJudge()
    cases = [replace(labelled_case(n)[0], question_id=f"q{n}", rival=None) for n in range(12)]
    with Gateway(Home(tmp_path), retries=0) as gateway:
        context = JudgeContext(gateway, lambda texts: np.stack([vector_of(text) for text in texts]), 7)
        rows = judgement_rows(JudgeTask(judge, judge.judged_metrics, cases), context)
    lost = {**rows[0], "value": None, "status": "timeout", "raw": None, "calls": 1, "replicate": 2}
    silent = {**rows[0], "value": None, "status": "no_context", "raw": None, "calls": None, "replicate": 3}
    of_study = {"study.cell.by.judge": [*rows, lost, silent]}
    lengths = {case_id(case): len(case.answer or "") for case in cases}
    found = card_of(judge, trials_of([], [], judge.judged_metrics, 0, 7), tmp_path, None, of_study, lengths)
    assert found["support", "parse_rate", None].estimate.n == 13
    assert found["support", "status", "timeout"].estimate.value == pytest.approx(1 / 13)
    length = found["support", "length_bias", None].estimate
    assert length.n == 12
    assert "labels would tell" in (length.reason or "")


# Judges of any range ----------------------------------------------------------------------------------------

RANGES = [(0.0, 1.0), (-1.0, 1.0), (1.0, 5.0), (0.0, 10.0)]
MEANINGS: dict[str, tuple[dict[str, Any], list[Any], list[Any]]] = {  # what labels mean; bad ones, good ones
    "0 and 1": ({"scale": [0, 1]}, [0], [1]),
    "1 is bad": ({"scale": [1, 0]}, [1], [0]),
    "true and false": ({}, [False], [True]),
    "grades": ({"scale": [1, 5], "good_from": 4}, [1, 2, 3], [4, 5]),
    "marks at school": ({"scale": [6, 1], "good_from": 2}, [6, 5, 4, 3], [2, 1]),
}


def ranged(bounds: tuple[float, float], *, higher_is_better: bool) -> Judge:
    """A judge that gives what the answer says, as a share of its range."""

    class Ranged(CountingJudge):
        kind = "ranged"

        @property
        def judged_metrics(self) -> tuple[JudgedMetric, ...]:
            return (JudgedMetric("value", bounds=bounds, higher_is_better=higher_is_better),)

        def of(self, case: JudgeCase) -> dict[str, Judgement]:
            share = float(case.answer or "0")
            low, high = bounds if higher_is_better else bounds[::-1]
            return {"value": Judgement(Status.OK, low + share * (high - low))}

    return Ranged()


def card_by(
    meaning: str, shares: Sequence[float], good: Sequence[bool], judge: Judge, folder: Path
) -> dict[str, Estimate]:
    scale, bads, goods = MEANINGS[meaning]
    path = folder / "labels.jsonl"
    lines = []
    for number, (share, is_good) in enumerate(zip(shares, good, strict=True)):
        levels = goods if is_good else bads
        label = levels[number % len(levels)]
        lines.append(json.dumps({"question": f"{number}?", "answer": repr(float(share)), "label": label}))
    path.write_text("\n".join(lines))
    cases = read_labels(path, judge.judged_metrics, LabelFile.model_validate({"file": path.name, **scale}))
    card = card_of(judge, trials_of([], cases, judge.judged_metrics, 0, 7), folder)
    return {name: one.estimate for (_, name, part), one in card.items() if part is None}


@pytest.mark.parametrize("higher_is_better", [True, False], ids=["more is better", "less is better"])
@pytest.mark.parametrize("bounds", RANGES, ids=str)
@pytest.mark.parametrize("meaning", MEANINGS)
def test_a_coin_is_never_called_right_and_a_good_judge_is(
    meaning: str, bounds: tuple[float, float], higher_is_better: bool, tmp_path: Path
) -> None:
    rng = np.random.default_rng(7)
    good = [bool(one) for one in rng.integers(0, 2, 120)]
    judge = ranged(bounds, higher_is_better=higher_is_better)
    coin = card_by(meaning, (0.5 + rng.random(120) / 2).tolist(), good, judge, tmp_path)
    assert coin["auc"].low is not None
    assert coin["auc"].high is not None
    assert coin["auc"].low < 0.5 < coin["auc"].high
    assert coin["accuracy"].value is None
    assert "no better than chance" in (coin["accuracy"].reason or "")
    apart = [
        0.6 + one / 10 if is_good else one / 2.5 for one, is_good in zip(rng.random(120), good, strict=True)
    ]
    sharp = card_by(meaning, apart, good, judge, tmp_path)
    assert (sharp["auc"].value, sharp["accuracy"].value, sharp["kappa"].value) == (1.0, 1.0, 1.0)
    side, middle = "from" if higher_is_better else "up to", sum(bounds) / 2
    assert sharp["accuracy"].reason == f"good {side} {middle:g}, the middle of its range"
    assert (sharp["tau"].value or 0) > 0.4
    turned = card_by(meaning, [1 - one for one in apart], good, judge, tmp_path)
    assert (turned["auc"].value, turned["accuracy"].value) == (0.0, None)


@pytest.mark.parametrize("is_good", [True, False])
def test_labels_of_one_class_say_nothing_of_a_judge(is_good: bool, tmp_path: Path) -> None:
    judge = ranged((-1.0, 1.0), higher_is_better=True)
    found = card_by("0 and 1", [0.9] * 10 + [0.8] * 10, [is_good] * 20, judge, tmp_path)
    assert (found["auc"].value, found["auc"].reason) == (None, "all cases have the same label")
    assert found["accuracy"].value is None
    assert "all cases have the same label" in (found["accuracy"].reason or "")


def test_what_a_judge_gives_to_all_is_a_coin(tmp_path: Path) -> None:
    judge = ranged((0.0, 1.0), higher_is_better=True)
    found = card_by("0 and 1", [1.0] * 20, [True] * 19 + [False], judge, tmp_path)
    assert (found["auc"].value, found["accuracy"].value) == (0.5, None)
    assert "all scores are the same" in (found["accuracy"].reason or "")
