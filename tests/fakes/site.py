"""A scripted web site on loopback: what it answers is said per path, what it was asked is kept."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HTML = "text/html; charset=utf-8"


@dataclass(frozen=True)
class Reply:
    """One answer. With an `etag`, a request that knows it is answered 304 without a body."""

    body: bytes | str = b""
    content_type: str | None = HTML
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    etag: str | None = None
    seconds: float = 0  # before the answer
    needs_cookie: str = ""  # without it, 403
    unsized: bool = False  # sends no Content-Length, and closes the connection at the end

    @property
    def data(self) -> bytes:
        return self.body.encode() if isinstance(self.body, str) else self.body


@dataclass(frozen=True)
class Asked:
    """One request that came in, and how many bytes of a body it was sent."""

    path: str
    headers: dict[str, str]
    at: float
    sent: int


class Site:
    """The script: `site["/path?query"] = Reply(…)`; anything else is 404, `/robots.txt` too at first."""

    def __init__(self) -> None:
        self.replies: dict[str, Reply] = {}
        self.once: dict[str, Reply] = {}  # answered before the one in `replies`
        self.asked: list[Asked] = []
        self.forms: dict[str, Callable[[str], Reply]] = {}  # path -> the answer to a form that is sent there
        self.base = ""
        self._lock = threading.Lock()
        self._admitting = threading.Condition()
        self._answers_left: int | None = None

    def __setitem__(self, path: str, reply: Reply) -> None:
        self.replies[path] = reply

    def url(self, path: str) -> str:
        return self.base + path

    def paths(self) -> list[str]:
        """The paths that were asked for, robots.txt aside, in their order."""
        with self._lock:
            return [one.path for one in self.asked if one.path != "/robots.txt"]

    def forget(self) -> None:
        with self._lock:
            self.asked.clear()

    def allow(self, answers: int | None) -> None:
        """Answer so many requests from now on and let all others wait; None answers all.

        So a crawl stands still at a known place, however fast or slow the machine is.
        """
        with self._admitting:
            self._answers_left = answers
            self._admitting.notify_all()

    def admit(self) -> None:
        """Wait until one more answer is allowed."""
        with self._admitting:
            self._admitting.wait_for(lambda: self._answers_left != 0, timeout=200)
            if self._answers_left:
                self._answers_left -= 1

    def note(self, asked: Asked) -> None:
        with self._lock:
            self.asked.append(asked)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    site: Site

    def do_GET(self) -> None:
        at = time.monotonic()
        usual = self.site.replies.get(self.path, Reply("no such page", status=404))
        reply = self.site.once.pop(self.path, usual)
        if reply.needs_cookie and reply.needs_cookie not in (self.headers.get("Cookie") or ""):
            reply = Reply("log in first", status=403)
        known = reply.etag is not None and self.headers.get("If-None-Match") == reply.etag
        sent = 0 if known else len(reply.data)
        self.site.note(Asked(self.path, dict(self.headers.items()), at, sent))
        self.site.admit()
        time.sleep(reply.seconds)
        try:
            self._send(reply, known)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def do_POST(self) -> None:
        form = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        answer = self.site.forms.get(self.path, lambda _: Reply("no such form", status=404))
        self.site.note(Asked(self.path, dict(self.headers.items()), time.monotonic(), 0))
        self._send(answer(form), known=False)

    def _send(self, reply: Reply, known: bool) -> None:
        self.send_response(304 if known else reply.status)
        if reply.content_type and not known:
            self.send_header("Content-Type", reply.content_type)
        if reply.etag:
            self.send_header("ETag", reply.etag)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if reply.unsized:
            self.close_connection = True
            self.send_header("Connection", "close")
        else:
            self.send_header("Content-Length", "0" if known else str(len(reply.data)))
        self.end_headers()
        if not known:
            self.wfile.write(reply.data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (named by the base class)
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that went away: tests kill them."""


@contextmanager
def serving() -> Iterator[Site]:
    """Serve an empty site until the block ends."""
    site = Site()
    handler = type("Handler", (_Handler,), {"site": site})
    server = _Server(("127.0.0.1", 0), handler)
    site.base = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()


def article(title: str, *links: str, text: str = "Some text.", head: str = "") -> str:
    """A page that calls itself an article."""
    return (
        f'<!DOCTYPE html><html><head><title>{title}</title><meta property="og:type" content="article">'
        f"{head}</head><body><article><h1>{title}</h1><p>{text}</p></article>{anchors(*links)}</body></html>"
    )


def index(*links: str, following: str | None = None) -> str:
    """A page of links, and the next page of the same row."""
    onward = f'<a rel="next" href="{following}">on</a>' if following else ""
    return f"<!DOCTYPE html><html><body>{anchors(*links)}{onward}</body></html>"


def anchors(*links: str) -> str:
    return "".join(f'<a href="{link}">{link.rpartition("/")[2]}</a>' for link in links)
