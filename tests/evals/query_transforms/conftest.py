"""The sample sites' acts and football reports, crawled, cleaned, cut, embedded and indexed once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rag_assay.assets.embedding.cached_embedder import CachedEmbedder
from rag_assay.assets.engine.builder import build_keys
from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.ranking import Vector
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study_file import read_study
from rag_assay.evals.study.study_names import BUNDLED
from rag_assay.orchestration.stages import stages_of
from rag_assay.warehouse.artifacts import Artifact, ArtifactStore
from rag_assay.warehouse.pages import manifest_digest, read_manifest
from rag_assay.warehouse.parquet import read_parquet
from tests.fakes.crawling import crawling

CHUNKING = "tokens-256-0"
SOURCES = ("acts", "reports")


@dataclass(frozen=True)
class Sample:
    """An index of both sites, the demo's question sets with resolved evidence, and their vectors by text."""

    index: OpenIndex
    questions: dict[str, list[dict[str, Any]]]
    vectors: dict[str, Vector]


@pytest.fixture(scope="session")
def sample(weights: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Sample:
    """Build what the demo builds of two of its sites."""
    weights("all-MiniLM-L6-v2")
    folder = tmp_path_factory.mktemp("sample")
    demo = read_study(BUNDLED / "demo.yaml")
    windows = demo.chunkings["tokens-128-42"]
    wider = windows.chunker.model_copy(update={"size": 256, "overlap": 0})
    # The first tokens of a chunk are embedded in a fraction of the time.
    short = demo.embedders["minilm"].model_copy(update={"max_tokens": 48, "overflow": "truncate"})
    study = demo.model_copy(
        update={
            "sources": {name: demo.sources[name] for name in SOURCES},
            "corpus": demo.corpus.model_copy(update={"sources": SOURCES}),
            "embedders": {"minilm": short},
            "chunkings": {CHUNKING: windows.model_copy(update={"chunker": wider})},
            "questions": tuple(one for one in demo.questions if "blog" not in (one.file or "")),
        }
    )
    stages = stages_of(Grid([study]))
    homes = [crawling(folder, name, **study.sources[name].model_dump(mode="json")) for name in SOURCES]
    home = homes[0].home
    store = ArtifactStore(home)
    for name, crawl in zip(SOURCES, homes, strict=True):
        crawl.run()
        content = manifest_digest(read_manifest(home, name))
        store.commit(Artifact("pages", name, stages["pages"].identity(name, store), content))
    work = BuildContext(home)
    until = list(stages).index("questions")
    for stage in list(stages.values())[1 : until + 1]:
        for outcome in build_keys(stage, stage.keys(), work):
            assert outcome.error is None, outcome
    work.close()

    def built(stage: str, key: str) -> Path:
        artifact = store.current(stage, key)
        assert artifact is not None
        return store.folder(stage, artifact.identity)

    (index_key,) = stages["indexes"].keys()
    questions = {
        key.split(".")[-1]: read_parquet(built("questions", key) / "questions.parquet").to_dicts()
        for key in stages["questions"].keys()
    }
    texts = [one["question"] for those in questions.values() for one in those]
    vectors = CachedEmbedder(study.embedders["minilm"], home).queries(texts).vectors
    index = OpenIndex(built("indexes", index_key))
    return Sample(index, questions, dict(zip(texts, vectors, strict=True)))
