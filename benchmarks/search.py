"""How much searches spare, how often they find what the whole grid finds, and whether their bounds hold.

    python -m benchmarks.search [FOLDER | --study NAME [--metric NAME]] [--runs N] [--collections cranfield …]

FOLDER holds `beir-small` (cranfield, cisi) and `scifact`. Each collection is run as a grid of its own
(chunkings x retrievers, MiniLM, no generator) in the home of the benchmark; what it stored is then searched
again and again, each time with another seed, which draws the order of the questions and the cells. Beside
them stand simulated grids, of which the truth is known: cells whose means are far apart, near each other, or
all the same.

For each method: the share of (cell, question) pairs that were asked; how often the cell that it ends with is
the leader of the whole grid, or in its tie group; its regret, the leader's mean less its own over all
questions, with a 95 % interval over the runs; how often no dropped cell is better than the winner by more
than was said; and the mean chance that was said, beside how often a better cell was dropped.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import yaml

from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.pipeline.stage_inputs import read_questions
from rag_assay.evals.statistics.comparison import DEFAULT_MARGIN
from rag_assay.evals.statistics.question_clusters import ALONE, Clustering, clustering
from rag_assay.evals.study.cells import NO_GENERATOR, Cell
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.run_studies import find_known
from rag_assay.evals.study.study import Study
from rag_assay.evals.study.study_file import read_study
from rag_assay.evals.successive_halving.rungs import (
    EliminatedCell,
    EliminationRules,
    StratifiedQuestion,
    Values,
    draw_cells,
    look,
    one_factor,
    question_order,
    regret_of,
    rungs,
    stays,
    strata_of,
)
from rag_assay.orchestration.driver import Driver
from rag_assay.orchestration.settings import prepare
from rag_assay.orchestration.stages import up_to
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.paths import home

SEED, RUNS, ALPHA = 7, 40, 0.05
METRIC = "ndcg@10"
PLACES = {"cranfield": "beir-small/cranfield", "cisi": "beir-small/cisi", "scifact": "scifact"}
CHUNKINGS = {
    "document": {"document": {}},
    "tokens-64": {"tokens": {"size": 64, "overlap": 0}},
    "tokens-128": {"tokens": {"size": 128, "overlap": 42}},
}
RETRIEVERS = {
    "bm25": {"bm25": {"k": 50}},
    "bm25-flat": {"bm25": {"k": 50, "b": 0.0}},
    "bm25-long": {"bm25": {"k": 50, "b": 1.0}},
    "bm25-count": {"bm25": {"k": 50, "k1": 5.0}},
    "dense": {"dense": {"k": 50}},
    "hybrid": {"hybrid": {"k": 50}},
    "rrf": {"fuse": {"rrf": {"k": 60}, "of": [{"bm25": {"k": 50}}, {"dense": {"k": 50}}], "k": 50}},
    "fulltext": {"fulltext": {"k": 50}},
}


class Scored(NamedTuple):
    """A grid whose cells are known on all questions."""

    name: str
    cells: list[Cell]
    values: Values
    strata: dict[str, str]
    clusters: Clustering

    @property
    def questions(self) -> list[str]:
        """The ids of the questions."""
        return [*self.strata]

    def mean(self, cell: str) -> float:
        """Return the mean of a cell over all questions."""
        return float(np.mean([*self.values[cell].values()]))


class Outcome(NamedTuple):
    """What a search of one grid came to.

    dropped: cells, each with how many questions it was asked
    looks: how many there were; 0: nothing was compared
    """

    left: list[str]
    dropped: dict[str, int]
    evaluations: int
    looks: int


Method = Callable[[Scored, int], Outcome]


class Raced(NamedTuple):
    """How a race ended; dropped: rung, from 1 -> cells; evaluations: questions asked of cells"""

    left: list[str]
    dropped: dict[int, list[EliminatedCell]]
    evaluations: int


def race(
    cells: Sequence[str],
    values: Values,
    blocks: Sequence[Sequence[str]],
    rules: EliminationRules,
    clusters: Clustering = ALONE,
    *,
    cap: int | None = None,
) -> Raced:
    """Race cells over blocks of questions; after each but the last some may be dropped."""
    left, dropped, spent = list(cells), dict[int, list[EliminatedCell]](), 0
    asked: set[str] = set()
    for rung, block in enumerate(blocks, 1):
        asked |= set(block)
        spent += len(left) * len(block)
        if rung == len(blocks) or len(left) < 2:
            continue
        known = {cell: {q: v for q, v in values[cell].items() if q in asked} for cell in left}
        ahead = [len(one) for one in blocks[rung:]]
        found = look(left, known, rules, clusters)
        if cap is not None:
            keep = stays([1.0] * len(found.left), ahead, spent, cap)
            found = look(left, known, rules._replace(keep=keep), clusters)
        dropped[rung] = found.dropped
        left = found.left
    return Raced(left, dropped, spent)


def racing(first: int, growth: float, share: float | None = None) -> Method:
    """Return a race; ``share``: of the whole grid's evaluations that it may spend."""

    def run(grid: Scored, seed: int) -> Outcome:
        asked = [
            StratifiedQuestion(name, grid.clusters.of.get(name, name), stratum)
            for name, stratum in grid.strata.items()
        ]
        blocks = rungs(question_order(asked, seed), first, growth)
        level = ALPHA / max(len(blocks) - 1, 1)
        rules = EliminationRules(level, seed, margin=DEFAULT_MARGIN)  # of metrics from 0 to 1
        cap = None if share is None else round(share * len(grid.cells) * len(grid.questions))
        found = race([cell.short for cell in grid.cells], grid.values, blocks, rules, grid.clusters, cap=cap)
        known = {rung: sum(map(len, blocks[:rung])) for rung in found.dropped}
        gone = {one.cell: known[rung] for rung, some in found.dropped.items() for one in some}
        return Outcome(found.left, gone, found.evaluations, len(blocks) - 1)

    return run


