"""Every judge of a study has a card: tried once, kept through kills and changes, with labels and without."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from rag_assay.evals.judging.contract import JudgeCase, Judgement
from rag_assay.evals.reporting.page import render_html
from rag_assay.evals.reporting.question_rows import question_rows
from rag_assay.evals.study.cost_estimate import estimates
from rag_assay.evals.study.run_plan import plan
from rag_assay.warehouse.connection import connect
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.inference import call_failures
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.schemas import JUDGE_CARDS, JUDGE_TRIALS
from tests.fakes.judges import AskingJudge, CountingJudge, in_the_registry
from tests.fakes.openai_server import FakeOpenAI, answer, failure
from tests.fakes.town import PLAIN, Town, Variant

pytestmark = pytest.mark.models
NOON = "It leaves at noon."
LABELS = [
    {"question": "When?", "answer": "At noon.", "passages": [NOON], "labels": {"support": 1}},
    {"question": "Why?", "answer": "Quite so.", "passages": [NOON], "labels": {"support": 0}},
    {
        "question": "Who?",
        "answer": "It leaves.",
        "passages": [NOON],
        "labels": {"support": 1},
    },
]


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    with in_the_registry(CountingJudge, AskingJudge):
        yield


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    reply = json.dumps({"support": 0.5, "agreement": 1.0, "reason": "it says so"})
    with FakeOpenAI(respond=lambda _received: answer(reply)) as running:
        yield running


def asking(server: FakeOpenAI, **parameters: Any) -> dict[str, Any]:
    return {"asking": {"model": "openai/judge", "api_base": server.api_base, **parameters}}


def study(judges: dict[str, Any] | None = None, **cards: Any) -> Variant:
    return {**PLAIN, "judges": judges or {"counting": {"counting": {}}}, "judge_cards": cards}


def card(town: Town, judge: str = "counting") -> pl.DataFrame:
    return read_parquet(town.bench.folder("judge_cards", f"tiny.{judge}") / "judge_cards.parquet")


def trials(town: Town, judge: str = "counting") -> pl.DataFrame:
    return read_parquet(town.bench.folder("judge_cards", f"tiny.{judge}") / "trials.parquet")


def measure(rows: pl.DataFrame, metric: str, measure: str, part: str | None = None) -> dict[str, Any]:
    of_part = pl.col("slice").is_null() if part is None else pl.col("slice") == part
    (row,) = rows.filter(metric=metric, measure=measure).filter(of_part).iter_rows(named=True)
    return dict(row)


def labels(folder: Path, *cases: dict[str, Any]) -> dict[str, Any]:
    (folder / "labels.jsonl").write_text("".join(json.dumps(one) + "\n" for one in cases or LABELS))
    return {"file": "labels.jsonl", "scale": [0, 1]}


def test_a_card_without_labels_knows_what_mutations_show(town: Town) -> None:
    town.run(study(), "home")
    rows, tried = card(town), trials(town)
    assert rows.schema == pl.Schema(JUDGE_CARDS)
    assert tried.schema == pl.Schema(JUDGE_TRIALS)
    assert set(rows["study"]) == {"tiny"}
    assert set(rows["judge"]) == {"counting"}
    assert measure(rows, "support", "parse_rate")["value"] == 1.0
    assert "uncalibrated" in measure(rows, "support", "labels")["reason"]
    assert measure(rows, "support", "caught", "other_answer")["n"] > 0
    assert measure(rows, "support", "false_alarm")["n"] > 0
    assert set(tried["role"]) >= {"original", "worse", "same", "order"}
    assert tried.filter(role="original").height <= 8
    with connect(town.bench.home.database) as connection:
        stored = connection.execute("SELECT count(*), min(judge) FROM current_judge_cards").fetchall()
    assert stored == [(len(rows), "counting")]


def test_no_answer_is_made_worse_where_the_study_says_so(town: Town, server: FakeOpenAI) -> None:
    town.build(study({"judge": asking(server)}, judge={"mutations": 0}), "home")
    assert trials(town, "judge").is_empty()
    rows = card(town, "judge")
    assert measure(rows, "support", "parse_rate")["n"] > 0, "what the study has judged counts"
    assert rows.filter(measure="caught").is_empty()
    assert len(server.requests) == len(set(map(repr, server.requests)))


def test_labels_calibrate_a_judge_and_a_further_one_is_judged_alone(town: Town, server: FakeOpenAI) -> None:
    judge = {"judge": asking(server)}
    town.run(study(judge, judge={"mutations": 1}), "home")
    n = len(server.requests)
    file = labels(town.folder, *LABELS[:2])
    town.run(study(judge, judge={"mutations": 1, "labels": file}), "home")
    assert len(server.requests) == n + 2
    assert town.built == {"judge_cards"}
    labels(town.folder)
    town.run(study(judge, judge={"mutations": 1, "labels": file}), "home")
    assert len(server.requests) == n + 3
    rows = card(town, "judge")
    assert measure(rows, "support", "labels")["value"] == 3
    assert measure(rows, "support", "auc")["value"] == 0.5, "it says the same of all"
    assert "uncalibrated" in measure(rows, "agreement", "labels")["reason"]
    data = town.run(study(judge, judge={"mutations": 1, "labels": file}), "home")
    assert len(server.requests) == n + 3
    assert not town.built
    assert data.judge_pairs is not None
    assert sorted(data.judge_pairs["good"]) == sorted(one["labels"]["support"] >= 0.5 for one in LABELS)
    assert data.judge_pairs.select("judge", "metric", "slice", "value").unique().rows() == [
        ("judge", "support", None, 0.5)
    ]


def test_two_judges_have_two_cards_and_a_renamed_one_asks_nothing(town: Town, server: FakeOpenAI) -> None:
    town.run(study({"one": asking(server), "counting": {"counting": {}}}), "home")
    n, before = len(server.requests), card(town, "one")
    assert measure(card(town), "support", "flip_rate")["reason"] == "it judges a case alike each time"
    assert measure(before, "support", "flip_rate")["value"] == 0.0, "its answers were judged twice"
    town.run(study({"other": asking(server)}), "home")
    assert len(server.requests) == n
    after = card(town, "other")
    assert set(after["judge"]) == {"other"}
    costs = pl.col("measure").str.ends_with("per_1000")
    assert after.drop("judge").filter(~costs).equals(before.drop("judge").filter(~costs))
    with connect(town.bench.home.database) as connection:
        found = connection.sql("SELECT DISTINCT judge FROM current_judge_cards ORDER BY 1").fetchall()
    assert ("other",) in found


def test_a_judge_that_fails_has_a_card_that_says_so_and_is_tried_again(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_failures, "RETRY_SECONDS", 0.0, raising=False)
    with FakeOpenAI(respond=lambda _received: failure(400, "no")) as broken:
        variant = study({"judge": asking(broken)}, judge={"mutations": 2})
        town.build(variant, "home", whole=False)
        rows = card(town, "judge")
        assert measure(rows, "support", "parse_rate")["value"] == 0.0
        assert measure(rows, "support", "caught", "other_answer")["reason"]
        (outcome,) = town.outcomes["judge_cards"]
        assert not outcome.ok
        reply = json.dumps({"support": 0.5, "agreement": 1.0, "reason": "it says so"})
        broken.respond = lambda _received: answer(reply)
        town.build(variant, "home")
        assert measure(card(town, "judge"), "support", "parse_rate")["value"] == 1.0


def test_the_report_says_uncalibrated_wherever_the_figures_stand(town: Town, server: FakeOpenAI) -> None:
    variant = {**study({"judge": asking(server)}, judge={"mutations": 1}), "metrics": ["judge.support"]}
    data = town.run(variant, "home")
    assert [one.title for one in data.metrics] == [
        "Support by judge (uncalibrated)",
        "Agreement by judge (uncalibrated)",
    ]
    assert data.verdict.sentences[-1].startswith("A language model judges this metric")
    page = render_html(data)
    assert page.count("uncalibrated") > 6
    assert "judge.support (uncalibrated)" in page, "where its judgements are shown, too"
    (ranking, *_) = question_rows(town.bench.study, "noon", town.bench.home).found
    assert all(one["uncalibrated"] for one in ranking.cells[0].judgements)
    file = labels(town.folder)
    data = town.run({**variant, "judge_cards": {"judge": {"mutations": 1, "labels": file}}}, "home")
    assert [one.title for one in data.metrics] == ["Support by judge", "Agreement by judge (uncalibrated)"]
    assert "judge.support (uncalibrated)" not in render_html(data)


def test_a_card_of_other_labels_than_those_of_now_is_not_shown(town: Town) -> None:
    variant = study(counting={"mutations": 1, "labels": labels(town.folder)})
    town.run(variant, "home")
    labels(town.folder, *LABELS[:2])
    with pytest.raises(InputError, match=r"judge_cards of tiny.counting .* is no longer what was run"):
        town.report(town.bench)
    town.run(variant, "home")
    assert measure(card(town), "support", "labels")["value"] == 2


def test_a_plan_counts_what_a_judge_is_tried_with(town: Town, server: FakeOpenAI) -> None:
    def planned(**card: Any) -> float | None:
        bench = town.bench_of(study({"judge": asking(server)}, judge=card), "home")
        found = estimates(bench.study, plan(bench.study, bench.stages, bench.home), bench.stages, bench.home)
        return next((one.calls.most for one in found if one.what == "the card of judge"), None)

    file = labels(town.folder)
    assert planned(mutations=0) is None
    assert planned(mutations=0, labels=file) == 2 * len(LABELS), "asked again where a reply is not JSON"
    n_kinds = 9  # all but two answers that change places
    assert planned(mutations=3) == 2 * 3 * (2 + n_kinds)
    town.build(study({"judge": asking(server)}, judge={"mutations": 3}), "home")
    assert planned(mutations=3) is None


def test_a_killed_card_goes_on_where_it_was(
    town: Town, server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    judges = {"judge": asking(server), "counting": {"counting": {}}}
    cards = {"judge": {"mutations": 2}, "counting": {"mutations": 2}}
    counted: list[str] = []
    plain = CountingJudge.of

    def counting(judge: CountingJudge, case: JudgeCase) -> dict[str, Judgement]:
        counted.append(case.question_id or "")
        return plain(judge, case)

    monkeypatch.setattr(CountingJudge, "of", counting)
    for _ in cards:  # both are judged, neither is written
        with monkeypatch.context() as patch:
            patch.setattr("rag_assay.evals.judge_calibration.card.card_rows", killed)
            with pytest.raises(KeyboardInterrupt):
                town.build(study(judges, **cards), "home", whole=False)
    asked, n_counted = len(server.requests), len(counted)
    town.build(study(judges, **cards), "home")
    assert n_counted > 0
    assert len({repr(one.body) for one in server.requests}) == len(server.requests)
    assert [one for one in counted[n_counted:] if one in counted[:n_counted]] == []
    assert len(server.requests) >= asked
    assert {"judge_cards"} <= town.built


def killed(*_args: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("cards", "part"),
    [
        ({"other": {}}, "unknown judge `other`"),
        ({"counting": {"labels": "none.jsonl"}}, "there is no"),
        ({"counting": {"mutations": -1}}, "must be at least 0"),
        ({"counting": {"mutations": 1001}}, "must be at most 1000"),
        ({"counting": {"label": "x"}}, "label"),
    ],
)
def test_a_card_that_cannot_be_made_is_told_with_its_line(
    town: Town, cards: dict[str, Any], part: str
) -> None:
    with pytest.raises(InputError) as caught:
        town.bench_of({**study(), "judge_cards": cards}, "home")
    assert any(part in str(one) for one in caught.value.findings), caught.value.findings
    assert all("tiny.yaml:" in str(one) for one in caught.value.findings)
