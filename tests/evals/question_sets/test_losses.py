"""Each way to lose a piece of evidence, told apart on a small real index."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rag_assay.evals.pipeline.ranking_rows import RankingRows
from rag_assay.evals.question_sets.losses import Fate, Loss, fate, losses_of
from rag_assay.evals.retrieval.context import Memory, RetrievalContext
from rag_assay.evals.retrieval.fusion import SharedSearcher
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Kind, Trace, TraceStep
from rag_assay.evals.retrieval.query_runner import QueryRunner
from rag_assay.evals.study.registry import read_retriever
from rag_assay.warehouse.parquet import frame
from rag_assay.warehouse.schemas import LOSSES
from rag_assay.warehouse.spans import Span
from tests.fakes.indexing import build_index, vector_of

# Rows 0 and 1 are document d000 (characters 0 to 12 and 1000 to 1011), rows 2 and 3 document d001.
TEXTS = ("ferry at noon", "tickets here", "lamp at dusk", "crane of 1901")


@pytest.fixture
def index(tmp_path: Path) -> OpenIndex:
    return build_index(tmp_path, TEXTS)


def evidence(
    doc: str | None = "d000", start: int | None = 0, end: int | None = 5, **more: Any
) -> dict[str, Any]:
    return {"doc_id": doc, "start": start, "end": end, "reason": None, **more}


def step(kind: Kind, *rows: int, name: str | None = None) -> TraceStep:
    return TraceStep(name or kind, kind, np.array(rows, np.int64))


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
    spans: npt.NDArray[np.int64]


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


def test_every_piece_of_evidence_of_a_question_has_a_row(index: OpenIndex) -> None:
    trace = Trace([step("arm", 0, name="bm25")], allowed=np.array([True, True, False, False]))
    items = [evidence(), evidence(doc=None, reason="gone"), evidence("d001")]
    rows = losses_of(asked("q", *items), trace, [DELIVERED], index)
    assert frame(rows, LOSSES).rows() == [
        ("q", 0, "https://x.example/0", None, None, 1),
        ("q", 1, "https://x.example/1", "corpus", None, None),
        ("q", 2, "https://x.example/2", "filter", None, None),
    ]
    assert frame(rows, LOSSES).schema == pl.Schema(LOSSES)
    assert losses_of(asked("unanswerable"), Trace(), [], index) == []
    assert losses_of({"question_id": "without a list", "evidence": None}, Trace(), [], index) == []


def words(texts: Any) -> list[int]:
    return [len(text.split()) for text in texts]


def runner_of(written: Any, index: OpenIndex, context: RetrievalContext) -> QueryRunner:
    """Open a retriever as the stage does."""
    searcher = SharedSearcher(read_retriever(written), index, context)
    return QueryRunner(searcher, index, {}, context.clock)


def outcome(written: Any, text: str, item: dict[str, Any], index: OpenIndex) -> Fate:
    """Ask a retriever as the stage does, twice from one memory; say what became of a piece of evidence."""
    context = RetrievalContext(
        memory=Memory(), count=words, embed=lambda texts: np.stack([vector_of(text) for text in texts])
    )
    runner = runner_of(written, index, context)
    question = {"question_id": "q", "question": text, **asked("q", item)}
    found = []
    for one in (runner.ask(question), runner.ask(question)):
        assert one.reason is None
        (row,) = losses_of(question, one.trace, [hit.span for hit in one.hits], index)
        lost_at = Loss(row["lost_at"]) if row["lost_at"] else None
        found.append(Fate(lost_at, row["step"], row["found_at"]))
    assert found[0] == found[1], "memory changes nothing"
    return found[0]


NOON, TICKETS, DUSK, CRANE = (
    evidence("d000", 0, 5),
    evidence("d000", 1000, 1007),
    evidence("d001", 0, 4),
    evidence("d001", 1000, 1005),
)
EVERY_WORD = {"function_words": "keep", "title": 0}  # the passages are three words long
ARM: dict[str, Any] = {"bm25": {"k": 10, **EVERY_WORD}}
FIRST: dict[str, Any] = {"bm25": {"k": 1, **EVERY_WORD}}
ONLY_LAMPS: dict[str, Any] = {"filter": {"where": {"field": "title", "op": "=", "value": "lamps"}}}
NEVER: dict[str, Any] = {"nothing": {}}
ONLY_TICKETS: list[Any] = [{"filter": {"where": {"field": "language", "op": "=", "value": "de"}}}, ARM]
WEIGHED: dict[str, Any] = {"weighted": {}, "weights": [1.0, 0.1], "k": 1}
TEXT = "ferry tickets at noon, lamp"  # BM25: "ferry at noon", "tickets here", "lamp at dusk"


def fuse(*arms: Any, **more: Any) -> dict[str, Any]:
    return {
        "fuse": {"of": [{"chain": {"steps": arm}} if isinstance(arm, list) else arm for arm in arms], **more}
    }


@pytest.mark.parametrize(
    ("written", "item", "fate_"),
    [
        (ARM, NOON, Fate(None, None, 1)),
        (ARM, TICKETS, Fate(None, None, 2)),
        (ARM, evidence(doc=None, reason="gone"), Fate(Loss.CORPUS)),
        (ARM, CRANE, Fate(Loss.CANDIDATES)),  # no word of it is asked for
        (FIRST, TICKETS, Fate(Loss.CANDIDATES)),
        (FIRST, evidence("d000", 8, 1007), Fate(Loss.CHUNKING)),  # in two chunks, of which one was found
        (ARM, evidence("d000", 8, 1007), Fate(None, None, 2)),  # in two chunks, and both were found
        ([ARM, {"top": {"k": 1}}], evidence("d000", 8, 1007), Fate(Loss.CUT, "top")),
        ([ONLY_LAMPS, ARM], NOON, Fate(Loss.FILTER)),
        ([ONLY_LAMPS, FIRST], CRANE, Fate(Loss.CANDIDATES)),  # allowed, and not found
        ([ARM, {"deduplicate": {"jaccard": 0.2}}], DUSK, Fate(Loss.FILTER, "deduplicate")),
        # Second in every list, so that a `k` of 1 cuts it off: no order is to blame.
        (fuse(ARM, NEVER, k=1), TICKETS, Fate(Loss.CUT, "fuse")),
        (fuse(NEVER, ARM, k=1), TICKETS, Fate(Loss.CUT, "fuse")),
        (fuse(ARM, ARM, k=1), TICKETS, Fate(Loss.CUT, "fuse")),
        ([ARM, {"graph": {"n": 1}}], TICKETS, Fate(Loss.CUT, "graph")),
        ({"graph": {"of": ARM, "k": 1}}, TICKETS, Fate(Loss.CUT, "graph")),
        # First in one arm, and moved below the cut by the other one.
        (fuse(ARM, ONLY_TICKETS, **WEIGHED), TICKETS, Fate(Loss.FUSION, "fuse")),
        (
            [fuse(ARM, ONLY_TICKETS, **{**WEIGHED, "k": 10}), {"top": {"k": 1}}],
            TICKETS,
            Fate(Loss.FUSION, "fuse"),
        ),
        (
            [fuse(ARM, ONLY_TICKETS, **{**WEIGHED, "k": 10}), {"group_by_document": {}}, {"top": {"k": 1}}],
            TICKETS,
            Fate(Loss.FUSION, "fuse"),
        ),
        ([ARM, {"top": {"k": 1}}], TICKETS, Fate(Loss.CUT, "top")),
        ([ARM, {"threshold": {"at_least": 0.99}}], TICKETS, Fate(Loss.CUT, "threshold")),
        ([ARM, {"adaptive": {"max": 1}}], TICKETS, Fate(Loss.CUT, "adaptive")),
        ([ARM, {"token_budget": {"tokens": 3}}], TICKETS, Fate(Loss.BUDGET, "token_budget")),
        ([ARM, {"token_budget": {"tokens": 5}}], TICKETS, Fate(None, None, 2)),
        # What a neighbour brought in is held from then on.
        ([FIRST, {"neighbours": {}}], TICKETS, Fate(None, None, 1)),
        (
            [FIRST, {"neighbours": {}}, {"token_budget": {"tokens": 4}}],
            TICKETS,
            Fate(Loss.BUDGET, "token_budget"),
        ),
        # Chains in arms: the last step that held it says who lost it.
        (fuse([ARM, {"top": {"k": 1}}], NEVER), TICKETS, Fate(Loss.CUT, "top")),
        (fuse([ARM, {"top": {"k": 1}}], ARM, k=1), TICKETS, Fate(Loss.CUT, "fuse")),
        (fuse(ARM, [FIRST, {"top": {"k": 1}}], k=1), TICKETS, Fate(Loss.CUT, "fuse")),
        ([fuse(fuse(ARM, NEVER), NEVER), {"top": {"k": 1}}], TICKETS, Fate(Loss.CUT, "top")),
        (fuse(fuse(ARM, NEVER, k=1), NEVER), TICKETS, Fate(Loss.CUT, "fuse")),
        (fuse(fuse(ARM, ONLY_TICKETS, **WEIGHED), NEVER), TICKETS, Fate(Loss.FUSION, "fuse")),
        (fuse([ONLY_LAMPS, ARM], [ONLY_LAMPS, ARM]), NOON, Fate(Loss.FILTER)),
        (fuse([ONLY_LAMPS, ARM], NEVER), NOON, Fate(Loss.CANDIDATES)),  # the other arm had no filter
        ([{"multi_query": {}}, FIRST], CRANE, Fate(Loss.CANDIDATES)),
        ([{"multi_query": {}}, ARM, {"top": {"k": 1}}], TICKETS, Fate(Loss.CUT, "top")),
        ([ARM, {"lost_in_the_middle": {}}, {"top": {"k": 1}}], TICKETS, Fate(Loss.CUT, "top")),
    ],
    ids=str,
)
def test_each_way_to_lose_it_is_told_from_the_others(
    written: Any, item: dict[str, Any], fate_: Fate, tmp_path: Path
) -> None:
    columns = {"title": ["ferries", "ferries", "lamps", "lamps"], "language": ["en", "de", "en", "en"]}
    assert outcome(written, TEXT, item, build_index(tmp_path, TEXTS, columns=columns)) == fate_


@pytest.mark.parametrize(
    ("written", "fate_"),
    [
        (
            [ARM, {"group_by_document": {"by": "sum"}}, {"top": {"k": 2}}],
            Fate(Loss.RERANKING, "group_by_document"),
        ),
        ([ARM, {"group_by_document": {"by": "sum"}}, {"top": {"k": 1}}], Fate(Loss.CUT, "top")),
        (
            [ARM, {"group_by_document": {"by": "sum"}}, {"token_budget": {"tokens": 5}}],
            Fate(Loss.BUDGET, "token_budget"),
        ),
        (
            fuse([ARM, {"group_by_document": {"by": "sum"}}], NEVER, k=2),
            Fate(Loss.RERANKING, "group_by_document"),
        ),
        (fuse([ARM, {"group_by_document": {"by": "sum"}}], NEVER, k=1), Fate(Loss.CUT, "fuse")),
        (
            [fuse([ARM, {"group_by_document": {"by": "sum"}}], NEVER), {"top": {"k": 2}}],
            Fate(Loss.RERANKING, "group_by_document"),
        ),
        ([ARM, {"lost_in_the_middle": {}}, {"top": {"k": 2}}], Fate(Loss.CUT, "top")),
        ({"bm25": {"k": 1, **EVERY_WORD}}, Fate(Loss.CANDIDATES)),
    ],
    ids=str,
)
def test_re_ranking_is_to_blame_only_for_what_it_moved_below_the_cut(
    written: Any, fate_: Fate, index: OpenIndex
) -> None:
    """BM25 has the evidence second, grouped by document it is third."""
    assert outcome(written, "ferry at noon, tickets, dusk and a lamp", DUSK, index) == fate_


def test_a_cut_is_told_from_a_demotion(index: OpenIndex) -> None:
    below, above = step("arm", 2, 3, 0), step("arm", 0, 2, 3)
    fused, top = step("fuse", 2, 3, name="both"), step("cut", 2, name="top")
    assert fate(evidence(), [below, below, fused], [], index) == Fate(Loss.CUT, "both"), "third in every arm"
    assert fate(evidence(), [below, above, fused], [], index) == Fate(Loss.FUSION, "both"), "first in one"
    whole = step("fuse", 2, 3, 0, name="both")
    assert fate(evidence(), [above, below, whole, top], [], index) == Fate(Loss.FUSION, "both")
    assert fate(evidence(), [below, below, whole, top], [], index) == Fate(Loss.CUT, "top")
    reranked = step("rerank", 2, 3, 0, name="model")
    assert fate(evidence(), [above, above, step("fuse", 0, 2, 3), reranked, top], [], index) == Fate(
        Loss.RERANKING, "model"
    )
    better = step("rerank", 2, 0, 3, name="model")
    assert fate(evidence(), [above, whole, better, top], [], index) == Fate(Loss.FUSION, "both"), (
        "re-ranking moved it up, not far enough"
    )
    inner = step("fuse", 2, 3, 0, name="inner")
    nested = [above, below, inner, step("arm", 2, 3), step("fuse", 2, 3, name="outer")]
    assert fate(evidence(), nested, [], index) == Fate(Loss.FUSION, "inner"), "the outer one found it third"
    across = evidence(start=8, end=1007)  # in rows 0 and 1
    pieces = [step("arm", 0, 2, 1), step("fuse", 0, 2, name="both")]
    assert fate(across, pieces, [], index) == Fate(Loss.CUT, "both"), "no list had both pieces above the cut"


def test_where_it_was_lost_does_not_hang_on_how_much_is_stored(index: OpenIndex) -> None:
    """`depth` is 1 here, and the arm had the evidence at its second place."""
    assert outcome([ARM, {"top": {"k": 1}}], TEXT, TICKETS, index) == Fate(Loss.CUT, "top")
    runner = runner_of([ARM, {"top": {"k": 1}}], index, RetrievalContext())
    question = {"question_id": "q", "question": TEXT, **asked("q", TICKETS)}
    rows = RankingRows(index, depth=1)
    rows.add(question, runner.ask(question))
    assert [len(stored["chunk_ids"]) for stored in rows.steps] == [1, 1]
    assert [(row["lost_at"], row["step"]) for row in rows.losses] == [("cut", "top")]


STEPS_: tuple[dict[str, Any], ...] = (
    {"top": {"k": 2}},
    {"neighbours": {"n": 1}},
    {"deduplicate": {"jaccard": 0.3}},
    {"group_by_document": {"by": "sum"}},
    {"document_order": {}},
    {"lost_in_the_middle": {}},
    {"graph": {"similarity": 0.0, "n": 3}},
    {"threshold": {"at_least": 0.3}},
    {"adaptive": {"min": 1}},
    {"token_budget": {"tokens": 9, "skip": True}},
)


@pytest.fixture(scope="module")
def harbour(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    """Eight documents of three chunks that touch, but for a space."""
    vocabulary = ["ferry", "noon", "quay", "lamp", "oil", "crane", "storm", "dusk"]
    chance = np.random.default_rng(3)
    texts = [" ".join(chance.choice(vocabulary, 4)) for _ in range(24)]
    starts = []
    for number, _ in enumerate(texts):
        starts.append(starts[-1] + len(texts[number - 1]) + 1 if number % 3 else 0)
    ends = [start + len(text) for start, text in zip(starts, texts, strict=True)]
    columns = {
        **{"doc_id": [f"d{n // 3}" for n in range(24)], "ordinal": [n % 3 for n in range(24)]},
        **{"start": starts, "end": ends, "context_start": starts, "context_end": ends},
        **{"gap": ["" if n % 3 == 2 else " " for n in range(24)]},
    }
    return build_index(tmp_path_factory.mktemp("harbour"), texts, columns=columns)


def is_refused(links: list[dict[str, Any]]) -> bool:
    """A graph ranks chunks, and is refused after what is wider."""
    kinds = [kind for link in links for kind in link]
    return "neighbours" in kinds and "graph" in kinds[kinds.index("neighbours") :]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    links=st.lists(st.sampled_from(STEPS_), max_size=4).filter(lambda links: not is_refused(links)),
    nested=st.lists(st.sampled_from([step for step in STEPS_ if "neighbours" not in step]), max_size=2),
    doc=st.integers(0, 7),
    span=st.tuples(st.integers(0, 60), st.integers(1, 30)),
)
def test_it_is_lost_exactly_where_it_was_not_delivered(
    links: list[Any], nested: list[Any], doc: int, span: tuple[int, int], harbour: OpenIndex
) -> None:
    item = evidence(f"d{doc}", span[0], span[0] + span[1])
    quoted = harbour.passage(item["doc_id"], item["start"], item["end"])
    assume(quoted and quoted == quoted.strip())
    context = RetrievalContext(count=words)
    written = [fuse([{"bm25": {"k": 6}}, *nested], {"bm25": {"k": 3, "b": 0.0}}, k=5), *links]
    runner = runner_of(written, harbour, context)
    question = {"question_id": "q", "question": "ferry at noon, storm at dusk", **asked("q", item)}
    one = runner.ask(question)
    passages = [hit.span for hit in one.hits]
    (row,) = losses_of(question, one.trace, passages, harbour)
    held = {at for p in passages if p.doc_id == item["doc_id"] for at in range(p.start, p.end)}
    lacking = [
        at
        for at in range(item["start"], item["end"])
        if at not in held and not quoted[at - item["start"] :][:1].isspace()
    ]
    assert (row["lost_at"] is None) == (not lacking)
    assert (row["found_at"] is None) == bool(lacking)
    if row["lost_at"] in {"reranking", "cut", "filter", "budget", "fusion"}:
        assert row["step"] in {note.step for note in one.trace.steps}
