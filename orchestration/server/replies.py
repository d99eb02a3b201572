"""Forms of responses: chat completions whole and in chunks, lists of models, passages with their scores.

Beside OpenAI's fields they have the record that a conversation keeps of a turn.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any
from urllib.parse import quote, urlsplit
from uuid import uuid4

from openai.types import CompletionUsage, Model
from openai.types.chat import ChatCompletion, ChatCompletionChunk, ChatCompletionMessage
from openai.types.chat.chat_completion import Choice
from openai.types.chat.chat_completion_chunk import Choice as PieceChoice
from openai.types.chat.chat_completion_chunk import ChoiceDelta

from rag_assay.assets.chunking.sentence_splitter import sentence_places
from rag_assay.evals.chat.question_requests import QuestionRequest
from rag_assay.evals.chat.turn_records import DECLINED, shown_passages, understood_of
from rag_assay.evals.generation.contract import Answer
from rag_assay.orchestration.question_service.opened_cell import OpenedCell
from rag_assay.orchestration.server.failures import RequestError, refuse_failed
from rag_assay.warehouse.conversations import ShownPassage, Turn
from rag_assay.warehouse.schemas import Status

Record = dict[str, Any]
_SIGNS = re.compile(r"([\\`*_\[\]<>#|~!])")


def answered(opened: OpenedCell, asking: QuestionRequest) -> Turn:
    """Return the turn of a question that was answered; RequestError: there is no answer."""
    if opened.pipeline.generator is None:
        raise RequestError(
            404,
            "this cell has no generator: it finds passages and answers nothing; ask /retrieve",
            param="model",
            code="model_not_found",
        )
    turn = opened.answer(asking)
    refuse_failed(turn)
    return turn


def completion(turn: Turn, model: str, *, lists_sources: bool) -> ChatCompletion:
    """Return a chat completion with the record of its turn; lists_sources: cited sources end its text."""
    text = turn.answer or ""
    read, written = turn.prompt_tokens or 0, turn.completion_tokens or 0
    is_declined = turn.status in DECLINED
    content = text_with_sources(turn) if lists_sources else text
    found = Choice(
        index=0,
        message=ChatCompletionMessage(
            role="assistant", content=content, refusal=text if is_declined else None
        ),
        logprobs=None,
        finish_reason="length" if turn.status is Status.TRUNCATED else "stop",
    )
    return ChatCompletion.model_validate(
        {
            "id": f"chatcmpl-{uuid4().hex}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": model,
            "choices": [found],
            "usage": CompletionUsage(
                prompt_tokens=read, completion_tokens=written, total_tokens=read + written
            ),
            "sources": [one.model_dump(mode="json") for one in turn.passages],
            "assay": turn.model_dump(mode="json", exclude={"passages"}),
        }
    )


def text_with_sources(turn: Turn) -> str:
    listed = source_list([one for one in turn.passages if one.cited])
    return f"{turn.answer}\n\n{listed}" if listed and turn.status not in DECLINED else turn.answer or ""


def source_list(cited: Sequence[ShownPassage]) -> str:
    r"""Write sources as lines of Markdown; titles and addresses of documents are text, whatever is in them.

    >>> one = ShownPassage(number=2, chunk_id="c", doc_id="d", text="", title="A [b]\n# c",
    ...     url="https://x.example/a b")
    >>> source_list([one])
    'Sources:\n\n- [2] [A \\[b\\] \\# c](<https://x.example/a%20b>)'
    >>> source_list([one.model_copy(update={"title": None, "url": "javascript:alert(1)"})])
    'Sources:\n\n- [2] javascript:alert(1)'
    """
    lines = []
    for one in cited:
        url = one.url or ""
        label = _SIGNS.sub(r"\\\1", " ".join((one.title or url or one.doc_id).split()))
        link = _link(url)
        lines.append(f"- [{one.number}] " + (f"[{label}](<{link}>)" if link else label))
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


def chunks(reply: ChatCompletion, *, wants_usage: bool) -> Iterator[str]:
    """Yield a completion as server-sent events: its text sentence by sentence, then how it ended.

    The answer is whole before the first chunk: markers are resolved and refusals known by all of it, as they
    were when it was measured.
    """
    (choice,) = reply.choices
    pieces = [ChoiceDelta(role="assistant", content="")]
    pieces += [ChoiceDelta(content=piece) for piece in sentences(choice.message.content or "")]
    pieces += [ChoiceDelta(refusal=choice.message.refusal)] if choice.message.refusal else []
    for piece in pieces:
        yield _chunk(reply, choices=[PieceChoice(index=0, delta=piece, finish_reason=None)])
    last = PieceChoice.model_validate(
        {"index": 0, "delta": ChoiceDelta(), "finish_reason": choice.finish_reason}
    )
    yield _chunk(reply, choices=[last], **(reply.model_extra or {}))
    if wants_usage:
        yield _chunk(reply, choices=[], usage=reply.usage)


def _chunk(reply: ChatCompletion, **more: object) -> str:
    known = {
        "id": reply.id,
        "created": reply.created,
        "model": reply.model,
        "object": "chat.completion.chunk",
    }
    return event(ChatCompletionChunk.model_validate({**known, **more}).model_dump_json(exclude_unset=True))


def sentences(text: str) -> list[str]:
    """Cut a text after its sentences; together the pieces are the text.

    >>> sentences("At noon. It calls at the island.")
    ['At noon. ', 'It calls at the island.']
    """
    starts = [start for start, _ in sentence_places(text)][1:]
    places = [0, *starts, len(text)]
    return [text[start:end] for start, end in pairwise(places) if end > start]


def event(data: str) -> str:
    return f"data: {data}\n\n"


# Others ----------------------------------------------------------------------------------------------------


def found_passages(opened: OpenedCell, asking: QuestionRequest, k: int | None) -> Record:
    result, ids = opened.search(asking), opened.pipeline.retrieval.index.ids
    found = result.found
    if found.status is not Status.OK:
        reason = found.reason or "the search failed"
        raise RequestError(500, reason, kind="server_error", code="search_failed")
    shown = shown_passages(result, Answer(Status.OK), opened.places(), result.question["language"])[:k]
    steps = [
        (step.step, step.kind, {chunk: rank for rank, chunk in enumerate(ids.gather(step.rows), 1)})
        for step in found.trace.steps
    ]
    return {
        "object": "list",
        "question": asking.question,
        "passages": [
            {
                **passage.model_dump(mode="json", exclude={"cited", "evidence"}),
                "steps": [
                    {"step": name, "kind": kind, "rank": ranks[passage.chunk_id]}
                    for name, kind, ranks in steps
                    if passage.chunk_id in ranks
                ],
            }
            for passage in shown
        ],
        "notes": [note._asdict() for note in found.trace.notes],
        "understood": [one.model_dump(mode="json") for one in understood_of(result)],
    }


def model(name: str, created: int) -> Record:
    return Model(id=name, object="model", created=created, owned_by="rag-assay").model_dump()
