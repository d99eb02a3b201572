"""New human ratings are followed up: by a sensor, by `assay run`, and while people go on scoring."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from rag_assay.assets.engine.stage import BuildContext, BuildResult, Stage
from rag_assay.evals.answers import Answers
from rag_assay.evals.judgements import Judgements
from rag_assay.evals.pipeline.cell_items import current_items
from rag_assay.evals.reporting.question_rows import question_rows
from rag_assay.evals.rubrics.points import Points
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study import Study
from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration import automation
from rag_assay.orchestration.alerts import delivery
from rag_assay.orchestration.automation import AFTER_SCORES
from rag_assay.orchestration.driver import Driver
from rag_assay.orchestration.study_definitions import definitions_of
from rag_assay.orchestration.terminal.question_view import show_question
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.connection import connect
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.human_scores import HumanScores
from rag_assay.warehouse.paths import Home
from tests.fakes.forking import PROGRAM
from tests.fakes.human_scores import score
from tests.fakes.processes import PYTHONPATH
from tests.orchestration.conftest import Finished

pytestmark = pytest.mark.models
RUBRICS = "rubrics: {points: {points: {}}}\nmetrics:"
WORDS, MEANING = "town.t16.minilm.words.quote", "town.t16.minilm.meaning.quote"
SHORT = "town.t16.minilm.words.short"


@pytest.fixture(scope="module")
def rated_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rated") / "var"


@pytest.fixture
def study(finished: Finished, rated_home: Path) -> Study:
    """The small study with a rubric, run by the first test that needs it; the others have a copy."""
    found = finished.edit("metrics:", RUBRICS)
    root = finished.home.root
    if rated_home.exists():
        shutil.rmtree(root)
        shutil.copytree(rated_home, root)
    else:
        assert Driver(found, finished.home).run().ok
        shutil.copytree(root, rated_home)
    return found


def item_of(study: Study, home: Home, question: str, cell: str = WORDS) -> str:
    work = BuildContext(home)
    found = {one.key: of for one, of in current_items(Grid([study]), study, work)}
    work.close()
    return found[cell].items[question].item_id


def give(study: Study, home: Home, number: int, question: str = "q1", item: str = "", **more: Any) -> None:
    item = item or item_of(study, home, question)
    row = {"study": "town", "item_id": item, "rubric_version": Points().version}
    assert HumanScores(home).append([score(number, **{**row, **more})]) == 1


class Ticks:
    """A sensor that is asked again and again, as Dagster's daemon does."""

    def __init__(self, study: Study) -> None:
        self.definitions = definitions_of([study])
        self.repository = self.definitions.get_repository_def()
        self.sensor = self.repository.get_sensor_def("new_scores_of_people")
        self.cursor: str | None = None
        self.why = ""

    def tick(self) -> list[dg.RunRequest]:
        with dg.DagsterInstance.ephemeral() as instance:
            context = dg.build_sensor_context(instance, self.cursor, repository_def=self.repository)
            found = self.sensor.evaluate_tick(context)
        self.cursor, self.why = found.cursor, found.skip_message or ""
        return list(found.run_requests or ())

    def run(self, request: dg.RunRequest) -> dg.ExecuteInProcessResult:
        job = self.definitions.resolve_job_def(str(request.job_name))
        with dg.DagsterInstance.get() as instance:
            return job.execute_in_process(run_config=request.run_config, instance=instance)


def identities(home: Home) -> dict[str, dict[str, str]]:
    store = ArtifactStore(home)
    stages = ("pages", "chunks", "indexes", "questions", "rankings", "answers", "annotations", "scores")
    return {
        stage: {key: store.current(stage, key).identity for key in store.keys(stage)}  # type: ignore[union-attr]
        for stage in stages
    }


