"""What people say reaches the cells that hold what they scored, and nothing else is computed again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.pipeline.cell_items import current_items
from rag_assay.evals.report import Report
from rag_assay.evals.reporting.page import render_html
from rag_assay.evals.reporting.trust import failures, reasons_missing
from rag_assay.evals.rubrics.human_rating_metrics import UNRATED
from rag_assay.evals.rubrics.items import Item
from rag_assay.evals.rubrics.points import Points
from rag_assay.evals.study.complexity import below_gate, coverages
from rag_assay.evals.study.grid import Grid
from rag_assay.warehouse.connection import connect
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.human_scores import HumanScores
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import ANNOTATIONS, HUMAN_SCORES, Status
from rag_assay.warehouse.tables import rebuild, write_human_scores
from tests.fakes.human_scores import score
from tests.fakes.openai_server import FakeOpenAI, Received, answer, failure
from tests.fakes.town import PLAIN, Town, Variant

pytestmark = pytest.mark.models
CELL = "tiny.t16.minilm.bm25.quote"
DEEPER = "tiny.t16.minilm.deeper.quote"
ONE = "tiny.t16.minilm.one.quote"
IDS = ("noon", "tickets", "captain", "lamp")
VERSION = Points().version
RUBRICS = {"rubrics": {"points": {"points": {}}}}
SCORED: Variant = {
    **PLAIN,
    **RUBRICS,
    "retrievers": {"bm25": {"bm25": {"k": 5}}, "deeper": {"bm25": {"k": 9}}, "one": {"bm25": {"k": 1}}},
}


def scores(town: Town) -> HumanScores:
    return HumanScores(town.bench.home)


def items(town: Town, cell: str = CELL) -> dict[str, Item]:
    work = BuildContext(town.bench.home)
    try:
        found = current_items(Grid([town.bench.study]), town.bench.study, work)
        return {one.key: of.items for one, of in found}[cell]
    finally:
        work.close()


def give(town: Town, question: str, value: float | None, number: int, **more: Any) -> None:
    cell = more.pop("of", CELL)
    row = {"item_id": items(town, cell)[question].item_id, "rubric_version": VERSION, "value": value}
    assert scores(town).append([score(number, **{**row, **more})]) == 1


def annotations(town: Town, cell: str | None = CELL) -> pl.DataFrame:
    rows = read_parquet(town.bench.folder("annotations", "tiny") / "annotations.parquet")
    return rows if cell is None else rows.filter(cell=cell)


def values(town: Town, cell: str = CELL) -> dict[str, float | None]:
    return dict(annotations(town, cell).select("question_id", "value").iter_rows())


def said(town: Town, cell: str = CELL, metric: str = "people.points") -> dict[str, tuple[Any, ...]]:
    rows = read_parquet(town.bench.folder("scores", cell) / "scores.parquet").filter(metric=metric)
    return {question: tuple(rest) for question, _, *rest in rows.iter_rows()}


def meta(town: Town) -> dict[str, Any]:
    return town.bench.artifact("annotations", "tiny").meta


def checks(town: Town) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in meta(town)["checks"]}


def test_rows_have_no_values_until_a_score_counts_in_all_cells_with_its_item_and_computes_nothing_else(
    town: Town,
) -> None:
    data = town.run(SCORED, "home")
    rows = annotations(town, None)
    assert rows.schema == pl.Schema(ANNOTATIONS)
    assert len(rows) == 3 * len(IDS)
    assert rows["value"].null_count() == rows["item_id"].null_count() == len(rows)
    assert set(rows["annotators"]) == {0}
    assert said(town) == dict.fromkeys(IDS, ("not_run", None, UNRATED))
    assert meta(town)["preview"] == "There are no ratings yet."
    assert not checks(town)["coverage"]["passed"]
    assert not checks(town)["coverage"]["severe"]
    assert checks(town)["rejects"]["passed"]
    board = data.leaderboard.filter(metric="people.points")
    assert set(board["coverage"]) == {0.0}
    assert board["value"].null_count() == len(board)
    ranks = data.leaderboard.filter(metric="ndcg@10")["rank"]
    assert ranks.null_count() == 0, "the cells are ranked all the same"
    covered = {one.name: one for one in town.outcomes["leaderboard"][0].checks}["covered"]
    assert covered.passed, covered
    assert below_gate(coverages(data.leaderboard, data.unmeasured)).is_empty(), "and the report agrees"
    found = failures(data)
    waiting = data.scores.filter(metric="people.points").height
    assert (found.rows, found.unrated, found.shown) == (0, waiting, ())
    assert f"Not rated yet: {waiting} human ratings." in render_html(data)
    assert set(reasons_missing(data).values()) == {f"{len(IDS)} × not rated yet"}
    before = {key: town.bench.artifact("scores", key).identity for key in (CELL, DEEPER, ONE)}
    item = items(town)["noon"].item_id
    assert items(town, DEEPER)["noon"].item_id == item
    assert items(town, ONE)["noon"].item_id != item
    give(town, "noon", 3.0, 1)
    data = town.run(SCORED, "home")
    assert town.built == {"annotations", "scores", "human_estimates", "leaderboard"}
    assert {one.key for one in town.outcomes["scores"] if one.computed} == {CELL, DEEPER}
    assert town.bench.artifact("scores", ONE).identity == before[ONE]
    assert town.bench.artifact("scores", CELL).meta["metrics_computed"] == ["people.points"]
    assert values(town) == values(town, DEEPER) == dict.fromkeys(IDS) | {"noon": 3.0}
    assert values(town, ONE) == dict.fromkeys(IDS)
    assert said(town)["noon"] == ("ok", 3.0, None)
    (row,) = data.leaderboard.filter(metric="people.points", cell=CELL).iter_rows(named=True)
    assert (row["value"], row["n"], row["coverage"]) == (3.0, 4, 0.25)
    assert (row["worst"], row["best"]) == (3 / 4, (3 + 3 * 5) / 4)
    town.run(SCORED, "home")
    assert town.built == set(), "and nothing new computes nothing"


def test_the_value_is_the_mean_over_annotators_of_the_mean_over_showings(town: Town) -> None:
    town.build(SCORED, "home")
    give(town, "noon", 5.0, 1)
    give(town, "noon", 0.0, 2, showing=2)
    give(town, "noon", 3.0, 3, annotator="Bob")
    give(town, "lamp", 0.0, 4)
    give(town, "lamp", 5.0, 5)  # a correction
    give(town, "tickets", 5.0, 6)
    give(town, "tickets", None, 7, status="withdrawn")
    give(town, "captain", None, 8, status="skipped")
    town.build(SCORED, "home")
    rows = {row["question_id"]: row for row in annotations(town).iter_rows(named=True)}
    assert rows["noon"]["value"] == (2.5 + 3.0) / 2
    assert (rows["noon"]["annotators"], rows["noon"]["low"], rows["noon"]["high"]) == (2, 0.0, 5.0)
    assert rows["lamp"]["value"] == 5.0
    assert (rows["tickets"]["value"], rows["tickets"]["annotators"]) == (None, 0)
    assert (rows["captain"]["value"], rows["captain"]["skipped"]) == (None, 1)
    assert said(town)["captain"] == ("not_run", None, "1 annotator could not say")
    assert meta(town)["scores"] == 4
    assert meta(town)["annotators"] == {"Anna": 3, "Bob": 1}
    everywhere = annotations(town, None)["value"]
    assert meta(town)["coverage"] == {"points": everywhere.count() / len(everywhere)}
    assert "| Anna | 3 |" in meta(town)["preview"]
    counted = read_parquet(town.bench.folder("annotations", "tiny") / "human_scores.parquet")
    assert counted.schema == pl.Schema(HUMAN_SCORES)
    assert len(counted) == 5
    # A touched or renamed file changes nothing.
    path = scores(town).path("tiny", "Anna")
    os.utime(path, (1, 1))
    path.rename(path.with_name("other.jsonl"))
    town.build(SCORED, "home")
    assert town.built == set()


def test_a_score_of_one_cell_is_of_that_cell_alone(town: Town) -> None:
    town.build(SCORED, "home")
    give(town, "noon", 0.0, 1, cell=DEEPER, question_id="noon")
    give(town, "lamp", 5.0, 2)
    town.build(SCORED, "home")
    assert values(town) == dict.fromkeys(IDS) | {"lamp": 5.0}
    assert values(town, DEEPER) == dict.fromkeys(IDS) | {"lamp": 5.0, "noon": 0.0}


REJECTS: list[tuple[dict[str, Any], str]] = [
    ({"rubric": "taste"}, "no rubric `taste`"),
    ({"rubric_version": "0" * 12}, "another wording of the rubric `points`"),
    ({"criterion": "brevity"}, "no criterion brevity"),
    ({"value": 4.0}, "4 is not a value of `points`: 5, 3, 0"),
    ({"item_id": "x" * 20}, "no cell gives this answer"),
    ({"cell": "tiny.a.b.c.d", "question_id": "noon"}, "there is no cell `tiny.a.b.c.d`"),
    ({"cell": CELL, "question_id": "never"}, "`never` is not a question"),
    ({"cell": CELL}, "is not a question"),
    ({"cell": CELL, "question_id": "lamp"}, "answers `lamp` otherwise"),
    ({"cell": ONE, "question_id": "noon"}, "answers `noon` otherwise"),
]


def test_what_fits_nothing_is_kept_aside_with_its_reason(town: Town) -> None:
    town.build(SCORED, "home")
    for number, (changes, _) in enumerate(REJECTS):
        give(town, "noon", **{"value": 5.0, "number": number, **changes})
    path = scores(town).path("tiny", "Anna")
    with path.open("a") as file:
        file.write("five points!\n")
    town.build(SCORED, "home")
    rejected = read_parquet(town.bench.folder("annotations", "tiny") / "rejected_scores.parquet")
    assert len(rejected) == len(REJECTS) + 1
    for (_, reason), row in zip(REJECTS, rejected.iter_rows(named=True), strict=False):
        assert reason in row["reason"]
        assert row["annotator"] == "Anna"
    assert rejected["place"][-1] == f"{path.name}:{len(REJECTS) + 1}"
    assert annotations(town, None)["value"].null_count() == 3 * len(IDS)
    assert meta(town)["rejects"] == len(REJECTS) + 1
    assert sum(meta(town)["reasons"].values()) == len(REJECTS) + 1
    assert not checks(town)["rejects"]["passed"]


def test_another_wording_is_another_metric_and_the_old_scores_come_back_with_the_old_one(town: Town) -> None:
    town.run(SCORED, "home")
    give(town, "noon", 5.0, 1)
    town.run(SCORED, "home")
    before = town.bench.artifact("annotations", "tiny").identity
    other = {"points": {"points": {"anchors": {5: "Right", 3: "Half right", 0: "Wrong"}}}}
    data = town.run({**SCORED, "rubrics": other}, "home")
    assert values(town) == dict.fromkeys(IDS)
    assert meta(town)["rejects"] == 1
    assert data.leaderboard.filter(metric="people.points")["value"].null_count() == 3
    town.run(SCORED, "home")
    assert town.bench.artifact("annotations", "tiny").identity == before
    assert values(town)["noon"] == 5.0


def test_what_comes_while_it_is_built_is_of_the_next_run(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    import rag_assay.evals.annotations as stage

    town.build(SCORED, "home")
    give(town, "noon", 5.0, 1)
    lamp = items(town)["lamp"].item_id
    read = stage.current_scores

    def meanwhile(rows: Any) -> Any:
        scores(town).append([score(2, item_id=lamp, rubric_version=VERSION, annotator="Bob")])
        return read(rows)

    monkeypatch.setattr(stage, "current_scores", meanwhile)
    town.build(SCORED, "home")
    assert values(town) == dict.fromkeys(IDS) | {"noon": 5.0}
    monkeypatch.setattr(stage, "current_scores", read)
    town.build(SCORED, "home")
    assert values(town) == dict.fromkeys(IDS) | {"noon": 5.0, "lamp": 5.0}


def test_people_may_rank_the_cells(town: Town) -> None:
    variant = {**SCORED, "metrics": ["people.points", "ndcg@10"]}
    data = town.run(variant, "home")
    covered = {one.name: one for one in town.outcomes["leaderboard"][0].checks}["covered"]
    assert not covered.passed, "here it is a lack"
    below = below_gate(coverages(data.leaderboard, data.unmeasured))
    assert below["cell"].to_list() == covered.metadata["cells"]
    assert failures(data).rows == 0, "but no failure"
    assert data.leaderboard["rank"].null_count() == len(data.leaderboard)
    number = 0
    for cell, better in ((CELL, 5.0), (ONE, 0.0)):
        for question in IDS:
            number += 1
            give(town, question, better, number, of=cell, annotator=cell)
    data = town.run(variant, "home")
    board = data.leaderboard.filter(metric="people.points").sort("rank", "cell")
    expected = {
        key: sum(found) / 4
        for key in (CELL, DEEPER, ONE)
        if (found := [value for value in values(town, key).values() if value is not None])
    }
    assert dict(board.select("cell", "value").iter_rows()) == expected
    assert board["rank"][0] == 1
    assert board["tie_group"].null_count() == 0


def test_a_failed_answer_is_no_want_of_people(town: Town) -> None:
    def respond(received: Received) -> Any:
        text = received.body["messages"][-1]["content"]
        return failure(400, "not now") if "tickets for" in text else answer("It says so.")

    with FakeOpenAI(respond=respond) as server:
        model = {"model": "openai/fake", "api_base": server.api_base}
        variant = {**PLAIN, **RUBRICS, "generators": {"asked": {"llm": model}}}
        town.build(variant, "home", whole=False)
    key = "tiny.t16.minilm.bm25.asked"
    give(town, "noon", 5.0, 1, of=key)
    town.build(variant, "home", whole=False)
    assert set(values(town, key)) == {"noon", "captain", "lamp"}
    found = said(town, key)
    assert found["tickets"][0] == Status.ERROR
    assert found["noon"] == ("ok", 5.0, None)
    assert found["lamp"][0] == Status.NOT_RUN
    assert meta(town)["unscorable"] == 1


def test_replicates_have_scores_of_their_own(town: Town) -> None:
    texts = iter(range(100))
    with FakeOpenAI(respond=lambda _received: answer(f"Perhaps {next(texts)}.")) as server:
        model = {"model": "openai/fake", "api_base": server.api_base, "temperature": 1}
        variant = {**PLAIN, **RUBRICS, "generators": {"asked": {"llm": model}}, "replicates": 2}
        town.run(variant, "home")
        first, second = "tiny.t16.minilm.bm25.asked", "tiny.t16.minilm.bm25.asked.2"
        give(town, "noon", 5.0, 1, of=first)
        give(town, "noon", 0.0, 2, of=second)
        data = town.run(variant, "home")
    assert (values(town, first)["noon"], values(town, second)["noon"]) == (5.0, 0.0)
    (row,) = data.leaderboard.filter(metric="people.points").iter_rows(named=True)
    assert row["value"] == 2.5
    with connect(town.bench.home.database) as connection:
        found = connection.execute(
            'SELECT cell, cell_replicate, "value" FROM current_annotations '
            'WHERE "value" IS NOT NULL ORDER BY 2'
        ).fetchall()
    assert found == [(first, 1, 5.0), (first, 2, 0.0)]


def test_a_pair_that_says_the_same_is_a_tie_that_nobody_is_asked_about(town: Town) -> None:
    generators = {
        **PLAIN["generators"],
        "short": {"extractive": {"passages": 1, "max_tokens": 8, "min_score": None}},
    }
    rubrics = {"duel": {"pairwise": {"against": "t16.minilm.bm25.short"}}, "points": {"points": {}}}
    variant = {**PLAIN, "generators": generators, "rubrics": rubrics, "restrict": {"short": {"sample": 3}}}
    town.build(variant, "home")
    short = f"{CELL.rpartition('.')[0]}.short"
    work = BuildContext(town.bench.home)
    pairs = dict(current_items(Grid([town.bench.study]), town.bench.study, work, "t16.minilm.bm25.short"))
    work.close()
    (of_pair,) = [of for cell, of in pairs.items() if cell.key == CELL]
    question, item = next(iter(of_pair.items.items()))
    version = town.bench.study.rubrics["duel"].version
    row = {"item_id": item.item_id, "rubric": "duel", "rubric_version": version, "value": 1.0}
    scores(town).append([score(1, **row), score(2, **{**row, "annotator": "Bob", "value": 0.5})])
    town.build(variant, "home")
    found = said(town, CELL, "people.duel")
    assert set(found) == {*of_pair.items, *of_pair.ties}, "the questions that both were asked"
    assert len(found) == 3
    assert found[question] == ("ok", 0.75, None)
    assert all(
        found[one] == ("ok", 0.5, "both answers are the same; they were not rated") for one in of_pair.ties
    )
    assert {value for _, value, _ in said(town, short, "people.duel").values()} == {0.5}
    assert {value for _, value, _ in said(town, CELL).values()} == {None}


def test_a_new_score_asks_nothing_of_any_model(town: Town) -> None:
    """Neither of a judge, whose judgements are beside it, nor of a generator."""
    with FakeOpenAI(respond=lambda _received: answer("Yes.")) as server:
        model = {"model": "openai/fake", "api_base": server.api_base}
        judges = {"asked": {"yes_no": {**model, "metrics": ["supported"]}}}
        variant = {**PLAIN, **RUBRICS, "generators": {"asks": {"llm": model}}, "judges": judges}
        key = "tiny.t16.minilm.bm25.asks"
        town.build(variant, "home", whole=False)
        town.build(variant, "home", whole=False)
        asked = len(server.requests)
        assert asked
        give(town, "noon", 5.0, 1, of=key)
        town.build(variant, "home", whole=False)
        assert len(server.requests) == asked
    assert town.bench.artifact("scores", key).meta["metrics_computed"] == ["people.points"]
    assert not town.built & {"answers", "judgements", "rankings", "questions"}


# DuckDB ----------------------------------------------------------------------------------------------------


def _tables(home: Home) -> dict[str, list[tuple[Any, ...]]]:
    names = ("human_scores", "current_human_scores", "annotations", "current_annotations")
    with connect(home.database) as connection:
        return {
            name: connection.sql(f"SELECT * FROM {name}").order("ALL").fetchall()  # noqa: S608 -- as above
            for name in names
        }


def test_what_people_say_is_in_the_database_and_a_rebuilt_one_is_equal(town: Town) -> None:
    town.run(SCORED, "home")
    home = town.bench.home
    give(town, "noon", 5.0, 1, comment="'; DROP TABLE human_scores; -- <b>\0")
    give(town, "noon", 3.0, 2)
    give(town, "lamp", 5.0, 3)
    give(town, "lamp", None, 4, status="withdrawn")
    town.run(SCORED, "home")
    with connect(home.database) as connection:
        assert write_human_scores(connection, home) == 4
        assert write_human_scores(connection, home) == 0
    found = _tables(home)
    assert len(found["human_scores"]) == 4
    assert [row[1] for row in found["current_human_scores"]] == ["id-2"]
    assert len(found["annotations"]) == 2 * 3 * len(IDS), "of both artifacts"
    assert len(found["current_annotations"]) == 3 * len(IDS)
    agreed = agreement(town)
    assert agreed["scores", "Anna"]["n"] == 1
    home.database.unlink()
    rebuild(home)
    assert _tables(home) == found
    assert agreement(town) == agreed
    scores(town).path("tiny", "Anna").unlink()
    with connect(home.database) as connection:
        write_human_scores(connection, home)
        assert connection.execute("SELECT count(*) FROM human_scores").fetchall() == [(0,)]


# The study file --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "said_of_it"),
    [
        ({"metrics": ["ndcg@10", "people.point"]}, "unknown rubric `point` in the metric people.point"),
        ({"metrics": ["people.points.brevity"]}, "the rubric `points` has no metric people.points.brevity"),
        ({"metrics": ["people.points"], "rubrics": {}}, "the study has no `rubrics`"),
        ({"metrics": ["people."]}, "unknown rubric ``"),
        ({"judges": {"people": {"similarity": {}}}}, "the name `people` is reserved for human ratings"),
        ({"generators": {}}, "human ratings need answers, but the study has no `generators`"),
    ],
)
def test_what_does_not_fit_is_said(town: Town, changes: Variant, said_of_it: str) -> None:
    with pytest.raises(InputError) as caught:
        town.bench_of({**SCORED, "metrics": ["ndcg@10"], **changes}, "home")
    assert said_of_it in str(caught.value)


def test_a_study_without_rubrics_has_the_identities_that_it_had(town: Town, tmp_path: Path) -> None:
    town.build(PLAIN, "home")
    before = {stage: town.bench.artifact(stage, CELL).identity for stage in ("answers", "scores")}
    assert not list((town.bench.home.root / "annotations").glob("*/artifact.json"))
    town.build({**PLAIN, **RUBRICS}, "home")
    assert town.built == {"annotations", "scores", "human_estimates", "leaderboard"}
    assert town.bench.artifact("answers", CELL).identity == before["answers"]
    assert town.bench.artifact("scores", CELL).meta["metrics_computed"] == ["people.points"]
    town.build(PLAIN, "home")
    assert town.bench.artifact("scores", CELL).identity == before["scores"]


def agreement(town: Town) -> dict[tuple[str, str | None], dict[str, Any]]:
    sql = "SELECT * FROM current_agreement WHERE study = 'tiny' AND other IS NULL"
    with connect(town.bench.home.database) as connection:
        rows = pl.DataFrame(connection.sql(sql).to_arrow_table())
    return {(row["measure"], row["annotator"]): row for row in rows.iter_rows(named=True)}


def test_agreement_is_stored_checked_and_reported(town: Town) -> None:
    town.run(SCORED, "home")
    assert checks(town)["agreement"]["passed"], "nobody has scored yet"
    assert agreement(town)["alpha", None]["reason"] == "there are no ratings by it yet"
    for number, question in enumerate(IDS):
        give(town, question, 5.0, number, seconds=30.0)
        give(town, question, 5.0 * (number % 2), number + 20, annotator="Bob", comment="<i>so</i>")
    give(town, "noon", 5.0, 90, showing=2)
    data = town.run(SCORED, "home")
    stored = agreement(town)
    assert (stored["items", None]["value"], stored["shared", None]["value"]) == (4, 4)
    assert stored["alpha", None]["value"] == pytest.approx(1 - (8 - 1) * 4 / (2 * 6 * 2))
    assert stored["alpha", None]["low"] is None
    assert stored["bias", "Bob"]["value"] == -2.5
    assert stored["minutes", "Anna"]["value"] == 2.0
    assert (stored["repeats", "Anna"]["value"], stored["repeats", "Anna"]["n"]) == (1.0, 1)
    assert not checks(town)["agreement"]["passed"]
    assert not checks(town)["agreement"]["severe"]
    assert "only 4 items were scored by two people" in checks(town)["agreement"]["description"]
    assert data.people is not None
    (answers,) = data.people.criteria()
    assert (answers.given, answers.of) == (9, 12)  # the cell `one` has one of the items
    assert {row["measure"] for row in data.people.agreement.iter_rows(named=True)} >= {"alpha", "kappa"}
    page = render_html(data)
    assert "Human ratings" in page
    assert "&lt;i&gt;so&lt;/i&gt;" in page
    shown = Report(Grid([town.bench.study])).identity("tiny", town.bench.store)
    give(town, "lamp", 5.0, 99, comment="A second thought.")  # the same value: only the report changes
    data = town.run(SCORED, "home")
    assert not town.built & {"answers", "scores", "leaderboard"}
    assert "A second thought." in render_html(data)
    assert Report(Grid([town.bench.study])).identity("tiny", town.bench.store) != shown
