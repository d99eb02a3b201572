"""Results that a study had: history lines, how they are chosen, and what differs between two."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

import polars as pl
import yaml

from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.errors import CorruptFileError, InputError
from rag_assay.warehouse.history import Record, history_records, history_studies
from rag_assay.warehouse.parquet import conform_rows, read_parquet
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import QUESTIONS


@dataclass(frozen=True)
class CellValue:
    """A cell by the primary metric; tied: with the leader, which is tied, too, or within the margin."""

    cell: str
    value: float | None
    low: float | None
    high: float | None
    rank: int | None
    tied: bool
    within_margin: bool

    @property
    def standing(self) -> str:
        if self.within_margin:
            return "within the margin"
        return "tied with it" if self.tied else "significantly worse"


@dataclass(frozen=True)
class MetricFacts:
    """A metric as it was then."""

    name: str
    title: str
    higher_is_better: bool = True
    unit: str = ""


@dataclass(frozen=True)
class HistoryEntry:
    """A line of a study's history; number: among the results of the study, from 1.

    sources: name -> identity and data version of its documents, and their number
    questions: name of a question set -> data version
    recipes: name -> digest; written: name of a component -> its recipe as YAML
    code: stage -> code version; weights: model or library -> digest or version
    artifacts: stage -> key -> identity
    """

    study: str
    number: int
    id: str
    at: datetime
    leaderboard: str
    metrics: tuple[MetricFacts, ...]
    cells: tuple[CellValue, ...]
    n_questions: int
    questions: Mapping[str, str]
    run: str = ""
    metric: str = ""
    leader: str | None = None
    documents: int = 0
    seed: int = 7
    clusters: str = "documents"
    sources: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    recipes: Mapping[str, str] = field(default_factory=dict)
    written: Mapping[str, str] = field(default_factory=dict)
    code: Mapping[str, str] = field(default_factory=dict)
    weights: Mapping[str, str] = field(default_factory=dict)
    artifacts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def tied(self) -> tuple[CellValue, ...]:
        found = [one for one in self.cells if one.tied]
        return tuple(sorted(found, key=lambda one: (one.cell != self.leader, one.rank or 0, one.cell)))

    @property
    def within_margin(self) -> tuple[CellValue, ...]:
        return tuple(one for one in self.tied if one.within_margin)

    @property
    def near(self) -> dict[str, int]:
        """How many other cells are tied with the leader, and how many are within the margin."""
        within = len(self.within_margin)
        return {"tied": max(0, len(self.tied) - 1 - within), "within the margin": within}

    @property
    def leading(self) -> CellValue | None:
        return next((one for one in self.cells if one.cell == self.leader), None)

    @property
    def name(self) -> str:
        return f"{self.study}@{self.at:%Y-%m-%dT%H:%M:%S}"

    @property
    def primary(self) -> MetricFacts:
        mine = (one for one in self.metrics if one.name == self.metric)
        return next(mine, MetricFacts(self.metric, self.metric))


def entries_of(home: Home, study: str) -> list[HistoryEntry]:
    return [entry_of(record, number) for number, record in enumerate(history_records(home, study), start=1)]


def entry_of(record: Record, number: int) -> HistoryEntry:
    """What earlier versions did not write is empty."""
    cells = tuple(
        CellValue(
            cell=str(one["cell"]),
            tied=one.get("tied") is True,
            within_margin=one.get("within_margin") is True,
            **{name: one.get(name) for name in ("value", "low", "high", "rank")},
        )
        for one in record.get("standing", ())
    )
    known = {one.name: record[one.name] for one in fields(HistoryEntry) if record.get(one.name) is not None}
    known |= {"number": number, "id": record["entry"], "at": datetime.fromisoformat(record["since"])}
    known |= {"n_questions": record.get("questions") or 0, "questions": record.get("sets", {})}
    metrics = tuple(MetricFacts(**one) for one in record.get("metrics", ()))
    return HistoryEntry(**known | {"metrics": metrics, "cells": cells})


_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
NameOf = Callable[[str], str]  # the name of the study of a name or path


def chosen(written: str, home: Home, name_of: NameOf) -> HistoryEntry:
    """Return a result: the last one, one so many results back, or that of a moment (a date: its end, UTC).

    Raises InputError where there is no such study or result.
    """
    name, when = _parted(written)
    found = history_of(name, home, name_of)
    if not when:
        return found[-1]
    if when.isdecimal():
        if int(when) >= len(found):
            raise InputError(
                f"{written}: {found[0].study} has had {len(found)} results; @{len(found) - 1} is its first"
            )
        return found[-1 - int(when)]
    moment = _moment(written, when)
    until = [one for one in found if one.at <= moment]
    if not until:
        study, at = found[0].study, f"{found[0].at:%Y-%m-%d %H:%M} UTC"
        first = f"its first is of {at} (`{study}@{len(found) - 1}`)"
        raise InputError(f"{written}: no result of {study} is that old; {first}")
    return until[-1]


def history_of(name: str, home: Home, name_of: NameOf) -> list[HistoryEntry]:
    """Return the results of a study, the oldest first; InputError: it has none."""
    study = name if name in history_studies(home) else name_of(name)
    found = entries_of(home, study)
    if not found:
        raise InputError(f"{study} has no history yet; `assay run {name}` begins one")
    return found


def _parted(written: str) -> tuple[str, str]:
    """
    >>> _parted("demo@2026-11-01"), _parted("demo")
    (('demo', '2026-11-01'), ('demo', ''))
    """
    if Path(written).is_file():
        return written, ""
    name, _, when = written.rpartition("@")
    return (name, when) if name else (written, "")


def _moment(written: str, when: str) -> datetime:
    try:
        moment = datetime.fromisoformat(when)
    except ValueError:
        what = "write a date as in 2026-11-01 or 2026-11-01T14:30 (UTC), or how many results back, as in @1"
        raise InputError(f"{written}: {when!r} is not a point in time; {what}") from None
    if _DAY.fullmatch(when):
        moment += timedelta(days=1) - timedelta(microseconds=1)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


COLUMNS = ("doc_id", "version", "source", "url", "title", "published_at", "text")


class Change(StrEnum):
    """MOVED: the same text at another address; FACTS: title, date or another fact, but not the text."""

    ADDED = "added"
    REMOVED = "removed"
    MOVED = "moved"
    TEXT = "text changed"
    FACTS = "facts changed"


@dataclass(frozen=True)
class DocumentChange:
    """doc_id: of the second result, of a removed one that of the first; before: previous id of a moved one
    note: which facts differ, or where it was
    """

    doc_id: str
    source: str
    url: str
    title: str
    change: Change
    note: str = ""
    before: str = ""


@dataclass(frozen=True, eq=False)
class DocumentSnapshot:
    """Documents with the columns `COLUMNS`; gone: sources whose documents are gone."""

    documents: pl.DataFrame
    gone: tuple[str, ...] = ()


def read_stored(
    store: ArtifactStore, stage: str, identity: str, file: str, columns: list[str] | None = None
) -> pl.DataFrame | None:
    """Return a file of a stored artifact; None: it is gone or damaged."""
    if store.find(stage, identity) is None:
        return None
    try:
        found = read_parquet(store.folder(stage, identity) / f"{file}.parquet", columns)
        return found.select(columns) if columns else found
    except CorruptFileError:
        return None


def snapshot(entry: HistoryEntry, store: ArtifactStore) -> DocumentSnapshot:
    columns = [name for name in COLUMNS if name != "source"]
    frames, gone = [pl.DataFrame(schema=dict.fromkeys(COLUMNS, pl.String))], []
    for source, facts in entry.sources.items():
        found = read_stored(store, "documents", str(facts.get("identity")), "documents", columns)
        if found is None:
            gone.append(source)
        else:
            frames.append(found.with_columns(source=pl.lit(source)).select(COLUMNS))
    return DocumentSnapshot(pl.concat(frames), tuple(gone))


def document_changes(before: DocumentSnapshot, after: DocumentSnapshot) -> list[DocumentChange]:
    """Return changes by source and address; a removed document with the text of an added one has moved."""
    gone = {*before.gone, *after.gone}
    kept = (one.documents.filter(~pl.col("source").is_in(gone)) for one in (before, after))
    rows = (one.iter_rows(named=True) for one in kept)
    old, new = ({(row["source"], row["doc_id"]): row for row in each} for each in rows)
    found = [
        _changed(old[key], row)
        for key, row in new.items()
        if key in old and old[key]["version"] != row["version"]
    ]
    removed = {key: row for key, row in old.items() if key not in new}
    added = {key: row for key, row in new.items() if key not in old}
    by_text: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in removed.values():
        by_text.setdefault((row["source"], row["text"]), []).append(row)
    for row in added.values():
        earlier = by_text.get((row["source"], row["text"]))
        if earlier and row["text"]:
            was = earlier.pop(0)
            del removed[was["source"], was["doc_id"]]
            found.append(_of(row, Change.MOVED, f"was at {was['url']}", was["doc_id"]))
        else:
            found.append(_of(row, Change.ADDED))
    found += [_of(row, Change.REMOVED) for row in removed.values()]
    return sorted(found, key=lambda one: (one.source, one.url or "", one.doc_id))


def _changed(old: dict[str, Any], new: dict[str, Any]) -> DocumentChange:
    if old["text"] != new["text"]:
        return _of(new, Change.TEXT)
    facts = [name for name in ("title", "published_at", "url") if old[name] != new[name]]
    notes = [f"{_LABELS[name]}: {old[name] or 'none'} → {new[name] or 'none'}" for name in facts]
    return _of(new, Change.FACTS, "; ".join(notes) or "sections, authors, keywords or metadata")


_LABELS = {"title": "title", "published_at": "date", "url": "address"}


def _of(row: dict[str, Any], change: Change, note: str = "", before: str = "") -> DocumentChange:
    return DocumentChange(
        row["doc_id"], row["source"], row["url"] or "", row["title"] or "", change, note, before
    )


_OF_STUDY = frozenset(
    ("source", "cleaning", "corpus", "chunking", "embedder", "retriever", "generator", "judge", "index")
)
"""Kinds of recipes that a person has written; what depends on them is not listed."""


@dataclass(frozen=True)
class Named:
    """Names that were added, removed or changed."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    @property
    def counts(self) -> str:
        """
        >>> Named(("a",), (), ("b", "c")).counts
        '+1 ~2'
        """
        parts = {"+": self.added, "−": self.removed, "~": self.changed}
        return " ".join(f"{sign}{len(names)}" for sign, names in parts.items() if names)


