"""Runs the search of a study: the rungs of a race, or a draw; what is left is run as any study."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import polars as pl

from rag_assay.assets.engine.stage import BuildContext, Stage
from rag_assay.evals.pipeline.stage_inputs import read_questions
from rag_assay.evals.statistics.board import question_means
from rag_assay.evals.statistics.comparison import margin_of
from rag_assay.evals.statistics.question_clusters import Clustering, clustering
from rag_assay.evals.study.cells import Cell, Slice
from rag_assay.evals.study.cost_estimate import estimates
from rag_assay.evals.study.grid import Grid, read_questions_of
from rag_assay.evals.study.run_plan import plan
from rag_assay.evals.study.sections import SearchBudget
from rag_assay.evals.study.study import Study
from rag_assay.evals.successive_halving.records import (
    NOT_DRAWN,
    NOT_VARIED,
    SearchRecord,
    keep,
    recipe_of,
    row_of,
    stored_record,
    with_look,
    with_savings,
)
from rag_assay.evals.successive_halving.rungs import (
    EliminationRound,
    EliminationRules,
    Field,
    Rung,
    StratifiedQuestion,
    Values,
    draw_cells,
    field_of,
    in_words,
    is_of_rankings,
    look,
    one_factor,
    question_order,
    rung_of,
    rungs,
    stays,
    strata_of,
)
from rag_assay.orchestration.stages import stages_of, up_to
from rag_assay.warehouse.errors import AssayError, CorruptFileError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.inference.model_servers import LOCAL
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import SEARCH_VALUES, Status

UNITS = ("evaluations", "calls", "tokens", "usd")


class Most(NamedTuple):
    """The most that some cells would ask of models that the study's budget pays for."""

    calls: float
    tokens: float
    usd: float


@dataclass(frozen=True)
class Costs:
    """The costs of a study's cells, each looked up once."""

    study: Study
    n_questions: int
    _known: dict[tuple[str, ...], Most] = field(default_factory=dict)

    def most(self, cells: Sequence[Cell]) -> Most:
        """Return the most that cells would ask for; what nothing bounds, or has no price, is not in it."""
        key = tuple(cell.short for cell in cells)
        if not key or not any(cell.generator in self.study.generators for cell in cells):
            return Most(0, 0, 0)
        if key not in self._known:
            self._known[key] = self._estimated(key)
        return self._known[key]

    def _estimated(self, names: Sequence[str]) -> Most:
        n, asked = len(names), self.n_questions
        part = Slice(self.study.whole, frozenset(names), None, n, n, asked, asked)
        study = self.study.sliced(self.study.study, part)
        with TemporaryDirectory() as folder:
            home = Home(Path(folder) / "empty")
            stages = stages_of(Grid([study]))
            rows = estimates(study, plan(study, stages, home), stages, home)
        paid = [row for row in rows if row.of_study and not row.model.startswith(LOCAL)]
        return Most(
            sum(row.calls.most or 0 for row in paid),
            sum((row.read.most or 0) + (row.written.most or 0) for row in paid),
            sum(row.usd.most or 0 for row in paid if row.usd),
        )

    def of(self, cell: Cell, unit: str) -> float:
        if unit == "evaluations":
            return 1.0
        found: float = getattr(self.most([cell]), unit)
        return found / max(self.n_questions, 1)

    def caps(self, budget: SearchBudget) -> list[tuple[str, float]]:
        return [(unit, cap) for unit in UNITS if (cap := getattr(budget, unit)) is not None]

    def fits(self, cells: Sequence[Cell], budget: SearchBudget) -> bool:
        if budget.cells is not None and len(cells) > budget.cells:
            return False
        asked = sum(
            self.n_questions if cell.sample is None else min(cell.sample, self.n_questions) for cell in cells
        )
        if budget.evaluations is not None and asked > budget.evaluations:
            return False
        wanted = [(unit, cap) for unit, cap in self.caps(budget) if unit != "evaluations"]
        most = self.most(cells) if wanted else None
        return all(getattr(most, unit) <= cap for unit, cap in wanted)


Walk = Callable[[Study, str], object]
"""Brings a stage of a study up to date, and all that it is built from, as a driver does."""
Say = Callable[[str], None]


