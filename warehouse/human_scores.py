"""Scores that people gave: append-only files, one an annotator and study, which DuckDB is filled from."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rag_assay.warehouse.encodable import encodable
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.journal import append, read_lines
from rag_assay.warehouse.schemas import HUMAN_SCORES

if TYPE_CHECKING:
    from rag_assay.warehouse.paths import Home

LONGEST_NAME = 80  # characters


def annotator_name(text: str) -> str:
    r"""Return the name of an annotator in the one form in which it is kept.

    >>> annotator_name("  Zoe\u0308  Müller ")
    'Zoë Müller'
    """
    name = " ".join(unicodedata.normalize("NFC", text).split())
    if not name:
        raise InputError("an annotator has a name: it is empty")
    if len(name) > LONGEST_NAME:
        raise InputError(f"the name of an annotator has at most {LONGEST_NAME} characters, not {len(name)}")
    unseen = next((sign for sign in name if unicodedata.category(sign) in {"Cc", "Cf", "Cs", "Cn", "Co"}), "")
    if unseen:
        raise InputError(f"the name of an annotator has a character that cannot be seen: U+{ord(unseen):04X}")
    return name


Row = dict[str, Any]
STANDINGS = ("ok", "withdrawn", "skipped")
_DEFAULTS = {"status": "ok", "showing": 1, "place": "page"}
LARGEST = 1e300  # a NaN is no number either
MOST = 2**31  # showings and positions are far below
LONGEST = 80  # characters of a wrong value that a reason repeats


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_text(value: object) -> bool:
    return value is None or isinstance(value, str)


def _is_number(value: object) -> bool:
    # An integer of a thousand digits is none that a column can hold.
    return value is None or (
        isinstance(value, int | float) and not isinstance(value, bool) and -LARGEST < value < LARGEST
    )


def _is_count(value: object) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and 0 < value < MOST)


def _is_time(value: object) -> bool:
    return isinstance(value, str) and _time(value) is not None


_CHECKS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    **dict.fromkeys(("score_id", "annotator", "item_id", "rubric", "rubric_version"), (_is_name, "a text")),
    **dict.fromkeys(("criterion", "comment", "queue_version", "cell", "question_id"), (_is_text, "a text")),
    **dict.fromkeys(("study", "place"), (_is_text, "a text")),
    **dict.fromkeys(("value", "seconds"), (_is_number, "a number")),
    **dict.fromkeys(("showing", "position"), (_is_count, "a whole number from 1")),
    "scored_at": (_is_time, "a time (ISO 8601)"),
    "status": (lambda value: value in STANDINGS, f"one of {', '.join(STANDINGS)}"),
}


def why_not(record: Mapping[str, Any] | None) -> str | None:
    """Return why a line is no score; None: it is one.

    >>> why_not({"score_id": "a"})
    'its `annotator` is not a text: None'
    """
    if record is None:
        return "it is incomplete, or not a JSON object"
    for column, (is_right, wanted) in _CHECKS.items():
        value = record.get(column, "ok" if column == "status" else None)
        if not is_right(value):
            return f"its `{column}` is not {wanted}: {_shown(value)}"
    given, standing = record.get("value"), record.get("status", "ok")
    if (given is not None) != (standing == "ok"):
        return f"its status is {standing}, and its value {given}"
    return None


def _shown(value: object) -> str:
    with suppress(ValueError):  # an integer of thousands of digits has no text
        text = repr(value)
        return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
    return "a number that is too long"


def row_of(record: Mapping[str, Any], study: str) -> Row:
    row: Row = {column: record.get(column) for column in HUMAN_SCORES}
    for name, value in row.items():
        if isinstance(value, str):
            row[name] = encodable(value)
        elif name in {"value", "seconds"} and value is not None:
            row[name] = float(value)
    row["scored_at"] = _time(str(record["scored_at"]))
    row["study"] = study
    for name, default in _DEFAULTS.items():
        row[name] = row[name] or default
    return row


def _time(text: str) -> datetime | None:
    with suppress(ValueError, OverflowError):
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    return None


Standing = Literal["ok", "withdrawn", "skipped"]
LONGEST_TEXT = 100_000  # of a comment, and of all else
CHAT = "chat"
"""Where a row is from that was said of two cells side by side, in a conversation."""
_SAFE = re.compile(r"[^a-z0-9]+")
_STUDY = re.compile(r"[a-z0-9][a-z0-9_+-]{0,59}")  # as study files allow names


@dataclass(frozen=True)
class HumanScore:
    """One row of `schemas.HUMAN_SCORES`. A row is never changed: a correction, and taking a score back, are
    later rows that are equal in SAME.

    status: `withdrawn`: an earlier row is taken back; `skipped`: the annotator cannot say
    cell, question_id: key of the one cell that the score is of; None: of all cells with this item
    showing: 1: the first time that the item was shown, 2: a hidden repeat
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


class InvalidScore(NamedTuple):
    """A line that is no score: torn, or changed by hand."""

    place: str
    reason: str


