"""How every command speaks: consoles that print text as it is, and sentences in place of stack traces."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from functools import wraps
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from rag_assay.evals.reporting.display import plain
from rag_assay.orchestration.shutdown import STOPPED, stopped_sentence
from rag_assay.warehouse.errors import AssayError, InputError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

DONE, FAILED, WRONG_INPUT, GATE_FAILED = 0, 1, 2, 3
WIDEST = 140


def plainly(command: Callable[..., int | None]) -> Callable[..., None]:
    """Turn what a user can fix into a sentence and an exit code, never a stack trace."""

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            code = command(*args, **kwargs) or DONE
        except InputError as error:
            say(*(f"error: {finding}" for finding in error.findings))
            code = WRONG_INPUT
        except AssayError as error:
            say(f"error: {error}")
            code = FAILED
        except KeyboardInterrupt:
            say(stopped_sentence())
            code = STOPPED
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = DONE
        except OSError as error:  # a disk that is full, a folder that cannot be written to
            where = f"{error.filename}: " if error.filename else ""
            say(f"error: {where}{error.strerror or error}")
            code = FAILED
        raise typer.Exit(code)

    return run


def say(*sentences: str) -> None:
    """Print to stderr: results alone go to standard output."""
    for sentence in sentences:
        print(plain(sentence), file=sys.stderr, flush=True)


def width(narrowest: int = 80) -> int:
    """Return how many columns there are to write in; 100 where there is no terminal."""
    return min(WIDEST, max(narrowest, shutil.get_terminal_size((100, 24)).columns))


def console(file: IO[str] | None = None, **options: Any) -> Console:
    """Return a console on which names, reasons and crawled text are text: never markup, never emoji."""
    from rich.console import Console

    return Console(file=file, markup=False, highlight=False, emoji=False, **options)


def text(words: str, style: str = "") -> Text:
    """Return words for a console, without control characters, which could move its cursor or forge lines."""
    from rich.text import Text

    return Text(plain(words), style=style)


def example(*commands: str) -> str:
    return "\n  ".join(["Example:" if len(commands) == 1 else "Examples:", *commands])


def complete_study(incomplete: str) -> list[str]:
    from rag_assay.evals.study.study_names import known_names

    return [name for name in known_names() if name.startswith(incomplete)]


StudyArgument = Annotated[
    str,
    typer.Argument(
        metavar="STUDY", help="A study's name, or the path of a study file.", autocompletion=complete_study
    ),
]
CellOption = Annotated[
    str | None,
    typer.Option(
        metavar="CELL", help="chunking.embedder.retriever.generator; default: the recommended cell."
    ),
]
