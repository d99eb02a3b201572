"""The tutorial does what it says: its files and commands, in their order, as a reader would type them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.commands import Done, assay

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


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
        raise AssertionError(f"a block of the tutorial that nobody uses: {told!r}")


@pytest.mark.models
def test_the_tutorial(tmp_path: Path, weights: Callable[[str], Path]) -> None:
    weights("all-MiniLM-L6-v2")
    ran: list[tuple[str, Done]] = []
    for language, told, text in BLOCK.findall(TUTORIAL.read_text(encoding="utf-8")):
        if language != "sh":
            place(tmp_path, told, text)
            continue
        for line in text.splitlines():
            assert line.startswith("assay "), line
            home = str(tmp_path / "var")
            done = assay(*line.split()[1:], folder=tmp_path, ASSAY_HOME=home, DAGSTER_HOME="", COLUMNS="100")
            assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
            ran.append((line, done))
    runs = [done for line, done in ran if line == "assay run study.yaml"]
    assert len(runs) == 3
    assert (tmp_path / "var" / "reports").exists()
    assert "tied with it" in " ".join(runs[0].stdout.split())
    rows = json.loads(ran[-1][1].stdout)
    cells = {row["cell"] for row in rows if row["cell"]}  # rows of an axis have none
    assert len(cells) == 8  # two chunk sizes, three retrievers and the one that was added
    best = max(row["value"] for row in rows if row["metric"] == "evidence_coverage@2000tokens")
    assert best == 1.0  # the quotes are on their pages
