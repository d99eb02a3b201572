"""`assay questions make`: from documents to a question file that a study asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag_assay.evals.question_sets.question_files import read_yaml
from rag_assay.orchestration.driver import Driver
from rag_assay.warehouse.paths import Home
from tests.fakes.commands import assay
from tests.orchestration.conftest import Finished, replace_in

pytestmark = pytest.mark.models

PILOTS = """\
# The pilots of Port Ellery

Fourteen pilots work here, and eleven of them told us how they do it. They board beyond the outer buoy.

## Night passages of large ships

Nobody passes the narrows at night without two pilots, one of whom watches the tide board.

## Rotas

A fairway is the deep channel in the middle of the harbour. The pilot station was opened on 3 May 1987.
"""


def test_questions_are_made_of_the_documents_as_they_are_now_and_asked(
    assay_home: Home, study_path: Path, tmp_path: Path
) -> None:
    (study_path.parent / "texts" / "pilots.md").write_text(PILOTS)
    done = assay("questions", "make", str(study_path))
    assert done.returncode == 0, done.stderr
    path = tmp_path / "town-made.questions.yaml"
    assert done.stdout == f"{path}\n"
    assert f"add to its questions:  - file: {path}" in done.stderr
    rows = {row["question"]: row for row in read_yaml(path)}
    assert set(rows) >= {
        "Night passages of large ships",
        "What is a fairway?",
        "When was the pilot station opened?",
    }
    assert rows["What is a fairway?"]["ground_truth"].startswith("A fairway is the deep channel")
    assert assay("questions", "make", str(study_path)).returncode == 2, "what a person may have mended stays"
    written = path.read_text()
    assert assay("questions", "make", str(study_path), "--force").returncode == 0
    assert path.read_text() == written, "the same documents make the same questions"
    elsewhere = tmp_path / "x.questions.yaml"
    assert assay("questions", "make", str(study_path), "-o", str(elsewhere), "--n", "2").returncode == 0
    assert len(read_yaml(elsewhere)) == 2
    study = replace_in(study_path, "[{file: town.questions.yaml}]", f"[{{file: {path.name}}}]")
    result = Driver(study, assay_home).run()
    assert result.ok, [stage.failed for stage in result.stages]
    assert "do not ask" not in assay("questions", "make", str(study_path), "--force").stderr


@pytest.mark.parametrize(
    ("option", "value", "error"),
    [
        ("--kinds", "title", "unknown kind 'title'; did you mean `titles`?"),
        ("--kinds", " , ", "--kinds: name at least one of"),
        ("--kinds", "links", "no question could be made of the 3 documents"),
    ],
)
def test_what_cannot_be_made_is_a_sentence(finished: Finished, option: str, value: str, error: str) -> None:
    done = assay("questions", "make", str(finished.path), option, value)
    assert done.returncode == 2
    assert error in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(finished.path.parent.glob("*made*"))
