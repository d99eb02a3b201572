"""The projects in examples/: each is checked and run, and reaches the verdict in its expected.json."""

from __future__ import annotations

import json
import runpy
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import dagster as dg
import pytest

from tests.conftest import REPOSITORY
from tests.fakes.commands import assay

EXAMPLES = REPOSITORY / "examples"
SHOP = Path("src/shop/defs/quality/study.yaml")
pytestmark = pytest.mark.models


@pytest.fixture(scope="module")
def workspace(weights: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One workspace for all examples: what they share is computed once."""
    for name in ("all-MiniLM-L6-v2", "multilingual-e5-small"):
        weights(name)
    return tmp_path_factory.mktemp("examples") / "var"


@pytest.fixture
def environment(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("ASSAY_HOME", str(workspace))
    monkeypatch.setenv("DAGSTER_HOME", "")
    return monkeypatch


def copy_of(name: str, folder: Path) -> Path:
    """Copy an example, so that nothing is written into the repository."""
    return shutil.copytree(EXAMPLES / name, folder / name)


def is_checked(study: Path) -> None:
    done = assay("check", str(study))
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stdout + done.stderr


def reaches_its_verdict(study: Path, example: Path) -> None:
    """Compare `assay verdict` with expected.json; the value may differ by 0.02 on another processor."""
    found = json.loads(assay("verdict", str(study), "--format", "json").stdout)
    expected = json.loads((example / "expected.json").read_text(encoding="utf-8"))
    assert verdict_of(found) | {"value": None} == expected | {"value": None}
    assert found["recommended"]["value"] == pytest.approx(expected["value"], abs=0.02)


def verdict_of(found: dict[str, Any]) -> dict[str, Any]:
    return {
        "recommended": found["recommended"]["cell"],
        "metric": found["metric"],
        "value": round(found["recommended"]["value"], 3),
        "tied": sorted(found["tied"]),
        "worse": sorted(found["worse"]),
    }


@contextmanager
def answering(example: Path) -> Iterator[str]:
    """Serve the application of server.py on a free port; yield its URL."""
    handler = runpy.run_path(str(example / "server.py"))["Handler"]
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/ask"
        server.shutdown()


def runs(study: Path) -> None:
    is_checked(study)
    done = assay("run", str(study))
    assert done.returncode == 0, done.stdout + done.stderr
    reaches_its_verdict(study, study.parent)


@pytest.mark.parametrize("name", ["markdown", "german", "pdf"])
def test_documents_of_a_folder(name: str, environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runs(copy_of(name, tmp_path) / "study.yaml")


def test_your_own_rag(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    example = copy_of("your-rag", tmp_path)
    with answering(example) as url:
        environment.setenv("RAG_URL", url)
        runs(example / "study.yaml")


def test_a_dagster_project(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    project = copy_of("dagster-project", tmp_path)
    environment.syspath_prepend(str(project / "src"))
    try:
        definitions = dg.load_from_defs_folder(path_within_project=project / "src" / "shop")
        with dg.DagsterInstance.ephemeral() as instance:
            everything = definitions.resolve_implicit_global_asset_job_def()
            pages = [dg.AssetKey("product_pages")]
            assert everything.execute_in_process(instance=instance, asset_selection=pages).success
            is_checked(project / SHOP)
            job = definitions.resolve_job_def("study_quality_example_shop")
            assert job.execute_in_process(instance=instance).success
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
            del sys.modules[name]
    reaches_its_verdict(project / SHOP, project)


def test_the_pdf_files_are_those_of_their_texts(tmp_path: Path) -> None:
    example = copy_of("pdf", tmp_path)
    shutil.rmtree(example / "reports")
    (example / "reports").mkdir()
    runpy.run_path(str(example / "make_reports.py"), run_name="__main__")
    written = {path.name: path.read_bytes() for path in (example / "reports").iterdir()}
    assert written == {path.name: path.read_bytes() for path in (EXAMPLES / "pdf" / "reports").iterdir()}


def test_every_example_is_listed_and_run() -> None:
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir()}
    assert folders == {"markdown", "german", "pdf", "your-rag", "dagster-project"}
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert all(f"]({name}/README.md)" in readme for name in folders)
