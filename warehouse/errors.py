"""Errors that a person can act on."""

from __future__ import annotations

from pathlib import Path


class AssayError(Exception):
    """Something went wrong that we can explain; the message says what, where and what to do."""


class Mistake(str):
    """What is wrong at a line of a file, as `file:line: text`; ``code``: its kind, such as `unknown_key`."""

    __slots__ = ("code", "line", "path")
    code: str
    path: Path
    line: int

    def __new__(cls, code: str, path: Path, line: int, text: str) -> Mistake:
        found = super().__new__(cls, f"{path}:{line}: {text}")
        found.code, found.path, found.line = code, path, line
        return found


class InputError(AssayError):
    """What the user gave cannot be used. It may carry many findings; those about a line are `Mistake`s."""

    def __init__(self, *findings: str) -> None:
        self.findings = findings
        super().__init__("\n".join(findings))


class NotSetError(InputError):
    """A study file names environment variables that are not set; nothing else is wrong as far as is known."""


class CorruptFileError(AssayError):
    """A stored file cannot be read; it names the file and how to have it made again."""


class LockedError(AssayError):
    """The DuckDB file stayed locked by another process for the whole time that we waited."""
