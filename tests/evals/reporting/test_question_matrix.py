"""The matrix of questions and pipelines says what the report says, and reads only what it shows."""

from __future__ import annotations

import json
from collections.abc import Iterator

import polars as pl
import pytest

from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.journey import catalogue, disputes, runs_of
from rag_assay.evals.reporting.question_matrix import (
    FOUND,
    MatrixFilter,
    QuestionMatrix,
    is_regression,
)
from rag_assay.evals.reporting.standings import cell_labels
from tests.fakes.report_data import NDCG
from tests.fakes.town import PLAIN, Town

RETRIEVERS = {"bm25": {"bm25": {"k": 5}}, "dense": {"dense": {"k": 5}}}
STUDY = {**PLAIN, "retrievers": RETRIEVERS, "metrics": ["ndcg@10", "retrieval_latency", "abstention"]}

pytestmark = pytest.mark.models


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[QuestionMatrix, ReportData]]:
    with pytest.MonkeyPatch.context() as patch:
        town = Town(tmp_path_factory.mktemp("town"), patch)
        data = town.run(STUDY, "home")
        yield QuestionMatrix(town.bench.study, town.bench.home), data


def all_questions(matrix: QuestionMatrix, metric: str = "ndcg@10") -> MatrixFilter:
    return MatrixFilter(metric, tuple(matrix.labels))


def test_every_cell_says_what_the_report_says(ran: tuple[QuestionMatrix, ReportData]) -> None:
    matrix, data = ran
    wanted = all_questions(matrix)
    ids = matrix.matching(wanted)
    assert ids == data.questions["question_id"].to_list()
    rows = matrix.rows(wanted, ids)
    values = {
        (row["question_id"], row["cell"]): row["value"]
        for row in data.values.filter(pl.col("metric") == "ndcg@10").iter_rows(named=True)
    }
    answers = {(row["question_id"], row["cell"]): row["answer"] for row in data.answers.iter_rows(named=True)}
    assert values
    for row in rows:
        for key, cell in zip(wanted.pipelines, row.cells, strict=True):
            assert cell.value == values.get((row.question_id, key))
            assert bool(cell.why) == (cell.value is None)
            assert (cell.answer or "") == (answers.get((row.question_id, key)) or "")[:201]
    assert matrix.disputes == disputes(data)
    assert next(iter(matrix.labels)) == data.verdict.recommended.cell  # type: ignore[union-attr]


def test_losses_sources_and_types_are_those_of_the_catalogue(
    ran: tuple[QuestionMatrix, ReportData],
) -> None:
    matrix, data = ran
    assert data.journey is not None
    labels = cell_labels(data)
    known = catalogue(data, data.journey, labels, runs_of(data, [*labels]), {})
    asked = known["questions"]
    sources = [one or [] for one in matrix.questions["sources"].to_list()]
    assert sources == asked["sources"]
    assert matrix.questions["kind"].to_list() == asked["type"]
    names = [one["name"] for one in known["steps"]]
    for one in known["cells"]:
        signs = known["lost"][one["ranking"]]
        (found,) = matrix.lost([one["key"]])
        for question, sign in zip(asked["id"], signs, strict=True):
            word = {" ": "", ".": FOUND}.get(sign) if sign in " ." else names[ord(sign) - ord("a")]
            assert found.get(question, "") == word


def test_filters_leave_what_fits(ran: tuple[QuestionMatrix, ReportData]) -> None:
    matrix, data = ran
    first, second = list(matrix.labels)[:2]
    everything = all_questions(matrix)
    row = data.questions.row(1, named=True)
    word = row["question"].split()[-1].upper()
    found = matrix.matching(MatrixFilter("ndcg@10", (first,), search=f"{word} {row['question_id']}"))
    assert found == [row["question_id"]]
    kinds = matrix.questions["kind"]
    of_kind = matrix.matching(MatrixFilter("ndcg@10", (first,), type=kinds[0]))
    assert len(of_kind) == (kinds == kinds[0]).sum()
    lost = [
        matrix.matching(MatrixFilter("ndcg@10", (first,), lost=one))
        for one in {*matrix.lost([first])[0].values()}
    ]
    assert sorted(one for some in lost for one in some) == sorted(matrix.lost([first])[0])
    by_dispute = matrix.matching(MatrixFilter("ndcg@10", tuple(matrix.labels), by_dispute=True))
    measured = [matrix.disputes[one].value for one in by_dispute]
    assert measured == sorted(measured, reverse=True)
    assert 0 not in measured
    values = matrix.values("ndcg@10", [first, second])
    turned = matrix.matching(MatrixFilter("ndcg@10", (first, second), is_regression=True))
    assert turned == [
        one
        for one in matrix.matching(everything)
        if is_regression(NDCG, values.get((one, first)), values.get((one, second)))
    ]


def test_a_regression_crosses_the_middle_of_the_range() -> None:
    assert is_regression(NDCG, 0.49, 0.5)
    assert not is_regression(NDCG, 0.5, 0.9)
    assert not is_regression(NDCG, None, 0.9)
    assert not is_regression(NDCG, 0.9, 0.1)


def test_a_journey_has_the_passages_answers_and_scores_of_its_question(
    ran: tuple[QuestionMatrix, ReportData],
) -> None:
    matrix, data = ran
    pipelines = list(matrix.labels)[:2]
    question = data.questions["question_id"][0]
    found = json.loads(json.dumps(matrix.journey(question, pipelines)))
    assert found["known"]["questions"]["id"] == [question]
    assert [one["key"] for one in found["known"]["cells"]] == pipelines
    block = found["block"]
    assert data.journey is not None
    of = {data.journey.rankings[one] for one in pipelines}
    hits = data.journey.hits.filter((pl.col("question_id") == question) & pl.col("ranking").is_in(list(of)))
    assert len(block["hits"]["rank"]) == len(hits)
    assert {block["texts"][at] for at in block["hits"]["chunk_id_"]} == {*hits["chunk_id"]}
    taken = data.journey.taken.filter((pl.col("question_id") == question) & pl.col("ranking").is_in(list(of)))
    assert len(block["taken"]["at"]) == len(taken)
    said = {block["texts"][at] for at in block["answers"]["answer_"] if at >= 0}
    asked = (pl.col("question_id") == question) & pl.col("cell").is_in(pipelines)
    assert said == {*data.answers.filter(asked)["answer"].drop_nulls()}
    for key, measured in zip(pipelines, found["measured"], strict=True):
        means = dict(
            data.values.filter((pl.col("question_id") == question) & (pl.col("cell") == key))
            .select("metric", "value")
            .iter_rows()
        )
        assert measured["values"] == [means.get(one.name) for one in data.metrics]
