"""Studies whose answers come from sheets: measured and compared like any other, and built of nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from rag_assay.evals.pipeline.passages import contexts_of
from rag_assay.evals.question_sets.readers.records import stable_id
from rag_assay.evals.reporting.effects import effects
from rag_assay.evals.reporting.rows import report_data
from rag_assay.evals.spreadsheet_import.bundle import Sheet, cell_digest, cell_key, write_sheet_facts
from rag_assay.evals.study.cells import Cell
from rag_assay.evals.study.imported_study import ImportedStudy
from rag_assay.evals.study.study_file import read_study
from rag_assay.warehouse.paths import Home
from tests.fakes.imported import QUESTIONS, TRUE, grid, imported, imported_bench, put_sheet, row
from tests.fakes.named import named
from tests.fakes.tiny import Bench

DENSE, BM25 = "ferry.c128.-.dense.llama", "ferry.c128.-.bm25.llama"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home without any model weights: none are needed."""
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ASSAY_MODELS", str(tmp_path / "no-weights"))
    return Home(tmp_path / "home")


def built(home: Home, *sheets: Sequence[dict[str, Any]]) -> Bench:
    """Return the bench of a study of these sheets, built whole."""
    bench = imported_bench(home, {f"sheet{n}": rows for n, rows in enumerate(sheets)})
    outcomes = bench.build()
    assert all(one.ok for found in outcomes.values() for one in found), outcomes
    return bench


def answers(bench: Bench, key: str) -> dict[str, dict[str, Any]]:
    found = pl.read_parquet(bench.folder("answers", key) / "answers.parquet")
    return {one["question_id"]: one for one in found.iter_rows(named=True)}


def board(bench: Bench, metric: str) -> dict[str, dict[str, Any]]:
    found = pl.read_parquet(bench.folder("leaderboard", "ferry") / "leaderboard.parquet")
    return {one["cell"]: one for one in found.filter(metric=metric).iter_rows(named=True)}


def test_the_cells_are_the_combinations_of_the_sheet_and_nothing_is_built(home: Home) -> None:
    bench = built(home, grid())
    assert [cell.key for cell in bench.study.cells()] == [
        f"ferry.{chunking}.-.{retriever}.llama"
        for chunking in ("c128", "c256")
        for retriever in ("bm25", "dense")
    ]
    stages = {name: len(stage.keys()) for name, stage in bench.stages.items() if stage.keys()}
    assert stages == {"questions": 1, "answers": 4, "scores": 4, "leaderboard": 1, "report": 1}
    means = {cell: found["value"] for cell, found in board(bench, "exact_match").items()}
    assert means == {cell.key: float(cell.retriever == "dense") for cell in bench.study.cells()}
    first = board(bench, "rouge_l")[DENSE]
    assert (first["n"], first["coverage"], first["answered"], first["rank"]) == (3, 1.0, 1.0, 1)
    assert (first["chunking"], first["embedder"], first["retriever"]) == ("c128", "-", "dense")
    assert all(check["passed"] for check in bench.artifact("leaderboard", "ferry").meta["checks"])


def test_what_a_sheet_does_not_say_is_null_with_a_reason_and_never_nought(home: Home) -> None:
    bench = imported_bench(home, {"llama": grid()}, {"ndcg@10": "retrieval_latency"})
    bench.build()
    scores = pl.read_parquet(bench.folder("scores", DENSE) / "scores.parquet")
    unsaid = scores.filter(~pl.col("metric").is_in(["rouge_l", "exact_match"]))
    reasons = dict(unsaid.select("metric", "reason").unique().iter_rows())
    assert reasons == {
        "retrieval_latency": "a sheet does not say where in which document its contexts stand",
        "answer_latency": "the generator did not say its seconds",
        "tokens": "the generator did not say its prompt_tokens and completion_tokens",
    }
    assert unsaid["value"].null_count() == len(unsaid) == 9
    assert set(unsaid["status"]) == {"not_run"}
    found = answers(bench, DENSE)["noon"]
    costs = ("seconds", "prompt_tokens", "completion_tokens", "usd", "cached", "model", "citations")
    assert {found[name] for name in costs} == {None}
    assert not {"usd", "prompt_tokens", "from_cache"} & bench.artifact("answers", DENSE).meta.keys()
    assert bench.write_report().ok


