"""human_estimates: what human ratings and judgements say together, one partition a study."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from rag_assay.assets.engine.stage import BuildContext, BuildResult, PartitionRef
from rag_assay.assets.engine.table import StageTable
from rag_assay.evals.judge_calibration.human_estimates import estimate_rows, judging_metrics, wanted_width
from rag_assay.evals.pipeline.stage_inputs import GridStage, read_questions, read_rows
from rag_assay.evals.study.cells import Cell
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.parquet import frame, write_parquet
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import HUMAN_ESTIMATES

FILE = "human_estimates.parquet"


class HumanEstimates(GridStage):
    """Estimates people's mean scores from few of them and many judgements."""

    name = "human_estimates"
    description = (
        "The mean of people's scores of each cell, criterion and judge's metric: of the scores alone, of the "
        "judgements alone, and of both together (prediction-powered inference), with 95 % intervals, the "
        "labels that judgements save, and how many the wanted interval needs. No model is asked."
    )
    table = StageTable(
        FILE, HUMAN_ESTIMATES, ("cell", "rubric", "criterion", "metric", "people", "combined", "labels")
    )
    code_version = "1"
    upstream = ("annotations", "scores", "questions")
    family = "rating_scales"
    lineage = ("annotations", "scores")
    tolerates_gaps: ClassVar[bool] = True

    def keys(self) -> list[str]:
        return sorted(name for name, study in self.grid.studies.items() if study.rubrics)

    def needs(self, key: str) -> list[PartitionRef]:
        sets = [PartitionRef("questions", name) for name in self.grid.set_keys(key)]
        return [
            PartitionRef("annotations", key),
            *(PartitionRef("scores", one.key) for one in self._run(key)),
            *sets,
        ]

    def _run(self, key: str) -> list[Cell]:
        cells = self.grid.studies[key].runs()
        return [one for one in cells if PartitionRef("scores", one.key) not in self.without]

    def recipes(self, key: str) -> dict[str, str]:
        study = self.grid.studies[key]
        scales = [
            [name, one.name, *one.bounds] for name, rubric in study.rubrics.items() for one in rubric.criteria
        ]
        metrics = [[one.name, *one.bounds] for one in judging_metrics(study)]
        return {
            f"estimates.{key}": digest([scales, metrics, study.clusters, wanted_width(study)]),
            f"cells.{key}": digest([cell.key for cell in self._run(key)]),
        }

    def identity(self, key: str, store: ArtifactStore) -> str:
        sooner = _sooner(store.home, key)
        identity = super().identity(key, store)
        return digest([identity, sorted(sooner.items())]) if sooner else identity

    def build(self, key: str, folder: Path, work: BuildContext) -> BuildResult:
        from rag_assay.evals.statistics.question_clusters import clustering

        study = self.grid.studies[key]
        inputs = dict(zip(self.needs(key), self.inputs(key, work.store), strict=True))
        annotations = read_rows(inputs[PartitionRef("annotations", key)], work.store)
        needs = {one.key: PartitionRef("scores", one.key) for one in self._run(key)}
        scores = {cell: read_rows(inputs[need], work.store) for cell, need in needs.items()}
        clusters = clustering(read_questions(list(inputs.values()), work), study.clusters)
        rows = estimate_rows(study, annotations, scores, clusters, _sooner(work.home, key))
        write_parquet(frame(rows, HUMAN_ESTIMATES), folder / FILE)
        return BuildResult(digest([[*row.values()] for row in rows]), _meta(study, rows))


def _sooner(home: Home, study: str) -> Mapping[str, float]:
    """Return the weights of the items of a queue that shows the disputed sooner; of any other, nothing."""
    from rag_assay.evals.human.item_sampling import drawing_weight
    from rag_assay.evals.human.queue import read_queue

    queue = None
    with suppress(CorruptFileError):  # the reader of the queue reports it
        queue = read_queue(home, study)
    if queue is None or queue.order != "disputed":
        return {}
    return {one.item_id: drawing_weight(one.disputed) for one in queue.items if one.disputed is not None}


def _meta(study: Study, rows: list[dict[str, Any]]) -> dict[str, Any]:
    together = [row for row in rows if row["cell"] is None]
    best = max(together, key=lambda row: row["saved"] or 0.0, default=None)
    meta: dict[str, Any] = {
        "rubrics": len(study.rubrics),
        "rows": len(rows),
        "labels": max((row["labels"] for row in together), default=0),
    }
    if best and best["saved"]:
        meta["saved"] = f"{best['saved']:.0f} labels by {best['metric']}"
    return meta
