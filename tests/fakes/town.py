"""The tiny study on several homes, written as a mapping, so that names and parts of it can be exchanged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.rows import report_data
from rag_assay.warehouse.connection import connect
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.tables import FILES, sync
from tests.fakes.first_builds import FirstBuild
from tests.fakes.tiny import QUESTIONS as FERRY
from tests.fakes.tiny import TEXTS, Bench

Variant = dict[str, Any]

PLAIN: Variant = {
    "study": "tiny",
    "sources": {"docs": {"reader": "folder", "path": "docs"}},
    "corpus": {"name": "ferries", "sources": ["docs"]},
    "chunkings": {"t16": {"tokens": {"size": 16, "overlap": 4}}},
    "embedders": {"minilm": {"model": "all-MiniLM-L6-v2"}},
    "retrievers": {"bm25": {"bm25": {"k": 5}}},
    "generators": {"quote": {"extractive": {"passages": 2, "max_tokens": 40, "min_score": None}}},
    "questions": [{"file": "ferry.questions.yaml"}],
    "metrics": ["ndcg@10", "evidence_coverage@5", "abstention"],
}
QUESTIONS = (
    FERRY
    + """\
  - id: lamp
    question: What glows over the sea after dark?
    ground_truth: The lighthouse.
    evidence:
      - {url: "https://x.example/lamp", quote: "The lamp is lit at sunset"}
"""
)
OTHER_TEXTS = {"toll": "The toll on the bridge is four pounds.", "tug": "The tug left the harbour at noon."}


class Town:
    """A folder of documents and homes; each variant of a study is run on one of the homes."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, first: FirstBuild | None = None) -> None:
        self.folder = folder
        self.patch = patch
        self.first = first

    def run(
        self, variant: Variant, home: str, path: str = "tiny.yaml", *, whole: bool = True, **texts: Any
    ) -> ReportData:
        """Run a variant and return what its report shows; not ``whole``: some of its cells fail."""
        self.build(variant, home, path, whole=whole, **texts)
        return self.report(self.bench)

    def build(
        self, variant: Variant, home: str, path: str = "tiny.yaml", *, whole: bool = True, **texts: Any
    ) -> None:
        """Run a variant where no database is looked at: its rows stay in their files."""
        self.bench = self.bench_of(variant, home, path)
        for name in self.bench.study.corpus.sources:
            self.bench.give(texts.get(name, TEXTS if name == "docs" else OTHER_TEXTS), name)
        self.outcomes = self.bench.build()
        failed = [one for found in self.outcomes.values() for one in found if not one.ok]
        assert not whole or not failed, failed

    def report(self, bench: Bench) -> ReportData:
        """Return what the report of a study shows now."""
        with connect(bench.home.database) as connection:
            for stage in (name for name in FILES if name in bench.stages):  # a search is of no stage
                sync(connection, bench.store, stage, bench.stages[stage].keys())
        return report_data(bench.study, bench.home)

    @property
    def built(self) -> set[str]:
        """The stages of which the last run computed something."""
        return {name for name, found in self.outcomes.items() if any(one.computed for one in found)}

    def bench_of(self, variant: Variant, home: str, path: str = "tiny.yaml") -> Bench:
        for name in ("docs", "more"):
            (self.folder / name).mkdir(exist_ok=True)
        if not (self.folder / "ferry.questions.yaml").exists():
            (self.folder / "ferry.questions.yaml").write_text(QUESTIONS)
        (self.folder / path).write_text(yaml.safe_dump(variant, sort_keys=False))
        self.patch.setenv("ASSAY_HOME", str(self.folder / home))
        return Bench(self.folder / path, Home(self.folder / home), self.first)
