"""What readers of files have in common: which files there are, and why one cannot be read."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from crawlers.items import Page
from warehouse.errors import InputError
from warehouse.source import Source

Found = Iterator[tuple[str, Path]]
UNREADABLE = (
    OSError,
    EOFError,
    zlib.error,
    ValueError,
)  # of a file that is damaged, missing, or no regular one


def files_of(source: Source, suffixes: tuple[str, ...]) -> Found:
    """Yield name and path of the source's files of these kinds: the one file, or those of a folder, sorted.

    The name is the path within the folder, with `/`. Hidden files and folders, and files of other kinds, are
    passed over; a single file is taken whatever its kind. Symbolic links to folders are not followed.

    Raises:
        InputError: the path is missing, or the folder holds no such file.
    """
    root = Path(source.path or "").expanduser()
    if not root.is_dir():
        if not root.exists():
            raise InputError(f"path: there is no {root}.")
        yield shown(root.name), root
        return
    empty = True
    for path in walk(root):
        if path.name.lower().endswith(suffixes):
            empty = False
            yield shown(path.relative_to(root).as_posix()), path
    if empty:
        raise InputError(f"path: the folder {root} holds no file that ends in {' or '.join(suffixes)}.")


def walk(root: Path) -> Iterator[Path]:
    """Yield the files under a folder, sorted within each; hidden files and folders are passed over."""
    for folder, subfolders, files in os.walk(root):
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        yield from (Path(folder, name) for name in sorted(files) if not name.startswith("."))


def shown(name: str) -> str:
    """Return a file's name as UTF-8, what cannot be so replaced."""
    return os.fsencode(name).decode("utf-8", errors="replace")


def opened(path: Path) -> IO[bytes]:
    """Open a file to read its bytes, unpacked where its name ends in `.gz`.

    Raises:
        OSError: it cannot be opened.
        ValueError: it is no regular file: reading a pipe would wait for ever.
    """
    if path.exists() and not path.is_file():
        raise ValueError("not a regular file")
    if path.suffix.lower() == ".gz":
        return gzip.open(path)  # type: ignore[return-value]  # reads the same
    return path.open("rb")


def lines_of(file: IO[bytes], limit: int) -> Iterator[tuple[int, bytes | None]]:
    """Yield the lines of a file with their numbers, from 1; None for one of more than ``limit`` bytes.

    No more than ``limit`` bytes are in memory at once.
    """
    number = 0
    while line := file.readline(limit + 2):  # two more for the end of the line
        number += 1
        if len(line.rstrip(b"\r\n")) <= limit:
            yield number, line.rstrip(b"\r\n")
            continue
        while line and not line.endswith(b"\n"):
            line = file.readline(limit)
        yield number, None


def failed(url: str, reason: str, content_type: str | None = None) -> Page:
    """Return the failed page of a file, or of a part of it."""
    return Page(url, url, content_type=content_type, reason=reason)


def unreadable(name: str, error: BaseException) -> Page:
    """Return the failed page of a file that cannot be read, or not to its end."""
    if isinstance(error, EOFError):
        return failed(name, "truncated: the file ends early")
    if isinstance(error, UnicodeDecodeError):
        return failed(name, f"cannot be read: not {error.encoding.upper()}")
    return failed(name, f"cannot be read: {getattr(error, 'strerror', None) or error}")
