"""A scripted RAG application: right on half of the questions, wrong, slow or failing on others."""

from __future__ import annotations

import json
from typing import Any

from tests.fakes.openai_server import Received, Scripted, answer, failure

SLOW = 0.2  # seconds before one of its answers
SYSTEM_QUESTIONS = """\
question_set: ferry
language: en
questions:
  - id: noon
    question: When does the ferry leave the harbour?
    ground_truth: The ferry leaves at noon.
    evidence: [{url: "https://x.example/ferry", quote: "The ferry leaves the harbour at noon."}]
  - id: tickets
    question: Where are tickets for the crossing sold?
    ground_truth: Tickets are sold on the quay.
    evidence: [{url: "https://x.example/tickets", quote: "Tickets are sold on the quay"}]
  - id: lamp
    question: When is the lamp of the lighthouse lit?
    ground_truth: The lamp is lit at sunset.
    evidence: [{url: "https://x.example/lamp", quote: "The lamp is lit at sunset every day."}]
  - id: heat
    question: What heats the harbour office?
    ground_truth: A pump heats the office.
    evidence: [{url: "https://x.example/heat", quote: "heated by a pump"}]
  - id: quay
    question: When was the quay rebuilt?
    ground_truth: The quay was rebuilt in 1987.
    evidence: [{url: "https://x.example/history", quote: "The quay was rebuilt in 1987"}]
  - id: crane
    question: What stands on the quay to this day?
    ground_truth: The old crane stands there.
    evidence: [{url: "https://x.example/history", quote: "The old crane stands there to this day."}]
  - id: captain
    question: Who was captain of the ferry in 1901?
    answerable: false
"""
_X = "https://x.example"
REPLIES: dict[str, dict[str, Any]] = {
    "ferry leave": {
        "answer": "The ferry leaves at noon.",
        "sources": [{"text": "The ferry leaves the harbour at noon.", "url": f"{_X}/ferry"}],
    },
    "tickets": {  # without a URL: found by its text, which it writes a little differently
        "answer": "Tickets are sold on the quay.",
        "sources": [{"text": "Tickets are sold on the quay in the mornings.", "url": None}],
    },
    "lamp": {  # the wrong passages first; another URL of the same document
        "answer": "At dawn.",
        "sources": [
            {"text": "Something that no document says, of whales and pyramids.", "url": None},
            {"text": "The lamp is lit at sunset every day.", "url": "lamp#part-2"},
        ],
    },
    "quay rebuilt": {"answer": "The documents do not say.", "sources": []},
    "captain": {
        "answer": "The documents do not say.",
        "sources": [{"text": "Whales cross no desert here.", "url": f"{_X}/elsewhere"}],
    },
}
FAILING, OVERDUE = "heats", "to this day"


class ServerDownError(Exception):
    status_code = 500


def reply_to(question: str) -> dict[str, Any]:
    """Return what it says; raise as a client of its server would."""
    if FAILING in question:
        raise ServerDownError("the index is down")
    if OVERDUE in question:
        raise TimeoutError("no answer in time")
    return next(found for words, found in REPLIES.items() if words in question)


def serve(received: Received) -> Scripted:
    """Answer at `/ask`, and as a server that speaks OpenAI's protocol; one answer is slow."""
    body = received.body
    question = body["messages"][-1]["content"] if "messages" in body else body["q"]
    if FAILING in question:
        return failure(500, "the index is down")
    if OVERDUE in question:
        return failure(504, "no answer in time")
    found = reply_to(question)
    if "messages" in body:
        scripted = answer(found["answer"], context={"citations": found["sources"]})
    else:
        scripted = Scripted(json.dumps(found).encode())
    return Scripted(scripted.body, delay=SLOW if "lamp" in question else 0.0)
