"""A scripted model that answers ragas' prompts by the input that stands in them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from tests.fakes.openai_server import Received, Scripted, answer

SHAPES = (
    "StatementGeneratorOutput",
    "ClaimDecompositionOutput",
    "NLIStatementOutput",
    "StatementFaithfulnessOutput",
    "ClassificationWithReason",
    "ContextPrecisionOutput",
    "ContextRecallOutput",
    "ContextRelevanceOutput",
    "AnswerRelevanceOutput",
    "RelevantSentences",
)
"""The classes of replies that the judge asks for."""
Says = Callable[[dict[str, Any]], object]
"""The input of a prompt -> what the model says: JSON, or a scripted response."""


def input_of(user: str) -> dict[str, Any]:
    """What ragas wrote of a case: the JSON at the end of its prompt."""
    _, _, written = user.rpartition("\ninput: ")
    found: dict[str, Any] = json.loads(written.removesuffix("Output:").strip())
    return found


def shape_of(received: Received) -> str:
    return str(received.body["response_format"]["json_schema"]["name"])


def user_of(received: Received) -> str:
    return str(received.body["messages"][1]["content"])


def replying(says: Mapping[str, Says]) -> Callable[[Received], Scripted]:
    """Return what makes responses: class of the reply that ragas wants -> what the model says."""

    def respond(received: Received) -> Scripted:
        shape, user = shape_of(received), user_of(received)
        given = {"prompt": user} if shape == "RelevantSentences" else input_of(user)
        said = says[shape](given)
        return said if isinstance(said, Scripted) else answer(json.dumps(said, ensure_ascii=False))

    return respond


def statement(text: str, verdict: int, reason: str = "So it says.") -> dict[str, object]:
    return {"statement": text, "reason": reason, "verdict": verdict}


def contract_reply(user: str, body: dict[str, Any]) -> object:
    """What a model says to any prompt of the judge in the contract suite: for `At noon`, against all else."""
    shape = body["response_format"]["json_schema"]["name"]
    good = int("At noon" in user)
    if shape == "RelevantSentences":
        return {"relevant": [1] if good else []}
    given = input_of(user)
    if shape == "StatementGeneratorOutput":
        return {"statements": [f"It says: {str(given.get('answer') or given.get('text'))[:60]}"]}
    if shape == "ClaimDecompositionOutput":
        return {"claims": [f"It says: {given['response'][:60]}"]}
    if shape in {"NLIStatementOutput", "StatementFaithfulnessOutput"}:
        return {"statements": [statement(text, int("At noon" in text)) for text in given["statements"]]}
    if shape == "ClassificationWithReason":
        sorted_ = [{"statement": text, "reason": "So it says."} for text in given["answer"]]
        return {"TP": sorted_ if good else [], "FP": [] if good else sorted_, "FN": []}
    return {
        "ContextPrecisionOutput": {"reason": "So it says.", "verdict": good},
        "ContextRecallOutput": {
            "classifications": [{"statement": "It says so.", "reason": "So it says.", "attributed": good}]
        },
        "ContextRelevanceOutput": {"rating": 2 * good},
        "AnswerRelevanceOutput": {"question": "When does it leave?", "noncommittal": 1 - good},
    }[shape]
