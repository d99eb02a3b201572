"""The queue of a real study: blind, whole, the same until the answers change."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from rag_assay.evals.human.item_order import next_showing, progress
from rag_assay.evals.human.queue import Queue, queue_path, read_queue
from rag_assay.evals.human.queue_builder import prepare_queue
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.human_scores import HumanScore, HumanScores
from tests.fakes.openai_server import FakeOpenAI, answer, failure
from tests.fakes.queues import scores_of
from tests.fakes.town import PLAIN, Town, Variant

pytestmark = pytest.mark.models
POINTS = {"points": {"points": {}}}
SCORED: Variant = {**PLAIN, "rubrics": POINTS}
WIDE = {"bm25": {"bm25": {"k": 5}}, "one": {"bm25": {"k": 1}}, "deeper": {"bm25": {"k": 9}}}


def asked(server: FakeOpenAI, **more: Any) -> Variant:
    return {"model": "openai/fake", "api_base": server.api_base, **more}


def prepared(town: Town, said: list[str] | None = None) -> Queue:
    return prepare_queue(town.bench.study, town.bench.home, (said if said is not None else []).append)


def test_each_answer_is_in_the_queue_once_and_nothing_tells_its_cell(town: Town) -> None:
    town.build({**SCORED, "retrievers": WIDE}, "home")
    queue = prepared(town)
    assert len(queue.items) == queue.population == 7, "two retrievers of three find the same passages"
    assert {one.item.case.question_id for one in queue.items} == {"noon", "tickets", "lamp", "captain"}
    assert {one.rubrics for one in queue.items} == {("points",)}
    path = queue_path(town.bench.home, "tiny", queue.version)
    text = path.read_text()
    assert not [one for one in ("t16", "minilm", "bm25", "deeper", 'quote"', "chunk") if one in text]
    (noon, *_) = [one.item for one in queue.items if one.item.case.question_id == "noon"]
    assert noon.case.ground_truth == "At noon."
    assert noon.evidence == ("The ferry leaves the harbour at noon.",)
    assert noon.marks


def test_it_is_the_same_until_answers_change_and_scores_stay(town: Town, tmp_path: Path) -> None:
    town.build(SCORED, "home")
    first = prepared(town)
    home = town.bench.home
    before = queue_path(home, "tiny", first.version).stat().st_mtime_ns
    assert prepared(town) == first
    assert queue_path(home, "tiny", first.version).stat().st_mtime_ns == before, "it is not written again"
    store = HumanScores(home)
    for _ in range(len(first.items)):
        showing = next_showing(first, "anna", [HumanScore(**row) for row in store.rows("tiny")])
        assert showing is not None
        store.append(scores_of(first, "anna", showing))
    town.build({**SCORED, "retrievers": WIDE}, "home")
    second = prepared(town)
    assert second.version != first.version
    assert first.by_id.keys() < second.by_id.keys()
    assert read_queue(home, "tiny") == second
    assert read_queue(home, "tiny", first.version) == first
    scores = [HumanScore(**row) for row in store.rows("tiny")]
    assert progress(second, "anna", scores).shown == len(first.items)
    shown = next_showing(second, "anna", scores)
    assert shown is not None
    assert shown.item.item_id not in first.by_id


def test_pairs_and_single_answers_are_items_of_their_own(town: Town, server: FakeOpenAI) -> None:
    generators = {
        "quote": PLAIN["generators"]["quote"],
        "short": {"extractive": {"passages": 1, "max_tokens": 8}},
    }
    duel = {"pairwise": {"against": "t16.minilm.bm25.short"}}
    rubrics = {**POINTS, "tone": {"binary": {}}, "duel": duel}
    town.build({**SCORED, "generators": generators, "rubrics": rubrics}, "home")
    queue = prepared(town)
    by_rubrics = defaultdict(list)
    for one in queue.items:
        by_rubrics[one.rubrics].append(one)
    assert by_rubrics.keys() == {("points", "tone"), ("duel",)}
    assert all(one.item.case.rival is None for one in by_rubrics["points", "tone"])
    assert all(one.item.case.rival not in (None, one.item.case.answer) for one in by_rubrics["duel",])
    assert [name for name, _ in queue.asked(by_rubrics["duel",][0].item_id)] == ["duel"]


def test_only_what_the_section_says_is_scored(town: Town) -> None:
    chosen = {"cells": ["t16.minilm.one.quote"], "rubrics": ["points"], "twice": 0.5, "repeats": 0.1}
    rubrics = {**POINTS, "other": {"binary": {}}}
    town.build({**SCORED, "retrievers": WIDE, "rubrics": rubrics, "annotation": chosen}, "home")
    queue = prepared(town)
    assert all(len(one.item.case.passages) == 1 for one in queue.items)
    assert (list(queue.rubrics), queue.twice, queue.repeats) == (["points"], 0.5, 0.1)


def test_a_sample_covers_the_cells_and_says_where_it_cannot(town: Town) -> None:
    town.build({**SCORED, "retrievers": WIDE, "annotation": {"sample": 3}}, "home")
    said: list[str] = []
    queue = prepared(town, said)
    assert (len(queue.items), queue.population, said) == (3, 7, [])
    assert {len(one.item.case.passages) == 1 for one in queue.items} == {True, False}
    town.build({**SCORED, "retrievers": WIDE, "annotation": {"sample": 1, "precision": 0.1}}, "home")
    queue = prepared(town, said)
    assert len(queue.items) == 1
    assert "cells have no answer among the 1 that are scored" in said[0]
    assert "`sample: 1` is too small for `precision: 0.1`: 7 answers are needed" in said[1]


def test_without_a_sample_as_many_are_drawn_as_the_precision_needs(town: Town) -> None:
    town.build({**SCORED, "retrievers": WIDE, "annotation": {"precision": 0.5}}, "home")
    queue = prepared(town)
    assert queue.needed == len(queue.items) == queue.population == 7


def test_disputed_answers_are_likelier(town: Town) -> None:
    annotation = {"sample": 5, "order": "disputed"}
    metrics = ["rouge_l", "exact_match", "abstention"]
    town.build({**SCORED, "retrievers": WIDE, "metrics": metrics, "annotation": annotation}, "home")
    queue = prepared(town)
    assert len(queue.items) == 5
    assert all(one.disputed is not None and 0 <= one.disputed <= 1 for one in queue.items)
    assert any(one.disputed for one in queue.items)
    assert sum(one.probability for one in queue.items) > 0


def test_refusals_are_scored_and_failures_are_counted(town: Town, server: FakeOpenAI) -> None:
    replies = ["The documents do not say.", None, "At noon.", "At noon."]

    def reply(_: Any) -> Any:
        text = replies.pop(0) if replies else "At noon."
        return failure(400, "no such thing") if text is None else answer(text)

    server.respond = reply
    variant = {**SCORED, "generators": {"llm": {"llm": asked(server)}}}
    town.build(variant, "home", whole=False)
    queue = prepared(town)
    assert 0 < len(queue.items) < 5
    assert any("do not say" in (one.item.case.answer or "") for one in queue.items)


def test_what_cannot_be_scored_is_said_in_a_sentence(town: Town, server: FakeOpenAI) -> None:
    town.bench = town.bench_of(PLAIN, "home")
    with pytest.raises(InputError, match="does not say by what people score"):
        prepared(town)
    town.bench = town.bench_of(SCORED, "home")
    with pytest.raises(InputError, match="no answers yet; run it first: `assay run tiny`"):
        prepared(town)
    server.respond = lambda _: failure(400, "no such thing")
    town.build({**SCORED, "generators": {"llm": {"llm": asked(server)}}}, "home", whole=False)
    with pytest.raises(InputError, match="no answer that people can score: 4 failed"):
        prepared(town)
    duel = {"duel": {"pairwise": {"against": "t16.minilm.bm25.quote"}}}
    town.build({**SCORED, "rubrics": duel}, "home")
    with pytest.raises(InputError, match="all answers that are compared are alike"):
        prepared(town)


def test_a_damaged_queue_is_made_again(town: Town) -> None:
    town.build(SCORED, "home")
    queue = prepared(town)
    path = queue_path(town.bench.home, "tiny", queue.version)
    path.write_text(json.dumps({"format": 1}))
    said: list[str] = []
    assert prepared(town, said).version == queue.version
    assert "is not a queue" in said[0]
    assert read_queue(town.bench.home, "tiny") is not None


def test_two_studies_with_the_same_cells_have_queues_of_their_own(town: Town) -> None:
    town.build(SCORED, "home")
    one = prepared(town)
    town.build({**SCORED, "study": "other", "rubrics": {"right": {"binary": {}}}}, "home", "other.yaml")
    other = prepared(town)
    assert (one.by_id.keys(), list(one.rubrics), list(other.rubrics)) == (
        other.by_id.keys(),
        ["points"],
        ["right"],
    )
    assert read_queue(town.bench.home, "tiny") == one
    assert read_queue(town.bench.home, "other") == other
