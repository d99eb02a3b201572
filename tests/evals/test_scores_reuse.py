"""What is measured again, and what is taken over: counted by metric, of the real stages."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from rag_assay.evals.metrics.abstention import Abstention
from rag_assay.evals.metrics.contract import (
    AnsweredCase,
    AnswerMetric,
    Case,
    Metric,
    MetricContext,
    RetrievalMetric,
    Score,
)
from rag_assay.evals.metrics.costs import AnswerLatency, RetrievalLatency, Tokens
from rag_assay.evals.metrics.ranking_metrics import Ndcg
from rag_assay.evals.metrics.reuse import FILE, WAITING
from rag_assay.evals.scores import Scores
from rag_assay.warehouse.attempts import Pieces
from rag_assay.warehouse.parquet import frame, read_parquet
from rag_assay.warehouse.schemas import SCORES
from tests.fakes.forking import PROGRAM
from tests.fakes.processes import PYTHONPATH
from tests.fakes.tiny import QUESTIONS, Bench

pytestmark = pytest.mark.models
MakeBench = Callable[..., Bench]
METRICS = "metrics: [ndcg@10, evidence_coverage@5, abstention, retrieval_latency]"
BM25 = "tiny.t16.minilm.bm25.extractive"
BEFORE = ("chunks", "embeddings", "indexes", "questions", "rankings", "answers")


class Counted:
    """Counts the cases that each metric is given."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.cases: Counter[str] = Counter()
        for kind in (RetrievalMetric, AnswerMetric, RetrievalLatency, AnswerLatency, Tokens):
            patch.setattr(kind, "measure", self._counting(kind.measure))

    def _counting(self, measure: Callable[..., list[Score]]) -> Callable[..., list[Score]]:
        def counted(metric: Metric, cases: Sequence[Case], context: MetricContext) -> list[Score]:
            self.cases[metric.name] += len(cases)
            return measure(metric, cases, context)

        return counted

    def take(self) -> dict[str, int]:
        found = dict(self.cases)
        self.cases.clear()
        return found


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(monkeypatch)


def scored(make: MakeBench, metrics: str | None = None, **changes: str) -> Bench:
    """Bring the tiny study up to date with these metrics and other changes."""
    other = {METRICS: f"metrics: [{metrics}]"} if metrics else {}
    bench = make({**other, **changes})
    outcomes = bench.build()
    assert all(one.ok for found in outcomes.values() for one in found), outcomes
    return bench


def content(bench: Bench, key: str) -> list[tuple[object, ...]]:
    return read_parquet(bench.folder("scores", key) / FILE).rows()


def test_two_cells_measure_each_metric_once_each(make_bench: MakeBench, counted: Counted) -> None:
    scored(make_bench)
    assert counted.take() == {
        "ndcg@10": 4,  # two cells, two questions with evidence
        "evidence_coverage@5": 4,
        "abstention": 6,
        "retrieval_latency": 6,
    }


def test_another_metric_computes_that_metric_alone(make_bench: MakeBench, counted: Counted) -> None:
    before = content(scored(make_bench), BM25)
    counted.take()
    bench = scored(make_bench, "ndcg@10, mrr@10, evidence_coverage@5, abstention, retrieval_latency, tokens")
    assert counted.take() == {"mrr@10": 4, "tokens": 6}
    after = content(bench, BM25)
    assert set(before) < set(after)
    assert [row for row in after if row in before] == before
    board = read_parquet(bench.folder("leaderboard", "tiny") / "leaderboard.parquet")
    assert set(board["metric"]) >= {"mrr@10", "tokens"}
    assert bench.artifact("scores", BM25).meta["metrics_computed"] == ["mrr@10", "tokens"]


def test_one_metric_less_another_order_and_going_back_compute_nothing(
    make_bench: MakeBench, counted: Counted
) -> None:
    scored(make_bench)
    counted.take()
    few = scored(make_bench, "abstention, ndcg@10")
    assert [row[1] for row in content(few, BM25)] == ["abstention"] * 3 + ["ndcg@10"] * 2
    scored(make_bench, "abstention")
    scored(make_bench, "ndcg@10, abstention, evidence_coverage@5")  # held by an older artifact only
    scored(make_bench)
    assert counted.take() == {}