@dataclass(frozen=True)
class PartChanges:
    """What differs beside documents; code: stages, and the package, of another version.

    written: name of a component -> what of its recipe differs, as `bm25.k: 5 → 10; …`
    """

    questions: Named = Named()
    recipes: Named = Named()
    written: Mapping[str, str] = field(default_factory=dict)
    code: Named = Named()
    weights: Named = Named()
    other: tuple[str, ...] = ()

    @property
    def by_kind(self) -> dict[str, Named]:
        return {kind: getattr(self, kind) for kind in ("questions", "recipes", "code", "weights")}

    def __bool__(self) -> bool:
        return any((*self.by_kind.values(), self.other))


def compare_by_name(before: Mapping[str, Any], after: Mapping[str, Any]) -> Named:
    """Compare two mappings by their names.

    >>> compare_by_name({"a": 1, "b": 1}, {"b": 2, "c": 1})
    Named(added=('c',), removed=('a',), changed=('b',))
    """
    return Named(
        tuple(sorted(after.keys() - before.keys())),
        tuple(sorted(before.keys() - after.keys())),
        tuple(sorted(name for name in before.keys() & after.keys() if before[name] != after[name])),
    )


def part_changes(before: HistoryEntry, after: HistoryEntry, store: ArtifactStore) -> PartChanges:
    facts = {"seed": "seed", "clusters": "clusters", "metric that ranks": "metric"}
    pairs = {what: (getattr(before, name), getattr(after, name)) for what, name in facts.items()}
    other = [f"{what}: {old} → {new}" for what, (old, new) in pairs.items() if old != new]
    return PartChanges(
        _question_changes(before, after, store),
        compare_by_name(_recipes(before), _recipes(after)),
        _written(before, after),
        compare_by_name(before.code, after.code),
        compare_by_name(before.weights, after.weights),
        tuple(other),
    )


