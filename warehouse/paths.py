"""Paths of everything that is stored, all below the workspace.

The workspace is `ASSAY_HOME`; default: `var` in the project folder.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from rag_assay.warehouse.remote_urls import is_url, use_remote_home


@dataclass(frozen=True)
class Home:
    """The one folder that holds all state; nothing is written elsewhere.

    >>> Home(Path("/srv/assay")).database.name
    'assay.duckdb'
    """

    root: Path

    @property
    def database(self) -> Path:
        """The DuckDB file, which can be made again from the Parquet files."""
        return self.root / "assay.duckdb"

    @property
    def dagster(self) -> Path:
        return self.root / "dagster"

    @property
    def models(self) -> Path:
        """Model weights, one folder a model; `ASSAY_MODELS` moves it, so that workspaces can share one."""
        return Path(os.environ.get("ASSAY_MODELS") or self.root / "models").expanduser().resolve()

    @property
    def reports(self) -> Path:
        """The reports: for each study an HTML file, and its leaderboard as JSON."""
        return self.root / "reports"

    def report(self, study: str) -> Path:
        return self.reports / f"{study}.html"

    def report_rows(self, study: str) -> Path:
        """The leaderboard of a study as JSON, written with its report."""
        return self.reports / f"{study}.json"

    def report_data(self, study: str) -> list[Path]:
        """The files of a large report beside its page: `reports/STUDY.data-DIGEST/`; none of a small one."""
        return sorted(self.reports.glob(f"{study}.data-*/*.html"))

    @property
    def crawls(self) -> Path:
        """One folder a crawl in progress: Scrapy's job state and log."""
        return self.root / "crawls"

    def pages(self, source: str) -> Path:
        return self.root / "pages" / source

    def body(self, sha256: str) -> Path:
        """The gzip file of a page's bytes, by their SHA-256."""
        return self.root / "bodies" / sha256[:2] / f"{sha256}.gz"

    @property
    def packs(self) -> Path:
        """The packs of small bodies that readers have read, a file a reading that found something new."""
        return self.root / "bodies" / "packs"

    @property
    def people(self) -> Path:
        """What people did for studies, a folder a study: scores, queues. Nothing can make it again."""
        return self.root / "people"

    @property
    def chats(self) -> Path:
        """Conversations with corpora, a folder a study, a file each. Nothing can make them again."""
        return self.root / "chats"

    def history(self, study: str) -> Path:
        """The lines that say which result a study had when (`warehouse.history`)."""
        return self.root / "history" / f"{study}.jsonl"

    @property
    def paid(self) -> Path:
        """The lines that say what each call of a model cost (`warehouse.call_cache`), a file a month."""
        return self.root / "paid"

    def stage(self, stage: str) -> Path:
        return self.root / stage

    def index(self, identity: str) -> Path:
        """The folder of one index: a LanceDB database and the lexical index beside it."""
        return self.root / "indexes" / identity

    def cache(self, kind: str) -> Path:
        """The folder of one content-addressed cache (`vectors`, `calls`)."""
        return self.root / "cache" / kind


def project_folder() -> Path:
    """Return the nearest folder from the working directory upwards that holds `study.yaml` or `.git`.

    Where there is none, the working directory.
    """
    here = Path.cwd()
    marks = ("study.yaml", ".git")
    return next((one for one in (here, *here.parents) if any((one / mark).exists() for mark in marks)), here)


def home() -> Home:
    """Return the workspace: `ASSAY_HOME`, or `var` in the project folder.

    Of a workspace at a URL, this is the scratch folder in which its files are used.
    """
    place = os.environ.get("ASSAY_HOME") or str(project_folder() / "var")
    return Home(use_remote_home(place) if is_url(place) else Path(place).expanduser().resolve())
