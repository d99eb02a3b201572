"""A gateway that asks the scripted server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rag_assay.warehouse.inference.gateway import Gateway
from rag_assay.warehouse.paths import Home
from tests.fakes.openai_server import FakeOpenAI


@pytest.fixture
def gateway(server: FakeOpenAI, tmp_path: Path) -> Iterator[Gateway]:
    with Gateway(Home(tmp_path), retries=0) as one:
        yield one
