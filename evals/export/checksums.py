"""The checksums of an exported folder: written last, and compared with every file when it is opened. A folder
from elsewhere is input: paths stay inside, only regular files, sizes known before reading.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from rag_assay.warehouse.atomic_write import write_file
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.files import read_bounded
from rag_assay.warehouse.identity import sha256_bytes, sha256_file
from rag_assay.warehouse.schemas import Schema

INDEX = "index"  # the folder of the LanceDB table and the lexical files beside it

VERDICT = "verdict.json"  # the verdict of the study, as it was when the cell was exported

HEADINGS = "headings.parquet"  # the headings above each chunk; there where the generator is told of them

HEADINGS_SCHEMA: Schema = {"chunk_id": pl.String, "heading_path": pl.List(pl.String)}


SUMS = "SHA256SUMS"  # one line a file, as `sha256sum --check` reads them

MOST_FILES = 50_000
MOST_BYTES = 1 << 40  # of all files together
MOST_SUMS = 10_000_000  # bytes of the list itself
SHOWN = 10  # findings that are told one by one
_LINE = re.compile(r"([0-9a-f]{64})  (.{1,512})")


def seal(folder: Path) -> str:
    lines = [f"{sha256_file(folder / name)}  {name}\n" for name in sorted(_files(folder)) if name != SUMS]
    return sha256_file(write_file(folder / SUMS, "".join(lines)))


def verify_checksums(folder: Path) -> str:
    sums, data = _sums(folder)
    there = _files(folder)
    findings = [
        f"{folder / name}: is missing; it is part of the export" for name in sums if name not in there
    ]
    findings += [
        f"{folder / name}: was added, and is not part of the export; remove it"
        for name in there
        if name not in sums and name != SUMS
    ]
    findings += [
        f"{folder / name}: has other bytes than were exported; export or copy it again"
        for name, expected in sums.items()
        if name in there and sha256_file(folder / name) != expected
    ]
    if findings:
        more = len(findings) - SHOWN
        raise InputError(*findings[:SHOWN], *([f"… and {more} more files"] if more > 0 else []))
    return sha256_bytes(data)


def sealed_names(folder: Path) -> list[str]:
    return list(_sums(folder)[0])


def added_names(folder: Path) -> list[str]:
    known = {*sealed_names(folder), SUMS}
    return [name for name in _files(folder) if name not in known]


def _sums(folder: Path) -> tuple[dict[str, str], bytes]:
    path = folder / SUMS
    if not os.path.lexists(path):
        raise InputError(f"{folder}: is not an exported folder (it has no {SUMS}); `assay export` writes one")
    data = read_bounded(path, MOST_SUMS)
    found: dict[str, str] = {}
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        match = _LINE.fullmatch(line)
        if match is None or not _is_inside(match[2]) or match[2] in found:
            raise InputError(
                f"{path}:{number}: is not a line of checksums (`<SHA-256>  <file>`, each file once)"
            )
        found[match[2]] = match[1]
    return found, data


def _is_inside(name: str) -> bool:
    """Return whether a name is that of a file below the folder, in its one form.

    >>> [_is_inside(name) for name in ("a/b.txt", "../x", "/etc/passwd", "a//b", "./a", "a\\\\b")]
    [True, False, False, False, False, False]
    """
    return (
        name.isprintable()
        and "\\" not in name
        and all(part not in {"", ".", ".."} for part in name.split("/"))
    )


def _files(folder: Path) -> dict[str, int]:
    found = dict(_walk(folder))
    if len(found) > MOST_FILES or sum(found.values()) > MOST_BYTES:
        raise InputError(
            f"{folder}: has more than {MOST_FILES:,} files or {MOST_BYTES >> 30} GB; no export has"
        )
    return found


def _walk(folder: Path) -> Iterator[tuple[str, int]]:
    if folder.is_symlink() or not folder.is_dir():
        raise InputError(f"{folder}: is not a folder; `assay export` writes one")
    for number, (root, folders, names) in enumerate(os.walk(folder)):
        if number > MOST_FILES:
            raise InputError(f"{folder}: has more than {MOST_FILES:,} folders; no export has")
        for name in (*names, *folders):
            path = Path(root, name)
            status = path.lstat()
            if stat.S_ISREG(status.st_mode):
                yield path.relative_to(folder).as_posix(), status.st_size
            elif not stat.S_ISDIR(status.st_mode):
                raise InputError(f"{path}: is a link or no regular file; an export has none")