def drawing(share: float) -> Method:
    """Return a random draw of a share of the cells."""

    def run(grid: Scored, seed: int) -> Outcome:
        n = max(1, round(share * len(grid.cells)))
        left = [one.short for one in draw_cells(grid.cells, seed, lambda some: len(some) <= n)]
        gone = {one.short: 0 for one in grid.cells if one.short not in left}
        return Outcome(left, gone, len(left) * len(grid.questions), 0)

    return run


def factors(grid: Scored, seed: int) -> Outcome:
    """Search one factor at a time, from a base that the seed draws: a person's first names may be any."""
    base = grid.cells[int(np.random.default_rng(seed).integers(len(grid.cells)))]
    left = [one.short for one in one_factor(grid.cells, base.short)]
    gone = {one.short: 0 for one in grid.cells if one.short not in left}
    return Outcome(left, gone, len(left) * len(grid.questions), 0)


METHODS: dict[str, Method] = {
    "one factor at a time": factors,
    "random, 1/2": drawing(0.5),
    "random, 1/4": drawing(0.25),
    "race, first 12": racing(12, 2.0),
    "race, first 24": racing(24, 2.0),
    "race, first 48": racing(48, 2.0),
    "race, first 24, x 4": racing(24, 4.0),
    "race, budget 1/2": racing(24, 2.0, 0.5),
    "race, budget 1/4": racing(24, 2.0, 0.25),
}


def collections(data: Path, names: Sequence[str]) -> Iterator[Scored]:
    """Yield the grids of real collections, run where they were not."""
    prepare()
    for name in names:
        yield _collection(name, data / PLACES[name])


