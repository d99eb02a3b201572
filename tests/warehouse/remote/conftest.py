from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.object_storage import Server, s3_server


@pytest.fixture(scope="module")
def s3() -> Iterator[Server]:
    with s3_server() as server:
        yield server


@pytest.fixture
def server(s3: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The server, with the environment by which it is used."""
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    return s3
