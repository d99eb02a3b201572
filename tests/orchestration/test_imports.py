"""What each start of a command or of a Dagster process pays for: heavy libraries wait for their use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.orchestration.conftest import Finished

HEAVY = ["scipy.stats", "sentence_transformers", "torch", "litellm", "ragas", "lancedb", "trafilatura"]
NUMBERS = ["polars", "numpy", "pyarrow"]
HTTP = ["httpx", "httpcore"]
DATA = [*HEAVY, *NUMBERS, *HTTP, "dagster", "scrapy", "duckdb"]
LITTLE = ["regex", "rapidfuzz", "rag_assay.warehouse.remote.store"]
BUILDING = [  # what stages build with, of which a look reads the identities only
    f"rag_assay.{one}"
    for one in (
        "assets.cleaning.corpus",
        "evals.human.queue",
        "evals.judge_calibration.card",
        "evals.judging.pairwise",
        "evals.retrieval.query_runner",
        "evals.statistics.board",
    )
]
COMMANDS = {
    "assay --version": [*DATA, "pydantic", "yaml"],
    "assay list": [*DATA, *LITTLE, "urllib.request"],
    "assay check demo": [*DATA, *LITTLE],
    "assay run demo --dry-run": [*HEAVY, *HTTP, *BUILDING, "numpy", "pyarrow", "dagster", "scrapy", "duckdb"],
    "assay verdict demo": [*HEAVY, *HTTP, *LITTLE, *BUILDING, "dagster", "scrapy", "lxml"],
    "rag_assay.orchestration.definitions, rag_assay.orchestration.driver": HEAVY,
}
"""Command or modules -> libraries that neither they nor those before them import, in one process."""
CRAWLER = {"rag_assay.crawlers.__main__": [*HEAVY, "dagster", "scrapy", "httpx", "rich"]}  # for each source
PAGES = {  # shown while all else is loaded
    "rag_assay.orchestration.web.app, rag_assay.orchestration.web.pages.chat": [
        *HEAVY,
        *("polars", "numpy", "duckdb", "dagster"),
    ]
}
STARTS = """
import importlib, json, pathlib, sys
found, (_, whats, path) = [], sys.argv
for what in json.loads(whats):
    if what.startswith("assay "):
        sys.argv = what.split()
        from rag_assay.orchestration import start
        try:
            start.run()
        except SystemExit:
            pass
    else:
        for name in what.split(", "):
            importlib.import_module(name)
    found.append([name for name, one in sys.modules.items() if type(one).__name__ != "_LazyModule"])
pathlib.Path(path).write_text(json.dumps(found))
"""


@pytest.mark.models
def test_a_stored_verdict_is_read_without_pyarrow(finished: Finished, tmp_path: Path) -> None:
    result = tmp_path / "imported.json"
    said = subprocess.run(
        [sys.executable, "-c", STARTS, json.dumps([f"assay verdict {finished.path}"]), str(result)],
        capture_output=True,
        check=True,
        text=True,
        timeout=240,
    )
    (loaded,) = json.loads(result.read_text())
    assert said.stdout.startswith("Use "), said.stderr
    assert "polars" in loaded
    assert "pyarrow" not in loaded


@pytest.mark.parametrize("started", [COMMANDS, CRAWLER, PAGES], ids=["commands", "crawler", "pages"])
def test_what_is_started_imports_what_it_uses(started: dict[str, list[str]], tmp_path: Path) -> None:
    result = tmp_path / "imported.json"
    subprocess.run(
        [sys.executable, "-c", STARTS, json.dumps(list(started)), str(result)],
        capture_output=True,
        check=True,
        timeout=240,
        env={**os.environ, "ASSAY_HOME": str(tmp_path)},
    )
    found = json.loads(result.read_text())
    for (what, unused), loaded in zip(started.items(), found, strict=True):
        assert sorted(set(unused) & set(loaded)) == [], what


def test_a_crawl_imports_what_it_uses(tmp_path: Path) -> None:
    source = {
        "spider": "blog",
        "start": ["https://blog.sample.example/"],
        "mirror": "sample_site",
        "delay": 0,
    }
    spec = tmp_path / "posts.json"
    spec.write_text(json.dumps(source), encoding="utf-8")
    code = (
        f"import runpy, sys; sys.argv = ['crawlers', 'posts', '--spec', {str(spec)!r}]\n"
        "try:\n    runpy.run_module('rag_assay.crawlers', run_name='__main__')\n"
        "except SystemExit:\n    pass\n"
        "unused = ('aiohttp', 'requests', 'dagster', 'httpx', 'pyarrow')\n"
        "print([name for name in unused if name in sys.modules])"
    )
    environment = {**os.environ, "ASSAY_HOME": str(tmp_path / "var")}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120, env=environment
    )
    crawled, unused = done.stdout.splitlines()
    assert crawled.startswith("posts: finished; 13 new")
    assert unused == "[]"


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
