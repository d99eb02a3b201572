"""The product uses what Dagster exports, so that its next minor version can be installed."""

from __future__ import annotations

import re

from tests.conftest import REPOSITORY

PACKAGES = ("assets", "crawlers", "evals", "orchestration", "src/rag_assay", "warehouse")
PRIVATE = re.compile(r"\bdagster(?:_\w+)?\._")
STORAGE = "orchestration/event_log.py"
STALENESS = "tests/orchestration/test_staleness.py"
"""Dagster says which partitions are stale in its UI and GraphQL only."""


def test_one_private_module_of_dagster_is_imported() -> None:
    found = [
        (str(path.relative_to(REPOSITORY)), line.strip())
        for package in (*PACKAGES, "tests", "benchmarks")
        for path in sorted((REPOSITORY / package).rglob("*.py"))
        for line in path.read_text().splitlines()
        if PRIVATE.search(line) and path.name != "test_public_api.py"
    ]
    assert {name for name, _ in found} == {STORAGE, STALENESS}, found
    assert found[0][1].startswith("from dagster._core.storage.sqlite_storage import ")


def test_a_private_module_would_be_found() -> None:
    assert PRIVATE.search("from dagster._core import x")
    assert PRIVATE.search('import_module("dagster_shared._x")')
    assert not PRIVATE.search("from dagster import x")
