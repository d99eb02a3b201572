"""Reads files that users name, within size limits."""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, AnyStr

from rag_assay.warehouse.errors import AssayError, InputError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.paths import home

LOOKED_AT = 50_000  # characters from which is told whether a file is text
_STRANGE = frozenset({"Cc", "Cn", "Co", "Cs"})
_BLANKS = frozenset("\t\n\r\f\v\x1b\x08\x1c\x1d\x1e\x1f\x85")


def check_regular(path: Path) -> None:
    """Refuse what is no regular file: reading a pipe or a device may never end."""
    try:
        kind = path.stat().st_mode
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file") from None
    except OSError as error:  # a circle of symbolic links, a folder that may not be entered
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    if stat.S_ISDIR(kind):
        raise InputError(f"{path}: is a folder; a file is needed here")
    if not stat.S_ISREG(kind):
        raise InputError(f"{path}: is not a regular file; reading a pipe or a device may never end")


def read_bounded(path: Path, most: int) -> bytes:
    check_regular(path)
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    if len(data) > most:
        raise InputError(f"{path}: larger than {most // 1_000_000} MB; split it into several files")
    return data


def is_text(text: str) -> bool:
    """Return whether decoded bytes are text: random bytes have one in five odd signs at least.

    >>> is_text("Größe\\t漢字\\n"), is_text("\\x00\\x01\\x02 PNG"), is_text("a torn \ufffd sign in a text")
    (True, False, True)
    """
    looked_at = text[:LOOKED_AT]
    strange = sum(
        sign == "\ufffd" or (unicodedata.category(sign) in _STRANGE and sign not in _BLANKS)
        for sign in looked_at
    )
    return strange * 20 <= len(looked_at)


def delimiter_of(line: str) -> str:
    """Return what separates the cells of a table, from its first line; quoted cells do not count.

    >>> delimiter_of('boat;"fee, tax, tip";berth')
    ';'
    """
    return max(",;\t|", key=re.sub('"[^"]*"', "", line).count)


def bounded_lines(file: IO[AnyStr], limit: int, ends: AnyStr) -> Iterator[tuple[int, AnyStr | None]]:
    """Yield lines with their numbers, from 1; None for one that is longer than ``limit``."""
    number = 0
    while line := file.readline(limit + 2):  # two more for the end of the line
        number += 1
        if len(line.rstrip(ends)) <= limit:
            yield number, line.rstrip(ends)
            continue
        while line and not line.endswith(ends[-1:]):
            line = file.readline(limit)
        yield number, None


def walk(root: Path) -> Iterator[Path]:
    """Yield the files under a folder, sorted, without hidden ones; unlistable folders last."""
    home_root = os.path.realpath(home().root)
    real_root = os.path.realpath(root)
    shut: list[Path] = []
    for folder, subfolders, files in os.walk(root, onerror=lambda error: shut.append(Path(error.filename))):
        subfolders[:] = sorted(
            name
            for name in subfolders
            if not name.startswith(".") and os.path.realpath(Path(folder, name)) != home_root
        )
        yield from (Path(folder, name) for name in sorted(files) if not name.startswith("."))
        links = (Path(folder, name) for name in subfolders if Path(folder, name).is_symlink())
        yield from (link for link in links if not Path(os.path.realpath(link)).is_relative_to(real_root))
    yield from shut


def is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


def fingerprint(path: Path) -> str:
    """Digest where a path leads to, and names, sizes and times of the files there."""
    if not path.exists():
        raise AssayError(f"there is no {path}")
    files = [path] if path.is_file() else list(walk(path))
    facts: list[object] = [str(path.resolve())]
    for file in files:
        with suppress(OSError):  # a circle of links, or a file that has just been removed
            at = file.stat()
            if stat.S_ISREG(at.st_mode):
                name = str(file.relative_to(path.parent))
                facts.append([name, at.st_size, at.st_mtime_ns, at.st_ctime_ns])
    return digest(facts)