def test_a_changed_metric_is_computed_again_alone(
    make_bench: MakeBench, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    scored(make_bench)
    counted.take()
    monkeypatch.setattr(Ndcg, "code_version", "another")
    scored(make_bench)
    assert counted.take() == {"ndcg@10": 4}


def test_another_generator_computes_the_metrics_of_its_answers_alone(
    make_bench: MakeBench, counted: Counted
) -> None:
    all_kinds = "ndcg@10, abstention, tokens, retrieval_latency, answer_latency"
    scored(make_bench, all_kinds)
    counted.take()
    generator = {"{extractive: {passages: 2, max_tokens: 40}}": "{extractive: {passages: 1, max_tokens: 8}}"}
    scored(make_bench, all_kinds, **generator)
    assert counted.take() == {"abstention": 6, "tokens": 6, "answer_latency": 6}


def test_cells_that_share_a_ranking_measure_it_once(make_bench: MakeBench, counted: Counted) -> None:
    quotes = "{extractive: {passages: 2, max_tokens: 40}}"
    two = {quotes: f"{quotes}\n  shorter: {{extractive: {{passages: 1, max_tokens: 8}}}}"}
    bench = scored(make_bench, "ndcg@10, retrieval_latency, tokens", **two)
    assert counted.take() == {"ndcg@10": 4, "retrieval_latency": 6, "tokens": 12}
    ranked = {"ndcg@10", "retrieval_latency"}
    one, other = (
        [row for row in content(bench, f"tiny.t16.minilm.bm25.{name}") if row[1] in ranked]
        for name in ("extractive", "shorter")
    )
    assert one == other


def test_equal_answers_that_took_other_times_are_not_measured_again_but_their_times_are(
    make_bench: MakeBench, counted: Counted
) -> None:
    metrics = "ndcg@10, abstention, answer_latency"
    bench = scored(make_bench, metrics)
    counted.take()
    slower = bench.edit("answers", BM25, "answers.parquet", lambda rows: rows.with_columns(seconds=9.0))
    bench.store.commit(slower.__class__(**{**slower.__dict__, "measured": "other seconds"}))
    assert bench.build("scores")["scores"]
    assert counted.take() == {"answer_latency": 3}
    assert [row[3] for row in content(bench, BM25) if row[1] == "answer_latency"] == [9.0] * 3


def test_reasons_are_those_of_the_cell_that_had_them(make_bench: MakeBench, counted: Counted) -> None:
    """Answers that fail alike for other reasons have other scores, though their contents are equal."""
    bench = scored(make_bench, "abstention")
    counted.take()
    for number, text in enumerate(("cut at 8 tokens", "cut at 9 tokens")):

        def cut(rows: pl.DataFrame, reason: str = text) -> pl.DataFrame:
            return rows.with_columns(status=pl.lit("truncated"), reason=pl.lit(reason))

        artifact = bench.edit("answers", BM25, "answers.parquet", cut)
        bench.store.commit(artifact.__class__(**{**artifact.__dict__, "measured": f"measured {number}"}))
        bench.build("scores")
        assert {row[4] for row in content(bench, BM25)} == {text}
    assert counted.take() == {"abstention": 6}


def test_days_and_titles_of_documents_are_read_by_the_metrics_that_say_so_alone(
    make_bench: MakeBench, counted: Counted
) -> None:
    frame = QUESTIONS.replace("  - id: noon\n", "  - id: noon\n    time_frame: {from: 2019-01-01}\n")
    plain = "ndcg@10, hit_rate@1"
    bench = make_bench({METRICS: f"metrics: [{plain}, mrr_in_time@5, hit_rate_by_title@5]"}, frame)

    def values() -> dict[str, list[float]]:
        assert all(one.ok for found in bench.build().values() for one in found)
        rows = read_parquet(bench.folder("scores", BM25) / FILE)
        return {str(name[0]): part["value"].to_list() for name, part in rows.group_by("metric")}

    assert values() == {
        "ndcg@10": [1, 1],
        "hit_rate@1": [1, 1],
        "mrr_in_time@5": [0],  # its document has no day yet
        "hit_rate_by_title@5": [1, 1],
    }
    counted.take()
    dated = pl.lit("2019-05").alias("published_at")
    artifact = bench.edit("documents", "docs", "documents.parquet", lambda rows: rows.with_columns(dated))
    bench.store.commit(replace(artifact, data_version="dated"))
    assert values()["mrr_in_time@5"] == [1]
    assert counted.take() == {"mrr_in_time@5": 2, "hit_rate_by_title@5": 4}


def test_damaged_scores_are_not_taken_over(make_bench: MakeBench, counted: Counted) -> None:
    bench = scored(make_bench)
    good = content(bench, BM25)
    path = bench.folder("scores", BM25) / FILE
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    counted.take()
    bench = scored(make_bench, "ndcg@10, evidence_coverage@5, abstention, retrieval_latency, tokens")
    found = counted.take()
    assert found.pop("tokens") == 6
    found.pop("abstention", None)  # of equal answers, the scores of the other cell are good
    assert found == {"ndcg@10": 2, "evidence_coverage@5": 2, "retrieval_latency": 3}
    assert set(good) < set(content(bench, BM25))


def test_scores_of_an_earlier_version_are_kept_and_hold_nothing_to_take_over(
    make_bench: MakeBench, counted: Counted
) -> None:
    bench = scored(make_bench)
    for key in bench.stages["scores"].keys():
        artifact = bench.artifact("scores", key)
        meta = {name: value for name, value in artifact.meta.items() if name != "metrics"}
        bench.store.commit(artifact.__class__(**{**artifact.__dict__, "meta": meta}))
    counted.take()
    scored(make_bench)
    assert counted.take() == {}
    scored(make_bench, "ndcg@10, abstention")
    assert counted.take() == {"ndcg@10": 4, "abstention": 6}


# --- a kill between metrics ------------------------------------------------------------------------------


def test_a_build_that_is_interrupted_goes_on_behind_the_last_metric(
    make_bench: MakeBench, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = make_bench()
    bench.build(*BEFORE)

    def interrupts(metric: Abstention, cases: Sequence[AnsweredCase], context: MetricContext) -> list[Score]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Abstention, "scores", interrupts)
        with pytest.raises(KeyboardInterrupt):
            bench.build("scores")
    first = counted.take()
    assert first == {"ndcg@10": 2, "evidence_coverage@5": 2, "abstention": 3}
    outcomes = bench.build("scores")["scores"]
    assert all(one.ok and one.computed for one in outcomes)
    assert counted.take() == {
        "ndcg@10": 2,  # of the other cell
        "evidence_coverage@5": 2,
        "abstention": 6,
        "retrieval_latency": 6,
    }
    place = bench.folder("scores", BM25)
    assert [path.name for path in place.iterdir()] == [FILE], "what waited is gone"


KILLED = """
import os, signal, sys
from dataclasses import replace
from pathlib import Path
from rag_assay.evals.metrics.abstention import Abstention
from tests.fakes.tiny import QUESTIONS, Bench
from rag_assay.warehouse.paths import Home

def dies(*_):
    os.kill(os.getpid(), signal.SIGKILL)

Abstention.scores = dies
Bench(Path(sys.argv[1]), Home(Path(sys.argv[2]))).build("scores")
"""


def test_a_killed_process_loses_one_metric_at_most(make_bench: MakeBench, counted: Counted) -> None:
    bench = make_bench()
    bench.build(*BEFORE)
    arguments = [sys.executable, "-m", PROGRAM, KILLED, str(bench.study.path), str(bench.home.root)]
    killed = subprocess.run(arguments, env={**os.environ, "PYTHONPATH": PYTHONPATH}, check=False)
    assert killed.returncode == -signal.SIGKILL
    outcomes = bench.build("scores")["scores"]
    assert all(one.ok for one in outcomes)
    assert counted.take() == {
        "ndcg@10": 2,
        "evidence_coverage@5": 2,
        "abstention": 6,
        "retrieval_latency": 6,
    }


def test_torn_and_changed_files_count_for_nothing(tmp_path: Path) -> None:
    waiting = Pieces(tmp_path, WAITING)
    rows = frame([{"question_id": "q", "metric": "m", "status": "ok", "value": 1.0, "reason": None}], SCORES)
    waiting.add("identity", rows)
    assert waiting.find({"m": "identity", "other": "another"})["m"].equals(rows)
    (path,) = (tmp_path / ".metrics").iterdir()
    data = path.read_bytes()
    for damaged in (data[:-9], b"", data.replace(b"ok", b"no", 1)):
        path.write_bytes(damaged)
        assert waiting.find({"m": "identity"}) == {}
    waiting.add("identity", rows)
    assert waiting.find({"m": "identity"})["m"].equals(rows)
    waiting.clear()
    assert not any(tmp_path.iterdir())


BESIDE = """
import sys, time
from pathlib import Path
from rag_assay.evals.metrics.abstention import Abstention
from tests.fakes.tiny import Bench
from rag_assay.warehouse.paths import Home

scores = Abstention.scores
def slowly(*arguments):
    print("measuring", flush=True)
    time.sleep(0.3)
    return scores(*arguments)
Abstention.scores = slowly
found = Bench(Path(sys.argv[1]), Home(Path(sys.argv[2]))).build("scores")["scores"]
print(sum(one.computed for one in found))
"""


def test_two_processes_measure_a_cell_once(make_bench: MakeBench) -> None:
    """Who comes second waits, and finds it done."""
    bench = make_bench()
    bench.build(*BEFORE)
    arguments = [sys.executable, "-m", PROGRAM, BESIDE, str(bench.study.path), str(bench.home.root)]
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH}
    with subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert "measuring\n" in iter(other.stdout.readline, "")
        here = sum(one.computed for one in bench.build("scores")["scores"])
        there = int(other.stdout.read().split()[-1])
    assert other.returncode == 0
    assert here + there == len(bench.stages["scores"].keys())


def test_a_cell_that_is_gone_leaves_its_scores_to_the_others(make_bench: MakeBench, counted: Counted) -> None:
    """The pointer of a key may be lost: what any artifact holds is found all the same."""
    bench = scored(make_bench)
    shutil.rmtree(bench.home.root / "pointers" / "scores")
    counted.take()
    scored(make_bench, "abstention, ndcg@10")
    assert counted.take() == {}
    assert isinstance(bench.stages["scores"], Scores)
