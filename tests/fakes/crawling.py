"""Crawls as people and Dagster start them: `python -m crawlers` in a process of its own.

Those that are awaited are forked from a process that has imported Scrapy, most of what a small crawl takes.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rag_assay.warehouse.pages import read_manifest
from rag_assay.warehouse.paths import Home

ROOT = Path(__file__).parents[2]
# Neither installs Twisted's reactor nor starts a thread, which a fork would lose; polars does.
SHARED = [
    "scrapy.crawler",
    "scrapy.core.downloader.handlers.http11",
    "aiohttp",
    "tldextract",
    "rag_assay.warehouse.source",
]
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(SHARED)


@dataclass(frozen=True)
class Crawling:
    """Crawls of one source into one home."""

    home: Home
    name: str
    spec: Path

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-m", "rag_assay.crawlers", self.name, "--spec", str(self.spec)]

    def start(self, *options: str) -> subprocess.Popen[str]:
        """Start a crawl that may be looked at, and killed."""
        return subprocess.Popen(
            [*self.command, *options],
            cwd=ROOT,
            env={**os.environ, "ASSAY_HOME": str(self.home.root)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *options: str) -> dict[str, Any]:
        """Crawl to the end and return the crawl's row, `failed` as a dict."""
        code, out, err = self._run_as_meant(options)
        assert code == 0, f"{out}\n{err}"
        row = max(
            (json.loads(path.read_text()) for path in self.records()), key=lambda one: one["started_at"]
        )
        return {**row, "failed": json.loads(row["failed"]), "stdout": out, "stderr": err}

    def _run_as_meant(self, options: tuple[str, ...]) -> tuple[int | None, str, str]:
        """Fork, unless a test has put something on the path that a new interpreter begins with."""
        if "PYTHONPATH" not in os.environ:
            return _forked([*self.command[3:], *options], self.home.root)
        process = self.start(*options)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def records(self) -> list[Path]:
        return sorted((self.home.crawls / self.name).glob("*.json"))

    def pages(self) -> dict[str, dict[str, Any]]:
        """The manifest's rows by URL, fields read."""
        rows = read_manifest(self.home, self.name).rows(named=True)
        assert len({row["url"] for row in rows}) == len(rows), "a URL is in the manifest twice"
        return {row["url"]: {**row, "fields": json.loads(row["fields"])} for row in rows}


def crawling(folder: Path, name: str = "site", **source: Any) -> Crawling:
    """Write down a source; nothing is crawled yet. Unless said, the delay is 0 and loopback allowed."""
    spec = folder / f"{name}.json"
    loopback = {"allow_private": True} if "spider" in source and "mirror" not in source else {}
    spec.write_text(json.dumps({"delay": 0, **loopback, **source}))
    return Crawling(Home(folder / "home"), name, spec)


def _forked(arguments: list[str], home: Path) -> tuple[int | None, str, str]:
    """Crawl in a forked process; return its exit code, None where it takes too long, and what it printed."""
    with TemporaryDirectory() as folder:
        printed = [str(Path(folder) / name) for name in ("out", "err")]
        environment = {**os.environ, "ASSAY_HOME": str(home)}
        process = FORKS.Process(target=become, args=(arguments, environment, printed))
        process.start()
        process.join(120)
        if process.exitcode is None:
            process.kill()
        out, err = (Path(path).read_text(encoding="utf-8", errors="replace") for path in printed)
        return process.exitcode, out, err


def become(arguments: list[str], environment: dict[str, str], printed: list[str]) -> None:
    """Become the command: its environment, its folder, its standard output and standard error."""
    for descriptor, path in enumerate(printed, start=1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(ROOT)
    from rag_assay.crawlers.__main__ import main

    sys.exit(main(arguments))
