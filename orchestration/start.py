"""The entry point of `assay`: small, so that being stopped while the rest is imported is no traceback."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

from rag_assay.orchestration import unchanged
from rag_assay.orchestration.collection import collect_seldom
from rag_assay.orchestration.shutdown import STOPPED, end_at_once_after, guard, stopped_sentence, was_stopped
from rag_assay.warehouse.lazy_imports import import_lazily


def main() -> None:
    """Run the command line in a process of its own, which ends within seconds of any signal to stop."""
    collect_seldom()
    code = [1]  # that of an uncaught error
    end_at_once_after(code)
    guard()
    try:
        if not unchanged.answer(sys.argv[1:]):
            run()
        code[0] = 0
    except KeyboardInterrupt:  # outside of any command
        code[0] = STOPPED
        sys.stderr.write(f"{stopped_sentence()}\n")
    except SystemExit as ended:
        code[0] = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        raise


def run() -> None:
    """Import the command line and run it; a SIGTERM counts as Ctrl-C. Stopped before, exit with 130."""
    before = signal.signal(signal.SIGTERM, _stopping(os.getpid()))
    try:
        try:
            if unchanged.is_look(sys.argv[1:]):
                os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # it would search every package
                import_lazily(
                    "numpy", "numpy.typing", "polars", "pyarrow", "pyarrow.parquet", "httpx", "httpcore"
                )
            from rag_assay.orchestration.cli import main as command

            is_stopped = was_stopped()  # a module that was being imported may have swallowed it
        except KeyboardInterrupt:
            is_stopped = True
        if is_stopped:
            sys.stderr.write("stopped before the run began.\n")
            raise SystemExit(STOPPED)
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
