"""JSON replies: the JSON schema for the server comes from the pydantic class that reads the reply."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import BaseModel, Field, ValidationError

from rag_assay.warehouse.inference.redaction import one_line
from rag_assay.warehouse.inference.replies import Reply, together
from rag_assay.warehouse.status import Status

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

Shape = TypeVar("Shape", bound=BaseModel)
Chat = list[dict[str, str]]
Bounds = Mapping[str, Mapping[str, object]]
"""`Class.field` of a shape or its parts -> keywords of JSON Schema that are known only when it is asked."""

AGAIN = "That cannot be used: {reason}. Answer once more, with nothing but the JSON that is asked for."
"""What a model is told of a reply that cannot be read; the reply stands before it."""
MOST_ASKED = 2
"""How often a model is asked for JSON at most: a second time where its reply cannot be read."""
SHOWN = 4_000  # characters of its reply that a model is shown again: one that lost its way fills its window
LONGEST_PROSE = 200_000  # characters of a reply that is looked through for JSON
MOST_BRACES = 64  # that may begin JSON in such a reply

_KEPT = ("type", "enum", "maxLength", "minItems", "maxItems", "minimum", "maximum")
_BOUNDS = {"string": ("maxLength", "enum"), "array": ("maxItems",)}  # one of them must be there


@dataclass(frozen=True)
class Structured(Generic[Shape]):
    """What came of asking for JSON.

    value: what the model said, checked; None where it said nothing that can be used
    status: the last reply's; `parse_failed` for one that is no JSON of the shape
    """

    value: Shape | None
    status: Status
    reason: str | None
    replies: tuple[Reply, ...]

    @property
    def reply(self) -> Reply:
        return together(self.replies)


def schema_only(**keywords: object) -> Any:
    """Return a field's bounds, for `Annotated`, that the server is told and the answer is not held to."""
    found: FieldInfo = Field(json_schema_extra=dict(keywords))  # type: ignore[arg-type]
    return found


def response_format_of(shape: type[BaseModel], name: str, bounds: Bounds | None = None) -> dict[str, Any]:
    """Return the `response_format` of an object of a shape: all fields required, no others, all bounded.

    >>> class Said(BaseModel):
    ...     days: tuple[int, ...]
    >>> found = response_format_of(Said, "days", {"Said.days": {"maxItems": 2}})
    >>> found["json_schema"]["schema"]["properties"]
    {'days': {'type': 'array', 'maxItems': 2, 'items': {'type': 'integer'}}}
    """
    whole = shape.model_json_schema()
    shared = whole.get("$defs", {})
    for field, keywords in (bounds or {}).items():
        owner, _, part = field.partition(".")
        node = whole if owner == shape.__name__ else shared[owner]
        node["properties"][part] |= keywords
    schema = _bounded(whole, shared, shape.__name__)
    return {"type": "json_schema", "json_schema": {"name": name, "strict": True, "schema": schema}}


def ask_structured(
    ask: Callable[[Chat], Reply],
    messages: Chat,
    shape: type[Shape],
    check: Callable[[Shape], None] | None = None,
) -> Structured[Shape]:
    """Once more, with the error, where a reply cannot be read; not where it was cut."""
    first = read_structured(ask(messages), shape, check)
    if first.status is not Status.PARSE_FAILED:
        return first
    shown = (first.reply.raw or "").strip()[:SHOWN] or "(nothing)"  # servers refuse a turn without a text
    told = AGAIN.format(reason=one_line(first.reason or ""))
    again = [*messages, {"role": "assistant", "content": shown}, {"role": "user", "content": told}]
    second = read_structured(ask(again), shape, check)
    reason = second.reason and f"{second.reason}; of its first try: {first.reason}"
    return Structured(second.value, second.status, reason, first.replies + second.replies)


def read_structured(
    reply: Reply, shape: type[Shape], check: Callable[[Shape], None] | None = None
) -> Structured[Shape]:
    """Read a reply as a shape; ``check`` raises ValueError for what has the shape and is of no use."""
    if reply.status is not Status.OK:
        return Structured(None, reply.status, reply.reason or "no reason given", (reply,))
    try:
        value = read_json(reply.text, shape)
        if check:
            check(value)
    except ValidationError as error:
        first = error.errors()[0]
        reason = f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
    except ValueError as error:
        reason = str(error)
    else:
        return Structured(value, Status.OK, None, (reply,))
    return Structured(None, Status.PARSE_FAILED, f"the model's JSON cannot be used ({reason})", (reply,))


# Reading ---------------------------------------------------------------------------------------------------


