"""Generated conversations (place `demo`), which show the pages before the first user asks.

Questions are the study's own, answers, passages and seconds those that were measured. Who asked when, and
what they thought of it, is drawn at random: a thumb up is likelier where the answer's score is high.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import duckdb
import polars as pl

from rag_assay.evals.study.study import Study
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.connection import connect
from rag_assay.warehouse.conversations import AnswerFeedback, Begun, Conversations, ShownPassage, Turn
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import Status
from rag_assay.warehouse.tables import on_whole_database

PLACE = "demo"
WEEKS = 6  # up to today
CELLS = 3  # that answer
PASSAGES = 5  # of an answer
_PREFIX = "demo-"
_SEED = 15
_PEOPLE = ("Demo: Ada", "Demo: Blaise", "Demo: Carla", "Demo: Dmitri", "")
_HOURS = (7, 8, 8, 9, 9, 9, 10, 10, 10, 11, 11, 12, 13, 14, 14, 14, 15, 15, 16, 17, 20)
_COMMENTS = {
    1: ("Exactly what I was looking for.", "Good, and the source is right.", "Short and correct."),
    -1: ("The answer is in another document.", "Too short to be of use.", "That is not what I asked."),
}
_OF_ANSWER = (
    "status",
    "reason",
    "answer",
    "model",
    "confidence",
    "prompt_tokens",
    "completion_tokens",
    "usd",
)
_OF_HIT = ("chunk_id", "doc_id", "start", "end")
_RATED = 0.35  # of the answers
_TOLD = 0.3  # of those, with a sentence

Row = dict[str, Any]


@dataclass(frozen=True)
class _Measured:
    """What the grid has of some cells.

    answers: (cell, question) -> its row of the answers, with `search_seconds`
    hits: (cell, question) -> what was found, best first
    scores: (cell, question) -> value of the first metric
    documents: id -> title, URL, text and day
    """

    cells: Sequence[str]
    questions: Mapping[str, Row]
    answers: Mapping[tuple[str, str], Row]
    hits: Mapping[tuple[str, str], Sequence[Row]]
    scores: Mapping[tuple[str, str], float]
    documents: Mapping[str, Row]


def write_demo(study: Study, home: Home, now: datetime) -> int:
    """Write the demo conversations of a study in place of those that are there; return how many answers."""
    measured = _measured(study, home)
    forget_demo(home, study.study)
    there, answers = Conversations(home), 0
    for name, records in _conversations(study.study, measured, now):
        there.append(study.study, name, records)
        answers += sum(isinstance(record, Turn) for record in records)
    return answers


def forget_demo(home: Home, study: str | None = None) -> int:
    """Delete the demo conversations of a study, or of all; return how many there were."""
    there, gone = Conversations(home), 0
    for of, name in there.stamps():
        if name.startswith(_PREFIX) and study in {None, of}:
            found = there.read(of, name)
            if found is not None and found.begun.place == PLACE:
                gone += there.delete(of, name)
    return gone


def _conversations(
    study: str, measured: _Measured, now: datetime
) -> Iterator[tuple[str, list[Begun | Turn | AnswerFeedback]]]:
    chance = random.Random(f"{_SEED} {study}")  # noqa: S311 -- nothing is to be kept from anybody
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    asked = sorted(measured.questions)
    for day in range(7 * WEEKS - 1, -1, -1):
        date = today - timedelta(days=day)
        weekend = date.weekday() >= 5
        for number in range(chance.randint(0, 1) if weekend else chance.randint(2, 6)):
            name = _PREFIX + digest([study, day, number])[:12]
            at = date + timedelta(hours=chance.choice(_HOURS), seconds=chance.randint(0, 3599))
            if at < now:
                yield name, _conversation(name, at, asked, measured, chance)


def _conversation(
    name: str, at: datetime, asked: Sequence[str], measured: _Measured, chance: random.Random
) -> list[Begun | Turn | AnswerFeedback]:
    person = chance.choice(_PEOPLE)
    records: list[Begun | Turn | AnswerFeedback] = [
        Begun(record_id=name, at=at, person=person, place=PLACE, title="Demo")
    ]
    cells = [cell for at, cell in enumerate(measured.cells) for _ in range(3 if at == 0 else 1)]
    for number in range(1, chance.randint(1, 4) + 1):
        cell = chance.choice(cells)
        known = [one for one in asked if (cell, one) in measured.answers]
        question = chance.choice(known)
        turn = _turn(f"{name}-{number}", number, at, (cell, question), measured)
        records.append(turn)
        if chance.random() < _RATED:
            records.append(_feedback(turn, measured.scores.get((cell, question)), chance))
        at += timedelta(seconds=chance.randint(30, 240))
    return records


def _turn(name: str, number: int, at: datetime, of: tuple[str, str], measured: _Measured) -> Turn:
    answer = measured.answers[of]
    cited = {one["chunk_id"] for one in answer["citations"] or () if one["chunk_id"]}
    passages = tuple(
        _passage(place, hit, hit["chunk_id"] in cited, measured.documents)
        for place, hit in enumerate(measured.hits.get(of, ())[:PASSAGES], 1)
    )
    search, seconds = answer["search_seconds"], answer["seconds"]
    return Turn(
        record_id=name,
        at=at,
        number=number,
        cell=of[0],
        question=measured.questions[of[1]]["question"],
        language=measured.questions[of[1]]["language"],
        passages=passages,
        **{name: answer[name] for name in _OF_ANSWER},
        cached=False,
        search_seconds=search,
        answer_seconds=seconds,
        seconds=None if search is None or seconds is None else search + seconds,
    )


def _passage(number: int, hit: Row, is_cited: bool, documents: Mapping[str, Row]) -> ShownPassage:
    document = documents.get(hit["doc_id"], {})
    return ShownPassage(
        number=number,
        **{name: hit[name] for name in _OF_HIT},
        text=(document.get("text") or "")[hit["start"] : hit["end"]],
        title=document.get("title"),
        url=document.get("url"),
        date=document.get("published_at"),
        score=hit["score"] or 0.0,
        cited=is_cited,
    )


def _feedback(turn: Turn, score: float | None, chance: random.Random) -> AnswerFeedback:
    good = turn.status is Status.OK and chance.random() < (0.3 + 0.6 * min(max(score or 0.0, 0.0), 1.0))
    thumbs: Literal[1, -1] = 1 if good else -1
    comment = f"Demo: {chance.choice(_COMMENTS[thumbs])}" if chance.random() < _TOLD else ""
    name, at = turn.record_id, turn.at + timedelta(seconds=chance.randint(5, 60))
    return AnswerFeedback(record_id=f"{name}-f", at=at, turn=name, thumbs=thumbs, comment=comment)


@on_whole_database
def _measured(study: Study, home: Home) -> _Measured:
    rankings = {cell.name: cell.ranking for cell in study.cells() if cell.reads_ranking}
    with connect(home.database) as connection:
        cells = _best(connection, study, list(rankings))
        answers = _rows(
            connection,
            "SELECT a.*, r.seconds AS search_seconds FROM current_answers a "
            "LEFT JOIN pointers p ON p.stage = 'rankings' AND p.key = ("
            "SELECT regexp_replace(a.cell, '\\.[^.]*$', '')) "
            "LEFT JOIN ranked r ON r.artifact_id = p.artifact_id AND r.question_id = a.question_id "
            "WHERE list_contains(?, a.cell) AND a.replicate = 1",
            [cells],
        )
        ranked = list({rankings[cell] for cell in cells if cell in rankings})
        found = _rows(
            connection,
            "SELECT * FROM current_hits WHERE list_contains(?, ranking) AND rank <= ? ORDER BY rank",
            [ranked, PASSAGES],
        )
        questions = _rows(
            connection,
            "SELECT DISTINCT question_id, question, language FROM questions "
            "WHERE list_contains(?, question_id)",
            [[row["question_id"] for row in answers]],
        )
        scores = _rows(
            connection,
            "SELECT cell, question_id, value FROM current_scores WHERE list_contains(?, cell) AND metric = ? "
            "AND value IS NOT NULL",
            [cells, study.metrics[0]],
        )
    if not answers:
        raise InputError(
            f"the study {study.study} has no answers to make demo conversations of; "
            f"run `assay run {study.path}`"
        )
    hits: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for cell in cells:
        for hit in (one for one in found if one["ranking"] == rankings.get(cell)):
            hits[cell, hit["question_id"]].append(hit)
    return _Measured(
        [cell for cell in cells if any(row["cell"] == cell for row in answers)],
        {row["question_id"]: row for row in questions},
        {(row["cell"], row["question_id"]): row for row in answers},
        hits,
        {(row["cell"], row["question_id"]): row["value"] for row in scores},
        _documents(study, home),
    )


def _best(connection: duckdb.DuckDBPyConnection, study: Study, cells: Sequence[str]) -> list[str]:
    rows = _rows(
        connection,
        "SELECT cell, generator FROM current_leaderboard "
        "WHERE study = ? AND metric = ? AND generator IS NOT NULL "
        "AND list_contains((SELECT list(DISTINCT cell) FROM current_answers), cell) "
        "ORDER BY rank NULLS LAST, cell",
        [study.study, study.metrics[0]],
    )
    first: dict[str, str] = {}
    for row in rows:
        if row["cell"] in cells or not cells:
            first.setdefault(row["generator"], row["cell"])
    others = [row["cell"] for row in rows if row["cell"] in cells]
    return list(dict.fromkeys([*first.values(), *others]))[:CELLS]


def _rows(connection: duckdb.DuckDBPyConnection, sql: str, values: list[Any]) -> list[Row]:
    return pl.DataFrame(connection.sql(sql, params=values)).to_dicts()


def _documents(study: Study, home: Home) -> dict[str, Row]:
    store = ArtifactStore(home)
    columns = ["doc_id", "title", "url", "text", "published_at"]
    return {
        row["doc_id"]: row
        for source in study.corpus.sources
        if (artifact := store.current("documents", source))
        for row in read_parquet(
            store.folder("documents", artifact.identity) / "documents.parquet", columns
        ).iter_rows(named=True)
    }
