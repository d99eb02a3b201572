"""Rungs of a race: samples of the questions, their budgets, and which cells are dropped after one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from operator import ne
from typing import Any, Literal, NamedTuple

import numpy as np

from rag_assay.evals.judging.judge_metrics import JudgedScores
from rag_assay.evals.metrics.contract import OF_RANKING, Metric
from rag_assay.evals.statistics.comparison import finite_or_none, table_of
from rag_assay.evals.statistics.question_clusters import ALONE, Clustering
from rag_assay.evals.statistics.resampling import sums_of
from rag_assay.evals.statistics.significance import ALPHA, contrasts, paired_bootstrap
from rag_assay.evals.study.cells import MARK, NO_GENERATOR, Cell, Slice
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.schemas import MIN_COVERAGE


class CellRegret(NamedTuple):
    """A dropped cell against the winner: mean difference, 95 % interval, chance that it is truly better"""

    cell: str
    n: int
    difference: float | None
    low: float | None
    high: float | None
    chance: float


class Regret(NamedTuple):
    """What a race could have missed: chance that any is better; most: by how much, at 95 % for all"""

    cells: list[CellRegret]
    chance: float
    most: float | None


def regret_of(
    dropped: Sequence[str],
    winner: str,
    values: Values,
    seed: int,
    clusters: Clustering = ALONE,
    *,
    higher_is_better: bool = True,
    comparisons: int = 1,
) -> Regret:
    """Hold each dropped cell against the winner on the questions that both have a value of.

    With d the mean difference over G clusters of questions, s its standard error and T Student's distribution
    of G - 1 degrees of freedom, the chance that a cell is truly better is T(d / s), the posterior of a flat
    prior (Box and Tiao, Bayesian Inference in Statistical Analysis, 1973, ch. 2). That any of them is has at
    most the sum of their chances (Boole). By how much at most is the largest of d + t * s, t the quantile of
    1 - 0.05 / comparisons (Bonferroni): a cell was dropped at one of several looks because it looked bad
    there, so that its bound must hold at all of them.

    >>> values = {"a": {str(n): 0.8 for n in range(12)}, "b": {str(n): (n % 2) * 0.4 for n in range(12)}}
    >>> found = regret_of(["b"], "a", values, 7, comparisons=3)
    >>> found.cells[0].n, round(found.cells[0].difference, 2), found.chance < 0.001, found.most
    (12, -0.6, True, 0.0)
    """
    if not dropped:
        return Regret([], 0.0, None)
    from scipy.special import stdtr, stdtrit

    sign = 1.0 if higher_is_better else -1.0
    questions = sorted(values.get(winner, {}))
    table = table_of({**{cell: {} for cell in dropped}, **values}, [winner, *dropped], questions)
    apart = sign * (table[:, 1:] - table[:, :1])
    codes = clusters.codes(questions)
    binary = bool((np.isnan(table) | (table == 0) | (table == 1)).all())
    found = paired_bootstrap(apart, seed, RESAMPLES, codes, binary=binary)
    groups = np.maximum(sums_of(apart, codes).groups, 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(found.mean == 0, np.where(found.error == 0, -np.inf, 0.0), found.mean / found.error)
    chances = np.where(np.isnan(t), 1.0, stdtr(groups - 1, t))
    ends = found.mean + stdtrit(groups - 1, 1 - ALPHA / max(comparisons, 1)) * found.error
    rows = []
    for at, cell in enumerate(dropped):
        low, high = sorted((sign * found.low[at], sign * found.high[at]))
        n, mean = int((~np.isnan(apart[:, at])).sum()), finite_or_none(sign * found.mean[at])
        rows.append(CellRegret(cell, n, mean, finite_or_none(low), finite_or_none(high), float(chances[at])))
    most = None if np.isnan(ends).any() else max(0.0, float(ends.max()))
    return Regret(rows, min(1.0, float(chances.sum())), most)


RESAMPLES = 2_000
"""Of each test of a look: levels are not smaller than what they can tell, and p below them is Student's."""
Rule = Literal["significance", "budget"]
Values = Mapping[str, Mapping[str, float]]
"""Cell -> question -> its value, where it has one."""


class EliminationRules(NamedTuple):
    """How cells are dropped: level of a test, cells kept at most, and a margin that is no loss"""

    level: float
    seed: int
    higher_is_better: bool = True
    keep: int | None = None
    margin: float = 0.0


