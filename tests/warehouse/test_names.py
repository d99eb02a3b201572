"""The five top-level names are ours: an installed package of the same name would take their place."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMES = ("orchestration", "crawlers", "warehouse", "assets", "evals")
OURS = "rag-assay"


def rivals(provided: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Name -> the installed distributions beside our own that provide a top-level package of that name."""
    others = {name: sorted(set(provided.get(name, ())) - {OURS}) for name in NAMES}
    return {name: found for name, found in others.items() if found}


@pytest.mark.parametrize("name", NAMES)
def test_each_name_is_the_folder_of_this_repository(name: str) -> None:
    spec = find_spec(name)
    assert spec is not None
    assert spec.origin is not None, "a namespace package: another folder of that name could join it"
    assert Path(spec.origin) == ROOT / name / "__init__.py"


def test_no_other_distribution_provides_one_of_our_names() -> None:
    assert not rivals(packages_distributions())


def test_a_rival_is_noticed() -> None:
    assert rivals({"evals": [OURS, "openai-evals"], "numpy": ["numpy"]}) == {"evals": ["openai-evals"]}


def test_each_name_is_ours_for_the_installed_command_too() -> None:
    try:
        distribution(OURS)
    except PackageNotFoundError:
        pytest.skip(f"{OURS} is not installed here")
    code = (
        f"import importlib; print(*(importlib.import_module(name).__file__ for name in {NAMES!r}), sep='\\n')"
    )
    command = [sys.executable, "-P", "-c", code]
    done = subprocess.run(command, cwd="/", env={}, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(ROOT / name / "__init__.py") for name in NAMES]
