"""The core works without the packages of extras; what needs one that is missing names it and its extra."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib import import_module
from io import BytesIO
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from rag_assay.assets.cleaning.page_cleaner import _FILES, _caught
from rag_assay.evals.human.spreadsheets.export import export_scores
from rag_assay.orchestration.commands.ui import serve_app
from rag_assay.orchestration.web.page_context import UiOptions
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.extras import OPTIONAL, MissingPackageError
from rag_assay.warehouse.inference.local_llm import LocalServer
from rag_assay.warehouse.office_packages import KINDS
from rag_assay.warehouse.paths import Home
from tests.fakes.forking import PROGRAM

ROOT = Path(__file__).parents[2]
PAGES = "rag_assay.orchestration.web."  # run by Streamlit alone
SHEETS = "rag_assay.evals.human.spreadsheets.workbooks"  # imported where a workbook is written


def test_every_optional_package_is_in_its_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = {
        name: {Requirement(one).name for one in listed}
        for name, listed in project["optional-dependencies"].items()
    }
    assert extras.keys() == {"app", "local", "formats", "render", "scale", "mlflow", "traces", "dev"}
    for package, extra in OPTIONAL.values():
        assert package in extras[extra]
    core = {Requirement(one).name for one in project["dependencies"]}
    assert not core & set().union(*extras.values())
    assert {
        *("dagster", "dagster-webserver", "scrapy", "polars", "duckdb", "sentence-transformers"),
        *("rank-bm25", "lancedb", "litellm", "ragas"),
    } <= core


def test_every_module_is_imported_without_the_extras() -> None:
    missing = [*OPTIONAL, "dagster_celery", "dagster_postgres", "psycopg2", "redis", "playwright", "moto"]
    code = f"""
import importlib, pkgutil, sys
for name in [one for one in sys.modules if one.partition(".")[0] in {["rag_assay", *missing]}]:
    del sys.modules[name]  # of the process that this one is forked from
for name in {missing}:
    sys.modules[name] = None
import rag_assay
for one in pkgutil.walk_packages(rag_assay.__path__, "rag_assay."):
    if not one.name.startswith({PAGES!r}) and one.name not in ({SHEETS!r}, "rag_assay.crawlers.__main__"):
        importlib.import_module(one.name)
import rag_assay.orchestration.web.page_process
"""
    done = subprocess.run([sys.executable, "-m", PROGRAM, code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def open_page() -> None:
    with serve_app(UiOptions(), "127.0.0.1", None, "", Home(Path("nowhere"))):
        pass


def read(suffix: str, body: bytes) -> None:
    kind, clean = _FILES[KINDS[suffix].media_type]
    _caught(kind, {"url": f"a{suffix}"}, lambda: clean(body, None))


def docx_bytes() -> bytes:
    out = BytesIO()
    import_module("docx").Document().save(out)
    return out.getvalue()


def pptx_bytes() -> bytes:
    out = BytesIO()
    import_module("pptx").Presentation().save(out)
    return out.getvalue()


def xlsx_bytes() -> bytes:
    out = BytesIO()
    import_module("openpyxl").Workbook().save(out)
    return out.getvalue()


@pytest.mark.parametrize(
    ("module", "prepare", "use"),
    [
        ("streamlit", bytes, lambda _body, _folder: open_page()),
        ("xllamacpp", bytes, lambda _body, folder: LocalServer("m", folder)),
        ("docx", docx_bytes, lambda body, _folder: read(".docx", body)),
        ("pptx", pptx_bytes, lambda body, _folder: read(".pptx", body)),
        ("openpyxl", xlsx_bytes, lambda body, _folder: read(".xlsx", body)),
        ("openpyxl", bytes, lambda _body, folder: export_scores(folder / "scores.xlsx", [], None)),
    ],
)
def test_a_missing_package_is_named_with_its_extra(
    module: str,
    prepare: Callable[[], bytes],
    use: Callable[[bytes, Path], object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = prepare()
    (tmp_path / "m.gguf").touch()
    for name in [one for one in sys.modules if one.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingPackageError) as raised:
        use(body, tmp_path)
    assert isinstance(raised.value, AssayError)
    (sentence,) = raised.value.findings
    package, extra = OPTIONAL[module]
    assert f"needs {package}" in sentence
    assert f"extra `{extra}`" in sentence
