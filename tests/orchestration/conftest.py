"""A small real study: on an empty home for each test, or on one that it was run on."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from rag_assay.evals.study.study import Study
from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.driver import Driver
from rag_assay.orchestration.run_report import RunReport
from rag_assay.orchestration.settings import prepare
from rag_assay.warehouse.paths import Home, home
from tests.fakes.processes import end_all_of, wait_until

TEXTS = {
    "harbour.txt": "The harbour office opens at seven. A mooring costs twelve pounds a night in summer. "
    "Pilots report by radio before they pass the outer buoy.",
    "ferry.txt": "The ferry to the island runs every forty minutes and carries nineteen cars. "
    "In a storm above nine Beaufort it stays in port.",
    "library.txt": "The library lends books for four weeks and films for one. Fines stop at five pounds.",
}
QUESTIONS = """\
question_set: town
questions:
  - id: q1
    question: What does a mooring cost in summer?
    ground_truth: Twelve pounds a night.
    evidence: [{url: harbour.txt, quote: A mooring costs twelve pounds a night}]
  - id: q2
    question: How many cars fit on the ferry?
    ground_truth: Nineteen cars.
    evidence: [{url: ferry.txt, quote: carries nineteen cars}]
  - id: q3
    answerable: false
    question: Who is the mayor?
"""
STUDY = """\
study: town
sources:
  texts: {reader: folder, path: texts}
corpus: {name: town, sources: [texts]}
chunkings:
  t16: {tokens: {size: 16, overlap: 4}}
embedders:
  minilm: {model: all-MiniLM-L6-v2, max_tokens: 256}
retrievers:
  words: {bm25: {k: 5}}
  meaning: {dense: {k: 5}}
generators:
  quote: {extractive: {passages: 2, max_tokens: 40}}
questions: [{file: town.questions.yaml}]
metrics: [ndcg@10, evidence_coverage@5, rouge_l]
"""


@pytest.fixture
def assay_home(tmp_path: Path, weights: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> Home:
    """A prepared home in a temporary folder, with the model weights at hand."""
    weights("all-MiniLM-L6-v2")
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "var"))
    monkeypatch.setenv("DAGSTER_HOME", "")
    prepare()
    return home()


@pytest.fixture
def study_path(tmp_path: Path) -> Path:
    """The path of a small study: three text files, three questions, two retrievers."""
    return write_study(tmp_path)


@pytest.fixture
def edit(study_path: Path) -> Callable[[str, str], Study]:
    """Replace a text in the study file, which must be there, and read the study again."""
    return lambda old, new: replace_in(study_path, old, new)


@dataclass(frozen=True)
class Finished:
    """The small study after its first run: its file, its home, and what the run said."""

    path: Path
    home: Home
    report: RunReport

    def edit(self, old: str, new: str) -> Study:
        """Replace a text in the study file, which must be there, and read the study again."""
        return replace_in(self.path, old, new)


@pytest.fixture(scope="session")
def first_run(weights: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """The small study as its first run has left it; run once, and copied from then on."""
    weights("all-MiniLM-L6-v2")
    folder = tmp_path_factory.mktemp("first-run")
    path = write_study(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_HOME", str(folder / "var"))
        patch.setenv("DAGSTER_HOME", "")
        prepare()
        report = Driver(read_study(path), home()).run()
    shutil.move(folder / "var", folder / "kept")
    return Finished(path, Home(folder / "kept"), report)


@pytest.fixture
def finished(first_run: Finished, monkeypatch: pytest.MonkeyPatch) -> Iterator[Finished]:
    """The small study on a home that it was run on; study and home may be changed, its documents may not.

    It lies in the same folder for all tests, for a source is known by its path and the times of its files.
    """
    root = first_run.path.with_name("var")

    def is_removed() -> bool:
        shutil.rmtree(root, ignore_errors=True)
        return not root.exists()

    assert wait_until(is_removed)
    shutil.copytree(first_run.home.root, root)
    texts = times_of(first_run.path.with_name("texts"))
    monkeypatch.setenv("ASSAY_HOME", str(root))
    monkeypatch.setenv("DAGSTER_HOME", "")
    prepare()
    yield Finished(first_run.path, home(), first_run.report)
    end_all_of(root)  # a test that failed may have left processes, which would write to the next one's home
    first_run.path.write_text(STUDY)
    assert times_of(first_run.path.with_name("texts")) == texts, "use `study_path` to change its documents"


def write_study(folder: Path) -> Path:
    """Write the small study, its questions and its documents; return its path."""
    (folder / "texts").mkdir()
    for name, text in TEXTS.items():
        (folder / "texts" / name).write_text(text)
    (folder / "town.questions.yaml").write_text(QUESTIONS)
    path = folder / "town.yaml"
    path.write_text(STUDY)
    return path


def replace_in(path: Path, old: str, new: str) -> Study:
    """Replace a text in a study file, which must be there, and read the study again."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return read_study(path)


def times_of(folder: Path) -> dict[str, int]:
    """File name -> when it was changed last."""
    return {entry.name: entry.stat().st_ctime_ns for entry in os.scandir(folder)}
