"""Reader of WARC files of web archives: the responses in them (ISO 28500, WARC/1.0 and 1.1)."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from http.client import HTTPException, HTTPMessage, parse_headers
from io import BytesIO
from typing import IO, Any, ClassVar

from rag_assay.crawlers.items import Page
from rag_assay.crawlers.readers.contract import Reader
from rag_assay.crawlers.readers.files import UNREADABLE, failed_page, files_of, open_file, unreadable
from rag_assay.warehouse.pages import decode, media_type
from rag_assay.warehouse.source import Source

SUFFIXES = (".warc", ".warc.gz")
VERSIONS = (b"WARC/1.0", b"WARC/1.1")
READABLE = frozenset({"text/html", "application/xhtml+xml", "text/plain", "text/markdown", "application/pdf"})
BLOCK = 1 << 16
HEAD = 1 << 16  # bytes that the HTTP head may add to a page


class WarcFiles(Reader):
    """WARC files, as archiving crawlers write them: a page an answer in them."""

    kind: ClassVar[str] = "warc"

    def read(self, source: Source) -> Iterator[Page]:
        for name, path in files_of(source, SUFFIXES):
            try:
                with open_file(path, source) as file:
                    yield from _responses(file, source.limits.page_bytes)
            except UNREADABLE as error:
                yield unreadable(name, error)


def _responses(file: IO[bytes], limit: int) -> Iterator[Page]:
    while head := _record(file):
        size = int(head["Content-Length"] or "")
        url = _utf8(head["WARC-Target-URI"] or "").strip("<>")
        if (head["WARC-Type"] or "").lower() != "response" or not url.startswith(("http://", "https://")):
            _skip(file, size)
        elif size > limit + HEAD:
            _skip(file, size)
            yield failed_page(url, f"larger than {limit} bytes")
        else:
            yield _page(url, _exactly(file, size), head["WARC-Date"], limit)


def _record(file: IO[bytes]) -> HTTPMessage | None:
    while (line := file.readline(BLOCK)) in {b"\r\n", b"\n"}:
        pass
    if not line:
        return None
    if line.strip() not in VERSIONS:
        raise ValueError(f"no WARC record, but {line[:20]!r}")
    try:
        head = parse_headers(file)
    except HTTPException as error:  # too many lines, or too long ones
        raise ValueError(f"the head of a WARC record: {error}") from error
    if not (head["Content-Length"] or "").isdecimal():
        raise ValueError("a WARC record without a length")
    return head


def _utf8(value: str) -> str:
    return value.encode("latin-1", "replace").decode("utf-8", "replace")


def _skip(file: IO[bytes], size: int) -> None:
    while size > 0:
        size -= len(_exactly(file, min(size, BLOCK)))


def _exactly(file: IO[bytes], size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise EOFError
    return data


def _page(url: str, record: bytes, date: str | None, limit: int) -> Page:
    block = BytesIO(record)
    status = block.readline().split(None, 2)[1:2]
    try:
        code, head = int(status[0]), parse_headers(block)
        body = _decoded(block.read(), head, limit)
    except EOFError:
        return failed_page(url, "truncated: the packed body ends early")
    except (ValueError, IndexError, HTTPException, zlib.error) as error:
        return failed_page(url, f"cannot be read: {error}")
    kind = media_type(head["Content-Type"])
    about: dict[str, Any] = {
        "status": code,
        "content_type": head["Content-Type"],
        "etag": head["ETag"],
        "last_modified": head["Last-Modified"],
        "fetched_at": _time(date),
    }
    reason = _reason(code, kind, body, limit)
    if reason:
        return Page(url, url, reason=reason, **about)
    fields = {} if kind == "application/pdf" else {"encoding": decode(body, head["Content-Type"])[1]}
    return Page(url, url, body=body, fields=fields, **about)


def _reason(status: int, kind: str, body: bytes, limit: int) -> str | None:
    if status != 200:
        return f"status {status}"
    if kind not in READABLE:
        return f"not text: {kind or 'unknown'}"
    if len(body) > limit:
        return f"larger than {limit} bytes"
    return None if body else "empty answer"


def _time(text: str | None) -> datetime:
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return datetime.now(UTC)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _decoded(body: bytes, head: HTTPMessage, limit: int) -> bytes:
    if "chunked" in (head["Transfer-Encoding"] or "").lower():
        body = _unchunked(body)
    for encoding in reversed((head["Content-Encoding"] or "identity").lower().split(",")):
        body = _unpacked(body, encoding.strip(), limit)
    return body


def _unchunked(body: bytes) -> bytes:
    block, parts = BytesIO(body), []
    while line := block.readline(64):
        try:
            size = int(line.partition(b";")[0], 16)
        except ValueError:
            return body
        if not size:
            break
        parts.append(block.read(size))
        block.readline(4)
    return b"".join(parts)


def _unpacked(body: bytes, encoding: str, limit: int) -> bytes:
    if encoding in {"", "identity"}:
        return body
    if encoding not in {"gzip", "x-gzip", "deflate"}:
        raise ValueError(f"Content-Encoding {encoding} is not known")
    if encoding != "deflate" and not body.startswith(b"\x1f\x8b"):
        return body  # unpacked by the archiver, who left the header
    unpacker = zlib.decompressobj(47 if encoding != "deflate" or body[:1] == b"\x78" else -15)
    found = unpacker.decompress(body, limit + 1)
    if len(found) > limit:
        raise ValueError(f"larger than {limit} bytes when unpacked")
    if not unpacker.eof:
        raise EOFError
    return found
