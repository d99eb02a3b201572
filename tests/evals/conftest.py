"""A bench with the tiny study's documents, and the weights that its stages need."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from rag_assay.assets.embedding import cached_embedder
from rag_assay.warehouse.inference import call_failures
from rag_assay.warehouse.paths import Home
from tests.fakes.first_builds import FirstBuild
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.tiny import QUESTIONS, TEXTS, Bench, write_study
from tests.fakes.town import Town

MakeBench = Callable[..., Bench]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeOpenAI]:
    """A scripted server at OpenAI's address, and one attempt a call."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setattr(call_failures, "fault_of", lambda _error: call_failures.CallFailure(is_passing=False))
    with FakeOpenAI() as fake:
        monkeypatch.setenv("OPENAI_BASE_URL", fake.api_base)
        yield fake


@pytest.fixture(scope="session")
def first_builds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Homes that tests of this process have built."""
    return tmp_path_factory.mktemp("first-builds")


@pytest.fixture
def first_build(first_builds: Path, monkeypatch: pytest.MonkeyPatch) -> FirstBuild:
    return FirstBuild(first_builds, monkeypatch)


@pytest.fixture
def make_bench(
    weights: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first_build: FirstBuild
) -> MakeBench:
    """(changes of the study, questions, texts) -> its bench, always on the same home."""
    weights("all-MiniLM-L6-v2")
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))

    def make(
        changes: Mapping[str, str] | None = None,
        questions: str = QUESTIONS,
        texts: Mapping[str, str] = TEXTS,
    ) -> Bench:
        bench = Bench(
            write_study(tmp_path / "study", changes, questions), Home(tmp_path / "home"), first_build
        )
        bench.give(texts)
        return bench

    return make


@pytest.fixture
def town(
    weights: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first_build: FirstBuild
) -> Town:
    """Variants of the tiny study, each run on a home that the test names."""
    weights("all-MiniLM-L6-v2")
    # A process that has not loaded the model embeds a few texts without it: vectors of another last digit.
    monkeypatch.setattr(cached_embedder, "FEW", -1)
    return Town(tmp_path, monkeypatch, first_build)
