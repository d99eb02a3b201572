"""What tests of studies share: a model server that answers every question alike."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rag_assay.warehouse.inference import call_failures
from tests.fakes.openai_server import FakeOpenAI, answer


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeOpenAI]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setattr(call_failures, "fault_of", lambda _error: call_failures.CallFailure(is_passing=False))
    with FakeOpenAI(respond=lambda _received: answer("At noon.")) as fake:
        yield fake
