"""Brings a sheet of ours back: which file is one, what it adds to the scores; whole or not at all."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import IO
from zipfile import BadZipFile, ZipFile, ZipInfo

from rag_assay.evals.human.queue_files import read_queue
from rag_assay.evals.human.spreadsheets.filled_rows import Filled
from rag_assay.evals.human.spreadsheets.heading import MARK
from rag_assay.evals.human.spreadsheets.label_studio_results import read_tasks
from rag_assay.evals.human.spreadsheets.reader import read_sheet
from rag_assay.evals.human.spreadsheets.score_updates import Returned, score_updates
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.human_scores import HumanScores
from rag_assay.warehouse.paths import Home

_HEAD = 1 << 18  # bytes of a text, or of a worksheet, among which the heading stands
_MOST = 1 << 27  # bytes that are looked through of a table of texts, or of tasks
_BLOCK = 1 << 20
_PARTS = 500  # of a workbook that are looked at
_IN_BOOK = re.compile(rb"<(?:\w+:)?t(?:\s[^<>]*)?>" + re.escape(MARK.encode()) + rb"\{")
_IN_TEXT = re.compile(rb"[\"'\s;,\t\x00\xef\xbb\xbf\xff\xfe]*" + re.escape(MARK.encode()) + rb"\{")
_IN_TASKS = re.compile(rb"\"assay\"\s*:\s*\"" + re.escape(MARK.encode()) + rb"\{")


def is_ours(path: Path) -> bool:
    """Return whether a queue was exported to a file; one that cannot be read is none."""
    suffix = path.suffix.lower()
    try:
        if not path.is_file():  # a pipe would be waited for without end
            return False
        if suffix in {".xlsx", ".xlsm"}:
            return _is_book_of_ours(path)
        with path.open("rb") as file:
            if suffix == ".json":
                return _holds(file, _IN_TASKS, _MOST)
            head = file.read(_HEAD)
            plain = head.decode("utf-16").encode() if head.startswith((b"\xff\xfe", b"\xfe\xff")) else head
            return _IN_TEXT.match(plain) is not None
    except (OSError, BadZipFile, ValueError, NotImplementedError, RuntimeError, EOFError, zlib.error):
        return False


def bring_back(path: Path, home: Home, at: datetime) -> Returned:
    """Return what a sheet adds to the scores of its study; nothing is added yet.

    Args:
        path: of the sheet.
        home: where the queue and the scores lie.
        at: when it comes back.

    Raises:
        InputError: it cannot be read, or its queue is not here.
    """
    filled = _read(path)
    heading = filled.heading
    then = read_queue(home, heading.study, heading.queue)
    if then is None:
        raise InputError(
            f"{path}: it is of queue {heading.queue} of the study {heading.study!r}, which is not in "
            f"{home.root}; import it where it was exported, or export the queue again"
        )
    now = read_queue(home, heading.study) or then
    return score_updates(filled, then, now, HumanScores(home).rows(heading.study), at)


def keep(found: Returned, home: Home) -> int:
    """Add what a sheet adds; return how many rows were not there yet.

    Raises:
        ValueError: some rows of the sheet cannot be taken.
    """
    if found.rejects:
        raise ValueError("a sheet is kept as a whole, or not at all")
    return HumanScores(home).append(found.scores)


def _read(path: Path) -> Filled:
    return read_tasks(path) if path.suffix.lower() == ".json" else read_sheet(path)


def _is_book_of_ours(path: Path) -> bool:
    with ZipFile(path) as book:
        return any(_part_holds(book, part) for part in book.infolist()[:_PARTS])


def _part_holds(book: ZipFile, part: ZipInfo) -> bool:
    name = part.filename.lower()
    most = _MOST if name.endswith("sharedstrings.xml") else _HEAD if "/worksheets/sheet" in name else 0
    if not most:
        return False
    with book.open(part) as file:
        return _holds(file, _IN_BOOK, most)


def _holds(file: IO[bytes], wanted: re.Pattern[bytes], most: int) -> bool:
    """Return whether a pattern stands in the first bytes of a file, which are read in blocks."""
    return any(wanted.search(block) for block in _blocks(file, most))


def _blocks(file: IO[bytes], most: int) -> Iterator[bytes]:
    """Yield blocks of a file, each with the end of the one before it."""
    end, read = b"", 0
    while read < most and (block := file.read(min(_BLOCK, most - read))):
        yield end + block
        end, read = block[-256:], read + len(block)
