"""Studies that were run: the Dagster UI shows them, and two of equal names do not share a report."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.run_studies import note, recorded_studies, refuse_taken
from rag_assay.evals.study.study import Study
from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.definitions import defs
from rag_assay.orchestration.settings import prepare
from rag_assay.orchestration.stages import stages_of
from rag_assay.orchestration.study_definitions import definitions_of
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.paths import Home, home
from tests.fakes.commands import assay
from tests.fakes.tiny import write_study
from tests.orchestration.conftest import Finished

OTHER = {"study: tiny": "study: other"}


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "var"))
    monkeypatch.setenv("DAGSTER_HOME", "")
    prepare()
    return home()


def shown(stage: str) -> set[str]:
    """Return the partitions that the Dagster UI shows of a stage."""
    graph = defs().resolve_asset_graph()  # type: ignore[operator] -- made lazy by its decorator
    (key,) = [key for key in graph.get_all_asset_keys() if key.to_user_string() == stage]
    partitions = graph.get(key).partitions_def
    assert partitions is not None
    return set(partitions.get_partition_keys())


def test_the_ui_shows_every_study_that_was_run(own_home: Home, tmp_path: Path) -> None:
    assert shown("leaderboard") == {"demo"}, "so that there is something to run"
    demo = {
        "t16: {tokens: {size: 16, overlap: 4}}": "tokens-128-42: {tokens: {size: 40}}",
        "corpus: {name: ferries": "corpus: {name: boats",
        "minilm: {model: all-MiniLM-L6-v2}": "minilm: {model: all-MiniLM-L6-v2, max_tokens: 128}",
        "bm25: {bm25: {k: 5}}": "bm25: {bm25: {k: 7}}",
        "docs: {reader: folder, path: docs}": "boats: {reader: folder, path: docs}",
        "sources: [docs]": "sources: [boats]",
    }
    paths = [write_study(tmp_path / "one"), write_study(tmp_path / "two", {**OTHER, **demo})]
    for path in paths:
        note(read_study(path), own_home)
    assert shown("leaderboard") == {"tiny", "other"}
    assert "other.tokens-128-42.minilm.bm25.extractive" in shown("answers")
    assert {"boats.tokens-128-42", "ferries.t16"} == shown("chunks")


def test_a_name_means_in_each_corpus_what_its_study_says(tmp_path: Path) -> None:
    changes = {**OTHER, "size: 16": "size: 32", "corpus: {name: ferries": "corpus: {name: boats"}
    one, two = read_study(write_study(tmp_path)), read_study(write_study(tmp_path, changes, name="two"))
    both = {stage.name: stage for stage in stages([one, two])}
    for study, corpus in ((one, "ferries"), (two, "boats")):
        alone = {stage.name: stage for stage in stages([study])}
        for name, key in (("chunks", f"{corpus}.t16"), ("embeddings", f"{corpus}.t16.minilm")):
            assert list(both[name].recipes(key).values()) == list(alone[name].recipes(key).values())


def stages(studies: list[Study]) -> list[Any]:
    definitions_of(studies)
    return list(stages_of(Grid(studies)).values())


def test_a_file_that_is_gone_is_not_shown_and_its_names_are_free(own_home: Home, tmp_path: Path) -> None:
    first, second = write_study(tmp_path / "a"), write_study(tmp_path / "b")
    note(read_study(first), own_home)
    with pytest.raises(InputError):
        refuse_taken(read_study(second), own_home)
    first.unlink()
    assert recorded_studies(own_home) == []
    refuse_taken(read_study(second), own_home)


def test_the_same_file_may_change_and_another_may_share_what_means_the_same(
    own_home: Home, tmp_path: Path
) -> None:
    path = write_study(tmp_path)
    note(read_study(path), own_home)
    path.write_text(path.read_text().replace("size: 16", "size: 32"))
    refuse_taken(read_study(path), own_home)
    changes = {**OTHER, "size: 16": "size: 32", "k: 5": "k: 6"}
    refuse_taken(read_study(write_study(tmp_path, changes, name="other")), own_home)


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({}, "study.tiny"),
        (OTHER, "sources.docs"),
        ({**OTHER, "sources:\n  docs": "sources:\n  mine", "[docs]": "[mine]"}, "corpus.ferries"),
    ],
)
def test_two_folders_of_one_name_do_not_share_results(
    own_home: Home, tmp_path: Path, changes: dict[str, str], part: str
) -> None:
    first = write_study(tmp_path / "a")
    second = write_study(tmp_path / "b", changes)
    note(read_study(first), own_home)
    done = assay("run", str(second))
    assert done.returncode == 2, done.stderr
    assert f"{second}: {part} means something else in {first}" in done.stderr
    assert "rename one of them" in done.stderr
    assert "ASSAY_HOME=" in done.stderr
    assert not (own_home.root / "pages").exists()


@pytest.mark.models
def test_nothing_of_a_finished_result_is_shown_as_that_of_another_folder(finished: Finished) -> None:
    stored = {path: path.read_bytes() for path in finished.home.reports.rglob("*") if path.is_file()}
    assert stored
    folder = finished.path.parent
    for name, refused in (("town", "another study is named town"), ("other", "other has no results yet")):
        second = folder.with_name(f"{folder.name}-{name}") / finished.path.name
        shutil.copytree(folder, second.parent, ignore=shutil.ignore_patterns(finished.home.root.name))
        second.write_text(finished.path.read_text().replace("study: town", f"study: {name}"))
        for command, *options in (["report"], ["report", "--format", "json"], ["verdict"]):
            done = assay(command, str(second), *options)
            assert (done.returncode, done.stdout) == (2, ""), (command, done.stderr)
            assert refused in done.stderr
        done = assay("show", str(second), "q1")
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert refused in done.stderr
    assert {path: path.read_bytes() for path in stored} == stored


def test_a_torn_record_is_passed_over(own_home: Home, tmp_path: Path) -> None:
    path = write_study(tmp_path)
    note(read_study(path), own_home)
    for name, text in (("torn", "{"), ("list", "[]"), ("number", '{"path": 3}')):
        (own_home.root / "studies" / f"{name}.json").write_text(text)
    assert recorded_studies(own_home) == [path]