def test_a_new_score_asks_for_one_run_that_refreshes_what_hangs_on_it(
    study: Study, finished: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, ticks = finished.home, Ticks(study)
    assert ticks.sensor.default_status is dg.DefaultSensorStatus.STOPPED
    assert ticks.tick() == []
    assert ticks.why == "there are no new ratings"
    give(study, home, 1)
    assert ticks.tick() == []
    assert "people are scoring town" in ticks.why
    (request,) = ticks.tick()
    assert request.job_name == "study_town"
    assert ticks.tick() == [], "once for each state of the files"
    os.utime(HumanScores(home).path("town", "Anna"), (1, 1))
    assert ticks.tick() == []
    before = identities(home)
    page = home.report("town").read_bytes()
    told: list[str] = []
    monkeypatch.setattr(delivery, "tell", lambda study, *_: told.append(study.study))
    result = ticks.run(request)
    assert result.success
    assert not told, "a refresh is no run of the study"
    after = identities(home)
    changed = {
        stage: [key for key in after[stage] if after[stage][key] != before[stage][key]] for stage in after
    }
    of_item = [
        key for key in (MEANING, WORDS) if item_of(study, home, "q1", key) == item_of(study, home, "q1")
    ]
    assert {stage: sorted(keys) for stage, keys in changed.items() if keys} == {
        "annotations": ["town"],
        "scores": of_item,
    }
    logged = Counter(
        (event.asset_key.to_user_string(), event.partition)
        for event in result.all_events
        if event.is_step_materialization and event.asset_key
    )
    assert set(logged) >= {
        ("annotations", "town"),
        ("scores", WORDS),
        ("leaderboard", "town"),
        ("report", "town"),
    }
    assert set(logged.values()) == {1}
    assert {stage for stage, _ in logged} <= {*AFTER_SCORES, "verdict"}
    assert home.report("town").read_bytes() != page
    with connect(home.database) as connection:
        found = connection.execute(
            'SELECT "value" FROM leaderboard l JOIN pointers p ON p.artifact_id = l.artifact_id '
            "WHERE metric = 'people.points' AND cell = ?",
            [WORDS],
        ).fetchall()
        assert found == [(5.0,)]
        assert connection.execute("SELECT count(*) FROM current_human_scores").fetchall() == [(1,)]
    assert Driver(study, home).run().unchanged, "and a run finds nothing left to do"


def test_a_refresh_keeps_the_cells_of_a_study_with_gaps(
    finished: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A judgement and the answers of a pipeline failed in the run: the refresh has no more gaps than that."""
    judged = "judges:\n  near: {similarity: {}}\n" + RUBRICS
    study = finished.edit("metrics:", judged)
    study = finished.edit(
        "generators:\n", "generators:\n  short: {extractive: {passages: 1, max_tokens: 20}}\n"
    )
    broken = {SHORT, f"{MEANING}.by.near"}

    def failing(kind: type[Stage]) -> Callable[..., BuildResult]:
        build = kind.build

        def fails(self: Stage, key: str, folder: Path, work: BuildContext) -> BuildResult:
            if key in broken:
                raise AssayError("the server is gone")
            return build(self, key, folder, work)

        return fails

    for kind in (Answers, Judgements):
        monkeypatch.setattr(kind, "build", failing(kind))
    first = {one.stage: one for one in Driver(study, finished.home).run().stages}
    assert {key for one in first.values() for key in one.failed} == broken
    before, cells = identities(finished.home), leaderboard_cells(finished.home)
    assert MEANING in cells
    give(study, finished.home, 1)
    found = {one.stage: one for one in Driver(study, finished.home).run(AFTER_SCORES).stages}
    assert [one.failed for one in found.values() if one.failed] == []
    assert found["scores"].left_out == {SHORT: f"answers of {SHORT} is not there yet"}
    assert found["scores"].fresh
    assert leaderboard_cells(finished.home) == cells
    after = identities(finished.home)
    assert after["scores"][MEANING] == before["scores"][MEANING]
    assert after["annotations"] != before["annotations"]


def leaderboard_cells(home: Home) -> set[str]:
    with connect(home.database) as connection:
        return {
            cell for (cell,) in connection.execute("SELECT DISTINCT cell FROM current_leaderboard").fetchall()
        }


def test_people_who_go_on_are_waited_for_but_not_for_ever(
    study: Study, finished: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = Ticks(study)
    now = [1_000.0]
    monkeypatch.setattr(automation.time, "time", lambda: now[0])
    requests, item = [], item_of(study, finished.home, "q1")
    for number in range(25):
        give(study, finished.home, number, item=item)
        requests += ticks.tick()
        now[0] += automation.LOOK
    assert len(requests) == 2, "each five minutes"
    assert len({one.run_key for one in requests}) == 2
    requests += ticks.tick() + ticks.tick() + ticks.tick()
    assert len(requests) == 3, "and once when they have stopped"


def test_a_study_that_was_changed_since_it_was_run_is_left_to_its_run(
    study: Study, finished: Finished
) -> None:
    give(study, finished.home, 1)
    changed = finished.edit("words: {bm25: {k: 5}}", "words: {bm25: {k: 5}}\n  more: {bm25: {k: 9}}")
    ticks = Ticks(changed)
    assert ticks.tick() + ticks.tick() + ticks.tick() == []
    assert "has not been run; run it first" in ticks.why
    assert Driver(changed, finished.home).run().ok
    assert len(ticks.tick()) == 1


def test_a_cursor_of_another_kind_is_begun_anew(study: Study, finished: Finished) -> None:
    give(study, finished.home, 1)
    ticks = Ticks(study)
    for cursor in ("", "no JSON", "[1]", '{"town": 5}', '{"town": {}, "gone": {"done": "x"}}'):
        ticks.cursor = cursor
        assert len(ticks.tick() + ticks.tick() + ticks.tick()) == 1, cursor
        assert json.loads(ticks.cursor)["town"].keys() == {"done"}, cursor


APPENDING = """
import sys
from pathlib import Path
from tests.fakes.human_scores import score
from rag_assay.warehouse.human_scores import HumanScores
from rag_assay.warehouse.paths import Home

home, annotator, version, items = Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]
scores = HumanScores(Home(home))
for number in range(60):
    scores.append(
        [score(number, study="town", annotator=annotator, item_id=items[number % len(items)],
               rubric_version=version, value=(5.0, 3.0, 0.0)[number % 3])]
    )
"""


def test_two_annotators_and_a_run_that_writes_never_lock_each_other(study: Study, finished: Finished) -> None:
    home = finished.home
    items = [item_of(study, home, question) for question in ("q1", "q2")]
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH, "ASSAY_LOCK_WAIT": "5"}
    people = [
        subprocess.Popen(
            [sys.executable, "-m", PROGRAM, APPENDING, str(home.root), who, Points().version, *items],
            env=environment,
        )
        for who in ("Anna", "Bob")
    ]
    reports = []
    while any(one.poll() is None for one in people):
        reports.append(Driver(study, home).run())
    assert [one.wait() for one in people] == [0, 0]
    assert all(one.ok for one in reports), [
        stage.failed for one in reports for stage in one.stages if stage.failed
    ]
    assert Driver(study, home).run().ok
    found = HumanScores(home).read("town")
    assert not found.faults
    expected = Counter((who, f"id-{number}") for who in ("Anna", "Bob") for number in range(60))
    assert Counter((row["annotator"], row["score_id"]) for row in found.rows) == expected
    with connect(home.database) as connection:
        rows = connection.execute("SELECT annotator, score_id FROM human_scores").fetchall()
    assert Counter(rows) == expected
    for stage in Driver(study, home).run().stages:
        assert not stage.built, "nothing is left to do"


def test_a_question_shows_what_people_said(
    study: Study, finished: Finished, capsys: pytest.CaptureFixture[str]
) -> None:
    home = finished.home
    give(study, home, 1, comment="[bold]Right[/] & <b>short</b>")
    give(study, home, 2, showing=2, value=3.0)
    give(study, home, 3, annotator="Bob", value=None, status="skipped")
    give(study, home, 4, annotator="Eve", value=0.0)
    give(study, home, 5, annotator="Eve", value=None, status="withdrawn")
    give(study, home, 6, annotator="Old", rubric_version="x" * 12)
    give(study, home, 7, annotator="Elsewhere", cell=MEANING, question_id="q1")
    report = Driver(study, home).run()
    assert report.ok
    (said_of_run,) = [one for stage in report.stages for one in stage.sentences if "human ratings" in one]
    assert said_of_run.startswith("human ratings on town: 2 by 1 annotator; 2 count for nothing now (1 ")
    assert "it is by another wording of the rubric `points`" in said_of_run
    assert f"`{MEANING}` answers `q1` otherwise" in said_of_run
    show_question(question_rows(study, "q1", home))
    said = capsys.readouterr().out
    assert "Anna: points 5" in said
    assert "[bold]Right[/] & <b>short</b>" in said
    assert "Anna, shown again: points 3" in said
    assert "Bob could not say: points" in said
    assert "Eve" not in said
    assert "Old" not in said
    show_question(question_rows(read_study(finished.path), "q2", home))
    assert "Anna" not in capsys.readouterr().out
