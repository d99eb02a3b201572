"""What people are shown of a cell: equal contents are one item, a refusal is one, a failure is none."""

from __future__ import annotations

from typing import Any

import pytest

from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.pipeline.cell_items import CellItems, current_items, item_needs, read_items
from rag_assay.evals.rubrics.items import item_id
from rag_assay.evals.study.grid import Grid
from rag_assay.warehouse.parquet import read_parquet
from tests.fakes.openai_server import FakeOpenAI, Received, answer, failure
from tests.fakes.town import PLAIN, Town, Variant

pytestmark = pytest.mark.models
BM25 = "tiny.t16.minilm.bm25"
IDS = {"noon", "tickets", "lamp", "captain"}


def items_of(town: Town, against: str | None = None) -> dict[str, CellItems]:
    bench = town.bench
    grid = Grid([bench.study])
    work = BuildContext(bench.home)
    try:
        return {cell.key: found for cell, found in current_items(grid, bench.study, work, against)}
    finally:
        work.close()


def asked(server: FakeOpenAI, **more: Any) -> Variant:
    return {"model": "openai/fake", "api_base": server.api_base, **more}


def test_an_item_holds_what_was_answered_and_what_it_was_made_of(town: Town) -> None:
    town.build(PLAIN, "home")
    (found,) = items_of(town).values()
    assert set(found.items) == IDS
    assert not found.missing
    answers = read_parquet(town.bench.folder("answers", f"{BM25}.quote") / "answers.parquet")
    chunks = read_parquet(town.bench.folder("chunks", "ferries.t16") / "chunks.parquet")
    texts = dict(chunks.select("chunk_id", "text").iter_rows())
    for row in answers.iter_rows(named=True):
        case = found.items[row["question_id"]].case
        assert case.answer == row["answer"]
        assert [one.text for one in case.passages] == [texts[one] for one in row["chunk_ids"]]
        assert [one.number for one in case.passages] == [1, 2][: len(row["chunk_ids"])]
    noon = found.items["noon"]
    assert noon.case.ground_truth == "At noon."
    assert noon.evidence == ("The ferry leaves the harbour at noon.",)
    marked = [noon.case.passages[at].text[start:end] for at, start, end in noon.marks]
    assert marked
    assert all(one in noon.evidence[0] for one in marked)
    assert noon.evidence[0].startswith(marked[0]) or marked[0] == noon.evidence[0]
    assert not found.items["captain"].marks


def test_equal_contents_are_one_item_in_whatever_cells_they_stand(town: Town) -> None:
    """A retriever of another name, and one that finds the same first passages, give the same items."""
    retrievers = {"bm25": {"bm25": {"k": 5}}, "deeper": {"bm25": {"k": 9}}, "one": {"bm25": {"k": 1}}}
    town.build({**PLAIN, "retrievers": retrievers}, "home")
    found = {key: {q: one.item_id for q, one in of.items.items()} for key, of in items_of(town).items()}
    assert found["tiny.t16.minilm.bm25.quote"] == found["tiny.t16.minilm.deeper.quote"]
    same, other = found["tiny.t16.minilm.bm25.quote"], found["tiny.t16.minilm.one.quote"]
    assert any(same[question] != other[question] for question in IDS), "other passages are another item"
    assert len(set(same.values())) == len(IDS)


def test_cells_without_a_generator_have_no_items(town: Town) -> None:
    variant = {**PLAIN, "metrics": ["ndcg@10"]}
    del variant["generators"]
    town.build(variant, "home")
    assert items_of(town) == {}
    grid = Grid([town.bench.study])
    (cell,) = grid.cells.values()
    assert item_needs(grid, cell) == []
    assert read_items(grid, cell, {}, BuildContext(town.bench.home)) == CellItems({})


def test_a_refusal_is_an_item_and_a_failed_answer_is_counted_as_missing(town: Town) -> None:
    def respond(received: Received) -> Any:
        text = received.body["messages"][-1]["content"]
        if "captain" in text:
            return answer("I do not know.")
        return failure(400, "not now") if "tickets for" in text else answer("It says so [2].")

    with FakeOpenAI(respond=respond) as server:
        variant = {**PLAIN, "generators": {"asked": {"llm": asked(server)}}}
        town.build(variant, "home", whole=False)
    (found,) = items_of(town).values()
    assert set(found.items) == {"noon", "lamp", "captain"}
    assert found.items["captain"].case.status == "refused"
    assert found.items["noon"].case.answer == "It says so [2].", "people see what is cited"
    assert set(found.missing) == {"tickets"}
    assert found.missing["tickets"].startswith("error: ")


