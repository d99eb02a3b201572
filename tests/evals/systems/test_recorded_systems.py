"""Recorded answers as systems, and studies of systems alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from jsonschema import Draft7Validator

from rag_assay.evals.study.cost_estimate import estimates
from rag_assay.evals.study.imported_study import SystemStudy
from rag_assay.evals.study.run_plan import plan
from rag_assay.evals.study.study_file import read_study
from rag_assay.evals.study.study_schema import study_schema
from rag_assay.evals.systems.recorded import Recorded
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.yaml_positions import load
from tests.fakes.tiny import QUESTIONS, TEXTS, Bench

ROWS: list[dict[str, Any]] = [
    {
        "question_id": "noon",
        "user_input": "When does the ferry leave the harbour?",
        "response": "At noon.",
        "retrieved_contexts": ["The ferry leaves the harbour at noon."],
    },
    {"user_input": "Where are tickets for the crossing sold?", "response": "On the quay."},
]
STUDY = """\
study: alone
sources: {docs: {reader: folder, path: docs}}
systems:
  mine: {recorded: answers.jsonl}
questions: [{file: ferry.questions.yaml}]
metrics: [ndcg@10, exact_match]
"""


def study_of(folder: Path, text: str = STUDY) -> Path:
    (folder / "docs").mkdir(parents=True)
    (folder / "ferry.questions.yaml").write_text(QUESTIONS)
    (folder / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    path = folder / "alone.yaml"
    path.write_text(text)
    return path


def scores(bench: Bench) -> dict[tuple[str, str], tuple[Any, ...]]:
    rows = read_parquet(bench.folder("scores", "alone.-.-.-.mine") / "scores.parquet")
    return {
        (row["question_id"], row["metric"]): (row["value"], row["status"], row["reason"])
        for row in rows.iter_rows(named=True)
    }


def test_recorded_answers_are_scored_and_looked_for_in_documents_without_a_call(tmp_path: Path) -> None:
    bench = Bench(study_of(tmp_path / "study"), Home(tmp_path / "home"))
    bench.give(TEXTS)
    outcomes = bench.build()
    assert {one.error for stage in outcomes.values() for one in stage} == {None}
    found = scores(bench)
    assert found["noon", "ndcg@10"][:2] == found["noon", "exact_match"][:2] == (1.0, "ok")
    assert found["tickets", "ndcg@10"] == (None, "not_run", "the system tells no passages")
    assert found["tickets", "exact_match"][:2] == (1.0, "ok")
    answers = read_parquet(bench.folder("answers", "alone.-.-.-.mine") / "answers.parquet")
    missing = answers.filter(pl.col("question_id") == "captain").row(0, named=True)
    assert (missing["status"], missing["reason"]) == (
        "not_run",
        "the file of recorded answers has no answer to it",
    )
    assert not list(bench.home.root.glob("cache/calls*"))
    assert not any(one.computed for one in bench.build()["answers"]), "what the file lacks is not tried again"
    assert not list(
        estimates(bench.study, plan(bench.study, bench.stages, bench.home), bench.stages, bench.home)
    )


def test_without_documents_metrics_of_rankings_are_not_run(tmp_path: Path) -> None:
    text = STUDY.replace("sources: {docs: {reader: folder, path: docs}}\n", "")
    bench = Bench(study_of(tmp_path / "study", text), Home(tmp_path / "home"))
    outcomes = bench.build()
    assert {one.error for stage in outcomes.values() for one in stage} == {None}
    found = scores(bench)
    reason = "the study has no documents to look for the system's passages in"
    assert found["noon", "ndcg@10"] == (None, "not_run", reason)
    assert found["noon", "exact_match"][0] == 1.0


@pytest.mark.parametrize("kind", ["jsonl", "json", "csv", "parquet"])
def test_every_kind_of_table_has_one_identity(kind: str, tmp_path: Path) -> None:
    frame = pl.DataFrame(ROWS)
    path = tmp_path / f"answers.{kind}"
    write: dict[str, Callable[[], Any]] = {
        "jsonl": lambda: path.write_text("".join(json.dumps(row) + "\n" for row in ROWS)),
        "json": lambda: path.write_text(json.dumps(ROWS)),
        "csv": lambda: frame.with_columns(
            pl.Series(
                "retrieved_contexts",
                [one and json.dumps(one) for one in frame["retrieved_contexts"].to_list()],
            )
        ).write_csv(path),
        "parquet": lambda: frame.write_parquet(path),
    }
    write[kind]()
    (tmp_path / "plain.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    systems = [Recorded(file=str(one)) for one in (path, tmp_path / "plain.jsonl")]
    assert systems[0].identity() == systems[1].identity()
    (tmp_path / "plain.jsonl").write_text(json.dumps(ROWS[0]) + "\n")
    assert systems[0].identity() != systems[1].identity()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ('{"answer": "x"}\n', "it names no question"),
        ('{"id": "a", "answer": "x"}\n{"id": "a", "answer": "y"}\n', "2: a second answer to the question a"),
        ("[1]\n", "expected a JSON object"),
    ],
)
def test_rows_that_cannot_be_used_are_named(rows: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "answers.jsonl").write_text(rows)
    with pytest.raises(InputError, match=message):
        Recorded(file=str(tmp_path / "answers.jsonl")).identity()


def test_a_study_of_systems_alone_fits_its_schema_and_tells_mistakes(tmp_path: Path) -> None:
    path = study_of(tmp_path)
    study = read_study(path)
    assert isinstance(study, SystemStudy)
    assert [cell.short for cell in study.cells()] == ["-.-.-.mine"]
    assert (study.corpus.name, study.corpus.sources) == ("alone", ("docs",))
    validator = Draft7Validator(study_schema())
    assert not list(validator.iter_errors(load(path).data))
    path.write_text(STUDY + "retriever: {}\n")
    assert list(validator.iter_errors(load(path).data))
    with pytest.raises(InputError, match=r"alone.yaml:7: unknown key `retriever`"):
        read_study(path)
    path.write_text(STUDY + "generators: {quote: {extractive: {}}}\n")
    with pytest.raises(InputError, match=r"alone.yaml:7: .*`quote` answers from a ranking"):
        read_study(path)
    path.write_text(STUDY + "generators: {alone: {no_context: {model: openai/any}}}\n")
    assert [cell.generator for cell in read_study(path).cells()] == ["alone", "mine"]
