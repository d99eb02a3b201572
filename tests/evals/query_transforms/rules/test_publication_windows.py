"""Publication windows, told apart from the dates of the content; and dates, read in two languages."""

from __future__ import annotations

import time
from datetime import date

import numpy as np
import pytest

from rag_assay.evals.query_transforms.rules.named_dates import find_dates
from rag_assay.evals.query_transforms.rules.publication_windows import windows
from rag_assay.evals.query_transforms.time_frame import TimeFrame
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Query
from tests.evals.query_transforms import framed
from tests.evals.query_transforms.documents import index_of
from tests.fakes.indexing import read_by

NOW = "2024-03-06"  # a Wednesday
WINDOWS = [
    ("Which rules were published before 2005?", None, "2004-12-31"),
    ("Which acts did the Commission adopt in 2015?", "2015-01-01", "2015-12-31"),
    ("whose terms appeared between 2019 and 2021?", "2019-01-01", "2021-12-31"),
    ("whose terms were published from 2022 onwards?", "2022-01-01", None),
    ("a law adopted after 2003 that sets a target for 2030", "2004-01-01", None),
    ("Under the oil rules of 2008, may it sell?", "2008-01-01", "2008-12-31"),
    ("What did the 2012 directive say?", "2012-01-01", "2012-12-31"),
    ("Articles from last week about Kohlenbach", "2024-02-26", "2024-03-03"),
    ("news since yesterday", "2024-03-05", None),
    ("posts of the last three weeks", "2024-02-14", "2024-03-06"),
    ("reports until March 2020", None, "2020-03-31"),
    ("posts dated 5 March 2020", "2020-03-05", "2020-03-05"),
    ("vor 2005 verabschiedete Gesetze", None, "2004-12-31"),
    ("Welche Berichte sind seit März 2023 erschienen?", "2023-03-01", None),
    ("Was wurde letzte Woche über Kohlenbach berichtet?", "2024-02-26", "2024-03-03"),
    ("gestern veröffentlichte Meldungen", "2024-03-05", "2024-03-05"),
    ("Richtlinie aus dem Jahr 2012: was gilt?", "2012-01-01", "2012-12-31"),
    ("zwischen 2019 und 2021 veröffentlicht", "2019-01-01", "2021-12-31"),
    ("Was stand in den Meldungen vom 24. September 2022?", "2022-09-24", "2022-09-24"),
]
CONTENT = [
    "What is the target for 2030?",
    "What share must be reached by 2030?",
    "Welcher Anteil ist bis 2030 zu erreichen?",
    "Which directive contains the 2030 target?",
    "Welche Richtlinie nennt das Ziel für 2030?",
    "Wer gewann die Saison 2019/20?",
    "reports about the season 2019/20",
    "Was geschah am 24. September 2022?",
    "How was the goal relaxed in 2024?",
    "Is the contract valid until 2026?",
    "What does Regulation (BU) 2022/9106 require?",
    "Which act obliges boilers to be removed before 2030?",
    "Which law will be published in 2031?",  # after the day of asking
    "Who?",
]


@pytest.mark.parametrize(("text", "first", "last"), WINDOWS)
def test_words_of_publishing_make_a_window(text: str, first: str | None, last: str | None) -> None:
    (found,) = windows(text, NOW)
    assert [str(day) if day else None for day in (found.first, found.last)] == [first, last]


@pytest.mark.parametrize(("text", "first", "last"), framed.WINDOWS)
def test_more_windows(text: str, first: str | None, last: str | None) -> None:
    (found,) = windows(text, framed.NOW)
    assert [str(day) if day else None for day in (found.first, found.last)] == [first, last]


@pytest.mark.parametrize("text", framed.CONTENT)
def test_more_dates_of_the_content(text: str) -> None:
    assert windows(text, framed.NOW) == []


@pytest.mark.parametrize("text", CONTENT)
def test_dates_of_the_content_make_none(text: str) -> None:
    assert windows(text, NOW) == []


def test_relative_days_need_the_day_of_asking() -> None:
    assert windows("gestern veröffentlichte Meldungen", None) == []
    assert find_dates("gestern")[0].reason == "gestern cannot be told: the question has no `asked_at`"


