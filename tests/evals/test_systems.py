"""RAG applications of the user's own, measured as cells: over HTTP, OpenAI's protocol and in Python."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from rag_assay.evals.reporting.changes.diff import diff
from rag_assay.evals.reporting.changes.history_writer import record_result
from rag_assay.evals.reporting.changes.results import entries_of
from rag_assay.evals.reporting.page import render_html
from rag_assay.evals.reporting.question_matrix import MatrixFilter, QuestionMatrix
from rag_assay.evals.reporting.question_rows import question_rows
from rag_assay.evals.reporting.rows import report_data
from rag_assay.evals.reporting.standings import main_subset
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.paths import Home
from tests.fakes import rag_system
from tests.fakes.openai_server import FakeOpenAI, Received
from tests.fakes.rag_system import FAILING, OVERDUE, SLOW, SYSTEM_QUESTIONS, serve
from tests.fakes.tiny import TEXTS, Bench, write_study

pytestmark = pytest.mark.models
METRICS = "[ndcg@10, evidence_coverage@5, abstention, retrieval_latency]"
CODE = """\
from tests.fakes.rag_system import reply_to

CALLS = []


def answer(question, history):
    CALLS.append(question)
    found = reply_to(question)
    return {"answer": found["answer"], "passages": found["sources"]}


def find(question):
    return reply_to(question)["sources"]
"""
RECEIVED: list[Received] = []  # by the server, while the study ran
THREE = ("served", "asked", "function")


def systems_at(server: FakeOpenAI) -> str:
    root = server.api_base.removesuffix("/v1")
    return f"""\
systems:
  served: {{openai: {{api_base: "{server.api_base}", model: my-rag}}, limits: {{retries: 0}}}}
  asked:
    http:
      url: "{root}/ask?key=a-secret-of-mine-1"
      headers: {{X-Key: "a-secret-of-mine-2"}}
      body: {{q: "{{{{ question }}}}", past: "{{{{ history }}}}"}}
      answer: $.answer
      passages: $.sources[*].text
      urls: $.sources[*].url
      limits: {{retries: 0}}
  function: {{python: "my_rag:answer", version: "1", limits: {{retries: 0}}}}
  finder: {{python: "my_rag:find", answers: false, limits: {{retries: 0}}}}
metrics: [rouge_l, ndcg@10, evidence_coverage@5, abstention, answer_latency, retrieval_latency,
          citation_precision]
"""


@pytest.fixture(scope="module")
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI(respond=serve) as fake:
        yield fake


def bench_at(folder: Path, server: FakeOpenAI) -> Bench:
    changes = {f"metrics: {METRICS}\n": systems_at(server)}
    path = write_study(folder / "study", changes, SYSTEM_QUESTIONS)
    (folder / "study" / "my_rag.py").write_text(CODE)
    bench = Bench(path, Home(folder / "home"))
    bench.give(TEXTS)
    return bench


def rows_of(bench: Bench, stage: str, name: str) -> pl.DataFrame:
    return read_parquet(bench.folder(stage, f"tiny.-.-.-.{name}") / f"{stage}.parquet")


@pytest.fixture(scope="module")
def run(
    weights: Callable[[str], Path], server: FakeOpenAI, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    """The study, run once, with its result in its history."""
    weights("all-MiniLM-L6-v2")
    folder = tmp_path_factory.mktemp("systems")
    bench = bench_at(folder, server)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_HOME", str(bench.home.root))
        bench.build()
        bench.write_report()
        assert record_result(bench.grid, "tiny", bench.home)
        RECEIVED[:] = server.requests
        yield bench


@pytest.fixture
def copy(run: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """The study as it was run, which a test may run again and change."""
    for name in ("study", "home"):
        shutil.copytree(run.home.root.parent / name, tmp_path / name)
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    return Bench(tmp_path / "study" / run.study.path.name, Home(tmp_path / "home"))


def figures(bench: Bench, name: str, *metrics: str) -> dict[str, dict[str, Any]]:
    """Question -> metric -> its value, or its status."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows_of(bench, "scores", name).filter(pl.col("metric").is_in(metrics)).iter_rows(named=True):
        known = row["status"] if row["value"] is None else round(row["value"], 3)
        found.setdefault(row["question_id"], {})[row["metric"]] = known
    return found


