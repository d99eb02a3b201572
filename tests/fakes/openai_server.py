"""A scripted OpenAI-compatible server on loopback: real HTTP, made-up answers.

>>> with FakeOpenAI(answer("Paris."), rate_limited(0)) as server:  # doctest: +SKIP
...     gateway.complete("openai/any", messages, api_base=server.api_base)
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True)
class Scripted:
    """One response.

    delay: seconds of silence before it, which the server's end cuts short
    repeats: how many times the body is sent, one after another
    pause: seconds between two of them
    drops: the connection is closed without a word; in mid-stream where there are pieces
    pieces: of a stream of events, sent one by one in place of the body, `pause` seconds apart
    stays: seconds that a stream stays open after its last piece
    is_plain: the body is sent as it is, also to whoever asks for a stream
    """

    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    repeats: int = 1
    pause: float = 0.0
    drops: bool = False
    pieces: tuple[bytes, ...] = ()
    stays: float = 0.0
    is_plain: bool = False


@dataclass(frozen=True)
class Received:
    """One request as it came in; `body` is its JSON."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


def answer(
    text: str | None,
    finish_reason: str = "stop",
    *,
    prompt_tokens: int = 11,
    completion_tokens: int = 7,
    tops: Mapping[str, float] | None = None,
    **message: Any,
) -> Scripted:
    """A completion; `tops` are first tokens with their probabilities, likeliest first."""
    body = {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "scripted",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text, **message},
                "finish_reason": finish_reason,
                **({} if tops is None else {"logprobs": logprobs(tops)}),
            }
        ],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        },
    }
    return Scripted(json.dumps(body).encode())


def streamed(scripted: Scripted, *, has_usage: bool = True, pause: float = 0.0) -> Scripted:
    """The same completion as a stream of its words, as OpenAI's server sends it."""
    whole = json.loads(scripted.body)
    choice, usage = whole["choices"][0], whole.pop("usage", None)
    message = choice["message"]
    deltas: list[dict[str, Any]] = [
        {"role": "assistant", "content": None if message["content"] is None else ""}
    ]
    deltas += [{"content": word} for word in re.findall(r"\s*\S+\s*", message["content"] or "")]
    deltas += [{name: value} for name, value in message.items() if name not in {"role", "content"}]
    chunks: list[dict[str, Any]] = [{"delta": delta, "finish_reason": None} for delta in deltas]
    if "logprobs" in choice:
        chunks[1]["logprobs"] = choice["logprobs"]
    chunks.append({"delta": {}, "finish_reason": choice["finish_reason"]})
    head = {**whole, "object": "chat.completion.chunk"}
    found = [event({**head, "choices": [{"index": 0, **chunk}]}) for chunk in chunks]
    if has_usage and usage:
        found.append(event({**head, "choices": [], "usage": usage}))
    return replace(scripted, pieces=(*found, DONE), pause=pause)


def event(data: object) -> bytes:
    """An event of a stream."""
    return b"data: " + json.dumps(data).encode() + b"\n\n"


def words(*texts: str, finish_reason: str | None = None) -> list[bytes]:
    """Events with these pieces of a text, and perhaps with its end."""
    deltas: list[dict[str, Any]] = [{"delta": {"content": text}} for text in texts]
    deltas += [{"delta": {}, "finish_reason": finish_reason}] if finish_reason else []
    head = {"id": "chatcmpl-scripted", "object": "chat.completion.chunk", "model": "scripted"}
    return [event({**head, "choices": [{"index": 0, **delta}]}) for delta in deltas]


DONE = b"data: [DONE]\n\n"


def stream_of(*pieces: bytes, **more: Any) -> Scripted:
    """A stream of these pieces, which need not be whole events; see `Scripted`."""
    return Scripted(b"", pieces=pieces, **more)


def logprobs(tops: Mapping[str, float]) -> dict[str, Any]:
    """What a server says of an answer of one token."""
    rivals = [
        {"token": token, "logprob": math.log(chance), "bytes": list(token.encode())}
        for token, chance in tops.items()
    ]
    return {"content": [{**rivals[0], "top_logprobs": rivals}], "refusal": None}


def embeddings(received: Received, dimensions: int = 8) -> Scripted:
    """Vectors made of the texts alone, in an order that is not theirs, as a server may give them."""
    texts = received.body["input"]
    n_dimensions = received.body.get("dimensions") or dimensions
    rows = [
        {"object": "embedding", "index": n, "embedding": text_vector(text, n_dimensions)}
        for n, text in enumerate(texts)
    ]
    tokens = sum(len(text.split()) for text in texts)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    body = {"object": "list", "data": rows[::-1], "model": received.body["model"], "usage": usage}
    return Scripted(json.dumps(body).encode())