def search_study(study: Study, home: Home, walk: Walk, say: Say = lambda _: None) -> Study:
    """Return a study with the cells that its search leaves; a rung that was run before is not run again."""
    if study.search is None or study.slice is not None:
        return study
    found = stored_record(study, home)
    if study.search.method == "successive_halving":
        found = _Race(study, home, walk, say, found).run()
    elif found is None or not found.done:
        found = keep(_drawn(study), study, home)
    for sentence in found.notes:
        say(sentence)
    return study.narrowed(found.kept)


def _drawn(study: Study) -> SearchRecord:
    search = study.search
    assert search is not None  # noqa: S101 -- `search_study` has seen it
    cells, n_questions = study.cells(), len(read_questions_of(study))
    compare = {one.against for one in study.judges.values()} | {one.against for one in study.rubrics.values()}
    always = [cell for cell in cells if cell.short in compare]
    costs = Costs(study, n_questions)
    if search.method == "random":
        assert search.budget is not None  # noqa: S101 -- a random search has one
        budget, seed = search.budget, study.seed if search.seed is None else search.seed
        chosen = draw_cells(cells, seed, lambda some: costs.fits(some, budget), always)
        rule, reason = NOT_DRAWN, "not among the cells that the seed drew for the budget"
    else:
        factors = one_factor(cells, search.base)
        chosen = [cell for cell in cells if cell in factors or cell in always]
        rule, reason = NOT_VARIED, "differs from the base cell on more than one axis"
    rows = [row_of(study, cell, n_questions) for cell in cells]
    rows = [
        row if cell in chosen else {**row, "rule": rule, "reason": reason, "asked": 0}
        for cell, row in zip(cells, rows, strict=True)
    ]
    kept = tuple(cell.short for cell in chosen)
    note = f"Search ({search.method}): {len(chosen)} of {len(cells)} cells are run."
    if not chosen:
        note = "Search: not even one cell is within the budget; the first that was drawn is run all the same."
        kept = (min(cells, key=lambda one: digest([search.seed, one.short])).short,)
    spared = costs.most([cell for cell in cells if cell.short not in kept])
    return with_savings(SearchRecord(recipe_of(study), kept, rows, notes=(note,)), *spared)


class _Asking(NamedTuple):
    """What a race asks: its cells, its questions block by block, and which of them are not independent."""

    field: Field
    blocks: list[list[str]]
    clusters: Clustering
    n_questions: int


