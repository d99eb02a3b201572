"""`assay questions make` and `review`: from documents to a question file that a study can ask."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rag_assay.evals.question_sets.question_files import read_yaml
from rag_assay.evals.study.study_file import read_study
from rag_assay.warehouse.paths import Home
from tests.fakes.commands import Done, assay
from tests.fakes.openai_server import answer
from tests.fakes.question_model import SUBJECTS, TITLE, QuestionModel, as_json

pytestmark = pytest.mark.models
STUDY = """\
study: town
sources:
  texts: {reader: folder, path: docs}
corpus: {name: town, sources: [texts]}
chunkings:
  t64: {tokens: {size: 64, overlap: 4}}
embedders:
  minilm: {model: all-MiniLM-L6-v2}
retrievers:
  words: {bm25: {k: 5}}
questions: [{file: own.questions.yaml}]
metrics: [ndcg@10]
"""


@pytest.fixture
def town(tmp_path: Path, assay_home: Home) -> Path:
    """The path of a study of the scripted town."""
    (tmp_path / "docs").mkdir()
    for name, subject in SUBJECTS.items():
        (tmp_path / "docs" / f"{name}.md").write_text(f"# {TITLE.format(name)}\n\n{subject.text}\n")
    (tmp_path / "own.questions.yaml").write_text(
        "question_set: own\nquestions: [{id: a, question: Who is it?, answerable: false}]\n"
    )
    (tmp_path / "town.yaml").write_text(STUDY)
    return tmp_path / "town.yaml"


@pytest.fixture
def server() -> Iterator[QuestionModel]:
    with QuestionModel() as server:
        yield server


def make(town: Path, server: QuestionModel, *options: str) -> Done:
    return assay(
        *("questions", "make", str(town), "--model", "openai/any", "--api-base", server.api_base, *options)
    )


def test_questions_are_made_reviewed_and_asked(town: Path, server: QuestionModel) -> None:
    server.wrong["QuestionReply", "museum"] = lambda _good: answer("", "length")
    server.wrong["QuestionReply", "pool"] = lambda good: as_json(good | {"quote": "It is invented."})
    made = make(town, server, "--n", "14", "--types", "normal,unanswerable")
    review = town.with_name("town-made.review.yaml")
    assert (made.returncode, made.stdout) == (0, f"{review}\n"), made.stderr
    assert "12 of 14 questions are kept: " in made.stderr or "13 of 14 questions are kept: " in made.stderr
    assert f"assay questions review {review}" in made.stderr

    paid = server.asked.total()
    before = review.read_bytes()
    again = make(town, server, "--n", "14", "--types", "normal,unanswerable")
    assert (again.returncode, server.asked.total()) == (0, paid)
    assert review.read_bytes() == before

    review.write_text(review.read_text().replace("review: open", "review: accept", 3))
    read = assay("questions", "review", str(review))
    questions = town.with_name("town-made.questions.yaml")
    assert (read.returncode, read.stdout) == (0, f"{questions}\n"), read.stderr
    assert "3 questions: 3 accepted, 0 edited" in read.stderr
    assert "are open and left out" in read.stderr
    assert len(read_yaml(questions)) == 3

    assert assay("questions", "review", str(review)).returncode == 2  # it is there already
    assert assay("questions", "review", str(review), "--accept-open", "--force").returncode == 0
    assert len(read_yaml(questions)) >= 12
    town.write_text(STUDY.replace("own.questions", "town-made.questions"))
    run = assay("run", str(town))
    assert run.returncode == 0, run.stderr
    assert "pieces of evidence are not in the corpus" not in run.stderr


def test_what_a_person_has_said_outlives_another_making(town: Path, server: QuestionModel) -> None:
    assert make(town, server, "--n", "3", "--types", "normal").returncode == 0
    review = town.with_name("town-made.review.yaml")
    review.write_text(review.read_text().replace("review: open", "review: accept", 1))
    assert make(town, server, "--n", "5", "--types", "normal").returncode == 0
    text = review.read_text()
    assert (text.count("review: accept"), text.count("review: open")) == (1, 4)
    assert make(town, server, "--n", "5", "--types", "normal", "--force").returncode == 0
    assert "review: accept" not in review.read_text().partition("question_set")[2]


def test_a_file_that_is_no_review_is_not_replaced(town: Path, server: QuestionModel) -> None:
    notes = town.with_name("notes.yaml")
    notes.write_text("mine: 1\n")
    done = make(town, server, "--n", "3", "-o", str(notes))
    assert done.returncode == 2
    assert not server.asked
    assert notes.read_text() == "mine: 1\n"


def test_a_model_that_writes_nothing_of_use_is_said_to(town: Path, server: QuestionModel) -> None:
    server.wrong = {("QuestionReply", name): lambda _good: answer("Sure! Why?") for name in SUBJECTS}
    done = make(town, server, "--n", "4", "--types", "normal")
    assert done.returncode == 1
    assert "0 of 4 questions are kept.\nDropped: 4 unreadable.\n" in done.stderr
    assert "openai/any wrote no question that can be used" in done.stderr
    review = town.with_name("town-made.review.yaml")
    assert review.read_text().count("fault: unreadable") == 4
    assert "there is no question in the file" in assay("questions", "review", str(review)).stderr


def test_the_model_of_the_study_is_asked_unless_another_is_named(town: Path, server: QuestionModel) -> None:
    assert (
        "say which model makes the questions"
        in assay("questions", "make", str(town), "--types", "normal").stderr
    )
    town.write_text(
        STUDY + f"questions_by: {{model: openai/any, api_base: '{server.api_base}', budget_usd: 3}}\n"
    )
    chat = read_study(town).questions_by
    assert chat is not None
    assert chat.budget_usd == 3
    done = assay("questions", "make", str(town), "--n", "2", "--types", "normal", "--name", "by-study")
    assert done.returncode == 0, done.stderr
    assert town.with_name("by-study.review.yaml").is_file()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--types", "normal,multihop"), "unknown type 'multihop'"),
        (("--types", " , "), "name at least one of normal"),
        (("--model", "gpt"), "model: a model is written PROVIDER/NAME"),
        (("--model", "local/nobody"), "unknown local model 'local/nobody'"),
        (("--api-base", "localhost"), "an address begins with http://"),
        (("--temperature", "7"), "temperature: must be"),
        (("--n", "0"), "--n"),
    ],
)
def test_wrong_options_are_told_before_anything_is_asked(
    town: Path, server: QuestionModel, options: tuple[str, ...], expected: str
) -> None:
    done = make(town, server, *options)
    assert done.returncode == 2
    assert expected in done.stderr
    assert not server.asked


def test_a_review_of_documents_that_are_not_there_says_what_to_do(town: Path, server: QuestionModel) -> None:
    assert make(town, server, "--n", "2", "--types", "normal").returncode == 0
    review = town.with_name("town-made.review.yaml")
    review.write_text(review.read_text().replace("study: town.yaml", "study: nowhere.yaml"))
    done = assay("questions", "review", str(review), "--accept-open")
    assert done.returncode == 2
    assert "nowhere.yaml" in done.stderr
    assert assay("questions", "review", str(review), "--accept-open", "--study", str(town)).returncode == 0
