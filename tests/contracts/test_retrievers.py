"""Every retriever is held to one contract, which is itself proved against retrievers that break it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from evals.retrieving import RetrieverRecipe
from evals.retrieving.contract import Depth, Query, Ranking, Retriever, nothing
from evals.retrieving.index import OpenIndex
from tests.fakes.indexing import build_index, query

TEXTS = (
    "The ferry leaves the harbour at noon.",
    "Heat pumps draw warmth from the ground water.",
    "Der Fährhafen schließt im Winter um achtzehn Uhr.",
    "The ferry leaves the harbour at noon.",  # the same text again: equal scores
    "Tickets for the ferry are sold on the quay and on board.",
    "Ein Wärmenetz braucht Grundwasser oder Abwärme.",
    "noon noon noon noon ferry",
    "12 % of 85 TJ; Art. 5(2) applies.",
    "The quay was rebuilt in 1987; tickets were cheaper then.",
    "The ferry leaves the harbour at noon.",
    "漢字とかな 🛳️ emoji",
    "A lighthouse, a keeper, a lamp.",
)
SAME = 130  # chunks of one text: more than any retriever asks for ahead
QUERIES = ("When does the ferry leave?", "tickets quay", "Grundwasser", "noon", "lamp ferry 1987")
HOSTILE = (
    'say "ferry" AND (noon OR',
    "'; DROP TABLE chunks; --",
    'text:ferry^2 +noon -quay ~0.5 [a TO z] {x} \\ "unclosed',
    "ferry*?",
    "🛳️🛳️🛳️",
    "NULL",
    "\x00\x07 ferry",
    "ferry " * 1_700,  # 10 kB
    "x" * 10_240,
    "%s {0} ${HOME} <script>",
    "\u202eyrref",
)
RETRIEVERS: dict[str, dict[str, Any]] = {
    "okapi": {"bm25": {}},
    "plus": {"bm25": {"variant": "plus"}},
    "l": {"bm25": {"variant": "l"}},
    "stemmed": {"bm25": {"tokenizer": "stemmed"}},
    "german": {"bm25": {"variant": "plus", "tokenizer": "stemmed", "language": "german"}},
    "dense": {"dense": {}},
    "fulltext": {"fulltext": {}},
    "fuse": {"fuse": {"of": [{"bm25": {"k": 50}}, {"dense": {"k": 50}}, {"fulltext": {"k": 50}}]}},
    "weighted": {"fuse": {"of": [{"bm25": {}}, {"dense": {}}], "weights": [0.3, 1.7], "rrf": {"k": 1}}},
}

Check = Callable[[Retriever, OpenIndex], None]


def well_formed(ranking: Ranking, k: int, index: OpenIndex) -> None:
    rows, scores = ranking.rows, ranking.scores
    assert rows.shape == scores.shape
    assert len(rows) <= k
    assert len(set(rows.tolist())) == len(rows), "a chunk comes twice"
    assert ((rows >= 0) & (rows < len(index))).all()
    assert np.isfinite(scores).all()
    for i in range(len(rows) - 1):
        assert scores[i] >= scores[i + 1], "scores do not fall"
        if scores[i] == scores[i + 1]:
            assert rows[i] < rows[i + 1], "equal scores are not ordered by chunk id"


def rankings_are_well_formed(retriever: Retriever, index: OpenIndex) -> None:
    for text in QUERIES:
        for k in (1, 3, 10, 500):
            deep = retriever.model_copy(update={"k": k})
            well_formed(deep.rank(query(text), index), k, index)


def something_is_found(retriever: Retriever, index: OpenIndex) -> None:
    for text in QUERIES:
        assert len(retriever.rank(query(text), index).rows)


def a_smaller_k_is_a_prefix(retriever: Retriever, index: OpenIndex) -> None:
    for text in QUERIES:
        deep = retriever.model_copy(update={"k": 100}).rank(query(text), index)
        for k in (1, 2, 5):
            short = retriever.model_copy(update={"k": k}).rank(query(text), index)
            assert short.rows.tolist() == deep.rows[:k].tolist()
            assert short.scores.tolist() == deep.scores[:k].tolist()


def equal_chunks_come_in_the_order_of_their_ids(retriever: Retriever, index: OpenIndex) -> None:
    same = [row for row, text in enumerate(index.chunks["text"]) if text == TEXTS[0]]
    for k in (2, 10, 500):
        deep = retriever.model_copy(update={"k": k})
        rows = deep.rank(query("ferry harbour"), index).rows.tolist()
        found = [row for row in rows if row in same]
        assert found == same[: len(found)]
        assert found


def the_same_question_gives_the_same_ranking(retriever: Retriever, index: OpenIndex) -> None:
    for text in QUERIES:
        first, second = (retriever.rank(query(text), index) for _ in range(2))
        assert first.rows.tolist() == second.rows.tolist()
        assert first.scores.tolist() == second.scores.tolist()


def nothing_is_found_for_nothing(retriever: Retriever, index: OpenIndex) -> None:
    for text in ("", " ", "\n\t ", "\u00a0"):
        assert not len(retriever.rank(query(text), index).rows)


def hostile_questions_are_only_words(retriever: Retriever, index: OpenIndex) -> None:
    before = len(index)
    for text in HOSTILE:
        well_formed(retriever.rank(query(text), index), 10, index)
    assert index.table.count_rows() == before


CHECKS: tuple[Check, ...] = (
    rankings_are_well_formed,
    something_is_found,
    a_smaller_k_is_a_prefix,
    equal_chunks_come_in_the_order_of_their_ids,
    the_same_question_gives_the_same_ranking,
    nothing_is_found_for_nothing,
    hostile_questions_are_only_words,
)


@pytest.fixture(scope="session")
def index(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    return build_index(tmp_path_factory.mktemp("index"), TEXTS)


@pytest.fixture(scope="session")
def many_alike(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    return build_index(tmp_path_factory.mktemp("alike"), [*TEXTS, *[TEXTS[0]] * SAME, *TEXTS])


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    return build_index(tmp_path_factory.mktemp("empty"), [])


@pytest.fixture(params=RETRIEVERS, ids=str)
def retriever(request: pytest.FixtureRequest) -> Retriever:
    made: Retriever = RetrieverRecipe.model_validate(RETRIEVERS[request.param]).recipe
    return made


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_contract(check: Check, retriever: Retriever, index: OpenIndex) -> None:
    check(retriever, index)


def test_many_equal_chunks_come_in_the_order_of_their_ids(
    retriever: Retriever, many_alike: OpenIndex
) -> None:
    equal_chunks_come_in_the_order_of_their_ids(retriever, many_alike)
    rankings_are_well_formed(retriever, many_alike)


def test_an_empty_index_gives_an_empty_ranking(retriever: Retriever, empty: OpenIndex) -> None:
    assert len(empty) == 0
    for text in (*QUERIES, "", *HOSTILE):
        assert not len(retriever.rank(query(text), empty).rows)


@pytest.mark.parametrize("name", ["okapi", "plus", "l", "stemmed", "german", "fulltext"])
def test_a_question_of_unknown_words_finds_nothing_by_words(name: str, index: OpenIndex) -> None:
    made: Retriever = RetrieverRecipe.model_validate(RETRIEVERS[name]).recipe
    assert not len(made.rank(query("zyzzyva quokka"), index).rows)


@pytest.mark.parametrize("name", ["okapi", "plus", "l", "stemmed"])
def test_an_index_without_a_word_gives_an_empty_ranking(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    wordless = build_index(tmp_path_factory.mktemp("wordless"), ["!!!", "…", "—"])
    made: Retriever = RetrieverRecipe.model_validate(RETRIEVERS[name]).recipe
    assert not len(made.rank(query("ferry"), wordless).rows)


# --- the suite itself: each of these breaks one promise, and some check must notice -------------------------


class Sound(Retriever):
    """Counts shared characters: a plain retriever that keeps every promise."""

    k: Depth = 10

    def rank(self, query: Query, index: OpenIndex) -> Ranking:
        if not query.text.strip() or not len(index):
            return nothing()
        scores = np.array([len(set(text) & set(query.text)) for text in index.chunks["text"]], np.float64)
        return Ranking.best(np.arange(len(scores)), scores, self.k)


class Repeats(Sound):
    def rank(self, query: Query, index: OpenIndex) -> Ranking:
        found = super().rank(query, index)
        return Ranking(np.repeat(found.rows, 2)[: self.k], np.repeat(found.scores, 2)[: self.k])


class IgnoresK(Sound):
    def rank(self, query: Query, index: OpenIndex) -> Ranking:
        return self.model_copy(update={"k": 1000})._all(query, index)

    def _all(self, query: Query, index: OpenIndex) -> Ranking:
        return Sound.rank(self, query, index)


class Rising(Sound):
    def rank(self, query: Query, index: OpenIndex) -> Ranking:
        found = super().rank(query, index)
        return Ranking(found.rows[::-1], found.scores[::-1])


class LastIdFirst(Sound):
    def rank(self, query: Query, index: OpenIndex) -> Ranking:
        found = Sound(k=1000).rank(query, index)
        order = np.lexsort((-found.rows, -found.scores))[: self.k]
        return Ranking(found.rows[order], found.scores[order])


class NotANumber(Sound):
    def rank(self, query: Query, index: OpenIndex) -> Ranking:
        found = super().rank(query, index)
        return Ranking(found.rows, np.where(found.rows == 3, np.nan, found.scores))


class Shuffles(Sound):
    def rank(self, query: Query, index: OpenIndex) -> Ranking:
        found = super().rank(query, index)
        return Ranking.best(found.rows, np.random.default_rng().random(len(found.rows)), self.k)


class AnswersSilence(Sound):
    def rank(self, query: Query, index: OpenIndex) -> Ranking:
        return super().rank(Query(query.text.strip() or "e"), index)


class Parses(Sound):
    def rank(self, query: Query, index: OpenIndex) -> Ranking:
        if query.text.count('"') % 2:
            raise ValueError("unbalanced quotes")
        return super().rank(query, index)


class CutsTiesEarly(Sound):
    """Keeps k before it orders the ties: what a search engine behind it may do."""

    def rank(self, query: Query, index: OpenIndex) -> Ranking:
        found = Sound(k=1000).rank(query, index)
        some = np.lexsort((-found.rows, -found.scores))[: self.k]
        return Ranking.best(found.rows[some], found.scores[some], self.k)


class FindsNothing(Sound):
    def rank(self, query: Query, index: OpenIndex) -> Ranking:
        return nothing()


def test_the_suite_passes_a_sound_retriever(index: OpenIndex, many_alike: OpenIndex) -> None:
    for check in CHECKS:
        check(Sound(), index)
    equal_chunks_come_in_the_order_of_their_ids(Sound(), many_alike)


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (Repeats, rankings_are_well_formed),
        (IgnoresK, rankings_are_well_formed),
        (Rising, rankings_are_well_formed),
        (LastIdFirst, rankings_are_well_formed),
        (NotANumber, rankings_are_well_formed),
        (Shuffles, the_same_question_gives_the_same_ranking),
        (AnswersSilence, nothing_is_found_for_nothing),
        (Parses, hostile_questions_are_only_words),
        (CutsTiesEarly, a_smaller_k_is_a_prefix),
        (CutsTiesEarly, equal_chunks_come_in_the_order_of_their_ids),
        (FindsNothing, something_is_found),
    ],
    ids=lambda value: value.__name__,
)
def test_the_suite_notices(broken: type[Retriever], check: Check, index: OpenIndex) -> None:
    with pytest.raises((AssertionError, ValueError)):
        check(broken(), index)
