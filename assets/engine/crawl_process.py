"""Runs `python -m crawlers` as a child process under Dagster Pipes and reads its report."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from rag_assay.assets.engine.stage import BuildContext
from rag_assay.warehouse.cancellation import LOOK, CancelledError, is_cancelled
from rag_assay.warehouse.cooperative_scheduler import release_turn
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.processes import LIFELINE, lifeline
from rag_assay.warehouse.source import Source

ROOT = Path(__file__).parents[3]  # the folder of the package rag_assay
PATIENCE = 2.5  # seconds that an interrupted crawl has to end in good order
MAX_LINES = 20  # lines that a crawl may say on stderr; the rest is in its log
AS_CALLS = 16  # model calls that a crawl counts as, so that four are under way at once (`builder.ROOM`)


def run_crawler(name: str, source: Source, work: BuildContext) -> dict[str, Any]:
    """Crawl a source in a child process; return the row of its crawl (`schemas.CRAWLS`). Raises AssayError:
    the crawl failed; the message has the reason or the path of the log.
    """
    import dagster as dg

    lines: deque[str] = deque(maxlen=MAX_LINES)
    with dg.open_pipes_session(
        context=work.dagster,
        context_injector=dg.PipesTempFileContextInjector(),
        message_reader=dg.PipesTempFileMessageReader(),
        extras={"name": name, "source": source.model_dump(mode="json")},
    ) as session:
        environment = {
            **os.environ,
            "ASSAY_HOME": str(work.home.root),
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
            **session.get_bootstrap_env_vars(),
        }
        code = _run(
            [sys.executable, "-m", "rag_assay.crawlers", name], environment, _teller(name, lines, work)
        )
    messages = [one for one in session.get_custom_messages() if isinstance(one, dict)]
    rows = [one for one in messages if "crawl_id" in one]
    if code == 0 and rows:
        return dict(rows[-1])
    errors = [str(one["error"]) for one in messages if "error" in one]
    log = work.home.crawls / name / "crawl.log"
    where = f"; its log is {log}" if not errors and source.spider and log.exists() else ""
    raise AssayError(f"source {name}: {errors[-1] if errors else _why(code, lines)}{where}")


def _why(code: int, lines: deque[str]) -> str:
    if code < 0:
        return f"the crawler was killed by {signal.Signals(-code).name}; what it stored is kept"
    return f"the crawler ended with exit code {code}{f' ({lines[-1]})' if lines else ''}"


def _teller(name: str, lines: deque[str], work: BuildContext) -> Callable[[str], None]:
    n_lines = 0

    def tell(line: str) -> None:
        nonlocal n_lines
        lines.append(line)
        n_lines += 1
        if n_lines <= MAX_LINES:
            work.progress(f"{name}: {line}", 0, 0)

    return tell


def _run(command: list[str], environment: dict[str, str], tell: Callable[[str], None]) -> int:
    """Run a crawler to its end and return its exit code. It has a session of its own, for Scrapy takes a
    second Ctrl-C as a request to stop at once.
    """
    with lifeline() as end:
        process = subprocess.Popen(
            command,
            env={**environment, LIFELINE: str(end)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=(end,),
            start_new_session=True,
        )
        listener = threading.Thread(target=_listen, args=(process.stderr, tell), daemon=True)
        listener.start()
        try:
            with release_turn(lambda: AS_CALLS):  # another source is crawled meanwhile
                code = _wait(process)
        except BaseException:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=PATIENCE)
            except BaseException:  # too late, or interrupted once more: what it stored is kept either way
                process.kill()
                process.wait()
            raise
        finally:
            listener.join(timeout=5)
    return code


def _wait(process: subprocess.Popen[bytes]) -> int:
    while True:
        try:
            return process.wait(timeout=LOOK)
        except subprocess.TimeoutExpired:
            if is_cancelled():
                raise CancelledError from None


def _listen(stream: IO[bytes] | None, tell: Callable[[str], None]) -> None:
    for line in stream or ():
        if text := line.decode("utf-8", "replace").strip():
            tell(text)