def _collection(name: str, place: Path) -> Scored:
    where = home()
    path = where.root / "search-studies" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    beir = {"reader": "beir", "path": str(place.resolve())}
    study_text = {
        "study": f"search-{name}",
        "sources": {name: beir},
        "corpus": {"name": name, "sources": [name]},
        "chunkings": CHUNKINGS,
        "embedders": {"minilm": {"model": "all-MiniLM-L6-v2", "max_tokens": 256, "overflow": "truncate"}},
        "retrievers": RETRIEVERS,
        "questions": [{"beir": {"path": beir["path"], "split": "test", "name": name}}],
        "metrics": [METRIC],
    }
    path.write_text(yaml.safe_dump(study_text))
    study = read_study(path)
    report = Driver(study, where).run(tuple(up_to(study, ["scores"])))
    assert report.ok, report  # noqa: S101 -- a benchmark of half a grid would be none
    return stored(study, study.cells(), METRIC, "documents")


def known(name: str, metric: str) -> Scored:
    """Return the grid of a study that was run whole in the home: the cells of its first generator."""
    study = find_known(name, home())
    first = [cell for cell in study.cells() if cell.generator == study.cells()[0].generator]
    return stored(study, first, metric, "none")


def stored(study: Study, cells: list[Cell], metric: str, clusters: str) -> Scored:
    """Return what a home has stored of the cells of a study by a metric."""
    store = ArtifactStore(home())
    values: dict[str, dict[str, float]] = {}
    for cell in cells:
        artifact = store.current("scores", cell.key)
        assert artifact is not None, cell.key  # noqa: S101 -- it was run
        rows = read_parquet(store.folder("scores", artifact.identity) / "scores.parquet")
        wanted = rows.filter(pl.col("metric") == metric).drop_nulls("value")
        values[cell.short] = dict(wanted.select("question_id", "value").iter_rows())
    found = [store.current("questions", key) for key in Grid([study]).set_keys(study.study)]
    questions = read_questions([one for one in found if one is not None], BuildContext(home()))
    kinds = dict(zip(questions["question_id"], strata_of(questions.to_dicts()), strict=True))
    asked = {name: str(kinds[name]) for name in sorted(values[cells[0].short])}
    return Scored(f"{study.study}, {metric}", cells, values, asked, clustering(questions, clusters))


