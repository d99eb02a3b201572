"""A scripted server and a gateway, with no key or server in the environment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rag_assay.warehouse.inference.gateway import Gateway
from rag_assay.warehouse.paths import Home
from tests.fakes.openai_server import FakeOpenAI


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as fake:
        yield fake


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with Gateway(Home(tmp_path), timeout=60.0) as made:
        yield made
