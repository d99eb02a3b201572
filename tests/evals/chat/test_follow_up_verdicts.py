"""The benchmark of follow-ups judges answers by the words that state the fact."""

from __future__ import annotations

import pytest

from benchmarks.follow_ups import VERDICTS, verdict_of
from rag_assay.warehouse.conversations import Turn
from rag_assay.warehouse.status import Status

FACT = {"holds": ["Seven firms bid", "sieben Firmen  boten"]}
ANSWERS = [
    ("In May, seven firms bid for it. [1]", "right answer"),
    ("Sieben Firmen boten mit.", "right answer"),
    ("Seventy-seven firms bidding is a record.", "wrong answer"),
    ("Seven. In May, seven firms bid for it.", "right answer"),
    ("May. In May, seven firms bid for it.", "wrong answer"),
    ("It rained. In May, seven firms bid for it.", "right answer"),
    ("", "wrong answer"),
]


def turn(status: Status, answer: str | None) -> Turn:
    return Turn(record_id="t", number=2, cell="c", question="How many?", status=status, answer=answer)


@pytest.mark.parametrize(("answer", "verdict"), ANSWERS)
def test_an_answer_is_right_if_it_and_its_short_answer_have_the_words(answer: str, verdict: str) -> None:
    assert verdict_of(FACT, turn(Status.OK, answer)) == verdict


@pytest.mark.parametrize("status", [one for one in Status if one is not Status.OK])
def test_what_is_not_answered_is_right_where_the_documents_do_not_say(status: Status) -> None:
    assert verdict_of(FACT, turn(status, None)) == "wrong refusal"
    assert verdict_of({}, turn(status, None)) == "right refusal"


def test_an_answer_is_wrong_where_the_documents_do_not_say() -> None:
    assert verdict_of({}, turn(Status.OK, "Seven firms bid.")) == "no answer there"


def test_every_verdict_has_its_column() -> None:
    told = {verdict for _, verdict in ANSWERS} | {"wrong refusal", "right refusal", "no answer there"}
    assert told == set(VERDICTS)
