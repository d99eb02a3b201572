"""`ra.evaluate`: systems, and answers that are there already, measured without a study file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

import rag_assay as ra
from rag_assay.orchestration.evaluation import Evaluation, document_rows, question_rows, write_evaluation
from rag_assay.warehouse.paths import Home
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.rag_system import REPLIES, reply_to, serve
from tests.fakes.tiny import TEXTS

QUESTIONS: list[dict[str, Any]] = [
    {
        "id": "noon",
        "question": "When does the ferry leave the harbour?",
        "ground_truth": "The ferry leaves at noon.",
        "evidence": [{"quote": "The ferry leaves the harbour at noon."}],
    },
    {
        "id": "tickets",
        "question": "Where are tickets for the crossing sold?",
        "ground_truth": "On the quay.",
        "evidence": [{"quote": "Tickets are sold on the quay"}],
    },
    {"id": "heat", "question": "What heats the harbour office?", "ground_truth": "A pump."},
]
RAGAS: list[dict[str, Any]] = [
    {
        "user_input": "When does the ferry leave?",
        "response": "At noon.",
        "retrieved_contexts": ["The ferry leaves the harbour at noon."],
        "reference": "At noon.",
        "reference_contexts": ["The ferry leaves the harbour at noon."],
    },
    {"user_input": "Where are tickets sold?", "response": "On board.", "reference": "On the quay."},
]
DOCUMENTS = [{"text": text, "url": f"https://x.example/{name}"} for name, text in TEXTS.items()]


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "var"))
    monkeypatch.setenv("DAGSTER_HOME", "")
    return tmp_path / "var"


def values(result: ra.Result, metric: str) -> dict[tuple[str, str], Any]:
    """(system, question) -> value, or status."""
    rows = result.scores.filter(metric=metric).iter_rows(named=True)
    return {
        (row["cell"].rpartition(".")[2], row["question_id"]): (
            row["status"] if row["value"] is None else round(row["value"], 3)
        )
        for row in rows
    }


def test_a_dataset_of_ragas_is_scored_without_a_call(workspace: Path) -> None:
    from ragas import EvaluationDataset

    result = ra.evaluate(None, EvaluationDataset.from_list(RAGAS), metrics=["exact_match", "ndcg@10"])
    ids = {row["question"]: row["question_id"] for row in result.questions.iter_rows(named=True)}
    noon, tickets = ids["When does the ferry leave?"], ids["Where are tickets sold?"]
    assert values(result, "exact_match") == {("system", noon): 1.0, ("system", tickets): 0.0}
    assert values(result, "ndcg@10") == {("system", noon): "not_run"}
    assert result.answers["seconds"].null_count() == len(result.answers) == 2
    assert not list(workspace.glob("cache/calls*"))
    assert not list(workspace.glob("paid/*"))
    again = ra.Study.load("evaluation").result()
    assert again.leaderboard.equals(result.leaderboard)


def test_objects_and_servers_are_cells_of_one_study(weights: Callable[[str], Path]) -> None:
    asked: list[str] = []

    def app(question: str) -> dict[str, Any]:
        asked.append(question)
        return reply_to(question)

    def measure(system: Any) -> ra.Result:
        api = {"http": {"url": f"{root}/ask", "body": {"q": "{{ question }}"}}, "limits": {"retries": 0}}
        systems = {"app": system, "api": api, "chat": f"{server.api_base}#my-rag"}
        return ra.evaluate(systems, QUESTIONS, DOCUMENTS, metrics=["ndcg@10", "rouge_l"])

    with FakeOpenAI(respond=serve) as server:
        root = server.api_base.removesuffix("/v1")
        result = measure(app)
        found = values(result, "ndcg@10")
        assert {one: found[one, "noon"] for one in ("app", "api", "chat")} == dict.fromkeys(
            ("app", "api", "chat"), 1.0
        )
        rouge = values(result, "rouge_l")
        assert [rouge[one, "heat"] for one in ("app", "api", "chat")] == ["error"] * 3
        noon = QUESTIONS[0]["question"]
        assert asked.count(noon) == 1
        measure(app)
        assert asked.count(noon) == 1, "the same object is asked once"
        measure(lambda question: {**app(question)})
        assert asked.count(noon) == 2, "another object is another system"
        assert sum(noon in str(one.body) for one in server.requests) == 2
    assert result.verdict.cells == 3


def test_questions_of_every_kind_are_read(tmp_path: Path) -> None:
    import datasets
    import pandas as pd

    texts = [{"question": one["user_input"], "ground_truth": one["reference"]} for one in RAGAS]
    wanted = question_rows(texts).questions
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(one) + "\n" for one in texts))
    datasets.Dataset.from_list(texts).save_to_disk(tmp_path / "saved")
    given = (
        pl.DataFrame(texts),
        pd.DataFrame(texts),
        datasets.Dataset.from_list(texts),
        tmp_path / "q.jsonl",
        str(tmp_path / "saved"),
    )
    for one in given:
        assert question_rows(one).questions == wanted, type(one)
    plain = question_rows([one["question"] for one in texts]).questions
    assert [one["id"] for one in plain] == [one["id"] for one in wanted]
    found = question_rows(pl.DataFrame(RAGAS))
    assert found.questions[0]["evidence"] == [{"quote": "The ferry leaves the harbour at noon."}]
    assert [one["answer"] for one in found.answers] == ["At noon.", "On board."]
    twice = question_rows([RAGAS[0], {**RAGAS[0], "response": "At one."}])
    assert len({one["id"] for one in twice.questions}) == len({one["id"] for one in twice.answers}) == 2


def test_documents_of_every_kind_are_read() -> None:
    from langchain_core.documents import Document

    given = [
        "At noon.",
        {"content": "At noon.", "id": "7"},
        Document("At noon.", metadata={"source": "a.md"}),
    ]
    found = document_rows(given)
    assert [one["text"] for one in found] == ["At noon."] * 3
    assert [one["url"] for one in found] == [None, "7", "a.md"]


def test_what_cannot_be_used_is_told_before_anything_is_run(tmp_path: Path, workspace: Path) -> None:
    def app(_question: str) -> str:
        return "x"

    cases: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
        ((None, ["Who?"]), {}, "give a `system`, or questions that have a `response`"),
        ((app, []), {}, "questions: there is none"),
        ((app, [{"questoin": "Who?"}]), {}, "did you mean `question`"),
        ((app, [{"ground_truth": "x"}]), {}, "item 1: it has no `question`"),
        ((app, [3]), {}, "item 1: expected a text or a mapping, not int"),
        ((app, 3), {}, "expected a list, a table or a file, not int"),
        ((app, {"train": []}), {}, "give one split: train"),
        ((app, tmp_path / "absent.jsonl"), {}, "there is no file"),
        ((app, [{"user_input": [{"content": "hi"}]}]), {}, "a conversation of several turns"),
        ((app, [{"id": "a", "question": "Who?"}, {"id": "a", "question": "Why?"}]), {}, "a second question"),
        ((3, ["Who?"]), {}, "int has none of invoke"),
        (("rag", ["Who?"]), {}, "expected a URL, `module:function`, or an object"),
        (({}, ["Who?"]), {}, "the mapping is empty"),
        ((app, ["Who?"], [{"title": "x"}]), {}, "documents: item 1"),
        ((app, ["Who?"], str(tmp_path / "absent")), {}, "is not a folder"),
        ((app, ["Who?"]), {"judges": ["entailmnt"]}, "did you mean `entailment`"),
        ((app, ["Who?"]), {"name": "A B"}, "name 'A B'"),
        ((None, [{"question": "Who?", "answer": "I."}]), {}, "nothing can be measured"),
        ((None, [{"question": "Who?", "answer": "I."}]), {"judges": ["entailment"]}, "`?model"),
        ((app, ["Who?"]), {"metrics": ["rouge_I"]}, "rouge_l"),
        ((app, ["Who?"]), {"metrics": "rouge_l"}, r"expected a list, as in \['rouge_l'\]"),
        ((app, ["Who?"]), {"judges": "entailment"}, r"expected a list, as in \['entailment'\]"),
    ]
    for arguments, named, message in cases:
        with pytest.raises(ra.InputError, match=message):
            ra.evaluate(*arguments, **named)
    assert not (workspace / "assay.duckdb").exists()


def test_what_ranks_the_systems_is_their_quality_where_it_is_measured(tmp_path: Path) -> None:
    nli = {"nli": {"entailment": {"model": "openai/gpt-4o-mini"}}}
    truth = {"question": "When?", "ground_truth": "At noon."}
    evidence = {**truth, "evidence": [{"quote": "At noon."}]}
    cases: list[tuple[dict[str, Any], object, Any, str]] = [
        ({"question": "When?"}, None, None, "answer_latency"),
        ({"question": "When?"}, None, nli, "nli.faithfulness"),
        (truth, None, nli, "semantic_similarity"),
        (evidence, DOCUMENTS, nli, "evidence_coverage@2000tokens"),
    ]
    for question, documents, judges, first in cases:
        given = Evaluation("e", {"python": reply_to}, None, judges, None, None)
        study = yaml.safe_load(write_evaluation(given, [question], documents, Home(tmp_path)).read_text())
        assert study["metrics"][0] == first
        assert study["metrics"][-1] == "answer_latency"
        assert list(study["systems"]) == ["python"], "the name of a kind is a name, too"


def test_objects_of_another_process_are_told_of(workspace: Path) -> None:
    from rag_assay.evals.systems import live_objects

    def app(_question: str) -> dict[str, Any]:
        return REPLIES["ferry leave"]

    place = live_objects.hold(app, "app", "1")
    assert live_objects.hold(app, "app", "1") == place != live_objects.hold(app, "app", "2")
    assert live_objects.hold(app, "app") == live_objects.hold(app, "app")
    assert live_objects.hold(app, "app") != live_objects.hold(lambda question: question, "app")
    result = ra.evaluate(app, QUESTIONS[:1], metrics=["rouge_l"], version="1")
    assert values(result, "rouge_l") == {("system", "noon"): 1.0}
    live_objects._objects.clear()
    path = workspace / "evaluations" / "evaluation" / "study.yaml"
    text = path.read_text()
    assert ra.Study.load(path).run().leaderboard.equals(result.leaderboard), "nothing is asked"
    path.write_text(text.replace("version: '1'", "version: '2'"))
    found = ra.Study.load(path).run().answers.row(0, named=True)
    assert found["status"] == "error"
    assert "object of another Python process" in found["reason"]
