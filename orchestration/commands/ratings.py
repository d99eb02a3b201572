"""`assay ratings`: exports and imports ratings as spreadsheets; the app takes them on its page Review."""

from __future__ import annotations

import typer

from rag_assay.orchestration.commands import import_scores, spreadsheets
from rag_assay.orchestration.terminal.cli_errors import example

app = typer.Typer(
    no_args_is_help=True,
    help="Export and import ratings as spreadsheets; `assay ui --page review` takes them in the browser.",
)
app.command("queue", epilog=example("assay ratings queue demo anna.xlsx --annotator Anna"))(
    spreadsheets.export_queue
)
app.command(
    "import", epilog=example("assay ratings import anna.xlsx", "assay ratings import scores.csv --guess")
)(import_scores.import_scores)
app.command("export", epilog=example("assay ratings export demo ratings.csv"))(spreadsheets.export_scores)
