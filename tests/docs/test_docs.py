"""The pages of docs/ and the generated reference: links, YAML blocks, every key with its meaning."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
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
from rag_assay.warehouse.source import Source

REPOSITORY = Path(__file__).parents[2]
PAGES = [
    REPOSITORY / "README.md",
    REPOSITORY / "CONTRIBUTING.md",
    *sorted((REPOSITORY / "docs").glob("*.md")),
    *sorted((REPOSITORY / "examples").rglob("README.md")),
]
GENERATED = REPOSITORY / "docs" / "reference"
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
        if there.is_relative_to(GENERATED):
            continue  # test_site.py builds them, and follows the links
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
            found = [(page.parent / target).resolve() for target in targets if "://" not in target]
            left += [path for path in found if not path.is_relative_to(GENERATED)]
    assert set(PAGES) <= seen


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_yaml_can_be_read(page: Path) -> None:
    for block in re.findall(r"^```ya?ml[^\n]*\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S):
        yaml.safe_load(block)


@pytest.mark.parametrize(
    ("page", "models"),
    [
        ("study_file", (Study, Extractive, Llm, ChatModel, Restriction, Source)),
        ("question_files", (QuestionFile, WrittenQuestion, EvidenceQuote)),
    ],
)
def test_every_key_is_in_the_reference_with_its_meaning(
    reference: ModuleType, page: str, models: tuple[Any, ...]
) -> None:
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", getattr(reference, page)(), re.M | re.S))
    for model in models:
        keys = {field.alias or name for name, field in model.model_fields.items()} - (
            {"path"} if model is Study else set()
        )
        assert keys == set(re.findall(r"^\| `(\w+)`", sections[model.__name__], re.M)), model.__name__
    rows = [row for section in sections.values() for row in re.findall(r"^\| `.*", section, re.M)]
    assert [row for row in rows if re.search(r"\|\s*\|$", row)] == []  # no cell of a meaning is empty
    assert [row for row in rows if re.search(r"^\| `\w+` \|\s*\|", row)] == []  # nor of a type


def test_keys_of_a_question_file_are_shown() -> None:
    example = re.search(r"```yaml\n(question_set.*?)```", text_of("documents.md"), re.S)
    assert example is not None
    shown = QuestionFile.model_validate(yaml.safe_load(example[1]) | {"asked_at": "2024-05-31"})
    assert QuestionFile.model_fields.keys() == shown.model_fields_set


def test_examples_of_studies_are_valid() -> None:
    """Each block is a part of a study: the first one of grid.md, with the block's keys put into it."""
    pages = (text_of(name).replace("COMMIT", "a" * 40) for name in ("grid.md", "documents.md"))
    blocks = [
        yaml.safe_load(one) for page in pages for one in re.findall(r"^```yaml\n(.*?)^```", page, re.M | re.S)
    ]
    whole, *parts = [one for one in blocks if set(one) <= set(Study.model_fields)]
    assert len(parts) > 12
    whole["generators"]["gpt"] = {"llm": {"model": "openai/gpt-4o-mini"}}
    whole["questions"].append({"file": "earlier.questions.yaml", "use": "train"})
    for part in parts:
        study = {**whole}
        for key, value in part.items():
            study[key] = (
                {**whole.get(key, {}), **value} if isinstance(value, dict) and key != "corpus" else value
            )
        study["sources"] = {**study["sources"], "directives": {"reader": "folder", "path": "acts"}}
        Study.model_validate(study)


def test_every_metric_is_told() -> None:
    names = {f"{name}@K" if has_depth(name) else name for name in METRICS.built_in}
    named = set(re.findall(r"`([a-z_@A-Z]+)`", text_of("grid.md")))
    assert names <= named, names - named
