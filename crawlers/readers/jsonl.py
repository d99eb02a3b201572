"""JSON Lines and JSON: passages as strings or objects, streamed."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, ClassVar

from rag_assay.crawlers.items import Page
from rag_assay.crawlers.readers.contract import Reader
from rag_assay.crawlers.readers.files import UNREADABLE, files_of, open_file, unreadable
from rag_assay.crawlers.readers.passages import Passages
from rag_assay.warehouse.files import bounded_lines
from rag_assay.warehouse.source import Source

LINES = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
WHOLE = (".json", ".json.gz")
BLOCK = 1 << 16
_BETWEEN = re.compile(r"[, \t\r\n]*")
_AFTER = frozenset(", \t\r\n]")


class JsonLines(Reader):
    """JSON Lines and JSON: a page a passage, which is a string or an object."""

    kind: ClassVar[str] = "jsonl"

    def read(self, source: Source) -> Iterator[Page]:
        passages = Passages(source)
        for name, path in files_of(source, LINES + WHOLE):
            yield from items_of(name, path, source, passages)


def items_of(name: str, path: Path, source: Source, passages: Passages) -> Iterator[Page]:
    try:
        with open_file(path, source) as file:
            if path.name.lower().endswith(WHOLE):
                yield from _items(file, name, passages, source.limits.page_bytes)
            else:
                yield from _lines(file, name, passages, source.limits.page_bytes)
    except UNREADABLE as error:
        yield unreadable(name, error)


def _lines(file: IO[bytes], name: str, passages: Passages, limit: int) -> Iterator[Page]:
    for number, line in bounded_lines(file, limit, b"\r\n"):
        if line is None:
            yield passages.too_long(name, number)
        elif line.strip():
            yield _line(line, name, number, passages)


def _line(line: bytes, name: str, number: int, passages: Passages) -> Page:
    try:
        value = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        return passages.broken(name, number, type(error).__name__)
    return passages.page(name, number, value)


def _items(file: IO[bytes], name: str, passages: Passages, limit: int) -> Iterator[Page]:
    number = 0
    try:
        for number, value in enumerate(values(file, limit), start=1):
            yield passages.page(name, number, value)
    except (_TooLargeError, _BrokenError) as error:
        after = number + 1
        is_large = isinstance(error, _TooLargeError)
        yield passages.too_long(name, after) if is_large else passages.broken(name, after, str(error))


class _TooLargeError(Exception):
    """One item is longer than a page may be."""


class _BrokenError(Exception):
    """What follows is no JSON, so the rest cannot be parsed."""


def values(file: IO[bytes], limit: int) -> Iterator[Any]:
    decoder, utf8 = json.JSONDecoder(), codecs.getincrementaldecoder("utf-8-sig")()
    text, in_list, ended = "", None, False
    while not ended:
        block = file.read(max(BLOCK, len(text)))  # as much again: a long item is tried a few times
        ended = not block
        text, at = text + utf8.decode(block, final=ended), 0
        while (at := _BETWEEN.match(text, at).end()) < len(text):  # type: ignore[union-attr]  # it always fits
            if in_list is None:
                in_list = text[at] == "["
                at += in_list
                continue
            if in_list and text[at] == "]":
                return
            try:
                value, end = decoder.raw_decode(text, at)
            except RecursionError as error:
                raise _BrokenError("RecursionError") from error
            except ValueError:
                break  # it may go on in the next block
            if not (isinstance(value, str | dict | list) or ended or text[end : end + 1] in _AFTER):
                break  # as a number may, at any of its digits
            yield value
            at = end
        text = text[at:]
        if len(text) > limit:
            raise _TooLargeError
    if text or in_list:
        raise _BrokenError("the list does not end" if in_list and not text else "JSONDecodeError")
