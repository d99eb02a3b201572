"""Entities of questions: names by the corpus' own keywords, dates and seasons, and the prefilters of them."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from rag_assay.evals.query_transforms import entities as tagging
from rag_assay.evals.query_transforms.entities import Entities
from rag_assay.evals.retrieval.gazetteer import Gazetteer, learnt
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Entity, Query
from rag_assay.warehouse.errors import InputError
from tests.evals.query_transforms.documents import KB, WE, index_of, row
from tests.fakes.indexing import read_by


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    return index_of(tmp_path_factory.mktemp("entities"))


def read(text: str, index: OpenIndex, asked_at: str | None = "2024-06-01", **fields: Any) -> Query:
    (query,) = read_by(Entities.model_validate(fields), Query(text, asked_at=asked_at), index)
    return query


def rows(query: Query) -> list[int] | None:
    return None if query.allowed is None else np.flatnonzero(query.allowed).tolist()


def named(text: str, index: OpenIndex, **fields: Any) -> list[tuple[str, str]]:
    return [(one.kind, one.value) for one in read(text, index, **fields).entities]


NAMES = [
    ("Wie spielte der SV Kohlenbach 07?", [("club", KB)]),
    ("Wie spielte Kohlenbach?", [("club", KB)]),  # the word that means the club in this corpus
    ("Kohlenbachs Kapitän", [("club", KB)]),
    ("die Wesselroder Frauen", [("club", WE)]),
    ("KOHLENBACH?", [("club", KB)]),
    ("Kolenbach verliert", [("club", KB)]),  # a typo
    ("Wesselrodde gegen Kohlenbach", [("club", WE), ("club", KB)]),
    ("Neues von Terhorst", [("keyword", "Jannik Terhorst"), ("keyword", "Lukas Terhorst")]),
    ("Neues von Lukas Terhorst", [("keyword", "Lukas Terhorst")]),  # the longest match
    ("Rot-Weiss Zechenau", [("club", "Rot-Weiß Zechenau")]),
    ("Das Flutlicht brennt", [("keyword", "Flutlicht")]),
    ("Flutlichtmasten", []),  # another word
    ("Die Derbys", [("keyword", "Derby")]),
    ("Wer ist Unbekannt?", []),
]


@pytest.mark.parametrize(("text", "wanted"), NAMES)
def test_names_are_found_as_the_corpus_says_them(
    text: str, wanted: list[tuple[str, str]], index: OpenIndex
) -> None:
    assert named(text, index) == wanted


def test_umlauts_may_come_apart(index: OpenIndex) -> None:
    other = index_of(index.folder.parent / "apart", [row("Müller trifft.", "2022-01-01", ["Jörg Müller"])])
    for text in ("Jo\u0308rg Mu\u0308ller", "Joerg Mueller", "JÖRG MÜLLER", "Jörg Müllers"):
        assert named(text, other, typos=1) == [("keyword", "Jörg Müller")]


def test_names_of_another_length_are_not_compared_and_nothing_is_lost_by_it(index: OpenIndex) -> None:
    from rapidfuzz import fuzz

    names = ["abcdef"[: 2 + n % 5] * 4 + str(n) for n in range(60)]
    gazetteer = Gazetteer({name: (name,) for name in names}, {})
    for typos in (0.7, 0.88, 0.95):
        for length in range(5, 30):
            kept = gazetteer._as_long(length, typos)
            text = "x" * length
            best = {name: 200 * min(len(name), length) / (len(name) + length) for name in names}
            assert kept == [name for name in names if best[name] >= 100 * typos - 1e-6], text
            assert all(fuzz.ratio(text, name) <= best[name] + 1e-9 for name in names)


def test_typos_can_be_left_unforgiven(index: OpenIndex) -> None:
    assert named("Kolenbach verliert", index, typos=1) == []


def test_entities_keep_the_words_of_the_question(index: OpenIndex) -> None:
    found = read("Kohlenbachs Sieg am 24.09.2022 in der Saison 2022/23", index).entities
    assert found == (
        Entity("date", "24.09.2022", "2022-09-24"),
        Entity("season", "2022/23", "2022/23"),
        Entity("club", "Kohlenbachs", KB),
    )


def test_a_word_that_most_documents_use_otherwise_is_no_alias(index: OpenIndex) -> None:
    texts = [row(f"The Union adopted act {n}.", "2020-01-01", []) for n in range(9)]
    mixed = [*texts, row("Union Fredersloh gewinnt.", "2022-01-01", ["Union Fredersloh"])]
    assert 1 / 10 < 0.2
    folder = index.folder.parent / "mixed"
    other = index_of(folder, mixed)
    assert "union" not in learnt(other, {}, 0.2).aliases
    assert "union" in learnt(other, {}, 0.1).aliases
    assert named("Union Fredersloh", other) == [("club", "Union Fredersloh")]


FILTERS = [
    # (text, fields, rows of the documents in tests/evals/query_transforms/documents.py)
    ("Wie spielte Kohlenbach?", {}, [0, 1, 2]),
    ("Kohlenbach oder Haldenrath?", {}, [0, 1, 2, 4]),
    ("Kohlenbach gegen Wesselrode", {"keywords": "all"}, [0, 1]),
    ("Kohlenbach am 24. September 2022", {}, [1, 2]),
    ("Kohlenbach am 24. September 2022", {"dates": "same_day"}, [1]),
    ("Kohlenbach am 24. September 2022", {"days": 66}, [1]),
    ("Kohlenbach am 24. September 2022", {"days": 67}, [1, 2]),  # 30 November
    ("Kohlenbach am 24. September 2022", {"dates": "none"}, [0, 1, 2]),
    ("Kohlenbach am 24. September 2022", {"keywords": "none"}, [1, 2, 3, 4]),
    ("Kohlenbach in der Saison 2021/22", {}, [0]),
    ("Kohlenbach in der Saison 2021/22", {"seasons": "on_or_after"}, [0, 1, 2]),
    ("Kohlenbach im September 2022", {"dates": "same_day"}, [1]),
    # Each of two days, not all between them; but all between the ends of a stretch.
    ("am 28. August 2021 und am 30. November 2022", {"dates": "same_day"}, [0, 2]),
    ("vom 28. August 2021 bis zum 30. November 2022", {"dates": "same_day"}, [0, 1, 2, 6, 8]),
    ("Kohlenbach in den Saisons 2021/22 und 2023/24", {"keywords": "none"}, [0, 3, 4, 6, 8]),
    ("Was schrieb Kohlenbach vor dem 1. Januar 2022?", {}, [0, 1, 2]),  # "before" begins nothing
    ("Kohlenbachs Ziel für 2030", {}, [0, 1, 2]),  # after the day of asking
    ("Wer?", {}, None),
]


@pytest.mark.parametrize(("text", "fields", "wanted"), FILTERS)
def test_prefilters(text: str, fields: dict[str, Any], wanted: list[int] | None, index: OpenIndex) -> None:
    every = {"dates": "on_or_after", "keywords": "any"}
    assert rows(read(text, index, **{**every, **fields})) == wanted


@pytest.mark.parametrize(
    ("text", "fields", "wanted"),
    [
        ("Wie spielte Kohlenbach?", {}, None),  # no filter by keywords
        ("Kohlenbach am 24. September 2022", {}, [1]),
        ("Kohlenbach am 24. September 2022", {"days": 67}, [1, 2]),
        ("Kohlenbach in der Saison 2021/22", {}, [0, 6, 8]),
    ],
)
def test_by_default_days_filter_and_keywords_do_not(
    text: str, fields: dict[str, Any], wanted: list[int] | None, index: OpenIndex
) -> None:
    found = read(text, index, **fields)
    assert rows(found) == wanted
    assert any(one.kind == "club" for one in found.entities), "the name is found all the same"


def test_a_date_that_leaves_no_document_of_the_names_relaxes_the_names(index: OpenIndex) -> None:
    query = read("Terhorst am 1. Februar 2022", index, dates="same_day", keywords="any")
    assert rows(query) == [2, 3]
    (note,) = list(query.trace.notes)
    assert note.status == "relaxed"
    assert "kept: about Jannik Terhorst or Lukas Terhorst" in note.reason
    kept = read("Terhorst am 1. Februar 2022", index, dates="same_day", if_empty="keep")
    assert rows(kept) == []
    assert [one.status for one in list(kept.trace.notes)] == ["empty"]


def test_31_february_is_no_date_and_says_so(index: OpenIndex) -> None:
    query = read("Was war am 31. Februar 2023?", index)
    assert query.allowed is None
    assert [(n.kind, n.status, n.reason) for n in list(query.trace.notes)] == [
        ("entities", "not_a_date", "31. Februar 2023 is not a date")
    ]


def test_further_names_have_types_and_filter_nothing_that_no_document_carries(index: OpenIndex) -> None:
    query = read("Was geschah am Förderturm?", index, names={"stadium": ["Förderturm"]})
    assert query.entities == (Entity("stadium", "Förderturm", "Förderturm"),)
    assert query.allowed is None


def test_a_corpus_without_keywords_knows_no_names(index: OpenIndex) -> None:
    bare = index_of(index.folder.parent / "bare", [row("Kohlenbach", None, None)])
    assert read("Kohlenbach am 1. Mai 2022?", bare).allowed is None


@pytest.mark.parametrize("name", ["spacy", "gliner"])
def test_a_tagger_that_is_not_installed_is_an_error_that_says_so(name: str, index: OpenIndex) -> None:
    if importlib.util.find_spec(name) is not None:
        pytest.skip(f"{name} is installed")
    with pytest.raises(InputError, match=f"needs the Python package {name}, which is not installed"):
        read("Kohlenbach", index, tagger=name)


def test_a_tagger_names_what_the_gazetteer_does_not(
    index: OpenIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    spacy = pytest.importorskip("spacy", reason="spaCy is not installed")
    blank = spacy.blank("de")
    blank.add_pipe("entity_ruler").add_patterns([{"label": "PER", "pattern": "Oma Erna"}])
    step = Entities(tagger="spacy", tagger_model="test", keywords="none")
    query = Query("Oma Erna in Kohlenbach")
    monkeypatch.setattr(tagging, "load", lambda name, weights: blank)
    (found,) = read_by(step, query, index)
    assert Entity("per", "Oma Erna", "Oma Erna") in found.entities
    assert [note.status for note in list(found.trace.notes)] == ["unknown"]


def test_bounds() -> None:
    for wrong in (
        {"typos": 0.3},
        {"specific": 2},
        {"days": -1},
        {"names": {"Bad Type!": ["x"]}},
        {"model": "x/y"},
    ):
        with pytest.raises(ValidationError):
            Entities.model_validate(wrong)
