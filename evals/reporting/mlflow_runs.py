"""Writes the result of a study to MLflow: a run with the report, and inside it a run for each cell."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.exports import COSTS, export_table
from rag_assay.evals.study.cells import AXES
from rag_assay.warehouse.errors import AssayError, InputError
from rag_assay.warehouse.extras import require
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.inference.redaction import know_url, one_line

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

RESULT = "rag_assay.result"  # tag with the digest of a result: each result is written once
_LIMITS = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "20"}
_QUIET = {"MLFLOW_DISABLE_TELEMETRY": "true", "GIT_PYTHON_REFRESH": "quiet"}
_QUIET |= {"MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true"}
_SUFFIXES = {"value": "", "low": ".low", "high": ".high"}
MOST_METRICS = 1000  # of one request
_PLACE = re.compile(r"(https?|sqlite|postgresql|mysql|mssql|file|databricks|uc)(\+\w+)?(:|$)")


class MlflowSummary(NamedTuple):
    """The address of the run, or its id; is_new: false if the result had been written before."""

    place: str
    cells: int
    is_new: bool


def write_to_mlflow(data: ReportData, report: Path, uri: str) -> MlflowSummary:
    """Write a result; one that is there already is not written again. report: the HTML report.

    uri: of the tracking server or store, as MLflow takes it: `http://127.0.0.1:5000`, `sqlite:///mlflow.db`

    Raises:
        InputError: MLflow is not installed, or `uri` is no tracking URI.
        AssayError: the server did not take it.
    """
    require("mlflow", "writing a study to MLflow")
    if not _PLACE.match(uri):
        raise InputError(
            f"--mlflow: {one_line(uri)!r} is not a tracking URI; write http://127.0.0.1:5000 or sqlite:///mlflow.db"
        )
    know_url(uri)
    for name, value in {**_LIMITS, **_QUIET}.items():
        os.environ.setdefault(name, value)
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    try:
        return _write(MlflowClient(tracking_uri=uri), data, report, uri)
    except (MlflowException, OSError) as error:
        raise AssayError(f"MLflow at {_shown(uri)}: {one_line(str(error))}") from error


def _write(client: MlflowClient, data: ReportData, report: Path, uri: str) -> MlflowSummary:
    name = data.study
    experiment = client.get_experiment_by_name(name)
    known = experiment.experiment_id if experiment else client.create_experiment(name)
    table = export_table(data)
    of_result = digest([table.columns, list(map(list, table.rows())), data.verdict.sentences])
    finished = f"tags.`{RESULT}` = '{of_result}' and attributes.status = 'FINISHED'"
    if earlier := client.search_runs([known], finished):
        return MlflowSummary(_place(uri, earlier[0]), 0, False)
    recommended = data.verdict.recommended
    tags = {
        RESULT: of_result,
        "mlflow.source.name": "rag-assay",
        "mlflow.note.content": "\n\n".join(filter(None, [data.description, *data.verdict.sentences])),
        "rag_assay.recommended": recommended.cell if recommended else "",
    }
    root = client.create_run(known, tags=tags, run_name=name)
    try:
        cells = _write_cells(client, known, root, table)
        taken = table.filter(pl.col("recommended"))
        _log(client, root, {"seed": data.seed, "questions": len(data.questions)}, _metrics(taken))
        client.log_artifact(root.info.run_id, str(report))
        client.log_text(root.info.run_id, table.write_csv(), "leaderboard.csv")
    except BaseException:
        client.set_terminated(root.info.run_id, "FAILED")
        raise
    client.set_terminated(root.info.run_id)
    return MlflowSummary(_place(uri, root), cells, True)


def _write_cells(client: MlflowClient, experiment: str, root: Run, table: pl.DataFrame) -> int:
    cells = table.partition_by("cell", maintain_order=True)
    for rows in cells:
        first = rows.row(0, named=True)
        tags = {
            "mlflow.parentRunId": root.info.run_id,
            "rag_assay.cell_id": first["cell_id"],
            "rag_assay.recommended": str(bool(rows["recommended"].any())).lower(),
        }
        run = client.create_run(experiment, tags=tags, run_name=first["cell"].partition(".")[2])
        _log(client, run, {axis: first[axis] for axis in AXES}, _metrics(rows))
        client.set_terminated(run.info.run_id)
    return len(cells)


def _log(client: MlflowClient, run: Run, params: Mapping[str, Any], metrics: Mapping[str, float]) -> None:
    from time import time

    from mlflow.entities import Metric, Param

    at = int(time() * 1000)
    written = [Metric(name, value, at, 0) for name, value in metrics.items()]
    client.log_batch(run.info.run_id, written[:MOST_METRICS], [Param(k, str(v)) for k, v in params.items()])
    for begin in range(MOST_METRICS, len(written), MOST_METRICS):
        client.log_batch(run.info.run_id, written[begin : begin + MOST_METRICS])


def _metrics(rows: pl.DataFrame) -> dict[str, float]:
    """Return MLflow name -> value of each figure of a cell."""
    found: dict[str, float | None] = {}
    for row in rows.iter_rows(named=True):
        name = metric_name(row["metric"], row["subset"])
        found |= {f"{name}{suffix}": row[column] for column, suffix in _SUFFIXES.items()}
        if row["rank"] is not None:
            found[metric_name("rank", row["subset"])] = row["rank"]
    first = rows.row(0, named=True) if len(rows) else {}
    found |= {column: first[column] for column in COSTS if column in first}
    return {name: float(value) for name, value in found.items() if value is not None}


def metric_name(metric: str, subset: str) -> str:
    """Return the name of a metric in MLflow, which takes letters, digits and `_-. /`.

    >>> metric_name("evidence_coverage@2000tokens", "all"), metric_name("rouge_l", "sample of 6")
    ('evidence_coverage_at_2000tokens', 'rouge_l/sample_of_6')
    """
    name = metric if subset == "all" else f"{metric}/{subset}"
    return re.sub(r"[^\w./-]", "_", name.replace("@", "_at_"))


def _place(uri: str, run: Run) -> str:
    if not uri.startswith("http"):
        return str(run.info.run_id)
    return f"{_shown(uri).rstrip('/')}/#/experiments/{run.info.experiment_id}/runs/{run.info.run_id}"


def _shown(uri: str) -> str:
    return re.sub(r"(?<=://)[^/@\s]+@", "", uri)