class _Race:
    """One race; `run` goes on where it was stopped."""

    def __init__(self, study: Study, home: Home, walk: Walk, say: Say, before: SearchRecord | None) -> None:
        assert study.search is not None  # noqa: S101 -- `search_study` has seen it
        self.study, self.search, self.home, self.walk, self.say = study, study.search, home, walk, say
        self.before = before
        self.seed = study.seed if self.search.seed is None else self.search.seed

    def run(self) -> SearchRecord:
        asking = self._asking()
        field, blocks = asking.field, asking.blocks
        rows = [row_of(self.study, cell, asking.n_questions) for cell in self.study.cells()]
        record = SearchRecord(recipe_of(self.study), (), rows, done=False, metric=field.metric.name)
        left = list(field.racing)
        for number, block in enumerate(blocks[:-1], 1):
            if len(left) < 2:
                break
            rung = rung_of(self.study, number, left, block, field.metric)
            if not _are_fresh(up_to(rung.study, ["scores"]), self.home):
                self.say(
                    f"Rung {number} of {len(blocks)}: {len(left)} cells, {len(block)} questions more, "
                    f"by {field.metric.name}"
                )
                self.walk(rung.study, "scores")
            record, left = self._looked(record, rung, number, left, asking)
        done = self._ended(record, left, asking)
        return done if done is self.before else keep(done, self.study, self.home)

    def _asking(self) -> _Asking:
        stages = up_to(self.study, ["questions"])
        if not _are_fresh(stages, self.home):
            self.walk(self.study, "questions")
        grid, store = Grid([self.study]), BuildContext(self.home).store
        artifacts = [store.current("questions", key) for key in grid.set_keys(self.study.study)]
        there = [one for one in artifacts if one is not None]
        if len(there) < len(artifacts):
            raise AssayError("the questions could not be read, so that nothing can be searched")
        questions = read_questions(there, BuildContext(self.home))
        field = field_of(self.study, questions.to_dicts())
        clusters = clustering(questions, self.study.clusters)
        raced = questions.filter(pl.col("question_id").is_in(field.questions)).to_dicts()
        names = [one["question_id"] for one in raced]
        asked = [
            StratifiedQuestion(name, clusters.of.get(name, name), stratum)
            for name, stratum in zip(names, strata_of(raced), strict=True)
        ]
        blocks = rungs(question_order(asked, self.seed), self.search.first, self.search.growth)
        return _Asking(field, blocks, clusters, len(questions))

    def _looked(
        self, record: SearchRecord, rung: Rung, number: int, left: list[Cell], asking: _Asking
    ) -> tuple[SearchRecord, list[Cell]]:
        values, inputs = _values(rung, asking.field, number, self.home)
        record = replace(record, values=pl.concat([record.values, values]))
        level = self.search.alpha / max(len(asking.blocks) - 1, 1)
        asked = sum(map(len, asking.blocks[:number]))
        known = self.before.looks[number - 1] if self.before and len(self.before.looks) >= number else None
        if self.before and known and known["inputs"] == inputs:
            gone = [cell for cell in left if cell.short not in known["left"]]
            names = {cell.name for cell in gone}
            before = {row["cell"]: row for row in self.before.rows if row["cell"] in names}
            rows = [before.get(row["cell"], row) for row in record.rows]
            record = replace(record, rows=rows, looks=(*record.looks, known))
            return record, [cell for cell in left if cell not in gone]
        found = self._look(record, number, left, asking, level)
        told = with_look(record.rows, found, rung=number, rungs=len(asking.blocks), asked=asked, level=level)
        mark = {"inputs": inputs, "left": found.left, "leader": found.leader, "unmeasured": found.unmeasured}
        record = replace(record, rows=told, looks=(*record.looks, mark), kept=tuple(found.left))
        self.say(f"Rung {number} of {len(asking.blocks)}, {asked} questions: {_in_words(found)}")
        keep(record, self.study, self.home)
        return record, [cell for cell in left if cell.short in found.left]

    def _look(
        self, record: SearchRecord, number: int, left: Sequence[Cell], asking: _Asking, level: float
    ) -> EliminationRound:
        by_name = {cell.short: cell for cell in left}
        values: dict[str, dict[str, float]] = {name: {} for name in by_name}
        for cell, question, value in record.values.select("cell", "question_id", "value").iter_rows():
            if cell in values and value is not None:
                values[cell][question] = value
        metric = asking.field.metric
        margin = 0.0
        if self.study.prefer != "quality":
            margin = margin_of(metric, self.study.margin, self.study.metric(self.study.metrics[0])) or 0.0
        rules = EliminationRules(level, self.study.seed, metric.higher_is_better, margin=margin)
        found = look([*by_name], values, rules, asking.clusters)
        budget = self.search.budget
        if budget is None:
            return found
        ranked = self._ranked(found.left, values, rules)
        ahead = [len(block) for block in asking.blocks[number:]]
        ahead[-1] += asking.n_questions - len(asking.field.questions)
        room = self._room([by_name[name] for name in ranked], ahead, record, asking, number)
        if number == len(asking.blocks) - 1 and budget.cells is not None:
            room = min(room, budget.cells)
        return look([*by_name], values, rules._replace(keep=max(room, 1)), asking.clusters)

    def _ranked(self, left: Sequence[str], values: Values, rules: EliminationRules) -> list[str]:
        sign = 1.0 if rules.higher_is_better else -1.0
        means = {name: sum(values[name].values()) / len(values[name]) for name in left if values[name]}
        return sorted(left, key=lambda name: (-sign * means[name] if name in means else float("-inf"), name))

    def _room(
        self, ranked: Sequence[Cell], ahead: Sequence[int], record: SearchRecord, asking: _Asking, number: int
    ) -> int:
        assert self.search.budget is not None  # noqa: S101 -- asked for where there is one
        costs = Costs(self.study, asking.n_questions)
        room = len(ranked)
        done = {f"{row['cell']}".partition(".")[2]: row["asked"] for row in record.rows if row["rung"]}
        asked = sum(map(len, asking.blocks[:number]))
        for unit, cap in costs.caps(self.search.budget):
            spent = sum(costs.of(cell, unit) * asking.n_questions for cell in asking.field.exempt)
            left = list(ahead)
            if unit != "evaluations" and is_of_rankings(asking.field.metric):  # only the last calls a model
                left = [0] * (len(ahead) - 1) + [asking.n_questions]
            else:
                spent += sum(
                    costs.of(cell, unit) * done.get(cell.short, asked) for cell in asking.field.racing
                )
            room = min(room, stays([costs.of(cell, unit) for cell in ranked], left, spent, cap))
        return room

    def _ended(self, record: SearchRecord, left: Sequence[Cell], asking: _Asking) -> SearchRecord:
        kept = tuple(cell.short for cell in self.study.cells() if cell in left or cell in asking.field.exempt)
        if self.before and self.before.done and (self.before.looks, self.before.kept) == (record.looks, kept):
            return self.before
        dropped = [row for row in record.rows if row["rung"] is not None]
        said = f"Search (successive_halving) over {in_words(asking.blocks)}: "
        if len(asking.blocks) < 2:
            said += "too few questions for a rung before the last, so nothing was dropped."
        elif len(asking.field.racing) < 2:
            said += "fewer than two cells race, so nothing was dropped."
        elif not dropped:
            said += "no pipeline was significantly worse than the leader, so none was dropped."
        else:
            said += f"{len(dropped)} of {len(record.rows)} cells were dropped."
        notes = [said]
        unmeasured = dict.fromkeys(name for one in record.looks for name in one["unmeasured"])
        if unmeasured:
            first = next(iter(unmeasured))
            notes.append(f"Lacking values, and not dropped for that: {len(unmeasured)}, first {first}.")
        cap = self.search.budget.evaluations if self.search.budget else None
        if cap is not None and (spent := sum(row["asked"] for row in record.rows)) > cap:
            notes.append(
                f"The budget of {cap} evaluations was too small: {spent} is the least of such a race."
            )
        by_short = {cell.short: cell for cell in self.study.cells()}
        costs, spared = Costs(self.study, asking.n_questions), [0.0, 0.0, 0.0]
        for rung in sorted({row["rung"] for row in dropped}):
            gone = [row for row in dropped if row["rung"] == rung]
            unanswered = is_of_rankings(asking.field.metric)  # its rungs ask no model
            share = 1.0 if unanswered else 1 - gone[0]["asked"] / asking.n_questions
            most = costs.most([by_short[row["cell"].partition(".")[2]] for row in gone])
            spared = [one + share * more for one, more in zip(spared, most, strict=True)]
        return with_savings(replace(record, kept=kept, done=True, notes=tuple(notes)), *spared)


