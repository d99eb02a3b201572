"""Each `current_*` view holds the cells of the studies as their last runs had them, and nothing else.

One workspace is advanced step by step. After each step the rows of every view that the database has are
compared with the Parquet files of exactly the keys that the study files say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest

from rag_assay.evals.rubrics.points import Points
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.run_studies import slice_study
from rag_assay.evals.study.study import Study
from rag_assay.evals.study.study_file import read_study
from rag_assay.evals.successive_halving.records import narrow_study
from rag_assay.orchestration.settings import prepare
from rag_assay.orchestration.stages import stages_of
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.connection import connect
from rag_assay.warehouse.human_scores import HumanScores
from rag_assay.warehouse.paths import Home, home
from rag_assay.warehouse.tables import rebuild
from tests.fakes.commands import assay
from tests.fakes.human_scores import score
from tests.orchestration.conftest import write_study

STUDY = """\
study: town
sources:
  texts: {reader: folder, path: texts}
corpus: {name: town, sources: [texts]}
chunkings:
  small: {tokens: {size: 16, overlap: 4}}
embedders:
  hashed: {hashing: {size: 64}}
retrievers:
  words: {bm25: {k: 5}}
  meaning: {dense: {k: 5}}
generators:
  quote: {extractive: {passages: 2, max_tokens: 40}}
judges:
  near: {similarity: {}}
rubrics: {points: {points: {}}}
questions: [{file: town.questions.yaml}]
metrics: [ndcg@10, evidence_coverage@5, rouge_l]
search: {method: one_factor_at_a_time}
"""
OTHER = """\
study: other
sources:
  texts: {reader: folder, path: texts}
corpus: {name: town, sources: [texts]}
chunkings:
  small: {tokens: {size: 16, overlap: 4}}
embedders:
  hashed: {hashing: {size: 64}}
retrievers:
  words: {bm25: {k: 5}}