def read_json(text: str, shape: type[Shape]) -> Shape:
    """Return the object of a shape that a text is, or the only one that it holds: fenced, or among prose.
    Nothing is repaired. Raises ValueError: there is no such object, or several that differ.

    >>> class Verdict(BaseModel):
    ...     grade: int
    >>> read_json('Sure! ```json {"grade": 4} ``` I hope this helps.', Verdict)
    Verdict(grade=4)
    """
    try:
        return shape.model_validate(_JSON.decode(text.lstrip("\ufeff")))
    except RecursionError:
        error = ValueError("nested too deeply")
    except ValueError as wrong:
        error = wrong
    values: list[Shape] = []
    for found in _objects(text):
        try:
            value = shape.model_validate(found)
        except ValidationError as wrong:
            error = error if isinstance(error, ValidationError) else wrong
        else:
            if value not in values and not shape.model_fields.keys().isdisjoint(found):
                values.append(value)
    if len(values) > 1:
        raise ValueError("it holds several JSON objects that differ")
    if not values:
        raise error
    return values[0]


def _objects(text: str) -> list[dict[str, Any]]:
    """Return the JSON objects in a text that stand in no other, nor in what was to be one; none if unsure."""
    found: list[dict[str, Any]] = []
    at = text.find("{") if len(text) <= LONGEST_PROSE else -1
    for _ in range(MOST_BRACES):
        if at < 0:
            return found
        try:
            one, end = _JSON.raw_decode(text, at)
            found.append(one)
        except (ValueError, RecursionError):
            after = _after(text, at)
            if after is None:
                return []
            end = after
        at = text.find("{", end)
    return found if at < 0 else []


def _after(text: str, at: int) -> int | None:
    """Return where to look on after a brace that begins no JSON; None: it may begin JSON that was cut."""
    depth = 0
    for token in _TOKEN.finditer(text, at):
        depth += {"{": 1, "}": -1}.get(token[0], 0)
        if not depth:
            return token.end()
    return None if _KEY.match(text, at) else at + 1


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice in an object")
    return found


def _finite(number: str) -> float:
    if not math.isfinite(float(number)):
        raise ValueError(f"{number} is not a JSON number")
    return float(number)


_JSON = json.JSONDecoder(object_pairs_hook=_once, parse_float=_finite, parse_constant=_finite)
_TOKEN = re.compile(r'"(?:[^"\\]+|\\.)*"?|[{}]', re.DOTALL)  # a string, also one without an end, or a brace
_KEY = re.compile(r"\{\s*[\"']")


# Schemas ---------------------------------------------------------------------------------------------------

Definitions = dict[str, dict[str, Any]]


def _bounded(node: dict[str, Any], shared: Definitions, place: str) -> dict[str, Any]:
    """Without references, titles and defaults, closed and bounded in every part."""
    node, shared = _resolved(node, shared, place)
    found = {key: node[key] for key in _KEPT if key in node and not (key == "maxLength" and "enum" in node)}
    kind = node.get("type")
    kinds = set(kind) if isinstance(kind, list) else {kind}
    for one, bounds in _BOUNDS.items():
        if one in kinds and not any(bound in node for bound in bounds):
            raise TypeError(
                f"{place}: bound this {one}; small models fill what is not ({' or '.join(bounds)})"
            )
    if "array" in kinds:
        found["items"] = _bounded(node.get("items", {}), shared, f"{place}[]")
    elif "object" in kinds:
        parts = node.get("properties", {})
        found["properties"] = {name: _bounded(one, shared, f"{place}.{name}") for name, one in parts.items()}
        found |= {"required": list(parts), "additionalProperties": False}
    elif not kinds & {"string", "boolean", "integer", "number"}:
        raise TypeError(f"{place}: no server decodes by {node}")
    return found


def _resolved(node: dict[str, Any], shared: Definitions, place: str) -> tuple[dict[str, Any], Definitions]:
    if "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        if name not in shared:
            raise TypeError(f"{place}: a shape cannot hold itself")
        beside = {key: value for key, value in node.items() if key != "$ref"}
        others = {key: part for key, part in shared.items() if key != name}
        return _resolved({**shared[name], **beside}, others, place)
    if "anyOf" in node:
        named = [one for one in node["anyOf"] if one.get("type") != "null"]
        if len(named) != 1 or len(node["anyOf"]) != 2:
            raise TypeError(f"{place}: a value is of one type, or null")
        beside = {key: value for key, value in node.items() if key != "anyOf"}
        one, shared = _resolved({**named[0], **beside}, shared, place)
        return {**one, "type": [one["type"], "null"]}, shared
    if "const" in node:
        return {**node, "enum": [node["const"]]}, shared
    return node, shared
