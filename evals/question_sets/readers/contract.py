"""What a reader of questions takes in, and how it tells its mistakes."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.files import bounded_lines, check_regular

Row = dict[str, Any]


@dataclass(frozen=True)
class SetFile:
    """A file of questions, and what the study says of it; judged_alone: they need no truth or evidence."""

    path: Path
    name: str
    language: str | None = None
    asked_at: str | None = None
    judged_alone: bool = False


class QuestionRecord(NamedTuple):
    """A question before it is checked: place in the file, cells by our names, why it cannot be used."""

    place: str
    cells: Mapping[str, Any]
    unreadable: str | None = None


Records = Iterator[QuestionRecord]

MAX_LINE, MAX_LINES = 1_000_000, 20_000_000  # bytes, lines
MAX_WHOLE = 200_000_000  # bytes of a JSON document, unpacked
MAX_ROWS = 200_000  # questions of a file


def open_bounded(path: Path) -> IO[bytes]:
    check_regular(path)
    return gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb")  # type: ignore[return-value]


def lines_of_file(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a UTF-8 file with their numbers; only a line feed ends one, as in JSON strings."""
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
    except (OSError, EOFError, zlib.error, ValueError) as error:  # ValueError: a number too long
        raise InputError(f"{path}: {_broken(path)} ({error})") from error


def _broken(path: Path) -> str:
    return "not a whole gzip file" if path.suffix.lower() == ".gz" else "cannot be read"
