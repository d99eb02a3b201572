"""Parts from another installed package: named, used in a study, part of the identity of what they made."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.paths import Home
from tests.fakes.tiny import QUESTIONS, TEXTS

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "tests" / "example_package"
STUDY = """\
study: acme
sources:
  notes: {reader: acme_notes, path: notes, options: {suffix: .note}}
  posts:
    spider: acme_site
    start: ["https://blog.sample.example/2021/06/08/accessibility-audit-results/"]
    options: {motto: slow and steady}
    mirror: sample_site
    delay: 0
    limits: {pages: 1}
corpus: {name: acme, sources: [notes, posts]}
chunkings:
  t16: {tokens: {size: 16, overlap: 4}}
  whole: {acme_paragraphs: {}, tokenizer: all-MiniLM-L6-v2}
embedders:
  hashed: {hashing: {size: 64}}
  letters: {acme_letters: {letters: 20}}
retrievers:
  bm25: {bm25: {k: 5}}
  longest: [{acme_loud: {}}, {acme_longest: {k: 4}}, {acme_half: {least: 2}}]
generators:
  extractive: {extractive: {passages: 2, max_tokens: 40}}
  words: {acme_first_words: {words: 3}}
questions: [{file: ferry.questions.yaml}]
metrics: [ndcg@10, acme_found@5]
restrict:
  words: {retrievers: [longest], chunkings: [t16], embedders: [hashed]}
  extractive: {embedders: [hashed]}
"""
OURS = "t16.hashed.bm25"  # a cell with nothing of the package in it, but for the source


class Installed:
    """A folder with the example package in some version, beside a study that uses it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.study = folder / "acme.yaml"
        self.home = Home(folder / "var")

    def install(self, version: str) -> None:
        site = self.folder / "site"
        shutil.rmtree(site, ignore_errors=True)
        shutil.copytree(PACKAGE, site, ignore=shutil.ignore_patterns("__pycache__"))
        facts = site / f"acme_parts-{version}.dist-info"
        (site / "acme_parts-1.0.dist-info").rename(facts)
        text = (facts / "METADATA").read_text().replace("Version: 1.0", f"Version: {version}")
        (facts / "METADATA").write_text(text)

    def assay(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(REPOSITORY / "src"), str(self.folder / "site")]),
            "ASSAY_HOME": str(self.home.root),
        }
        return subprocess.run(
            [sys.executable, "-m", "rag_assay.orchestration.cli", *arguments],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=290,
        )

    def artifacts(self) -> dict[tuple[str, str], str]:
        """Return the identities of what there is, by stage and key."""
        store = ArtifactStore(self.home)
        keys = {
            "pages": ("notes", "posts"),
            "documents": ("notes", "posts"),
            "chunks": ("acme.t16", "acme.whole"),
            "rankings": tuple(
                f"acme.{chunking}.hashed.{retriever}"
                for chunking in ("t16", "whole")
                for retriever in ("bm25", "longest")
            ),
            "answers": (f"acme.{OURS}.extractive", "acme.t16.hashed.longest.words"),
        }
        found = {(stage, key): store.current(stage, key) for stage, own in keys.items() for key in own}
        assert None not in found.values()
        return {place: one.identity for place, one in found.items() if one is not None}


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    (tmp_path / "notes").mkdir()
    for name, text in TEXTS.items():
        (tmp_path / "notes" / f"{name}.note").write_text(f"{name}\n{text}\n\nThe end of {name}.")
    (tmp_path / "ferry.questions.yaml").write_text(QUESTIONS)
    (tmp_path / "acme.yaml").write_text(STUDY)
    found = Installed(tmp_path)
    found.install("1.0")
    return found


