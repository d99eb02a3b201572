"""A refusal in prose is told from a verdict in prose, and from JSON of any kind."""

from __future__ import annotations

import json

import pytest

from rag_assay.evals.judging.structured_calls import LOOK, declines

REFUSALS = [
    "I'm sorry, but I can't assist with that.",
    "I’m unable to judge this content.",
    "Sorry, that is not possible.",
    "As an AI, I do not rate answers.",
    "**I cannot** rate this answer.",
    "I must decline to evaluate this.",
    "Es tut mir leid, aber das geht nicht.",
    "Ich kann das leider nicht beurteilen.",
    "Leider kann ich diese Anfrage nicht bearbeiten.",
    "Als KI bewerte ich keine Personen.",
]
OTHERS = [
    "The answer is right: full marks.",
    "Die Antwort ist richtig.",
    "The statement cannot be inferred from the context.",
    "Die Aussage kann nicht belegt werden.",
    "It says: sorry, the ferry is full.",
    "",
    "Verdict 1, for the passage says so. " * 20 + "I cannot say more.",
    *(json.dumps({"reason": refusal, "verdict": 0}) for refusal in REFUSALS),
    f"```json\n{json.dumps({'reason': REFUSALS[0]})}",
]


@pytest.mark.parametrize("text", REFUSALS)
def test_a_refusal(text: str) -> None:
    assert declines(text)
    assert declines(f"\n {text.upper()} \n")


@pytest.mark.parametrize("text", OTHERS)
def test_no_refusal(text: str) -> None:
    assert not declines(text)


def test_only_the_beginning_says_so() -> None:
    assert not declines("x " * LOOK + REFUSALS[0])
