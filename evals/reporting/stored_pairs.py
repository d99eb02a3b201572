"""What judges and people said of the same answers, pair by pair: what ROC curves are drawn of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from rag_assay.evals.judge_calibration import human_agreement
from rag_assay.evals.judge_calibration.human_agreement import Rated, good_side, judged_cases, scored_by
from rag_assay.evals.judge_calibration.judge_trials import labelled_pairs
from rag_assay.evals.judging.contract import Judge
from rag_assay.evals.reporting.rating_scores import ScoresOfPeople
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.parquet import conform_rows, frame, read_parquet
from rag_assay.warehouse.schemas import JUDGE_TRIALS, JUDGEMENTS, Schema

PAIRS: Schema = {
    "judge": pl.String,
    "metric": pl.String,  # the judge's own name for it
    "slice": pl.String,  # whose labels, as on the judge's card: `people.RUBRIC`; NULL: labelled cases
    "good": pl.Boolean,  # what the label says; of a rubric: in the upper half of its scale
    "value": pl.Float64,  # the judge's, turned round where less is better
}


def stored_pairs(
    study: Study, people: ScoresOfPeople | None, judgements: pl.DataFrame, store: ArtifactStore
) -> pl.DataFrame:
    """Return the cases that a judge has a value of and people have labelled or scored (PAIRS).

    Fewer than the card of a judge needs to compare it with people's scores are left out, as they are there.

    judgements: schema JUDGEMENTS with `judge`, `cell` and `cell_replicate`
    """
    rows: list[dict[str, Any]] = []
    rated = scored_by(people.rubrics, people.values) if people is not None and len(people.values) else []
    for name, judge in study.judges.items():
        rows += _labelled(study, name, judge, store)
        if rated and people is not None:
            own = judgements.filter(pl.col("judge") == name)
            rows += _scored(name, judge, rated, own, people)
    return frame(rows, PAIRS)


def _scored(
    name: str, judge: Judge, rated: list[Rated], judgements: pl.DataFrame, people: ScoresOfPeople
) -> Iterator[dict[str, Any]]:
    keys = people.cells.select("key", "cell", cell_replicate="replicate")
    questions = {question for one in rated for _, question in one.values}
    near = judgements.filter(pl.col("question_id").is_in(list(questions)))
    wanted = near.join(keys, on=["cell", "cell_replicate"]).drop("statements")
    of_cells: dict[str, list[dict[str, Any]]] = {}
    for row in wanted.iter_rows(named=True):
        of_cells.setdefault(row["key"], []).append(row)
    for metric, one, cases in judged_cases(judge, of_cells, rated):
        if len(cases) >= human_agreement.FEWEST:
            for case in cases:
                value = case.value if metric.higher_is_better else -case.value
                good = good_side(case.score, one.criterion)
                yield {"judge": name, "metric": metric.name, "slice": one.name, "good": good, "value": value}


def _labelled(study: Study, name: str, judge: Judge, store: ArtifactStore) -> Iterator[dict[str, Any]]:
    """Yield the cases of a file of labels, with what the judge said when its card was made."""
    artifact = store.current("judge_cards", f"{study.study}.{name}")
    if artifact is None or not study.card_of(name).labels:
        return
    folder = store.folder("judge_cards", artifact.identity)
    trials, judged = folder / "trials.parquet", folder / "judged.parquet"
    if trials.exists() and judged.exists():
        cases = conform_rows(read_parquet(trials), JUDGE_TRIALS)
        said = conform_rows(read_parquet(judged), JUDGEMENTS)
        for metric, good, value in labelled_pairs(judge, cases, said):
            yield {"judge": name, "metric": metric.name, "slice": None, "good": good, "value": value}
