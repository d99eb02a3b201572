"""What each start of a command or of a Dagster process pays for: heavy libraries wait for their use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ["scipy.stats", "sentence_transformers", "torch", "litellm", "ragas", "lancedb", "trafilatura"]


NUMBERS = ["polars", "numpy", "pyarrow"]
HTTP = ["httpx", "httpcore"]
OF_COMMANDS = {
    "--version": [*HEAVY, *NUMBERS, *HTTP, "duckdb", "dagster", "pydantic", "yaml"],
    "check demo": [*HEAVY, *NUMBERS, *HTTP, "dagster", "scrapy", "duckdb"],
    "list": [*HEAVY, *NUMBERS, *HTTP, "dagster", "scrapy", "duckdb", "rapidfuzz", "urllib.request"],
    "verdict demo": [*HEAVY, *HTTP, "dagster", "scrapy", "lxml"],
    "run demo --dry-run": [*HEAVY, "scrapy"],
}
"""Command -> libraries that it does not import."""
PAGE_HEAVY = [*HEAVY, "polars", "numpy", "duckdb", "dagster"]


@pytest.mark.parametrize(
    ("modules", "heavy"),
    [
        ("rag_assay.orchestration.definitions, rag_assay.orchestration.driver", HEAVY),
        ("rag_assay.crawlers.__main__", [*HEAVY, "dagster", "scrapy", "httpx", "rich"]),  # for each source
        (
            "rag_assay.orchestration.web.app, rag_assay.orchestration.web.pages.chat",
            PAGE_HEAVY,
        ),  # it is shown while all else is loaded
    ],
)
def test_what_is_started_loads_without_heavy_libraries(modules: str, heavy: list[str]) -> None:
    loaded = f"[name for name in {heavy} if name in sys.modules]"
    code = f"import sys, {modules}; print({loaded})"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize("command", OF_COMMANDS)
def test_a_command_imports_what_it_uses(command: str, tmp_path: Path) -> None:
    code = (
        f"import sys; sys.argv = {['assay', *command.split()]}\n"
        "from rag_assay.orchestration import start\n"
        "try:\n    start.run()\nexcept SystemExit:\n    pass\n"
        "found = {name for name, one in sys.modules.items() if type(one).__name__ != '_LazyModule'}\n"
        f"loaded = [name for name in {OF_COMMANDS[command]} if name in found]\n"
        "sys.stderr.write(f'loaded: {loaded}')"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env={**os.environ, "ASSAY_HOME": str(tmp_path)},
    )
    assert found.stderr.endswith("loaded: []")


def test_rouge_takes_the_stemmer_of_nltk_alone() -> None:
    code = (
        "import sys\n"
        "from rag_assay.evals.metrics.text_overlap import RougeL, rouge_tokens\n"
        "print(rouge_tokens('Ferries were running'), RougeL().value('a running ferry', 'running ferries'))\n"
        "print([name for name in ('scipy', 'sklearn', 'pandas') if name in sys.modules])\n"
        "import nltk.tokenize\n"
        "print(nltk.tokenize.wordpunct_tokenize('whole, too'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["['ferri', 'were', 'run'] 0.8", "[]", "['whole', ',', 'too']"]
