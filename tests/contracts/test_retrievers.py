"""Every retriever is held to one contract, which is itself proved against retrievers that break it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from rag_assay.evals.retrieval.context import Memory, RetrievalContext
from rag_assay.evals.retrieval.contract import Depth, Retriever, Searcher
from rag_assay.evals.retrieval.fusion import SharedSearcher
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Query
from rag_assay.evals.retrieval.ranking import Ranking, nothing
from rag_assay.evals.study.registry import read_retriever
from tests.fakes.cross_encoder import POSITIONS, build_cross_encoder
from tests.fakes.indexing import build_index, searched, vector_of
from tests.fakes.indexing import query as plain_query
from tests.fakes.named import named

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
QUERIES = ("When does the ferry leave?", "Grundwasser", "noon lamp 1987")
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
    "".join(map(chr, range(32))) + "\x7f\x85\ufeff ferry",
)
LONG = {
    "words": "ferry quay " * 9_091,
    "one word": "x" * 100_000,
    "controls": "\x00\x1b\u202e" * 33_334,
    "signs": "?! " * 33_334,
}  # 100,000 characters each
TINY = "TINY"  # stands for the folder of a cross-encoder
READING = {"model": TINY, "n": 100, "max_length": POSITIONS}
RETRIEVERS: dict[str, Any] = {
    "okapi": {"bm25": {}},
    "plus": {"bm25": {"variant": "plus"}},
    "l": {"bm25": {"variant": "l"}},
    "reference okapi": {"rank_bm25": {}},
    "reference plus": {"rank_bm25": {"variant": "plus", "title": 2, "function_words": "keep"}},
    "reference l": {"rank_bm25": {"variant": "l", "tokenizer": "plain"}},
    "stemmed": {"bm25": {"tokenizer": "stemmed"}},
    "german": {"bm25": {"variant": "plus", "tokenizer": "stemmed", "language": "german"}},
    "lower bounded": {"bm25": {"variant": "lower_bounded", "title": 2, "function_words": "drop"}},
    "lemmatised": {"bm25": {"variant": "plus", "tokenizer": "lemmatised"}},
    "german lemmas": {"bm25": {"variant": "plus", "tokenizer": "lemmatised", "language": "german"}},
    "feedback": {"bm25": {"variant": "plus", "feedback": {}}},
    "max": {"fuse": {"max": {"normalise": "z_score"}, "of": [{"bm25": {"k": 50}}, {"dense": {"k": 50}}]}},
    "sums": {"fuse": {"weighted": {"normalise": "sum"}, "of": [{"bm25": {"k": 50}}, {"dense": {"k": 50}}]}},
    "harmonic": {"fuse": {"harmonic": {}, "of": [{"bm25": {"k": 50}}, {"dense": {"k": 50}}]}},
    "dense": {"dense": {}},
    "fulltext": {"fulltext": {}},
    "fuse": {"fuse": {"of": [{"bm25": {"k": 50}}, {"dense": {"k": 50}}, {"fulltext": {"k": 50}}]}},
    "weighted": {
        "fuse": {"of": [{"bm25": {"k": 50}}, {"dense": {"k": 50}}], "weights": [0.3, 1.7], "rrf": {"k": 1}}
    },
    "metadata": {"metadata": {}},
    "recency": {"recency": {}},
    "slow recency": {"recency": {"decay": 0.0001}},
    "no recency": {"recency": {"decay": 0}},
    "hybrid": {"hybrid": {}},
    "hybrid of z-scores": {"hybrid": {"normalise": "z_score", "weight": 0.3, "bm25": {"language": "german"}}},
    "lancedb": {"lancedb": {}},
    "linear lancedb": {"lancedb": {"reranker": "linear", "weight": 0.4}},
    "mrr lancedb": {"lancedb": {"reranker": "mrr"}},
    "expand": {"bm25": {"expand": {"words": 2, "similarity": 0.2}}},
    "z of ages": {  # scores of recency near 1e-300, whose squares are 0
        "fuse": {
            "weighted": {"normalise": "z_score"},
            "of": [{"recency": {"k": 50, "decay": 0.9}}, {"dense": {"k": 50}}],
        }
    },
    "three levels": {
        "fuse": {
            "geometric": {},
            "of": [
                {
                    "fuse": {
                        "max": {"normalise": "z_score"},
                        "of": [
                            {"fuse": {"of": [{"bm25": {"k": 50}}, {"dense": {"k": 50}}], "k": 50}},
                            {"fulltext": {"k": 50}},
                        ],
                        "weights": [1, 0],
                        "k": 50,
                    }
                },
                {"graph": {"of": {"dense": {"k": 50}}, "k": 50}},
            ],
        }
    },
    "cross_encoder": {"cross_encoder": {**READING, "of": {"bm25": {"k": 200}}}},
    "by sentence": {"cross_encoder": {**READING, "over": "sentences", "of": {"dense": {"k": 200}}}},
    "graph": {"graph": {"of": {"bm25": {"k": 200}}}},
    "wide graph": {"graph": {"similarity": 0.1, "percentile": 20, "add": 5, "of": {"dense": {"k": 200}}}},
    "chain": [{"bm25": {"k": 200}}, {"cross_encoder": READING}, {"top": {"k": 10}}],
    "chain in a chain": [[{"dense": {"k": 200}}, {"graph": {}}], {"top": {}}],
    "keywords": [{"keywords": {}}, {"bm25": {"k": 200}}, {"top": {}}],
    "many queries": [{"multi_query": {}}, {"dense": {"k": 200}}, {"top": {}}],
    "fuse of all": {
        "fuse": {
            "of": [
                {"metadata": {"k": 50}},
                {"recency": {"k": 50}},
                {"hybrid": {"k": 50}},
                [{"bm25": {"k": 50}}, {"graph": {}}],
                {"cross_encoder": {**READING, "of": {"fulltext": {"k": 50}}}},
            ]
        }
    },
}

Check = Callable[[Retriever, OpenIndex], None]
CONTEXT = RetrievalContext(embed=lambda texts: np.stack([vector_of(text) for text in texts]))


def query(text: str) -> Query:
    return plain_query(text)


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
    for k in (1, 3, 10, 500):
        searcher = retriever.at_depth(k).open(index, CONTEXT)
        for text in QUERIES:
            well_formed(searcher.search(query(text)), k, index)


def something_is_found(retriever: Retriever, index: OpenIndex) -> None:
    for text in QUERIES:
        assert len(searched(retriever, query(text), index, CONTEXT).rows)


def a_smaller_k_is_a_prefix(retriever: Retriever, index: OpenIndex) -> None:
    searchers = {k: retriever.at_depth(k).open(index, CONTEXT) for k in (100, 1, 2, 5)}
    for text in QUERIES:
        deep = searchers[100].search(query(text))
        for k in (1, 2, 5):
            short = searchers[k].search(query(text))
            assert short.rows.tolist() == deep.rows[:k].tolist()
            assert short.scores.tolist() == deep.scores[:k].tolist()


def equal_chunks_come_in_the_order_of_their_ids(retriever: Retriever, index: OpenIndex) -> None:
    same = [row for row, text in enumerate(index.chunks["text"]) if text == TEXTS[0]]
    for k in (2, 10, 500):
        deep = retriever.at_depth(k)
        rows = searched(deep, query("ferry harbour"), index, CONTEXT).rows.tolist()
        found = [row for row in rows if row in same]
        assert found == same[: len(found)]
        assert found or k < 10  # others may be better


def the_same_question_gives_the_same_ranking(retriever: Retriever, index: OpenIndex) -> None:
    for text in QUERIES:
        first, second = (searched(retriever, query(text), index, CONTEXT) for _ in range(2))
        assert first.rows.tolist() == second.rows.tolist()
        assert first.scores.tolist() == second.scores.tolist()


def nothing_is_found_for_nothing(retriever: Retriever, index: OpenIndex) -> None:
    for text in ("", " ", "\n\t ", "\u00a0"):
        assert not len(searched(retriever, query(text), index, CONTEXT).rows)


def filters_are_kept_to(retriever: Retriever, index: OpenIndex) -> None:
    """What is found under a filter is what is found without it, less what the filter forbids."""
    deep = retriever.at_depth(500)
    masks = [np.arange(len(index)) >= 4, np.arange(len(index)) % 3 == 0, np.zeros(len(index), np.bool_)]
    for text in QUERIES:
        everything = set(searched(deep, query(text), index, CONTEXT).rows.tolist())
        for allowed, where in zip(masks, ("chunk_id >= 'c004'", None, "chunk_id > 'z'"), strict=True):
            for predicate in {where, None}:
                asked = replace(query(text), allowed=allowed, where=predicate)
                found = searched(deep, asked, index, CONTEXT)
                well_formed(found, 500, index)
                assert set(found.rows.tolist()) == {row for row in everything if allowed[row]}
                first = searched(retriever.at_depth(2), asked, index, CONTEXT).rows.tolist()
                assert first == found.rows[:2].tolist()


def hostile_questions_are_only_words(retriever: Retriever, index: OpenIndex) -> None:
    before = len(index)
    for text in HOSTILE:
        well_formed(searched(retriever, query(text), index, CONTEXT), 10, index)
    assert index.table.count_rows() == before


Found = tuple[list[int], list[float]]


def found_by(searcher: Searcher, texts: Sequence[str] = QUERIES) -> list[Found]:
    rankings = [searcher.search(query(text)) for text in texts]
    return [(ranking.rows.tolist(), ranking.scores.tolist()) for ranking in rankings]


def what_was_asked_before_changes_nothing(retriever: Retriever, index: OpenIndex) -> None:
    alone = [found_by(retriever.open(index, CONTEXT), [text])[0] for text in QUERIES]
    searcher = retriever.open(index, CONTEXT)
    assert found_by(searcher) == alone
    assert found_by(searcher, QUERIES[::-1]) == alone[::-1]
    none = replace(query(QUERIES[0]), allowed=np.zeros(len(index), np.bool_), where="false")
    assert not len(searcher.search(none))
    assert found_by(searcher) == alone, "a filter is one question's"


def opening_changes_no_other_searcher(retriever: Retriever, index: OpenIndex) -> None:
    first = retriever.open(index, CONTEXT)
    before = found_by(first)
    second, deep = retriever.open(index, CONTEXT), retriever.at_depth(2).open(index, CONTEXT)
    assert found_by(first) == before
    assert found_by(second) == before
    assert found_by(deep) == [(rows[:2], scores[:2]) for rows, scores in before]
    assert found_by(first) == before


def closing_is_safe(retriever: Retriever, index: OpenIndex) -> None:
    first, second = retriever.open(index, CONTEXT), retriever.open(index, CONTEXT)
    before = found_by(first)
    first.close()
    first.close()
    assert found_by(second) == before
    assert found_by(retriever.open(index, CONTEXT)) == before
    retriever.open(index, CONTEXT).close()  # nobody has asked it anything


def two_indexes_do_not_mix(retriever: Retriever, index: OpenIndex, small: OpenIndex) -> None:
    """``small`` has fewer chunks than are found in ``index``: those of the one are none of the other."""
    apart = [found_by(retriever.open(each, CONTEXT)) for each in (index, small)]
    both = [retriever.open(each, CONTEXT) for each in (index, small)]
    by_turns = [[found_by(searcher, [text])[0] for searcher in both] for text in QUERIES]
    assert [list(found) for found in zip(*by_turns, strict=True)] == apart
    for text in QUERIES:
        well_formed(both[1].search(query(text)), retriever.k, small)
    shared = replace(CONTEXT, memory=Memory())
    remembered = [SharedSearcher(retriever, index, shared), SharedSearcher(retriever, index, shared)]
    assert [found_by(searcher) for searcher in remembered] == [apart[0]] * 2, "memory changes nothing"


CHECKS: tuple[Check, ...] = (
    rankings_are_well_formed,
    something_is_found,
    a_smaller_k_is_a_prefix,
    equal_chunks_come_in_the_order_of_their_ids,
    the_same_question_gives_the_same_ranking,
    nothing_is_found_for_nothing,
    filters_are_kept_to,
    hostile_questions_are_only_words,
)
CHECKS_OF_STATE: tuple[Check, ...] = (
    what_was_asked_before_changes_nothing,
    opening_changes_no_other_searcher,
    closing_is_safe,
)
"""Once for each class: parameters change what is found, not what a searcher keeps."""
SAME_STATE = {
    "okapi": ("plus", "l", "stemmed", "german", "lower bounded", "lemmatised", "german lemmas"),
    "reference okapi": ("reference plus", "reference l"),
    "recency": ("slow recency", "no recency"),
    "hybrid": ("hybrid of z-scores",),
    "lancedb": ("linear lancedb", "mrr lancedb"),
    "fuse": ("max", "sums", "harmonic", "weighted", "z of ages"),
    "graph": ("wide graph",),
}


def facts(texts: list[str]) -> dict[str, list[object]]:
    """Return keywords and dates that agree for equal texts; one text in some is undated."""
    words = [sorted({word for word in text.split() if len(word) > 3 and word.isalpha()}) for text in texts]
    days = [int(hashlib.sha256(text.encode()).hexdigest(), 16) % 28 for text in texts]
    dates = [f"2024-02-{day:02}" if day else None for day in days]
    return {"keywords": list(words), "published_at": list(dates)}


def made(written: Any, folder: Path) -> Retriever:
    """Make a retriever as a study writes it; `TINY` is the folder of the cross-encoder."""

    def put(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: put(item) for key, item in value.items()}
        return (
            [put(item) for item in value]
            if isinstance(value, list)
            else {TINY: str(folder)}.get(str(value), value)
        )

    recipe: Retriever = read_retriever(put(written))
    return recipe


@pytest.fixture(scope="session")
def index(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    return build_index(tmp_path_factory.mktemp("index"), TEXTS, columns=facts(list(TEXTS)))


@pytest.fixture(scope="session")
def many_alike(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    texts = [*TEXTS, *[TEXTS[0]] * SAME, *TEXTS]
    return build_index(tmp_path_factory.mktemp("alike"), texts, columns=facts(texts))


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    texts = list(TEXTS[4:6])
    return build_index(tmp_path_factory.mktemp("small"), texts, columns=facts(texts))


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    return build_index(tmp_path_factory.mktemp("empty"), [])


@pytest.fixture(scope="session")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_cross_encoder(tmp_path_factory.mktemp("cross-encoder"), TEXTS)


@pytest.fixture(params=RETRIEVERS, ids=str)
def retriever(request: pytest.FixtureRequest, cross_encoder: Path) -> Retriever:
    return made(RETRIEVERS[request.param], cross_encoder)


@pytest.fixture(params=sorted({*RETRIEVERS}.difference(*SAME_STATE.values())), ids=str)
def of_its_class(request: pytest.FixtureRequest, cross_encoder: Path) -> Retriever:
    return made(RETRIEVERS[request.param], cross_encoder)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_contract(check: Check, retriever: Retriever, index: OpenIndex) -> None:
    check(retriever, index)


@pytest.mark.parametrize("check", CHECKS_OF_STATE, ids=lambda check: check.__name__)
def test_contract_of_state(check: Check, of_its_class: Retriever, index: OpenIndex) -> None:
    check(of_its_class, index)


def test_those_of_the_same_state_are_of_one_class(cross_encoder: Path) -> None:
    for name, others in SAME_STATE.items():
        kinds = {type(made(RETRIEVERS[one], cross_encoder)) for one in (name, *others)}
        assert len(kinds) == 1, name


def test_many_equal_chunks_come_in_the_order_of_their_ids(
    retriever: Retriever, many_alike: OpenIndex
) -> None:
    equal_chunks_come_in_the_order_of_their_ids(retriever, many_alike)
    rankings_are_well_formed(retriever, many_alike)


def test_two_searchers_on_two_indexes(of_its_class: Retriever, index: OpenIndex, small: OpenIndex) -> None:
    two_indexes_do_not_mix(of_its_class, index, small)


def test_an_empty_index_gives_an_empty_ranking(retriever: Retriever, empty: OpenIndex) -> None:
    assert len(empty) == 0
    for text in (*QUERIES, "", *HOSTILE):
        assert not len(searched(retriever, query(text), empty, CONTEXT).rows)


@pytest.mark.timeout(120)  # a bound, not a target: what is quadratic in the question's words misses it
def test_questions_of_100_000_characters_end(retriever: Retriever, index: OpenIndex) -> None:
    for name, text in LONG.items():
        with named(name):
            asked = replace(query("ferry quay"), text=text)
            well_formed(searched(retriever, asked, index, CONTEXT), 10, index)


def test_the_empty_combination_finds_nothing(index: OpenIndex, empty: OpenIndex) -> None:
    nothing_at_all: Retriever = read_retriever({"nothing": {}})
    for text in (*QUERIES, *HOSTILE):
        assert not len(searched(nothing_at_all, query(text), index, CONTEXT))
        assert not len(searched(nothing_at_all, query(text), empty, CONTEXT))
    filters_are_kept_to(nothing_at_all, index)


@pytest.mark.parametrize("name", ["okapi", "plus", "l", "stemmed", "german", "fulltext", "metadata"])
def test_a_question_of_unknown_words_finds_nothing_by_words(name: str, index: OpenIndex) -> None:
    by_words: Retriever = read_retriever(RETRIEVERS[name])
    assert not len(searched(by_words, query("zyzzyva quokka"), index, CONTEXT).rows)


@pytest.mark.parametrize("name", ["okapi", "plus", "l", "stemmed"])
def test_an_index_without_a_word_gives_an_empty_ranking(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    wordless = build_index(tmp_path_factory.mktemp("wordless"), ["!!!", "…", "—"])
    by_words: Retriever = read_retriever(RETRIEVERS[name])
    assert not len(searched(by_words, query("ferry"), wordless, CONTEXT).rows)


# --- the suite itself: each of these breaks one promise, and some check must notice -------------------------


class Sound(Retriever):
    """Counts shared characters: a plain retriever that keeps every promise."""

    kind: ClassVar[str] = "sound"

    k: Depth = 10

    def open(self, index: OpenIndex, context: RetrievalContext) -> Searcher:
        return Ranks(self, index)

    def rank(self, query: Query, index: OpenIndex) -> Ranking:
        if not query.text.strip() or not len(index):
            return nothing()
        scores = np.array([len(set(text) & set(query.text)) for text in index.chunks["text"]], np.float64)
        rows = np.flatnonzero(query.permitted(np.arange(len(scores))))
        return Ranking.best(rows, scores[rows], self.k)


@dataclass
class Ranks(Searcher):
    """Searches as its retriever ranks."""

    retriever: Sound
    index: OpenIndex

    def search(self, query: Query) -> Ranking:
        return self.retriever.rank(query, self.index)


class IgnoresTheFilter(Sound):
    def rank(self, query: Query, index: OpenIndex) -> Ranking:
        return super().rank(replace(query, allowed=None), index)


class FiltersAfterTheCut(Sound):
    def rank(self, query: Query, index: OpenIndex) -> Ranking:
        found = super().rank(replace(query, allowed=None), index)
        return found.take(query.permitted(found.rows))


class Infinite(Sound):
    def rank(self, query: Query, index: OpenIndex) -> Ranking:
        found = super().rank(query, index)
        return Ranking(found.rows, np.where(np.arange(len(found)) == 0, np.inf, found.scores))


class OneMoreThanK(Sound):
    def rank(self, query: Query, index: OpenIndex) -> Ranking:
        return searched(Sound(k=self.k + 1), query, index)


class MakesRowsUp(Sound):
    def rank(self, query: Query, index: OpenIndex) -> Ranking:
        found = super().rank(query, index)
        return Ranking(np.where(found.rows == 3, len(index), found.rows), found.scores)


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
        found = searched(Sound(k=1000), query, index)
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
        found = searched(Sound(k=1000), query, index)
        some = np.lexsort((-found.rows, -found.scores))[: self.k]
        return Ranking.best(found.rows[some], found.scores[some], self.k)


class FindsNothing(Sound):
    def rank(self, query: Query, index: OpenIndex) -> Ranking:
        return nothing()


class AnswersTheLastQuestion(Ranks):
    """Keeps the ranking of the first question that it was asked."""

    def search(self, query: Query) -> Ranking:
        self.held = getattr(self, "held", None) or super().search(query)
        return self.held if query.text.strip() else nothing()


class KeepsAFilter(Ranks):
    """Takes the filter of one question for that of the next."""

    def search(self, query: Query) -> Ranking:
        self.allowed = getattr(self, "allowed", None) if query.allowed is None else query.allowed
        return super().search(replace(query, allowed=self.allowed))


class SharesByText(Ranks):
    """Keeps rankings where searchers of other indexes, and of other depths, find them."""

    held: ClassVar[dict[str, Ranking]] = {}

    def search(self, query: Query) -> Ranking:
        if query.text not in self.held:
            self.held[query.text] = super().search(query)
        return self.held[query.text]


class OpensOne(Ranks):
    """The one that was opened last is the only one that finds anything."""

    last: ClassVar[object] = None

    def __init__(self, retriever: Sound, index: OpenIndex) -> None:
        super().__init__(retriever, index)
        OpensOne.last = self

    def search(self, query: Query) -> Ranking:
        return super().search(query) if OpensOne.last is self else nothing()


class ClosesAll(Ranks):
    """Closing one closes what the others read."""

    closed: ClassVar[bool] = False

    def search(self, query: Query) -> Ranking:
        return nothing() if ClosesAll.closed else super().search(query)

    def close(self) -> None:
        ClosesAll.closed = True


class ClosesOnce(Ranks):
    """Cannot be closed a second time."""

    def close(self) -> None:
        del self.index


def opened_as(kind: type[Ranks]) -> type[Sound]:
    class Opened(Sound):
        def open(self, index: OpenIndex, context: RetrievalContext) -> Searcher:
            return kind(self, index)

    return Opened


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (AnswersTheLastQuestion, what_was_asked_before_changes_nothing),
        (KeepsAFilter, what_was_asked_before_changes_nothing),
        (OpensOne, opening_changes_no_other_searcher),
        (SharesByText, opening_changes_no_other_searcher),
        (ClosesAll, closing_is_safe),
        (ClosesOnce, closing_is_safe),
    ],
    ids=lambda value: value.__name__,
)
def test_the_suite_notices_state_that_has_no_owner(
    broken: type[Ranks], check: Check, index: OpenIndex
) -> None:
    SharesByText.held.clear()
    with pytest.raises((AssertionError, AttributeError)):
        check(opened_as(broken)(), index)


def test_the_suite_notices_indexes_that_mix(index: OpenIndex, small: OpenIndex) -> None:
    SharesByText.held.clear()
    with pytest.raises(AssertionError):
        two_indexes_do_not_mix(opened_as(SharesByText)(), index, small)
    two_indexes_do_not_mix(Sound(), index, small)


def test_the_suite_passes_a_sound_retriever(index: OpenIndex, many_alike: OpenIndex) -> None:
    for check in (*CHECKS, *CHECKS_OF_STATE):
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
        (IgnoresTheFilter, filters_are_kept_to),
        (FiltersAfterTheCut, filters_are_kept_to),
        (Infinite, rankings_are_well_formed),
        (OneMoreThanK, rankings_are_well_formed),
        (MakesRowsUp, rankings_are_well_formed),
    ],
    ids=lambda value: value.__name__,
)
def test_the_suite_notices(broken: type[Retriever], check: Check, index: OpenIndex) -> None:
    with pytest.raises((AssertionError, ValueError)):
        check(broken(), index)
