"""Tests lie where a reader looks for them: in the folder that mirrors that of the code."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parent
PRODUCT = ("assets", "crawlers", "evals", "orchestration", "warehouse")
OTHERS = {"cluster", "contracts", "docs", "drill", "examples", "fakes", "golden"}
"""Suites that several implementations share, those of docs, examples, drill and cluster; what tests use."""


def test_each_folder_of_tests_mirrors_one_of_the_product() -> None:
    folders = {path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")} - {Path()}
    mirrored = {folder for folder in folders if folder.parts[0] not in OTHERS}
    assert {folder.parts[0] for folder in mirrored} == set(PRODUCT)
    assert [str(one) for one in sorted(mirrored) if not (TESTS.parent / one).is_dir()] == []
