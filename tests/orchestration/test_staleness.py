"""What Dagster shows as stale or missing is, stage by stage, what the next run builds or points anew."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.assets.graph.asset_graph import AssetGraph
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.loader import LoadingContextForTest

from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.driver import Driver
from rag_assay.orchestration.run_report import StageReport
from rag_assay.orchestration.settings import prepare
from rag_assay.orchestration.study_definitions import definitions_of
from rag_assay.warehouse.paths import home
from tests.orchestration.conftest import QUESTIONS, STUDY, TEXTS, write_study

pytestmark = pytest.mark.models
Keys = dict[str, set[str]]
SOURCES = {
    "  texts: {reader: folder, path: texts}\n": "  texts: {reader: folder, path: texts}\n"
    "  more: {reader: folder, path: more}\n",
    "sources: [texts]": "sources: [texts, more]",
}
ALL_CELLS = {"town.t16.minilm.words", "town.t16.minilm.meaning"}


def cells(*rankings: str) -> set[str]:
    return {f"{one}.quote" for one in rankings}


@dataclass
class Shown:
    """Notes, as each stage begins, which of its partitions the UI shows as stale or missing."""

    graph: AssetGraph
    instance: dg.DagsterInstance
    stale: Keys = field(default_factory=dict)

    def begin(self, stage: str, _number: int, _of: int) -> None:
        graph = self.graph
        resolver = CachingStaleStatusResolver(self.instance, graph, LoadingContextForTest(self.instance))
        key = dg.AssetKey(stage)
        partitions = graph.get(key).partitions_def
        assert partitions is not None
        found = {
            one
            for one in partitions.get_partition_keys()
            if resolver.get_status(key, one) is not StaleStatus.FRESH
        }
        if found:
            self.stale[stage] = found

    def end(self, report: StageReport) -> None:
        assert not report.failed

    def is_fresh(self, asset: str, key: str) -> bool:
        resolver = CachingStaleStatusResolver(self.instance, self.graph, LoadingContextForTest(self.instance))
        return resolver.get_status(dg.AssetKey(asset), key) is StaleStatus.FRESH


class Town:
    """A study of two sources on a home that it was run on."""

    def __init__(self, folder: Path) -> None:
        self.path = write_study(folder)
        (folder / "more").mkdir()
        self.restore()

    def restore(self) -> None:
        """Write all as it was at first."""
        for name, text in TEXTS.items():
            self.write(f"texts/{name}", text)
        self.write("more/inn.txt", "The inn has nine beds, and breakfast from seven.")
        self.write("town.questions.yaml", QUESTIONS)
        self.write("town.yaml", STUDY)
        for old, new in SOURCES.items():
            self.replace("town.yaml", old, new)

    def write(self, name: str, text: str) -> None:
        path = self.path.parent / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)

    def replace(self, name: str, old: str, new: str) -> None:
        text = (self.path.parent / name).read_text()
        assert old in text
        self.write(name, text.replace(old, new))

    def run(self) -> tuple[Keys, Keys]:
        """Run the study; return what was shown as stale, and what was built or pointed anew."""
        study = read_study(self.path)
        with dg.DagsterInstance.get() as instance:
            before = {run.run_id for run in instance.get_runs()}
            shown = Shown(definitions_of([study]).resolve_asset_graph(), instance)
            report = Driver(study, home(), watch=shown).run()
            assert report.ok
            built: Keys = {}
            for run in instance.get_runs():
                for one in () if run.run_id in before else instance.all_logs(run.run_id):
                    event = one.dagster_event
                    if event and event.is_step_materialization and event.asset_key:
                        built.setdefault(event.asset_key.to_user_string(), set()).add(str(event.partition))
            assert shown.is_fresh("verdict", "town")
            assert built.pop("verdict", set()) == built.get("leaderboard", set()), "it comes with its board"
        return shown.stale, built


@pytest.fixture(scope="module")
def first(weights: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    weights("all-MiniLM-L6-v2")
    folder = tmp_path_factory.mktemp("stale")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_HOME", str(folder / "var"))
        patch.setenv("DAGSTER_HOME", "")
        prepare()
        town = Town(folder)
        town.run()
        yield town


@pytest.fixture
def town(first: Town) -> Iterator[Town]:
    """The town, whose files are as they were at first when a test begins, and run so."""
    inn, kept = first.path.with_name("more") / "inn.txt", first.path.with_name("kept")
    as_read = inn.stat().st_ctime_ns
    if not kept.exists():
        shutil.copytree(home().root, kept)
    yield first
    first.restore()
    if inn.stat().st_ctime_ns == as_read:
        shutil.rmtree(home().root)
        shutil.copytree(kept, home().root)
    else:  # a file that was written again is read again
        first.run()
        shutil.rmtree(kept)


MEASURED = {"scores", "leaderboard"}
BOARD: Keys = {"leaderboard": {"town"}, "report": {"town"}}
OF_CORPUS: Keys = {
    "chunks": {"town.t16"},
    "embeddings": {"town.t16.minilm"},
    "indexes": {"town.t16.minilm"},
    "questions": {"town.town"},
}
GRID: Keys = {"rankings": ALL_CELLS, "answers": cells(*ALL_CELLS), "scores": cells(*ALL_CELLS)}
RENAMED = {one.replace("t16", "small") for one in ALL_CELLS}
CHANGES: dict[str, tuple[tuple[str, str, str] | None, Keys]] = {
    "nothing": (None, {}),
    "a document of one source": (
        ("more/inn.txt", "nine beds", "ten beds"),
        {"pages": {"more"}, "documents": {"more"}, **OF_CORPUS, **GRID, **BOARD},
    ),
    "a parameter of one retriever": (
        ("town.yaml", "words: {bm25: {k: 5}}", "words: {bm25: {k: 2}}"),
        {
            "rankings": {"town.t16.minilm.words"},
            "answers": cells("town.t16.minilm.words"),
            "scores": cells("town.t16.minilm.words"),
            **BOARD,
        },
    ),
    "a question": (
        ("town.questions.yaml", "How many cars fit on the ferry?", "How many cars does the ferry carry?"),
        {"questions": {"town.town"}, **GRID, **BOARD},
    ),
    "the name of a chunking": (
        ("town.yaml", "  t16: ", "  small: "),
        {
            "chunks": {"town.small"},
            "embeddings": {"town.small.minilm"},
            "indexes": {"town.small.minilm"},
            "rankings": RENAMED,
            "answers": cells(*RENAMED),
            "scores": cells(*RENAMED),
            **BOARD,
        },
    ),
    "where a source is read from": (
        ("town.yaml", "more: {reader: folder, path: more}", "more: {reader: text, path: more}"),
        {"pages": {"more"}},
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_shown_as_stale_is_what_the_next_run_does(town: Town, change: str) -> None:
    edit, expected = CHANGES[change]
    if edit:
        town.replace(*edit)
    stale, built = town.run()
    assert built == expected
    unseen = {stage for stage, keys in built.items() if stale.pop(stage, set()) != keys}
    assert not stale, "nothing is shown as stale that a run finds to be up to date"
    assert unseen <= MEASURED, "measured anew, with the contents of before: there is nothing to be shown"
