"""A finished result stays readable whatever is run or edited afterwards, and is never mixed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.rows import report_data
from rag_assay.evals.study.study_file import read_study
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.tables import rebuild
from tests.fakes.commands import Done, assay
from tests.orchestration.conftest import TEXTS, write_study

pytestmark = pytest.mark.models
STUDY = """\
study: NAME
sources:
  texts: {reader: folder, path: "${TOWN}"}
corpus: {name: town, sources: [texts]}
chunkings:
  t16: {tokens: {size: 16, overlap: 4}}
embedders:
  hashed: {hashing: {size: 64}}
retrievers:
  words: {bm25: {k: 5}}
generators:
  quote: {extractive: {passages: 2, max_tokens: 40}}
questions: [{file: town.questions.yaml}]
metrics: [ndcg@10, evidence_coverage@5, rouge_l]
"""


class Towns:
    """Two studies whose files are equal but for their names; each is run on other documents."""

    def __init__(self, folder: Path, home: Home) -> None:
        write_study(folder)
        self.home = home
        self.paths = {name: folder / f"{name}.yaml" for name in ("first", "second")}
        for name, path in self.paths.items():
            path.write_text(STUDY.replace("NAME", name))
        self.texts = {"first": folder / "texts", "second": folder / "others"}
        self.texts["second"].mkdir()
        for name, text in TEXTS.items():
            (self.texts["second"] / name).write_text(text.replace("twelve", "thirteen") + " It rains.")

    def assay(self, command: str, name: str, *arguments: str, on: str | None = None) -> Done:
        place = {"TOWN": str(self.texts[on or name])}
        return assay(command, str(self.paths[name]), *arguments, **place)

    def run(self, name: str) -> list[str]:
        """Run a study; return the stages of which something was computed."""
        done = self.assay("run", name)
        assert done.returncode == 0, done.stderr
        return computed(done.stderr)

    def data(self, name: str) -> ReportData:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TOWN", str(self.texts[name]))
            return report_data(read_study(self.paths[name]), self.home)

    def rows(self, name: str, on: str | None = None) -> object:
        done = self.assay("report", name, "--format", "json", on=on)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def pages(self, name: str) -> str:
        done = self.assay("show", name, "q1")
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def towns(tmp_path: Path, assay_home: Home) -> Towns:
    return Towns(tmp_path, assay_home)


def computed(said: str) -> list[str]:
    """The stages of which a run says that something was computed."""
    return [line.split()[4] for line in said.splitlines() if " computed" in line and line.startswith("stage")]


def test_a_result_outlives_a_study_that_uses_its_names_for_other_documents(towns: Towns) -> None:
    towns.run("first")
    rows, shown, data = towns.rows("first"), towns.pages("first"), towns.data("first")
    assert "twelve pounds" in shown
    towns.run("second")
    assert "thirteen pounds" in towns.pages("second")
    assert (towns.rows("first"), towns.pages("first")) == (rows, shown)
    page = towns.assay("report", "first")
    assert page.returncode == 0, page.stderr
    assert Path(page.stdout.strip()) == towns.home.report("first")
    again = towns.data("first")
    assert again.hits.equals(data.hits)
    assert again.provenance == data.provenance
    assert towns.assay("report", "first", "--format", "trec").returncode == 0
    other = towns.assay("report", "first", "--format", "json", on="second")
    assert "the study file changed since this run" in other.stderr
    assert json.loads(other.stdout) == rows
    rebuild(towns.home)
    assert (towns.rows("first"), towns.pages("first")) == (rows, shown)

    assert towns.run("first") in ([], ["report"]), "its documents are read and built once"
    assert towns.run("second") in ([], ["report"])
    assert towns.run("first") == []
    assert (towns.rows("first"), towns.pages("first")) == (rows, shown)


def test_an_edited_study_shows_the_finished_result_until_its_next_run_ends(towns: Towns) -> None:
    towns.run("first")
    rows, shown = towns.rows("first"), towns.pages("first")
    path = towns.paths["first"]
    before = path.read_text()
    for old, new in (
        ("size: 16", "size: 24"),
        ("  words: {bm25", "  terms: {bm25"),
        ("ndcg@10, ", ""),
    ):
        assert old in before
        path.write_text(before.replace(old, new))
        found = towns.assay("report", "first", "--format", "json")
        assert "the study file changed since this run" in found.stderr, new
        assert json.loads(found.stdout) == rows, new
        again = towns.assay("show", "first", "q1")
        assert (again.stdout, "the study file changed" in again.stderr) == (shown, True), new
    data = towns.data("first")
    assert "the study file changed since this run" in data.notes[0]
    path.write_text(before.replace("size: 16", "size: 24"))
    assert towns.assay("ask", "first", "q1").returncode == 2, "a pipeline is opened as the file is now"
    path.write_text(before)
    assert towns.run("first") in ([], ["report"])

    path.write_text(before.replace("size: 16", "size: 24"))
    store, key = ArtifactStore(towns.home), "first.t16.hashed.words"
    built = store.current("rankings", key)
    assert towns.assay("run", "first", "--only", "rankings").returncode == 0
    built_again = store.current("rankings", key)
    assert built is not None
    assert built_again is not None
    assert built.identity != built_again.identity
    assert (towns.rows("first"), towns.pages("first")) == (rows, shown), "the run is unfinished"

    questions = path.with_name("town.questions.yaml")
    questions.write_text(questions.read_text().replace("Twelve pounds", "Ten pounds"))
    done = towns.assay("report", "first", "--format", "json")
    assert done.returncode == 2, "rows would be mixed"
    assert "is no longer what was run" in done.stderr