def _recipes(entry: HistoryEntry) -> dict[str, str]:
    found = {}
    for name, value in entry.recipes.items():
        kind, _, rest = name.partition(".")
        if kind in _OF_STUDY:
            found[f"{kind} {rest.removeprefix(entry.study + '.')}"] = value
    return found


def _written(before: HistoryEntry, after: HistoryEntry) -> dict[str, str]:
    found = {}
    for name in sorted(before.written.keys() & after.written.keys()):
        old, new = (dict(_flat(yaml.safe_load(one.written[name]))) for one in (before, after))
        lines = [
            f"{path}: {old.get(path, 'absent')} → {new.get(path, 'absent')}"
            for path in dict.fromkeys((*old, *new))
            if old.get(path) != new.get(path)
        ]
        if lines:
            found[name] = "; ".join(lines)
    return found


def _flat(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and text of every nested value.

    >>> list(_flat({"fuse": {"k": 10, "of": ["bm25", "dense"]}}))
    [('fuse.k', '10'), ('fuse.of.0', 'bm25'), ('fuse.of.1', 'dense')]
    """
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in items:
            yield from _flat(inner, f"{path}.{key}" if path else str(key))
    else:
        yield path, str(value)


def questions_of(entry: HistoryEntry, store: ArtifactStore) -> pl.DataFrame | None:
    """Return schemas.QUESTIONS; None where they are gone."""
    frames = [pl.DataFrame(schema=QUESTIONS)]
    for identity in entry.artifacts.get("questions", {}).values():
        found = read_stored(store, "questions", identity, "questions")
        if found is None:
            return None
        frames.append(conform_rows(found, QUESTIONS))
    return pl.concat(frames)


def _question_changes(before: HistoryEntry, after: HistoryEntry, store: ArtifactStore) -> Named:
    if before.questions == after.questions:
        return Named()
    old, new = questions_of(before, store), questions_of(after, store)
    if old is None or new is None:
        return compare_by_name(before.questions, after.questions)
    return compare_by_name(question_contents(old), question_contents(new))


def question_contents(questions: pl.DataFrame) -> dict[str, Any]:
    """Return id -> words, ground truth and wanted evidence: what makes a question another one."""
    quoted = pl.col("evidence").list.eval(
        pl.struct(pl.element().struct.field("url"), pl.element().struct.field("quote"))
    )
    columns = ["question_id", "question", "ground_truth", "answerable", "conversation", "asked_at"]
    rows = questions.select(*columns, quoted.alias("wanted")).iter_rows()
    return {row[0]: row[1:] for row in rows}
