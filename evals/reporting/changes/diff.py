"""What differs between two results: documents, answers with their causes, cells, and all else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from rag_assay.evals.reporting.changes import results
from rag_assay.evals.reporting.display import truncate
from rag_assay.evals.reporting.standings import value_table
from rag_assay.evals.statistics.question_clusters import ALONE, Clustering, clustering
from rag_assay.evals.statistics.resampling import Floats
from rag_assay.evals.statistics.significance import ALPHA, holm, paired_bootstrap, sign_flips
from rag_assay.evals.study.sections import ClustersBy
from rag_assay.warehouse import schemas
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.identity import sha256_text
from rag_assay.warehouse.schemas import QUESTIONS, Schema, Status


@dataclass(frozen=True)
class MatchedCells:
    """Cells without the studies' names; by_names: pairs of equal names, the others have equal recipes."""

    pairs: tuple[tuple[str, str], ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    by_names: int


def matched(
    before: results.HistoryEntry, after: results.HistoryEntry, old: Sequence[str], new: Sequence[str]
) -> MatchedCells:
    """Match cells by equal names, then the rest by equal recipes, one with one."""
    pairs = [(cell, cell) for cell in old if cell in set(new)]
    same = len(pairs)
    left = [cell for cell in old if cell not in set(new)]
    others = [cell for cell in new if cell not in set(old)]
    by_recipe: dict[tuple[str | None, ...], list[str]] = defaultdict(list)
    for cell in others:
        by_recipe[_recipes(after, cell)].append(cell)
    for cell in list(left):
        recipes = _recipes(before, cell)
        if None not in recipes and by_recipe.get(recipes):
            other = by_recipe[recipes].pop(0)
            pairs.append((cell, other))
            left.remove(cell)
            others.remove(other)
    return MatchedCells(tuple(pairs), tuple(left), tuple(others), same)


def _recipes(entry: results.HistoryEntry, cell: str) -> tuple[str | None, ...]:
    kinds = ("chunking", "embedder", "retriever", "generator")
    found = []
    for kind, name in zip(kinds, cell.split("."), strict=False):
        mine = entry.recipes.get(f"{kind}.{entry.study}.{name}") or entry.recipes.get(f"{kind}.{name}")
        found.append(name if name in {"none", "-"} else mine)
    return tuple(found)


_OF_HITS = ("question_id", "rank", "doc_id", "start", "end")
HITS: Schema = {"ranking": pl.String, **{name: schemas.HITS[name] for name in _OF_HITS}}
_TEXTS: Schema = dict.fromkeys(("question_id", "status", "answer"), pl.String)
ANSWERS: Schema = {"cell": pl.String, "replicate": pl.Int64, **_TEXTS}
SCORES: Schema = {"cell": pl.String, "metric": pl.String, "question_id": pl.String, "value": pl.Float64}


@dataclass(frozen=True, eq=False)
class Side:
    """A result; names of cells and rankings are without the study's. scores: means over the replicates.

    gone: what is no longer in the workspace, a phrase each
    """

    entry: results.HistoryEntry
    documents: results.DocumentSnapshot
    questions: pl.DataFrame
    hits: pl.DataFrame
    answers: pl.DataFrame
    scores: pl.DataFrame
    gone: tuple[str, ...]

    @property
    def cells(self) -> list[str]:
        return list(dict.fromkeys(cell_of(key)[0] for key in self.entry.artifacts.get("scores", {})))


def side_of(entry: results.HistoryEntry, store: ArtifactStore) -> Side:
    documents = results.snapshot(entry, store)
    questions = results.questions_of(entry, store)
    hits, no_hits = _read("rankings", "hits", entry, store, HITS)
    answers, no_answers = _read("answers", "answers", entry, store, ANSWERS)
    scores, no_scores = _read("scores", "scores", entry, store, {**SCORES, "status": pl.String})
    gone = [f"the documents of {name}" for name in documents.gone]
    gone += ["the questions"] if questions is None else []
    for what, names in (("rankings", no_hits), ("answers", no_answers), ("scores", no_scores)):
        others = f" and {len(names) - 1} others" if names[1:] else ""
        gone += [f"the {what} of {names[0]}{others}"] if names else []
    good = scores.filter(pl.col("status") == Status.OK).drop_nulls("value")
    means = good.group_by("cell", "metric", "question_id").agg(pl.col("value").mean())
    empty = pl.DataFrame(schema=QUESTIONS)
    return Side(
        entry, documents, empty if questions is None else questions, hits, answers, means, tuple(gone)
    )


def cell_of(key: str) -> tuple[str, int]:
    """Split a key of answers into the cell without its study, and the replicate.

    >>> cell_of("s.t.e.r.g.2"), cell_of("s.t.e.r.g")
    (('t.e.r.g', 2), ('t.e.r.g', 1))
    """
    parts = key.split(".")
    return ".".join(parts[1:5]), int(parts[5]) if len(parts) > 5 else 1


def _read(
    stage: str, file: str, entry: results.HistoryEntry, store: ArtifactStore, schema: Schema
) -> tuple[pl.DataFrame, list[str]]:
    frames, gone = [pl.DataFrame(schema=schema)], []
    for key, identity in entry.artifacts.get(stage, {}).items():
        columns = [name for name in schema if name not in _OURS]
        found = results.read_stored(store, stage, identity, file, columns)
        if found is None:
            gone.append(key)
            continue
        cell, replicate = cell_of(key)
        ours = {"cell": cell, "replicate": replicate, "ranking": ".".join(key.split(".")[1:])}
        named = {name: pl.lit(value) for name, value in ours.items() if name in schema}
        frames.append(found.with_columns(**named).select(list(schema)).cast(schema))  # type: ignore[arg-type]
    return pl.concat(frames), gone


_OURS = frozenset({"cell", "replicate", "ranking"})


def _renamed(rows: pl.DataFrame, column: str, names: Iterable[tuple[str, str]]) -> pl.DataFrame:
    known = pl.DataFrame(list(names), schema={column: pl.String, "other": pl.String}, orient="row")
    return rows.join(known, on=column).drop(column).rename({"other": column})


LONGEST = 400  # characters of a passage
_OF = ["ranking", "question_id"]
_IS = [*_OF, "doc", "words"]


def passage_changes(
    before: Side, after: Side, rankings: Mapping[str, str], documents: Sequence[results.DocumentChange]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the questions of each ranking whose passages or their order differ, and those passages.

    A passage is its text in its document, wherever it stands. rankings: of the first result -> of the second

    Returns:
        ranking (of the second), question_id, left and entered (how many passages), causes (ids of changed
        documents), effects (`left`, `entered` or `changed`, one a cause)
        ranking, question_id, rank, doc, how (`left` or `entered`), text
    """
    moved = {one.before: one.doc_id for one in documents if one.change is results.Change.MOVED}
    hits = _renamed(before.hits, "ranking", rankings.items())
    old = _named(hits, _texts(before), moved)
    new = _named(after.hits.filter(pl.col("ranking").is_in(list(rankings.values()))), _texts(after), {})
    both = old.select(_OF).unique().join(new.select(_OF).unique(), on=_OF, how="full", coalesce=True)
    for one, name in ((old, "old"), (new, "new")):
        listed = pl.concat_str("doc", "words", separator=" ").alias(name)
        both = both.join(one.sort("rank").group_by(_OF).agg(listed), on=_OF, how="left")
    found = both.filter(pl.col("old").ne_missing(pl.col("new"))).select(_OF)
    apart = {
        "left": old.join(new, on=_IS, how="anti").unique(_IS),
        "entered": new.join(old, on=_IS, how="anti").unique(_IS),
    }
    for how, one in apart.items():
        found = found.join(one.group_by(_OF).len(how), on=_OF, how="left")
    passages = pl.concat(
        [one.select(*_OF, "rank", "doc", "text").with_columns(how=pl.lit(how)) for how, one in apart.items()]
    )
    causes = _causes(passages, {one.doc_id for one in documents})
    found = found.join(causes, on=_OF, how="left").with_columns(
        pl.col("left", "entered").fill_null(0).cast(pl.Int64),
        pl.col("causes", "effects").fill_null(pl.lit([], pl.List(pl.String))),
    )
    order = passages.sort(*_OF, "how", "rank", descending=[False, False, True, False])
    return found.sort(_OF), order


def _texts(side: Side) -> dict[str, str]:
    return dict(side.documents.documents.select("doc_id", "text").iter_rows())


def _named(hits: pl.DataFrame, texts: Mapping[str, str], moved: Mapping[str, str]) -> pl.DataFrame:
    spans = hits.select("doc_id", "start", "end").unique()
    found = [texts[doc][start:end] if doc in texts else None for doc, start, end in spans.iter_rows()]
    words = [
        f"{start}–{end}" if text is None else sha256_text(text)[:20]
        for text, start, end in zip(found, spans["start"], spans["end"], strict=True)
    ]
    known = spans.with_columns(
        pl.Series("words", words, pl.String),
        pl.Series("text", [None if text is None else truncate(text, LONGEST) for text in found], pl.String),
    )
    named = hits.join(known, on=["doc_id", "start", "end"])
    return named.with_columns(pl.col("doc_id").replace(dict(moved)).alias("doc"))


def _causes(passages: pl.DataFrame, changed: set[str]) -> pl.DataFrame:
    how = pl.col("how")
    effect = pl.when(how.n_unique() > 1).then(pl.lit("changed")).otherwise(how.first())
    of_changed = passages.filter(pl.col("doc").is_in(list(changed))).group_by(*_OF, "doc")
    ordered = of_changed.agg(effect.alias("effects")).sort(*_OF, "doc")
    return ordered.group_by(_OF, maintain_order=True).agg(pl.col("doc").alias("causes"), "effects")


SECONDS = "s"
"""The unit of metrics that are measured again in each run: a difference does not show what changed."""


@dataclass(frozen=True)
class Move:
    """A cell by a metric on the questions of both results: means, and the difference with 95 % interval.

    p: the larger of paired bootstrap and paired permutation test, each adjusted (Holm) for the cells
    """

    cell: str
    metric: str
    before: float
    after: float
    difference: float
    low: float | None
    high: float | None
    p: float
    questions: int

    @property
    def is_significant(self) -> bool:
        return self.p < ALPHA


def moves(before: Side, after: Side, cells: MatchedCells, same: Collection[str]) -> list[Move]:
    """Compare matched cells by each common metric except times; same: questions that both sides ask alike."""
    known = {one.name for one in before.entry.metrics}
    metrics = [one for one in after.entry.metrics if one.name in known and one.unit != SECONDS]
    old = _renamed(before.scores, "cell", cells.pairs).rename({"value": "old"})
    both = after.scores.join(old, on=["cell", "metric", "question_id"])
    both = both.filter(pl.col("question_id").is_in(list(same)))
    by: ClustersBy = after.entry.clusters
    drawn = clustering(after.questions, by) if len(after.questions) else ALONE
    return [
        one
        for metric in metrics
        for one in _moved(both.filter(pl.col("metric") == metric.name), metric, after.entry.seed, drawn)
    ]


def _moved(rows: pl.DataFrame, metric: results.MetricFacts, seed: int, drawn: Clustering) -> list[Move]:
    if rows.is_empty():
        return []
    cells = rows["cell"].unique().sort().to_list()
    questions = rows["question_id"].unique().sort().to_list()
    old, new = (value_table(rows, questions, cells, name) for name in ("old", "value"))
    apart = new - old
    differs = np.flatnonzero((np.abs(np.nan_to_num(apart)) > 0).any(axis=0))
    p, low, high = np.ones(len(cells)), np.zeros(len(cells)), np.zeros(len(cells))
    if len(differs):
        codes = drawn.codes(questions)
        binary = bool(np.isin(np.nan_to_num(np.stack([old, new])), (0.0, 1.0)).all())
        found = paired_bootstrap(apart[:, differs], seed, clusters=codes, binary=binary)
        flipped = sign_flips(apart[:, differs], seed, clusters=codes)
        p = np.maximum(_adjusted(found.p, differs, len(cells)), _adjusted(flipped, differs, len(cells)))
        low[differs], high[differs] = found.low, found.high
    means = [np.nanmean(one, axis=0).tolist() for one in (old, new, apart)]
    ends = [[value if np.isfinite(value) else None for value in one.tolist()] for one in (low, high)]
    n = (~np.isnan(apart)).sum(axis=0).tolist()
    return [
        Move(cell, metric.name, *own) for cell, *own in zip(cells, *means, *ends, p.tolist(), n, strict=True)
    ]


def _adjusted(p: Floats, at: np.ndarray, cells: int) -> Floats:
    whole = np.ones(cells)
    whole[at] = np.where(np.isnan(p), 1.0, p)
    return holm(whole)


_ANSWER = ["cell", "replicate", "question_id"]


@dataclass(frozen=True)
class Hanging:
    """How many changed rankings and answers depend on a changed document, and of which questions."""

    rankings: int = 0
    answers: int = 0
    questions: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Diff:
    """What differs between two results; cells are named as in the second one, without the study.

    rankings: as `passage_changes`, of the questions that both sides have
    answers: cell, replicate, question_id, question, old_status, old, new_status, new; left, entered, causes,
        effects (of its ranking; NULL where none is read)
    compared: answers on both sides
    passages: as `passage_changes`, those of the answers that differ
    """

    before: results.HistoryEntry
    after: results.HistoryEntry
    gone: tuple[str, ...]
    documents: tuple[results.DocumentChange, ...]
    hanging: Mapping[str, Hanging]
    parts: results.PartChanges
    cells: MatchedCells
    moves: tuple[Move, ...]
    rankings: pl.DataFrame
    answers: pl.DataFrame
    compared: int
    passages: pl.DataFrame

    @property
    def moved(self) -> tuple[Move, ...]:
        return tuple(one for one in self.moves if one.is_significant)


def diff(before: results.HistoryEntry, after: results.HistoryEntry, store: ArtifactStore) -> Diff:
    old, new = side_of(before, store), side_of(after, store)
    cells = matched(before, after, old.cells, new.cells)
    documents = results.document_changes(old.documents, new.documents)
    pairs = {one.rpartition(".")[0]: other.rpartition(".")[0] for one, other in cells.pairs}
    rankings, passages = passage_changes(old, new, pairs, documents)
    same = _same(old, new)
    rankings = rankings.filter(pl.col("question_id").is_in(same))
    answers, compared = _answers(old, new, cells, rankings, same)
    gone = [f"{one} of {side.entry.name}" for side in (old, new) for one in side.gone]
    return Diff(
        before,
        after,
        tuple(gone),
        tuple(documents),
        _hanging(documents, rankings, answers),
        results.part_changes(before, after, store),
        cells,
        tuple(moves(old, new, cells, same)),
        rankings,
        answers,
        compared,
        passages.join(answers.select(_ranking(), "question_id"), on=["ranking", "question_id"], how="semi"),
    )


def _same(old: Side, new: Side) -> list[str]:
    if not len(old.questions) or not len(new.questions):
        return sorted({*old.scores["question_id"]} & {*new.scores["question_id"]})
    before, after = results.question_contents(old.questions), results.question_contents(new.questions)
    return sorted(name for name in before.keys() & after.keys() if before[name] == after[name])


def _answers(
    old: Side, new: Side, cells: MatchedCells, rankings: pl.DataFrame, same: list[str]
) -> tuple[pl.DataFrame, int]:
    before = _renamed(old.answers, "cell", cells.pairs).rename({"status": "old_status", "answer": "old"})
    both = new.answers.rename({"status": "new_status", "answer": "new"}).join(before, on=_ANSWER)
    both = both.filter(pl.col("question_id").is_in(same))
    said = pl.col("old").ne_missing(pl.col("new"))
    ended = pl.col("old_status").ne_missing(pl.col("new_status"))
    found = both.filter(said | ended).with_columns(_ranking())
    found = found.join(rankings, on=["ranking", "question_id"], how="left").drop("ranking")
    words = new.questions.select("question_id", "question").unique("question_id")
    return found.join(words, on="question_id", how="left").sort(_ANSWER), len(both)


def _ranking() -> pl.Expr:
    return pl.col("cell").str.split(".").list.head(3).list.join(".").alias("ranking")


def _hanging(
    documents: list[results.DocumentChange], rankings: pl.DataFrame, answers: pl.DataFrame
) -> dict[str, Hanging]:
    found = []
    for rows in (rankings, answers):
        exploded = rows.select("question_id", "causes").explode("causes").drop_nulls("causes")
        grouped = exploded.group_by("causes").agg(pl.len(), pl.col("question_id").unique().sort())
        found.append({doc: (n, tuple(questions)) for doc, n, questions in grouped.iter_rows()})
    hanging = {}
    for doc in (one.doc_id for one in documents):
        (n, questions), (said, _) = (of.get(doc, (0, ())) for of in found)
        hanging[doc] = Hanging(n, said, questions)
    return hanging
