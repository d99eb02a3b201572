"""A measurement belongs to the cell that was measured, however equal what another cell gave."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest

from rag_assay.evals.reporting.data import ReportData
from rag_assay.warehouse.parquet import read_parquet
from tests.fakes.openai_server import FakeOpenAI, Scripted, answer, failure
from tests.fakes.town import PLAIN, Town, Variant

pytestmark = pytest.mark.models
METRICS = ["ndcg@10", "retrieval_latency", "answer_latency", "tokens"]


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI(respond=lambda _received: answer("At noon.")) as running:
        yield running


def asking(server: FakeOpenAI, **changes: Any) -> Variant:
    llm = {"llm": {"model": "openai/fake", "api_base": server.api_base}}
    return {**PLAIN, "generators": {"asked": llm}, "metrics": METRICS, **changes}


def latencies(data: ReportData, metric: str) -> dict[str, float]:
    return dict(data.leaderboard.filter(pl.col("metric") == metric).select("cell", "value").iter_rows())


ALIKE = {  # two recipes each that find and say the same
    "chunkings": {"one": {"tokens": {"size": 200}}, "other": {"tokens": {"size": 201}}},
    "retrievers": {"one": {"bm25": {"k": 9}}, "other": {"bm25": {"k": 10}}},
    "generators": {
        "one": {"extractive": {"passages": 2, "max_tokens": 900}},
        "other": {"extractive": {"passages": 2, "max_tokens": 901}},
    },
}


@pytest.mark.parametrize("axis", ALIKE)
def test_equal_answers_of_two_cells_keep_their_own_times(town: Town, axis: str) -> None:
    data = town.run({**PLAIN, axis: ALIKE[axis], "metrics": METRICS}, "home")
    bench = town.bench
    contents = {bench.artifact("rankings", key).data_version for key in bench.study.rankings()}
    assert len(contents) == 1, "the cells found the same"
    own: dict[str, dict[str, float]] = {"retrieval_latency": {}, "answer_latency": {}}
    for cell in bench.study.cells():
        ranked = read_parquet(bench.folder("rankings", cell.ranking) / "ranked.parquet")
        answers = read_parquet(bench.folder("answers", cell.key) / "answers.parquet")
        own["retrieval_latency"][cell.key] = sum(ranked["seconds"]) / len(ranked)
        own["answer_latency"][cell.key] = sum(answers["seconds"]) / len(answers)
    for metric, wanted in own.items():
        assert latencies(data, metric) == pytest.approx(wanted, rel=1e-9)
    assert len(set(own["answer_latency"].values())) == 2
    assert len(set(own["retrieval_latency"].values())) == (1 if axis == "generators" else 2)


def reasons(data: ReportData) -> dict[str, set[str]]:
    """Return what the report says of each cell's failures, in its answers and in its scores."""
    found: dict[str, set[str]] = {}
    for rows in (data.answers, data.scores):
        for cell, reason in rows.select("cell", "reason").drop_nulls("reason").iter_rows():
            found.setdefault(cell, set()).add(reason)
    return found


def broken(text: str) -> Scripted:
    return failure(401, text)


def test_the_reasons_of_two_generators_are_their_own(town: Town, server: FakeOpenAI) -> None:
    server.respond = lambda received: broken(f"no {received.body['model']}")
    llm = {"api_base": server.api_base}
    generators = {name: {"llm": {"model": f"openai/{name}", **llm}} for name in ("one", "other")}
    data = town.run(asking(server, generators=generators), "home", whole=False)
    said = {cell.rpartition(".")[2]: " ".join(found) for cell, found in reasons(data).items()}
    assert "no one" in said["one"]
    assert "no other" not in said["one"]
    assert "no other" in said["other"]
    assert "no one" not in said["other"]


def test_the_reasons_of_two_studies_alike_are_their_own(town: Town, server: FakeOpenAI) -> None:
    server.respond = lambda _received: broken("boom")
    first = town.run(asking(server), "home", whole=False)
    bench = town.bench
    server.respond = lambda _received: broken("Incorrect API key")
    second = town.run(asking(server, study="tiny2"), "home", "tiny2.yaml", whole=False)
    (said,) = reasons(second).values()
    assert all("Incorrect API key" in reason for reason in said)
    assert reasons(town.report(bench)) == reasons(first)
    (said,) = reasons(first).values()
    assert all("boom" in reason for reason in said)
    # Once it goes well for one, it is there for the other, too, and nobody is asked twice.
    server.respond = lambda _received: answer("At noon.")
    town.run(asking(server), "home")
    server.requests.clear()
    town.run(asking(server, study="tiny2"), "home", "tiny2.yaml")
    assert not reasons(town.report(town.bench))
    assert not server.requests


def test_reasons_of_another_day_are_not_kept(town: Town, server: FakeOpenAI) -> None:
    server.respond = lambda _received: broken("boom")
    town.run(asking(server), "home", whole=False)
    server.respond = lambda _received: broken("Incorrect API key")
    (said,) = reasons(town.run(asking(server), "home", whole=False)).values()
    assert all("Incorrect API key" in reason for reason in said)


def test_only_the_cell_that_asked_has_asked(town: Town, server: FakeOpenAI) -> None:
    data = town.run(asking(server, retrievers=ALIKE["retrievers"]), "home")
    # Cells are built side by side: either may be the one that asks a question.
    asked = data.answers.group_by("question_id").agg(pl.col("cached").sort(), pl.col("cell").n_unique())
    assert asked["cached"].to_list() == [[False, True]] * len(asked)
    assert asked["cell"].to_list() == [2] * len(asked)
