"""The pages of docs/: links lead somewhere, YAML can be read, and no key of a study is left out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from rag_assay.evals.generation.extractive import Extractive
from rag_assay.evals.generation.llm import Llm
from rag_assay.evals.metrics import METRICS, has_depth
from rag_assay.evals.question_sets.question_files import EvidenceQuote, QuestionFile, WrittenQuestion
from rag_assay.evals.study.sections import Restriction
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.inference.chat_model import ChatModel

REPOSITORY = Path(__file__).parents[2]
PAGES = [
    REPOSITORY / "README.md",
    REPOSITORY / "CONTRIBUTING.md",
    *sorted((REPOSITORY / "docs").glob("*.md")),
]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#([^)\s]+))?\)")


def text_of(name: str) -> str:
    return (REPOSITORY / "docs" / name).read_text(encoding="utf-8")


def anchors(path: Path) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        if target.startswith(("http://", "https://")):
            continue
        there = (page.parent / target).resolve()
        assert there.exists(), f"{page.name}: {target}"
        if anchor:
            assert anchor in anchors(there), f"{page.name}: {target}#{anchor}"


def test_every_page_can_be_reached_from_the_readme() -> None:
    seen, left = set(), [REPOSITORY / "README.md"]
    while left:
        page = left.pop()
        if page in seen:
            continue
        seen.add(page)
        if page.suffix == ".md":
            targets = [target for target, _ in LINK.findall(page.read_text(encoding="utf-8"))]
            left += [(page.parent / target).resolve() for target in targets if "://" not in target]
    assert set(PAGES) <= seen


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_yaml_can_be_read(page: Path) -> None:
    for block in re.findall(r"^```ya?ml[^\n]*\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S):
        yaml.safe_load(block)


def keys_named(page: str) -> set[str]:
    return set(re.findall(r"`([a-z_@A-Z]+)`", text_of(page)))


@pytest.mark.parametrize(
    ("page", "model"),
    [
        ("studies.md", Study),
        ("studies.md", Extractive),
        ("studies.md", Llm),
        ("studies.md", ChatModel),
        ("studies.md", Restriction),
        ("questions.md", WrittenQuestion),
        ("questions.md", EvidenceQuote),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_every_key_is_told(page: str, model: Any) -> None:
    fields = {field.alias or name for name, field in model.model_fields.items()} - {"path"}
    assert fields <= keys_named(page), fields - keys_named(page)


def test_keys_of_a_question_file_are_shown() -> None:
    example = re.search(r"```yaml\n(question_set.*?)```", text_of("questions.md"), re.S)
    assert example is not None
    shown = QuestionFile.model_validate(yaml.safe_load(example[1]) | {"asked_at": "2024-05-31"})
    assert QuestionFile.model_fields.keys() == shown.model_fields_set


def test_every_metric_is_told() -> None:
    names = {f"{name}@K" if has_depth(name) else name for name in METRICS.built_in}
    assert names <= keys_named("studies.md"), names - keys_named("studies.md")
