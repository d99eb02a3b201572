"""Cases in a loop of one test: the error of a case that fails names it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def named(case: object) -> Iterator[None]:
    """Add the case to an error raised in the block."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"case: {case}")
        raise
