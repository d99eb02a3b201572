"""An answer on a terminal: any width, any document, colours or none."""

from __future__ import annotations

import json

import pytest

from rag_assay.evals.retrieval.analyzer import Analyzer
from rag_assay.orchestration.terminal.turn_view import (
    By,
    MatchedWords,
    documents_of,
    show_passages,
    show_turn,
    turn_as_json,
)
from rag_assay.warehouse.conversations import ShownPassage, StoredInterpretation, Turn
from rag_assay.warehouse.schemas import Status

HOSTILE = "\x1b]0;mine\x07\x1b[31mred\x9b5m\x00\u202eback[/bold] :smile: <script>"
ENGLISH = Analyzer("stemmed", "english", functional=False)
GERMAN = Analyzer("stemmed", "german", functional=False)


def passage(number: int, doc: str, start: int, score: float, text: str = "A ferry sails.") -> ShownPassage:
    return ShownPassage(
        number=number, chunk_id=f"{doc}{start}", doc_id=doc, text=text, start=start, score=score, title=doc
    )


PASSAGES = (
    passage(1, "far", 900, 0.9),
    passage(2, "near", 50, 0.8),
    passage(3, "far", 10, 0.7),
)


def turn(**said: object) -> Turn:
    plain: dict[str, object] = {
        "record_id": "r",
        "number": 1,
        "cell": "s.t.e.r.g",
        "question": "When do ferries sail?",
        "status": Status.OK,
        "answer": "At noon [1].",
        "passages": PASSAGES,
    }
    return Turn.model_validate({**plain, **said})


def numbers(by: By) -> list[list[int]]:
    return [[one.number for one in group] for _first, group in documents_of(PASSAGES, by)]


def test_passages_of_a_document_stand_together_in_its_order_or_all_by_rank() -> None:
    assert numbers(By.document) == [[3, 1], [2]]
    assert numbers(By.rank) == [[1], [2], [3]]


@pytest.mark.parametrize("columns", ["40", "57", "200"])
@pytest.mark.parametrize("by", By)
def test_what_a_document_holds_moves_no_cursor(
    columns: str, by: By, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    bad = passage(1, HOSTILE, 0, 1.0, HOSTILE * 30).model_copy(
        update={"url": HOSTILE, "date": HOSTILE, "section": (HOSTILE,), "page": 3, "cited": True}
    )
    understood = (StoredInterpretation(kind="follow_up", value=HOSTILE),)
    said = turn(answer=HOSTILE, reason=HOSTILE, passages=(bad,), understood=understood)
    show_turn(said, MatchedWords([HOSTILE], ENGLISH), by)
    shown = capsys.readouterr().out
    assert not set(shown) & {"\x1b", "\x07", "\x9b", "\x00", "\u202e"}
    assert "page 3" in shown
    assert "<script>" in shown
    assert max(map(len, shown.splitlines())) <= max(40, min(140, int(columns)))
    line = turn_as_json(said, HOSTILE)
    assert not set(line) & {"\x1b", "\x07", "\x9b", "\x00", "\u202e", "\n"}
    assert json.loads(line)["answer"] == HOSTILE
    assert json.loads(line)["corpus"] == HOSTILE


def test_nothing_is_coloured_where_nobody_looks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    show_passages(PASSAGES, MatchedWords(["ferries"], ENGLISH), By.rank)
    assert "\x1b" not in capsys.readouterr().out
    monkeypatch.setenv("FORCE_COLOR", "1")
    show_passages(PASSAGES, MatchedWords(["ferries"], ENGLISH), By.rank)
    assert "\x1b[1;33mferry\x1b[0m" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    show_passages(PASSAGES, MatchedWords(["ferries"], ENGLISH), By.rank)
    assert "33m" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("question", "analyzer", "text", "found"),
    [
        ("Which ferries cross?", ENGLISH, "The FERRY crosses; offerings do not.", ["FERRY", "crosses"]),
        (
            "Wann fahren die Schiffe?",
            GERMAN,
            "Das Schiff fährt, die Fähre fahren.",
            ["Schiff", "Fähre", "fahren"],
        ),
        ("Hafengebu\u0308hren in Straßen", GERMAN, "HAFENGEBÜHR, Strasse.", ["HAFENGEBÜHR", "Strasse"]),
        ("the of and", ENGLISH, "the of and", []),
        ("", ENGLISH, "x", []),
    ],
)
def test_words_are_found_as_the_search_finds_them(
    question: str, analyzer: Analyzer, text: str, found: list[str]
) -> None:
    words = MatchedWords([question], analyzer)
    assert [text[start:end] for start, end in words.places(text)] == found


def test_an_extract_is_about_the_words_and_keeps_the_evidence_marked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    text = "Filler\n\n  words. " * 60 + "The ferry sails at noon." + " More  filler." * 60
    at = text.index("sails")
    one = passage(1, "d", 0, 1.0, text).model_copy(update={"evidence": ((at, at + 5),), "cited": True})
    show_passages([one], MatchedWords(["ferry"], ENGLISH), By.rank)
    shown = capsys.readouterr().out
    assert "\x1b[4msails\x1b[0m" in shown
    assert "cited" in shown
    assert "  words" not in shown
    show_passages([one], MatchedWords(["ferry"], ENGLISH), By.rank, whole=True)
    assert capsys.readouterr().out.count("filler.") == 60
