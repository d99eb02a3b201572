"""Turns of a chat, in German and English, are made to stand alone as a person would write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from rag_assay.evals.query_transforms.follow_up import standalone
from rag_assay.evals.query_transforms.rules.follow_up_cues import is_courtesy
from rag_assay.evals.query_transforms.rules.named_dates import find_dates
from rag_assay.evals.query_transforms.rules.publication_windows import windows
from rag_assay.evals.retrieval.query import window_value

CHATS: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("chats.yaml").read_text("utf-8"))
LEAST = {"seen": 1.0, "unseen": 0.92, "last": 0.95}
"""Share of turns. When they were first read, `unseen` had 0.85, and `last`, which was written after that,
0.90; the rules before had 0.65, 0.60 and 0.65."""


class Turn(NamedTuple):
    """A turn, what was said before it, and the day of asking."""

    wanted: dict[str, Any]
    said: tuple[str, ...]
    asked_at: str | None


def turns(half: str) -> list[Turn]:
    found = []
    for chat in CHATS:
        said: tuple[str, ...] = ()
        for turn in chat["turns"]:
            if said and chat["half"] == half:
                found.append(Turn(turn, said, str(chat["asked_at"]) if "asked_at" in chat else None))
            said = (*said, turn["asks"], turn["answer"])
    return found


def is_right(turn: Turn) -> bool:
    wanted = turn.wanted
    found = standalone(wanted["asks"], turn.said, turn.asked_at)
    if wanted.get("stays"):
        return bool(found == wanted["asks"])
    plain = found.casefold()
    holds = all(str(part).casefold() in plain for part in wanted["holds"])
    lacks = not any(str(part).casefold() in plain for part in wanted.get("lacks", ()))
    days = [[one.first, one.last] for one in find_dates(found, turn.asked_at)]
    return found != wanted["asks"] and holds and lacks and wanted.get("days", [None]) in [*days, [None]]


@pytest.mark.parametrize("half", LEAST)
def test_turns_are_rewritten_as_a_person_would(half: str) -> None:
    asked = turns(half)
    assert len(asked) == (20 if half == "last" else 40)
    wrong = [turn.wanted["asks"] for turn in asked if not is_right(turn)]
    assert 1 - len(wrong) / len(asked) >= LEAST[half], wrong


@pytest.mark.parametrize(
    ("text", "before", "wanted"),
    [
        ("Und davor?", "Welche Berichte erschienen letzte Woche?", "2024-04-01/2024-04-07"),
        ("And the month after?", "What was published in May 2023?", "2023-06-01/2023-06-30"),
        ("Und am Vortag?", "Was wurde gestern veröffentlicht?", "2024-04-15/2024-04-15"),
        ("And the year before?", "Which reports of 2022 are there?", "2021-01-01/2021-12-31"),
        ("Und über Zechenau?", "Was erschien letzten Monat über Kohlenbach?", "2024-03-01/2024-03-31"),
        ("Was ist mit 2023?", "Was erschien 2022 über Kohlenbach?", "2023-01-01/2023-12-31"),
    ],
)
def test_a_time_frame_is_inherited(text: str, before: str, wanted: str) -> None:
    found = standalone(text, (before, "Two."), "2024-04-17")
    read = [window_value(one.first, one.last) for one in windows(found, "2024-04-17")]
    assert read == [wanted], found


@pytest.mark.parametrize(
    ("text", "before", "wanted"),
    [
        ("Und im Jahr davor?", "Wer gewann am 4. Mai 2023?", "Wer gewann im Jahr 2022?"),
        ("And the day before?", "What came out in January 2024?", "What came out on 31 December 2023?"),
        ("Und in der Vorsaison?", "Wer stieg 2021/22 ab?", "Wer stieg 2020/21 ab?"),
        (
            "Und zwei Wochen später?",
            "Was war vom 25. bis 31. März 2024?",
            "Was war vom 8. bis 14. April 2024?",
        ),
        ("Und eine Woche später?", "Was stand am 1. Mai 2024 an?", "Was stand am 8. Mai 2024 an?"),
        ("Was war am Tag danach?", "Wer spielte am 1. Mai 2024 in Kiel?", "Was war am 2. Mai 2024? (Kiel)"),
        ("Wie war es im Jahr davor?", "Wer führte 2023 in Kiel?", "Wie war es 2022? (Kiel)"),
        ("And in 2022?", "What was sold between May and July 2023?", "What was sold in 2022?"),
        ("Und im März?", "Wer gewann im September 2022?", "Wer gewann im März 2022?"),
        ("Und am Montag?", "Was geschah gestern?", "Was geschah am Montag?"),
        ("What is planned for the next year?", "Who led in 2021?", "What is planned for the next year?"),
        ("Nein, ich meine Kiel.", "Wer trainiert Bremen?", "Wer trainiert Kiel?"),
        ("And before?", "Who led in 2021 or 2022?", "And before? (2021, 2022, led)"),  # before which?
        ("And the year before?", "Who led in 0001?", "And the year before? (0001, led)"),
        ("And the year before?", "Who led in 1800-01-01?", "Who led in 1799?"),
    ],
)
def test_dates_are_counted_from_the_one_before(text: str, before: str, wanted: str) -> None:
    assert standalone(text, (before, "")) == wanted


@pytest.mark.parametrize(
    ("text", "before", "answer", "wanted"),
    [
        ("Und wer trainiert Kiel?", "Wer trainiert Bremen?", "Bo Li.", "Wer trainiert Kiel?"),
        ("And who scored for Kiel?", "Who scored for Bremen?", "Bo Li.", "Who scored for Kiel?"),
        ("And who assisted?", "Who scored for Bremen?", "Bo.", "And who assisted? (Bremen, scored, Bo)"),
        ("Und wer führt die Frauen?", "Wer führt Bremen?", "Bo.", "Und wer führt die Frauen? (Bremen, Bo)"),
        ("Wo wohnt er?", "Wer leitet Bremen?", f"| 8. Bo Li stoppte | 14. Runde {'und lief ' * 12}. Das Ziel",
         "Wo wohnt er? (Bremen, Bo Li)"),
        ("Und warum?", "x" * 5_000, "y", "Und warum?"),
    ],
)  # fmt: skip
def test_what_is_carried_is_what_a_person_would_name(
    text: str, before: str, answer: str, wanted: str
) -> None:
    assert standalone(text, (before, answer)) == wanted


def test_what_has_an_article_is_carried_before_rarer_words() -> None:
    before = "Was the payment system brought back within the limit?"
    counts = {"payment": 9, "system": 20, "brought": 1, "back": 2, "limit": 5}
    found = standalone("And who runs it?", (before, ""), None, lambda word: counts.get(word, 0))
    assert found == "And who runs it? (payment, system, limit)"


def test_thanks_are_no_turn_that_a_later_one_depends_on() -> None:
    said = ("Wie hoch ist der Mindestlohn in Sachsen?", "12,41 Euro.", "Danke!", "Gern.", "ok", "")
    assert standalone("Und in Bayern?", said) == "Wie hoch ist der Mindestlohn in Bayern?"
    assert standalone("Und in Bayern?", ("Danke!", "Gern.")) == "Und in Bayern?"


@pytest.mark.parametrize(
    "text",
    [
        "Danke?",
        "Hallo Kohlenbach",
        "ok und wer hat gewonnen",
        "thanks, when does it leave",
        "",
        "?",
        "super " * 13,
    ],
)
def test_what_asks_something_is_no_courtesy(text: str) -> None:
    assert not is_courtesy(text)


HOSTILE = (
    "{0} {{x}} %s",
    "<script>alert(1)</script>",
    "\u202eUnd davor?\u202c",
    "\x00\x1b[31m",
    "x" * 1_000_000,
    "und " * 250_000,
    "davor " * 100_000,
    "ein " * 5_000 + "tag davor",
    "\ud800",
    "(? (" * 1_000,
)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_conversations_are_read(text: str) -> None:
    """As the question, as what was asked, as an answer, and two hundred turns of it."""
    for asked, said in (
        (text, ("Wer gewann 2022?", "Wesselrode.")),
        ("Und davor?", (text, "Wesselrode.")),
        ("Und davor?", ("Wer gewann 2022?", text)),
        ("And what about him?", (text, text) * 100),
    ):
        found = standalone(asked, said, "2024-06-01")
        assert found.strip() or not asked.strip()
        assert len(found) <= max(len(asked), 10_000)
