"""A Dagster project as `create-dagster` makes one, with packages named as ours and an asset `documents`."""

from __future__ import annotations

from pathlib import Path

FILES = {
    "pyproject.toml": """\
[project]
name = "shop"
version = "0.1"
[tool.dg]
directory_type = "project"
[tool.dg.project]
root_module = "shop"
""",
    "src/assets/__init__.py": "",
    "src/assets/lines.py": "def count_lines(text: str) -> int:\n    return len(text.splitlines())\n",
    "src/evals/__init__.py": "",
    "src/shop/__init__.py": "",
    "src/shop/definitions.py": """\
from pathlib import Path

import dagster as dg


@dg.definitions
def defs() -> dg.Definitions:
    return dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
""",
    "src/shop/defs/__init__.py": "",
    "src/shop/defs/theirs.py": """\
import dagster as dg
from assets.lines import count_lines


@dg.asset(group_name="shop")
def documents() -> int:
    return count_lines("one\\ntwo")


@dg.asset(group_name="shop")
def report(documents: int) -> int:
    return documents + 1


@dg.job
def study_town() -> None: ...
""",
}


def write_project(root: Path, component: str) -> Path:
    """Write the project with a component; return the component's folder."""
    folder = root / "src" / "shop" / "defs" / "quality"
    for name, text in {**FILES, "src/shop/defs/quality/defs.yaml": component}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return folder
