"""Fixtures that several rooms share."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from absl import logging as absl_logging
from hypothesis import HealthCheck, settings

from rag_assay.orchestration.event_log import read_migrations_once
from rag_assay.warehouse.inference import egress, models
from rag_assay.warehouse.paths import Home
from tests.fakes.shipped import Shipped, shipped_study

REPOSITORY = Path(__file__).parents[1]
LONGEST = ("tests/orchestration/", "tests/docs/", "tests/drill/")

# A slow machine is no defect of what is tested.
settings.register_profile("assay", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("assay")

# rouge_score logs through absl, whose handler closes its stream whenever Dagster configures logging, at each
# run, unless that is the process's own: else it would be the stream that pytest had put in place of stderr.
absl_logging.get_absl_handler().python_handler.stream = sys.__stderr__


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest: none of them is to be the last, with one process idle.

    What a browser does is tried twice: on a busy machine a click may come when nobody looks. The first
    failure is shown all the same.
    """
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_collection_finish() -> None:
    """Do in each process once what tests would do again and again."""
    gc.collect()
    gc.set_threshold(50_000, 20, 20)  # as commands of ours have it
    gc.freeze()  # else each full collection goes through the modules and tests that stay to the end
    read_migrations_once()


@pytest.fixture(autouse=True)
def _nothing_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test be held to the servers of what another one has opened."""
    monkeypatch.setattr(egress, "opened", None)


@pytest.fixture(scope="session")
def weights() -> Iterator[Callable[[str], Path]]:
    """Name of a registered model -> its folder, fetched when it is not there; one folder for all tests."""
    home = Home(REPOSITORY / "var")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_MODELS", os.environ.get("ASSAY_MODELS") or str(home.models))
        yield lambda name: models.fetch(name, home)


@pytest.fixture(scope="session")
def shipped_once(
    weights: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shipped]:
    """The study of what is exported and served, run once."""
    weights("all-MiniLM-L6-v2")
    with shipped_study(tmp_path_factory.mktemp("shipped")) as found:
        yield found


@pytest.fixture
def shipped(shipped_once: Shipped) -> Iterator[Shipped]:
    """The same, with the environment that leads to its home and its model's server."""
    with shipped_once.around():
        yield shipped_once
