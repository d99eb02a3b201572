"""JSON replies: the JSON schema for the server comes from the pydantic class that reads the reply."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, Field, ValidationError
from pydantic.fields import FieldInfo

from warehouse.inference.redaction import one_line
from warehouse.inference.replies import Reply, together
from warehouse.schemas import Status

Shape = TypeVar("Shape", bound=BaseModel)
Chat = list[dict[str, str]]
Bounds = Mapping[str, Mapping[str, object]]
"""`Class.field` of a shape or its parts -> keywords of JSON Schema that are known only when it is asked."""

AGAIN = "That cannot be used: {reason}. Answer once more, with nothing but the JSON that is asked for."
"""What a model is told of a reply that cannot be read; the reply stands before it."""
MOST_ASKED = 2
"""How often a model is asked for JSON at most: a second time where its reply cannot be read."""
SHOWN = 4_000  # characters of its reply that a model is shown again: one that lost its way fills its window

_KEPT = ("type", "enum", "maxLength", "minItems", "maxItems", "minimum", "maximum")
_BOUNDS = {"string": ("maxLength", "enum"), "array": ("maxItems",)}  # one of them must be there


@dataclass(frozen=True)
class Structured(Generic[Shape]):
    """What came of asking for JSON.

    value: what the model said, checked; None where it said nothing that can be used
    status: the last reply's; `parse_failed` for one that is no JSON of the shape
    reason: why there is no value, in one sentence; None where there is one
    replies: as they came: one, or two where the first could not be read
    """

    value: Shape | None
    status: Status
    reason: str | None
    replies: tuple[Reply, ...]

    @property
    def reply(self) -> Reply:
        """The last reply with the costs of all, and the raw text of the last that has one."""
        return together(self.replies)


def schema_only(**keywords: object) -> Any:
    """Return a field's bounds that the server is told and the answer is not held to.

    For `Annotated`: a model that passes such a bound is cut short by whoever reads it, not refused.
    """
    found: FieldInfo = Field(json_schema_extra=dict(keywords))  # type: ignore[arg-type]
    return found


def response_format_of(shape: type[BaseModel], name: str, bounds: Bounds | None = None) -> dict[str, Any]:
    """Return the `response_format` of an object of a shape: all fields required, no others, all bounded.

    bounds: further keywords of JSON Schema for some fields, which the answer is not held to

    Raises:
        TypeError: the shape has a part without a bound, or one that servers cannot decode by.

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
    """Ask for JSON of a shape, and once more where the reply cannot be read: with the reply and the error.

    A reply that was cut is not read, and not asked for again: it would be cut again.

    ask: sends a chat; each chat is a call of its own
    check: raises ValueError, with a reason, for what has the shape and is of no use
    """
    first = read_structured(ask(messages), shape, check)
    if first.status is not Status.PARSE_FAILED:
        return first
    second = read_structured(ask(_again(messages, first)), shape, check)
    reason = second.reason and f"{second.reason}; of its first try: {first.reason}"
    return Structured(second.value, second.status, reason, first.replies + second.replies)


def _again(messages: Chat, failed: Structured[Shape]) -> Chat:
    """Return the chat that goes on from a reply that could not be read."""
    shown = (failed.reply.raw or "").strip()[:SHOWN] or "(nothing)"  # servers refuse a turn without a text
    told = AGAIN.format(reason=one_line(failed.reason or ""))
    return [*messages, {"role": "assistant", "content": shown}, {"role": "user", "content": told}]


def read_structured(
    reply: Reply, shape: type[Shape], check: Callable[[Shape], None] | None = None
) -> Structured[Shape]:
    """Read a reply as a shape.

    check: raises ValueError, with a reason, for what has the shape and is of no use
    """
    if reply.status is not Status.OK:
        return Structured(None, reply.status, reply.reason or "no reason given", (reply,))
    try:
        value = shape.model_validate(json.loads(reply.text))
        if check:
            check(value)
    except RecursionError:
        reason = "nested too deeply"
    except ValidationError as error:
        first = error.errors()[0]
        reason = f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
    except ValueError as error:
        reason = str(error)
    else:
        return Structured(value, Status.OK, None, (reply,))
    return Structured(None, Status.PARSE_FAILED, f"the model's JSON cannot be used ({reason})", (reply,))


Definitions = dict[str, dict[str, Any]]


def _bounded(node: dict[str, Any], shared: Definitions, place: str) -> dict[str, Any]:
    """Return a schema without references, titles and defaults, closed and bounded in every part.

    shared: the definitions that it may refer to
    """
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
    """Return a schema with its reference followed and "or null" among its types; and what it may use."""
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
