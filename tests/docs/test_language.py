"""Banned phrases: docs, code and help use plain English and the terms of the field (docs/glossary.md)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PACKAGES = ("orchestration", "evals", "assets", "crawlers", "warehouse")
# phrase -> what to write. Only phrases that have no other use.
BANNED = {
    "unless said": "default: X",
    "told apart": "significantly different, or tied",
    "scores of people": "human ratings",
    "what people said": "human ratings",
    "a walk": "a run",
    "gold evidence": "reference passages",
    "anew": "again",
    "again and again": "repeatedly",
    "of now": "current",
    "of then": "previous",
    "hangs on": "depends on",
    "mended": "fixed, edited",
    "asks a model": "calls a model",
    "let go of": "release",
    "let through": "allow",
    "stands here": "is here",
    "stands there": "is there",
    "nobody": "no user, no X",
    "what is asked": "the question",
    "what is said": "the message, the value",
    "whoever": "a user, any caller",
}
# A phrase may continue on the next line, of a comment or of a string literal too.
PHRASE = re.compile("|".join(rf"\b{phrase}\b".replace(" ", r"[\s#\"']+") for phrase in BANNED), re.IGNORECASE)
DOCS = [
    *(REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md", "Makefile", ".ci/run")),
    *sorted((REPOSITORY / "examples").rglob("README.md")),
    # docs/parts.md is printed from descriptions in the code.
    *(path for path in sorted((REPOSITORY / "docs").glob("*.md")) if path.name != "parts.md"),
]


def product(package: str) -> list[Path]:
    """The package's files with text of ours: code with its docstrings and CLI help, prompts, pages."""
    return [
        path
        for ending in ("*.py", "*.j2", "*.html")
        for path in sorted((REPOSITORY / package).rglob(ending))
        if not {"sample_site", "prompts"}
        & set(path.parts)  # a prompt's words are part of the identity of its calls
    ]


def found_in(text: str) -> list[tuple[int, str]]:
    """Return line and phrase of each banned phrase."""
    return [(text.count("\n", 0, hit.start()) + 1, " ".join(hit[0].split())) for hit in PHRASE.finditer(text)]


def found(paths: list[Path]) -> str:
    return "\n".join(
        f"{path.relative_to(REPOSITORY)}:{line}: {phrase}"
        for path in paths
        for line, phrase in found_in(path.read_text(encoding="utf-8"))
    )


def test_phrases_are_found_with_their_lines() -> None:
    assert found_in("Plain.\n# Ten, unless\n# said otherwise.") == [(2, "unless # said")]
    assert found_in("seven Unless said") == [(1, "Unless said")]
    assert found_in("a walkway, mending, canew") == []


def test_docs_use_plain_english() -> None:
    assert not (phrases := found(DOCS)), phrases


@pytest.mark.parametrize("package", PACKAGES)
def test_code_and_help_use_plain_english(package: str) -> None:
    paths = product(package)
    assert paths
    assert not (phrases := found(paths)), phrases
