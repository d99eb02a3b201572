"""annotations: the human ratings joined to the cells that hold what they scored, one partition a study."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rag_assay.assets.engine.stage import BuildContext, BuildResult, Check, PartitionRef
from rag_assay.assets.engine.table import StageTable, distribution
from rag_assay.evals.pipeline.cell_items import item_needs, read_items, scorable, scored_cells
from rag_assay.evals.pipeline.stage_inputs import GridStage, read_questions
from rag_assay.evals.rubrics.rubric import Rubric, metric_name
from rag_assay.evals.study.cells import Cell
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.artifacts import Artifact, ArtifactStore
from rag_assay.warehouse.human_scores import CHAT, HumanScores, current_scores
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.parquet import frame, write_parquet
from rag_assay.warehouse.schemas import AGREEMENT, ANNOTATIONS, HUMAN_SCORES, QUESTIONS, REJECTED_SCORES

if TYPE_CHECKING:
    from rag_assay.evals.human.item_sampling import RatingSnapshot
    from rag_assay.evals.rubrics.joins import Joined, RatableItems, Row

FILE, COUNTED, REJECTED = "annotations.parquet", "human_scores.parquet", "rejected_scores.parquet"
AGREED = "agreement.parquet"
BY_CELL = "by_cell"
"""Where the meta of annotations says what people say of each cell: its key -> a digest."""
NOT_ANSWERED = "not_answered"
"""Where the meta of annotations says which replicates of cells have no answers that could be scored."""
CUT = "cut"
"""Where the meta of answers says what of their passages was cut off (evals.answers)."""
_COUNTED = (
    "annotator",
    "item_id",
    "rubric",
    "criterion",
    "value",
    "status",
    "showing",
    "cell",
    "question_id",
)
_MEANT = ("question_id", "rubric", "criterion", "value", "annotators", "skipped")
_MEASURED = ("score_id", "comment", "seconds", "position", "scored_at", "queue_version")


class Annotations(GridStage):
    """Joins what people say of answers to every cell that gives these answers."""

    name = "annotations"
    description = (
        "What people say of the answers of a study, a row for each cell, question and criterion that can be "
        "scored: the mean over annotators, and how many of them; without a value where there is no rating. "
        "A score of one answer counts in all cells that give it from the same passages. Scores that fit no "
        "current answer, rubric or value are kept beside it, with the reason; and so is how far annotators "
        "agree. A new score rebuilds it."
    )
    table = StageTable(FILE, ANNOTATIONS, (), (distribution("human ratings", "value"),))
    code_version = "2"
    upstream = ("answers", "rankings", "indexes", "chunks", "documents", "questions")
    family = "rubrics"
    lineage = ("answers",)
    tolerates_gaps: ClassVar[bool] = True
    checks: ClassVar[dict[str, str]] = {
        "coverage": "Every item that was queued, or every one where nothing was, has a score of each rubric.",
        "rejects": "Every score fits an answer, a rubric and a value that the study has now.",
        "agreement": "Annotators agree well enough for tentative conclusions, by every criterion.",
    }

    def __init__(self, grid: Grid) -> None:
        super().__init__(grid)
        self._seen: dict[str, RatingSnapshot] = {}

    def keys(self) -> list[str]:
        return sorted(name for name, study in self.grid.studies.items() if study.rubrics)

    def needs(self, key: str) -> list[PartitionRef]:
        study = self.grid.studies[key]
        found = [need for cell in self._run(study) for need in _needs(self.grid, study, cell)]
        return list(dict.fromkeys(found))

    def _run(self, study: Study) -> list[Cell]:
        return [cell for cell in scored_cells(study) if not self.without & {*_needs(self.grid, study, cell)}]

    def recipes(self, key: str) -> dict[str, str]:
        study = self.grid.studies[key]
        rubrics = [[name, one.identity(), one.version] for name, one in study.rubrics.items()]
        named = [[cell.key, cell.sample] for cell in scored_cells(study)]
        gaps = self._gaps(study)
        return {
            f"rubrics.{key}": digest(rubrics),
            f"scored.{key}": digest([named, study.seed, study.clusters]),
            **({f"gaps.{key}": digest(gaps)} if gaps else {}),
        }

    def _gaps(self, study: Study) -> list[str]:
        run = set(self._run(study))
        return [cell.key for cell in scored_cells(study) if cell not in run]

    def cache_key_of(self, artifact: Artifact) -> list[str]:
        """Return also what was cut off of the passages of answers: it is not in their content."""
        cut = artifact.meta.get(CUT) if artifact.stage == "answers" else None
        return [*super().cache_key_of(artifact), *([str(cut)] if cut else [])]

    def identity(self, key: str, store: ArtifactStore) -> str:
        from rag_assay.evals.human.item_sampling import seen_now

        self._seen[key] = seen_now(store.home, self.grid.studies[key].whole)
        return self._identity(key, store)

    def _identity(self, key: str, store: ArtifactStore) -> str:
        seen = self._seen[key]
        return digest([super().identity(key, store), seen.scores.digest, seen.queue])

    def is_still(self, key: str, identity: str, store: ArtifactStore) -> bool:
        """Return whether the answers are what they were; people go on meanwhile, and the next run sees it."""
        return self._identity(key, store) == identity

    def build(self, key: str, folder: Path, work: BuildContext) -> BuildResult:
        from rag_assay.evals.human.item_sampling import drawing_probabilities, seen_now
        from rag_assay.evals.rubrics.joins import Rejected, join_scores, preview

        study = self.grid.studies[key]
        seen = self._seen.get(key) or seen_now(work.home, study.whole)
        records = HumanScores(work.home).read(study.whole, seen.scores)
        current = current_scores(records.rows)
        versions = {rubric.version for rubric in study.rubrics.values()}
        is_scored = any(row["rubric_version"] in versions for row in current)
        places, unscorable = self._places(study, work, is_scored=is_scored)
        of_rubrics = {name: places[rubric.against] for name, rubric in study.rubrics.items()}
        queued = drawing_probabilities(
            work.home, study.whole, seen, {row["item_id"] for row in current if row["status"] == "ok"}
        )
        result = join_scores(study.rubrics, of_rubrics, current, queued)
        if study.slice is not None:  # scores of what it leaves out are no mistakes
            result.rejected.clear()
        # Chat users ask questions that the study does not have; ratings of those are valid.
        result.rejected[:] = [one for one in result.rejected if one.place != CHAT]
        result.rejected.extend(
            [Rejected(Path(one.place).name, None, None, None, one.reason) for one in records.faults]
        )
        write_parquet(frame(result.rows, ANNOTATIONS), folder / FILE)
        write_parquet(frame(result.counted, HUMAN_SCORES), folder / COUNTED)
        rejected = frame([one._asdict() for one in result.rejected], REJECTED_SCORES)
        write_parquet(rejected, folder / REJECTED)
        agreement = self._agreement(study, result, places, work)
        write_parquet(frame(agreement, AGREEMENT), folder / AGREED)
        meta = _meta(study.rubrics, result, queued) | {
            "unscorable": unscorable,
            NOT_ANSWERED: self._gaps(study),
        }
        meta["preview"] = preview(meta, study.rubrics)
        checks = (*_checks(meta, result), _agreement_check(agreement))
        return BuildResult(_content(result), meta, checks, measured=_measured(result, agreement))

    def _agreement(
        self,
        study: Study,
        result: Joined,
        places: Mapping[str | None, Mapping[str, RatableItems]],
        work: BuildContext,
    ) -> list[Row]:
        from rag_assay.evals.judge_calibration.agreement import agreement_rows
        from rag_assay.evals.statistics.question_clusters import clustering

        found = [one for cells in places.values() for one in cells.values()]
        of_items = {item: question for one in found for question, item in one.items.items() if item}
        artifacts = [one for one in self.inputs(study.study, work.store) if one.stage == "questions"]
        questions = read_questions(artifacts, work) if artifacts else frame([], QUESTIONS)
        clusters = clustering(questions, study.clusters)
        return agreement_rows(
            frame(result.counted, HUMAN_SCORES), study.rubrics, of_items, study.seed, clusters
        )

    def _places(
        self, study: Study, work: BuildContext, *, is_scored: bool
    ) -> tuple[dict[str | None, dict[str, RatableItems]], int]:
        from rag_assay.evals.rubrics.joins import RatableItems

        inputs = dict(zip(self.needs(study.study), self.inputs(study.study, work.store), strict=True))
        found: dict[str | None, dict[str, RatableItems]] = {}
        missing = 0
        cells = self._run(study)
        for against in dict.fromkeys(rubric.against for rubric in study.rubrics.values()):
            found[against] = {}
            for number, cell in enumerate(cells, 1):
                if is_scored:
                    read = read_items(self.grid, cell, inputs, work, against)
                    ids = {question: item.item_id for question, item in read.items.items()}
                    found[against][cell.key] = RatableItems(ids, read.ties)
                    lacking = len(read.missing)
                else:
                    questions, ties, lacking = scorable(self.grid, cell, inputs, work, against)
                    found[against][cell.key] = RatableItems(dict.fromkeys(questions), ties)
                missing += lacking if against is None else 0
                work.progress(f"items of {study.study}", number, len(cells))
        return found, missing


def _needs(grid: Grid, study: Study, cell: Cell) -> list[PartitionRef]:
    against = dict.fromkeys(rubric.against for rubric in study.rubrics.values())
    return list(dict.fromkeys(need for one in against for need in item_needs(grid, cell, one)))


def _content(result: Joined) -> str:
    counted = [[row[name] for name in _COUNTED] for row in result.counted]
    rejected = sorted([one.annotator or "", one.score_id or "", one.reason] for one in result.rejected)
    return digest([[list(row.values()) for row in result.rows], counted, rejected])


def _measured(result: Joined, agreement: Sequence[Row]) -> str:
    said = [[str(row[name]) for name in _MEASURED] for row in result.counted]
    return digest([said, [list(row.values()) for row in agreement]])


def _meta(rubrics: Mapping[str, Rubric], result: Joined, queued: Mapping[str, float]) -> dict[str, Any]:
    given = [row for row in result.counted if row["status"] == "ok"]
    by_cell: dict[str, list[Any]] = {}
    for row in result.rows:
        by_cell.setdefault(row["cell"], []).append([row[name] for name in _MEANT])
    return {
        "scores": len(given),
        "skipped": len(result.counted) - len(given),
        "annotators": dict(sorted(Counter(row["annotator"] for row in given).items())),
        "coverage": {name: _coverage(name, result.rows, queued) for name in rubrics},
        "rejects": len(result.rejected),
        "reasons": dict(Counter(one.reason for one in result.rejected).most_common(20)),
        BY_CELL: {cell: digest(rows) for cell, rows in by_cell.items()},
    }


def _coverage(rubric: str, rows: Sequence[Mapping[str, Any]], queued: Mapping[str, float]) -> float | None:
    """Return the share of what is to be scored that has a value: of the queue; without one, of all."""
    wanted = [
        row["value"] is not None
        for row in rows
        if row["rubric"] == rubric and (not queued or row["item_id"] in queued)
    ]
    return sum(wanted) / len(wanted) if wanted else None


def _checks(meta: Mapping[str, Any], result: Joined) -> tuple[Check, ...]:
    thin = {name: share for name, share in meta["coverage"].items() if share is not None and share < 1}
    lacking = ", ".join(f"{name} {share:.0%}" for name, share in thin.items())
    return (
        Check(
            "coverage",
            not thin,
            f"scored so far: {lacking}" if thin else "all that is to be scored has a score",
            {"coverage": meta["coverage"]},
            severe=False,
        ),
        Check(
            "rejects",
            not result.rejected,
            f"{len(result.rejected)} scores fit nothing that the study has now"
            + (f", first: {result.rejected[0].reason}" if result.rejected else ""),
            {"reasons": meta["reasons"]},
            severe=False,
        ),
    )


def _agreement_check(agreement: Sequence[Row]) -> Check:
    from rag_assay.evals.judge_calibration.agreement import agreement_warnings

    warnings = agreement_warnings(agreement)
    alphas = {
        metric_name(row["rubric"], row["criterion"]): row["value"]
        for row in agreement
        if row["measure"] == "alpha" and row["annotator"] is None
    }
    return Check(
        "agreement",
        not warnings,
        "; ".join(warnings) or "annotators agree well enough, or there are no ratings yet",
        {"alpha": alphas},
        severe=False,
    )
