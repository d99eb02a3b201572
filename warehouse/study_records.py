"""What the last run of each study had: `<home>/current/<study>.json`, a file a study or slice."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rag_assay.warehouse.artifacts import Artifact, StillArtifacts
from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.connection import connect
from rag_assay.warehouse.remote import mirror_of

if TYPE_CHECKING:
    import duckdb

    from rag_assay.warehouse.paths import Home

log = logging.getLogger(__name__)
Keys = Mapping[str, Iterable[str]]
Pins = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class FinishedRun:
    """A result as it was run: stage -> key -> identity, and the study file's text."""

    artifacts: Pins
    text: str = ""


@dataclass(frozen=True)
class StudyRecord:
    """What is recorded of a study or slice; `path` is its file, empty where only single stages were built."""

    study: str
    path: str = ""
    keys: Mapping[str, list[str]] = field(default_factory=dict)
    finished: FinishedRun | None = None


def study_of(key: str) -> str:
    """Return the study, or slice, that a key of rankings or later stages belongs to.

    >>> study_of("demo~1a2b3c.tokens.minilm.bm25")
    'demo~1a2b3c'
    """
    return key.partition(".")[0]


def read_study_record(home: Home, study: str) -> StudyRecord | None:
    with suppress(OSError, ValueError, TypeError, AttributeError):
        found = json.loads(_path(home, study).read_bytes())
        if found.get("study") != study or not isinstance(found.get("keys", {}), dict):
            return None
        run = found.pop("finished", None)
        return StudyRecord(**found, finished=FinishedRun(**run) if run else None)
    return None


def write_study_record(home: Home, record: StudyRecord) -> None:
    if read_study_record(home, record.study) == record:
        return
    with atomic_write(_path(home, record.study)) as temporary:
        temporary.write_text(json.dumps(asdict(record)))
    if mirror := mirror_of(home):
        mirror.push("current")


def study_records(home: Home) -> list[StudyRecord]:
    names = sorted(path.stem for path in (home.root / "current").glob("*.json"))
    return [record for name in names if (record := read_study_record(home, name))]


def remove_study_record(home: Home, study: str) -> None:
    _path(home, study).unlink(missing_ok=True)
    if mirror := mirror_of(home):
        mirror.store.delete([f"current/{study}.json"])


def add_keys(home: Home, stage: str, keys: Iterable[str]) -> None:
    by_study: dict[str, list[str]] = {}
    for key in keys:
        by_study.setdefault(study_of(key), []).append(key)
    for study, mine in by_study.items():
        if record := read_study_record(home, study):
            known = record.keys.get(stage, [])
            if lacking := [key for key in mine if key not in set(known)]:
                write_study_record(home, replace(record, keys={**record.keys, stage: [*known, *lacking]}))


class PinnedArtifacts(StillArtifacts):
    """A cached store in which the keys of a finished run mean what they meant in that run."""

    def __init__(self, home: Home, pins: Pins) -> None:
        super().__init__(home)
        self.pins = pins

    def _look_up(self, stage: str, key: str) -> Artifact | None:
        identity = self.pins.get(stage, {}).get(key)
        return super()._look_up(stage, key) if identity is None else self.find(stage, identity)

    def are_of_now(self) -> bool:
        now = StillArtifacts(self.home)
        return all(
            (one := now.current(stage, key)) is not None and one.identity == identity
            for stage, named in self.pins.items()
            for key, identity in named.items()
        )

    @contextmanager
    def connect(self) -> Iterator[duckdb.DuckDBPyConnection]:
        with connect(self.home.database, notify=log.warning) as connection:
            if self.pins:
                rows = [(stage, *pin) for stage, pins in self.pins.items() for pin in pins.items()]
                # Views name `pointers` without a schema, and a temporary table of that name comes first.
                connection.execute(
                    "CREATE TEMP TABLE pointers (stage VARCHAR, key VARCHAR, artifact_id VARCHAR)"
                )
                columns = [list(column) for column in zip(*rows, strict=True)]
                connection.execute(
                    "INSERT INTO temp.pointers SELECT unnest(?), unnest(?), unnest(?)", columns
                )
            yield connection


def pinned_artifacts(home: Home, study: str) -> PinnedArtifacts:
    """Return the store of a finished run, or the current one if a leaderboard was built since then."""
    record = read_study_record(home, study)
    pins = record.finished.artifacts if record and record.finished else {}
    store = PinnedArtifacts(home, pins)
    board = StillArtifacts(home).current("leaderboard", study)
    pinned = pins.get("leaderboard", {}).get(study)
    return store if board is None or board.identity == pinned else PinnedArtifacts(home, {})


def _path(home: Home, study: str) -> Path:
    return home.root / "current" / f"{study}.json"
