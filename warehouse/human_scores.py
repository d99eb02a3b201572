"""Scores that people gave: append-only files, one an annotator and study, which DuckDB is filled from."""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from warehouse.annotation_schemas import HUMAN_SCORES
from warehouse.encodable import encodable
from warehouse.identity import digest
from warehouse.paths import Home

Standing = Literal["ok", "withdrawn", "skipped"]
_SAFE = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True)
class HumanScore:
    """One row of `annotation_schemas.HUMAN_SCORES`: what an annotator said of an item by one criterion, once.

    A row is never changed: a correction, and taking a score back, are later rows of the same
    `(study, annotator, item_id, rubric, criterion, showing, cell, question_id)`.

    status: `ok` with a value; `withdrawn`: an earlier row is taken back; `skipped`: the annotator cannot say
    cell, question_id: key of the one cell that the score is of; None: of all cells with this item
    seconds: how long the item was looked at before
    showing: 1: the first time that the item was shown, 2: a hidden repeat
    place: where the row is from: `page`, `FILE:LINE`
    """

    score_id: str
    study: str
    annotator: str
    item_id: str
    rubric: str
    rubric_version: str
    scored_at: datetime
    criterion: str | None = None
    value: float | None = None
    status: Standing = "ok"
    comment: str | None = None
    seconds: float | None = None
    showing: int = 1
    position: int | None = None
    queue_version: str | None = None
    cell: str | None = None
    question_id: str | None = None
    place: str = "page"


class HumanScores:
    """The scores of people: `<home>/annotations/<study>/scores/<annotator>.jsonl`, a JSON object a line."""

    def __init__(self, home: Home) -> None:
        self.root = home.root / "annotations"

    def folder(self, study: str) -> Path:
        """Return the folder of the files of a study."""
        return self.root / study / "scores"

    def path(self, study: str, annotator: str) -> Path:
        """Return the file of an annotator; names that differ in case or signs have files of their own."""
        plain = _SAFE.sub("-", annotator.casefold()).strip("-")[:40]
        return self.folder(study) / f"{plain}-{digest(annotator)[:8]}.jsonl"

    def append(self, scores: Iterable[HumanScore]) -> int:
        """Add rows that are not there yet (by `score_id`); return how many were added.

        They are on disk when it returns, all of an annotator's by one write.
        """
        by_file: dict[Path, list[HumanScore]] = {}
        for score in scores:
            by_file.setdefault(self.path(score.study, score.annotator), []).append(score)
        return sum(_append(path, found) for path, found in by_file.items())

    def rows(self, study: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield the rows of a study, or of all, with exactly the columns of `HUMAN_SCORES`."""
        for path in self._files(study):
            for record in _records(path):
                row = {column: record.get(column) for column in HUMAN_SCORES}
                yield {**row, "scored_at": datetime.fromisoformat(record["scored_at"])}

    def version(self, study: str) -> str:
        """Return a digest of all that people have said of a study."""
        return digest(
            [[path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in self._files(study)]
        )

    def _files(self, study: str | None) -> list[Path]:
        return sorted(self.root.glob(f"{study or '*'}/scores/*.jsonl"))


def _append(path: Path, scores: list[HumanScore]) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        known = {record["score_id"] for record in _records(path)}
        new = {one.score_id: one for one in scores if one.score_id not in known}
        lines = [json.dumps(_written(one), allow_nan=False) + "\n" for one in new.values()]
        file.write("".join(lines).encode("ascii"))
        file.flush()
        os.fsync(file.fileno())
    return len(new)


def _written(score: HumanScore) -> dict[str, Any]:
    row = asdict(score)
    texts = {name: encodable(value) for name, value in row.items() if isinstance(value, str)}
    return {**row, **texts, "scored_at": score.scored_at.astimezone(UTC).isoformat()}


def _records(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of a file; a line that a killed process has torn is none."""
    for line in path.read_bytes().splitlines():
        with suppress(ValueError):
            record = json.loads(line)
            if isinstance(record, dict) and "score_id" in record:
                yield record
