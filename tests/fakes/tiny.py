"""A tiny study on a home of its own: ferry documents, three questions, the real stages after the crawl."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from rag_assay.assets.engine.builder import build_keys
from rag_assay.assets.engine.definition import sync_all
from rag_assay.assets.engine.stage import BuildContext, KeyOutcome, Stage
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study import Study
from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.stages import stages_of
from rag_assay.warehouse.artifacts import Artifact, ArtifactStore
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.pages import write_manifest
from rag_assay.warehouse.parquet import frame, read_parquet, write_parquet
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import DOCUMENTS, DROPPED, PAGES
from tests.fakes.first_builds import FirstBuild

STUDY = """\
study: tiny
description: Which retriever finds the ferry?
seed: 7
sources:
  docs: {reader: folder, path: docs}
corpus: {name: ferries, sources: [docs]}
chunkings:
  t16: {tokens: {size: 16, overlap: 4}}
embedders:
  minilm: {model: all-MiniLM-L6-v2}
retrievers:
  bm25: {bm25: {k: 5}}
  dense: {dense: {k: 5}}
generators:
  extractive: {extractive: {passages: 2, max_tokens: 40}}
questions:
  - file: ferry.questions.yaml
metrics: [ndcg@10, evidence_coverage@5, abstention, retrieval_latency]
"""

QUESTIONS = """\
question_set: ferry
language: en
questions:
  - id: noon
    question: When does the ferry leave the harbour?
    ground_truth: At noon.
    evidence:
      - {url: "https://x.example/ferry", quote: "The ferry leaves the harbour at noon."}
  - id: tickets
    question: Where are tickets for the crossing sold?
    ground_truth: On the quay.
    evidence:
      - {url: "https://x.example/tickets", quote: "Tickets are sold on the quay"}
      - {url: "https://x.example/gone", quote: "and on board as well"}
    needs: any
  - id: captain
    question: Who was captain of the ferry in 1901?
    answerable: false
"""

TEXTS = {
    "ferry": "The ferry leaves the harbour at noon. It calls at the island and returns before dusk.",
    "tickets": "Tickets are sold on the quay in the morning. Children under six travel without one.",
    "lamp": "The lighthouse has one lamp and one keeper. The lamp is lit at sunset every day.",
    "heat": "The harbour office is heated by a pump that draws warmth from the sea water.",
    "history": "The quay was rebuilt in 1987 after a storm. The old crane stands there to this day.",
}


WITHOUT = {"pages", "documents", "report"}  # what stands in for the crawl, and what reads the database


def write_study(
    folder: Path, changes: Mapping[str, str] | None = None, questions: str = QUESTIONS, name: str = "tiny"
) -> Path:
    """Write the tiny study with its question file and an empty folder of documents; return its path.

    changes: text of the study file -> what stands there instead
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "docs").mkdir(exist_ok=True)
    text = STUDY
    for old, new in (changes or {}).items():
        assert old in text, f"{old!r} is not in the tiny study"
        text = text.replace(old, new, 1)
    path = folder / f"{name}.yaml"
    path.write_text(text, encoding="utf-8")
    (folder / "ferry.questions.yaml").write_text(questions, encoding="utf-8")
    return path


def partial_study(**fields: Any) -> Study:
    """Return a study of these parts alone, unchecked, for what needs no others."""
    return Study.model_construct(**fields)


def _document(source: str, name: str, text: str) -> dict[str, object]:
    return {
        "doc_id": digest([source, name]),
        "version": digest(text),
        "source": source,
        "url": f"https://x.example/{name}",
        "title": name,
        "text": text,
        "language": "en",
        "published_at": None,
        "authors": [],
        "keywords": [],
        "sections": [],
        "metadata": "{}",
        "page_sha256": None,
    }


class Bench:
    """The stages of one study on one home; the crawl is left out, the documents are given.

    Args:
        path: the study file.
        home: an empty or earlier home.
        first: the first build of the test, which another test may have done.
    """

    def __init__(self, path: Path, home: Home, first: FirstBuild | None = None) -> None:
        self.study: Study = read_study(path)
        self.home = home
        self.grid = Grid([self.study])
        self.stages = stages_of(self.grid)
        self.store = ArtifactStore(home)
        self.first = first

    def give(self, texts: Mapping[str, str], source: str = "docs") -> None:
        """Commit pages and documents of these texts, as if they had just been crawled and cleaned."""
        content = digest(dict(texts))
        write_manifest(self.home, source, frame([], PAGES))
        pages = self.stages["pages"].identity(source, self.store)
        self.store.commit(Artifact("pages", source, pages, content))
        stage = self.stages["documents"]
        documents = stage.identity(source, self.store)
        built_from = {"inputs": Stage.identity(stage, source, self.store)}
        folder = self.store.folder("documents", documents)
        rows = [_document(source, name, text) for name, text in sorted(texts.items())]
        write_parquet(frame(rows, DOCUMENTS).sort("doc_id"), folder / "documents.parquet")
        write_parquet(frame([], DROPPED), folder / "dropped.parquet")
        self.store.commit(Artifact("documents", source, documents, content, meta=built_from))

    def build(self, *names: str) -> dict[str, list[KeyOutcome]]:
        """Bring these stages up to date, in their order; unless named, those from chunks to leaderboard."""
        wanted: Sequence[str] = names or [n for n in self.stages if n not in WITHOUT]
        return (
            self.first.build(self, wanted, partial(self._build, wanted))
            if self.first
            else self._build(wanted)
        )

    def _build(self, wanted: Sequence[str]) -> dict[str, list[KeyOutcome]]:
        found: dict[str, list[KeyOutcome]] = {}
        work = BuildContext(self.home)
        try:
            for name in wanted:
                stage = self.stages[name]
                found[name] = list(build_keys(stage, stage.keys(), work))
        finally:
            work.close()
        return found

    def write_report(self) -> KeyOutcome:
        """Bring the rows of all stages into the database, and then the report up to date."""
        sync_all({name: stage.keys() for name, stage in self.stages.items()}, BuildContext(self.home))
        (outcome,) = self.build("report")["report"]
        return outcome

    def artifact(self, stage: str, key: str) -> Artifact:
        """Return what a key means now."""
        artifact = self.store.current(stage, key)
        assert artifact is not None, f"{stage} of {key} is not there"
        return artifact

    def folder(self, stage: str, key: str) -> Path:
        """Return the folder of what a key means now."""
        return self.store.folder(stage, self.artifact(stage, key).identity)

    def edit(
        self, stage: str, key: str, file: str, change: Callable[[pl.DataFrame], pl.DataFrame]
    ) -> Artifact:
        """Change the rows of a stored file, as a build with another outcome would have written them."""
        artifact = self.artifact(stage, key)
        path = self.store.folder(stage, artifact.identity) / file
        write_parquet(change(read_parquet(path)), path)
        return self.store.commit(artifact)
