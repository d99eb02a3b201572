"""Each notebook of the docs runs, and shows what is stored in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.notebooks import NOTEBOOKS, comparable, outputs_of, stored_outputs

pytestmark = pytest.mark.models
NAMES = ("first_study", "your_system", "judging_and_ratings")


def test_all_notebooks_are_run() -> None:
    assert sorted(one.stem for one in NOTEBOOKS.glob("*.ipynb")) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_shows_what_it_gives(
    name: str, weights: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights("all-MiniLM-L6-v2")
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "var"))
    monkeypatch.setenv("DAGSTER_HOME", "")
    path = NOTEBOOKS / f"{name}.ipynb"
    notebook = json.loads(path.read_text("utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    found = outputs_of(path, tmp_path)
    assert comparable(found) == comparable(stored_outputs(path))
    html = [out for cell in found for out in cell if "text/html" in out.get("data", {})]
    assert html, "results are shown as tables"
