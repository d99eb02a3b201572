"""The same cell asked again: paid once each, compared by question, its own noise shown."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest
from rich.console import Console

from rag_assay.assets.engine.stage import PartitionRef
from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.page import json_rows, render_html
from rag_assay.evals.reporting.question_rows import question_rows
from rag_assay.evals.reporting.stale_results import stored_result
from rag_assay.evals.reporting.terminal import leaderboard_table
from rag_assay.evals.study.cost_estimate import estimates
from rag_assay.evals.study.run_plan import plan
from rag_assay.warehouse.connection import connect
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.tables import FILES, rebuild, sync
from tests.fakes.openai_server import FakeOpenAI, Received, Scripted, answer, failure
from tests.fakes.town import PLAIN, Town, Variant

pytestmark = pytest.mark.models
CELL = "tiny.t16.minilm.bm25.asked"
QUOTED = "tiny.t16.minilm.bm25.quote"
METRICS = ["rouge_l", "ndcg@10", "abstention", "tokens"]
SEED = 7
ASKED = 4  # questions of the town, each of which some passage is found for


def says(received: Received) -> Scripted:
    """Answer by the seed alone: a server that keeps to it says the same whenever it is asked the same."""
    return answer("At noon." if received.body["seed"] == SEED else "At noon, and on the quay, perhaps.")


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI(respond=says) as running:
        yield running


def asking(server: FakeOpenAI, replicates: int, **changes: Any) -> Variant:
    generators = {
        "asked": {"llm": {"model": "openai/fake", "api_base": server.api_base}},
        **PLAIN["generators"],
    }
    return {**PLAIN, "generators": generators, "metrics": METRICS, "replicates": replicates, **changes}


def row(data: ReportData, cell: str, metric: str) -> dict[str, Any]:
    found = data.leaderboard.filter(
        (pl.col("cell") == cell) & (pl.col("metric") == metric) & (pl.col("subset") == "all")
    )
    (only,) = found.iter_rows(named=True)
    return only


def seeds(server: FakeOpenAI) -> Counter[int]:
    return Counter(one.body["seed"] for one in server.requests)


def test_each_replicate_is_asked_once_and_the_first_is_what_it_was(town: Town, server: FakeOpenAI) -> None:
    town.run(asking(server, 1), "home")
    once = {stage: town.bench.artifact(stage, CELL).identity for stage in ("answers", "scores")}
    assert seeds(server) == {SEED: ASKED}
    server.requests.clear()
    data = town.run(asking(server, 3), "home")
    assert seeds(server) == {SEED + 1: ASKED, SEED + 2: ASKED}
    assert {stage: town.bench.artifact(stage, CELL).identity for stage in once} == once
    assert len({town.bench.artifact("answers", f"{CELL}{end}").identity for end in ("", ".2", ".3")}) == 3
    assert sorted(town.bench.stages["answers"].keys()) == [CELL, f"{CELL}.2", f"{CELL}.3", QUOTED]
    assert set(data.leaderboard["cell"]) == {CELL, QUOTED}, "what quotes is asked once: it cannot vary"
    assert {(one["cell"], one["replicates"]) for one in data.leaderboard.iter_rows(named=True)} == {
        (CELL, 3),
        (QUOTED, 1),
    }
    server.requests.clear()
    town.run(asking(server, 3), "home")
    assert not town.built
    town.run(asking(server, 1), "home")
    assert town.built <= {"leaderboard"}
    assert not server.requests


def test_a_question_counts_once_with_the_mean_of_its_replicates(town: Town, server: FakeOpenAI) -> None:
    data = town.run(asking(server, 3), "home")
    by_key = {
        key: read_parquet(town.bench.folder("scores", key) / "scores.parquet").filter(metric="rouge_l")
        for key in (CELL, f"{CELL}.2", f"{CELL}.3")
    }
    values = {key: dict(rows.select("question_id", "value").iter_rows()) for key, rows in by_key.items()}
    means = [sum(found[question] for found in values.values()) / 3 for question in values[CELL]]
    of_each = [sum(found.values()) / len(found) for found in values.values()]
    found = row(data, CELL, "rouge_l")
    assert (found["n"], found["coverage"]) == (len(means), 1.0)
    assert found["value"] == pytest.approx(sum(means) / len(means))
    assert found["replicate_low"] == pytest.approx(min(of_each))
    assert found["replicate_high"] == pytest.approx(max(of_each))
    assert found["replicate_low"] < found["replicate_high"]
    assert row(data, CELL, "ndcg@10")["value"] == row(data, QUOTED, "ndcg@10")["value"]
    assert data.values.filter((pl.col("cell") == CELL) & (pl.col("metric") == "rouge_l"))[
        "value"
    ].to_list() == pytest.approx(means)
    first, second = (town.bench.artifact("scores", key) for key in (CELL, f"{CELL}.2"))
    assert "ndcg@10" in first.meta["metrics_computed"]
    assert second.meta["metrics_computed"] == ["rouge_l", "abstention", "tokens"]


def test_a_failed_replicate_is_a_status_and_is_asked_again(town: Town, server: FakeOpenAI) -> None:
    def sometimes(received: Received) -> Scripted:
        is_lamp = "glows" in json.dumps(received.body["messages"])
        return failure(400, "not now") if received.body["seed"] == SEED + 1 and is_lamp else says(received)

    server.respond = sometimes
    data = town.run(asking(server, 2), "home", whole=False)
    found = row(data, CELL, "rouge_l")
    n = found["n"]
    assert found["coverage"] == pytest.approx((2 * n - 1) / (2 * n))
    assert found["value"] is not None
    assert found["rank"] is None, "below 98 %"
    assert found["worst"] <= found["value"] < found["best"]
    assert found["answered"] == pytest.approx((1 + 3 / 4) / 2)
    lost = data.answers.filter(pl.col("status") == "error")
    assert lost.select("cell", "replicate", "question_id").rows() == [(CELL, 2, "lamp")]
    server.respond = says
    server.requests.clear()
    mended = town.run(asking(server, 2), "home")
    assert seeds(server) == {SEED + 1: 1}
    assert row(mended, CELL, "rouge_l")["coverage"] == 1.0


def test_what_is_stored_is_shown(town: Town, server: FakeOpenAI) -> None:
    data = town.run(asking(server, 3), "home")
    with connect(town.bench.home.database) as connection:
        shown = connection.execute("SELECT cell, replicate, generator FROM cells ORDER BY ALL").fetchall()
        assert shown == [(CELL, 1, "asked"), (CELL, 2, "asked"), (CELL, 3, "asked"), (QUOTED, 1, "quote")]
        counts = connection.execute(
            "SELECT cell, replicate, count(*) FROM current_answers GROUP BY ALL ORDER BY ALL"
        ).fetchall()
        assert counts == [(CELL, n, ASKED) for n in (1, 2, 3)] + [(QUOTED, 1, ASKED)]
    page = render_html(data)
    assert "1 of 2 cells was asked 3 times; a value is the mean." in page
    assert "3×:" in page
    console = Console(width=120, file=None, record=True)
    with console.capture() as capture:
        console.print(leaderboard_table(data, 120))
    assert "1 of 2 cells was asked 3 times" in " ".join(capture.get().split())
    (exported,) = [
        one
        for one in json.loads(json_rows(data.leaderboard))
        if one["cell"] == CELL and one["metric"] == "rouge_l"
    ]
    assert exported["replicates"] == 3
    assert exported["replicate_low"] < exported["value"] < exported["replicate_high"]
    (ranking,) = question_rows(town.bench.study, "noon", town.bench.home).found
    assert [(one.cell.key, one.answer and one.answer["replicate"]) for one in ranking.cells] == [
        (CELL, 1),
        (f"{CELL}.2", 2),
        (f"{CELL}.3", 3),
        (QUOTED, 1),
    ]


def test_the_database_is_made_again_from_what_is_stored(town: Town, server: FakeOpenAI) -> None:
    data = town.run(asking(server, 2), "home")
    home, study = town.bench.home, town.bench.study
    before = stored_result(study, home).board
    home.database.unlink()
    rebuild(home)
    assert stored_result(study, home).board.equals(before)
    again = town.report(town.bench)
    assert again.scores.sort(pl.all()).equals(data.scores.sort(pl.all()))


def test_a_report_of_other_replicates_than_were_run_says_so(town: Town, server: FakeOpenAI) -> None:
    town.run(asking(server, 2), "home")
    bench = town.bench_of(asking(server, 3), "home")
    with pytest.raises(InputError, match=r"no longer what was run.*`assay run"):
        stored_result(bench.study, bench.home)


def test_a_plan_counts_every_replicate(town: Town, server: FakeOpenAI) -> None:
    town.build(asking(server, 1), "home")
    bench = town.bench_of(asking(server, 3), "home")
    found = plan(bench.study, bench.stages, bench.home)
    assert (len(found.cells), found.replicates) == (2, 4)
    (calls,) = found.calls
    assert (calls.cells, calls.calls) == (3, 2 * ASKED)
    estimate = next(
        one for one in estimates(bench.study, found, bench.stages, bench.home) if "asked" in one.what
    )
    assert estimate.calls.most == 2 * ASKED


def test_a_replicate_that_cannot_be_run_leaves_its_cell_on_the_board(town: Town, server: FakeOpenAI) -> None:
    town.run(asking(server, 2), "home")
    bench = town.bench
    stage = bench.stages["leaderboard"]
    stage.without = frozenset({PartitionRef("scores", f"{CELL}.2"), PartitionRef("answers", f"{CELL}.2")})
    assert all(one.ok for one in bench.build("leaderboard")["leaderboard"])
    with connect(bench.home.database) as connection:
        for name in (one for one in FILES if one in bench.stages):
            sync(connection, bench.store, name, bench.stages[name].keys())
    board = stored_result(bench.study, bench.home).board
    (found,) = board.filter((pl.col("cell") == CELL) & (pl.col("metric") == "rouge_l")).iter_rows(named=True)
    assert (found["replicates"], found["coverage"], found["rank"]) == (2, 0.5, None)
    assert found["cell_id"] == bench.artifact("answers", CELL).identity
    data = town.report(bench)
    assert set(data.scores.filter(pl.col("cell") == CELL)["replicate"]) == {1}


@pytest.mark.parametrize(("value", "told"), [(0, "at least 1"), (51, "at most 50"), (True, "a whole number")])
def test_bounds(town: Town, server: FakeOpenAI, value: int, told: str) -> None:
    with pytest.raises(InputError, match=f"replicates.*{told}"):
        town.bench_of(asking(server, value), "home")
