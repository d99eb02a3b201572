"""Who is told on loopback: a server that webhooks are posted to, and one that speaks SMTP."""

from __future__ import annotations

import base64
import json
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

IN_URL = ("robot", "pa55-word", "s3cret-path", "t0ken-one")
"""The secrets in the URL of a webhook: user, password, path, query."""


@dataclass
class Hook:
    """A webhook: what was posted, and what is answered next (the last one from then on)."""

    url: str = ""
    posted: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    replies: list[tuple[int, dict[str, str]]] = field(default_factory=lambda: [(200, {})])
    body: bytes = b""  # of each reply

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.posted]


@contextmanager
def hook() -> Iterator[Hook]:
    """Serve a webhook until the block ends."""
    found = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.posted.append((dict(self.headers.items()), body))
            status, headers = found.replies.pop(0) if len(found.replies) > 1 else found.replies[0]
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(found.body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(found.body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (named by the base class)
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    place = f"127.0.0.1:{server.server_port}"
    found.url = f"http://robot:pa55-word@{place}/hooks/s3cret-path?token=t0ken-one"
    with _running(server):
        yield found


class ReceivedSpan(NamedTuple):
    """A span as a collector was sent it, with its attributes by name."""

    name: str
    trace: str
    id: str
    parent: str
    seconds: float
    failed: str
    links: list[str]
    attributes: dict[str, Any]

    @property
    def kind(self) -> str:
        return str(self.attributes["openinference.span.kind"])


def spans_of(body: bytes) -> list[ReceivedSpan]:
    """The spans of a request of OTLP over HTTP."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    sent = ExportTraceServiceRequest.FromString(body)
    return [
        ReceivedSpan(
            one.name,
            one.trace_id.hex(),
            one.span_id.hex(),
            one.parent_span_id.hex(),
            (one.end_time_unix_nano - one.start_time_unix_nano) / 1e9,
            one.status.message if one.status.code == 2 else "",
            [link.span_id.hex() for link in one.links],
            {at.key: getattr(at.value, at.value.WhichOneof("value")) for at in one.attributes},
        )
        for resource in sent.resource_spans
        for scope in resource.scope_spans
        for one in scope.spans
    ]


@dataclass
class Mailbox:
    """A mail server: what it took, from whom, and how it was spoken to."""

    port: int = 0
    user: str = "robot"
    password: str = "pass-w0rd"  # noqa: S105 -- of this server alone
    secured: ssl.SSLContext | None = None
    refuses: bytes = b""
    said: list[str] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)


@contextmanager
def mailbox(secured: ssl.SSLContext | None = None) -> Iterator[Mailbox]:  # noqa: C901 -- a command a branch
    """Serve a mailbox until the block ends; with a context, `STARTTLS` is offered."""
    found = Mailbox(secured=secured)

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.say(b"220 localhost")
            while line := self.rfile.readline():
                words = line.decode().strip()
                found.said.append(words.split()[0].upper() if words else "")
                if not self.answer(words):
                    return

        def say(self, line: bytes) -> None:
            self.wfile.write(line + b"\r\n")

        def answer(self, words: str) -> bool:
            command = words.upper()
            if command.startswith("EHLO"):
                lines = [b"localhost", *([b"STARTTLS"] if found.secured else []), b"AUTH PLAIN"]
                for line in lines[:-1]:
                    self.say(b"250-" + line)
                self.say(b"250 " + lines[-1])
            elif command == "STARTTLS" and found.secured:
                self.say(b"220 go")
                self.connection = found.secured.wrap_socket(self.connection, server_side=True)
                self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb", 0)
            elif command.startswith("AUTH PLAIN"):
                good = base64.b64encode(f"\0{found.user}\0{found.password}".encode()).decode()
                self.say(b"235 yes" if words.rsplit(maxsplit=1)[-1] == good else b"535 no")
            elif command == "DATA":
                self.say(b"354 go on")
                lines = []
                while (line := self.rfile.readline()) not in {b".\r\n", b""}:
                    lines.append(line)
                if found.refuses:
                    self.say(found.refuses)
                else:
                    found.messages.append(message_from_bytes(b"".join(lines), policy=default))
                    self.say(b"250 kept")
            elif command == "QUIT":
                self.say(b"221 bye")
                return False
            else:
                self.say(b"250 ok")
            return True

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    found.port = int(server.server_address[1])
    with _running(server):
        yield found


@contextmanager
def _running(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


@dataclass
class Thread:
    """The comments of pull request 7 of `acme/docs` as GitHub's API has them; status: of what is written;
    odd: what is answered in their place.
    """

    url: str = ""
    comments: list[dict[str, Any]] = field(default_factory=list)
    status: int = 201
    odd: object = None
    tokens: set[str] = field(default_factory=set)


@contextmanager
def pull_request_thread() -> Iterator[Thread]:
    """Serve the comments of a pull request until the block ends."""
    found = Thread()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = parse_qs(urlsplit(self.path).query)
            size, page = int(asked["per_page"][0]), int(asked["page"][0])
            assert urlsplit(self.path).path == "/api/repos/acme/docs/issues/7/comments"
            self.reply(200, found.odd or found.comments[(page - 1) * size : page * size])

        def do_POST(self) -> None:
            assert self.path == "/api/repos/acme/docs/issues/7/comments"
            self.write({"id": len(found.comments), "user": {"type": "Bot"}})

        def do_PATCH(self) -> None:
            folder, _, number = self.path.rpartition("/")
            assert folder == "/api/repos/acme/docs/issues/comments"
            self.write(found.comments[int(number)])

        def write(self, comment: dict[str, Any]) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            found.tokens.add(self.headers["Authorization"])
            if found.status < 300:
                comment |= body
                if comment not in found.comments:
                    found.comments.append(comment)
            self.reply(found.status, {})

        def reply(self, status: int, content: object) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (named by the base class)
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_port}/api"
    with _running(server):
        yield found
