"""Bodies of requests with placeholders, and selectors of JSON in the manner of JSONPath."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator

from rag_assay.warehouse.suggestions import did_you_mean

PLACEHOLDERS = ("question", "messages", "history", "language", "question_id", "asked_at")
_PLACEHOLDER = re.compile(r"\{\{\s*([\w.]+)\s*\}\}")
_STEP = re.compile(
    r"\.\.(?P<deep>[\w-]+)|\.(?P<name>[\w-]+)|\[(?P<at>-?\d+|\*)\]|\['(?P<quoted>[^']+)'\]|\.(?P<every>\*)"
)


def placeholders_in(template: object) -> Iterator[str]:
    """Yield the names in `{{ }}` of a template: JSON whose texts may hold placeholders."""
    if isinstance(template, str):
        yield from (match[1] for match in _PLACEHOLDER.finditer(template))
    elif isinstance(template, Mapping):
        for value in template.values():
            yield from placeholders_in(value)
    elif isinstance(template, list | tuple):
        for value in template:
            yield from placeholders_in(value)


def fill(template: Any, values: Mapping[str, Any]) -> Any:
    """Put values into a template; a text that is one placeholder alone becomes the value itself.

    >>> fill({"q": "{{ question }}?", "chat": "{{history}}"}, {"question": "Why", "history": ["Hi"]})
    {'q': 'Why?', 'chat': ['Hi']}
    """
    if isinstance(template, str):
        whole = _PLACEHOLDER.fullmatch(template)
        if whole:
            return values[whole[1]]
        return _PLACEHOLDER.sub(
            lambda match: str(one) if (one := values[match[1]]) is not None else "", template
        )
    if isinstance(template, Mapping):
        return {name: fill(one, values) for name, one in template.items()}
    if isinstance(template, list | tuple):
        return [fill(one, values) for one in template]
    return template


def check_template(template: Any) -> Any:
    """Return a template whose placeholders are known and hold the question.

    Raises:
        ValueError: they are not, or do not.
    """
    found = set(placeholders_in(template))
    for name in sorted(found - set(PLACEHOLDERS)):
        raise ValueError(f"unknown placeholder `{name}`; {did_you_mean(name, PLACEHOLDERS)}")
    if not found & {"question", "messages"}:
        raise ValueError("nothing in it is the question: write {{ question }} or {{ messages }}")
    return template


def _steps(selector: str) -> list[re.Match[str]] | None:
    found, at = [], 1
    if not selector.startswith("$"):
        return None
    while at < len(selector):
        match = _STEP.match(selector, at)
        if match is None:
            return None
        found.append(match)
        at = match.end()
    return found


def _is_selector(selector: str) -> str:
    if _steps(selector) is None:
        raise ValueError(
            f"{selector!r} is not a selector; it begins with $, as in $.answer, $.sources[*].text or $..url"
        )
    return selector


Selector = Annotated[str, AfterValidator(_is_selector)]
"""`$`, then `.name`, `['name']`, `[0]`, `[-1]`, `[*]`, or `..name` for a key at any depth."""


def select(data: Any, selector: str) -> list[Any]:
    """Return what a selector finds, in order; of an item of `[*]` or `..` that lacks what follows, None.

    >>> select({"sources": [{"text": "a"}, {"url": "b"}]}, "$.sources[*].text")
    ['a', None]
    >>> select({"a": {"url": 1}, "b": [{"url": 2}]}, "$..url"), select({"a": 1}, "$.b")
    ([1, 2], [])
    """
    return select_or_none(data, selector) or []


def select_or_none(data: Any, selector: str) -> list[Any] | None:
    """Return what a selector finds; None: a key that it names is not there, which is no empty list.

    >>> [select_or_none(data, "$.a[*].b") for data in ({"a": []}, {"a": None}, {"c": []}, {"a": "x"})]
    [[], [], None, None]
    """
    found, is_listed = [data], False
    for step in _steps(selector) or ():
        of_each = [_taken(one, step) for one in found]
        if not is_listed and of_each[0] is None:
            is_empty = found[0] is None or found[0] == []
            return [] if is_empty or (step["deep"] and _has_empty_list(found[0])) else None
        is_every = bool(step["every"]) or step["at"] == "*"
        lacking = [] if is_every else [None]
        found = [value for values in of_each for value in (lacking if values is None else values)]
        is_listed = is_listed or is_every or step["deep"] is not None
    return found


def _taken(value: Any, step: re.Match[str]) -> list[Any] | None:
    """Return what a step finds in a value; None: there is nothing that it names."""
    name = step["name"] or step["quoted"]
    if name is not None:
        return [value[name]] if isinstance(value, Mapping) and name in value else None
    if step["deep"] is not None:
        return list(_deep(value, step["deep"])) or None
    if step["at"] == "*" or step["every"]:
        return _items(value) if isinstance(value, Mapping) or _is_list(value) else None
    at = int(step["at"])
    return [value[at]] if _is_list(value) and -len(value) <= at < len(value) else None


def _has_empty_list(value: Any) -> bool:
    return value == [] or any(map(_has_empty_list, _items(value)))


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _items(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    return list(value) if _is_list(value) else []


def _deep(value: Any, name: str) -> Iterator[Any]:
    if isinstance(value, Mapping) and name in value:
        yield value[name]
    for one in _items(value):
        yield from _deep(one, name)