def text_vector(text: str, dimensions: int) -> list[float]:
    """A vector of no particular length: each text has its own."""
    values = hashlib.shake_256(text.encode("utf-8", "surrogatepass")).digest(dimensions)
    return [(value - 127.5) / 10 for value in values]


def failure(
    status: int, message: str, *, code: str | None = None, headers: dict[str, str] | None = None
) -> Scripted:
    body = {"error": {"message": message, "type": code or "error", "param": None, "code": code}}
    return Scripted(json.dumps(body).encode(), status, headers or {})


def rate_limited(retry_after: float | str | None = None) -> Scripted:
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return failure(429, "Rate limit reached for requests", code="rate_limit_exceeded", headers=headers)


def content_policy() -> Scripted:
    return failure(400, "Your request was rejected by our safety system.", code="content_policy_violation")


def hang(seconds: float = 30.0) -> Scripted:
    return Scripted(answer("late").body, delay=seconds)


def dropped() -> Scripted:
    return Scripted(b"", drops=True)


def invalid_json() -> Scripted:
    return Scripted(b'{"choices": [{"mess')


class FakeOpenAI:
    """Answers each request with the next scripted response; with `respond`, then with what that makes of it.

    port: 0: any that is free
    requests: what came in, in order
    n_bytes: of bodies that were sent
    """

    def __init__(
        self, *script: Scripted, respond: Callable[[Received], Scripted] | None = None, port: int = 0
    ) -> None:
        self.script = deque(script)
        self.respond = respond
        self.requests: list[Received] = []
        self.n_bytes = 0
        self.stopping = threading.Event()
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", port), type("Handler", (_Handler,), {"fake": self}))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def api_base(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def add(self, *script: Scripted) -> None:
        self.script.extend(script)

    def close(self) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def next_to(self, received: Received) -> Scripted:
        """Return the response to a request."""
        with self._lock:
            self.requests.append(received)
            if self.script:
                return self.script.popleft()
        if self.respond:
            return self.respond(received)
        return failure(400, "the script of the fake server has ended")


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that were killed."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """Answers requests as its server's script says."""

    protocol_version = "HTTP/1.1"
    fake: FakeOpenAI

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        scripted = self.fake.next_to(Received(self.path, dict(self.headers), body))
        if body.get("stream") and _is_completion(scripted):
            wanted = body.get("stream_options") or {}
            has_usage = bool(wanted.get("include_usage"))
            scripted = streamed(scripted, has_usage=has_usage, pause=scripted.pause)
        stops = scripted.delay and self.fake.stopping.wait(scripted.delay)
        if stops or (scripted.drops and not scripted.pieces):
            self.close_connection = True
            return
        with suppress(BrokenPipeError, ConnectionResetError):  # the client gave up, as a test wanted
            if scripted.pieces:
                self._stream(scripted)
            else:
                self._send(scripted)
            return
        self.close_connection = True

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _send(self, scripted: Scripted) -> None:
        length = len(scripted.body) * scripted.repeats
        headers = {"Content-Type": "application/json", **scripted.headers, "Content-Length": str(length)}
        self._head(scripted.status, headers)
        for _ in range(scripted.repeats):
            self.wfile.write(scripted.body)
            self.fake.n_bytes += len(scripted.body)
            if scripted.pause and self.fake.stopping.wait(scripted.pause):
                break

    def _stream(self, scripted: Scripted) -> None:
        is_chunked = "Connection" not in scripted.headers  # else its end is that of the connection
        more = {"Transfer-Encoding": "chunked"} if is_chunked else {}
        self._head(scripted.status, {"Content-Type": "text/event-stream", **scripted.headers, **more})
        for piece in scripted.pieces * scripted.repeats:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if is_chunked else piece)
            self.fake.n_bytes += len(piece)
            if scripted.pause and self.fake.stopping.wait(scripted.pause):
                break
        if scripted.stays:
            self.fake.stopping.wait(scripted.stays)
        if scripted.drops or not is_chunked:
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the parent's name
        pass


def _is_completion(scripted: Scripted) -> bool:
    is_whole = scripted.status == 200 and scripted.repeats == 1 and not scripted.is_plain
    return is_whole and not scripted.pieces and b'"chat.completion"' in scripted.body
