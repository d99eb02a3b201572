"""Reads files of questions within bounds: lines one by one, JSON documents as a whole."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.files import bounded_lines, check_regular

MAX_LINE, MAX_LINES = 1_000_000, 20_000_000  # bytes, lines
MAX_WHOLE = 200_000_000  # bytes of a JSON document, unpacked
MAX_ROWS = 200_000  # questions of a file
MAX_DEPTH = 100  # of brackets in a JSON document


def open_bounded(path: Path) -> IO[bytes]:
    """Open a regular file, unpacked where its name ends in `.gz`.

    Raises:
        InputError: it is none.
    """
    check_regular(path)
    return gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb")  # type: ignore[return-value]


def lines_of_file(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a UTF-8 file with their numbers from 1, a mark of byte order left out.

    A line feed alone ends a line: a JSON string may hold U+2028 and its like, which do not.

    Raises:
        InputError: it cannot be read to its end, or a line or their number is beyond all measure.
    """
    number = 0
    try:
        with open_bounded(path) as file:
            for number, line in bounded_lines(file, MAX_LINE, b"\r\n"):
                if line is None or number > MAX_LINES:
                    what = (
                        f"has more than {MAX_LINES:,} lines" if line else f"is longer than {MAX_LINE:,} bytes"
                    )
                    raise InputError(f"{path}:{number}: {'the file' if line else 'this line'} {what}")
                yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}:{number}: not UTF-8 text ({error}); save it as UTF-8") from error
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: {_broken(path)} ({error})") from error


def whole_json(path: Path) -> Any:
    """Return what a JSON document holds.

    Raises:
        InputError: it is none, too large, or nested too deeply; with the line where that is known.
    """
    try:
        with open_bounded(path) as file:
            data = file.read(MAX_WHOLE + 1)
        if len(data) > MAX_WHOLE:
            raise InputError(f"{path}: larger than {MAX_WHOLE // 1_000_000} MB; split it into several files")
        return json.loads(data.decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        raise InputError(f"{path}:{error.lineno}: not valid JSON: {error.msg}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text ({error}); save it as UTF-8") from error
    except RecursionError as error:
        raise InputError(f"{path}: nested too deeply to be a set of questions") from error
    except (
        OSError,
        EOFError,
        zlib.error,
        ValueError,
    ) as error:  # ValueError: a number too long
        raise InputError(f"{path}: {_broken(path)} ({error})") from error


def _broken(path: Path) -> str:
    return "not a whole gzip file" if path.suffix.lower() == ".gz" else "cannot be read"
