"""Conversations of people with hostile questions, cells and documents, as their files have them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from rag_assay.warehouse.conversations import AnswerFeedback, Begun, Conversations, ShownPassage, Turn, Vote
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import Status

AT = datetime(
    2026, 3, 28, 22, 30, tzinfo=UTC
)  # a Saturday; in Berlin it is 23:30, and clocks change that night
SCRIPT = "<script>alert(1)</script>'; DROP TABLE chat_turns; --"
STATUSES = (Status.OK, Status.OK, Status.REFUSED, Status.NO_CONTEXT, Status.TIMEOUT)


def turn(number: int, **more: Any) -> Turn:
    status = STATUSES[number % len(STATUSES)]
    failed = status is Status.TIMEOUT
    passages = tuple(
        ShownPassage(
            number=place,
            chunk_id=f"c{place}",
            doc_id=f"d{(number + place) % 4}",
            text="…",
            title=SCRIPT,
            score=number / place,
            cited=place == 1 and status is Status.OK,
        )
        for place in (1, 2)
    )
    values: dict[str, Any] = {
        "record_id": f"t{number}",
        "at": AT + timedelta(hours=7 * number),
        "number": number,
        "cell": f"town.{SCRIPT if number % 3 else 'plain'}.e.r.g",
        "question": f"{SCRIPT} {number}?",
        "status": status,
        "reason": None if status is Status.OK else "why",
        "model": None if failed else "acme/large",
        "usd": [0.25, None, 0.5][number % 3],
        "cached": number % 4 == 0,
        "prompt_tokens": None if failed else 100,
        "completion_tokens": None if failed else 10,
        "confidence": None if failed else number / 10,
        "passages": () if status is Status.NO_CONTEXT else passages,
        "search_seconds": 0.5,
        "answer_seconds": None if failed else number / 4,
        "seconds": None if failed else 0.5 + number / 4,
    }
    return Turn(**{**values, **more})


def used_home(folder: Path) -> Home:
    """A home in which two studies were asked, by people with names and without, and demo data lies."""
    found = Home(folder)
    there = Conversations(found)
    for study in ("town", "village"):
        for of in range(3):
            name = there.begin(study, Begun(record_id="b", at=AT, person="Ada" if of else ""))
            there.append(study, name, [turn(number) for number in range(1, 8 + of)])
            there.append(
                study, name, [turn(9).model_copy(update={"record_id": "side", "side": "b", "number": 1})]
            )
            said = [
                ("t1", 1, ""),
                ("t2", -1, f"  {SCRIPT} "),
                ("t3", 1, ""),
                ("t3", 0, ""),
                ("t4", 0, "Thanks"),
            ]
            there.append(
                study,
                name,
                [
                    AnswerFeedback(record_id=f"f{at}", turn=of, thumbs=up, comment=word)
                    for at, (of, up, word) in enumerate(said)
                ],  # type: ignore[arg-type]
            )
    for of, name in there.stamps():
        if name != "demo-0001":
            said = ("a", "tie") if of == "village" else ("a", "b", "a")
            votes = [
                Vote(record_id=f"v{n}", number=1, a="t1", b="side", preferred=one)
                for n, one in enumerate(said)
            ]  # type: ignore[arg-type]
            there.append(of, name, votes)
    there.append("town", "demo-0001", [Begun(record_id="d", place="demo"), turn(1, record_id="demo")])
    return found