def test_the_effects_of_all_axes_are_those_of_the_rows(home: Home) -> None:
    bench = built(home, grid(), grid("mixtral", retrievers=("dense", "bm25")))
    assert bench.write_report().ok
    found = effects(report_data(bench.study, home))
    tables = {table.axis: table.effects[0] for table in found.axes}
    assert {*tables} == {"chunking", "retriever", "generator"}
    retriever = tables["retriever"]
    means = dict(zip(retriever.levels, retriever.found.mean.tolist(), strict=True))
    assert (retriever.best, means["dense"]) == ("dense", 1.0)
    assert means["bm25"] < 0.2
    chunking = tables["chunking"].found
    assert chunking.mean[0] == chunking.mean[1]
    assert {axes for pair in found.pairs for axes in [pair.axes]} >= {("chunking", "retriever")}


def test_a_second_sheet_is_a_second_generator_and_the_first_one_stays_fresh(home: Home) -> None:
    bench = built(home, grid())
    before = {key: bench.artifact("answers", key) for key in bench.stages["answers"].keys()}
    put_sheet(bench.study.path.parent, "sheet1", grid("mixtral"))
    later = Bench(bench.study.path, home)
    assert [cell.generator for cell in later.study.cells()] == ["llama"] * 4 + ["mixtral"] * 4
    fresh = {key: later.stages["answers"].fresh(key, later.store) for key in later.stages["answers"].keys()}
    assert {key for key, found in fresh.items() if found} == {*before}
    outcomes = later.build()
    for stage in ("answers", "scores"):
        computed = {one.key for one in outcomes[stage] if one.computed}
        assert computed
        assert not computed & {*before}
    assert {key: later.artifact("answers", key) for key in before} == before
    assert not any(one.computed for found in later.build().values() for one in found)


def test_a_corrected_row_makes_its_own_cell_stale_and_no_other(home: Home) -> None:
    rows = grid()
    bench = built(home, rows)
    folder = bench.study.path.parent

    def stale() -> list[str]:
        now = Bench(bench.study.path, home)
        return [
            key for key in now.stages["answers"].keys() if not now.stages["answers"].fresh(key, now.store)
        ]

    assert stale() == []
    put_sheet(folder, "sheet0", reversed(rows))
    assert stale() == [], "lines are nothing to an answer"
    scores = [{"rubric": "points", "criterion": None, "value": 0.0}]
    put_sheet(folder, "sheet0", [{**one, "scores": scores, "comment": "no"} for one in rows])
    assert stale() == [], "nor are scores"
    for column, value in (("answer", "At one."), ("contexts", ["Another."]), ("contexts", None)):
        put_sheet(folder, "sheet0", [{**rows[0], column: value}, *rows[1:]])
        assert stale() == [BM25], column


def test_other_contexts_are_other_answers_to_a_judge(home: Home) -> None:
    bench = built(home, grid())
    before = bench.artifact("answers", BM25).data_version
    rows = grid()
    put_sheet(bench.study.path.parent, "sheet0", [{**rows[0], "contexts": ["Another."]}, *rows[1:]])
    Bench(bench.study.path, home).build("questions", "answers")
    assert bench.artifact("answers", BM25).data_version != before
    found = contexts_of(bench.store, bench.artifact("answers", BM25))
    assert [one.text for one in found["noon"]] == ["Another."]
    assert [one.text for one in found["lamp"]] == ["The passage about lamp.", "Another passage."]


