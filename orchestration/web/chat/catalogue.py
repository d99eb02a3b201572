"""The cells that a person may talk to, and what each was measured to be."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.paths import Home

if TYPE_CHECKING:
    from rag_assay.assets.engine.stage import BuildContext
    from rag_assay.evals.study.cells import Cell
    from rag_assay.evals.study.study import Study

EXAMPLES = 4  # questions of each set


@dataclass(frozen=True)
class Choice:
    """A cell, as a person chooses it.

    metric: title of the one that ranks the study's cells
    mean: over the study's questions; None: it was not measured by it
    rank, of: its place on the leaderboard that the verdict is about; None: it has none
    model: that it asks first; None: it asks none
    """

    cell: Cell
    metric: str
    mean: float | None
    rank: int | None
    of: int
    declines: bool
    model: str | None

    @property
    def key(self) -> str:
        return self.cell.key

    @property
    def short(self) -> str:
        return " · ".join(self.cell.short.split("."))


class Example(NamedTuple):
    """A question of the study, and its language, a two-letter code."""

    question: str
    language: str | None


@dataclass(frozen=True)
class Catalogue:
    """The pipelines of a study that can be chatted with, and example questions.

    choices: the recommended one first, then by place
    examples: questions of the study, from each of its sets in turn; first those that the first pipeline
        answered best, by the first metric of answers
    """

    study: Study
    choices: tuple[Choice, ...]
    examples: tuple[Example, ...]

    def of(self, name: str | None) -> Choice | None:
        wanted = (name or "").strip().replace(" · ", ".")
        return next((one for one in self.choices if wanted in {one.key, one.cell.short}), None)


def read_catalogue(
    name: str, work: BuildContext, model: str | None = None, passages_of: str | None = None
) -> Catalogue:
    """Return what a study offers; model: answers first (`cell_for_model`) from the passages of a cell."""
    import rag_assay.evals.study.registry  # noqa: F401 -- the parts that a study may name
    from rag_assay.evals.chat.model_override import cell_for_model
    from rag_assay.evals.study.run_studies import find_known
    from rag_assay.evals.successive_halving.records import narrow_study
    from rag_assay.orchestration.cell_selection import cell_of

    home = work.home
    study = narrow_study(find_known(name, home), home)
    cells = [cell for cell in study.cells() if cell.reads_ranking and cell.replicate == 1]
    if not cells:
        raise InputError(f"no cell of {study.study} can be asked: no cell reads a ranking")
    board = verdict_rows(study, home)
    chosen = cell_of(study, passages_of, home)
    if model:
        study, chosen = cell_for_model(study, chosen, model)
        cells += [chosen] if chosen.key not in {one.key for one in cells} else []
    first = chosen.key
    choices = [_choice(study, cell, board) for cell in cells]
    choices.sort(key=lambda one: (one.key != first, one.rank is None, one.rank or 0))
    return Catalogue(study, tuple(choices), _examples(study, first, work))


def verdict_rows(study: Study, home: Home) -> dict[str, dict[str, Any]]:
    from rag_assay.evals.reporting.stale_results import stored_result

    with suppress(InputError):
        result = stored_result(study, home)
        rows = result.board.filter(metric=result.verdict.metric, subset=result.verdict.subset)
        return {row["cell"]: row for row in rows.iter_rows(named=True)}
    return {}


def _choice(study: Study, cell: Cell, board: dict[str, dict[str, Any]]) -> Choice:
    row = board.get(cell.name) or board.get(cell.key) or {}
    generator = study.generators.get(cell.generator)
    return Choice(
        cell,
        study.metric(row.get("metric") or study.metrics[0]).title,
        row.get("value"),
        row.get("rank"),
        sum(one["rank"] is not None for one in board.values()),
        generator is None or generator.declines,
        generator.chat.model if generator and generator.chat else None,
    )


def _examples(study: Study, cell: str, work: BuildContext) -> tuple[Example, ...]:
    from rag_assay.evals.pipeline.stage_inputs import read_questions
    from rag_assay.evals.study.grid import Grid
    from rag_assay.warehouse.parquet import read_parquet

    answered: set[str] = set()
    if artifact := work.store.current("answers", cell):
        path = work.store.folder("answers", artifact.identity) / "answers.parquet"
        answered = {*read_parquet(path, ["question_id", "status"]).filter(status="ok")["question_id"]}
    metrics = map(study.metric, study.metrics)
    metric = next((one for one in metrics if one.kind == "answer" and one.higher_is_better), None)
    values: dict[str, float | None] = {}
    if metric and (artifact := work.store.current("scores", cell)):
        path = work.store.folder("scores", artifact.identity) / "scores.parquet"
        rows = read_parquet(path, ["question_id", "metric", "value"]).filter(metric=metric.name)
        values = dict(rows.select("question_id", "value").iter_rows())

    def place(row: dict[str, Any]) -> tuple[bool, float]:
        question = row["question_id"]
        return question not in answered, -(values.get(question) or 0)

    found: list[list[Example]] = []
    for key in Grid([study]).set_keys(study.study):
        artifact = work.store.current("questions", key)
        if artifact is None:
            continue
        asked = sorted(read_questions([artifact], work).iter_rows(named=True), key=place)
        good = (row for row in asked if row["evidence"] and not row["conversation"])
        found.append([Example(row["question"], row["language"]) for row in islice(good, EXAMPLES)])
    return tuple(dict.fromkeys(one for turn in zip_longest(*found) for one in turn if one))
