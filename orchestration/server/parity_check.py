"""Asks a running server the questions of a study, and compares what it says with what was measured."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import httpx

from rag_assay.evals.export.revisions import ExpectedResult, answer_record, unlike
from rag_assay.orchestration.server.chat_requests import MOST_PASSAGES


@dataclass
class ParityResult:
    """What came of it; unlike: question id -> difference from what was measured."""

    asked: int = 0
    unlike: dict[str, str] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)

    @property
    def same(self) -> int:
        return self.asked - len(self.unlike)

    def quantile(self, share: float) -> float:
        ordered = sorted(self.seconds)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def check(url: str, model: str, expected: Sequence[ExpectedResult], token: str | None) -> ParityResult:
    """Ask a server each question by HTTP, for passages and for an answer, and compare both."""
    found = ParityResult()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with httpx.Client(base_url=url, headers=headers, timeout=600, trust_env=False) as client:
        for one in expected:
            begin = time.perf_counter()
            differs = _checked(client, model, one)
            found.seconds.append(time.perf_counter() - begin)
            found.asked += 1
            if differs is not None:
                found.unlike[one.question["question_id"]] = differs
    return found


def _checked(client: httpx.Client, model: str, expected: ExpectedResult) -> str | None:
    passages = _passages(client, expected.question)
    if isinstance(passages, str):
        return None if expected.status != "ok" else passages
    answer = _answer(client, model, expected.question) if expected.answer else None
    if isinstance(answer, str):
        failed = expected.answer is not None and expected.answer["text"] is None
        return None if failed and (expected.answer or {})["status"] not in {"ok", "refused"} else answer
    most = replace(expected, passages=expected.passages[:MOST_PASSAGES])
    return unlike(most, ExpectedResult(expected.question, "ok", passages, answer))


def _passages(client: httpx.Client, question: dict[str, Any]) -> tuple[dict[str, Any], ...] | str:
    body = {
        "question": question["question"],
        "conversation": question["conversation"] or [],
        "k": MOST_PASSAGES,
        **_beside(question),
    }
    response = client.post("/retrieve", json=body)
    if not response.is_success:
        return _reason(response)
    names = ("chunk_id", "start", "end", "score")
    return tuple({name: one[name] for name in names} for one in response.json()["passages"])


def _answer(client: httpx.Client, model: str, question: dict[str, Any]) -> dict[str, Any] | str:
    turns = question["conversation"] or []
    messages = [
        {"role": "assistant" if place % 2 else "user", "content": text} for place, text in enumerate(turns)
    ]
    messages.append({"role": "user", "content": question["question"]})
    body = {"model": model, "messages": messages, "sources": "field", **_beside(question)}
    response = client.post("/v1/chat/completions", json=body)
    if not response.is_success:
        return _reason(response)
    record: dict[str, Any] = response.json()["assay"]
    return answer_record(record)


def _beside(question: dict[str, Any]) -> dict[str, Any]:
    return {name: question[name] for name in ("language", "asked_at") if question.get(name)}


def _reason(response: httpx.Response) -> str:
    try:
        return f"HTTP {response.status_code}: {response.json()['error']['message']}"
    except (json.JSONDecodeError, KeyError, TypeError):
        return f"HTTP {response.status_code}"
