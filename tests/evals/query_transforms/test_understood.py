"""What was understood of a question is with its trace, each once, and can be taken away again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rag_assay.evals.retrieval.chain import Chain
from rag_assay.evals.retrieval.context import Memory, RetrievalContext
from rag_assay.evals.retrieval.fusion import SharedSearcher
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import REMOVABLE, Entity, Query, QueryInterpretation, Removal
from rag_assay.evals.study.registry import QUERY_TRANSFORMS
from tests.evals.query_transforms.documents import KB, WE, index_of
from tests.fakes.indexing import read_by

DERBY = "Wie ging Kohlenbach gegen Wesselrode am 24. September 2022 aus?"
FILTERED = {"dates": "same_day", "keywords": "any"}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    return index_of(tmp_path_factory.mktemp("understood"))


def read(kind: str, text: str, index: OpenIndex, *without: Removal, **more: Any) -> list[Query]:
    fields = more.pop("fields", {})
    query = Query(text, asked_at="2024-06-01", without=frozenset(without), **more)
    return read_by(QUERY_TRANSFORMS[kind].model_validate(fields), query, index)


def facts(queries: list[Query]) -> list[QueryInterpretation]:
    return list(queries[0].trace.understood.values())


def rows(query: Query) -> list[int] | None:
    return None if query.allowed is None else np.flatnonzero(query.allowed).tolist()


WINDOWS = [
    ("Which reports were published before 2023?", [("before 2023", "../2022-12-31", "used")]),
    ("Welche Berichte erschienen nicht vor 2022?", [("nicht vor 2022", "2022-01-01/..", "used")]),
    ("Which were published between May and July 2023?", [("May and July 2023", "", "relaxed")]),
    (
        "Which were published in 2022 or 2018?",
        [("2022", "2022-01-01/2022-12-31", "used"), ("2018", "2018-01-01/2018-12-31", "used")],
    ),
    ("Welche Berichte erschienen gestern?", [("gestern", "2024-05-31/2024-05-31", "relaxed")]),
    ("What is the target for 2030?", []),
]


@pytest.mark.parametrize(("text", "wanted"), WINDOWS)
def test_windows_have_their_words(text: str, wanted: list[tuple[str, str, str]], index: OpenIndex) -> None:
    found = facts(read("time_frame", text, index))
    assert [(one.step, one.kind) for one in found] == [("time_frame", "window")] * len(wanted)
    assert [(one.text, one.status) for one in found] == [(words, status) for words, _, status in wanted]
    assert all(one.value == value for one, (_, value, _) in zip(found, wanted, strict=True) if value)
    for one in found:
        first, last = one.value.split("/")
        assert ".." in (first, last) or first <= last


def test_each_window_can_be_taken_away(index: OpenIndex) -> None:
    text = "Which were published in 2022 or 2018?"
    (both,) = read("time_frame", text, index)
    one, other = facts([both])
    (left,) = read("time_frame", text, index, Removal.of(one))
    assert set(rows(left) or ()) < set(rows(both) or ())
    assert [known.status for known in facts([left])] == ["removed", "used"]
    (right,) = read("time_frame", text, index, Removal.of(other))
    assert sorted([*(rows(left) or ()), *(rows(right) or ())]) == rows(both)
    for without in ([Removal("time_frame")], [Removal.of(one), Removal.of(other)]):
        (none,) = read("time_frame", text, index, *without)
        assert (none.allowed, none.where, none.text) == (None, None, text)
        assert {known.status for known in facts([none])} == {"removed"}


def test_entities_are_taken_away_one_by_one_and_by_kind(index: OpenIndex) -> None:
    (query,) = read("entities", DERBY, index, fields=FILTERED)
    assert [one[1:] for one in facts([query])] == [
        ("date", "24. September 2022", "2022-09-24", "used"),
        ("club", "Kohlenbach", KB, "used"),
        ("club", "Wesselrode", WE, "used"),
    ]
    assert rows(query) == [1]
    (dateless,) = read("entities", DERBY, index, Removal("entities", "date"), fields=FILTERED)
    assert rows(dateless) == [0, 1, 2]
    assert [one.kind for one in dateless.entities] == ["club", "club"]
    gone = Removal("entities", "club", KB), Removal("entities", "date")
    (club,) = read("entities", DERBY, index, *gone, fields=FILTERED)
    assert rows(club) == [0, 1]
    assert [one.status for one in facts([club])] == ["removed", "removed", "used"]
    (none,) = read("entities", DERBY, index, Removal("entities"), fields=FILTERED)
    assert (none.allowed, none.where, none.entities) == (None, None, ())


def test_what_limits_nothing_and_what_was_dropped_is_told(index: OpenIndex) -> None:
    text = "Spielt Kohlenbach 2031, oder gegen das Flutlicht im Mai 2019?"
    (query,) = read("entities", text, index, fields={"dates": "on_or_after", "keywords": "any"})
    assert [(one.value, one.status) for one in facts([query])] == [
        ("2031-01-01", "unused"),
        ("2019-05-01", "used"),
        (KB, "used"),
        ("Flutlicht", "used"),
    ]
    text = "Was tat Kohlenbach am 1. Mai 2019?"
    (query,) = read("entities", text, index, fields=FILTERED)
    assert [(one.value, one.status) for one in facts([query])] == [("2019-05-01", "relaxed"), (KB, "used")]
    (query,) = read("entities", text, index)
    assert [(one.value, one.status) for one in facts([query])] == [("2019-05-01", "relaxed"), (KB, "unused")]


def test_a_follow_up_is_rewritten_unless_that_was_taken_away(index: OpenIndex) -> None:
    said = ("Who won the league in 2021/22?", "Steelbrück.")
    (query,) = read("follow_up", "And in 2022/23?", index, conversation=said)
    known = QueryInterpretation(
        "follow_up", "standalone", "And in 2022/23?", "Who won the league in 2022/23?"
    )
    assert facts([query]) == [known]
    (bare,) = read("follow_up", "And in 2022/23?", index, Removal("follow_up"), conversation=said)
    assert (bare.text, bare.conversation) == ("And in 2022/23?", ())
    assert facts([bare]) == [known._replace(status="removed")]
    (alone,) = read("follow_up", "Where is the harbour of Skerry?", index, conversation=said)
    assert facts([alone]) == []


def test_what_is_searched_instead_is_told_and_stays(index: OpenIndex) -> None:
    text = "When does Kohlenbach play the Derby?"
    everything = [Removal(step) for step in REMOVABLE]
    for kind, wanted in (
        ("keywords", {"word": "Kohlenbach", "synonym": "Kohlenbachs"}),
        ("multi_query", {"wording": "Kohlenbach play Derby"}),
        ("hyde", {"passage": "Kohlenbach"}),
    ):
        found = facts(read(kind, text, index))
        assert found
        assert {one.step for one in found} == {kind}
        assert {one.kind for one in found} <= set(wanted)
        assert any(wanted[one.kind] in one.value for one in found)
        assert not any(one.is_removable for one in found)
        assert facts(read(kind, text, index, *everything)) == found
    where = {"field": "keywords", "op": "any", "value": ["Derby"]}
    (query,) = read("filter", text, index, fields={"where": where})
    assert facts([query]) == [
        QueryInterpretation(
            "filter", "expression", "", '{"field": "keywords", "op": "any", "value": ["Derby"]}'
        )
    ]


def test_nothing_taken_away_leaves_the_key_as_it_was() -> None:
    query = Query("Who?", entities=(Entity("club", "KB", KB),))
    assert len(query.key()) == 7
    assert Query("Who?", without=frozenset([Removal("entities")])).key() != Query("Who?").key()


def test_it_is_told_again_by_what_the_run_remembers(index: OpenIndex) -> None:
    """Each once, whichever arm understood it, and in its order; with a thing taken away it is ranked anew."""
    arm = [{"entities": FILTERED}, {"bm25": {"k": 5}}]
    steps = [{"multi_query": {}}, {"fuse": {"rrf": {}, "of": [arm, arm], "k": 5}}]
    memory = Memory()
    context = RetrievalContext(memory=memory)
    found = []
    for without in ((), (), (Removal("entities", "club"),), ()):
        searcher = SharedSearcher(Chain.model_validate({"steps": steps}), index, context)
        query = Query(DERBY, asked_at="2024-06-01", without=frozenset(without))
        ranking = searcher.search(query)
        found.append((list(query.trace.understood.values()), ranking.rows.tolist()))
    first, again, less, last = found
    assert again == first == last
    assert [one.step for one in first[0]].count("entities") == 3
    clubs = [one for one in less[0] if one.kind == "club"]
    assert {one.status for one in clubs} == {"removed"}
    assert [one.fact for one in less[0]] == [one.fact for one in first[0]]


@pytest.mark.parametrize("text", ["keywords", "", "filter:expression", "entities2", "\x00", "x" * 100_000])
def test_only_what_was_understood_of_the_question_can_be_taken_away(text: str) -> None:
    with pytest.raises(ValueError, match="cannot be taken away; follow_up, time_frame, entities can"):
        Removal.read(text)
