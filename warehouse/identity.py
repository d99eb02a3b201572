"""Content digests: two things are the same if their digests are, whatever their names."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

DIGEST_LENGTH = 20  # hex digits = 80 bits: no collision to be feared below 10^11 things

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical(value: object) -> str:
    """Write ``value`` as JSON in one form only: sorted keys, no white space, no NaN."""
    return _CANONICAL.encode(value)


def digest(value: object) -> str:
    """Return the first 20 hex digits of the SHA-256 of the canonical JSON of ``value``.

    >>> digest({"b": 1, "a": [True, None]}) == digest({"a": [True, None], "b": 1})
    True
    >>> len(digest("x"))
    20
    """
    return digest_canonical(canonical(value))


def digest_canonical(text: str) -> str:
    return sha256_text(text)[:DIGEST_LENGTH]


def digest_strings(parts: Iterable[str]) -> str:
    """Digest many strings in their order without holding them.

    >>> digest_strings(["ab", "c"]) == digest_strings(["a", "bc"])
    False
    """
    state = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        state.update(len(data).to_bytes(8, "big"))
        state.update(data)
    return state.hexdigest()[:DIGEST_LENGTH]


_PIECE = 2047  # bytes that are digested without giving other threads their turn, which costs more


def sha256_bytes(data: bytes) -> str:
    if len(data) > 16 * _PIECE:
        return hashlib.sha256(data).hexdigest()
    state = hashlib.sha256(data[:_PIECE])
    for begin in range(_PIECE, len(data), _PIECE):
        state.update(data[begin : begin + _PIECE])
    return state.hexdigest()


def sha256_text(text: str) -> str:
    return sha256_bytes(text.encode("utf-8", "surrogatepass"))


def sha256_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
