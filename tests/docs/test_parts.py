"""docs/parts.md is what `assay components --format markdown` prints; each parameter is described."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rag_assay.evals.study.component_list import REGISTRIES, part_list
from rag_assay.orchestration.terminal.components_view import markdown_of

DOCS = Path(__file__).parents[2] / "docs"
OURS = [one for one in part_list() if one.package is None]
WHERE = {
    "spiders": "documents.md",
    "readers": "documents.md",
    "chunkers": "grid.md",
    "embedders": "grid.md",
    "retrievers": "grid.md",
    "steps": "grid.md",
    "query_transforms": "grid.md",
    "generators": "grid.md",
    "systems": "systems.md",
    "judges": "judging.md",
    "rubrics": "judging.md",
    "metrics": "grid.md",
}


def test_the_page_of_parts_is_as_printed() -> None:
    page = (DOCS / "parts.md").read_text(encoding="utf-8")
    printed = page[page.index("\n## ") + 1 :]
    assert printed == markdown_of(OURS), "update docs/parts.md: `assay components --format markdown`"


def test_each_part_and_parameter_is_described() -> None:
    assert [(part.group, part.name) for part in OURS if not part.about] == []
    silent = [(part.name, one.name) for part in OURS for one in part.parameters if not one.about]
    assert silent == []


@pytest.mark.parametrize("group", REGISTRIES)
def test_each_part_is_named_where_its_kind_is_explained(group: str) -> None:
    named = set(re.findall(r"`([a-z_0-9]+)", (DOCS / WHERE[group]).read_text(encoding="utf-8")))
    own = {one.name for one in OURS if one.group == group} - {"chain"}  # which is written as a list
    assert own <= named, own - named
