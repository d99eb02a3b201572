"""The pytest plugin: the result of a study as the fixture `assay_study`, and its gates as tests.

    [tool.pytest.ini_options]
    assay_study = "study.yaml"
    assay_gates = ["evidence_coverage@5=0.8", "rouge_l:low=0.2"]

Each gate is a test of its own; without gates, tests use the fixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from rag_assay.orchestration.api import StudyResult

_RESULT: pytest.StashKey[StudyResult | Exception] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("assay_study", "Study file that `assay_study` runs, relative to the configuration file.")
    parser.addini("assay_gates", "Gates of the study, METRIC=VALUE; each is a test.", type="linelist")
    group = parser.getgroup("rag-assay")
    group.addoption("--assay-study", metavar="STUDY", help="Study file; default: ini option assay_study.")
    group.addoption("--assay-workspace", metavar="FOLDER", help="Workspace; default: ASSAY_HOME, else var.")


@pytest.fixture(scope="session")
def assay_study(request: pytest.FixtureRequest) -> StudyResult:
    """The result of the study, which is run once in a session; what is cached is not computed again."""
    return _result(request.config)


def pytest_collect_file(parent: pytest.Collector, file_path: Path) -> pytest.Collector | None:
    study = _study_path(parent.config)
    if study is None or file_path.resolve() != study or not parent.config.getini("assay_gates"):
        return None
    found: pytest.Collector = _GateFile.from_parent(parent, path=file_path)
    return found


def pytest_collection_finish(session: pytest.Session) -> None:
    """Stop if gates are set and their study is not collected."""
    gates = session.config.getini("assay_gates")
    if gates and session.items and not any(isinstance(one, _GateItem) for one in session.items):
        study = _study_path(session.config)
        raise pytest.UsageError(f"assay_gates are set, but not checked: give pytest {study} too")


class _GateFile(pytest.File):
    def collect(self) -> Iterator[pytest.Item]:
        from rag_assay.evals.reporting.thresholds import read_gates
        from rag_assay.evals.study.study_file import read_study
        from rag_assay.warehouse.errors import InputError

        gates = self.config.getini("assay_gates")
        try:
            read_gates(gates, read_study(self.path))  # a mistake must not cost a run
        except InputError as error:
            raise self.CollectError(str(error)) from None
        for gate in gates:
            yield _GateItem.from_parent(self, name=gate)


class _GateItem(pytest.Item):
    def runtest(self) -> None:
        (held,) = _result(self.config).gates(self.name)
        if not held.passed:
            pytest.fail(held.sentence, pytrace=False)

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, f"gate {self.name}"

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None) -> str:
        from rag_assay.warehouse.errors import AssayError

        if isinstance(excinfo.value, AssayError):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo))


def _study_path(config: pytest.Config) -> Path | None:
    given = config.getoption("--assay-study")
    if given:
        return (config.invocation_params.dir / given).resolve()
    named = config.getini("assay_study")
    base = config.inipath.parent if config.inipath else config.rootpath
    return (base / named).resolve() if named else None


def _result(config: pytest.Config) -> StudyResult:
    """Return the result; a failed run is not repeated, and fails each test that uses it."""
    if _RESULT not in config.stash:
        config.stash[_RESULT] = _run(config)
    found = config.stash[_RESULT]
    if isinstance(found, Exception):
        raise found
    return found


def _run(config: pytest.Config) -> StudyResult | Exception:
    from rag_assay.orchestration.api import LoadedStudy

    study = _study_path(config)
    if study is None:
        raise pytest.UsageError(
            "name the study: `assay_study = study.yaml` in the configuration of pytest, or --assay-study"
        )
    try:
        return LoadedStudy.load(study, config.getoption("--assay-workspace")).run()
    except Exception as error:
        return error
