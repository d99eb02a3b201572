"""A score of people makes estimates and judge cards anew, and no call."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest

from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.pipeline.cell_items import current_items
from rag_assay.evals.reporting.page import render_html
from rag_assay.evals.rubrics.points import Points
from rag_assay.evals.study.grid import Grid
from rag_assay.warehouse.connection import connect
from rag_assay.warehouse.human_scores import HumanScores
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.schemas import HUMAN_ESTIMATES
from rag_assay.warehouse.tables import rebuild
from tests.fakes.drawn import figure
from tests.fakes.human_scores import score
from tests.fakes.judges import AskingJudge, in_the_registry
from tests.fakes.openai_server import FakeOpenAI, answer
from tests.fakes.town import PLAIN, Town, Variant

pytestmark = pytest.mark.models
CELL = "tiny.t16.minilm.bm25.quote"
ALL = {"annotations", "judge_cards", "scores", "human_estimates", "leaderboard"}


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    with in_the_registry(AskingJudge):
        yield


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    reply = json.dumps({"support": 0.5, "agreement": 1.0, "reason": "it says so"})
    with FakeOpenAI(respond=lambda _received: answer(reply)) as running:
        yield running


def study(server: FakeOpenAI, **changes: Any) -> Variant:
    judge = {"asking": {"model": "openai/judge", "api_base": server.api_base}}
    rubrics = {"rubrics": {"points": {"points": {}}}, "judge_cards": {"judge": {"mutations": 1}}}
    metrics = [*PLAIN["metrics"], "rouge_l"]
    return {**PLAIN, **rubrics, "judges": {"judge": judge}, "metrics": metrics, **changes}


def give(town: Town, *values: float, begin: int = 1) -> None:
    """Score the first answers of the cell, one after the other."""
    work = BuildContext(town.bench.home)
    try:
        found = {
            one.key: of.items for one, of in current_items(Grid([town.bench.study]), town.bench.study, work)
        }
    finally:
        work.close()
    given = [
        score(number, item_id=item.item_id, rubric_version=Points().version, value=value)
        for number, (item, value) in enumerate(zip(found[CELL].values(), values, strict=False), begin)
    ]
    assert HumanScores(town.bench.home).append(given) == len(given)


def estimates(town: Town) -> pl.DataFrame:
    return read_parquet(town.bench.folder("human_estimates", "tiny") / "human_estimates.parquet")


def card(town: Town) -> pl.DataFrame:
    return read_parquet(town.bench.folder("judge_cards", "tiny.judge") / "judge_cards.parquet")


def test_a_score_makes_estimates_and_cards_and_asks_nothing(
    town: Town, server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag_assay.evals.judge_calibration.card.FEWEST", 3)
    data = town.run(study(server), "home")
    asked = len(server.requests)
    assert asked
    assert estimates(town).schema == pl.Schema(HUMAN_ESTIMATES)
    assert estimates(town).is_empty()
    assert 'id="estimates"' not in render_html(data)
    assert card(town).filter(pl.col("slice") == "people.points").is_empty()
    give(town, 5.0, 3.0, 0.0)
    data = town.run(study(server), "home")
    assert len(server.requests) == asked
    assert town.built == ALL
    rows = estimates(town)
    assert {"judge.support", "judge.agreement", "rouge_l"} <= set(rows["metric"])
    (row,) = rows.filter(cell=CELL, metric="rouge_l").iter_rows(named=True)
    assert (row["people"], row["labels"], row["items"]) == (pytest.approx(8 / 3), 3, 4)
    people = card(town).filter(pl.col("slice") == "people.points")
    labels = dict(people.filter(metric="support").select("measure", "value").iter_rows())
    assert (labels["labels"], labels["people"], labels["auc"]) == (3, 1, 0.5)
    of_support = card(town).filter(metric="support", measure="labels")
    assert of_support["slice"].to_list() == ["people.points"], "and not uncalibrated, too"
    assert data.judge_pairs is not None
    pairs = data.judge_pairs.filter(metric="support", slice="people.points").select("good", "value")
    assert sorted(pairs.rows()) == [(False, 0.5), (True, 0.5), (True, 0.5)]
    page = render_html(data)
    assert 'id="estimates"' in page
    assert "judge.support against people.points" in figure(page, "chart-roc").text_content()
    assert "AUC 0.500" in page
    assert "Support by judge (uncalibrated)" not in page
    town.run(study(server), "home")
    assert (town.built, len(server.requests)) == (set(), asked)
    with connect(town.bench.home.database) as connection:
        stored = connection.sql(
            "SELECT count(*) FROM current_human_estimates WHERE study = 'tiny'"
        ).fetchall()
    assert stored == [(len(rows),)]
    rebuild(town.bench.home)
    with connect(town.bench.home.database) as connection:
        again = connection.sql("SELECT count(*) FROM current_human_estimates WHERE study = 'tiny'").fetchall()
    assert again == stored


def test_too_few_scores_leave_a_judge_uncalibrated(town: Town, server: FakeOpenAI) -> None:
    town.run(study(server), "home")
    give(town, 5.0, 3.0)
    data = town.run(study(server), "home")
    (row,) = (
        card(town).filter(metric="support", measure="labels", slice="people.points").iter_rows(named=True)
    )
    assert (row["value"], row["reason"]) == (
        2,
        "uncalibrated: 20 scored answers or more tell a judge from a coin",
    )
    assert "Support by judge (uncalibrated)" in render_html(data)
    assert town.bench.artifact("judge_cards", "tiny.judge").meta["uncalibrated"] == ["support", "agreement"]


def test_labels_of_a_file_and_scores_stand_apart(
    town: Town, server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag_assay.evals.judge_calibration.card.FEWEST", 3)
    label = {"question": "When?", "answer": "At noon.", "passages": ["At noon."], "labels": {"support": True}}
    (town.folder / "labels.jsonl").write_text(json.dumps(label))
    variant = study(server, judge_cards={"judge": {"mutations": 0, "labels": "labels.jsonl"}})
    town.build(variant, "home")
    asked = len(server.requests)
    give(town, 5.0, 3.0, 0.0)
    town.build(variant, "home")
    assert len(server.requests) == asked
    rows = card(town).filter(metric="support", measure="labels")
    assert dict(rows.select("slice", "value").iter_rows()) == {None: 1.0, "people.points": 3.0}


def test_a_study_without_rubrics_has_no_estimates(town: Town, server: FakeOpenAI) -> None:
    town.run(study(server), "home")
    before = town.bench.artifact("judge_cards", "tiny.judge").identity
    variant = study(server)
    del variant["rubrics"]
    data = town.run(variant, "home")
    assert "human_estimates" not in town.built
    assert data.human_estimates is None
    assert town.bench.artifact("judge_cards", "tiny.judge").identity != before, "what people say went in"
