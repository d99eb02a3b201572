"""`assay`: the commands, thin over the same assets that the Dagster UI shows.

Exit codes: 0 done, 1 some cells failed, 2 wrong input, 3 a gate failed, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import io
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from rag_assay.orchestration import commands
from rag_assay.orchestration.terminal.cli_errors import DONE, example

COMMANDS: dict[str, dict[str, tuple[str, list[str]]]] = {
    "Start": {
        "try": ("try_command.try_out", ["assay try docs/"]),
        "init": ("init.init", ["assay init docs/", "assay init https://example.org/ -o site.yaml"]),
        "questions": ("questions.app", ["assay questions make study.yaml --n 50"]),
        "check": ("show.check", ["assay check study.yaml"]),
        "run": (
            "run.run",
            [
                "assay run demo",
                "assay run study.yaml --dry-run",
                "assay run demo --cells '*.hybrid.*' --questions 20",
                "assay run demo --recrawl posts --only documents",
                "assay run demo --fail-under ndcg@10=0.6 --junit results.xml",
            ],
        ),
        "components": ("parts.parts", ["assay components retrievers"]),
        "schema": ("parts.schema", ["assay schema -o study.schema.json"]),
    },
    "Look": {
        "ui": ("ui.ui", ["assay ui demo --open", "assay ui demo --page chat"]),
        "list": ("show.list_studies", ["assay list", "assay list demo --format html"]),
        "report": ("report.report", ["assay report demo --open", "assay report demo --format csv"]),
        "verdict": ("report.verdict", ["assay verdict demo"]),
        "show": ("show.show", ["assay show demo blog-01"]),
        "documents": (
            "show.documents",
            ["assay documents demo", "assay documents docs --lost"],
        ),
        "diff": ("show.diff", ["assay diff demo@1 demo"]),
    },
    "Ask and ship": {
        "ask": ("ask.ask", ["assay ask demo blog-01", 'assay ask demo "What does a berth cost?"']),
        "corpus": (
            "corpus.app",
            ["assay corpus build docs/", 'assay corpus query "What does a berth cost?"'],
        ),
        "export": ("export.export", ["assay export demo best/"]),
        "serve": ("serve.serve", ["assay serve best/", "assay serve demo --port 8600"]),
        "mcp": ("mcp.mcp", ["assay mcp study.yaml --budget-usd 1"]),
    },
    "Ratings": {
        "ratings": (
            "ratings.app",
            ["assay ratings queue demo anna.xlsx --annotator Anna"],
        ),
    },
    "Operate": {
        "dev": ("dev.dev", ["assay dev"]),
        "alerts": ("alerts.alerts", ["assay alerts demo --test"]),
        "usage": ("usage.usage", ["assay usage demo", "assay usage --format csv --panel models"]),
        "models": ("models.app", ["assay models list"]),
        "workspace": ("workspace.app", ["assay workspace rebuild"]),
    },
}
"""Panel of the help -> command -> what runs it, and examples of it."""


class _OnDemand(dict[str, Any]):
    """Commands by name; one is imported when it is looked up, so that no start pays for the others."""

    def __getitem__(self, name: str) -> Any:
        panel, place, examples = super().__getitem__(name)
        module, _, function = place.partition(".")
        command = getattr(import_module(f"{commands.__name__}.{module}"), function)
        alone, options = typer.Typer(), {"rich_help_panel": panel, "epilog": example(*examples)}
        if isinstance(command, typer.Typer):
            alone.add_typer(command, name=name, **options)
        else:
            alone.command(name, **options)(command)
        return get_group(alone).commands[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401 -- that would call this

    def items(self) -> Any:
        return [(name, self[name]) for name in self]


class _Commands(TyperGroup):
    """All commands, in the order of `COMMANDS`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = _OnDemand(
            (name, (panel, *of_command))
            for panel, of_panel in COMMANDS.items()
            for name, of_command in of_panel.items()
        )


app = typer.Typer(
    cls=_Commands,
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