def test_parts_are_named_with_their_package_and_what_is_broken_with_its_reason(installed: Installed) -> None:
    listed = installed.assay("components", "--format", "json")
    assert listed.returncode == 0, listed.stderr
    found: list[dict[str, Any]] = [one for one in json.loads(listed.stdout) if one["package"]]
    assert {one["package"] for one in found} == {"acme-parts 1.0"}
    sound = {(one["group"], one["name"]): one for one in found if not one["broken"]}
    assert set(sound) == {
        ("chunkers", "acme_paragraphs"),
        ("embedders", "acme_letters"),
        ("retrievers", "acme_longest"),
        ("steps", "acme_half"),
        ("query_transforms", "acme_loud"),
        ("generators", "acme_first_words"),
        ("judges", "acme_brief"),
        ("metrics", "acme_found"),
        ("readers", "acme_notes"),
        ("spiders", "acme_site"),
    }
    (words, *_) = (
        one for one in sound["generators", "acme_first_words"]["parameters"] if one["name"] == "words"
    )
    assert (words["type"], words["bounds"], words["default"], words["about"]) == (
        "whole number",
        "1 to 100",
        8,
        "how many",
    )
    broken = {one["name"]: one["broken"] for one in found if one["broken"]}
    assert set(broken) == {"acme_absent", "acme_function", "folder"}
    assert "the step `acme_absent` of the package acme-parts 1.0" in broken["acme_absent"]
    assert "ModuleNotFoundError" in broken["acme_absent"]
    assert "not a class derived from rag_assay.evals.metrics.contract.Metric" in broken["acme_function"]
    assert "`folder` is a reader of rag-assay itself" in broken["folder"]
    shown = installed.assay("components", "retrievers").stdout
    assert "acme_longest (acme-parts 1.0): The longest chunks, whatever is asked." in shown


MISTAKES = {  # what is written in place of what, and what is said of it, with its line
    "least: 2": ("least: two", 20, "acme_half.least: must be a whole number, not 'two'"),
    "words: 3": ("words: 0", 23, "generators.words.acme_first_words.words: must be at least 1, not 0"),
    "letters: 20": ("letters: 1", 17, "acme_letters.letters: must be at least 2, not 1"),
    "acme_paragraphs: {}": ("acme_paragraph: {}", 14, "did you mean `acme_paragraphs`?"),
    "suffix: .note": ("suffx: .note", 3, "unknown key `suffx`"),
    "acme_found@5": ("acme_fond@5", 25, "did you mean acme_found"),
}
UNUSABLE = {
    "acme_half": ("acme_absent", 20, "acme-parts 1.0 (acme_parts.no_such_module:Absent) cannot be"),
    "acme_notes": ("acme_note", 3, "must be 'beir', 'bucket', "),
}


@pytest.mark.parametrize("mistakes", [MISTAKES, UNUSABLE])
def test_mistakes_are_answered_with_their_lines(
    installed: Installed, mistakes: dict[str, tuple[str, int, str]]
) -> None:
    study = STUDY
    for right, (wrong, *_) in mistakes.items():
        study = study.replace(right, wrong)
    installed.study.write_text(study)
    checked = installed.assay("check", str(installed.study))
    assert checked.returncode == 2
    for _, line, sentence in mistakes.values():
        answers = [one for one in checked.stderr.splitlines() if f"acme.yaml:{line}: " in one]
        assert any(sentence in one for one in answers), (line, sentence, checked.stderr)


@pytest.mark.models
@pytest.mark.timeout(900)
def test_a_study_of_foreign_parts_runs_and_a_new_version_makes_anew_what_hung_on_it(
    installed: Installed, weights: Callable[[str], Path]
) -> None:
    weights("all-MiniLM-L6-v2")
    done = installed.assay("run", str(installed.study))
    assert done.returncode == 0, done.stderr
    before = installed.artifacts()
    report = json.loads(installed.assay("report", str(installed.study), "--format", "json").stdout)
    assert {row["metric"] for row in report if ":" not in row["metric"]} == {
        "ndcg@10",
        "acme_found@5",
        "verdict",
    }

    installed.install("1.1")
    done = installed.assay("run", str(installed.study))
    assert done.returncode == 0, done.stderr
    after = installed.artifacts()
    assert {place for place in before if before[place] != after[place]} == {
        ("pages", "notes"),
        ("pages", "posts"),
        ("chunks", "acme.whole"),
        ("rankings", "acme.whole.hashed.bm25"),
        ("rankings", "acme.whole.hashed.longest"),
        ("rankings", "acme.t16.hashed.longest"),
        ("answers", "acme.t16.hashed.longest.words"),
    }
