"""The Python API and the pytest plugin, on the small study."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import rag_assay as ra
from rag_assay.warehouse.errors import InputError
from tests.conftest import REPOSITORY
from tests.fakes.commands import assay
from tests.orchestration.conftest import Finished

pytestmark = pytest.mark.models
WORDS, MEANING = "town.t16.minilm.words.quote", "town.t16.minilm.meaning.quote"
PUBLIC = {
    "Pipeline": "ask close differences name",
    "Result": "answers compare gates leaderboard notes open questions rankings report scores study verdict",
    "Study": "cells check load name path result run",
}


@pytest.fixture
def result(finished: Finished) -> ra.Result:
    return ra.Study.load(finished.path, finished.home.root).result()


def test_public_names_and_their_parameters_stay() -> None:
    names = (
        "Crawler InputError ModelGateway Models Pipeline Result RunFailedError Study StudyComponent Workspace"
    )
    assert ra.__all__ == [*names.split(), "build_definitions", "evaluate", "open"]
    for name, members in PUBLIC.items():
        kind = getattr(ra, name)
        assert [one for one in dir(kind) if not one.startswith("_")] == members.split(), name
    assert (
        str(inspect.signature(ra.Study.load))
        == "(study: 'str | Path', workspace: 'str | Path | None' = None) -> 'LoadedStudy'"
    )
    assert list(inspect.signature(ra.Study.run).parameters) == ["self", "cells", "questions", "progress"]
    assert list(inspect.signature(ra.open).parameters) == ["export", "trust", "max_usd"]
    assert list(inspect.signature(ra.Result.compare).parameters) == ["self", "first", "second", "metric"]


def test_frames_hold_what_was_measured(result: ra.Result) -> None:
    assert sorted(result.leaderboard["cell"].unique()) == [MEANING, WORDS]
    assert set(result.rankings["ranking"]) == {MEANING.rpartition(".")[0], WORDS.rpartition(".")[0]}
    found = result.rankings.filter(ranking=MEANING.rpartition(".")[0], rank=1)
    assert sorted(found["question_id"]) == sorted(result.questions["question_id"]) == ["q1", "q2", "q3"]
    assert set(result.answers["status"]) <= {"ok", "no_context", "refused"}
    assert {"ndcg@10", "rouge_l"} <= set(result.scores["metric"])
    assert result.verdict.sentences[0] in repr(result)
    assert result.verdict.sentences[0] in result._repr_html_()
    assert WORDS in result._repr_html_()
    assert result.report.is_file()


def test_two_cells_are_compared_by_question(result: ra.Result) -> None:
    found = result.compare(WORDS, MEANING.removeprefix("town."), "ndcg@10")
    values = {
        (row["cell"], row["question_id"]): row["value"]
        for row in result.scores.filter(metric="ndcg@10", status="ok").iter_rows(named=True)
    }
    wanted = [(question, values[WORDS, question], values[MEANING, question]) for question in ("q1", "q2")]
    assert sorted(found.questions) == wanted
    assert found.difference == pytest.approx(sum(one - other for _, one, other in wanted) / 2)
    with pytest.raises(InputError, match=r"no metric 'rouge_I'.*rouge_l"):
        result.compare(WORDS, MEANING, "rouge_I")
    with pytest.raises(InputError, match="no cell"):
        result.compare(WORDS, "elsewhere")


def test_all_rows_are_exported_as_parquet(result: ra.Result, finished: Finished, tmp_path: Path) -> None:
    done = assay("report", str(finished.path), "--format", "tables", "-o", str(tmp_path / "all"))
    assert done.returncode == 0, done.stderr
    files = {Path(line).stem: pl.read_parquet(line) for line in done.stdout.splitlines()}
    assert {"answers", "cells", "hits", "leaderboard", "questions", "scores", "verdict"} <= files.keys()
    assert len(files["scores"]) == len(result.scores)
    assert len(files["hits"]) == len(result.rankings)
    assert sorted(files["questions"]["question_id"]) == sorted(result.questions["question_id"])
    assert set(files["cells"]["cell"]) == {MEANING, WORDS}
    missing = assay("report", str(finished.path), "--format", "tables", ASSAY_HOME=str(tmp_path / "empty"))
    assert missing.returncode == 2, missing.stderr
    assert "run `assay run" in missing.stderr


def test_gates_pass_and_fail(result: ra.Result) -> None:
    assert [
        one.passed for one in result.gates("ndcg@10=0", "ndcg@10=1.01", f"evidence_coverage@5@{WORDS}=0")
    ] == [
        True,
        False,
        True,
    ]


def test_a_cell_answers(result: ra.Result) -> None:
    with result.open(WORDS) as pipeline:
        found = pipeline.ask("How many cars does the ferry carry?")
    assert pipeline.name == WORDS
    assert found.passages[0].text
    assert found.answer is not None


def test_an_export_answers_as_its_cell_does(result: ra.Result, finished: Finished, tmp_path: Path) -> None:
    done = assay("export", str(finished.path), WORDS, str(tmp_path / "best"))
    assert done.returncode == 0, done.stderr
    question = "How many cars does the ferry carry?"
    with ra.open(tmp_path / "best") as exported, result.open(WORDS) as cell:
        texts = [one.ask(question).answer.text for one in (exported, cell)]
    assert texts[0] == texts[1]


def test_a_run_of_one_workspace_leaves_another_one_alone(
    finished: Finished, study_path: Path, tmp_path: Path
) -> None:
    study = ra.Study.load(finished.path, finished.home.root)
    other = ra.Study.load(study_path, tmp_path / "other")
    labels: list[str] = []
    part = study.run(cells=["*.words.*"], progress=lambda label, _done, _total: labels.append(label))
    assert labels
    assert part.study.startswith("town")
    assert part.leaderboard["cell"].n_unique() == 1
    assert not (tmp_path / "other" / "assay.duckdb").exists()
    with pytest.raises(InputError, match="assay run"):
        other.result()
    assert ra.Study.load(finished.path).workspace == str(finished.home.root), "the user's own, again"


def test_a_result_stays_what_its_run_measured_and_notes_an_edited_study(finished: Finished) -> None:
    study = ra.Study.load(finished.path, finished.home.root)
    before = study.result()
    assert not any("changed" in note for note in before.notes)
    finished.edit("metrics: [ndcg@10, evidence_coverage@5, rouge_l]", "metrics: [ndcg@10, rouge_l]")
    edited = ra.Study.load(finished.path, finished.home.root)
    assert any("changed" in note for note in edited.result().notes)
    edited.run()
    assert "evidence_coverage@5" in set(before.leaderboard["metric"])
    assert "evidence_coverage@5" not in set(edited.result().leaderboard["metric"])
    assert len(before.rankings) == len(edited.result().rankings)


def test_a_run_without_a_leaderboard_is_an_error(study_path: Path, tmp_path: Path) -> None:
    for text in (study_path.parent / "texts").iterdir():
        text.unlink()
    with pytest.raises(ra.RunFailedError, match="failed"):
        ra.Study.load(study_path, tmp_path / "empty").run()


def test_a_program_that_reads_a_result_prints_nothing_of_its_own(finished: Finished) -> None:
    code = (
        f"import rag_assay as ra; ra.Study.load({str(finished.path)!r}, {str(finished.home.root)!r}).result()"
    )
    environment = {**os.environ, "PYTHONPATH": f"{REPOSITORY / 'src'}"}
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=True)
    assert found.stdout + found.stderr == ""


def pytest_of(folder: Path, home: Path, config: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "pytest.ini").write_text(f"[pytest]\n{config}")
    environment = {
        **os.environ,
        "PYTHONPATH": f"{REPOSITORY / 'src'}",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "ASSAY_HOME": str(home),
    }
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "rag_assay.orchestration.pytest_plugin",
    ]
    return subprocess.run(
        [*command, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_plugin_runs_the_study_and_fails_at_a_gate(finished: Finished, tmp_path: Path) -> None:
    (tmp_path / "test_rag.py").write_text(
        "def test_rag(assay_study):\n    assert assay_study.verdict.cells == 2\n"
    )
    config = f"assay_study = {finished.path}\nassay_gates =\n    ndcg@10=0.1\n    ndcg@10=1.01\n"
    found = pytest_of(tmp_path, finished.home.root, config, "test_rag.py", str(finished.path))
    assert found.returncode == 1, found.stdout + found.stderr
    assert "1 failed, 2 passed" in found.stdout, found.stdout
    assert "gate failed: ndcg@10" in found.stdout, found.stdout
    found = pytest_of(tmp_path, finished.home.root, "", "test_rag.py")
    assert "name the study" in found.stdout