def _are_fresh(stages: dict[str, Stage], home: Home) -> bool:
    store = BuildContext(home).store
    return all(stage.fresh(key, store) is not None for stage in stages.values() for key in stage.keys())


def _values(rung: Rung, field: Field, number: int, home: Home) -> tuple[pl.DataFrame, str]:
    """Return the values of a rung (SEARCH_VALUES; null where one lacks), and the digest of their inputs."""
    store = BuildContext(home).store
    frames, inputs = [], []
    for cell in rung.study.cells():
        replicates = []
        for one in cell.replicates(rung.study.times(cell)):
            artifact = store.current("scores", one.key)
            inputs.append([one.short, one.replicate, artifact.data_version if artifact else None])
            if artifact is None:
                continue
            try:
                rows = read_parquet(store.folder("scores", artifact.identity) / "scores.parquet")
            except CorruptFileError as error:
                store.set_aside(artifact)
                raise AssayError(
                    f"scores of {one.key} are damaged; run again: they are built again"
                ) from error
            good = pl.when(pl.col("status") == str(Status.OK)).then(pl.col("value")).alias("value")
            of_metric = pl.col("metric") == field.metric.name
            replicates.append(rows.filter(of_metric).with_columns(good).sort("question_id"))
        if replicates:
            means = question_means(replicates).with_columns(rung=pl.lit(number, pl.Int64))
            frames += [means.with_columns(cell=pl.lit(name)) for name in rung.stands_for[cell.short]]
    empty = pl.DataFrame(schema=SEARCH_VALUES)
    return pl.concat([empty, *(one.select(*SEARCH_VALUES) for one in frames)]), digest(inputs)


def _in_words(found: EliminationRound) -> str:
    by = {rule: sum(one.rule == rule for one in found.dropped) for rule in ("significance", "budget")}
    parts = [f"{by['significance']} dropped as significantly worse"] if by["significance"] else []
    parts += [f"{by['budget']} dropped for the budget"] if by["budget"] else []
    parts += ["none dropped"] if not parts else []
    lacking = f", of which {len(found.unmeasured)} lack values" if found.unmeasured else ""
    return f"{found.leader} leads, {', '.join(parts)}; {len(found.left)} cells are left{lacking}"
