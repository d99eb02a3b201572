"""Chat completions as server-sent events, put together as one completion."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from time import monotonic
from typing import Any, NamedTuple

import httpx

from rag_assay.warehouse.inference import chat_completions
from rag_assay.warehouse.inference.call_failures import status_of
from rag_assay.warehouse.inference.chat_completions import (
    NoCompletionError,
    ServerError,
    completion_in,
    error_of,
    headers_for,
    message_and_code,
    url_of,
)
from rag_assay.warehouse.inference.http_clients import lent_line
from rag_assay.warehouse.inference.streaming import Drafting, join_surrogates
from rag_assay.warehouse.status import Status

DONE = "[DONE]"
"""What servers send as the last event of a completion."""

_LINE_END = re.compile(rb"\r\n|\r|\n")


class ServerSentEvent(NamedTuple):
    """One event; `name` is empty unless the server gives one."""

    name: str
    data: str


def events(parts: Iterable[bytes]) -> Iterator[ServerSentEvent]:
    r"""Yield the events of a stream; comments, ids and reconnection times are passed over. What the end of
    the stream has cut off is no event. Raises UnicodeDecodeError.

    >>> list(events([b": alive\r\n\r\nda", b"ta: caf\xc3", b"\xa9\r", b"\n\r\ndata: [DONE]"]))
    [ServerSentEvent(name='', data='café'), ServerSentEvent(name='', data='[DONE]')]
    """
    name, data = "", list[str]()
    for line in _lines(parts):
        if not line:
            if data:
                yield ServerSentEvent(name, "\n".join(data))
            name, data = "", []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            data.append(value)
        elif field == "event":
            name = value
    if data and _is_whole("\n".join(data)):
        yield ServerSentEvent(name, "\n".join(data))


def _lines(parts: Iterable[bytes]) -> Iterator[str]:
    """Yield the lines of a stream, without their ends; in UTF-8, without a byte order mark."""
    pending: list[bytes] = []
    is_first = True
    ended_by_return = False
    for part in filter(None, parts):
        pieces = _LINE_END.split(part[1:] if ended_by_return and part.startswith(b"\n") else part)
        ended_by_return = part.endswith(b"\r")
        for piece in pieces[:-1]:
            line = b"".join([*pending, piece]).decode()
            yield line.removeprefix("\ufeff") if is_first else line
            pending, is_first = [], False
        pending.append(pieces[-1])
    rest = b"".join(pending).decode(errors="replace")
    if rest:
        yield rest


def _is_whole(data: str) -> bool:
    if data.strip() == DONE:
        return True
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


AFTER_END = 5.0  # seconds that token counts may come after the answer's end
AFTER_DONE = 0.2  # seconds that a server may take to end the response after it has said that all is there

_EVENT = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?::|data|event|id|retry)")
_TEXTS = ("content", "refusal", "reasoning_content", "reasoning")
_REFUSES_STREAMS = {400, 405, 406, 415, 422, 501}
_STATUS_OF = (
    (re.compile(r"rate_?limit|insufficient_quota|too_many", re.I), 429),
    (re.compile(r"context_(?:length|size)|content_(?:policy|filter)|invalid", re.I), 400),
    (re.compile(r"authentication|api_key", re.I), 401),
)


def complete(
    request: Mapping[str, Any], api_base: str | None, api_key: str | None, timeout: float, drafting: Drafting
) -> dict[str, Any]:
    """As `chat_completions.complete`, drafted; without streaming where the server refuses."""
    url, headers = url_of(api_base), headers_for(api_key)
    server = _servers.setdefault(url, _Server())
    for options in server.ways():
        try:
            found = _streamed({**request, **options}, url, headers, timeout, drafting)
        except _RefusedError as refused:
            if "stream_options" in str(refused):
                continue
            break  # for another reason, perhaps: the request without streaming will tell
        else:
            server.has_streamed(options, found)
            return found
    found = chat_completions.complete(request, api_base, api_key, timeout)
    server.has_answered(found)
    return found


class _RefusedError(Exception):
    """A server's answer to a request that it may take without streaming."""


class _Server:
    def __init__(self) -> None:
        self.takes_options = True
        self.counts: bool | None = None
        self.counts_in_streams: bool | None = None
        self._is_refused = False

    def ways(self) -> list[dict[str, Any]]:
        loses_counts = self.counts_in_streams is False and self.counts is not False
        if self._is_refused or loses_counts:
            return []
        plain = {"stream": True}
        with_counts = {**plain, "stream_options": {"include_usage": True}}
        return [with_counts, plain] if self.takes_options else [plain]

    def has_streamed(self, options: Mapping[str, Any], found: Mapping[str, Any]) -> None:
        self.takes_options = "stream_options" in options
        self.counts_in_streams = bool(found.get("usage"))

    def has_answered(self, found: Mapping[str, Any]) -> None:
        self.counts = bool(found.get("usage"))
        self._is_refused = self.counts_in_streams is None


_servers: dict[str, _Server] = {}


