"""Serves the sample sites over loopback HTTP; each site answers as its `routes.json` says.

`python -m rag_assay.crawlers.sample_site.server --port 8080`; a path names its site first:
`http://127.0.0.1:8080/blog.sample.example/page/2/`. With `--host-resolver-rules="MAP *.sample.example
127.0.0.1:8080"`, a browser finds `http://blog.sample.example/page/2/`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import signal
import string
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

FOLDER = Path(__file__).resolve().parent
SITES: dict[str, str] = {
    "energy.sample.example": "energy",
    "football.sample.example": "football",
    "blog.sample.example": "blog",
}
HTML = "text/html; charset=utf-8"


class SampleResponse(NamedTuple):
    """What the server sends for one path."""

    status: HTTPStatus
    headers: Mapping[str, str]
    body: bytes = b""


Routes = Mapping[str, SampleResponse]


def as_sent(path: str) -> str:
    """Return a path as it stands in a request: what is not ASCII, and the space, percent-encoded.

    >>> as_sent("/prüfung/?q=a%20b")
    '/pr%C3%BCfung/?q=a%20b'
    """
    return quote(path, safe=string.punctuation)


def load(folder: Path) -> Routes:
    routes = json.loads((folder / "routes.json").read_text(encoding="utf-8"))
    return {as_sent(path): _answer(folder, route) for path, route in routes.items()}


def _answer(folder: Path, route: Mapping[str, Any]) -> SampleResponse:
    if "file" in route:
        return _content(_read(folder, route["file"]), route["content_type"])
    if "redirect" in route:
        return _notice(HTTPStatus.MOVED_PERMANENTLY, {"Location": as_sent(route["redirect"])})
    return _notice(HTTPStatus(route["status"]))


def _read(folder: Path, name: str) -> bytes:
    file = (folder / name).resolve()
    if not file.is_relative_to(folder.resolve()):
        raise ValueError(f"{folder / 'routes.json'}: {name!r} lies outside the site's folder")
    return file.read_bytes()


def _content(body: bytes, content_type: str) -> SampleResponse:
    etag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
    return SampleResponse(HTTPStatus.OK, {"Content-Type": content_type, "ETag": etag}, body)


def _notice(status: HTTPStatus, headers: Mapping[str, str] | None = None) -> SampleResponse:
    title = f"{status.value} {status.phrase}"
    return SampleResponse(
        status, {"Content-Type": HTML, **(headers or {})}, _page(title, f"<h1>{title}</h1>")
    )


def _page(title: str, main: str) -> bytes:
    head = f'<meta charset="utf-8"><title>{escape(title)}</title>'
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>{main}</body></html>\n'.encode()


def _listing() -> SampleResponse:
    items = "".join(f'<li><a href="/{host}/">{host}</a></li>' for host in SITES)
    return _content(_page("Sample sites", f"<h1>Sample sites</h1><ul>{items}</ul>"), HTML)


def find(sites: Mapping[str, Routes], host: str, target: str) -> SampleResponse:
    first, _, rest = target.removeprefix("/").partition("/")
    name, path = (first, f"/{rest}") if first in sites else (host.partition(":")[0].lower(), target)
    if name in sites:
        return sites[name].get(path) or _notice(HTTPStatus.NOT_FOUND)
    return _listing() if target == "/" else _notice(HTTPStatus.NOT_FOUND)


def unchanged(answer: SampleResponse, if_none_match: str) -> bool:
    """Return whether the client already holds this answer, going by its If-None-Match header.

    >>> unchanged(SampleResponse(HTTPStatus.OK, {"ETag": '"a"'}), 'W/"a", "b"')
    True
    """
    held = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
    return "ETag" in answer.headers and (answer.headers["ETag"] in held or held == ["*"])


class _Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD from the routes, over connections that stay open."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # the body is a second write, which Nagle would hold back for 40 ms

    def __init__(self, sites: Mapping[str, Routes], *args: Any) -> None:
        self.sites = sites
        super().__init__(*args)

    def do_GET(self) -> None:
        self._send(with_body=True)

    def do_HEAD(self) -> None:
        self._send(with_body=False)

    def _send(self, *, with_body: bool) -> None:
        answer = find(self.sites, self.headers.get("Host", ""), self.path)
        if unchanged(answer, self.headers.get("If-None-Match", "")):
            self._send_head(HTTPStatus.NOT_MODIFIED, {"ETag": answer.headers["ETag"]})
            return
        self._send_head(answer.status, {**answer.headers, "Content-Length": str(len(answer.body))})
        if with_body:
            self.wfile.write(answer.body)

    def _send_head(self, status: HTTPStatus, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (named by the base class)
        """Log nothing."""


class _Server(ThreadingHTTPServer):
    """A server that lets many connections wait and does not mind a client that hangs up."""

    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def serve(port: int = 0) -> Iterator[str]:
    sites = {host: load(FOLDER / folder) for host, folder in SITES.items()}
    with _Server(("127.0.0.1", port), partial(_Handler, sites)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="sample-sites", daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Serve the sample sites on 127.0.0.1.")
    parser.add_argument("--port", type=int, default=0, help="the port; 0, the default, takes a free one")
    options = parser.parse_args(arguments)
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell starts background jobs with SIGINT ignored
        signal.signal(number, signal.default_int_handler)
    try:
        with serve(options.port) as base:
            sys.stdout.write(f"{base}\n")
            sys.stdout.flush()
            threading.Event().wait()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
