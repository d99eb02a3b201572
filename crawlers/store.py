"""The pages of one source on disk: a journal while crawling, a Parquet manifest afterwards."""

from __future__ import annotations

import fcntl
import gzip
import json
import logging
import os
import re
import uuid
import zlib
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from io import TextIOWrapper
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

import polars as pl

from rag_assay.crawlers.items import Page
from rag_assay.warehouse.atomic_write import atomic_write, sweep, temporary_beside
from rag_assay.warehouse.errors import CorruptFileError, LockedError
from rag_assay.warehouse.identity import canonical, sha256_bytes
from rag_assay.warehouse.packs import SMALL, SUFFIX, Packs, PackWriter
from rag_assay.warehouse.pages import (
    NOT_BEGUN,
    is_whole,
    keep_manifest,
    kept_manifest,
    manifest_file,
    origin_of,
    read_crawls,
    read_manifest,
    write_body,
    write_manifest,
)
from rag_assay.warehouse.parquet import frame
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import CRAWLS, PAGES

logger = logging.getLogger(__name__)

Row = dict[str, Any]

KILLED = "killed"


def read_journal(path: Path) -> tuple[Row | None, list[Row]]:
    """Return the journal's header and entries; a line that was torn by the end of its process is left out."""
    header: Row | None = None
    entries = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            entry = json.loads(line)
            _check(entry)
        except (ValueError, KeyError, TypeError, RecursionError):
            logger.warning("%s: line %d is torn and left out; its page will be fetched again", path, number)
            continue
        if "crawl" in entry:
            header = entry["crawl"]
        else:
            entries.append(entry)
    return header, entries


def _check(entry: Any) -> None:
    if "crawl" in entry:
        _texts(entry["crawl"], "crawl_id", "source")
        datetime.fromisoformat(entry["crawl"]["started_at"])
    elif "gone" in entry:
        _texts(entry, "gone")
        datetime.fromisoformat(entry["at"])
    elif "settled" in entry:
        _texts(entry, "settled")
    else:
        _texts(entry, "outcome")
        _texts(entry["page"], "url")
        _ = entry["page"]["sha256"], entry["page"]["reason"]
        datetime.fromisoformat(entry["page"]["fetched_at"])


def _texts(entry: Row, *names: str) -> None:
    if not all(isinstance(entry[name], str) for name in names):
        raise TypeError(names)


def killed(header: Row, entries: list[Row]) -> Row:
    pages = {entry["page"]["url"]: entry for entry in entries if "page" in entry}.values()
    seen = Counter(entry["outcome"] for entry in pages)
    reasons = Counter(entry["page"]["reason"] for entry in pages if entry["page"]["reason"])
    seen["gone"] = sum("gone" in entry for entry in entries)
    times = [entry["page"]["fetched_at"] for entry in pages]
    ended_at = max([header["started_at"], *times])  # a page that is carried over is older
    return _crawl_row(header, ended_at, KILLED, seen, reasons)


def _crawl_row(
    crawl: Row,
    ended_at: str,
    outcome: str,
    counts: Mapping[str, int],
    reasons: Mapping[str, int],
    size: tuple[int | None, int | None] = (None, None),
) -> Row:
    """size: requests and bytes"""
    return {
        **{name: crawl[name] for name in ("crawl_id", "source", "started_at")},
        "ended_at": ended_at,
        "outcome": outcome,
        "requests": size[0],
        "bytes": size[1],
        **{name: counts[name] for name in ("new", "changed", "unchanged", "gone")},
        "failed": canonical(dict(sorted(reasons.items()))),
    }


def locked(path: Path, source: str) -> TextIOWrapper:
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("a+", encoding="ascii", errors="replace")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.seek(0)
        holder = file.read(20).strip()
        file.close()
        who = f"process {holder}" if holder else "another process"
        raise LockedError(
            f"The source `{source}` is being crawled by {who}. Wait for it to end, or stop it."
        ) from error
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file