class EliminatedCell(NamedTuple):
    """A dropped cell: difference to the leader with its 95 % interval, and the adjusted p of the tests"""

    cell: str
    rule: Rule
    n: int
    leader: str
    difference: float | None
    low: float | None
    high: float | None
    p: float | None


class EliminationRound(NamedTuple):
    """What a look found; unmeasured: cells that lack values of too many questions."""

    leader: str | None
    left: list[str]
    dropped: list[EliminatedCell]
    unmeasured: list[str]


def look(
    cells: Sequence[str], values: Values, rules: EliminationRules, clusters: Clustering = ALONE
) -> EliminationRound:
    """Say which cells are dropped by what is known of them so far.

    The leader has the best mean. A cell is dropped by a test where its paired difference to the leader is
    significant at the look's level, by a bootstrap and a permutation test over clusters of questions that are
    adjusted for all cells and for the choice of the leader (`evals.statistics.significance`), and larger than
    the margin: a cheaper cell within it may be recommended. Where more are left than the budget allows, the
    worst means are dropped beside them. A cell without values of 98 % of the questions is not compared and
    stays: that it failed is no reason to drop it.

    >>> good, poor = {str(n): 0.9 + n / 500 for n in range(20)}, {str(n): n % 3 / 5 for n in range(20)}
    >>> found = look(["a", "b"], {"a": good, "b": poor}, EliminationRules(0.05, 7))
    >>> found.leader, found.left, [one.cell for one in found.dropped]
    ('a', ['a'], ['b'])
    """
    questions = sorted({name for cell in cells for name in values.get(cell, ())})
    able = [one for one in cells if questions and len(values.get(one, ())) >= MIN_COVERAGE * len(questions)]
    unmeasured = [one for one in cells if one not in able]
    if len(able) < 2:
        return EliminationRound(able[0] if able else None, list(cells), [], unmeasured)
    sign = 1.0 if rules.higher_is_better else -1.0
    table = sign * table_of(values, able, questions)
    means = np.nanmean(table, axis=0)
    leader = int(np.lexsort((np.argsort(np.argsort(able)), -means))[0])
    others = [at for at in range(len(able)) if at != leader]
    unique, which = np.unique((table[:, others] - table[:, [leader]]).T, axis=0, return_inverse=True)
    binary = bool((np.isnan(table) | (table == 0) | (np.abs(table) == 1)).all())
    found = contrasts(unique.T, rules.seed, clusters.codes(questions), binary=binary, resamples=RESAMPLES)
    n = (~np.isnan(unique.T)).sum(axis=0)
    dropped: dict[str, EliminatedCell] = {}
    for at, column in zip(others, which.ravel().tolist(), strict=True):
        ends = sorted(sign * end for end in (found.differences.low[column], found.differences.high[column]))
        numbers = map(finite_or_none, (sign * found.differences.mean[column], *ends, found.p[column]))
        dropped[able[at]] = EliminatedCell(able[at], "significance", int(n[column]), able[leader], *numbers)
    gone = {
        name
        for name, one in dropped.items()
        if one.p is not None and one.p < rules.level and abs(one.difference or 0.0) > rules.margin
    }
    by_rank = [
        able[at] for at in sorted(others, key=lambda at: (-means[at], able[at])) if able[at] not in gone
    ]
    room = len(by_rank) if rules.keep is None else max(0, rules.keep - 1 - len(unmeasured))
    worst = by_rank[room:]
    told = [one for name, one in dropped.items() if name in gone]
    told += [dropped[name]._replace(rule="budget") for name in worst]
    left = [one for one in cells if one not in gone and one not in worst]
    return EliminationRound(able[leader], left, told, unmeasured)


Fits = Callable[[Sequence[Cell]], bool]
"""Whether some cells together are within the budget; if they are, so are fewer of them."""


def draw_cells(cells: Sequence[Cell], seed: int, fits: Fits, always: Sequence[Cell] = ()) -> list[Cell]:
    """Return the cells of a random search, in the order of the grid.

    Cells are ordered by the digest of the seed and their name, and the first ones are taken, as many as fit:
    so a larger budget holds the cells of a smaller one, and a cell more in the grid moves one at most. Random
    points cover an axis that matters better than a grid of as many points (Bergstra and Bengio, JMLR 2012).

    >>> cells = [Cell("s", t, "e", "r", "g") for t in ("t1", "t2", "t3")]
    >>> [one.chunking for one in draw_cells(cells, 7, lambda some: len(some) <= 2)]
    ['t1', 't3']
    """
    kept = [one for one in cells if one in always]
    order = sorted((one for one in cells if one not in always), key=lambda one: digest([seed, one.short]))
    low, high = 0, len(order)
    while low < high:  # the most that fit; what one cell costs is not known alone, for cells share calls
        middle = (low + high + 1) // 2
        if fits([*kept, *order[:middle]]):
            low = middle
        else:
            high = middle - 1
    chosen = {*kept, *order[:low]}
    return [one for one in cells if one in chosen]