def test_three_ways_to_call_one_system_give_the_same_figures(run: Bench) -> None:
    measured = ("rouge_l", "ndcg@10", "evidence_coverage@5", "abstention")
    served, asked, function = (figures(run, name, *measured) for name in THREE)
    assert served == asked == function
    assert served["noon"] == dict(zip(sorted(measured), (1, 1, 1, 1), strict=True))
    assert served["tickets"]["evidence_coverage@5"] == 1, "found by its text, of another spelling"
    assert served["lamp"]["ndcg@10"] == 0.631, "a passage of no document has the first place"
    assert (served["quay"]["ndcg@10"], served["quay"]["abstention"]) == (0, 0), "nothing found, and refused"
    assert set(served["heat"].values()) == {"error"}
    assert set(served["crane"].values()) == {"timeout"}
    assert served["captain"] == {"rouge_l": 1.0, "abstention": 1.0}


def test_what_a_system_does_not_tell_is_typed(run: Bench) -> None:
    finder = figures(run, "finder", "rouge_l", "ndcg@10", "retrieval_latency")
    of_function = figures(run, "function", "ndcg@10")
    assert {name: one["ndcg@10"] for name, one in finder.items() if "ndcg@10" in one} == {
        name: one["ndcg@10"] for name, one in of_function.items()
    }
    assert finder["noon"]["rouge_l"] == "not_run"
    assert finder["noon"]["retrieval_latency"] >= 0, "it does nothing but retrieve"
    rows = rows_of(run, "scores", "asked")
    reasons = dict(rows.filter(question_id="noon").select("metric", "reason").iter_rows())
    assert reasons["retrieval_latency"] == "retrieval was not timed apart from the answer"
    assert reasons["citation_precision"] == "its citations were not kept"
    captain = rows.filter(question_id="captain", metric="retrieval_latency")["reason"].item()
    assert captain == "the system's passages (1) are in no document"


def test_passages_are_aligned_to_documents_with_their_similarity(run: Bench) -> None:
    rows = read_parquet(run.folder("answers", "tiny.-.-.-.asked") / "contexts.parquet")
    found = {(row["question_id"], row["rank"]): row for row in rows.iter_rows(named=True)}
    assert [found[key]["similarity"] for key in (("noon", 1), ("lamp", 1), ("lamp", 2))] == [1, None, 1]
    assert 0.9 < found["tickets", 1]["similarity"] < 1
    assert found["tickets", 1]["url"] == "https://x.example/tickets", "that of the document"
    counts = run.artifact("answers", "tiny.-.-.-.asked").meta["passages"]
    assert counts == {"in no document": 2, "similar": 1, "word for word": 2}


def test_a_slow_answer_has_its_seconds_from_the_cache_too(run: Bench) -> None:
    for name in ("served", "asked"):
        seconds = dict(rows_of(run, "answers", name).select("question_id", "seconds").iter_rows())
        assert seconds["lamp"] >= SLOW


def test_a_second_run_calls_for_what_failed_alone(copy: Bench, server: FakeOpenAI) -> None:
    server.requests.clear()
    copy.build("answers")
    questions = [one.body.get("q") or one.body["messages"][-1]["content"] for one in server.requests]
    assert sorted(set(questions)) == [
        "What heats the harbour office?",
        "What stands on the quay to this day?",
    ]
    assert len(questions) == 4


