"""`assay questions export`: what is written is what was asked, and can be read again."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from secrets import token_hex

import pytest
import yaml
from typer.testing import CliRunner, Result

from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.chat.question_requests import QuestionRequest
from rag_assay.evals.question_sets.question_files import read_yaml
from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.cli import app
from rag_assay.orchestration.question_service.opened_cell import open_cell
from rag_assay.orchestration.question_service.question_service import QuestionService
from rag_assay.warehouse.conversations import AnswerFeedback, Begun, Conversations, Turn
from rag_assay.warehouse.paths import home
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


def test_evidence_of_ground_truths_is_reviewed(finished: Finished, tmp_path: Path) -> None:
    none = assay("evidence", str(finished.path))
    assert none.exit_code == 2
    assert "give the entry of its file the key `evidence: ground_truth`" in none.stderr
    exam = tmp_path / "exam.txt"
    exam.write_text(
        "What does a mooring cost in summer?=Twelve pounds a night.\n"
        "What may a resident do with the ferry?=Residents of the town sail on it once a day without paying.\n"
        "Who elects the mayor?=All inhabitants that are of age elect her.\n"
    )
    study = yaml.safe_load(finished.path.read_text(encoding="utf-8"))
    study["questions"] = [{"file": str(exam), "name": "exam", "evidence": "ground_truth"}]
    path = finished.path.with_name("exam.yaml")
    path.write_text(yaml.safe_dump(study), encoding="utf-8")
    out = tmp_path / "exam.review.yaml"
    wrong = assay("evidence", str(path), "--set", "other")
    assert (wrong.exit_code, "sets that have it: exam" in wrong.stderr) == (2, True)
    found = assay("evidence", str(path), "-o", str(out))
    assert found.exit_code == 0, found.output
    first, *others = yaml.safe_load(out.read_text(encoding="utf-8"))["questions"]
    assert (first["review"], first["evidence"][0]["url"]) == ("accept", "harbour.txt")
    assert first["reason"].startswith("similarity 0.")
    assert [one["review"] for one in others] == ["open", "open"]
    assert others[1]["reason"] == "no place is similar"
    out.write_text(out.read_text(encoding="utf-8").replace("review: open", "review: drop", 1))
    assert assay("evidence", str(path), "-o", str(out)).exit_code == 0
    assert "review: drop" in out.read_text(encoding="utf-8"), "what was decided stays"
    taken = assay("review", str(out), "--study", str(path))
    assert taken.exit_code == 0, taken.output
    (row,) = read_yaml(tmp_path / "exam.questions.yaml")
    assert (row["question"], row["evidence"][0]["url"]) == (first["question"], "harbour.txt")


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


def test_what_people_ask_is_looked_at_and_becomes_questions_of_the_study(
    finished: Finished, tmp_path: Path
) -> None:
    study = read_study(finished.path)
    chats = Conversations(home())
    none = assay("from-chat", str(finished.path))
    assert none.exit_code == 2
    assert "no user has asked anything" in none.stderr
    cell = next(one for one in study.cells() if one.retriever == "words")
    with (
        closing(BuildContext(home())) as work,
        open_cell(study, cell, work) as talk,
        closing(QuestionService(home())) as service,
    ):

        def ask(conversation: str, question: str) -> Turn:
            (turn,) = service.ask(study.study, conversation, QuestionRequest(question), [talk]).turns()
            return turn

        name = chats.begin(study.study, Begun(record_id="begun", person="Ann"))
        first = ask(name, "When does the ferry stay in port in a storm?")
        ask(name, "In a storm, when does the ferry stay in port?")
        ask(name, "And with <script>alert(1)</script> & 'ties'?")
        known = ask(name, "How many cars fit on the ferry?")
        disliked = ask(name, "For how long are films lent by the library?")
        for turn, thumbs in ((first, 1), (known, 1), (disliked, 1), (disliked, -1)):
            said = AnswerFeedback(
                record_id=token_hex(8), turn=turn.record_id, thumbs=thumbs, comment="yaml: [no"
            )
            chats.append(study.study, name, [said])
        demo = chats.begin(study.study, Begun(record_id="demo", place="demo"))
        ask(demo, "Was this never asked?")
    path = tmp_path / "asked.review.yaml"
    found = assay("from-chat", str(finished.path), "--out", str(path))
    assert found.exit_code == 0, found.output
    file = yaml.safe_load(path.read_text(encoding="utf-8"))
    by_text = {one["question"]: one for one in file["questions"]}
    assert set(by_text) == {
        "When does the ferry stay in port in a storm?",
        "And with <script>alert(1)</script> & 'ties'?",
        "For how long are films lent by the library?",
    }
    storm = by_text["When does the ferry stay in port in a storm?"]
    assert storm["review"] == "open"
    assert storm["asked"]["times"] == 2
    assert storm["asked"]["up"] == 1
    assert storm["asked"]["also_as"] == ["In a storm, when does the ferry stay in port?"]
    assert {one["url"] for one in storm["evidence"]} == {"ferry.txt"}
    assert any("it stays in port" in one["quote"] for one in storm["evidence"])
    films = by_text["For how long are films lent by the library?"]
    assert (films["asked"]["down"], "evidence" in films) == (1, False), "the later thumb counts"
    assert by_text["And with <script>alert(1)</script> & 'ties'?"]["conversation"][0] == storm["question"]
    down = assay("from-chat", str(finished.path), "--only", "down", "-o", str(tmp_path / "down.review.yaml"))
    assert "1 questions, asked 1 times" in down.stderr
    reviewed = tmp_path / "asked.questions.yaml"
    nobody = assay("review", str(path), "--study", str(finished.path))
    assert nobody.exit_code == 2
    assert "none of 3 questions is accepted" in nobody.stderr
    unfounded = assay("review", str(path), "--study", str(finished.path), "--accept-open")
    assert "needs evidence or a ground_truth" in unfounded.stderr
    path.write_text(path.read_text(encoding="utf-8").replace("review: open", "review: accept", 1))
    again = assay("from-chat", str(finished.path), "--out", str(path))
    assert again.exit_code == 0, again.output
    taken = assay("review", str(path), "--study", str(finished.path))
    assert taken.exit_code == 0, taken.output
    (row,) = read_yaml(reviewed)
    assert row["question"] == storm["question"]
