"""Errors that a person can act on."""

from __future__ import annotations

from pathlib import Path


class AssayError(Exception):
    """Something went wrong that we can explain; the message says what, where and what to do."""


class Mistake(str):
    """What is wrong at a line of a file, as `file:line: text`; programs and tests know it by its code.

    code: the kind of mistake, such as `unknown_key`; it stays when the text is put in other words
    path, line: where it stands, lines from 1
    """

    __slots__ = ("code", "line", "path")
    code: str
    path: Path
    line: int

    def __new__(cls, code: str, path: Path, line: int, text: str) -> Mistake:
        found = super().__new__(cls, f"{path}:{line}: {text}")
        found.code, found.path, found.line = code, path, line
        return found


class InputError(AssayError):
    """What the user gave cannot be used: a study file, a folder, a URL, an environment variable.

    One instance may carry many findings, so that a study file is answered with all of its errors at once;
    those about a line of a file are of the class `Mistake`.
    """

    def __init__(self, *findings: str) -> None:
        self.findings = findings
        super().__init__("\n".join(findings))


class NotSetError(InputError):
    """A study file names environment variables that are not set; nothing else is wrong as far as is known."""


class CorruptFileError(AssayError):
    """A stored file cannot be read; it names the file and how to have it made again."""


class LockedError(AssayError):
    """The DuckDB file stayed locked by another process for the whole time that we waited."""
