"""`assay ratings`: what annotators say of the answers of a study, on a page or in spreadsheets."""

from __future__ import annotations

import typer

from rag_assay.orchestration.commands import annotate, import_scores, spreadsheets
from rag_assay.orchestration.terminal.cli_errors import example

app = typer.Typer(
    no_args_is_help=True, help="Rate answers on a page or in spreadsheets; import and export ratings."
)
app.command("annotate", epilog=example("assay ratings annotate demo --annotator Anna --open"))(
    annotate.annotate
)
app.command("queue", epilog=example("assay ratings queue demo anna.xlsx --annotator Anna"))(
    spreadsheets.export_queue
)
app.command(
    "import", epilog=example("assay ratings import anna.xlsx", "assay ratings import scores.csv --guess")
)(import_scores.import_scores)
app.command("export", epilog=example("assay ratings export demo ratings.csv"))(spreadsheets.export_scores)
