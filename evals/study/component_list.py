"""Lists every part that a study can name, with its parameters and its package."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import annotated_types
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined, to_jsonable_python

from rag_assay.assets.chunking import CHUNKERS
from rag_assay.assets.embedding.component_embedders import EMBEDDERS, NOT_ITS_OWN
from rag_assay.assets.embedding.embedder import EmbedderRecipe
from rag_assay.evals.judging.contract import JUDGES
from rag_assay.evals.metrics import IN_TOKENS, METRICS
from rag_assay.evals.metrics.contract import RetrievalMetric
from rag_assay.evals.study.registry import GENERATORS, QUERY_TRANSFORMS, RETRIEVERS, RUBRICS, STEPS, SYSTEMS
from rag_assay.warehouse.components import OneOf, one_of
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.registry import Registry, package_of
from rag_assay.warehouse.source import Source, keys_of
from rag_assay.warehouse.source_kinds import READERS, SPIDERS

REGISTRIES: dict[str, Registry[Any]] = {
    registry.group: registry
    for registry in (
        SPIDERS,
        READERS,
        CHUNKERS,
        EMBEDDERS,
        RETRIEVERS,
        STEPS,
        QUERY_TRANSFORMS,
        GENERATORS,
        SYSTEMS,
        JUDGES,
        RUBRICS,
        METRICS,
    )
}
_DESCRIBED = re.compile(r"^([a-z][a-z_0-9]*(?:, [a-z][a-z_0-9]*)*): (.*)$")
_PLAIN = {bool: "true or false", int: "whole number", float: "number", str: "text"}


@dataclass(frozen=True)
class Parameter:
    """default: as JSON; None where `required`; about: from the class's docstring"""

    name: str
    type: str
    default: Any
    required: bool
    bounds: str
    about: str


@dataclass(frozen=True)
class PartFacts:
    """package: with its version; None: our own; broken: why it cannot be used, if so"""

    group: str
    name: str
    about: str
    parameters: tuple[Parameter, ...] = ()
    package: str | None = None
    broken: str | None = None


def part_list(group: str | None = None) -> list[PartFacts]:
    if group is not None and group not in REGISTRIES:
        raise InputError(f"there are no {group!r}; the kinds of parts are {', '.join(REGISTRIES)}")
    chosen = REGISTRIES.values() if group is None else [REGISTRIES[group]]
    return [facts for registry in chosen for facts in _of_registry(registry)]


def _of_registry(registry: Registry[Any]) -> Iterator[PartFacts]:
    for name in registry.built_in:
        yield _facts(registry, name, registry[name])
    if registry is EMBEDDERS:  # written without a kind of its own
        yield PartFacts(
            registry.group, "model", _first_line(EmbedderRecipe), tuple(_parameters(EmbedderRecipe))
        )
    for entry in sorted(registry.entries(), key=lambda entry: (entry.name, package_of(entry))):
        broken = registry.broken(entry)
        if broken is None:
            yield _facts(registry, entry.name, registry[entry.name], package_of(entry))
        else:
            yield PartFacts(registry.group, entry.name, "", (), package_of(entry), broken)


def _facts(registry: Registry[Any], name: str, kind: Any, package: str | None = None) -> PartFacts:
    parameters: list[Parameter] = []
    if issubclass(kind, BaseModel):
        left_out = {"revision", *NOT_ITS_OWN} if registry is EMBEDDERS else set()
        if registry is SYSTEMS:  # what it has of generators, and cannot be set
            left_out = {name for name, field in kind.model_fields.items() if field.annotation is NoneType}
        parameters += [one for one in _parameters(kind) if one.name not in left_out]
    if registry is METRICS and issubclass(kind, RetrievalMetric):
        parameters.append(Parameter("k", "whole number", None, True, "1 to 9999", "depth, written `@K`"))
        if name in IN_TOKENS:
            about = "budget of context in place of a depth, written `@Ntokens`"
            parameters.append(Parameter("tokens", "whole number", None, False, "1 to 9,999,999", about))
    if registry is SPIDERS:
        parameters += _parameters(kind.Options)
    if registry in (SPIDERS, READERS):
        known = keys_of(name, is_spider=registry is SPIDERS)
        parameters += [one for one in _parameters(Source) if one.name in known]
    about = getattr(kind, "explanation", "") if registry is METRICS else _first_line(kind)
    return PartFacts(registry.group, name, about, tuple(parameters), package)


