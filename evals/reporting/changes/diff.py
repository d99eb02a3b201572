"""What differs between two results: documents, answers with what caused them, cells, and all else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from rag_assay.evals.reporting.changes.cell_matching import MatchedCells, matched
from rag_assay.evals.reporting.changes.documents import DocumentChange, document_changes
from rag_assay.evals.reporting.changes.entry import HistoryEntry
from rag_assay.evals.reporting.changes.parts import PartChanges, part_changes, question_contents
from rag_assay.evals.reporting.changes.passages import passage_changes
from rag_assay.evals.reporting.changes.rank_changes import Move, moves
from rag_assay.evals.reporting.changes.sides import Side, side_of
from rag_assay.warehouse.artifacts import ArtifactStore

_ANSWER = ["cell", "replicate", "question_id"]


@dataclass(frozen=True)
class Hanging:
    """How many changed rankings and answers have passages that a changed document left, entered or changed.

    questions: the questions whose rankings those are
    """

    rankings: int = 0
    answers: int = 0
    questions: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Diff:
    """What differs between two results; cells are named as in the second one, without the study.

    documents: each with what hangs on it, by its id
    rankings: as `passages.passage_changes`, of the questions that both sides have
    answers: cell, replicate, question_id, question, old_status, old, new_status, new; left, entered, causes,
        effects (those of the ranking that it was given; NULL where none is read)
    compared: how many answers there were on both sides
    passages: as `passages.passage_changes`, those of the answers that differ
    """

    before: HistoryEntry
    after: HistoryEntry
    gone: tuple[str, ...]
    documents: tuple[DocumentChange, ...]
    hanging: Mapping[str, Hanging]
    parts: PartChanges
    cells: MatchedCells
    moves: tuple[Move, ...]
    rankings: pl.DataFrame
    answers: pl.DataFrame
    compared: int
    passages: pl.DataFrame

    @property
    def moved(self) -> tuple[Move, ...]:
        """The moves that are significant, those of the first metrics first."""
        return tuple(one for one in self.moves if one.is_significant)


def diff(before: HistoryEntry, after: HistoryEntry, store: ArtifactStore) -> Diff:
    """Compare two results."""
    old, new = side_of(before, store), side_of(after, store)
    cells = matched(before, after, old.cells, new.cells)
    documents = document_changes(old.documents, new.documents)
    rankings, passages = passage_changes(old, new, _rankings(cells), documents)
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
        part_changes(before, after, store),
        cells,
        tuple(moves(old, new, cells, same)),
        rankings,
        answers,
        compared,
        passages.join(answers.select(_ranking(), "question_id"), on=["ranking", "question_id"], how="semi"),
    )


def _rankings(cells: MatchedCells) -> dict[str, str]:
    """Return the ranking of each matched cell of the first result -> that of its like in the second."""
    return {before.rpartition(".")[0]: after.rpartition(".")[0] for before, after in cells.pairs}


def _same(old: Side, new: Side) -> list[str]:
    """Return the questions that both sides ask alike."""
    if not len(old.questions) or not len(new.questions):
        return sorted({*old.scores["question_id"]} & {*new.scores["question_id"]})
    before, after = question_contents(old.questions), question_contents(new.questions)
    return sorted(name for name in before.keys() & after.keys() if before[name] == after[name])


def _answers(
    old: Side, new: Side, cells: MatchedCells, rankings: pl.DataFrame, same: list[str]
) -> tuple[pl.DataFrame, int]:
    """Return the answers that differ, with what differs of their passages, and how many were compared."""
    pairs = pl.DataFrame(
        {"cell": [a for a, _ in cells.pairs], "other": [b for _, b in cells.pairs]},
        schema={"cell": pl.String, "other": pl.String},
    )
    before = old.answers.join(pairs, on="cell").drop("cell")
    before = before.rename({"other": "cell", "status": "old_status", "answer": "old"})
    both = new.answers.rename({"status": "new_status", "answer": "new"}).join(before, on=_ANSWER)
    both = both.filter(pl.col("question_id").is_in(same))
    said = pl.col("old").ne_missing(pl.col("new"))
    ended = pl.col("old_status").ne_missing(pl.col("new_status"))
    found = both.filter(said | ended).with_columns(_ranking())
    found = found.join(rankings, on=["ranking", "question_id"], how="left").drop("ranking")
    words = new.questions.select("question_id", "question").unique("question_id")
    return found.join(words, on="question_id", how="left").sort(_ANSWER), len(both)


def _ranking() -> pl.Expr:
    """Return the ranking of a column of cells."""
    return pl.col("cell").str.split(".").list.head(3).list.join(".").alias("ranking")


def _hanging(
    documents: list[DocumentChange], rankings: pl.DataFrame, answers: pl.DataFrame
) -> dict[str, Hanging]:
    """Return for each changed document what hangs on it."""
    of_rankings = rankings.select("question_id", "causes").explode("causes").drop_nulls("causes")
    of_answers = answers.select("question_id", "causes").explode("causes").drop_nulls("causes")
    n_rankings = dict(of_rankings.group_by("causes").len().iter_rows())
    n_answers = dict(of_answers.group_by("causes").len().iter_rows())
    questions = dict(of_rankings.group_by("causes").agg(pl.col("question_id").unique().sort()).iter_rows())
    return {
        one.doc_id: Hanging(
            n_rankings.get(one.doc_id, 0),
            n_answers.get(one.doc_id, 0),
            tuple(questions.get(one.doc_id, ())),
        )
        for one in documents
    }
