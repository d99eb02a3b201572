"""`assay` as tests call it: in this process, which has paid for the imports, or in a process of its own.

A test that is about the process (signals, a closed stderr, a lock that another process holds, what is printed
at exit) starts one; any other calls the same entry point here.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO
from unittest.mock import patch

import typer.main

from rag_assay.orchestration import start
from tests.fakes.processes import ROOT, assay_command

Done = subprocess.CompletedProcess[str]
_command_of = cache(typer.main.get_command)  # takes longer than many commands


def assay(*arguments: str, folder: Path = ROOT, **environment: str) -> Done:
    """Run a command in this process; return its exit code and what it and its children printed."""
    code: object = 0
    before = Path.cwd()
    with (
        TemporaryFile() as out,
        TemporaryFile() as err,
        patch.dict(os.environ, environment),
        patch.object(sys, "argv", ["assay", *arguments]),
        patch.object(typer.main, "get_command", _command_of),
        patch.object(logging.getLogger(), "handlers", []),  # warnings go to stderr, not to pytest
    ):
        with _leading_to(1, out), _leading_to(2, err):
            os.chdir(folder)
            try:
                start.run()
            except SystemExit as end:
                code = end.code
            finally:
                os.chdir(before)
        assert code is None or isinstance(code, int), code
        return Done(arguments, code or 0, _text_of(out), _text_of(err))


def assay_process(*arguments: str, **environment: str) -> Done:
    """Run a command as a shell does, in a process of its own."""
    return subprocess.run(
        assay_command(*arguments),
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )


@contextmanager
def _leading_to(descriptor: int, file: IO[bytes]) -> Iterator[None]:
    """Let a descriptor of this process, and Python's stream of its name, lead to a file."""
    name = {1: "stdout", 2: "stderr"}[descriptor]
    getattr(sys, name).flush()
    kept = os.dup(descriptor)
    # It stays open: a logger may keep the stream, and shall write to what stands behind the descriptor then.
    stream = open(descriptor, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    os.dup2(file.fileno(), descriptor)
    try:
        with patch.object(sys, name, stream):
            yield
    finally:
        stream.flush()
        os.dup2(kept, descriptor)
        os.close(kept)


def _text_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")
