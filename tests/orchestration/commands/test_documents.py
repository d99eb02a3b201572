"""`assay documents`: what each page holds and what of it its document keeps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rag_assay.assets.documents import Documents
from rag_assay.assets.engine.builder import build_key
from rag_assay.assets.engine.stage import BuildContext
from rag_assay.assets.recipes.build_half import Build
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study_file import read_study
from rag_assay.warehouse.artifacts import Artifact
from rag_assay.warehouse.pages import manifest_digest, read_manifest, write_body, write_manifest
from rag_assay.warehouse.parquet import frame
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import PAGES
from tests.fakes.commands import assay

ODD = "b\x1b[2J.html"  # would clear a terminal
TEXT = "The harbour office opens at eight in the morning, every day of the week but Sunday."
LIST = "<ul><li>A berth costs twelve pounds.</li></ul>"
PAGE = f"<html lang=en><body><h2>Hours</h2><p>{TEXT}</p>{LIST}</body></html>"


@pytest.fixture
def study(study_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The small study with other pages, whose documents alone are built."""
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "var"))
    work = BuildContext(Home(tmp_path / "var"))
    build: Build = Grid([read_study(study_path)]).build
    (source,) = build.sources
    pages = {"a.html": PAGE, ODD: "<html><body>No.</body></html>"}
    rows = [
        {"url": url, "content_type": "text/html", "sha256": write_body(work.home, page.encode())}
        for url, page in pages.items()
    ]
    write_manifest(work.home, source, frame(rows, PAGES))
    version = manifest_digest(read_manifest(work.home, source))
    work.store.commit(Artifact("pages", source, "pages", version))
    assert build_key(Documents(build), source, work).ok
    return study_path


def test_documents_and_pages_without_one_are_listed_with_counts(study: Path) -> None:
    found = json.loads(assay("documents", str(study), "--format", "json").stdout)
    assert [(row["url"], row["fidelity"]) for row in found] == [
        ("a.html", {"headings": [1, 1], "items": [1, 1]}),
        (ODD, {}),
    ]
    assert (found[0]["language"], found[0]["language_source"], found[0]["sections"]) == ("en", "page", 1)
    assert (found[0]["date_source"], found[0]["published_at"]) == ("none", None)
    assert found[1]["reason"]
    lost = json.loads(assay("documents", str(study), "--lost", "--format", "json").stdout)
    assert [row["url"] for row in lost] == [ODD]
    table = assay("documents", str(study)).stdout
    assert "a.html" in table
    assert "\x1b" not in table
    assert "1/1" in table
    assert "2 in all" in table
    assert "--page documents` shows each beside its page" in assay("documents", str(study)).stderr


def test_what_is_not_built_is_said_with_what_to_do(study_path: Path, tmp_path: Path) -> None:
    done = assay("documents", str(study_path), ASSAY_HOME=str(tmp_path / "empty"))
    assert done.returncode == 2
    assert "are not built; `assay run" in done.stderr
    assert assay("documents", "no-such-study", ASSAY_HOME=str(tmp_path / "empty")).returncode == 2