def simulated(name: str, spread: float, seed: int, questions: int = 200) -> Scored:
    """Return a grid of 4 x 6 cells whose names add up, with interactions of a third of their size.

    spread: standard deviation of what a name adds to the mean, where a question's own is 0.3
    """
    chance = np.random.default_rng(seed)
    cells = [Cell("sim", f"t{t}", "e", f"r{r}", NO_GENERATOR) for t in range(4) for r in range(6)]
    by_t, by_r = chance.normal(0, spread, 4), chance.normal(0, spread, 6)
    both = chance.normal(0, spread / 3, (4, 6))
    hard = chance.normal(0, 0.3, questions)
    own = chance.normal(0, 0.2, (len(cells), questions))
    values = {
        cell.short: {
            f"q{q}": float(0.5 + by_t[at // 6] + by_r[at % 6] + both[at // 6, at % 6] + hard[q] + own[at, q])
            for q in range(questions)
        }
        for at, cell in enumerate(cells)
    }
    return Scored(name, cells, values, {f"q{q}": "one" for q in range(questions)}, ALONE)


class Measured(NamedTuple):
    """One search of one grid, held against the whole grid."""

    share: float
    is_leader: bool
    in_group: bool
    regret: float
    holds: bool | None
    said: float | None
    lost: bool


def measured(grid: Scored, group: set[str], found: Outcome, seed: int) -> Measured:
    """Hold what a search came to against the whole grid.

    group: the cells that the whole grid cannot tell apart from its leader
    """
    best = max(map(grid.mean, grid.values))
    winner = max(found.left, key=grid.mean)
    lost = max((grid.mean(cell) for cell in found.dropped), default=-np.inf) > grid.mean(winner)
    holds, said = None, None
    if found.looks:
        order = [
            name
            for ids in question_order(
                [
                    StratifiedQuestion(one, grid.clusters.of.get(one, one), kind)
                    for one, kind in grid.strata.items()
                ],
                seed,
            )
            for name in ids
        ]
        known = {
            cell: {name: grid.values[cell][name] for name in order[:n] if name in grid.values[cell]}
            for cell, n in found.dropped.items()
        }
        told = regret_of(
            [*found.dropped],
            winner,
            {**known, winner: grid.values[winner]},
            seed,
            grid.clusters,
            comparisons=len(grid.cells) * found.looks,
        )
        gain = max((grid.mean(cell) - grid.mean(winner) for cell in found.dropped), default=0.0)
        holds = told.most is None or gain <= told.most
        said = told.chance
    whole = len(grid.cells) * len(grid.questions)
    return Measured(
        found.evaluations / whole,
        grid.mean(winner) == best,
        winner in group,
        best - grid.mean(winner),
        holds,
        said,
        lost,
    )


def line(name: str, rows: Sequence[Measured]) -> str:
    """Return a line of the table."""
    regrets = np.array([one.regret for one in rows])
    draws = np.random.default_rng(SEED).choice(regrets, (2_000, len(regrets))).mean(axis=1)
    low, high = np.quantile(draws, [0.025, 0.975])
    held = [one.holds for one in rows if one.holds is not None]
    said = [one.said for one in rows if one.said is not None]
    cells = [
        name,
        f"{np.mean([one.share for one in rows]):.0%}",
        f"{np.mean([one.is_leader for one in rows]):.0%}",
        f"{np.mean([one.in_group for one in rows]):.0%}",
        f"{regrets.mean():.4f} [{low:.4f}, {high:.4f}]",
        f"{np.mean(held):.0%}" if held else "-",
        f"{np.mean(said):.0%}" if said else "-",
        f"{np.mean([one.lost for one in rows]):.0%}",
    ]
    return "| " + " | ".join(cells) + " |"


TITLES = (
    *("method", "asked", "leader", "tie group", "mean regret", "bound held", "chance said"),
    "better one dropped",
)
HEAD = f"| {' | '.join(TITLES)} |\n|{'---|' * len(TITLES)}"


def tie_group(grid: Scored) -> set[str]:
    """Return the cells that the whole grid cannot tell apart from its leader."""
    names = [cell.short for cell in grid.cells]
    return set(look(names, grid.values, EliminationRules(ALPHA, SEED), grid.clusters).left)


def main(grids: Iterator[Scored], runs: int) -> None:
    """Print a table for each grid, and for each kind of simulated ones."""
    for grid in grids:
        group = tie_group(grid)
        print(
            f"\n{grid.name}: {len(grid.cells)} cells, {len(grid.questions)} questions, means "
            f"{min(map(grid.mean, grid.values)):.3f} to {max(map(grid.mean, grid.values)):.3f}, "
            f"{len(group)} cells tie\n\n{HEAD}"
        )
        for name, method in METHODS.items():
            rows = [measured(grid, group, method(grid, seed), seed) for seed in range(runs)]
            print(line(name, rows), flush=True)
    for kind, spread in (("simulated, far apart", 0.1), ("simulated, near", 0.03), ("simulated, equal", 0.0)):
        made = [simulated(kind, spread, seed) for seed in range(runs)]
        groups = [tie_group(grid) for grid in made]
        print(f"\n{kind}: 24 cells, 200 questions, {runs} grids\n\n{HEAD}")
        for name, method in METHODS.items():
            found = [method(grid, seed) for seed, grid in enumerate(made)]
            both = zip(made, groups, found, strict=True)
            print(line(name, [measured(*one, seed) for seed, one in enumerate(both)]), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--collections", nargs="*", choices=[*PLACES], default=["cranfield", "cisi"])
    parser.add_argument("--study", help="a study that was run in the home, in place of collections")
    parser.add_argument("--metric", default=METRIC)
    given = parser.parse_args()
    if given.study:
        main(iter([known(given.study, given.metric)]), given.runs)
    else:
        main(collections(given.folder, given.collections) if given.folder else iter(()), given.runs)
