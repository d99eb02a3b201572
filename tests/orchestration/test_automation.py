"""What changed documents start by themselves: what hangs on them and costs nothing, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import pytest

from rag_assay.assets.engine.definition import recipe_observations
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study import Study
from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.automation import AUTOMATION, CARRIED
from rag_assay.orchestration.driver import Driver
from rag_assay.orchestration.settings import prepare
from rag_assay.orchestration.stages import stages_of
from rag_assay.orchestration.study_definitions import definitions_of
from rag_assay.warehouse.paths import Home, home
from tests.orchestration.conftest import STUDY, replace_in, write_study

pytestmark = pytest.mark.models
Requested = dict[str, set[str]]


class Town:
    """Studies on a home that they were run on, and Dagster's automation of them, tick by tick."""

    def __init__(self, studies: list[Study], where: Home, instance: dg.DagsterInstance) -> None:
        self.home = where
        self.instance = instance
        self.path = studies[0].path
        self.cursor: dg.AssetDaemonCursor | None = None
        self.become(studies)

    def become(self, studies: list[Study]) -> None:
        """Load the study files anew, as the UI's Reload does."""
        self.studies = studies
        self.definitions = definitions_of(studies)

    def tick(self) -> Requested:
        """Ask once what is to be built, by stage."""
        result = dg.evaluate_automation_conditions(
            self.definitions, self.instance, dg.AssetSelection.assets(*CARRIED), cursor=self.cursor
        )
        self.cursor = result.cursor
        found: Requested = {}
        for one in result.results:
            keys = {str(key) for key in one.true_subset.expensively_compute_partition_keys()}
            if keys:
                found[one.key.to_user_string()] = keys
        return found

    def carry_on(self) -> list[Requested]:
        """Build what is asked for, tick by tick, until nothing is; return what was asked for."""
        asked = []
        while found := self.tick():
            asked.append(found)
            for stage, keys in found.items():
                self.build(stage, keys)
            assert len(asked) < 12
        return asked

    def build(self, stage: str, keys: set[str]) -> None:
        """Materialize partitions as a backfill does."""
        job = self.definitions.resolve_implicit_global_asset_job_def()
        for key in sorted(keys):
            done = job.execute_in_process(
                instance=self.instance,
                asset_selection=[dg.AssetKey(stage)],
                partition_key=key,
                raise_on_error=False,
            )
            assert done.success, (stage, key)

    def change(self, text: str) -> None:
        """Change a document, and crawl it."""
        (self.path.parent / "texts" / "ferry.txt").write_text(text)
        self.build("pages", {"texts"})

    def observe(self) -> None:
        """Note changed recipes, as the sensor does."""
        for one in recipe_observations(list(stages_of(Grid(self.studies)).values()), self.instance):
            self.instance.report_runless_asset_event(one)


@pytest.fixture(scope="module")
def town(weights: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    """The small study with documents of its own, run once, and looked at for the first time."""
    weights("all-MiniLM-L6-v2")
    folder = tmp_path_factory.mktemp("carried")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_HOME", str(folder / "var"))
        patch.setenv("DAGSTER_HOME", "")
        prepare()
        study = read_study(write_study(folder))
        assert Driver(study, home()).run().ok
        with dg.DagsterInstance.get() as instance:
            found = Town([study], home(), instance)
            assert found.tick() == {}, "the first look only remembers"
            yield found


def test_changes_are_carried_on_to_the_rankings_and_an_unchanged_crawl_is_not(town: Town) -> None:
    town.build("pages", {"texts"})
    assert town.tick() == {}, "an unchanged crawl makes nothing run"
    town.change("The ferry carries twenty cars, and in a storm it stays in port.")
    assert town.carry_on() == [
        {"documents": {"texts"}},
        {"chunks": {"town.t16"}, "questions": {"town.town"}},
        {"embeddings": {"town.t16.minilm"}},
        {"indexes": {"town.t16.minilm"}},
        {"rankings": {"town.t16.minilm.words", "town.t16.minilm.meaning"}},
    ]
    report = Driver(town.studies[0], town.home).run()
    built = {stage.stage for stage in report.stages if stage.built}
    assert built == {"answers", "scores", "leaderboard", "report"}, "the run of the study does the rest"
    assert town.tick() == {}, "what a run did is not done again"

    # A changed recipe makes run what depends on it.
    town.become([replace_in(town.path, "words: {bm25: {k: 5}}", "words: {bm25: {k: 4}}")])
    assert town.tick() == {}
    town.observe()
    assert town.carry_on() == [{"rankings": {"town.t16.minilm.words"}}]
    town.observe()
    assert town.tick() == {}


def test_what_costs_money_and_what_hangs_on_it_is_left_to_people(town: Town) -> None:
    """Two studies of one corpus, one of which asks a paid embedder, and a paid model about questions."""
    town.path.write_text(STUDY)
    paid = "max_tokens: 256}\n  paid: {model: openai/text-embedding-3-small, api: {}}"
    replace_in(town.path, "max_tokens: 256}", paid)
    asked = "\n  asked: [{hyde: {by: llm, model: openai/gpt-4o-mini}}, {dense: {k: 5}}]\ngenerators:"
    study = replace_in(town.path, "\ngenerators:", asked)
    other = town.path.with_name("more.yaml")
    other.write_text(STUDY.replace("study: town", "study: more").replace("  meaning: {dense: {k: 5}}\n", ""))
    town.become([study, read_study(other)])
    town.observe()
    town.change("The ferry carries twenty cars to the island.")
    found: Requested = {}
    for one in town.carry_on():
        for stage, keys in one.items():
            found.setdefault(stage, set()).update(keys)
    free = {"town.t16.minilm.words", "town.t16.minilm.meaning", "more.t16.minilm.words"}
    assert found == {
        "documents": {"texts"},
        "chunks": {"town.t16"},
        "questions": {"town.town"},
        "embeddings": {"town.t16.minilm"},
        "indexes": {"town.t16.minilm"},
        "rankings": free,
    }


def test_all_of_it_is_off_until_somebody_switches_it_on(town: Town) -> None:
    sensors = {one.name: one for one in town.definitions.sensors or ()}
    for name in (AUTOMATION, "changed_recipes"):
        assert sensors[name].default_status is dg.DefaultSensorStatus.STOPPED
        assert "until you start it" in (sensors[name].description or "")
    town.definitions.get_repository_def().load_all_definitions()