def _first_line(kind: type) -> str:
    return (inspect.getdoc(kind) or "").partition("\n")[0].strip()


def _parameters(kind: type[BaseModel]) -> list[Parameter]:
    about = described(kind)
    return [
        Parameter(
            field.alias or name,
            _type(field.annotation, field),
            default_of(field),
            field.is_required(),
            _bounds(field),
            about.get(field.alias or name, ""),
        )
        for name, field in kind.model_fields.items()
    ]


def described(kind: type) -> dict[str, str]:
    """Return parameter -> description from the docstrings of a class and its bases, its own first.

    >>> class Cut:
    ...     '''Cuts.
    ...
    ...     size, step: tokens of a window,
    ...         and from one to the next
    ...     '''
    >>> described(Cut)["step"]
    'tokens of a window, and from one to the next'
    """
    found: dict[str, str] = {}
    for one in kind.__mro__:
        if one not in (BaseModel, object) and one.__doc__:
            found = {**described_in(one.__doc__), **found}
    return found


def described_in(text: str) -> dict[str, str]:
    """Return name -> description from the lines `name, name: description` of a docstring or comment."""
    names: list[str] = []
    texts: dict[str, str] = {}
    for line in inspect.cleandoc(text).splitlines():
        match = _DESCRIBED.match(line)
        if match:
            names = match[1].split(", ")
            texts |= dict.fromkeys(names, match[2])
        elif names and line.startswith("    "):
            texts |= {name: f"{texts[name]} {line.strip()}" for name in names}
        else:
            names = []
    return texts


def _type(annotation: Any, field: FieldInfo | None = None) -> str:
    choice = (choice_of(field) if field else None) or one_of(annotation)
    if choice is not None:
        return " or ".join(f"a {sort}" for sort in choice.sorts)
    if hasattr(annotation, "__metadata__"):
        return _type(annotation.__origin__)
    if get_args(annotation):
        return _type_of_several(get_origin(annotation), get_args(annotation))
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        keys = [field.alias or name for name, field in annotation.model_fields.items()]
        return f"mapping of {', '.join(keys)}" if keys else "mapping"
    return _PLAIN.get(annotation, "value")


def _type_of_several(origin: Any, arguments: tuple[Any, ...]) -> str:
    if origin is Literal:
        return " or ".join(str(to_jsonable_python(value)) for value in arguments)
    if origin in (tuple, list):
        return f"list of {_type(arguments[0]).removeprefix('a ')}"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "mapping"
    return " or ".join(dict.fromkeys(_type(one) for one in arguments if one is not NoneType))


def default_of(field: FieldInfo) -> Any:
    default = field.get_default(call_default_factory=True)
    if default is PydanticUndefined:
        return None
    return default.model_dump(mode="json") if isinstance(default, BaseModel) else to_jsonable_python(default)


def choice_of(field: FieldInfo) -> OneOf | None:
    return next((mark for mark in field.metadata if isinstance(mark, OneOf)), None)


def _bounds(field: FieldInfo) -> str:
    marks = [*field.metadata, *chain.from_iterable(map(marks_of, get_args(field.annotation)))]
    least = next((f"{mark.ge:,}" for mark in marks if isinstance(mark, annotated_types.Ge)), None)
    most = next((f"{mark.le:,}" for mark in marks if isinstance(mark, annotated_types.Le)), None)
    above = next((f"more than {mark.gt:,}" for mark in marks if isinstance(mark, annotated_types.Gt)), None)
    below = next((f"less than {mark.lt:,}" for mark in marks if isinstance(mark, annotated_types.Lt)), None)
    if least and most:
        return f"{least} to {most}"
    words = [above, least and f"at least {least}", below, most and f"at most {most}"]
    return ", ".join(word for word in words if word)


def marks_of(annotation: Any) -> Iterator[Any]:
    for mark in getattr(annotation, "__metadata__", ()):
        yield from mark.metadata if isinstance(mark, FieldInfo) else (mark,)