class Field(NamedTuple):
    """Who races by which metric; exempt: the others, and why each stays"""

    metric: Metric
    racing: list[Cell]
    exempt: dict[Cell, str]
    questions: list[str]


def field_of(study: Study, questions: Sequence[dict[str, Any]]) -> Field:
    metrics = [study.metric(name) for name in study.metrics]
    metric = next((one for one in metrics if any(map(one.applies, questions))), metrics[0])
    exempt = {cell: why for cell in study.cells() if (why := _exempt(study, cell, metric))}
    racing = [cell for cell in study.cells() if cell not in exempt]
    return Field(metric, racing, exempt, [one["question_id"] for one in questions if metric.applies(one)])


def _exempt(study: Study, cell: Cell, metric: Metric) -> str | None:
    compare = {one.against for one in study.judges.values()} | {one.against for one in study.rubrics.values()}
    if cell.short in compare:
        return "others are compared with it"
    if cell.sample is not None:
        return "it is asked a sample only"
    if study.reads(cell.generator) == "evidence":
        return "it answers from the reference passages, so it cannot be chosen"
    if cell.is_system and is_of_rankings(metric):
        return "what it retrieves comes with its answers, so it is asked all questions"
    if metric.name not in {one.name for one in study.metrics_of(cell)} or (
        not cell.reads_ranking and is_of_rankings(metric)
    ):
        return f"{metric.name} does not measure it"
    return None


def is_of_rankings(metric: Metric) -> bool:
    return not isinstance(metric, JudgedScores) and metric.reads <= OF_RANKING


class Rung(NamedTuple):
    """One rung: the study that it is, and the cell of the whole that each of its cells stands for."""

    study: Study
    stands_for: dict[str, list[str]]


def rung_of(
    study: Study, number: int, cells: Sequence[Cell], questions: Sequence[str], metric: Metric
) -> Rung:
    """Return a rung: a slice that measures only the racing metric, without answers if that reads rankings."""
    only: dict[str, Any] = {"metrics": (metric.name,), "rubrics": {}, "judges": {}, "judge_cards": {}}
    stands_for: dict[str, list[str]] = {}
    if isinstance(metric, JudgedScores):
        only["judges"] = {metric.judge: study.judges[metric.judge]}
    for cell in cells:
        name = f"{cell.ranking.partition('.')[2]}.{NO_GENERATOR}" if is_of_rankings(metric) else cell.short
        stands_for.setdefault(name, []).append(cell.short)
    if is_of_rankings(metric):
        only["generators"] = {}
    n_cells, n_questions = len(stands_for), len(questions)
    part = Slice(
        *(study.whole, frozenset(stands_for), frozenset(questions)),
        *(n_cells, len(study.cells()), n_questions, n_questions),
    )
    name = f"{study.study}{MARK}rung{number}"
    return Rung(study.model_copy(update=only).sliced(name, part), stands_for)


def one_factor(cells: Sequence[Cell], base: str | None = None) -> list[Cell]:
    """Return the base cell and those that differ from it on at most one axis, in their order.

    With n(1) … n(4) names on the axes that is 1 + sum of (n(i) - 1) cells in place of their product. What two
    axes do together is not in it: a name that is good only beside another one is missed, and no interaction
    can be estimated. Cells that read no ranking are of no chunking, embedder or retriever: they differ from
    the base by their generator alone.

    >>> cells = [Cell("s", t, "e", r, "g") for t in ("t1", "t2") for r in ("r1", "r2")]
    >>> [one.short for one in one_factor(cells)]
    ['t1.e.r1.g', 't1.e.r2.g', 't2.e.r1.g']
    """
    if not cells:
        return []
    first = next((one for one in cells if one.has_axes), cells[0])
    origin = next((one for one in cells if one.short == base), first)
    return [one for one in cells if not one.has_axes or sum(map(ne, one.axes, origin.axes)) <= 1]


def combinations(cells: Sequence[Cell]) -> int:
    several = sum(
        len(set(names)) > 1 for names in zip(*(one.axes for one in cells if one.has_axes), strict=True)
    )
    return several * (several - 1) // 2


