"""Ends a child process when its parent ends, however that happens.

A parent that is killed cannot tell its child, which would go on, and hold its locks, until its work is done.
So the child inherits one end of a pipe whose other end only the parent holds: the system closes that whatever
the signal was.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

LIFELINE = "ASSAY_LIFELINE"
"""Environment variable of the child: the number of its end of the pipe, which it must inherit."""


@contextmanager
def lifeline() -> Iterator[int]:
    """Yield the end of a pipe for a child; leaving the block ends a child that is still there."""
    reading, writing = os.pipe()
    try:
        yield reading
    finally:
        os.close(writing)
        os.close(reading)


def end_with_parent() -> None:
    """End this process at once when the parent that `LIFELINE` leads to is gone; without one, do nothing."""
    number = os.environ.pop(LIFELINE, "")
    if number.isdecimal():
        threading.Thread(target=_watch, args=(int(number),), name="lifeline", daemon=True).start()


def _watch(end: int) -> None:
    try:
        while os.read(end, 1):
            pass
    except OSError:  # no such pipe: the variable is somebody else's, and no reason to end
        return
    os._exit(1)
