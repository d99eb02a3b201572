"""One result that a study had: what its history says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rag_assay.warehouse.history import Record, history_records
from rag_assay.warehouse.paths import Home


@dataclass(frozen=True)
class CellValue:
    """A cell by the metric that ranks the cells, on the questions that the headline is about.

    tied: whether it is tied with the leader; the leader itself is
    """

    cell: str
    value: float | None
    low: float | None
    high: float | None
    rank: int | None
    tied: bool


@dataclass(frozen=True)
class MetricFacts:
    """What a reader must know of a metric, as it was then."""

    name: str
    title: str
    higher_is_better: bool = True
    unit: str = ""


@dataclass(frozen=True)
class HistoryEntry:
    """A line of a study's history.

    number: of the results of the study, from 1
    sources: name -> identity and data version of its documents, and how many there are
    questions: name of a question set -> data version
    recipes: name -> digest, of all parts; written: name of a part -> its recipe as YAML
    code: stage -> code version; weights: model or library -> digest or version
    artifacts: stage -> key -> identity of what the leaderboard was made of
    """

    study: str
    number: int
    id: str
    at: datetime
    leaderboard: str
    run: str
    metric: str
    metrics: tuple[MetricFacts, ...]
    leader: str | None
    cells: tuple[CellValue, ...]
    documents: int
    n_questions: int
    seed: int
    clusters: str
    sources: Mapping[str, Mapping[str, Any]]
    questions: Mapping[str, str]
    recipes: Mapping[str, str]
    written: Mapping[str, str]
    code: Mapping[str, str]
    weights: Mapping[str, str]
    artifacts: Mapping[str, Mapping[str, str]]

    @property
    def tied(self) -> tuple[CellValue, ...]:
        """The leader and the cells tied with it, the leader first."""
        found = [one for one in self.cells if one.tied]
        return tuple(sorted(found, key=lambda one: (one.cell != self.leader, one.rank or 0, one.cell)))

    @property
    def leading(self) -> CellValue | None:
        """The leader's value."""
        return next((one for one in self.cells if one.cell == self.leader), None)

    @property
    def name(self) -> str:
        """How a person names it: by its study and its moment, in UTC."""
        return f"{self.study}@{self.at:%Y-%m-%dT%H:%M:%S}"

    @property
    def primary(self) -> MetricFacts:
        """The metric that ranks the cells."""
        return next(
            (one for one in self.metrics if one.name == self.metric), MetricFacts(self.metric, self.metric)
        )


def entries_of(home: Home, study: str) -> list[HistoryEntry]:
    """Return the history of a study, the oldest result first."""
    return [entry_of(record, number) for number, record in enumerate(history_records(home, study), start=1)]


def entry_of(record: Record, number: int) -> HistoryEntry:
    """Return a line of the history; what earlier versions did not write is empty."""
    cells = tuple(
        CellValue(
            str(one["cell"]),
            one.get("value"),
            one.get("low"),
            one.get("high"),
            one.get("rank"),
            one.get("tied") is True,
        )
        for one in record.get("standing", ())
    )
    return HistoryEntry(
        study=record["study"],
        number=number,
        id=record["entry"],
        at=datetime.fromisoformat(record["since"]),
        leaderboard=record["leaderboard"],
        run=record.get("run") or "",
        metric=record.get("metric") or "",
        metrics=tuple(MetricFacts(**one) for one in record.get("metrics", ())),
        leader=record.get("leader"),
        cells=cells,
        documents=record.get("documents") or 0,
        n_questions=record.get("questions") or 0,
        seed=record.get("seed", 7),
        clusters=record.get("clusters", "documents"),
        **{
            name: record.get(name, {})
            for name in ("sources", "recipes", "written", "code", "weights", "artifacts")
        },
        questions=record.get("sets", {}),
    )
