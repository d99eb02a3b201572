"""A plan on a terminal: what is done and to do, and what models would be asked and paid."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from rag_assay.evals.reporting.display import several
from rag_assay.evals.study.run_plan import CallEstimate, CostRange, RunPlan, added, passed_caps, total
from rag_assay.evals.study.sections import StudyBudget
from rag_assay.orchestration.terminal.cli_errors import console, text, width

TEXTS = 10  # indexes whose texts are told


def show_plan(found: RunPlan, estimates: Sequence[CallEstimate], budget: StudyBudget | None = None) -> None:
    out = console(width=width())
    again = found.replicates - len(found.cells)
    out.print(
        text(several(len(found.cells), "cell") + (f", {several(again, 'replicate')} more" if again else ""))
    )
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("stage")
    for name in ("keys", "up to date", "to do", "of these unknown yet"):
        table.add_column(name, justify="right")
    for stage in found.stages:
        numbers = (stage.keys, stage.done, stage.to_do, stage.unknown or "·")
        table.add_row(stage.stage, *map(str, numbers))
    out.print(table)
    waiting = {key: texts for key, texts in found.texts_to_embed.items() if texts != 0}
    for key, texts in list(waiting.items())[:TEXTS]:
        what = "unknown until its chunks are built" if texts is None else several(texts, "text")
        out.print(text(f"to embed for {key}: {what}"))
    if len(waiting) > TEXTS:
        out.print(text(f"to embed for {several(len(waiting) - TEXTS, 'further index')}"))
    show_estimates(estimates, budget)


def show_estimates(estimates: Sequence[CallEstimate], budget: StudyBudget | None = None) -> None:
    """Print what models would be asked, from the least to the most, and the caps that the least passes."""
    out = console(width=width())
    if not estimates:
        out.print(text("no model is called, so nothing costs money"))
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("asked for", "model"):
        table.add_column(name, overflow="fold")
    for name in ("calls", "tokens read", "written", "US$"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in estimates:
        spans = (_whole(row.calls), _whole(row.read), _whole(row.written), usd(row.usd))
        table.add_row(text(row.what), text(row.model), *map(text, spans))
    out.print(table)
    for row in estimates:
        if row.why:
            out.print(text(f"{row.what}: {row.why}", "yellow"))
    unpriced = sorted({row.model for row in estimates if row.usd is None})
    calls = _whole(added(row.calls for row in estimates))
    tokens = _whole(added(span for row in estimates for span in (row.read, row.written)))
    sums = f"in all: {calls} calls, {tokens} tokens, US$ {usd(total(estimates))}"
    out.print(text(f"{sums}; calls in the cache cost nothing", "bold"))
    if unpriced:
        out.print(text(f"US dollars, without calls of unknown price: {', '.join(unpriced)}", "yellow"))
    if budget:
        out.print(text(f"budget of a run: {', '.join(budget.caps.in_words())}"))
    for sentence in passed_caps(budget, estimates):
        out.print(text(sentence, "yellow"))


def _whole(span: CostRange) -> str:
    least = f"{round(span.least):,}"
    if span.most is None:
        return f"{least} or more"
    most = f"{round(span.most):,}"
    return least if least == most else f"{least}–{most}"


def usd(span: CostRange | None) -> str:
    """Write US dollars from the least to the most, to the hundredth of a cent.

    >>> ranges = CostRange(0, 0), CostRange(0.5, 1.25), CostRange(0.00001, 0.1), CostRange(2, None), None
    >>> tuple(map(usd, ranges))
    ('0', '0.50–1.25', '0.00–0.10', '2.00 or more', 'price not known')
    """
    if span is None:
        return "price not known"
    if span == (0, 0):
        return "0"
    if span.most is None:
        return f"{_dollars(span.least)} or more"
    least, most = _dollars(span.least), _dollars(span.most)
    return least if least == most else f"{least}–{most}"


def _dollars(value: float) -> str:
    return f"{value:,.2f}" if value >= 0.01 or value < 0.00005 else f"{value:.4f}"
