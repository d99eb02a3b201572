"""`assay try` and `assay init`: a folder that nobody prepared, in one command; what gives nothing says so."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from rag_assay.evals.question_sets.question_files import UNFILLED, read_yaml
from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.commands.trial_run import parts_of
from rag_assay.orchestration.templates import trials
from rag_assay.orchestration.templates.trials import MADE, trial_of
from rag_assay.warehouse.paths import Home
from tests.fakes.commands import assay
from tests.fakes.openai_server import FakeOpenAI, Received, Scripted
from tests.fakes.processes import assay_command
from tests.fakes.terminal import Screen, Terminal
from tests.orchestration.conftest import Finished
from tests.orchestration.test_making_questions import PILOTS

pytestmark = pytest.mark.models

MOORINGS = """\
# Moorings for visitors

A mooring is a place where a ship may lie for a night. It is paid for at the harbour office before noon.

## Prices in the summer months

A night costs twelve pounds, and nobody pays for dogs, which is how it has been since the harbour was dug.
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two documents in a folder whose name YAML would read as something else."""
    path = tmp_path / "my notes: (#2)"
    path.mkdir()
    (path / "pilots of ellery.md").write_text(PILOTS)
    (path / "moorings.md").write_text(MOORINGS)
    (path / "picture.xyz").write_bytes(b"\x00\x01")
    return path


def test_a_folder_gives_a_ranked_grid_and_says_what_it_can_tell(assay_home: Home, folder: Path) -> None:
    done = assay("try", str(folder), COLUMNS="160")
    assert done.returncode == 0, done.stderr
    assert "tokens-256" in done.stdout
    assert "hybrid" in done.stdout
    assert "Evidence coverage in 2,000 tokens so far: tokens-256 · bm25 " in done.stderr, "ranked first"
    told = done.stdout[done.stdout.index("questions were made from") :].split("\n  /")[0]
    assert max(map(len, told.splitlines())) <= 100
    study = read_study(assay_home.root / "tries" / "my-notes-2" / "study.yaml")
    assert len(study.cells()) == 6
    answered = [cell for cell in study.cells() if cell.generator != "none"]
    assert 1 <= len(answered) <= 2
    assert "# chosen by their rankings" in study.path.read_text()
    questions = study.path.with_name(MADE)
    kept = questions.read_text().replace("What is a mooring?", "What do visitors call the place for a night?")
    questions.write_text(kept)
    again = assay("try", str(folder))
    assert again.returncode == 0, again.stderr
    assert questions.read_text() == kept, "what a person has mended is asked as it is"
    assert "questions made from" not in again.stderr
    assert "try-my-notes-2" in assay("list").stdout
    assert sorted(one.name for one in folder.iterdir()) == [
        "moorings.md",
        "picture.xyz",
        "pilots of ellery.md",
    ]


def find_pilots(_received: Received) -> Scripted:
    """Answer like an application that finds the right document, and asks nothing."""
    found = {"answer": "A pilot.", "passages": [{"text": PILOTS, "source": "pilots of ellery.md"}]}
    return Scripted(json.dumps(found).encode())


def test_an_application_is_measured_beside_the_grid_of_a_single_file(assay_home: Home, folder: Path) -> None:
    file = str(folder / "pilots of ellery.md")
    assert "expected a URL" in assay("try", file, "--system", "my_app:answer").stderr
    with FakeOpenAI(respond=find_pilots) as server:
        url = server.api_base.removesuffix("/v1") + "/ask"
        done = assay("try", file, "--system", url, "--n", "6", COLUMNS="160")
        assert done.returncode == 0, done.stderr
        assert "A trial of" in done.stderr
        assert "1 file, up to" in done.stderr
        (path,) = (assay_home.root / "tries").glob("*/study.yaml")
        study = read_study(path)
        assert [cell.short for cell in study.cells() if cell.is_system] == ["-.-.-.system"]
        assert len(study.cells()) == 7
        line = next(one for one in done.stdout.splitlines() if one.split()[1:4] == ["–", "–", "system"])
        assert "%" not in line, "coverage is a column only where a cell has gaps"
        n_asked = len(server.requests)
        assert n_asked == len(read_yaml(study.path.with_name(MADE)))
        assert assay("run", str(study.path)).returncode == 0
        assert len(server.requests) == n_asked, "nothing is called twice"
        again = assay("run", str(study.path), "--again")
        assert again.returncode == 0, again.stderr
        assert "Called again for all questions: system." in again.stderr
        assert "damaged" not in again.stderr
        assert len(server.requests) == 2 * n_asked
        trial_of(file, assay_home).measure(f"{server.api_base}#other")
    changed = read_study(study.path).systems["system"]
    assert changed.kind == "openai"
    assert study.path.read_text().count("systems:") == 1


def test_again_is_refused_without_a_system(finished: Finished) -> None:
    done = assay("run", str(finished.path), "--again")
    assert done.returncode == 2, done.stderr
    assert "town has none that is called" in done.stderr


def test_the_parts_of_a_trial_begin_with_words(assay_home: Home, folder: Path) -> None:
    study = read_study(trial_of(str(folder), assay_home).study)
    first, *others = parts_of(study)
    assert {cell.short for cell in first.cells()} == {
        "tokens-256.words.bm25.none",
        "tokens-128.words.bm25.none",
    }
    assert [list(one.chunkings) for one in others] == [["tokens-256"], ["tokens-128"]]
    assert {cell.short for one in others for cell in one.cells()} == {
        f"{chunking}.minilm.{retriever}.none"
        for chunking in study.chunkings
        for retriever in ("bm25", "dense", "hybrid")
    }


def test_an_interrupted_trial_leaves_what_it_has_measured(assay_home: Home, folder: Path) -> None:
    with Terminal(assay_command("try", str(folder)), {}, columns=100, rows=30) as terminal:
        terminal.until("best so far first", 200)
        terminal.type("\x03")
        assert terminal.ended(60) == 130, terminal.written[-3000:]
        screen = "\n".join(Screen(terminal.written, 100, 30).last)
    assert "tokens-256 · bm25" in screen
    assert "These are means without tests" in screen
    assert "stopped." in screen


def test_two_folders_of_one_name_are_two_trials(assay_home: Home, folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere" / folder.name
    other.mkdir(parents=True)
    (other / "a.md").write_text(PILOTS)
    found = [trial_of(str(one), assay_home) for one in (folder, other, folder)]
    assert [one.study.parent.name for one in found] == ["my-notes-2", "my-notes-2-2", "my-notes-2"]
    assert not found[0].is_asked
    assert found[0].cut_once()
    assert not found[0].cut_once()
    assert list(read_study(found[0].study).chunkings) == ["tokens-256"]


def test_a_beir_folder_has_questions_of_its_own(assay_home: Home, tmp_path: Path) -> None:
    folder = tmp_path / "beir"
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text(json.dumps({"_id": "1", "text": PILOTS}) + "\n")
    (folder / "queries.jsonl").write_text(json.dumps({"_id": "q", "text": "pilots"}) + "\n")
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\t1\t1\n")
    trial = trial_of(str(folder), assay_home)
    assert trial.is_asked
    assert trial.questions is None
    assert read_study(trial.study).metrics[0] == "ndcg@10"


def empty(_folder: Path) -> None: ...


def unknown_type(folder: Path) -> None:
    (folder / "a.xyz").write_text("Some words.")


def one_short_file(folder: Path) -> None:
    (folder / "a.txt").write_text("Two words.")


def equal_titles(folder: Path) -> None:
    for number in range(12):
        text = (
            f"This report of week {number} says that it was quite alright, more or less so, all things told."
        )
        (folder / f"{number}.md").write_text(f"---\ntitle: Weekly report\n---\n{text}\n")


def torn(folder: Path) -> None:
    (folder / "a.jsonl.gz").write_bytes(gzip.compress(b'{"text": "x"}' * 99)[:40])


@pytest.mark.parametrize(
    ("fill", "error"),
    [
        (empty, "holds no file that can be read"),
        (unknown_type, "1 x .xyz: no reader reads these kinds of files"),
        (one_short_file, "`has_documents` fails: 0 documents of 1 page"),
        (equal_titles, "12 titles: the same words in more than 3 documents"),
        (torn, "error: "),
    ],
)
def test_what_cannot_be_tried_is_a_sentence(
    assay_home: Home, tmp_path: Path, fill: object, error: str
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    assert callable(fill)
    fill(folder)
    done = assay("try", str(folder))
    assert done.returncode in {1, 2}
    assert error in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("target", ["nowhere at all", "http://", "ftp://a.example/"])
def test_what_is_no_folder_and_no_site(assay_home: Home, target: str) -> None:
    done = assay("try", target)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_init_fills_the_question_file_in(assay_home: Home, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    done = assay("init", str(folder), "-o", str(path))
    assert done.returncode == 0, done.stderr
    assert "What is a mooring?" in [row["question"] for row in read_yaml(tmp_path / "mine.questions.yaml")]
    assert assay("check", str(path)).returncode == 0
    assert assay("init", str(folder), "-o", str(path)).returncode == 2
    done = assay("init", str(folder), "-o", str(path), "--force", "--questions", "template")
    assert done.returncode == 0
    assert UNFILLED in (tmp_path / "mine.questions.yaml").read_text()


def test_init_leaves_the_template_where_nothing_can_be_made(assay_home: Home, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    equal_titles(folder)
    done = assay("init", str(folder), "-o", str(tmp_path / "s.yaml"))
    assert done.returncode == 0, done.stderr
    assert "is a template to fill in" in done.stderr
    assert UNFILLED in (tmp_path / "s.questions.yaml").read_text()


@pytest.mark.parametrize(("able", "dtype"), [(True, "bf16"), (False, "fp32")])
def test_a_trial_computes_in_bf16_where_the_processor_does(
    able: bool, dtype: str, assay_home: Home, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "has_bf16", lambda: able)
    study = read_study(trial_of(str(folder), assay_home).study)
    assert [one.dtype for one in study.embedders.values()] == [dtype]
