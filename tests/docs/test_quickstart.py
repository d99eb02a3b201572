"""The quickstart does what it says: its files, commands and outputs, in their order; so do two examples."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.commands import Done, assay

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SECONDS = re.compile(r" · [\d.]+ s$")
RUN: dict[str, int | None] = {"quickstart.md": None, "documents.md": 1, "grid.md": 1}
"""Page -> how many of its blocks of output are reached; None: all."""


def is_run(page: str, outputs: int) -> bool:
    """Return whether a page is run beyond so many blocks of output."""
    return page in RUN and (RUN[page] is None or outputs < RUN[page])


def place(folder: Path, told: str, text: str) -> None:
    """Write a block with `file=NAME`, or put one with `append-after=LINE` behind that line of the study."""
    how, _, value = told.strip().partition("=")
    if how == "file":
        path = folder / value
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    elif how == "append-after":
        study = folder / "study.yaml"
        before = study.read_text(encoding="utf-8")
        assert f"\n{value}\n" in before
        study.write_text(before.replace(f"\n{value}\n", f"\n{value}\n{text}", 1), encoding="utf-8")
    else:
        raise AssertionError(f"a block of the quickstart without a use: {told!r}")


def lines_of(text: str) -> list[str]:
    """Return the lines of an output without times, blanks around them, and what stands for left-out text."""
    lines = (SECONDS.sub("", line.strip()).strip(" ·…") for line in text.splitlines())
    return [line for line in lines if line]


def run_blocks(page: str, folder: Path) -> list[tuple[str, Done]]:
    """Write the files of a page, run its commands, and compare what they print with the blocks of output."""
    environment = {"ASSAY_HOME": str(folder / "var"), "DAGSTER_HOME": "", "COLUMNS": "100"}
    ran: list[tuple[str, Done]] = []
    printed: list[str] = []
    outputs = 0
    for language, told, text in BLOCK.findall((DOCS / page).read_text(encoding="utf-8")):
        if language == "sh":
            printed = []
            for line in text.splitlines():
                assert line.startswith("assay "), line
                done = assay(*shlex.split(line)[1:], folder=folder, **environment)
                assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
                ran.append((line, done))
                printed += lines_of(done.stderr + done.stdout)
        elif language == "text":
            missing = [one for one in lines_of(text) if not any(one in other for other in printed)]
            assert missing == [], f"{page}: {ran[-1][0]} prints:\n" + "\n".join(printed)
            outputs += 1
            if not is_run(page, outputs):
                break
        elif told:
            place(folder, told, text)
    return ran


@pytest.mark.models
def test_the_quickstart(tmp_path: Path, weights: Callable[[str], Path]) -> None:
    weights("all-MiniLM-L6-v2")
    ran = run_blocks("quickstart.md", tmp_path)
    assert [line for line, _ in ran].count("assay run study.yaml") == 3
    assert (tmp_path / "var" / "reports").exists()
    home = str(tmp_path / "var")
    report = assay("report", "study.yaml", "--format", "json", folder=tmp_path, ASSAY_HOME=home)
    cells = {row["cell"] for row in json.loads(report.stdout) if row["cell"]}  # rows of an axis have none
    assert len(cells) == 8  # two chunk sizes, three retrievers and the one that was added
    run_blocks("documents.md", tmp_path)

    (tmp_path / "var").rename(tmp_path / "earlier")  # whose corpus has another source
    example = next(
        text
        for language, _, text in BLOCK.findall((DOCS / "grid.md").read_text("utf-8"))
        if language == "yaml"
    )
    (tmp_path / "study.yaml").write_text(example, encoding="utf-8")
    (tmp_path / "study.questions.yaml").rename(tmp_path / "handbook.questions.yaml")
    run_blocks("grid.md", tmp_path)