DATES = [
    ("am 24. September 2022", "2022-09-24", "2022-09-24"),
    ("September 24, 2022", "2022-09-24", "2022-09-24"),
    ("24.9.22", "2022-09-24", "2022-09-24"),
    ("2022-09-24", "2022-09-24", "2022-09-24"),
    ("im Mai 2023", "2023-05-01", "2023-05-31"),
    ("in February 2024", "2024-02-01", "2024-02-29"),
    ("5. Juli", "2023-07-05", "2023-07-05"),  # the last one before the day of asking
    ("vor drei Tagen", "2024-03-03", "2024-03-03"),
    ("letzten Monat", "2024-02-01", "2024-02-29"),
    ("Spielzeit 2021/2022", "2021-07-01", "2022-06-30"),
    ("Saison 21/22", "2021-07-01", "2022-06-30"),
    ("letzte Saison", "2022-07-01", "2023-06-30"),
    ("this season", "2023-07-01", "2024-06-30"),
    ("last summer", "2023-06-01", "2023-08-31"),
    ("letzten Winter", "2023-12-01", "2024-02-29"),  # it was over on 29 February
    ("zwischen 30. Dezember und 2. Januar 2023", "2022-12-30", "2023-01-02"),
    ("2. Halbjahr 2022", "2022-07-01", "2022-12-31"),
    ("Q4/2022", "2022-10-01", "2022-12-31"),
    ("the 1990s", "1990-01-01", "1999-12-31"),
    ("last Wednesday", "2024-02-28", "2024-02-28"),
]


@pytest.mark.parametrize(("text", "first", "last"), DATES)
def test_dates_are_read(text: str, first: str, last: str) -> None:
    (found,) = find_dates(text, NOW)
    assert (str(found.first), str(found.last)) == (first, last)


@pytest.mark.parametrize(
    "text", ["31 February 2023", "31. Februar", "30.02.2022", "2022-02-30", "29.02.2023"]
)
def test_a_day_that_no_calendar_has_is_said_to_be_none(text: str) -> None:
    (found,) = find_dates(text, NOW)
    assert (found.first, found.reason) == (None, f"{text} is not a date")


@pytest.mark.parametrize("name", ["UTC", "Pacific/Kiritimati", "Pacific/Midway"])
def test_neither_the_clock_nor_the_zone_of_the_machine_is_read(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", name)
    time.tzset()
    try:
        late = "2020-02-29T23:59:59-11:00"  # the day is that of the place where it is asked
        days = [str(one.first) for text in ("gestern", "heute", "5. Juli") for one in find_dates(text, late)]
    finally:
        monkeypatch.undo()
        time.tzset()
    assert days == ["2020-02-28", "2020-02-29", "2019-07-05"]


def test_a_verb_is_no_month() -> None:
    assert find_dates("Under Article 5 may a state sell it?", NOW) == []
    assert [str(one.first) for one in find_dates("on 5 may 2023", NOW)] == ["2023-05-05"]


@pytest.mark.parametrize("text", ["Directive 2012/9061/BU", "No 9068/2004", "2000 Zuschauer", "12. Spieltag"])
def test_numbers_are_no_dates(text: str) -> None:
    assert find_dates(text, NOW) == []


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    return index_of(tmp_path_factory.mktemp("windows"))


def years(query: Query, index: OpenIndex) -> list[str | None]:
    days = index.chunks["published_on"].to_list()
    return [str(day) if day else None for day, kept in zip(days, query.allowed, strict=True) if kept]  # type: ignore[arg-type]


def test_only_what_was_published_in_the_window_is_left(index: OpenIndex) -> None:
    (query,) = read_by(TimeFrame(), Query("Which rules were published before 2022?"), index)
    assert years(query, index) == ["2021-08-28", "2018-12-11"]
    (query,) = read_by(TimeFrame(undated="keep"), Query("Which rules were published before 2022?"), index)
    assert years(query, index) == ["2021-08-28", "2018-12-11", None]


def test_a_question_about_a_content_year_is_not_filtered(index: OpenIndex) -> None:
    (query,) = read_by(TimeFrame(), Query("What is the target for 2030?", asked_at=NOW), index)
    assert query.allowed is None
    assert not list(query.trace.notes)


def test_windows_without_a_common_day_are_alternatives(index: OpenIndex) -> None:
    (query,) = read_by(TimeFrame(), Query("reports published in 2018 or 2021"), index)
    assert years(query, index) == ["2021-08-28", "2018-12-11"]


def test_an_empty_window_is_relaxed_or_kept_with_its_reason(index: OpenIndex) -> None:
    asked = Query("Which acts were published before 1990?")
    (relaxed,) = read_by(TimeFrame(), asked, index)
    assert relaxed.allowed is None
    assert [(n.kind, n.status) for n in list(relaxed.trace.notes)] == [("time_frame", "relaxed")]
    (kept,) = read_by(TimeFrame(if_empty="keep"), Query(asked.text), index)
    assert np.flatnonzero(kept.allowed).tolist() == []  # type: ignore[arg-type]
    assert next(iter(kept.trace.notes)).status == "empty"
    assert str(date(1989, 12, 31)) in next(iter(kept.trace.notes)).reason
