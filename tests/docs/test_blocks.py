"""Each block of code on a page is run, validated, or says why it is not run: `<!-- not run: REASON -->`."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from jinja2.sandbox import SandboxedEnvironment

from tests.docs.test_quickstart import DOCS, RUN, is_run

BLOCK = re.compile(
    r"^(?:<!-- not run: ([^\n]+) -->\n)?```(\w*)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
PAGES = [DOCS.parent / "README.md", DOCS.parent / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]


def read_json(text: str) -> None:
    for line in text.splitlines():
        json.loads(line)


VALIDATED: dict[str, Callable[[str], Any]] = {
    "yaml": yaml.safe_load,
    "json": read_json,
    "toml": tomllib.loads,
    "jinja": SandboxedEnvironment().parse,
}
ELSEWHERE = {("app.md", "sql")}  # tests/warehouse/test_usage.py runs them


def faults(page: str, text: str) -> list[str]:
    """Return what is wrong with the blocks of a page, each with the line it begins at."""
    found = []
    assert text.count("\n```") == 2 * len(BLOCK.findall(text)), f"{page}: a block without an end"
    ran = 0
    for block in BLOCK.finditer(text):
        mark, language, told, code = block.groups()
        where = f"{page}:{text.count(chr(10), 0, block.start()) + 1}"
        if language in VALIDATED:
            try:
                VALIDATED[language](code)
            except Exception as error:
                found.append(f"{where}: {error}")
        run = is_run(page, ran) and (language in {"sh", "text"} or bool(told))
        ran += run and language == "text"
        handled = language in VALIDATED or run or (page, language) in ELSEWHERE
        if mark and handled:
            found.append(f"{where}: it is run or validated, and marked as not run")
        if not mark and not handled:
            found.append(f"{where}: run it, or say why not: <!-- not run: REASON -->")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_each_block_is_run_or_validated_or_says_why_not(page: Path) -> None:
    assert faults(page.name, page.read_text(encoding="utf-8")) == []


def test_a_block_without_a_test_or_a_reason_is_found() -> None:
    text = "# A page\n\n```sh\nassay list\n```\n\n<!-- not run: needs the demo -->\n```sh\nassay list\n```\n"
    (only,) = faults("a.md", text)
    assert only.startswith("a.md:3: run it")
    (only,) = faults("a.md", "\n```json\n{\n```\n")
    assert only.startswith("a.md:2: ")
    assert len(faults("a.md", "\n<!-- not run: why -->\n```yaml\na: 1\n```\n")) == 1


def test_pages_that_are_run_exist() -> None:
    assert set(RUN) <= {page.name for page in PAGES}
