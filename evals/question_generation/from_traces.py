"""Questions of production, with the answers that were given, from traces in OpenInference's attributes.

Files: OTLP as JSON or JSON lines (a collector's `file` exporter); exports of Phoenix: the table of spans as
Parquet or JSON lines, and spans as its REST API gives them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from rag_assay.evals.generation.refusals import is_refusal
from rag_assay.evals.question_generation.from_conversations import REVIEWING, ConversationQuestion
from rag_assay.evals.systems.recorded import RecordedAnswer
from rag_assay.warehouse.conversations import ShownPassage, Turn
from rag_assay.warehouse.encodable import encodable
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.files import check_regular
from rag_assay.warehouse.inference.redaction import one_line, without_known
from rag_assay.warehouse.schemas import Status

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


HEADING = f"""\
Questions of traces, to be read by a person. {REVIEWING}\
`asked` says how often it was asked in all its wordings. `passages` were found for the first one. A question
needs `evidence`, a `ground_truth`, or `answerable: false`, before it can be accepted. Names of people may
stand in questions."""

MOST = 1e15  # tokens or US dollars; larger figures are ignored
LONGEST_QUESTION = 8_000  # characters, as in the chat
_QUESTIONS = ("question", "query", "input", "user_input", "prompt", "text", "content")
_ANSWERS = ("answer", "output", "result", "response", "text", "content")
_UP = frozenset({"thumbs-up", "thumbs_up", "up", "positive", "good", "correct"})
_DOWN = frozenset({"thumbs-down", "thumbs_down", "down", "negative", "bad", "incorrect"})
_MODEL = "llm.model_name"
_REDACTED = "__REDACTED__"
Span = RecordedSpan


class TracedAnswers(NamedTuple):
    """The questions of traces in the order of asking, their answers, and how many traces hold no question."""

    asked: list[ConversationQuestion]
    answers: list[RecordedAnswer]
    without_question: int


def read_traces(paths: Sequence[Path]) -> TracedAnswers:
    traces: dict[str, dict[str, Span]] = {}
    for path in paths:
        for span in read_spans(path):
            traces.setdefault(span.trace, {})[span.id] = span
    found = TracedAnswers([], [], 0)
    sessions: dict[str, list[str]] = {}
    without = 0
    for spans in sorted((list(one.values()) for one in traces.values()), key=lambda one: one[0].start):
        root = _root(spans)
        question = _question(root, spans)
        if question is None:
            without += 1
            continue
        name = root.attributes.get("session.id")
        said = sessions.setdefault(str(name), []) if name else []
        history = tuple(said) or _history(spans, question)
        one, answer = _asked(root, spans, question, history)
        found.asked.append(one)
        found.answers.append(answer)
        said += [question, answer.answer or ""]
    return found._replace(without_question=without)


def _root(spans: Sequence[Span]) -> Span:
    ids = {one.id for one in spans}
    return next((one for one in spans if one.parent not in ids), spans[0])


def _question(root: Span, spans: Sequence[Span]) -> str | None:
    found = _text(root.attributes.get("input.value"), _QUESTIONS)
    if found is None:
        messages = (children_of(span.attributes, "llm.input_messages")[::-1] for span in spans)
        of_user = (one for some in messages for one in some if one.get("message.role") == "user")
        found = next((str(one.get("message.content", "")) for one in of_user), None)
    found = found.strip() if found else ""
    return found if found and found != _REDACTED and len(found) <= LONGEST_QUESTION else None


def _text(value: Any, names: Sequence[str]) -> str | None:
    """Return the text of an input or output: itself, or the value of one of these names in its JSON.

    >>> _text('{"messages": [{"role": "system", "content": "x"}, {"role": "user", "content": "Why?"}]}', ())
    'Why?'
    """
    if not isinstance(value, str):
        return None
    try:
        found = json.loads(value)
        return _inside(found, names) if isinstance(found, Mapping | list | str) else value
    except (ValueError, RecursionError):
        return value


def _inside(value: Any, names: Sequence[str]) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return next((text for one in reversed(value) if (text := _inside(one, names))), None)
    if not isinstance(value, Mapping):
        return None
    for name in (*names, "messages", "kwargs", "content"):
        if name in value and (text := _inside(value[name], names)):
            return text
    return None


def _history(spans: Sequence[Span], question: str) -> tuple[str, ...]:
    for span in spans:
        said = [
            (one.get("message.role"), str(one.get("message.content", "")))
            for one in children_of(span.attributes, "llm.input_messages")
            if one.get("message.role") in {"user", "assistant"}
        ]
        roles = [role for role, _ in said]
        if (
            said
            and said[-1] == ("user", question)
            and roles == (["user", "assistant"] * len(said))[: len(said)]
        ):
            return tuple(text for _, text in said[:-1])
    return ()


def _asked(
    root: Span, spans: Sequence[Span], question: str, history: tuple[str, ...]
) -> tuple[ConversationQuestion, RecordedAnswer]:
    models = [one for one in spans if one.kind == "LLM"]
    text = _text(root.attributes.get("output.value"), _ANSWERS)
    if text is None and models:
        messages = children_of(models[-1].attributes, "llm.output_messages")
        text = str(messages[-1].get("message.content", "")) if messages else None
    text = None if text == _REDACTED or root.error else text
    passages = _passages(spans)
    searches = any(one.kind in {"RETRIEVER", "RERANKER"} for one in spans)
    answer = RecordedAnswer(
        question=question,
        conversation=history,
        answer=text,
        reason=one_line(root.error) if root.error else None,
        passages=[dict(one) for one in passages] if searches else None,
        model=next((str(one.attributes[_MODEL]) for one in models if _MODEL in one.attributes), None),
        seconds=max(0.0, root.end - root.start),
        prompt_tokens=_sum(models, "llm.token_count.prompt"),
        completion_tokens=_sum(models, "llm.token_count.completion"),
        usd=_total(models, "llm.cost.total"),
    )
    declined = Status.REFUSED if text and is_refusal(text) else Status.OK
    turn = Turn(
        record_id=f"{root.trace[:32]}-{root.id[:16]}",
        at=datetime.fromtimestamp(root.start, UTC),
        number=len(history) // 2 + 1,
        cell="traces",
        question=question,
        status=Status.ERROR if text is None else declined,
        answer=text,
        asked_at=datetime.fromtimestamp(root.start, UTC).date().isoformat(),
        passages=tuple(_shown(passages)),
    )
    thumbs = {turn.record_id: thumb} if (thumb := _thumb(spans)) else {}
    return ConversationQuestion(question, (turn,), history, thumbs, ()), answer


def _passages(spans: Sequence[Span]) -> list[dict[str, Any]]:
    for span in reversed(spans):
        if span.kind == "RERANKER":
            given = _documents(span, "reranker.output_documents")
            if given and all("text" in one for one in given):
                return given
    found = [
        one for span in spans if span.kind == "RETRIEVER" for one in _documents(span, "retrieval.documents")
    ]
    return [one for number, one in enumerate(found) if one not in found[:number]]


def _documents(span: Span, name: str) -> list[dict[str, Any]]:
    found = []
    for one in children_of(span.attributes, name):
        about = _metadata(one)
        text = one.get("document.content")
        passage = {
            "text": without_known(text) if isinstance(text, str) and text != _REDACTED else None,
            "url": next(
                (about[key] for key in ("url", "source", "file_path", "file_name") if about.get(key)), None
            ),
            "doc_id": about.get("doc_id") or one.get("document.id"),
            "title": about.get("title"),
            "score": one.get("document.score"),
        }
        passage = {key: value for key, value in passage.items() if isinstance(value, str | int | float)}
        if passage.keys() & {"text", "url", "doc_id"}:
            found.append(passage)
    return found


def _metadata(document: Mapping[str, Any]) -> dict[str, Any]:
    nested = {
        key.removeprefix("document.metadata."): value
        for key, value in document.items()
        if key.startswith("document.metadata.")
    }
    try:
        found = json.loads(str(document.get("document.metadata", "{}")))
    except (ValueError, RecursionError):
        found = {}
    return {**(found if isinstance(found, dict) else {}), **nested}


def _shown(passages: Iterable[Mapping[str, Any]]) -> Iterator[ShownPassage]:
    for number, one in enumerate(passages, 1):
        if one.get("text"):
            document = str(one.get("doc_id", ""))
            try:
                yield ShownPassage(
                    number=number,
                    chunk_id=document,
                    doc_id=document,
                    text=str(one["text"]),
                    url=one.get("url"),
                )
            except ValidationError:
                continue


def _sum(spans: Sequence[Span], name: str) -> int | None:
    found = _total(spans, name)
    return None if found is None else round(found)


def _total(spans: Sequence[Span], name: str) -> float | None:
    found = [one.attributes.get(name) for one in spans]
    known = [float(one) for one in found if isinstance(one, int | float) and 0 <= one < MOST]
    return sum(known) if known and len(known) == len(spans) else None


def _thumb(spans: Sequence[Span]) -> int:
    """Return 1 or -1 by the last human annotation of a trace; 0: there is none."""
    found = 0
    for span in spans:
        for word in ("annotation", "evaluation"):
            for row in (
                *children_of(span.attributes, f"{word}s"),
                *children_of(span.attributes, f"trace.{word}s"),
            ):
                if row.get(f"{word}.annotator_kind") == "HUMAN":
                    label, score = str(row.get(f"{word}.label", "")).lower(), row.get(f"{word}.score")
                    if label in _UP | _DOWN:
                        found = 1 if label in _UP else -1
                    elif isinstance(score, int | float):
                        found = 1 if score > 0 else -1
    return found
