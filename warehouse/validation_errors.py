"""What is wrong in a YAML file, in words for a person: line, place, what would be right."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pydantic import BaseModel, ValidationError

from rag_assay.warehouse.components import one_of
from rag_assay.warehouse.errors import Mistake
from rag_assay.warehouse.suggestions import did_you_mean
from rag_assay.warehouse.yaml_positions import MarkedYaml, Place

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails


class Finding(NamedTuple):
    """A mistake before its line is known."""

    place: Place
    code: str
    text: str


NAME_RULE = "use small letters, digits, - _ +, at most 60 of them, a letter or digit first"
NAME_PATTERN = r"^[a-z0-9][a-z0-9_+-]*$"
_BRANCH = re.compile(r"(tuple|list|dict|literal|constrained|function)[\[-]")  # pydantic's name of a type
_WORDS = {
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "finite_number": "must be a finite number",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "must be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "must be a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    **dict.fromkeys(("tuple_type", "list_type"), "must be a list, as in [a, b]"),
    "dict_type": "must be a mapping, as in name: {{…}}",
    "string_type": "must be text (in quotes, where it looks like a number)",
    **dict.fromkeys(
        ("date_type", "date_parsing", "date_from_datetime_parsing", "date_from_datetime_inexact"),
        "must be a date, as in 2024-05-31",
    ),
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "needs at least {min_length}, has {actual_length}",
}


def in_words(error: ValidationError, model: type[BaseModel]) -> list[Finding]:
    found = (_in_words(detail, model) for detail in _telling(_nearest(error.errors())))
    return [one._replace(place=as_written(one.place)) for one in found]


def as_written(place: Place) -> Place:
    """Return a place of a model as that of the file: a chain is written as a list, a powerset beside `fuse`.

    >>> as_written(("retrievers", "both", "chain", "steps", 1, "top", "k"))
    ('retrievers', 'both', 1, 'top', 'k')
    >>> as_written(("retrievers", "all", "powerset", "of", 0))
    ('retrievers', 'all', 'powerset', 0)
    >>> as_written(("retrievers", "all", "powerset", "k"))
    ('retrievers', 'all', 'k')
    >>> as_written(("chunkings", "small", "chunker", "tokens", "size"))
    ('chunkings', 'small', 'tokens', 'size')
    """
    found: list[str | int] = []
    for number, part in enumerate(place):
        if part == "chunker" and number == 2 and place[0] == "chunkings":
            continue
        before, after = place[number - 1 : number], place[number + 1 : number + 2]
        is_chain = (part == "chain" and after == ("steps",)) or (part == "steps" and before == ("chain",))
        is_list = part == "of" and before == ("powerset",)
        is_beside = part == "powerset" and after not in {(), ("of",)}
        if not (is_chain or is_list or is_beside):
            found.append(part)
    return tuple(found)


def lines_of(marked: MarkedYaml, findings: Iterable[Finding]) -> list[Mistake]:
    placed = sorted(findings, key=lambda finding: marked.line(finding.place))
    found = (Mistake(one.code, marked.path, marked.line(one.place), one.text) for one in placed)
    return list(dict.fromkeys(found))


def display_place(place: Place) -> str:
    """Write a place for people: list positions count from 1.

    >>> display_place(("questions", 0, "evidence", 1, "url"))
    'questions item 1.evidence item 2.url'
    """
    text = ""
    for part in place:
        text += f" item {part + 1}" if isinstance(part, int) else f".{part}" if text else part
    return text


def _nearest(details: list[ErrorDetails]) -> list[ErrorDetails]:
    best: dict[Place, tuple[tuple[int, bool], str | int]] = {}
    branches: list[int | None] = []
    for detail in details:
        place = detail["loc"]
        at = next((n for n, part in enumerate(place) if _BRANCH.match(str(part))), None)
        branches.append(at)
        if at is not None:
            fit = (len(place), detail["type"] == "literal_error" and isinstance(detail["input"], str))
            if fit > best.get(place[:at], ((-1, False), ""))[0]:
                best[place[:at]] = (fit, place[at])
    found: list[ErrorDetails] = []
    for detail, at in zip(details, branches, strict=True):
        place = detail["loc"]
        if at is None:
            found.append(detail)
        elif best[place[:at]][1] == place[at]:
            found.append({**detail, "loc": (*place[:at], *place[at + 1 :])})
    return found


def _telling(details: list[ErrorDetails]) -> list[ErrorDetails]:
    places = [detail["loc"] for detail in details]
    return [
        detail
        for detail in details
        if not any(len(p) > len(detail["loc"]) and p[: len(detail["loc"])] == detail["loc"] for p in places)
    ]


def _in_words(detail: ErrorDetails, model: type[BaseModel]) -> Finding:
    place: Place = detail["loc"]
    code = detail["type"]
    if place and place[-1] == "[key]":
        pattern = (detail.get("ctx") or {}).get("pattern", NAME_PATTERN)
        rule = NAME_RULE if pattern == NAME_PATTERN else f"it must match {pattern}"
        return Finding(place[:-1], "bad_name", f"the name `{place[-2]}` will not do: {rule}")
    if code == "extra_forbidden":
        known = _keys_at(model, place[:-1])
        text = f"unknown key `{place[-1]}`" + (f"; {did_you_mean(str(place[-1]), known)}" if known else "")
        return Finding(place, "unknown_key", text)
    if code == "missing":
        return Finding(place, code, f"`{display_place(as_written(place))}` is missing")
    value = detail["input"]
    if value is None:
        text = f"`{display_place(as_written(place))}` is empty; give it a value or delete the line"
        return Finding(place, "empty", text)
    message = _message(detail, _keys_at(model, place))
    names_it = code == "value_error" and repr(value) in message
    is_short = isinstance(value, str | int | float) and len(str(value)) < 80
    value_text = repr(value).lower() if isinstance(value, bool) else repr(value)  # `true`, as in the file
    instead_of = f", not {value_text}" if is_short and not names_it else ""
    where = f"{display_place(as_written(place))}: " if place else ""
    return Finding(place, code, f"{where}{message}{instead_of}")


def _message(detail: ErrorDetails, keys: list[str]) -> str:
    kind, context = detail["type"], detail.get("ctx") or {}
    if kind in _WORDS:
        plain = {name: f"{bound:g}" if isinstance(bound, float) else bound for name, bound in context.items()}
        return _WORDS[kind].format(**plain)
    if kind in {"model_type", "model_attributes_type"}:
        return f"must be a mapping with keys out of {', '.join(keys)}"
    if kind == "literal_error":
        return f"must be {context['expected']}"
    if kind == "string_pattern_mismatch":
        return NAME_RULE if context["pattern"] == NAME_PATTERN else f"must match {context['pattern']}"
    return detail["msg"].removeprefix("Value error, ")


def _keys_at(model: Any, place: Place) -> list[str]:
    for part in place:
        model = _step(model, part)
        if model is None:
            return []
    choice = one_of(model)
    if choice is not None:
        return [*choice.beside, *choice.names]
    found = _model(model)
    fields = found.model_fields if found else {}
    # A field of type Path is set by the reader, and is no key of the file.
    keys: list[str] = []
    for name, field in fields.items():
        held = one_of(_typed(field))
        if held and held.beside:  # its kinds stand among the keys of what holds it
            return [*held.beside, *held.names]
        if field.annotation is not Path:
            keys.append(field.alias or name)
    return keys


def _step(annotation: Any, part: str | int) -> Any:
    choice = one_of(annotation)
    if choice is not None:
        return choice.kind(str(part))
    model = _model(annotation)
    if model is not None:
        named = {field.alias or name: field for name, field in model.model_fields.items()}
        field = named.get(str(part))
        return _typed(field) if field else None
    arguments = getattr(_unwrapped(annotation), "__args__", ())
    if not arguments:
        return None
    return arguments[0] if isinstance(part, int) else arguments[-1]


def _typed(field: FieldInfo) -> Any:
    return Annotated[(field.annotation, field, *field.metadata)]


def _unwrapped(annotation: Any) -> Any:
    while True:
        arguments = getattr(annotation, "__args__", ())
        if hasattr(annotation, "__metadata__"):
            annotation = annotation.__origin__
        elif type(None) in arguments:
            annotation = next(a for a in arguments if a is not type(None))
        else:
            return annotation


def _model(annotation: Any) -> type[BaseModel] | None:
    plain = _unwrapped(annotation)
    return plain if isinstance(plain, type) and issubclass(plain, BaseModel) else None
