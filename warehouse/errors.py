"""Errors that a person can act on."""

from __future__ import annotations


class AssayError(Exception):
    """Something went wrong that we can explain; the message says what, where and what to do."""


class InputError(AssayError):
    """What the user gave cannot be used: a study file, a folder, a URL, an environment variable.

    One instance may carry many findings, so that a study file is answered with all of its errors at once.
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
