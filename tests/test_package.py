"""The distribution installs one import package, so that it fits beside anyone's own `assets/` or `evals/`."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("assets", "crawlers", "evals", "orchestration", "warehouse")


def test_each_package_is_a_relative_link_to_the_folder_of_its_name() -> None:
    package = ROOT / "src" / "rag_assay"
    assert {path.name for path in package.iterdir() if path.is_symlink()} == set(FOLDERS)
    for name in FOLDERS:
        assert (package / name).readlink() == Path("../..") / name


def test_the_wheel_holds_rag_assay_and_nothing_else(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)  # the wheel is built from the sdist
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"rag_assay"}
    tracked = subprocess.run(
        ["git", "ls-files", *FOLDERS], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split()
    assert {f"rag_assay/{name}" for name in tracked} <= set(names)


def test_the_installed_command_imports_rag_assay_alone() -> None:
    try:
        distribution("rag-assay")
    except PackageNotFoundError:
        pytest.skip("rag-assay is not installed here")
    ours = [name for name, providers in packages_distributions().items() if "rag-assay" in providers]
    assert ours in ([], ["rag_assay"])  # an editable install lists no packages
    code = "import rag_assay.evals, sys; print({'assets', 'evals', 'orchestration'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd="/", capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"