def test_closed_book_and_oracle_cells_have_items(town: Town) -> None:
    with FakeOpenAI(respond=lambda _received: answer("At noon.")) as server:
        generators = {"gold": {"oracle_context": asked(server)}, "closed": {"no_context": asked(server)}}
        town.build({**PLAIN, "generators": generators, "metrics": ["abstention"]}, "home")
    found = items_of(town)
    closed, gold = found["tiny.-.-.-.closed"], found["tiny.-.-.-.gold"]
    assert set(closed.items) == IDS
    assert all(one.case.passages == () for one in closed.items.values())
    noon = gold.items["noon"]
    ((at, start, end),) = noon.marks
    assert noon.case.passages[at].text[start:end] == "The ferry leaves the harbour at noon."
    assert noon.item_id != closed.items["noon"].item_id


def test_replicates_and_samples_have_the_items_that_they_answered(town: Town) -> None:
    texts = iter(range(100))
    with FakeOpenAI(respond=lambda _received: answer(f"Perhaps {next(texts)}.")) as server:
        generators = {"asked": {"llm": asked(server, temperature=1)}}
        variant = {**PLAIN, "generators": generators, "replicates": 2, "restrict": {"asked": {"sample": 2}}}
        town.build(variant, "home")
    found = items_of(town)
    assert set(found) == {f"{BM25}.asked", f"{BM25}.asked.2"}
    first, second = found.values()
    assert len(first.items) == 2
    assert set(first.items) == set(second.items)
    assert all(first.items[one].item_id != second.items[one].item_id for one in first.items)


def test_the_items_of_a_pair_hold_both_answers_and_equal_ones_are_ties(town: Town) -> None:
    generators = {**PLAIN["generators"], "short": {"extractive": {"passages": 1, "max_tokens": 12}}}
    town.build({**PLAIN, "generators": generators, "restrict": {"short": {"sample": 3}}}, "home")
    answers = {
        name: dict(
            read_parquet(town.bench.folder("answers", f"{BM25}.{name}") / "answers.parquet")
            .select("question_id", "answer")
            .iter_rows()
        )
        for name in ("quote", "short")
    }
    found = items_of(town, "t16.minilm.bm25.short")
    assert found[f"{BM25}.short"].items == {}
    assert found[f"{BM25}.short"].ties == set(answers["short"])
    pairs = found[f"{BM25}.quote"]
    assert set(pairs.items) | pairs.ties == set(answers["short"]), "questions that both were asked"
    assert pairs.ties == {one for one in answers["short"] if answers["short"][one] == answers["quote"][one]}
    for question, item in pairs.items.items():
        assert (item.case.answer, item.case.rival) == (
            answers["quote"][question],
            answers["short"][question],
        )


def test_a_cell_that_is_not_answered_yet_is_left_out(town: Town) -> None:
    town.build(PLAIN, "home")
    more = {**PLAIN["generators"], "short": {"extractive": {"passages": 1, "max_tokens": 12}}}
    town.bench = town.bench_of({**PLAIN, "generators": more}, "home")
    assert set(items_of(town)) == {f"{BM25}.quote"}


def test_what_the_question_does_not_say_by_itself_is_part_of_an_item() -> None:
    plain = item_id("And then?", "It sails.", ["a"])
    assert plain == item_id("And then?", "It sails.", ["a"], setting=(None,))
    others = {
        item_id("And then?", "It sails.", ["a"], setting=("When does it land?", "At noon.", None)),
        item_id("And then?", "It sails.", ["a"], setting=("2024-01-01",)),
        item_id("And then?", "It sails.", ["a"], "It stays."),
        item_id("And then?", None, ["a"]),
        item_id("And then?", "", ["a"]),
        item_id("And then?", "It sails.", []),
    }
    assert len(others | {plain}) == 7
