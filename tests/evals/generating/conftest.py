"""A scripted server for generators that ask a model, and a gateway that asks it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.openai_server import FakeOpenAI
from warehouse.inference import call_failures
from warehouse.inference.gateway import Gateway
from warehouse.paths import Home


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeOpenAI]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setattr(call_failures, "fault_of", lambda _error: call_failures.Fault(is_passing=False))
    with FakeOpenAI() as fake:
        monkeypatch.setenv("OPENAI_BASE_URL", fake.api_base)
        yield fake


@pytest.fixture
def gateway(server: FakeOpenAI, tmp_path: Path) -> Iterator[Gateway]:
    with Gateway(Home(tmp_path), retries=0) as one:
        yield one
