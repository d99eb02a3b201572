"""The entry point of `assay`: small, so that being stopped while the rest is imported is no traceback."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

_COLLECT_AFTER = (50_000, 20, 20)
"""New containers before a search for cycles, and how often older ones are searched too.

Python's own (700, 10, 10) search hundreds of times while modules are imported, of which nothing is garbage.
"""


def main() -> None:
    """Import the command line and run it; exit with 130 where it is stopped before that was imported.

    A SIGTERM is taken for a Ctrl-C from here on, as Dagster takes one during its runs.
    """
    gc.set_threshold(*_COLLECT_AFTER)
    atexit.register(gc.freeze)  # at its end Python searches for cycles in all there is, which takes a second
    before = signal.signal(signal.SIGTERM, _stopping(os.getpid()))
    try:
        try:
            from orchestration.cli import main as command
        except KeyboardInterrupt:
            sys.stderr.write("stopped. Nothing was begun.\n")
            raise SystemExit(130) from None
        command()
    finally:
        signal.signal(signal.SIGTERM, before)


def _stopping(process: int) -> Callable[[int, FrameType | None], None]:
    """Return what a SIGTERM does: it interrupts this process, and ends those that it forks as it would."""

    def stop(number: int, _frame: FrameType | None) -> None:
        if os.getpid() == process:
            raise KeyboardInterrupt
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    return stop


if __name__ == "__main__":
    main()
