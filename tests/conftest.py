"""Fixtures that several rooms share."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from itertools import compress
from operator import not_
from pathlib import Path
from typing import Any

import pytest
from absl import logging as absl_logging
from hypothesis import HealthCheck, settings

from rag_assay.assets.embedding.local import LocalEmbedder
from rag_assay.assets.engine.stage import BuildContext
from rag_assay.orchestration import unchanged
from rag_assay.warehouse import connection
from rag_assay.warehouse.inference import egress, models, redaction
from rag_assay.warehouse.paths import Home
from tests.end_to_end import END_TO_END, changed_since, is_affected
from tests.fakes import audit_hooks, forking
from tests.fakes.known_vectors import encode_once
from tests.fakes.migrations import begin_with, read_migrations_once
from tests.fakes.shipped import Shipped, shipped_study

REPOSITORY = Path(__file__).parents[1]
ORCHESTRATION = "tests/orchestration/"
LONGEST = (
    *END_TO_END,
    f"{ORCHESTRATION}test_driver",
    f"{ORCHESTRATION}test_cli",
    f"{ORCHESTRATION}corpora/",
    f"{ORCHESTRATION}web/",
    ORCHESTRATION,
    "tests/docs/",
    "tests/contracts/",
)
"""What the names of files begin with, those first that take longest; all others come after them."""

PRELOADED = (
    "rag_assay.orchestration.driver",
    "rag_assay.orchestration.cli",
    "sentence_transformers",
    "litellm",
    "rouge_score.rouge_scorer",
    "dagster_webserver.app",
    "scrapy.crawler",
)
"""Modules that tests of most files import: workers are forked with them."""
OF_COMMANDS = (*PRELOADED, "lancedb")
"""Modules that commands import."""
OF_EMBEDDING = ("tests/assets/embedding/", "tests/contracts/")
"""What the names of files begin with in which the model computes each time."""

# Threads of OpenMP that wait for each other in turn take eight times the processor on a machine that is busy.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else its import asks the internet
forking.install()  # in tests, and in what Dagster and our code start in them
audit_hooks.install()
gc.disable()  # until all is collected: there is no garbage in modules and tests that stay to the end

# A slow machine is no defect of what is tested.
settings.register_profile("assay", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("assay")

# rouge_score logs through absl, whose handler closes its stream whenever Dagster configures logging, at each
# run, unless that is the process's own: else it would be the stream that pytest had put in place of stderr.
absl_logging.get_absl_handler().python_handler.stream = sys.__stderr__


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "Leave out the end-to-end tests that no change since this commit or branch can break."
    parser.addoption("--since", default="", metavar="REF", help=text)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort the files by their time, longest first, so that no process ends with a long one alone.

    What a browser does is tried twice: on a busy machine a click may come when nobody looks. The first
    failure is shown all the same.
    """
    reference = config.getoption("since", "")
    if reference and (changed := changed_since(reference)) is not None:
        affected = [is_affected(item.nodeid, changed) for item in items]
        config.hook.pytest_deselected(items=list(compress(items, map(not_, affected))))
        items[:] = compress(items, affected)
    items.sort(key=lambda item: _rank(item.nodeid.partition("::")[0]))
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.flaky(reruns=1))


@cache
def _rank(file: str) -> int:
    return next((n for n, name in enumerate(LONGEST) if file.startswith(name)), 99)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Do in each process once what tests would do again and again."""
    if session.config.getoption("jobs", 1) > 1:
        forking.server(OF_COMMANDS)
        for name in PRELOADED:
            import_module(name)
    gc.collect()
    gc.set_threshold(50_000, 20, 20)  # as commands of ours have it
    gc.freeze()  # else each full collection goes through the modules and tests that stay to the end
    gc.enable()
    read_migrations_once()


@pytest.fixture(autouse=True)
def _begins_as_a_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let no test be held to the servers, hide the secrets, or record for the command, of an earlier one.

    The process remembers its vectors, except for tests of embedding.
    """
    monkeypatch.setattr(egress, "opened", None)
    monkeypatch.setattr(redaction, "_known", dict(redaction._known))
    monkeypatch.setattr(unchanged, "_recorder", None)
    if not request.node.nodeid.startswith(OF_EMBEDDING):
        monkeypatch.setattr(LocalEmbedder, "encode", encode_once)
    yield
    audit_hooks.forget()


@pytest.fixture(scope="session", autouse=True)
def _no_test_writes_into_the_workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_HOME", str(tmp_path_factory.mktemp("workspace")))
        patch.setenv("ASSAY_MODELS", os.environ.get("ASSAY_MODELS") or str(Home(REPOSITORY / "var").models))
        yield


@pytest.fixture(scope="session", autouse=True)
def _databases_begin_migrated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let a new database begin as a copy of one that all migrations have made, a fifth of their time."""
    migrated = tmp_path_factory.mktemp("database") / "migrated.duckdb"
    with connection.connect(migrated):
        pass
    content = migrated.read_bytes()
    attached = connection._attach

    def copied(path: Path, *arguments: Any) -> Any:
        begin_with(path, content)
        return attached(path, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "_attach", copied)
        yield


@pytest.fixture(scope="session")
def weights() -> Callable[[str], Path]:
    """Name of a registered model -> its folder, fetched when it is not there; one folder for all tests."""
    return lambda name: models.fetch(name, Home(REPOSITORY / "var"))


@pytest.fixture(scope="session")
def shipped_once(
    weights: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shipped]:
    """The study of what is exported and served, run once."""
    weights("all-MiniLM-L6-v2")
    with shipped_study(tmp_path_factory.mktemp("shipped")) as found:
        yield found


@pytest.fixture
def shipped(shipped_once: Shipped, monkeypatch: pytest.MonkeyPatch) -> Shipped:
    """The same, with the environment that leads to its home and its model's server.

    It is set by the `monkeypatch` of the test: what another one sets would come back when the test's own
    change of the same variable is undone later.
    """
    shipped_once.set_environment(monkeypatch)
    return shipped_once


@pytest.fixture
def work(shipped: Shipped) -> Iterator[BuildContext]:
    """A context of its home, for what opens its cells or its export."""
    held = BuildContext(shipped.bench.home)
    yield held
    held.close()