def test_every_question_counts_in_every_cell_that_is_there(home: Home) -> None:
    rows = [one for one in grid() if (one["chunking"], one["retriever"]) != ("c256", "bm25")]
    rows.remove(next(one for one in rows if one["retriever"] == "bm25"))
    bench = built(home, rows)
    assert len(bench.study.cells()) == 3
    missing = answers(bench, BM25)["noon"]
    assert (missing["status"], missing["reason"], missing["answer"]) == (
        "not_run",
        "the sheet has no row of it",
        None,
    )
    found = board(bench, "rouge_l")
    assert (found[BM25]["n"], found[BM25]["rank"]) == (3, None)
    assert found[BM25]["coverage"] == found[BM25]["answered"] == pytest.approx(2 / 3)
    assert found[DENSE]["rank"] == 1
    assert not any(one.computed for outcomes in bench.build().values() for one in outcomes)
    assert bench.write_report().ok


ENDS = [
    ("", "parse_failed", "the answer is empty"),
    (" \n", "parse_failed", "the answer is empty"),
    (None, "not_run", "the sheet has no answer to it"),
    ("Das weiß ich leider nicht.", "ok", None),
    ("[1] <b>{{ x }}</b> \x00 ${HOME}", "ok", None),
]


def test_an_answer_ends_as_the_sheet_says(home: Home) -> None:
    rows = grid()
    changed = [{**one, "answer": answer} for one, (answer, _, _) in zip(rows, ENDS, strict=False)]
    bench = built(home, [*changed, *rows[len(ENDS) :]])
    for one, (answer, status, reason) in zip(changed, ENDS, strict=True):
        with named(repr(answer)):
            cell, question = cell_key("ferry", one), one["question_id"]
            found = answers(bench, cell)[question]
            assert (found["status"], found["reason"]) == (status, reason)
            assert found["answer"] == answer
            scores = pl.read_parquet(bench.folder("scores", cell) / "scores.parquet")
            (score,) = scores.filter(metric="rouge_l", question_id=question).to_dicts()
            assert (score["value"] is None) == (status != "ok")
    assert bench.write_report().ok


def test_rows_of_the_same_cell_and_question_are_its_replicates(home: Home) -> None:
    again = row("noon", "At one.", replicate=2)
    bench = built(home, [*(row(name, TRUE[name]) for name in QUESTIONS), again])
    assert [cell.key for cell in bench.study.runs()] == [DENSE, f"{DENSE}.2"]
    assert [*answers(bench, f"{DENSE}.2")] == ["noon"]
    found = board(bench, "exact_match")[DENSE]
    assert found["value"] == pytest.approx((0.5 + 1 + 1) / 3)
    assert (found["n"], found["replicates"], found["coverage"], found["answered"]) == (3, 2, 1.0, 1.0)
    assert found["rank"] == 1
    assert bench.write_report().ok


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([row("noon", "At noon.")], id="one row"),
        pytest.param([row(name, TRUE[name]) for name in QUESTIONS], id="one cell"),
        pytest.param(
            [row(name, "Yes.", r, retriever=r) for name in QUESTIONS for r in "ab"], id="equal answers"
        ),
        pytest.param([{**one, "contexts": None} for one in grid()], id="no contexts"),
        pytest.param([{**one, "contexts": []} for one in grid()], id="empty contexts"),
        pytest.param([{**one, "contexts": ["a", "a", ""]} for one in grid()], id="doubled contexts"),
        pytest.param([{**one, "ground_truth": None} for one in grid()], id="no ground truths"),
        pytest.param(
            [{**one, "chunking": "-", "retriever": "-", "embedder": "-"} for one in grid()[:3]], id="-"
        ),
        pytest.param(
            [row(name, "Yes.") for name in ("1", "2.5", "..", "x-y_Z", stable_id("用/b", "", []))],
            id="odd ids",
        ),
    ],
)
def test_any_sheet_is_run_and_reported(home: Home, rows: list[dict[str, Any]]) -> None:
    bench = built(home, rows)
    assert bench.write_report().ok
    text = home.report("ferry").read_text()
    assert "ferry" in text
    found = board(bench, "rouge_l" if rows[0]["ground_truth"] else "tokens")
    assert {one["n"] for one in found.values()} == {len({one["question_id"] for one in rows})}
    assert {one["answered"] for one in found.values()} == {1.0}
    assert not any(one.computed for outcomes in bench.build().values() for one in outcomes)


