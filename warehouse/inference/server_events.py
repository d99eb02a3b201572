"""Server-sent events, as servers stream completions: from bytes that may be cut anywhere.

The format: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

DONE = "[DONE]"
"""What servers send as the last event of a completion."""

_LINE_END = re.compile(rb"\r\n|\r|\n")


class ServerSentEvent(NamedTuple):
    """One event; `name` is empty unless the server gives one."""

    name: str
    data: str


def events(parts: Iterable[bytes]) -> Iterator[ServerSentEvent]:
    r"""Yield the events of a stream; comments, ids and reconnection times are passed over.

    What the end of the stream has cut off is no event; a whole one that lacks its blank line is.

    >>> list(events([b": alive\r\n\r\nda", b"ta: caf\xc3", b"\xa9\r", b"\n\r\ndata: [DONE]"]))
    [ServerSentEvent(name='', data='café'), ServerSentEvent(name='', data='[DONE]')]

    Raises:
        UnicodeDecodeError: a line is no UTF-8.
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
