"""`python -m rag_assay.crawlers SOURCE`: one crawl in its own process, started by Dagster or by hand.

Exit codes: 0 the crawl ended (failed pages are data), 1 it could not, 2 wrong input.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dagster_pipes import DAGSTER_PIPES_CONTEXT_ENV_VAR, PipesContext, open_dagster_pipes
from pydantic import ValidationError

from rag_assay.crawlers.crawl import crawl, summary
from rag_assay.warehouse.errors import AssayError, InputError
from rag_assay.warehouse.paths import home
from rag_assay.warehouse.processes import end_with_parent
from rag_assay.warehouse.source import Source

DONE, FAILED, WRONG_INPUT = 0, 1, 2


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    end_with_parent()
    if DAGSTER_PIPES_CONTEXT_ENV_VAR in os.environ:
        with open_dagster_pipes() as context:
            return _ended(lambda: _in_pipes(context, options), lambda why: _report(context, why))
    return _ended(lambda: _by_hand(options), _say)


def _ended(work: Callable[[], None], tell: Callable[[str], None]) -> int:
    try:
        work()
    except AssayError as error:
        tell(str(error))
        return WRONG_INPUT if isinstance(error, InputError) else FAILED
    except OSError as error:  # a disk that is full, a folder that cannot be written to
        where = f"{error.filename}: " if error.filename else ""
        tell(f"{where}{error.strerror or error} ({type(error).__name__})")
        return FAILED
    return DONE


def _report(context: PipesContext, why: str) -> None:
    context.report_custom_message({"error": why})


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m rag_assay.crawlers", description="Crawl one source.")
    parser.add_argument("name", metavar="SOURCE", nargs="?", help="name of the source")
    parser.add_argument(
        "--spec", type=Path, metavar="FILE.json", help="the source, as a study file writes it"
    )
    parser.add_argument(
        "--timeout", type=float, default=30, metavar="SECONDS", help="wait this long for one answer"
    )
    return parser.parse_args(arguments)


def _in_pipes(context: PipesContext, options: argparse.Namespace) -> None:
    name = context.extras.get("name") or options.name
    if not name or "source" not in context.extras:
        raise InputError("The extras of the Pipes session need `name` and `source`.")
    source = _source(context.extras["source"], "extras `source`")
    context.log.info(f"crawling `{name}`")
    row = crawl(home(), name, source, progress=context.log.info, timeout=options.timeout)
    context.log.info(summary(row))
    context.report_custom_message(row)


def _by_hand(options: argparse.Namespace) -> None:
    if not options.name or not options.spec:
        raise InputError("Give the name of the source and its --spec FILE.json.")
    try:
        text = options.spec.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--spec {options.spec}: cannot be read ({error}).") from error
    row = crawl(home(), options.name, _source(text, f"--spec {options.spec}"), _say, options.timeout)
    sys.stdout.write(summary(row) + "\n")


def _source(value: Any, where: str) -> Source:
    try:
        return Source.model_validate(json.loads(value) if isinstance(value, str) else value)
    except ValidationError as error:
        lines = (
            f"{where}: {'.'.join(map(str, one['loc'])) or 'source'}: {one['msg']}" for one in error.errors()
        )
        raise InputError(*lines) from error
    except ValueError as error:
        raise InputError(f"{where}: not JSON ({error}).") from error


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
