"""What a study names may be asked once it is read, and nothing else, whichever code asks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rag_assay.evals.study.study_file import read_study
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.inference import egress
from rag_assay.warehouse.inference.embedding_api import EmbeddingApi, EmbeddingError
from rag_assay.warehouse.inference.gateway import Gateway
from rag_assay.warehouse.inference.model_servers import UnknownServerError, permitted
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import Status
from tests.fakes.openai_server import FakeOpenAI, answer
from tests.orchestration.conftest import STUDY, write_study

PARTS = """\
  quote: {extractive: {passages: 2, max_tokens: 40}}
  far: {llm: {model: openai/x, api_base: "https://generator.example/v1", fallback: [anthropic/any]}}
judges:
  grader: {criteria: {model: mistral/x, api_base: "https://judge.example:8443", metrics: [correctness]}}
"""
MORE = {
    "  quote: {extractive: {passages: 2, max_tokens: 40}}\n": PARTS,
    "  meaning: {dense: {k: 5}}\n": "  meaning: {dense: {k: 5}}\n"
    '  asked: [{hyde: {by: llm, model: openai/y, api_base: "http://transform.example"}}, {bm25: {}}]\n',
    "max_tokens: 256}\n": "max_tokens: 256}\n"
    '  server: {model: openai/embed, api: {base: "https://embedder.example/v1"}}\n',
    "path: texts}": 'path: texts, date_by: {model: openai/z, api_base: "https://dates.example"}}',
}


@pytest.fixture
def path(tmp_path: Path, weights: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    weights("all-MiniLM-L6-v2")
    for name in ("OPENAI_API_BASE", "OPENAI_BASE_URL", "MISTRAL_API_BASE", "ANTHROPIC_API_BASE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    found, text = write_study(tmp_path), STUDY
    for old, new in MORE.items():
        assert old in text, old
        text = text.replace(old, new)
    found.write_text(text)
    return found


def test_the_servers_of_all_parts_may_be_asked_and_no_other(path: Path) -> None:
    assert permitted("openai/x", "https://thief.example/v1"), (
        "until something is opened, a call goes where it says"
    )
    read_study(path)
    for host in ("generator.example", "judge.example:8443", "embedder.example", "dates.example"):
        assert permitted("openai/any", f"https://{host}/v9")
    assert permitted("openai/any", "http://transform.example/v1")
    assert permitted("anthropic/any", None)
    for model, base in (
        *(("openai/x", "https://thief.example/v1"), ("openai/x", "https://judge.example/v1")),
        *(("openai/x", "http://generator.example:8080/v1"), ("openai/x", None), ("mistral/x", None)),
    ):
        with pytest.raises(UnknownServerError, match="not among the servers"):
            permitted(model, base)


def test_a_component_that_asks_a_server_of_its_own_is_refused_before_a_connection(
    path: Path, tmp_path: Path
) -> None:
    read_study(path)
    with Gateway(Home(tmp_path / "home"), retries=0) as gateway:
        reply = gateway.complete(
            "openai/x", [{"role": "user", "content": "passage"}], api_base="https://thief.invalid/v1"
        )
        assert reply.status in {Status.ERROR, Status.NOT_RUN}
        assert "https://thief.invalid:443 is not among the servers" in str(reply.reason)
        with FakeOpenAI(answer("here")) as local:  # of this machine
            own = gateway.complete("openai/x", [{"role": "user", "content": "x"}], api_base=local.api_base)
            assert own.text == "here"
    with pytest.raises(EmbeddingError, match="not among the servers"):
        EmbeddingApi("openai/x", base="https://thief.invalid/v1", retries=0).embed(["passage"])


def test_a_study_that_is_refused_opens_nothing(path: Path) -> None:
    path.write_text(path.read_text() + "surprise: 1\n")
    with pytest.raises(InputError, match="surprise"):
        read_study(path)
    assert egress.opened is None


def test_a_study_without_servers_asks_none(path: Path) -> None:
    path.write_text(STUDY)
    read_study(path)
    assert egress.opened == set()
    with pytest.raises(UnknownServerError, match="openai is not among the servers"):
        permitted("openai/x", None)