def stays(costs: Sequence[float], blocks: Sequence[int], spent: float, cap: float) -> int:
    """Return how many cells may stay after a rung, so that halving after every later one keeps to a cap.

    Cells are dropped for the budget's sake as late as can be: with a cells left, the rungs that remain ask a,
    a / 2, a / 4 … cells. One cell always stays, whatever it costs.

    >>> stays([1.0] * 8, [10, 20], spent=80, cap=200)  # 6 x 10 + 3 x 20 = 120
    6
    >>> stays([1.0] * 8, [20], spent=80, cap=120)
    2
    """
    for count in range(len(costs), 1, -1):
        if spent + _ahead(costs, blocks, count) <= cap:
            return count
    return 1


def _ahead(costs: Sequence[float], blocks: Sequence[int], count: int) -> float:
    total = 0.0
    for questions in blocks:
        total += questions * sum(costs[:count])
        count = math.ceil(count / 2)
    return total


LEAST_CLUSTERS = 6
"""A rung with fewer can tell nothing apart: of k clusters the signs give no p below 2^(1 - k)."""


class StratifiedQuestion(NamedTuple):
    """A question as rungs are made of it: its cluster, and what it is one of (its set and type)."""

    question: str
    cluster: object
    stratum: object


def question_order(questions: Sequence[StratifiedQuestion], seed: int) -> list[list[str]]:
    """Return the clusters of questions in the order in which a race asks them.

    The clusters of each stratum are shuffled by the digest of the seed and their questions, and the i-th of m
    stands at (i + 1/2) / m: so each beginning of the order holds every stratum in about its share, and the
    samples are nested. A cluster is of the stratum of most of its questions.

    >>> questions = [StratifiedQuestion(f"{kind}{n}", f"{kind}{n}", kind) for kind in "ab" for n in range(2)]
    >>> order = [ids[0][0] for ids in question_order(questions, 7)]
    >>> sorted(order[:2]), sorted(order[2:])
    (['a', 'b'], ['a', 'b'])
    """
    clusters: dict[object, list[StratifiedQuestion]] = {}
    for one in questions:
        clusters.setdefault(one.cluster, []).append(one)
    strata: dict[str, list[list[str]]] = {}
    for held in clusters.values():
        kinds = [str(one.stratum) for one in held]
        most = max(dict.fromkeys(kinds), key=kinds.count)
        strata.setdefault(most, []).append([one.question for one in held])
    placed: list[tuple[float, str, list[str]]] = []
    for held_by in strata.values():
        shuffled = sorted(held_by, key=lambda ids: digest([seed, sorted(ids)]))
        placed += [
            ((n + 0.5) / len(shuffled), digest([seed, sorted(ids)]), ids) for n, ids in enumerate(shuffled)
        ]
    return [ids for _, _, ids in sorted(placed, key=lambda one: one[:2])]


def rungs(order: Sequence[Sequence[str]], first: int, growth: float) -> list[list[str]]:
    """Cut the order into blocks of questions: what each rung asks beside those before it.

    The k-th rung has first * growth^k questions in all, and never half of a cluster. There is a further one
    only while at least half as many questions remain as were asked, and as many as the first rung has: a look
    that can spare little costs those before it some of their level. So with few questions there is one.

    >>> [len(block) for block in rungs([[str(n)] for n in range(100)], 12, 2.0)]
    [12, 12, 24, 52]
    >>> [len(block) for block in rungs([[str(n)] for n in range(20)], 12, 2.0)]
    [20]
    """
    total = sum(map(len, order))
    end = first
    blocks: list[list[str]] = [[]]
    asked = clusters = 0
    for ids in order:
        if asked >= end and clusters >= LEAST_CLUSTERS and total - asked >= max(first, asked / 2):
            end = math.ceil(max(end, asked) * growth)
            blocks.append([])
        blocks[-1] += ids
        asked, clusters = asked + len(ids), clusters + 1
    return [block for block in blocks if block]


def in_words(blocks: Sequence[Sequence[str]]) -> str:
    ends = [sum(map(len, blocks[: n + 1])) for n in range(len(blocks))]
    listed = ", ".join(map(str, ends[:-1]))
    return f"{listed} and {ends[-1]} questions" if listed else f"{ends[-1]} questions"


def strata_of(questions: Sequence[Mapping[str, object]]) -> list[object]:
    return [f"{one['question_set']}/{one['type']}" for one in questions]