def test_its_secrets_go_to_its_server_alone(run: Bench) -> None:
    calls = (run.home.cache("calls") / "calls.jsonl").read_text()
    assert "a-secret-of-mine" not in calls + run.study.model_dump_json()
    asked = [one for one in RECEIVED if "q" in one.body]
    assert asked
    assert all(one.path == "/ask?key=a-secret-of-mine-1" for one in asked)
    assert all(one.headers["X-Key"] == "a-secret-of-mine-2" for one in asked)
    assert all(one.body["past"] == [] for one in asked)
    others = [one for one in RECEIVED if "messages" in one.body]
    assert not any("a-secret-of-mine" in str(one) for one in others)


def test_every_surface_has_its_cell(run: Bench) -> None:
    board = read_parquet(run.folder("leaderboard", "tiny") / "leaderboard.parquet")
    assert {*THREE, "finder", "extractive"} == set(board["generator"])
    answered = dict(board.filter(metric="ndcg@10").select("generator", "answered").unique().iter_rows())
    assert answered["finder"] is None
    assert round(answered["asked"], 3) == round(5 / 7, 3)
    found = question_rows(run.study, "lamp", run.home)
    hits = {cell.cell.generator: one.hits for one in found.found for cell in one.cells}
    assert [hit.gold for hit in hits["asked"]] == [False, True]
    data = report_data(run.study, run.home)
    shown = {one.cell.generator: one.results for one in main_subset(data).standings}
    assert round(shown["asked"]["ndcg@10"].value or 0, 3) == 0.658
    page = render_html(data)
    assert all(name in page for name in THREE)
    matrix = QuestionMatrix(run.study, run.home)
    pipelines = [f"tiny.-.-.-.{name}" for name in THREE]
    (row,) = matrix.rows(MatrixFilter("ndcg@10", tuple(pipelines)), ["lamp"])
    assert {round(cell.value or 0, 3) for cell in row.cells} == {0.631}
    journey = matrix.journey("lamp", pipelines)["block"]
    assert "The lamp is lit at sunset" in str(journey)


def test_what_failed_is_called_again_until_it_answers(
    copy: Bench, server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, said in ((FAILING, "A pump heats the office."), (OVERDUE, "The old crane stands there.")):
        monkeypatch.setitem(rag_system.REPLIES, name, {"answer": said, "sources": []})
    monkeypatch.setattr(rag_system, "FAILING", "no question has this")
    monkeypatch.setattr(rag_system, "OVERDUE", "no question has this")
    for expected in (2, 0):  # one for each system behind HTTP
        server.requests.clear()
        Bench(copy.study.path, copy.home).build("answers")
        assert sum(FAILING in str(one.body) for one in server.requests) == expected
    assert not server.requests, "a second run makes no call"
    bench = Bench(copy.study.path, copy.home)
    bench.build()
    bench.write_report()
    verdict = report_data(bench.study, bench.home).verdict
    assert verdict.recommended is not None
    assert verdict.recommended.cell.startswith("tiny.-.-.-."), "a system that answers all may win"


def test_a_version_calls_again_and_selectors_do_not(
    copy: Bench, server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = copy.study.path.read_text()
    monkeypatch.setitem(rag_system.REPLIES["lamp"], "answer", "The lamp is lit at sunset.")

    def asked_after(old: str, new: str) -> set[str]:
        copy.study.path.write_text(text.replace(old, new))
        server.requests.clear()
        Bench(copy.study.path, copy.home).build("answers")
        return {one.body["q"] for one in server.requests if "q" in one.body}

    assert "Where are tickets for the crossing sold?" not in asked_after("$.sources[*].text", "$.sources")
    assert len(asked_after("answer: $.answer", "answer: $.answer\n      version: v2")) == 7
    bench = Bench(copy.study.path, copy.home)
    bench.build()
    bench.write_report()
    assert record_result(bench.grid, "tiny", bench.home)
    before, after = entries_of(bench.home, "tiny")[-2:]
    found = diff(before, after, bench.store)
    changed = found.answers.filter(question_id="lamp").select("cell", "old", "new").rows()
    assert changed == [("-.-.-.asked", "At dawn.", "The lamp is lit at sunset.")]
    assert "-.-.-.asked" in {move.cell for move in found.moves}
