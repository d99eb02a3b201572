"""`assay questions export`: what is written is what was asked, and can be read again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from orchestration.cli import app
from tests.orchestration.conftest import Finished

pytestmark = pytest.mark.models


def assay(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["questions", *arguments], env={"COLUMNS": "140"})


def test_export_needs_a_study_that_was_run(assay_home: object, study_path: Path) -> None:
    found = assay("export", str(study_path), "--format", "ragas")
    assert found.exit_code == 2
    assert "have not been looked up in the documents" in found.stderr
    assert assay("export", str(study_path), "--format", "odd").exit_code == 2


def test_ragas_reads_what_is_exported(finished: Finished, tmp_path: Path) -> None:
    from ragas import EvaluationDataset

    found = assay("export", str(finished.path), "--format", "ragas", "-o", str(tmp_path / "out"))
    assert found.exit_code == 0, found.output
    (path,) = map(Path, found.stdout.split())
    assert "3 test questions." in found.stderr
    samples = list(EvaluationDataset.from_jsonl(path))
    assert [sample.user_input for sample in samples] == [
        "What does a mooring cost in summer?",
        "How many cars fit on the ferry?",
        "Who is the mayor?",
    ]
    assert samples[0].reference_contexts == ["A mooring costs twelve pounds a night"]
    assert samples[0].reference_context_ids == ["harbour.txt"]
    assert [sample.reference for sample in samples][1:] == ["Nineteen cars.", "The documents do not say."]
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [row["answerable"] for row in rows] == [True, True, False]


def test_a_question_file_that_was_edited_is_not_exported_as_if_it_were_the_old(finished: Finished) -> None:
    path = finished.path.with_name("town.questions.yaml")
    text = path.read_text()
    try:
        path.write_text(text.replace("Nineteen cars.", "19 cars."))
        found = assay("export", str(finished.path), "--format", "ragas")
    finally:
        path.write_text(text)
    assert found.exit_code == 2
    assert "run `assay run" in found.stderr


def test_beir_and_squad_say_what_they_leave_out_and_write_to_the_home_unless_told(finished: Finished) -> None:
    found = assay("export", str(finished.path), "--format", "beir")
    assert found.exit_code == 0, found.output
    paths = [Path(line) for line in found.stdout.splitlines()]
    folder = finished.home.reports / "town-beir"
    assert paths == [folder / "corpus.jsonl", folder / "qrels" / "test.tsv", folder / "queries.jsonl"]
    assert "3 documents, 2 test questions." in found.stderr
    assert "1 questions are unanswerable and left out: q3" in found.stderr
    assert "2 questions have quotes for evidence, which become whole documents: q1, q2" in found.stderr
    found = assay("export", str(finished.path), "--format", "squad")
    (path,) = map(Path, found.stdout.split())
    articles = json.loads(path.read_text(encoding="utf-8"))["data"]
    answers = [qa["answers"] for article in articles for qa in article["paragraphs"][0]["qas"]]
    assert [[one["text"] for one in some] for some in answers] == [
        ["A mooring costs twelve pounds a night"],
        ["carries nineteen cars"],
        [],
    ]