questions: [{file: town.questions.yaml}]
metrics: [ndcg@10]
"""


pytestmark = pytest.mark.models


class Source(NamedTuple):
    """The Parquet file whose rows a view holds, and the key of a row as SQL."""

    stage: str
    file: str
    key: str


def _replicate(of: str) -> str:
    return f"cell || CASE WHEN {of} > 1 THEN '.' || {of} ELSE '' END"


VIEWS = {
    "cells": Source("answers", "", _replicate("replicate")),
    "current_leaderboard": Source("leaderboard", "leaderboard", "study"),
    "current_verdict": Source("leaderboard", "verdicts", "study"),
    "current_scores": Source("scores", "scores", _replicate("replicate")),
    "current_answers": Source("answers", "answers", _replicate("replicate")),
    "current_hits": Source("rankings", "hits", "ranking"),
    "current_losses": Source("rankings", "losses", "ranking"),
    "current_notes": Source("rankings", "notes", "ranking"),
    "current_judgements": Source(
        "judgements", "judgements", f"{_replicate('cell_replicate')} || '.by.' || judge"
    ),
    "current_judge_cards": Source("judge_cards", "judge_cards", "study || '.' || judge"),
    "current_annotations": Source("annotations", "annotations", "study"),
    "current_agreement": Source("annotations", "agreement", "study"),
    "current_human_estimates": Source("human_estimates", "human_estimates", "study"),
    "current_searches": Source("searches", "searches", "study"),
    "current_search_values": Source("searches", "search_values", "study"),
}
"""View -> what its rows are; a view that is not here fails."""
RATINGS = "current_human_scores"
# Of a study without query transforms and races, whose judge estimates no rubric.
EMPTY = ("current_notes", "current_search_values", "current_human_estimates")
Rows = dict[str, Counter[str]]


def rows_of_views(where: Home) -> Rows:
    """View -> key -> number of rows, of every view in the database."""
    with connect(where.database) as connection:
        names = connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
        found: Rows = {}
        for (name,) in names:
            key = (
                VIEWS[name].key if name in VIEWS else "coalesce(cell, study)" if name == RATINGS else "study"
            )
            rows = connection.execute(f"SELECT {key}, count(*) FROM {name} GROUP BY ALL").fetchall()  # noqa: S608
            found[name] = Counter(dict(rows))
    return found


def rows_of_files(where: Home, studies: list[Study]) -> Rows:
    """View -> key -> number of rows, by the study files and Parquet alone."""
    store = ArtifactStore(where)
    found: Rows = {name: Counter() for name in VIEWS}
    for study in studies:
        keys = {name: stage.keys() for name, stage in stages_of(Grid([study])).items()}
        keys["searches"] = [study.study] if study.search and not study.slice else []
        for view, source in VIEWS.items():
            for key in keys[source.stage]:
                artifact = store.current(source.stage, key)
                assert artifact is not None, f"{source.stage} of {key} was not built"
                folder = store.folder(source.stage, artifact.identity)
                n = len(pl.read_parquet(folder / f"{source.file}.parquet")) if source.file else 1
                found[view] += Counter({key: n})
    return found


class Workspace:
    """Study files, and a workspace that they are run in."""

    def __init__(self, folder: Path) -> None:
        self.path = write_study(folder)
        self.path.write_text(STUDY)
        self.home = home()
        self.other = folder / "other.yaml"
        self.slices: dict[str, Study] = {}  # pattern -> as it was run

    def run(self, path: Path | None = None, *options: str) -> str:
        done = assay("run", str(path or self.path), *options)
        assert done.returncode == 0, done.stderr
        return done.stderr

    def edit(self, old: str, new: str) -> None:
        text = self.path.read_text()
        assert old in text
        self.path.write_text(text.replace(old, new))

    def studies(self) -> list[Study]:
        paths = [path for path in (self.path, self.other) if path.is_file()]
        whole = [narrow_study(read_study(path), self.home) for path in paths]
        return [*whole, *self.slices.values()]

    def run_slice(self, pattern: str) -> None:
        self.run(None, "--cells", pattern)
        self.slices[pattern] = slice_study(read_study(self.path), [pattern])

    def rate(self, number: int, **more: Any) -> None:
        cell = f"town.{more.pop('cell')}"
        with connect(self.home.database) as connection:
            (item,) = connection.execute(
                "SELECT item_id FROM current_annotations WHERE cell = ? AND question_id = 'q1'", [cell]
            ).fetchone() or (None,)
        row = {"study": "town", "rubric_version": Points().version, "cell": cell, "question_id": "q1"}
        one = score(number, **{**row, "item_id": item or "item", **more})
        assert HumanScores(self.home).append([one]) == 1


def two_studies_with_ratings_and_a_slice(one: Workspace) -> None:
    one.run()
    one.other.write_text(OTHER)
    one.run(one.other)
    for number, cell in enumerate(("small.hashed.words.quote", "small.hashed.meaning.quote")):
        one.rate(number, cell=cell)
    one.run()
    one.run_slice("*.words.*")


def second_chunking_and_its_slice(one: Workspace) -> None:
    one.edit("  small: {", "  large: {tokens: {size: 24, overlap: 4}}\n  small: {")
    one.run()
    one.run_slice("large.*")


def renamed_chunking(one: Workspace) -> None:
    del one.slices["large.*"]  # none of its cells is left
    one.edit("  large: {", "  wide: {")
    one.run()


def renamed_back(one: Workspace) -> None:
    one.edit("  wide: {", "  large: {")
    said = one.run().splitlines()
    computed = [line.split()[4] for line in said if " computed" in line and line.startswith("stage")]
    assert computed == ["report"], "all else is cached"


def removed_retriever_judge_search_and_metric(one: Workspace) -> None:
    one.edit("  meaning: {dense: {k: 5}}\n", "")
    one.edit("judges:\n  near: {similarity: {}}\n", "")
    one.edit("search: {method: one_factor_at_a_time}\n", "")
    one.edit(", rouge_l]", "]")
    one.run()


def removed_rubric_and_renamed_question_set(one: Workspace) -> None:
    one.edit("rubrics: {points: {points: {}}}\n", "")
    one.path.with_name("town.questions.yaml").rename(one.path.with_name("city.questions.yaml"))
    for path in (one.path, one.other):
        path.write_text(path.read_text().replace("town.questions.yaml", "city.questions.yaml"))
        one.run(path)


def renamed_and_deleted_study(one: Workspace) -> None:
    one.edit("study: town", "study: city")
    one.slices.clear()
    one.run()
    one.other.unlink()
    assert assay("workspace", "forget", "other").returncode == 0


STEPS = (
    two_studies_with_ratings_and_a_slice,
    second_chunking_and_its_slice,
    renamed_chunking,
    renamed_back,
    removed_retriever_judge_search_and_metric,
    removed_rubric_and_renamed_question_set,
    renamed_and_deleted_study,
)


REBUILT = (
    second_chunking_and_its_slice,
    removed_retriever_judge_search_and_metric,
    renamed_and_deleted_study,
)
"""Steps after which the database is also made again from the files: each after another kind of change."""


class Step(NamedTuple):
    """What the views hold after a step, what they should hold, and what they hold after a rebuild."""

    views: Rows
    files: Rows
    again: Rows


@pytest.fixture(scope="module")
def steps(
    weights: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Step]]:
    """Every step, one after the other, in one workspace."""
    weights("all-MiniLM-L6-v2")
    folder = tmp_path_factory.mktemp("views")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_HOME", str(folder / "var"))
        patch.setenv("DAGSTER_HOME", "")
        patch.setenv("ASSAY_STUDIES", str(folder))
        prepare()
        one = Workspace(folder)
        found = {}
        for step in STEPS:
            step(one)
            views, files = rows_of_views(one.home), rows_of_files(one.home, one.studies())
            again = rows_of_rebuilt(one.home, folder / step.__name__) if step in REBUILT else views
            found[step.__name__] = Step(views, files, again)
        yield found


def rows_of_rebuilt(where: Home, folder: Path) -> Rows:
    beside = folder.with_suffix(".duckdb")
    rebuild(where, beside)
    again = Home(folder)
    again.root.mkdir()
    beside.rename(again.database)
    return rows_of_views(again)


@pytest.mark.parametrize("step", [one.__name__ for one in STEPS])
def test_views_hold_what_the_study_files_say(steps: dict[str, Step], step: str) -> None:
    views, files, again = steps[step]
    usage = {name for name in views if name.startswith("usage_")}  # see tests/warehouse/test_usage.py
    assert set(views) - usage == {*VIEWS, RATINGS}, "a new view has its expected rows here"
    assert {name: rows for name, rows in views.items() if name in VIEWS} == files
    assert again == views, "made again from the files"


def test_every_view_has_rows_in_some_step(steps: dict[str, Step]) -> None:
    with_rows = {name for step in steps.values() for name, rows in step.views.items() if rows}
    assert {*VIEWS, RATINGS} - with_rows == {*EMPTY}


def test_ratings_are_of_cells_that_are_there(steps: dict[str, Step]) -> None:
    words, meaning = "town.small.hashed.words.quote", "town.small.hashed.meaning.quote"
    assert steps["two_studies_with_ratings_and_a_slice"].views[RATINGS] == {words: 1, meaning: 1}
    assert steps["removed_retriever_judge_search_and_metric"].views[RATINGS] == {words: 1}
    assert steps["renamed_and_deleted_study"].views[RATINGS] == {}
