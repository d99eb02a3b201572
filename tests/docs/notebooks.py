"""Runs the notebooks of the docs without Jupyter; `python -m tests.docs.notebooks` stores their outputs."""

from __future__ import annotations

import ast
import io
import json
import os
import re
import shlex
import sys
import tempfile
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any

from tests.conftest import REPOSITORY
from tests.fakes.commands import assay

NOTEBOOKS = REPOSITORY / "docs" / "notebooks"
Cell = dict[str, Any]


def outputs_of(notebook: Path, folder: Path) -> list[list[Cell]]:
    """Execute the code cells of a notebook in a folder; return the outputs of each as Jupyter stores them.

    Raises:
        Exception: of a cell, as a kernel would stop there.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    with chdir(folder):
        code = [cell for cell in cells if cell["cell_type"] == "code"]
        return [_outputs("".join(cell["source"]), names, number) for number, cell in enumerate(code, 1)]


def _outputs(source: str, names: dict[str, Any], number: int) -> list[Cell]:
    if source.startswith("!assay "):
        done = assay(*shlex.split(source)[1:], folder=Path.cwd())
        assert done.returncode == 0, done.stderr
        return [{"output_type": "stream", "name": "stdout", "text": _lines(done.stdout + done.stderr)}]
    tree = ast.parse(source, f"cell {number}")
    is_shown = bool(tree.body) and not source.rstrip().endswith(";")
    last = tree.body.pop() if is_shown and isinstance(tree.body[-1], ast.Expr) else None
    value = None
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, f"cell {number}", "exec"), names)  # noqa: S102 -- our own notebooks
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)  # noqa: S307
    found: list[Cell] = []
    if text := printed.getvalue():
        found.append({"output_type": "stream", "name": "stdout", "text": _lines(text)})
    if value is not None:
        html = getattr(value, "_repr_html_", lambda: None)()
        data = {"text/plain": _lines(repr(value)), **({"text/html": _lines(html)} if html else {})}
        found.append(
            {"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": data}
        )
    return found


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def store(notebook: Path) -> None:
    """Execute a notebook and store its outputs in it."""
    data = json.loads(notebook.read_text("utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ASSAY_HOME"] = f"{folder}/var"
        outputs = outputs_of(notebook, Path(folder))
    code = [cell for cell in data["cells"] if cell["cell_type"] == "code"]
    for number, (cell, found) in enumerate(zip(code, outputs, strict=True), 1):
        cell |= {"outputs": found, "execution_count": number}
    notebook.write_text(json.dumps(data, ensure_ascii=False, indent=1) + "\n", "utf-8")


def stored_outputs(notebook: Path) -> list[list[Cell]]:
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    return [cell["outputs"] for cell in cells if cell["cell_type"] == "code"]


def _text(data: Cell) -> list[str]:
    found: list[str] = data.get("text/html") or data["text/plain"]
    return found


def comparable(outputs: list[list[Cell]]) -> list[str]:
    """Return the texts of outputs, with two digits of each number: machines differ in the others."""
    shown = [out.get("text") or _text(out["data"]) for cell in outputs for out in cell]
    texts = ["".join(one) for one in shown]
    return [re.sub(r"(\d\.\d\d)\d+", r"\1", one) for one in texts]


if __name__ == "__main__":
    for name in sys.argv[1:] or sorted(map(str, NOTEBOOKS.glob("*.ipynb"))):
        store(Path(name))
