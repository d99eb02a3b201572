"""What judges said of an answer, on a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from rag_assay.evals.reporting.answers import ShownJudgements
from rag_assay.evals.reporting.display import several, truncate
from rag_assay.orchestration.terminal.cli_errors import text

STATEMENTS = 12  # of a judgement that are shown
TEXT = 160  # characters of a reason or a statement


def judgement_lines(shown: ShownJudgements) -> Iterator[Text]:
    """Yield each judgement with its reason, and below it what it was made of."""
    for one in shown.judgements:
        reason = f": {_plain(one.reason)}" if one.reason else ""
        yield text(f"  {one.metric} {one.said}{reason}", "dim" if one.good else "yellow")
        for each in one.statements:
            verdict = f"{_plain(each.verdict)} · " if each.verdict else ""
            why = f": {_plain(each.reason)}" if each.reason else ""
            yield text(f"    {verdict}“{_plain(each.text)}” ({_plain(each.of)}){why}", "dim")
        if one.left_out:
            yield text(f"    {several(one.left_out, 'further statement')}", "dim")


def _plain(said: str) -> str:
    return truncate(" ".join(said.split()), TEXT)
