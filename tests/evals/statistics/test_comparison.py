"""Who has answered, who leads, and what is one comparison."""

from __future__ import annotations

from typing import Any

import pytest

from rag_assay.evals.metrics import get_metric
from rag_assay.evals.statistics.comparison import answered_share, compare_cells, leader_of
from rag_assay.warehouse.parquet import frame
from rag_assay.warehouse.schemas import ANSWERS, Status
from tests.fakes.cases import answer_row

OK, REFUSED, FAILED = Status.OK, Status.REFUSED, Status.TIMEOUT
NDCG = get_metric("ndcg@10")


def share(statuses: list[Status], answerable: str = "yyyy") -> float:
    rows = [answer_row(f"q{number}", status) for number, status in enumerate(statuses)]
    known = {f"q{number}": sign == "y" for number, sign in enumerate(answerable)}
    return answered_share(frame(rows, ANSWERS), known, list(known))


@pytest.mark.parametrize(
    ("statuses", "answerable", "expected"),
    [
        ([OK, OK, OK, OK], "yyyy", 1),
        ([FAILED, FAILED, FAILED, FAILED], "yyyy", 0),
        ([OK, FAILED, OK, FAILED], "yyyy", 0.5),
        ([OK, REFUSED, REFUSED, REFUSED], "yyyy", 1),  # metrics say what its refusals are worth
        ([REFUSED, REFUSED, REFUSED, REFUSED], "yyyn", 0),
        ([REFUSED, REFUSED, REFUSED, REFUSED], "nnnn", 1),
        ([REFUSED, FAILED, FAILED, FAILED], "nyyy", 0.25),
        ([OK, OK], "yyyy", 0.5),  # two questions have no row
        ([], "yyyy", 0),
        ([Status.NO_CONTEXT] * 4, "yyyy", 0),
        ([OK, OK, OK, Status.NO_CONTEXT], "yyyy", 1),  # nothing was found, and nothing said
    ],
)
def test_what_counts_as_answered(statuses: list[Status], answerable: str, expected: float) -> None:
    assert share(statuses, answerable) == expected


def test_an_empty_text_is_no_answer() -> None:
    rows = frame([answer_row("q0", text="")], ANSWERS)
    assert answered_share(rows, {"q0": True}, ["q0"]) == 0


def row(cell: str, value: float, rank: int | None = 2, **more: Any) -> dict[str, Any]:
    return {
        "cell": cell,
        "metric": NDCG.name,
        "value": value,
        "rank": rank,
        "coverage": 1.0,
        "answered": None,
    } | more


def test_the_leader_of_equals_is_the_first_by_name() -> None:
    assert leader_of([row("b", 0.5, 1), row("a", 0.5, 1), row("c", 0.6, None)], NDCG) == "a"
    assert leader_of([row("b", 0.5, None)], NDCG) is None


def test_cells_that_share_every_value_are_one_comparison() -> None:
    def values(shift: float) -> dict[str, float]:
        return {f"q{number}": 0.01 * (number % 7) + shift * (number % 2) for number in range(60)}

    cells = {"best": 0.02, "a": 0.0, "b": 0.019}
    valued = [(row(name, 0.0), values(shift)) for name, shift in cells.items()]
    copies = [(row(f"copy {number}", 0.0), values(0.0)) for number in range(40)]
    everyone = {one["cell"] for one, _ in [*valued, *copies]}
    alone = {one["cell"]: one["p"] for one in compare_cells(valued, "best", everyone, 7)}
    crowded = {one["cell"]: one["p"] for one in compare_cells([*valued, *copies], "best", everyone, 7)}
    assert crowded["a"] == crowded["copy 0"] == alone["a"]
    assert crowded["b"] == alone["b"]


def test_a_leader_without_a_value_of_a_metric_leaves_it_uncompared() -> None:
    found = compare_cells([(row("a", 0.5), {"q": 0.5})], "gone", {"a"}, 7)
    assert [(one["leader"], one["tied"]) for one in found] == [(None, None)]
