"""`assay report --mlflow`: a result in a real tracking store of MLflow."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag_assay.evals.reporting.rows import report_data
from rag_assay.evals.reporting.stale_results import stored_result
from rag_assay.evals.study.study_file import read_study
from tests.fakes.commands import assay
from tests.orchestration.conftest import Finished


@pytest.mark.models
def test_a_result_is_written_once_with_a_run_for_each_cell(finished: Finished, tmp_path: Path) -> None:
    from mlflow.tracking import MlflowClient

    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    first = assay("report", str(finished.path), "--mlflow", uri, folder=tmp_path)
    assert first.returncode == 0, first.stderr
    assert "2 cells." in first.stderr
    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("town")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id])
    assert {one.info.status for one in runs} == {"FINISHED"}
    (root,) = [one for one in runs if "mlflow.parentRunId" not in one.data.tags]
    assert first.stdout.strip() == root.info.run_id
    study = read_study(finished.path)
    verdict = stored_result(study, finished.home, as_run=True).verdict
    assert verdict.sentences[0] in root.data.tags["mlflow.note.content"]
    assert root.data.params == {"seed": str(study.seed), "questions": "3"}
    folder = Path(client.download_artifacts(root.info.run_id, "", str(tmp_path)))
    assert (folder / "town.html").read_bytes() == finished.home.report("town").read_bytes()
    assert "ndcg@10" in (folder / "leaderboard.csv").read_text()
    data = report_data(study, finished.home, with_hits=False)
    cells = {one.info.run_name: one for one in runs if one is not root}
    assert {one.data.tags["mlflow.parentRunId"] for one in cells.values()} == {root.info.run_id}
    for cell, metric, value, low in data.leaderboard.select("cell", "metric", "value", "low").iter_rows():
        run = cells[cell.partition(".")[2]]
        assert run.data.metrics.get(metric.replace("@", "_at_")) == value
        assert run.data.metrics.get(f"{metric.replace('@', '_at_')}.low") == low
        assert run.data.params["retriever"] in {"words", "meaning"}
    recommended = verdict.recommended
    marked = {name for name, one in cells.items() if one.data.tags["rag_assay.recommended"] == "true"}
    assert marked == ({recommended.cell.partition(".")[2]} if recommended else set())
    again = assay("report", str(finished.path), "--mlflow", uri, folder=tmp_path)
    assert again.stdout == first.stdout
    assert "This result is there already." in again.stderr
    assert len(client.search_runs([experiment.experiment_id])) == len(runs)


@pytest.mark.models
def test_what_cannot_be_written_to_is_told(finished: Finished, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(finished.path)
    for uri, code, words in (
        ("127.0.0.1:5000", 2, "'127.0.0.1:5000' is not a tracking URI; write http://127.0.0.1:5000"),
        ("http://robot:pass-w0rd@127.0.0.1:9", 1, "MLflow at http://127.0.0.1:9: "),
    ):
        found = assay("report", path, "--mlflow", uri)
        assert (found.returncode, found.stdout) == (code, ""), found.stderr
        assert words in found.stderr
        assert "pass-w0rd" not in found.stderr
    both = assay("report", path, "--mlflow", "sqlite:///x.db", "--format", "csv")
    assert "--mlflow writes to MLflow alone" in both.stderr
    monkeypatch.setattr("rag_assay.warehouse.extras.find_spec", lambda name: None)
    absent = assay("report", path, "--mlflow", "sqlite:///x.db")
    assert "install the extra `mlflow` of rag-assay, or `pip install mlflow-skinny`" in absent.stderr
