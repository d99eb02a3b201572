"""Writes responses: chat completions whole and in chunks, lists of models, passages with their scores."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any
from urllib.parse import quote, urlsplit

import polars as pl

from rag_assay.assets.chunking.sentence_splitter import sentence_places
from rag_assay.evals.export.revisions import answer_record
from rag_assay.evals.generation.citations import public_url
from rag_assay.evals.generation.contract import Answer, Passage
from rag_assay.evals.pipeline.pipeline import PipelineResult, understood_records
from rag_assay.evals.question_sets.no_answer_sentence import unanswered
from rag_assay.orchestration.server.chat_requests import ChatQuestion
from rag_assay.orchestration.server.failures import RequestError, failed_answer
from rag_assay.warehouse.schemas import Status

Record = dict[str, Any]
DONE = "data: [DONE]\n\n"
_SIGNS = re.compile(r"([\\`*_\[\]<>#|~!])")


def completion(result: PipelineResult, asked: ChatQuestion, model: str, request_id: str, now: int) -> Record:
    """Return a chat completion without the list of sources in its text."""
    answer = answer_of(result)
    declined = answer.status in {Status.REFUSED, Status.NO_CONTEXT}
    text = answer.text or (unanswered(asked.language) if declined else "")
    return {
        "id": request_id,
        "object": "chat.completion",
        "created": now,
        "model": model,
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": text,
                    "refusal": text if declined else None,
                },
                "logprobs": None,
                "finish_reason": "length" if answer.status is Status.TRUNCATED else "stop",
            }
        ],
        "usage": usage(answer),
        "sources": sources(result, asked),
        "assay": outcome(result),
    }


def answer_of(result: PipelineResult) -> Answer:
    _refuse_failed_search(result)
    answer = result.answer
    if answer is None:
        raise RequestError(
            404,
            "this cell has no generator: it finds passages and answers nothing; ask /retrieve",
            param="model",
            code="model_not_found",
        )
    failure = failed_answer(answer.status, answer.reason, has_text=bool(answer.text))
    if failure is not None:
        raise failure
    return answer


def _refuse_failed_search(result: PipelineResult) -> None:
    if result.found.status is not Status.OK:
        reason = result.found.reason or "the search failed"
        raise RequestError(500, reason, kind="server_error", code="search_failed")


def usage(answer: Answer) -> Record:
    """Return what was counted; nothing is counted where nothing was asked."""
    read, written = answer.prompt_tokens or 0, answer.completion_tokens or 0
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def outcome(result: PipelineResult) -> Record:
    """Return what a program may want to know of an answer beside its text."""
    answer = result.answer
    if answer is None:
        return {}
    row = {
        "status": answer.status,
        "answer": answer.text,
        "chunk_ids": [one.chunk for one in read_passages(result)],
        "citations": [
            {
                "marker": one.marker,
                "sentence": one.sentence,
                "chunk_id": one.chunk,
                "doc_id": one.document,
                "start": one.start,
                "end": one.end,
            }
            for one in answer.citations
        ],
    }
    return {
        **answer_record(row),
        "reason": answer.reason,
        "declined": result.declined,
        "understood": understood_records(result),
        "confidence": answer.confidence,
        "model": answer.model,
        "usd": answer.usd,
        "cached": answer.cached,
    }


def read_passages(result: PipelineResult) -> tuple[Passage, ...]:
    """Return the passages that the generator was given, in the order of their numbers."""
    if result.answer is not None and result.answer.passages is not None:
        return result.answer.passages
    return result.passages[: result.read]


def sources(result: PipelineResult, asked: ChatQuestion) -> list[Record]:
    """Return the passages that were read, by the numbers that markers in the answer have."""
    answer = result.answer
    cited = {one.chunk for one in answer.citations} if answer else set()
    return [
        {"number": passage.number or place, "cited": passage.chunk in cited, **passage_record(passage, asked)}
        for place, passage in enumerate(read_passages(result), 1)
    ]


def passage_record(passage: Passage, asked: ChatQuestion) -> Record:
    """Return a passage in types of JSON."""
    return {
        "title": passage.title,
        "url": public_url(passage.url, asked.language),
        "date": passage.date,
        "section": list(passage.section),
        "passage": passage.text,
        "start": passage.start,
        "end": passage.end,
        "score": passage.score,
        "chunk_id": passage.chunk,
        "doc_id": passage.document,
    }


def with_listed_sources(reply: Record) -> Record:
    """Return a completion whose text ends with its cited sources as a numbered list in Markdown."""
    choice = reply["choices"][0]
    message = choice["message"]
    cited = [one for one in reply["sources"] if one["cited"]]
    listed = source_list(cited) if message["refusal"] is None else ""
    content = f"{message['content']}\n\n{listed}" if listed and message["content"] else message["content"]
    return {**reply, "choices": [{**choice, "message": {**message, "content": content}}]}


def source_list(cited: Sequence[Record]) -> str:
    """Write sources as lines of Markdown; titles and addresses of documents are text, whatever is in them.

    >>> source_list([{"number": 2, "title": "A [b]\\n# c", "url": "https://x.example/a b", "doc_id": "d"}])
    'Sources:\\n\\n- [2] [A \\\\[b\\\\] \\\\# c](<https://x.example/a%20b>)'
    >>> source_list([{"number": 1, "title": None, "url": "javascript:alert(1)", "doc_id": "d"}])
    'Sources:\\n\\n- [1] javascript:alert(1)'
    """
    lines = []
    for one in cited:
        url = one["url"] or ""
        label = _SIGNS.sub(r"\\\1", " ".join((one["title"] or url or one["doc_id"]).split()))
        link = _link(url)
        lines.append(f"- [{one['number']}] " + (f"[{label}](<{link}>)" if link else label))
    return "\n".join(["Sources:", "", *lines]) if lines else ""


def _link(url: str) -> str | None:
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        return None
    return quote(url, safe=":/?#[]@!$&'()*+,;=%~-._")


# In chunks -------------------------------------------------------------------------------------------------


def chunks(reply: Record, *, wants_usage: bool) -> Iterator[str]:
    """Yield a completion as server-sent events: its text sentence by sentence, then how it ended.

    The answer is whole before the first chunk: markers are resolved and refusals known by all of it, as they
    were when it was measured.
    """
    choice = reply["choices"][0]
    message = choice["message"]
    pieces: list[Record] = [{"role": "assistant", "content": ""}]
    pieces += [{"content": piece} for piece in sentences(message["content"])]
    pieces += [{"refusal": message["refusal"]}] if message["refusal"] else []
    for piece in pieces:
        yield event(_chunk(reply, piece, None))
    last = _chunk(reply, {}, choice["finish_reason"])
    yield event({**last, "sources": reply["sources"], "assay": reply["assay"]})
    if wants_usage:
        yield event({**_chunk(reply, {}, None), "choices": [], "usage": reply["usage"]})
    yield DONE


def sentences(text: str) -> list[str]:
    """Cut a text after its sentences; together the pieces are the text.

    >>> sentences("At noon. It calls at the island.")
    ['At noon. ', 'It calls at the island.']
    """
    starts = [start for start, _ in sentence_places(text)][1:]
    places = [0, *starts, len(text)]
    return [text[start:end] for start, end in pairwise(places) if end > start]


def event(record: Record) -> str:
    return f"data: {json.dumps(record, ensure_ascii=False)}\n\n"


def _chunk(reply: Record, delta: Record, finish: str | None) -> Record:
    return {
        "id": reply["id"],
        "object": "chat.completion.chunk",
        "created": reply["created"],
        "model": reply["model"],
        "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}],
    }


# Others ----------------------------------------------------------------------------------------------------


def retrieval_reply(result: PipelineResult, asked: ChatQuestion, k: int | None, ids: pl.Series) -> Record:
    """Return what was found for a question: passages, and their places after each step of the retriever.

    ids: of the chunks, in the order of the index
    """
    _refuse_failed_search(result)
    shown = result.passages[:k]
    places = _places(result, ids)
    return {
        "object": "list",
        "question": asked.question,
        "passages": [
            {
                "rank": rank,
                **passage_record(passage, asked),
                "steps": [
                    {"step": name, "kind": kind, "rank": found[passage.chunk]}
                    for name, kind, found in places
                    if passage.chunk in found
                ],
            }
            for rank, passage in enumerate(shown, 1)
        ],
        "notes": [note._asdict() for note in result.found.trace.notes],
        "understood": understood_records(result),
    }


def _places(result: PipelineResult, ids: pl.Series) -> list[tuple[str, str, dict[str, int]]]:
    return [
        (step.step, step.kind, {chunk: rank for rank, chunk in enumerate(ids.gather(step.rows), 1)})
        for step in result.found.trace.steps
    ]


def models(name: str, created: int) -> Record:
    """Return the list of models: the one that is served."""
    return {"object": "list", "data": [model(name, created)]}


def model(name: str, created: int) -> Record:
    return {"id": name, "object": "model", "created": created, "owned_by": "rag-assay"}
