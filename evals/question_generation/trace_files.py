"""Reads spans of OpenInference from files: OTLP as JSON or JSON lines, and exports of Phoenix.

OTLP: what a collector's `file` exporter writes, a request or a line of one. Phoenix: the table of spans as
Parquet or JSON lines, and spans as its REST API gives them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from rag_assay.warehouse.encodable import encodable
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.files import check_regular

LATEST = 253_402_300_800  # seconds from 1970 to the year 10000
DIGITS = 9  # of a number in a flattened list
_PLAIN = str | int | float | bool


class RecordedSpan(NamedTuple):
    """A span as a file has it; parent: empty for a root; times: seconds since 1970"""

    trace: str
    id: str
    parent: str
    start: float
    end: float
    error: str | None
    attributes: dict[str, Any]

    @property
    def kind(self) -> str:
        return str(self.attributes.get("openinference.span.kind", "")).upper()


def read_spans(path: Path) -> list[RecordedSpan]:
    """Return the spans of a file, the earliest first; InputError with file and line: it holds none."""
    check_regular(path)
    rows = _parquet(path) if path.suffix == ".parquet" else _json(path)
    found: dict[tuple[str, str], RecordedSpan] = {}
    for place, row in rows:
        try:
            spans = list(_spans_in(row, place))
        except RecursionError:
            raise InputError(f"{place}: its JSON is nested too deeply") from None
        for span in spans:
            if not (0 <= span.start < LATEST and 0 <= span.end < LATEST):
                raise InputError(f"{place}: the times of a span are not between the years 1970 and 9999")
            found[span.trace, span.id] = span
    if not found:
        raise InputError(f"{path}: there are no spans in it")
    return sorted(found.values(), key=lambda one: (one.start, one.end))


def _parquet(path: Path) -> Iterator[tuple[str, Any]]:
    import polars as pl

    try:
        rows = pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(f"{path}: it is not a Parquet file: {error}") from None
    for number, row in enumerate(rows.iter_rows(named=True), 1):
        yield f"{path}: row {number}", row


def _json(path: Path) -> Iterator[tuple[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path}: it is not UTF-8 text; OTLP is read as JSON, not as protobuf") from None
    try:
        whole = [(str(path), json.loads(text))]
    except RecursionError:
        raise InputError(f"{path}: its JSON is nested too deeply") from None
    except ValueError:
        whole = [
            (f"{path}:{n}", _line(line, f"{path}:{n}"))
            for n, line in enumerate(text.splitlines(), 1)
            if line.strip()
        ]
    yield from whole


def _line(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place}: it is not JSON: {error}") from None


def _spans_in(data: Any, place: str) -> Iterator[RecordedSpan]:
    if isinstance(data, list):
        for number, one in enumerate(data):
            yield from _spans_in(one, f"{place}[{number}]")
    elif isinstance(data, Mapping) and ("resourceSpans" in data or "resource_spans" in data):
        try:
            scopes = [
                scope
                for resource in _get(data, "resourceSpans") or ()
                for scope in _get(resource, "scopeSpans") or ()
            ]
            spans = [one for scope in scopes for one in scope.get("spans") or ()]
        except (AttributeError, TypeError) as error:
            raise InputError(f"{place}: it is not an OTLP request: {error}") from None
        yield from (_of_otlp(one, place) for one in spans)
    elif isinstance(data, Mapping) and isinstance(data.get("data"), list):
        yield from _spans_in(data["data"], f"{place}.data")
    elif isinstance(data, Mapping) and ("context" in data or "context.trace_id" in data):
        yield _of_phoenix(data, place)
    else:
        raise InputError(
            f"{place}: it is not a span; give OTLP as JSON (`resourceSpans`), or spans exported from Phoenix"
        )


def _get(data: Mapping[str, Any], name: str) -> Any:
    snake = "".join(f"_{one.lower()}" if one.isupper() else one for one in name)
    return data.get(name, data.get(snake))


def _of_otlp(span: Any, place: str) -> RecordedSpan:
    try:
        status = span.get("status") or {}
        failed = status.get("code") in {2, "STATUS_CODE_ERROR"}
        flat: dict[str, Any] = {}
        for one in span.get("attributes") or ():
            _flatten(str(one["key"]), _otlp_value(one["value"]), flat)
        return RecordedSpan(
            _id(_get(span, "traceId")),
            _id(_get(span, "spanId")),
            _id(_get(span, "parentSpanId") or ""),
            int(_get(span, "startTimeUnixNano")) / 1e9,
            int(_get(span, "endTimeUnixNano")) / 1e9,
            str(status.get("message") or "failed") if failed else None,
            flat,
        )
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise InputError(f"{place}: a span cannot be read: {type(error).__name__}: {error}") from None


def _id(value: Any) -> str:
    return encodable(str(value))


def _otlp_value(value: Mapping[str, Any]) -> Any:
    kind, found = next(iter(value.items()), ("stringValue", None))  # type: tuple[str, Any]
    match kind.replace("_", "").lower():
        case "intvalue":
            return int(found)
        case "arrayvalue":
            return [_otlp_value(one) for one in found.get("values") or ()]
        case "kvlistvalue":
            return {one["key"]: _otlp_value(one["value"]) for one in found.get("values") or ()}
    return found


def _of_phoenix(row: Mapping[str, Any], place: str) -> RecordedSpan:
    try:
        context = row.get("context") or {}
        flat: dict[str, Any] = {}
        _flatten("", row.get("attributes") or {}, flat)
        for name, value in row.items():
            if name.startswith("attributes."):
                _flatten(name.removeprefix("attributes."), value, flat)
        flat.setdefault("openinference.span.kind", row.get("span_kind") or "")
        failed = str(row.get("status_code", "")).upper() == "ERROR"
        return RecordedSpan(
            _id(context.get("trace_id") or row["context.trace_id"]),
            _id(context.get("span_id") or row["context.span_id"]),
            _id(row.get("parent_id") or ""),
            _seconds(row["start_time"]),
            _seconds(row.get("end_time") or row["start_time"]),
            str(row.get("status_message") or "failed") if failed else None,
            flat,
        )
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise InputError(f"{place}: a span cannot be read: {type(error).__name__}: {error}") from None


def _seconds(time: Any) -> float:
    """Return a time as seconds since 1970: ISO 8601, or milliseconds as pandas writes them."""
    if isinstance(time, str):
        time = datetime.fromisoformat(time)
    if isinstance(time, datetime):
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    return float(time) / 1000


def _flatten(name: str, value: Any, into: dict[str, Any]) -> None:
    """Put a value and those inside it under names with dots; what is missing or not finite is left out."""
    prefix = f"{name}." if name else ""
    if isinstance(value, Mapping):
        for key, one in value.items():
            _flatten(f"{prefix}{key}", one, into)
    elif isinstance(value, _PLAIN):
        if not isinstance(value, float) or math.isfinite(value):
            into[name] = encodable(value) if isinstance(value, str) else value
    elif isinstance(value, Iterable):
        for number, one in enumerate(value):
            _flatten(f"{prefix}{number}", one, into)


def children_of(attributes: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """
    >>> children_of({"d.0.id": "a", "d.1.id": "b", "d.1.score": 0.5}, "d")
    [{'id': 'a'}, {'id': 'b', 'score': 0.5}]
    """
    found: dict[int, dict[str, Any]] = {}
    for key, value in attributes.items():
        number, _, rest = key.removeprefix(f"{name}.").partition(".")
        if key.startswith(f"{name}.") and number.isdecimal() and len(number) <= DIGITS:
            found.setdefault(int(number), {})[rest] = value
    return [found[number] for number in sorted(found)]
