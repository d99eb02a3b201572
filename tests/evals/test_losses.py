"""Each way to lose a piece of evidence, told apart on a small real index."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest

from evals.losses import Fate, Loss, fate, losses_of
from evals.measuring.contract import Span
from evals.retrieving import recipes  # noqa: F401 -- retrievers that hold others are known from here on
from evals.retrieving.bm25 import Bm25
from evals.retrieving.chain import Chain
from evals.retrieving.contract import Kind, Noted, Query, Retriever, Trace
from evals.retrieving.delivering import delivered
from evals.retrieving.index import OpenIndex
from tests.fakes.indexing import build_index
from warehouse.parquet import frame
from warehouse.schemas import LOSSES, QUESTIONS

# Rows 0 and 1 are document d000 (characters 0 to 12 and 1000 to 1011), rows 2 and 3 document d001.
TEXTS = ("ferry at noon", "tickets here", "lamp at dusk", "crane of 1901")


@pytest.fixture
def index(tmp_path: Path) -> OpenIndex:
    return build_index(tmp_path, TEXTS)


def evidence(
    doc: str | None = "d000", start: int | None = 0, end: int | None = 5, **more: Any
) -> dict[str, Any]:
    return {"doc_id": doc, "start": start, "end": end, "reason": None, **more}


def step(kind: Kind, *rows: int, name: str | None = None) -> Noted:
    return Noted(name or kind, kind, np.array(rows, np.int64))


DELIVERED = Span("d000", 0, 13)


def test_what_was_delivered_is_not_lost(index: OpenIndex) -> None:
    steps = [step("arm", 0, 2)]
    assert fate(evidence(), steps, [Span("d001", 0, 12), DELIVERED], index) == Fate(None, None, 2)
    parts = [Span("d000", 0, 3), Span("d000", 3, 13)]
    assert fate(evidence(), steps, parts, index).found_at == 2, "two passages hold it together"
    assert fate(evidence(start=None, end=None), steps, [DELIVERED], index).found_at == 1, "a whole document"


def test_white_space_between_passages_is_no_loss(index: OpenIndex) -> None:
    parts = [Span("d000", 0, 5), Span("d000", 6, 13)]  # "ferry" and "at noon"
    assert fate(evidence(end=8), [], parts, index).found_at == 2
    assert fate(evidence(end=8), [], [Span("d000", 0, 5), Span("d000", 7, 13)], index).lost_at, "a letter is"


def test_evidence_that_no_document_has(index: OpenIndex) -> None:
    gone = evidence(doc=None, reason="no document has this URL")
    assert fate(gone, [], [DELIVERED], index) == Fate(Loss.CORPUS)
    assert fate(evidence(reason="the quote is not in the text"), [], [], index).lost_at is Loss.CORPUS


def test_evidence_that_no_arm_found(index: OpenIndex) -> None:
    steps = [step("arm", 2), step("arm", 3), step("fuse", 2, 3)]
    assert fate(evidence(), steps, [], index) == Fate(Loss.CANDIDATES)


def test_evidence_that_lies_across_two_chunks(index: OpenIndex) -> None:
    across = evidence(start=8, end=1007)
    assert fate(across, [step("arm", 0)], [DELIVERED], index) == Fate(Loss.CHUNKING)
    both = [DELIVERED, Span("d000", 1000, 1012)]
    assert fate(across, [step("arm", 0, 1)], both, index).lost_at is None, "found in two pieces"


def test_evidence_that_a_filter_kept_out(index: OpenIndex) -> None:
    allowed = np.array([False, True, True, True])
    assert fate(evidence(), [step("arm", 2)], [], index, allowed) == Fate(Loss.FILTER)
    assert fate(evidence(), [step("arm", 2)], [], index, ~allowed).lost_at is Loss.CANDIDATES


@pytest.mark.parametrize(
    ("kind", "lost_at"),
    [
        ("fuse", Loss.FUSION),
        ("rerank", Loss.RERANKING),
        ("filter", Loss.FILTER),
        ("cut", Loss.CUT),
        ("budget", Loss.BUDGET),
    ],
)
def test_the_step_that_lost_it_is_named(kind: Kind, lost_at: Loss, index: OpenIndex) -> None:
    steps = [step("arm", 0, 2), step("arm", 3), step("fuse", 0, 2, 3), step(kind, 2, name="last")]
    if kind == "fuse":
        steps.pop(2)
    assert fate(evidence(), steps, [Span("d001", 0, 12)], index) == Fate(lost_at, "last")


def test_an_arm_that_lacks_it_is_no_loss_while_another_has_it(index: OpenIndex) -> None:
    steps = [step("arm", 0), step("arm", 2), step("fuse", 2, name="inner"), step("fuse", 2, name="outer")]
    assert fate(evidence(), steps, [], index) == Fate(Loss.FUSION, "inner")
    nested = [step("arm", 0), step("fuse", 2, name="inner"), step("arm", 0), step("fuse", 2, name="outer")]
    assert fate(evidence(), nested, [], index) == Fate(Loss.FUSION, "outer"), "a later arm still had it"


def test_what_the_last_step_held_and_was_not_delivered_was_cut(index: OpenIndex) -> None:
    assert fate(evidence(), [step("arm", 2, 0)], [Span("d001", 0, 12)], index) == Fate(Loss.CUT)


def test_a_document_that_no_chunk_is_of(index: OpenIndex) -> None:
    assert fate(evidence("d999"), [step("arm", 0)], [DELIVERED], index) == Fate(Loss.CHUNKING)
    assert fate(evidence("d999", None, None), [], [], index) == Fate(Loss.CHUNKING)


def test_what_no_chunk_reaches_is_not_white_space(index: OpenIndex) -> None:
    beyond = evidence(start=1000, end=1030)  # the last chunk ends at 1012
    assert fate(beyond, [step("arm", 1)], [Span("d000", 1000, 1012)], index) == Fate(Loss.CHUNKING)


def test_a_step_inside_another_arm_lost_nothing_of_this_one(index: OpenIndex) -> None:
    steps = [
        step("arm", 0),
        step("arm", 2),
        step("cut", 2, name="of the second arm"),
        step("fuse", 2, name="both"),
    ]
    assert fate(evidence(), steps, [], index) == Fate(Loss.FUSION, "both")
    own = [step("arm", 0), step("cut", 2, name="its own"), step("arm", 2), step("fuse", 2)]
    assert fate(evidence(), own, [], index) == Fate(Loss.CUT, "its own")


def test_a_step_that_joins_passages_loses_none(index: OpenIndex) -> None:
    steps = [step("arm", 0, 1), step("deliver", 1, name="neighbours"), step("budget", name="token_budget")]
    assert fate(evidence(), steps, [], index) == Fate(Loss.BUDGET, "token_budget")


class Widened(NamedTuple):
    """A step that says what it delivers of each row."""

    step: str
    kind: Kind
    rows: npt.NDArray[np.int64]
    stretches: npt.NDArray[np.int64]


def test_evidence_that_came_in_with_a_neighbour(index: OpenIndex) -> None:
    both = np.array([[0, 1012]])
    wide: Any = Widened("neighbours", "deliver", np.array([1]), both)
    kept: Any = Widened("top", "cut", np.array([1]), both)
    steps = [step("arm", 1), wide, kept, step("budget", name="token_budget")]
    assert fate(evidence(), steps, [], index) == Fate(Loss.BUDGET, "token_budget")


def asked(question_id: str, *items: dict[str, Any]) -> dict[str, Any]:
    whole = [
        {"url": f"https://x.example/{n}", "quote": "q", "grade": 1, **item} for n, item in enumerate(items)
    ]
    return {"question_id": question_id, "evidence": whole}


def test_every_piece_of_evidence_of_every_ranked_question_has_a_row(index: OpenIndex) -> None:
    questions = frame(
        [
            asked("found", evidence(), evidence(doc=None, reason="gone")),
            asked("missed", evidence("d001")),
            asked("failed", evidence()),
            asked("unanswerable"),
            {"question_id": "without a list", "evidence": None},
        ],
        QUESTIONS,
    )
    trace = Trace()
    trace.steps = [step("arm", 0, name="bm25")]
    passages: dict[str, list[Span]] = {
        "found": [DELIVERED],
        "missed": [],
        "unanswerable": [],
        "without a list": [],
    }
    allowed = {"missed": np.array([True, True, False, False]), "found": None}
    rows = losses_of(questions, {"found": trace}, passages, index, allowed)
    assert frame(rows, LOSSES).rows() == [
        ("found", 0, "https://x.example/0", None, None, 1),
        ("found", 1, "https://x.example/1", "corpus", None, None),
        ("missed", 0, "https://x.example/0", "filter", None, None),
    ]
    assert frame(rows, LOSSES).schema == pl.Schema(LOSSES)


def traced(retriever: Retriever, text: str, index: OpenIndex) -> tuple[Trace, list[Span]]:
    trace = Trace()
    ranking = retriever.rank(Query(text, trace=trace), index)
    return trace, [Span(*stretch) for stretch in delivered(ranking, index)]


def chain(*links: dict[str, Any]) -> Chain:
    return Chain.model_validate({"steps": list(links)})


def test_real_retrievers_leave_a_trace_that_is_read(index: OpenIndex) -> None:
    def lost(retriever: Retriever, item: dict[str, Any]) -> Fate:
        trace, passages = traced(retriever, "ferry tickets at noon, lamp", index)
        return fate(item, trace.steps, passages, index)

    arm: dict[str, Any] = {"bm25": {"k": 10}}
    tickets = evidence(start=1000, end=1007)
    assert lost(Bm25(k=10), evidence()) == Fate(None, None, 1)
    assert lost(chain(arm, {"top": {"k": 1}}), tickets) == Fate(Loss.CUT, "top")
    assert lost(chain(arm, {"token_budget": {"tokens": 3}}), tickets) == Fate(Loss.BUDGET, "token_budget")
    assert lost(chain(arm, {"neighbours": {"n": 1}}, {"top": {"k": 1}}), tickets).found_at == 1
    assert lost(chain(arm, {"top": {"k": 1}}), evidence("d001", 1000, 1005)) == Fate(Loss.CANDIDATES)