class ScoreSnapshot(NamedTuple):
    """The records of a study at one time; ``sizes``: file -> bytes, ``digest``: of their contents."""

    sizes: dict[Path, int]
    digest: str


class Records(NamedTuple):
    """What the files of a study say: rows of `HUMAN_SCORES`, and lines that are not valid."""

    rows: list[Row]
    faults: list[InvalidScore]


class HumanScores:
    """The human ratings: `<home>/people/<study>/scores/<annotator>.jsonl`, a JSON object a line."""

    def __init__(self, home: Home) -> None:
        self.root = home.people

    def folder(self, study: str) -> Path:
        if not _STUDY.fullmatch(study):
            raise InputError(f"no study can be called {study[:80]!r}")
        return self.root / study / "scores"

    def path(self, study: str, annotator: str) -> Path:
        plain = _SAFE.sub("-", annotator.casefold()).strip("-")[:40]
        return self.folder(study) / f"{plain or 'annotator'}-{digest(annotator)[:12]}.jsonl"

    def studies(self) -> list[str]:
        found = {path.parent.parent.name for path in self.root.glob("*/scores/*.jsonl")}
        return sorted(name for name in found if _STUDY.fullmatch(name))

    def append(self, scores: Iterable[HumanScore]) -> int:
        """Return how many rows were new, by `score_id`; all of an annotator's are one write."""
        by_file: dict[Path, list[Row]] = {}
        for score in scores:
            if annotator_name(score.annotator) != score.annotator:
                raise InputError(f"the annotator {score.annotator!r} is to be named as annotator_name() says")
            written = _written(score)
            reason = why_not(written) or _too_long(written)
            if reason:
                raise InputError(f"the score {score.score_id[:80]!r} is not valid: {reason}")
            by_file.setdefault(self.path(score.study, score.annotator), []).append(written)
        return sum(
            append(path, found, "score_id", lambda one: why_not(one) is None)
            for path, found in by_file.items()
        )

    def snapshot(self, study: str) -> ScoreSnapshot:
        files = [(path, path.stat()) for path in self._files(study)]
        contents = [_digest(path, at.st_size, at.st_mtime_ns, at.st_ctime_ns) for path, at in files]
        return ScoreSnapshot({path: at.st_size for path, at in files}, digest(sorted(contents)))

    def version(self, study: str) -> str:
        return self.snapshot(study).digest

    def read(self, study: str, upto: ScoreSnapshot | None = None) -> Records:
        """Read the records of a study, as they were when a snapshot was taken, or are now."""
        found = Records([], [])
        seen: dict[tuple[str, str], Row] = {}
        for path in self._files(study) if upto is None else sorted(upto.sizes):
            data = path.read_bytes()[: None if upto is None else upto.sizes[path]]
            for line in read_lines(data):
                place = f"{path}:{line.number}"
                reason = why_not(line.record)
                if line.record is None or reason:
                    found.faults.append(InvalidScore(place, reason or "it is not a JSON object"))
                    continue
                row = row_of(line.record, study)
                other = seen.setdefault((row["annotator"], row["score_id"]), row)
                if other is row:
                    found.rows.append(row)
                elif other != row:
                    found.faults.append(
                        InvalidScore(place, "an earlier line has its `score_id`, and says otherwise")
                    )
        return found

    def rows(self, study: str | None = None) -> Iterator[Row]:
        for name in self.studies() if study is None else [study]:
            yield from self.read(name).rows

    def scores(self, study: str) -> list[HumanScore]:
        return [HumanScore(**row) for row in self.read(study).rows]

    def _files(self, study: str) -> list[Path]:
        return sorted(path for path in self.folder(study).glob("*.jsonl") if path.is_file())


def current_scores(rows: Iterable[Row]) -> list[Row]:
    """Return the last row of each score, unless it takes the score back; `skipped` ones stay."""
    last: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        key = tuple(row[column] for column in SAME)
        last.pop(key, None)
        last[key] = row
    return [row for row in last.values() if row["status"] != "withdrawn"]


SAME: Sequence[str] = (
    *("study", "annotator", "item_id", "rubric", "rubric_version", "criterion", "showing", "cell"),
    "question_id",
)
"""Rows that are alike in these columns are one score, said again."""


@lru_cache(maxsize=1024)
def _digest(path: Path, size: int, _changed: int, _touched: int) -> str:
    state = sha256()
    with path.open("rb") as file:
        while size > 0 and (block := file.read(min(size, 1 << 20))):
            state.update(block)
            size -= len(block)
    return state.hexdigest()


def _too_long(row: Row) -> str | None:
    long = (name for name, value in row.items() if isinstance(value, str) and len(value) > LONGEST_TEXT)
    name = next(long, None)
    return f"its `{name}` has more than {LONGEST_TEXT:,} characters" if name else None


def _written(score: HumanScore) -> Row:
    row = {one.name: getattr(score, one.name) for one in fields(score)}
    texts = {name: encodable(value) for name, value in row.items() if isinstance(value, str)}
    at = score.scored_at
    return {
        **row,
        **texts,
        "scored_at": (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC).isoformat(),
    }