def _streamed(
    request: Mapping[str, Any], url: str, headers: Mapping[str, str], timeout: float, drafting: Drafting
) -> dict[str, Any]:
    with lent_line() as line:
        drafting.is_sent(line.lend())
        with line.client.stream(
            "POST", url, json=request, headers=headers, timeout=timeout, extensions={"trace": line.trace}
        ) as response:
            if not response.is_success:
                response.read()
                error = error_of(response)
                is_odd = error.status_code in _REFUSES_STREAMS and status_of(error) is Status.ERROR
                raise _RefusedError(str(error)) if is_odd else error
            parts = response.iter_bytes()
            begin = b""
            for part in parts:
                begin += part
                if begin.strip():
                    break
            if begin.strip() and not _EVENT.match(begin):  # it ignores `stream`
                return completion_in(begin + b"".join(parts), response)
            return _put_together(events(chain([begin], parts)), drafting, response)


def _put_together(
    found: Iterator[ServerSentEvent], drafting: Drafting, response: httpx.Response
) -> dict[str, Any]:
    answer = _Answer()
    try:
        for name, data in found:
            if data.strip() == DONE:
                answer.is_done = True
                drafting.ends_by = monotonic() + AFTER_DONE
            elif not answer.is_done:
                drafting.add(answer.add(_chunk(name, data, response)))
                if answer.is_whole and drafting.ends_by is None:
                    drafting.ends_by = monotonic() + AFTER_END
    except UnicodeDecodeError as error:
        raise NoCompletionError(f"the server's stream is not UTF-8 ({error})") from None
    except httpx.HTTPError:
        if not answer.is_whole:
            raise
    if not answer.is_whole:
        raise httpx.RemoteProtocolError("the stream ended before the answer did")
    return answer.completion()


def _chunk(name: str, data: str, response: httpx.Response) -> dict[str, Any]:
    """Raises ServerError (the event tells of an error) and NoCompletionError."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise NoCompletionError(f"an event of the server's stream is not JSON ({error})") from None
    if not isinstance(found, dict):
        raise NoCompletionError("an event of the server's stream is not a JSON object")
    if name == "error" or (not found.get("choices") and found.get("error")):
        message, code = message_and_code(found)
        raise ServerError(_status_of(found, code), f"in mid-stream: {message}", code, response.headers)
    return found


def _status_of(found: Mapping[str, Any], code: str | None) -> int:
    """Return the status that an error in mid-stream would have had before; default: a server's fault.

    >>> _status_of({"error": {"code": 503, "message": "overloaded"}}, None)
    503
    >>> _status_of({}, "rate_limit_exceeded"), _status_of({}, "server_error"), _status_of({}, None)
    (429, 500, 500)
    """
    error = found.get("error", found)
    stated = [error.get(key) for key in ("code", "status", "status_code")] if isinstance(error, dict) else []
    for one in stated:
        if isinstance(one, int | str) and re.fullmatch(r"[45]\d\d", str(one)):
            return int(one)
    return next((status for words, status in _STATUS_OF if words.search(code or "")), 500)


class _Answer:
    def __init__(self) -> None:
        self.is_done = False
        self._head: dict[str, Any] = {}
        self._message: dict[str, Any] = {"role": "assistant", "content": None}
        self._texts: dict[str, list[str]] = {}
        self._logprobs: dict[str, Any] | None = None
        self._finish_reason: Any = None
        self._usage: Any = None
        self._has_choice = False

    @property
    def is_whole(self) -> bool:
        return self.is_done or self._finish_reason is not None

    def add(self, chunk: Mapping[str, Any]) -> str:
        self._usage = chunk.get("usage") or self._usage
        more = {name: value for name, value in chunk.items() if name not in {"choices", "usage"}}
        self._head |= {name: value for name, value in more.items() if value not in (None, "")}
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict) and choice.get("index") in {None, 0}:
                return self._add_choice(choice)
        return ""

    def _add_choice(self, choice: Mapping[str, Any]) -> str:
        self._has_choice = True
        self._finish_reason = choice.get("finish_reason") or self._finish_reason
        logprobs = choice.get("logprobs")
        if isinstance(logprobs, dict):
            self._logprobs = self._logprobs or {}
            for name, value in logprobs.items():
                before = self._logprobs.get(name)
                if isinstance(before, list) and isinstance(value, list):
                    before.extend(value)
                elif value is not None or name not in self._logprobs:
                    self._logprobs[name] = value
        delta = choice.get("delta") or choice.get("message")
        text = ""
        for name, value in delta.items() if isinstance(delta, dict) else ():
            if name in _TEXTS and isinstance(value, str):
                self._texts.setdefault(name, []).append(value)
                text = value if name == "content" else text
            elif value is not None:
                self._message[name] = value
        return text

    def completion(self) -> dict[str, Any]:
        texts = {name: join_surrogates("".join(parts)) for name, parts in self._texts.items()}
        choice: dict[str, Any] = {
            "index": 0,
            "message": {**self._message, **texts},
            "finish_reason": self._finish_reason,
        }
        if self._logprobs is not None:
            choice["logprobs"] = self._logprobs
        found = {**self._head, "object": "chat.completion", "choices": [choice] if self._has_choice else []}
        return found if self._usage is None else {**found, "usage": self._usage}