def test_a_sheet_that_is_gone_takes_its_cells_with_it(home: Home) -> None:
    bench = built(home, grid(), grid("mixtral"))
    (bench.study.path.parent / "sheets" / "sheet1" / "rows.parquet").unlink()
    later = Bench(bench.study.path, home)
    assert {cell.generator for cell in later.study.cells()} == {"llama"}
    outcomes = later.build()
    assert [name for name, found in outcomes.items() if any(one.computed for one in found)] == ["leaderboard"]
    assert later.write_report().ok
    assert "mixtral" not in home.report("ferry").read_text()


def test_a_home_that_moved_is_still_up_to_date(home: Home, tmp_path: Path) -> None:
    bench = built(home, grid())
    moved = Home(tmp_path / "moved")
    home.root.rename(moved.root)
    later = Bench(moved.root / bench.study.path.relative_to(home.root), moved)
    assert not any(one.computed for outcomes in later.build().values() for one in outcomes)


def test_the_report_says_what_was_not_taken_of_a_sheet(home: Home) -> None:
    bench = built(home, grid())
    notes = tuple(f"a.xlsx:{line}: two rows say otherwise" for line in range(2, 7))
    sheet = Sheet("sheet0", "a.xlsx", "", "", 12, ("a.xlsx:9: no question",), notes)
    write_sheet_facts(home, "ferry", sheet)
    assert bench.write_report().ok
    page = home.report("ferry").read_text()
    assert "1 reasons why rows were skipped, first: a.xlsx:9: no question" in page
    assert "a.xlsx:4: two rows say otherwise" in page
    assert "2 further notes" in page


def test_cells_have_the_keys_that_scores_are_kept_by(home: Home) -> None:
    rows = [*grid(), row("noon", "Now.", replicate=2)]
    study = read_study(imported(home, {"llama": rows}))
    assert {cell.key for cell in study.runs()} == {cell_key("ferry", one) for one in rows}


def test_the_digest_of_a_cell_is_of_its_rows_alone(tmp_path: Path) -> None:
    place = ("c128", "-", "dense", "llama", 1)
    first = [row(name, TRUE[name]) for name in QUESTIONS]
    put_sheet(tmp_path, "one", first)
    before = cell_digest(tmp_path, place)
    put_sheet(tmp_path, "two", grid("mixtral"))
    assert cell_digest(tmp_path, place) == before
    put_sheet(tmp_path, "one", first[:2])
    assert cell_digest(tmp_path, place) != before
    assert cell_digest(tmp_path, ("c128", "-", "dense", "llama", 2)) != before


def test_a_restriction_leaves_out_cells_and_questions(home: Home) -> None:
    restrict = "restrict: {llama: {retrievers: [dense]}, mixtral: {sample: 2}}\nmetrics:"
    path = imported(home, {"a": grid(), "b": grid("mixtral")}, {"metrics:": restrict})
    study = read_study(path)
    assert isinstance(study, ImportedStudy)
    assert [cell.key for cell in study.cells() if cell.generator == "llama"] == [
        DENSE,
        "ferry.c256.-.dense.llama",
    ]
    bench = Bench(path, home)
    assert all(one.ok for found in bench.build().values() for one in found)
    assert len(answers(bench, "ferry.c128.-.dense.mixtral")) == 2
    assert study.cells()[-1] == Cell("ferry", "c256", "-", "dense", "mixtral", sample=2, imported=True)
