"""Crawls as people and Dagster start them: `python -m crawlers` in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag_assay.warehouse.pages import read_manifest
from rag_assay.warehouse.paths import Home

ROOT = Path(__file__).parents[2]


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
        process = self.start(*options)
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, f"{out}\n{err}"
        row = max(
            (json.loads(path.read_text()) for path in self.records()), key=lambda one: one["started_at"]
        )
        return {**row, "failed": json.loads(row["failed"]), "stdout": out, "stderr": err}

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
