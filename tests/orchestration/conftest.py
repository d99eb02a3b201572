"""A home of its own and a small real study for each test of the driver and the commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from evals.study.study import Study
from evals.study.study_file import read_study
from orchestration.settings import prepare
from warehouse.paths import Home, home

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
    (tmp_path / "texts").mkdir()
    for name, text in TEXTS.items():
        (tmp_path / "texts" / name).write_text(text)
    (tmp_path / "town.questions.yaml").write_text(QUESTIONS)
    path = tmp_path / "town.yaml"
    path.write_text(STUDY)
    return path


@pytest.fixture
def edit(study_path: Path) -> Callable[[str, str], Study]:
    """Replace a text in the study file, which must be there, and read the study again."""

    def replace(old: str, new: str) -> Study:
        text = study_path.read_text()
        assert old in text
        study_path.write_text(text.replace(old, new))
        return read_study(study_path)

    return replace
