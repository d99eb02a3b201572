"""What GitHub Actions shows of a run: annotations at lines of a file, and a summary in Markdown.

An annotation is a line that the runner reads from the output of a step
(docs.github.com, "Workflow commands for GitHub Actions").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rag_assay.evals.reporting.display import plain, truncate
from rag_assay.evals.reporting.markdown import escape_markdown

LONGEST = 2_000  # characters of a message


@dataclass(frozen=True)
class WorkflowAnnotation:
    """A sentence at a line of a file of the repository, from 1."""

    level: Literal["error", "warning", "notice"]
    title: str
    message: str
    file: str = ""
    line: int = 0

    @property
    def command(self) -> str:
        """The line by which the runner knows it.

        >>> WorkflowAnnotation("error", "answers: x", "50% failed\\nno key", "a,b.yaml", 3).command
        '::error file=a%2Cb.yaml,line=3,title=answers%3A x::50%25 failed%0Ano key'
        """
        properties = {"file": self.file, "line": str(self.line) if self.line else "", "title": self.title}
        listed = ",".join(f"{name}={_property(value)}" for name, value in properties.items() if value)
        return f"::{self.level} {listed}::{_data(truncate(plain(self.message), LONGEST))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(plain(text)).replace(":", "%3A").replace(",", "%2C")


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown; a cell's text is shown as it is.

    >>> print(markdown_table(["a"], [["x|y"]]))
    | a |
    | --- |
    | x\\|y |
    """
    lines = [head, ["---"] * len(head), *([escape_markdown(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
