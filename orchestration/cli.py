"""`assay`: the commands, thin over the same assets that the Dagster UI shows.

Exit codes: 0 done, 1 some cells failed, 2 wrong input, 3 a gate failed, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperGroup

from rag_assay.orchestration.commands import (
    alerts,
    ask,
    changes,
    corpus,
    dev,
    documents,
    export,
    init,
    mcp,
    models,
    parts,
    questions,
    ratings,
    report,
    run,
    serve,
    show,
    try_command,
    ui,
    usage,
    workspace,
)
from rag_assay.orchestration.terminal.cli_errors import DONE, example

COMMANDS: dict[str, dict[str, tuple[Callable[..., None] | typer.Typer, list[str]]]] = {
    "Start": {
        "try": (try_command.try_out, ["assay try docs/"]),
        "init": (init.init, ["assay init docs/", "assay init https://example.org/ -o site.yaml"]),
        "questions": (questions.app, ["assay questions make study.yaml --n 50"]),
        "check": (show.check, ["assay check study.yaml"]),
        "run": (
            run.run,
            [
                "assay run demo",
                "assay run study.yaml --dry-run",
                "assay run demo --cells '*.hybrid.*' --questions 20",
                "assay run demo --recrawl posts --only documents",
                "assay run demo --fail-under ndcg@10=0.6 --junit results.xml",
            ],
        ),
        "components": (parts.parts, ["assay components retrievers"]),
        "schema": (parts.schema, ["assay schema -o study.schema.json"]),
    },
    "Look": {
        "ui": (ui.ui, ["assay ui demo --open", "assay ui demo --page chat"]),
        "list": (show.list_studies, ["assay list", "assay list demo --format html"]),
        "report": (report.report, ["assay report demo --open", "assay report demo --format csv"]),
        "verdict": (report.verdict, ["assay verdict demo"]),
        "show": (show.show, ["assay show demo blog-01"]),
        "documents": (
            documents.documents,
            ["assay documents demo", "assay documents docs --lost"],
        ),
        "diff": (changes.diff, ["assay diff demo@1 demo"]),
    },
    "Ask and ship": {
        "ask": (ask.ask, ["assay ask demo blog-01", 'assay ask demo "What does a berth cost?"']),
        "corpus": (corpus.app, ["assay corpus build docs/", 'assay corpus query "What does a berth cost?"']),
        "export": (export.export, ["assay export demo best/"]),
        "serve": (serve.serve, ["assay serve best/", "assay serve demo --port 8600"]),
        "mcp": (mcp.mcp, ["assay mcp study.yaml --budget-usd 1"]),
    },
    "Ratings": {
        "ratings": (
            ratings.app,
            ["assay ratings queue demo anna.xlsx --annotator Anna"],
        ),
    },
    "Operate": {
        "dev": (dev.dev, ["assay dev"]),
        "alerts": (alerts.alerts, ["assay alerts demo --test"]),
        "usage": (usage.usage, ["assay usage demo", "assay usage --format csv --panel models"]),
        "models": (models.app, ["assay models list"]),
        "workspace": (workspace.app, ["assay workspace rebuild"]),
    },
}
"""Panel of the help -> command -> what runs it, and examples of it."""


class _InOrder(TyperGroup):
    """Lists the commands as `COMMANDS` does: Typer would list all groups last."""

    def list_commands(self, ctx: object) -> list[str]:
        return [name for panel in COMMANDS.values() for name in panel]


app = typer.Typer(
    cls=_InOrder,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=example("assay try docs/", "assay run demo", "assay report demo --open"),
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"rag-assay {version('rag-assay')}")
        raise typer.Exit(DONE)


@app.callback()
def assay(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Find out which chunking, embedder, retriever and model answer best on your own documents.

    STUDY is the path of a study file, or a name: of a file in ASSAY_STUDIES, or of a study that was run.
    Workspace: ASSAY_HOME; default: `var` in the nearest folder upwards with `study.yaml` or `.git`.
    Results go to standard output, messages to standard error.
    Exit codes: 0 done, 1 some cells failed, 2 wrong input, 3 a gate failed, 130 stopped by Ctrl-C.
    """


for _panel, _commands in COMMANDS.items():
    for _name, (_command, _examples) in _commands.items():
        if isinstance(_command, typer.Typer):
            app.add_typer(_command, name=_name, rich_help_panel=_panel, epilog=example(*_examples))
        else:
            app.command(_name, rich_help_panel=_panel, epilog=example(*_examples))(_command)


def main() -> None:
    """Run the command line, whatever the terminal: one without UTF-8 sees `?` for what it cannot show."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the shell: `2>&-`
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 -- for as long as we run
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    app()


if __name__ == "__main__":
    main()
