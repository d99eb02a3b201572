from __future__ import annotations

import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest

from rag_assay.evals.query_transforms.entities import Entities
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.metadata import Metadata
from rag_assay.evals.retrieval.query import Entity
from rag_assay.evals.retrieval.recency import Recency
from tests.fakes.indexing import build_index, query, read_by, searched

KEYWORDS = [
    ["Hertha BSC", "Bundesliga"],
    ["Union Berlin"],
    ["Bundesliga", "VfL Bochum", "hertha bsc", "Pokal"],
    [],
]
DATES = ["2024-05-01", "2024-05-02T12:00:00", None, "2024-06-01"]


@pytest.fixture
def index(tmp_path: Path) -> OpenIndex:
    return build_index(tmp_path, ["a", "b", "c", "d"], columns={"keywords": KEYWORDS, "published_at": DATES})


def test_a_keyword_says_more_where_there_are_few(index: OpenIndex) -> None:
    asked = replace(query("?"), entities=(Entity("club", "the BSC", "HERTHA BSC"),))
    found = searched(Metadata(), asked, index)
    assert found.rows.tolist() == [0, 2]
    assert found.scores.tolist() == [1 / 2, 1 / 4]
    two = replace(asked, entities=(*asked.entities, Entity("league", "", "Bundesliga")))
    assert searched(Metadata(), two, index).scores.tolist() == [1 / 2, 1 / 4]


def test_keywords_are_found_as_the_step_entities_finds_them(tmp_path: Path) -> None:
    """By its words in a row, with German endings, and by a word that means it in this corpus."""
    texts = [
        "Kohlenbach siegt",
        "Kohlenbach verliert",
        "a union",
        "a union",
        "a union",
        "a union",
        "Union Berlin",
    ]
    keywords = [["SV Kohlenbach 07"], ["SV Kohlenbach 07", "Pokal"], *[[]] * 4, ["Union Berlin", "Pokal"]]
    index = build_index(tmp_path, texts, columns={"keywords": keywords})
    found = {
        text: searched(Metadata(), query(text), index).rows.tolist()
        for text in (
            "How did UNION  Berlin play?",
            "Kohlenbachs Trainer",
            "der Pokale",
            "Pokalsieg",
            "Kohlnbach",
        )
    }
    assert found == {
        "How did UNION  Berlin play?": [6],
        "Kohlenbachs Trainer": [0, 1],
        "der Pokale": [1, 6],
        "Pokalsieg": [],
        "Kohlnbach": [],  # a near miss is a matter of the step, which `typos` is said to
    }
    for text, rows in found.items():
        step = Entities(keywords="none", dates="none", typos=1)
        (asked,) = read_by(step, query(text), index)
        assert searched(Metadata(), asked, index).rows.tolist() == rows


def test_entities_go_before_words_but_dates_are_none(index: OpenIndex) -> None:
    pokal = replace(query("Bundesliga"), entities=(Entity("cup", "", "Pokal"),))
    assert searched(Metadata(), pokal, index).rows.tolist() == [2]
    day = replace(query("Pokal"), entities=(Entity("date", "today", "2024-05-01"),))
    assert searched(Metadata(), day, index).rows.tolist() == [2]
    unknown = replace(query("Pokal"), entities=(Entity("club", "FC Nowhere", "FC Nowhere"),))
    assert not len(searched(Metadata(), unknown, index))


def test_keywords_meet_in_one_form_of_their_letters(tmp_path: Path) -> None:
    apart = unicodedata.normalize("NFD", "Köln")
    index = build_index(tmp_path, ["a", "b"], columns={"keywords": [["Köln"], [apart]]})
    for asked in ("Köln", apart):
        assert searched(Metadata(), query(f"Wer spielt in {asked}?"), index).rows.tolist() == [0, 1]


def test_hours_by_hand(index: OpenIndex) -> None:
    found = searched(Recency(decay=0.5), replace(query("?"), asked_at="2024-05-02T14:00:00"), index)
    assert found.rows.tolist() == [1, 0]  # 2 and 38 hours; the other two are undated, or not written yet
    assert found.scores == pytest.approx([0.25, 0.5**38])
    assert searched(Recency(), replace(query("?"), asked_at="2024-05-02T14:00:00"), index).scores[
        0
    ] == pytest.approx(0.81)


def test_a_day_without_a_time_ends_with_its_last_hour(index: OpenIndex) -> None:
    assert searched(Recency(), replace(query("?"), asked_at="2024-05-02"), index).rows.tolist() == [1, 0]
    assert searched(Recency(), replace(query("?"), asked_at="2024-05-01"), index).rows.tolist() == [0]
    assert not len(searched(Recency(), replace(query("?"), asked_at="2024-04-30"), index))


def test_without_a_date_the_newest_document_is_of_now(index: OpenIndex) -> None:
    found = searched(Recency(decay=0.001), query("?"), index)
    assert found.rows.tolist() == [3, 1, 0]
    assert found.scores[0] == 1


def test_without_decay_all_are_equal(index: OpenIndex) -> None:
    found = searched(Recency(decay=0), query("?"), index)
    assert found.rows.tolist() == [0, 1, 3]
    assert found.scores.tolist() == [1, 1, 1]


def test_a_date_that_is_none_is_an_error(index: OpenIndex) -> None:
    with pytest.raises(ValueError, match="'31 February' is not one; write it as in 2024-05-31"):
        searched(Recency(), replace(query("?"), asked_at="31 February"), index)
    with pytest.raises(ValueError, match="is not one"):
        searched(Recency(), replace(query("?"), asked_at="2024-02-31"), index)
