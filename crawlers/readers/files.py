"""Helpers of all readers: list a folder's files, open them, say why one cannot be read."""

from __future__ import annotations

import codecs
import errno
import gzip
import io
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

from rag_assay.crawlers.items import Page
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.files import is_folder, is_text, walk
from rag_assay.warehouse.pages import PASSING, decode

if TYPE_CHECKING:
    from rag_assay.warehouse.source import Source

Found = Iterator[tuple[str, Path]]
UNREADABLE = (OSError, EOFError, zlib.error, ValueError)  # of a damaged, missing or irregular file
_BLOCK = 1 << 16  # bytes from which a charset is told


def files_of(source: Source, suffixes: tuple[str, ...]) -> Found:
    """Yield name and path, sorted, a single file of any kind; what cannot be listed fails when read."""
    root = root_of(source)
    if not root.is_dir():
        if not root.exists():
            raise InputError(f"path: there is no {root}.")
        yield display_name(root.name), root
        return
    empty = True
    for path in walk(root):
        if path.name.lower().endswith(suffixes) or is_folder(path):
            empty = False
            yield display_name(path.relative_to(root).as_posix()), path
    if empty:
        raise InputError(f"path: the folder {root} holds no file that ends in {' or '.join(suffixes)}.")


def display_name(name: str) -> str:
    return os.fsencode(name).decode("utf-8", errors="backslashreplace")


def root_of(source: Source) -> Path:
    return Path(source.path or "").expanduser()


def check_file(path: Path, source: Source) -> None:
    """Raises ValueError (not regular, or a link out of the folder) and OSError."""
    root = root_of(source)
    if path != root and path.is_symlink() and not _end_of(path).is_relative_to(root.resolve()):
        raise ValueError("a symbolic link that leads out of the source's folder")
    if path.is_dir():
        os.scandir(path).close()  # says why its files could not be listed
    if path.exists() and not path.is_file():
        raise ValueError("not a regular file")


def _end_of(link: Path) -> Path:
    try:
        return link.resolve()
    except (OSError, RuntimeError) as error:  # which of them depends on the version of Python
        raise ValueError("a symbolic link that leads round in a circle") from error


def open_file(path: Path, source: Source) -> IO[bytes]:
    check_file(path, source)
    if path.suffix.lower() == ".gz":
        return gzip.open(path)  # type: ignore[return-value]  # reads the same
    return path.open("rb")


def as_text(file: IO[bytes], newline: str | None = None) -> io.TextIOWrapper:
    """Return a file as text, in the charset of its first bytes beyond ASCII; `ValueError` if it is binary.
    Bytes that do not fit are read as Windows-1252. ``newline``: as in `open`.
    """
    block = b""
    while more := file.read(_BLOCK):
        block = more + file.readline(_BLOCK)
        if not block.isascii():
            break
    file.seek(0)
    text = block.decode("utf-8", "replace")
    broken = text.count("\ufffd")
    whole = sum(not character.isascii() for character in text) - broken
    charset = "utf-8-sig" if whole >= broken else decode(block)[1]
    if not is_text(block.decode(charset, "replace")):
        raise ValueError("not text, but other bytes")
    return io.TextIOWrapper(file, charset, _WESTERN, newline)


_WESTERN = "assay-western"


def _as_western(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return error.object[error.start : error.end].decode("cp1252", "replace"), error.end


codecs.register_error(_WESTERN, _as_western)


def failed_page(url: str, reason: str, content_type: str | None = None) -> Page:
    return Page(url, url, content_type=content_type, reason=reason)


def unreadable(name: str, error: BaseException) -> Page:
    if isinstance(error, EOFError):
        return failed_page(name, "truncated: the file ends early")
    if isinstance(error, UnicodeDecodeError):
        return failed_page(name, f"cannot be read: not {error.encoding.upper()}")
    return failed_page(name, why_unreadable(error))


# What keeps a file from being read for a while, and says nothing of the file.
_SHORT_OF = "EIO EMFILE ENFILE ENOMEM ENOBUFS EAGAIN EINTR EBUSY"
_NETWORK = "ESTALE ETIMEDOUT EHOSTDOWN EHOSTUNREACH ENETDOWN ENETUNREACH ENOTCONN EREMOTEIO"
_NAMES = f"{_SHORT_OF} {_NETWORK}".split()
_PASSING = frozenset(getattr(errno, name) for name in _NAMES if hasattr(errno, name))


def why_unreadable(error: BaseException) -> str:
    what = getattr(error, "strerror", None) or str(error)
    is_passing = isinstance(error, OSError) and error.errno in _PASSING
    return f"{PASSING}{what}" if is_passing else f"cannot be read: {what}"