class Bodies(PackWriter):
    """Stores each body once: those of at most ``packed`` bytes in a pack, the others in files at once."""

    def __init__(self, home: Home, scratch: Path, pack: str, packed: int = SMALL) -> None:
        super().__init__(home.packs / f"{pack}{SUFFIX}")
        self._home = home
        self._scratch = scratch
        self._packed = packed
        self._known = Packs(home.packs)

    def store(self, body: bytes) -> str:
        if len(body) > self._packed:
            return write_body(self._home, body, self._scratch)
        sha256 = sha256_bytes(body)
        if sha256 not in self and not self._is_there(sha256):
            self.add(sha256, body)
        return sha256

    def _is_there(self, sha256: str) -> bool:
        if self._known.find(sha256, look_again=False) is not None:
            return True
        return self._home.body(sha256).exists() and is_whole(self._home, sha256)


_FACTS = ("url", "content_type", "etag", "last_modified")


class Followed(NamedTuple):
    """A page as it was last served."""

    url: str
    content_type: str | None
    etag: str | None
    last_modified: str | None
    body: bytes


class FollowedPages:
    """One file per page with validators: its facts as a line of JSON, then its bytes, compressed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, url: str) -> Followed | None:
        try:
            line, _, body = gzip.decompress(self._path(url).read_bytes()).partition(b"\n")
            facts = json.loads(line)
            page = Followed(**{name: facts[name] for name in _FACTS}, body=body)
        except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError):
            return None
        return page if page.url == url else None

    def keep(self, page: Followed) -> None:
        path = self._path(page.url)
        if not (page.etag or page.last_modified):
            path.unlink(missing_ok=True)
            return
        if self.get(page.url) == page:
            os.utime(path)
            return
        facts = json.dumps({name: getattr(page, name) for name in _FACTS}).encode()
        with temporary_beside(path) as temporary:
            temporary.write_bytes(gzip.compress(facts + b"\n" + page.body, compresslevel=6, mtime=0))
            temporary.replace(path)

    def sweep(self, before: datetime) -> None:
        for path in self.folder.glob("*"):
            if path.stat().st_mtime < before.timestamp():
                path.unlink(missing_ok=True)

    def _path(self, url: str) -> Path:
        return self.folder / f"{sha256_bytes(url.encode())}.gz"


Added = Literal["new", "changed", "unchanged", "failed", "gone", "repeated"]

GONE = {404, 410}
FINISHED = "finished"
STOPPED = "stopped by a signal"
# What the next crawl carries on, or passes over.
INTERRUPTED = re.compile(rf"{KILLED}|{STOPPED}|limit: \d+ seconds|error: .*|{NOT_BEGUN}.*")
RESUMABLE = timedelta(hours=24)  # what an interrupted crawl fetched is not asked for again for so long


class SeenUrl(NamedTuple):
    """What this crawl knows of a URL that it has come across."""

    outcome: Added
    reason: str | None = None
    alias: bool = False
    requested_url: str = ""


class PageStore:
    """Takes the pages of one crawl of one source. One process per source; others get `LockedError`.

    Every page is in the journal before `add` returns or, if read from files, once its body is on disk;
    `close` merges it into the manifest, as opening does with that of a process that died. When ``origin``
    changes, the manifest is set aside until it changes back. ``from_files``: what was not read is gone.
    """

    def __init__(self, home: Home, source: str, origin: str = "", *, from_files: bool = False) -> None:
        self.home = home
        self.from_files = from_files
        self.source = source
        self.folder = home.crawls / source
        self.started_at = datetime.now(UTC)
        self.crawl_id = f"{self.started_at:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}"
        self._path = self.folder / "journal.jsonl"
        self._lock = locked(self.folder / "lock", source)
        self._added: dict[str, SeenUrl] = {}
        self._rows: dict[str, Row] = {}
        self._others: dict[str, Row] = {}  # of what the source was before: to ask conditionally, and no more
        self._before: dict[str, str | None] = {}  # url -> sha256, as the last crawl left it
        self._changed = False
        self._origin = ""
        self.followed = FollowedPages(self.folder / "followed")
        sweep(self.home.root / "bodies", "??/.*.tmp")  # of killed processes
        for folder in (self.folder, self.folder / "followed", self.home.pages(self.source)):
            for path in folder.glob(".*.tmp"):
                path.unlink(missing_ok=True)
        self.merge_journal()
        self._become(origin)
        self._before = {url: row["sha256"] for url, row in self._rows.items() if row["gone_at"] is None}
        began = None
        for row in reversed(read_crawls(self.home, self.source).rows(named=True)):
            if not INTERRUPTED.fullmatch(row["outcome"]):
                break
            began = row["started_at"]
        self._fresh_from = max(began, datetime.now(UTC) - RESUMABLE) if began else None
        self._journal = self._begun()
        self._lines: list[str] = []  # of the journal, which wait for the bodies that they name
        self._bodies = Bodies(home, self.folder, self.crawl_id, SMALL if from_files else -1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not self._journal.closed:
            self._merge()
            outcome = STOPPED if isinstance(error, KeyboardInterrupt) else f"error: {type(error).__name__}"
            self._record(self._row_of(outcome, None, None))
        self.close()

    def merge_journal(self) -> int:
        self._rows = self._known()
        self._origin = origin_of(self.home, self.source)
        self._changed = False
        if not self._path.exists():
            return 0
        header, entries = read_journal(self._path)
        self._become((header or {}).get("origin", ""))
        for entry in entries:
            self._apply(entry, from_files=bool(header and header.get("from_files")))
        if entries or self._changed:
            self._write()
        if header and not (self.folder / f"{header['crawl_id']}.json").exists():
            self._record(killed(header, entries))
        self._path.unlink()
        return len(entries)

    def _known(self) -> dict[str, Row]:
        try:
            known = read_manifest(self.home, self.source, gone=True)
        except CorruptFileError as error:
            logger.warning("%s It is put aside, and all pages are fetched again.", error)
            path = manifest_file(self.home, self.source)
            path.replace(path.with_suffix(".damaged"))
            return {}
        return {row["url"]: row for row in known.iter_rows(named=True)}

    def _become(self, origin: str) -> None:
        if not origin or origin == self._origin:
            return
        if self._origin:  # else it is unknown, and taken for the same
            keep_manifest(self.home, self.source, self.manifest(), self._origin)
            self._others |= self._rows
            kept = kept_manifest(self.home, self.source, origin)
            self._rows = {row["url"]: row for row in kept.iter_rows(named=True)}
        self._origin = origin
        self._changed = True

    def manifest(self) -> pl.DataFrame:
        return frame([self._rows[url] for url in sorted(self._rows)], PAGES)

    def row(self, url: str) -> Row | None:
        return self._rows.get(url) or self._others.get(url)

    def fresh(self, url: str) -> Row | None:
        row = self._rows.get(url)
        if row is None or self._fresh_from is None or row["sha256"] is None or row["gone_at"]:
            return None
        return row if row["fetched_at"] >= self._fresh_from else None

    def unseen(self) -> list[Row]:
        return [row for row in self._rows.values() if self._is_unseen(row)]

    def _is_unseen(self, row: Row) -> bool:
        return bool(row["sha256"]) and row["gone_at"] is None and row["url"] not in self._added

    def moved(self, url: str) -> None:
        known = self._rows.get(url)
        if known and self._is_unseen(known):
            self.leave(url)

    def add(self, page: Page) -> Added:
        """Store a page, or the failure of one, and return what is new about it.

        A failure never removes a stored body; a 404 or 410 marks it as gone. A URL counts once per crawl
        (`repeated`), but one served under its URL replaces its aliases, and a body replaces a failure.
        """
        if not self._is_better(page):
            return "repeated"
        if page.status in GONE and self._before.get(page.url):
            self.leave(page.url)
            return "gone"
        sha256 = self._bodies.store(page.body) if page.body is not None else None
        outcome = _outcome(sha256, self._before.get(page.url))
        self._note({"outcome": outcome, "page": _row(page, sha256)})
        self._added[page.url] = SeenUrl(outcome, page.reason, page.alias, page.requested_url)
        return outcome

    def _is_better(self, page: Page) -> bool:
        if page.url not in self._added:
            return True
        seen = self._added[page.url]
        if page.body is None:
            return False
        if seen.outcome in {"failed", "gone"}:
            return True
        return seen.alias and (not page.alias or page.requested_url < seen.requested_url)

    def leave(self, url: str) -> None:
        self._note({"gone": url, "at": datetime.now(UTC).isoformat()})
        self._added[url] = SeenUrl("gone")

    def settle(self, url: str) -> None:
        known = self._rows.get(url)
        if known and known["sha256"] is None and url not in self._added:
            self._note({"settled": url})

    def counts(self) -> dict[str, int]:
        seen = Counter(one.outcome for one in self._added.values())
        return {name: seen[name] for name in ("new", "changed", "unchanged", "gone", "failed")}

    def finish(
        self, outcome: str, requests: int, size: int, *, followed: int = 0, complete: bool = False
    ) -> Row:
        """Return the crawl's record, with `followed` and `unmet`: stored pages not met again."""
        if complete or self.from_files:
            self._leave_unseen()
        if outcome == FINISHED:
            self.followed.sweep(self.started_at)
        self._merge()
        row, unmet = self._row_of(outcome, requests, size), len(self.unseen())
        self._record(row)  # before the journal goes, the only other trace of this crawl
        self.close()
        return {**row, "followed": followed, "unmet": unmet}

    def _row_of(self, outcome: str, requests: int | None, size: int | None) -> Row:
        reasons = Counter(one.reason for one in self._added.values() if one.reason)
        now = datetime.now(UTC).isoformat()
        return _crawl_row(self._header(), now, outcome, self.counts(), reasons, (requests, size))

    def _leave_unseen(self) -> None:
        for row in self.unseen():
            self.leave(row["url"])
        for url in [url for url, row in self._rows.items() if not row["sha256"] and url not in self._added]:
            self._note({"settled": url})  # what once failed, and is there no longer

    def close(self) -> None:
        if not self._journal.closed:
            self._merge()
            self._bodies.close()
            self._journal.close()
            self._path.unlink(missing_ok=True)
        self._lock.close()

    def _begun(self) -> TextIOWrapper:
        journal = self._path.open("w", encoding="utf-8")
        journal.write(json.dumps({"crawl": self._header()}) + "\n")
        journal.flush()
        return journal

    def _header(self) -> Row:
        return {
            "crawl_id": self.crawl_id,
            "started_at": self.started_at.isoformat(),
            "source": self.source,
            "origin": self._origin,
            "from_files": self.from_files,
        }

    def _merge(self) -> None:
        if not self._changed:
            return
        self._bodies.sync()
        self._write_lines()
        os.fsync(self._journal.fileno())
        self._write()
        self._changed = False

    def _write_lines(self) -> None:
        self._journal.writelines(self._lines)
        self._journal.flush()
        self._lines.clear()

    def _write(self) -> None:
        write_manifest(self.home, self.source, self.manifest(), self._origin)

    def _note(self, entry: Row) -> None:
        self._changed = True
        self._lines.append(json.dumps(entry) + "\n")
        if not self._bodies.waiting:
            self._write_lines()
        self._apply(entry, from_files=self.from_files)

    def _apply(self, entry: Row, *, from_files: bool) -> None:
        if settled := entry.get("settled"):
            self._rows.pop(settled, None)
            return
        if gone := entry.get("gone"):
            known = self._rows.get(gone)
            if known:
                self._rows[gone] = {**known, "gone_at": datetime.fromisoformat(entry["at"])}
            return
        row = {**entry["page"], "fetched_at": datetime.fromisoformat(entry["page"]["fetched_at"])}
        known = self._rows.get(row["url"])
        if row["sha256"] is None and known and known["sha256"] and not from_files:
            return
        self._rows[row["url"]] = row

    def _record(self, row: Row) -> None:
        with atomic_write(self.folder / f"{row['crawl_id']}.json") as temporary:
            temporary.write_text(json.dumps({name: row[name] for name in CRAWLS}, indent=1), encoding="utf-8")


def _outcome(sha256: str | None, before: str | None) -> Added:
    if sha256 is None:
        return "failed"
    if before is None:
        return "new"
    return "unchanged" if before == sha256 else "changed"


def _row(page: Page, sha256: str | None) -> Row:
    return {
        **{name: getattr(page, name) for name in (*_FACTS, "requested_url", "status", "reason")},
        "fetched_at": page.fetched_at.isoformat(),
        "sha256": sha256,
        "size": len(page.body) if page.body is not None else None,
        "fields": canonical(page.fields),
        "gone_at": None,
    }
