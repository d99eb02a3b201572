"""The rows of a real small study on their way into its report and its run files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import polars as pl
import pytest

from rag_assay.evals.reporting import journey
from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.exports import NOTHING, trec_runs
from rag_assay.evals.reporting.retrieval_funnel import funnel_of
from rag_assay.evals.reporting.rows import report_data
from rag_assay.warehouse.connection import connect
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.parquet import frame, write_parquet
from rag_assay.warehouse.schemas import LOSSES
from rag_assay.warehouse.tables import rebuild
from tests.fakes.tiny import TEXTS, Bench

MakeBench = Callable[..., Bench]
WIDER = {"  bm25: {bm25: {k: 5}}": "  bm25: [{bm25: {k: 2}}, {neighbours: {n: 1}}]"}
BEFORE = ("chunks", "embeddings", "indexes", "questions", "rankings")

pytestmark = pytest.mark.models


def lose(bench: Bench, ranking: str) -> None:
    """Store what a ranking would have found of the evidence: noon at rank 2, tickets in no document."""
    rows: list[dict[str, object]] = [
        {"question_id": "noon", "evidence": 0, "url": "https://x.example/ferry", "found_at": 2},
        {"question_id": "tickets", "evidence": 0, "url": "https://x.example/tickets", "lost_at": "fusion"},
        {"question_id": "tickets", "evidence": 1, "url": "https://x.example/gone", "lost_at": "corpus"},
    ]
    artifact = bench.artifact("rankings", ranking)
    write_parquet(frame(rows, LOSSES), bench.store.folder("rankings", artifact.identity) / "losses.parquet")
    bench.store.commit(artifact)


def test_a_report_shows_what_was_delivered_and_where_questions_were_lost(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = make_bench(WIDER)
    bench.build(*BEFORE)
    lose(bench, "tiny.t16.minilm.bm25")
    lose(bench, "tiny.t16.minilm.dense")
    bench.build("answers", "scores", "leaderboard")
    rebuild(bench.home)
    data = report_data(bench.study, bench.home)

    texts = {digest(["docs", name]): text for name, text in TEXTS.items()}
    assert len(data.hits)
    chunks = pl.read_parquet(bench.folder("chunks", "ferries.t16") / "chunks.parquet")["text"]
    assert any(text not in set(chunks) for text in data.hits["text"]), "no passage is wider than a chunk"
    for doc_id, start, end, text in data.hits.select("doc_id", "start", "end", "text").iter_rows():
        assert text == texts[doc_id][start:end]

    assert data.losses is not None
    assert set(data.losses["cell"]) == {f"tiny.t16.minilm.{name}.extractive" for name in ("bm25", "dense")}
    lost = funnel_of(data, [])
    assert lost is not None
    assert [(one.label, one.found, one.lost) for one in lost.rankers] == [
        ("bm25", 1, {"fusion": 1}),
        ("dense", 1, {"fusion": 1}),
    ]
    check_journeys(data, texts)
    check_folder(bench, monkeypatch)


def check_journeys(data: ReportData, texts: Mapping[str, str]) -> None:
    """All rankings' hits lie in stretches of documents, and each was found by a step of its chain."""
    rows = data.journey
    assert rows is not None
    assert set(rows.hits["ranking"]) == {"tiny.t16.minilm.bm25", "tiny.t16.minilm.dense"}
    held = [
        (doc, start, end) for doc, start, end in rows.passages.select("doc_id", "start", "end").iter_rows()
    ]
    for doc, start, end in rows.hits.select("doc_id", "start", "end").iter_rows():
        assert any(one == doc and first <= start and end <= last for one, first, last in held)
    for doc, start, end, text in rows.passages.iter_rows():
        assert text == texts[doc][start:end]
    assert set(rows.documents["doc_id"]) <= set(texts)
    of = ["ranking", "question_id", "rank"]
    assert len(rows.hits.join(rows.taken, on=of, how="anti")) == 0


def check_folder(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large report's folder is part of the artifact: what is gone of it or damaged is written again."""
    monkeypatch.setattr(journey, "INSIDE", 1)
    assert bench.write_report().ok
    (file,) = bench.home.report_data("tiny")
    packed = file.read_text()
    assert not bench.write_report().computed
    for damage in (file.unlink, lambda: file.write_text("another")):
        damage()
        assert bench.write_report().ok
        assert file.read_text() == packed


def test_run_files_are_written_of_the_rankings_that_were_run(make_bench: MakeBench, tmp_path: Path) -> None:
    bench = make_bench()
    with pytest.raises(InputError, match="the study tiny has no rankings yet; run `assay run"):
        trec_runs(bench.study, bench.home, tmp_path / "runs")
    bench.build()
    rebuild(bench.home)
    assert trec_runs(bench.study, bench.home, tmp_path / "runs").missing == []
    with connect(bench.home.database) as connection:
        connection.execute("DELETE FROM pointers WHERE key = 'tiny.t16.minilm.dense'")
    runs = trec_runs(bench.study, bench.home, tmp_path / "some")
    assert [path.name for path in runs.written] == ["tiny.t16.minilm.bm25.trec"]
    assert runs.missing == ["tiny.t16.minilm.dense"]
    assert "\nnoon Q0 " in runs.written[0].read_text()


def test_a_ranking_that_found_nothing_says_so_of_each_question(make_bench: MakeBench, tmp_path: Path) -> None:
    bench = make_bench({"  bm25: {bm25: {k: 5}}": "  bm25: {nothing: {}}"})
    bench.build()
    rebuild(bench.home)
    runs = trec_runs(bench.study, bench.home, tmp_path / "runs")
    assert runs.missing == []
    lines = min(runs.written).read_text().splitlines()
    assert [line.split(" ")[:5] for line in lines] == [
        [question, "Q0", NOTHING, "1", "0"] for question in ("captain", "noon", "tickets")
    ]
