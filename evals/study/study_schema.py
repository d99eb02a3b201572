"""JSON Schema of study files, for editors; checks across keys are left to `assay check`."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from datetime import date, datetime
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import annotated_types
from pydantic import BaseModel, BeforeValidator, SecretStr
from pydantic.fields import FieldInfo

from rag_assay.assets.embedding.component_embedders import EMBEDDERS, NOT_ITS_OWN
from rag_assay.assets.embedding.embedder import EmbedderRecipe
from rag_assay.assets.recipes.build_half import Chunking
from rag_assay.evals.judging.cards.labels import LabelFile
from rag_assay.evals.metrics import IN_TOKENS, METRICS
from rag_assay.evals.metrics.contract import RetrievalMetric
from rag_assay.evals.retrieval.chain import Chain
from rag_assay.evals.retrieval.powerset import Powerset
from rag_assay.evals.study.component_list import choice_of, default_of, described, marks_of
from rag_assay.evals.study.imported_study import BUILT, GRID, IMPORTS, SHEET_CELLS, ImportedStudy, SystemStudy
from rag_assay.evals.study.registry import SYSTEMS
from rag_assay.evals.study.sections import Schedule
from rag_assay.evals.study.study import MetricName, Study
from rag_assay.evals.systems.contract import SHORT, CalledSystem
from rag_assay.evals.systems.python_system import Python
from rag_assay.warehouse.components import OneOf, one_of

DIALECT = "http://json-schema.org/draft-07/schema#"  # what YAML language servers know best
_VARIABLE = {"type": "string", "pattern": r"\$\{"}  # `${NAME}`: the value of an environment variable
_PLAIN: dict[Any, dict[str, Any]] = {
    bool: {"anyOf": [{"type": "boolean"}, _VARIABLE]},
    int: {"anyOf": [{"type": "integer"}, {"type": "string", "pattern": r"\$\{|^-?\d+$"}]},
    float: {"anyOf": [{"type": "number"}, {"type": "string", "pattern": r"\$\{|^[-+.\deE]+$"}]},
    NoneType: {"type": "null"},
    date: {"type": "string"},
    datetime: {"type": "string"},
}
_TEXT = {"type": "string"}
_SHORT = (Schedule, LabelFile)
"""Models that a text may stand for."""
_LENGTHS = {"string": "Length", "array": "Items", "object": "Properties"}
_NOT_WRITTEN = {"path", SHEET_CELLS}


def study_schema() -> dict[str, Any]:
    schema = _Schema()
    built, imported = schema.model(Study), schema.model(ImportedStudy, leave_out=BUILT)
    of_systems = schema.model(SystemStudy, leave_out=GRID)
    imports = {"required": [IMPORTS]}
    systems = {"required": ["systems"], "not": {"anyOf": [{"required": [key]} for key in GRID]}}
    return {
        "$schema": DIALECT,
        "title": "rag-assay study",
        "type": "object",
        "if": imports,
        "then": imported,
        "else": {"if": systems, "then": of_systems, "else": built},
        "definitions": dict(sorted(schema.definitions.items())),
    }


def schema_text() -> str:
    return json.dumps(study_schema(), ensure_ascii=False, indent=1) + "\n"


class _Schema:
    def __init__(self) -> None:
        self.definitions: dict[str, dict[str, Any]] = {}

    def model(self, kind: type[BaseModel], leave_out: tuple[str, ...] = ()) -> dict[str, Any]:
        left_out = {*leave_out, *(_NOT_WRITTEN if issubclass(kind, Study) else ())}
        return self._defined(kind.__name__, lambda: self._model(kind, left_out))

    def _defined(self, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        if name not in self.definitions:
            self.definitions[name] = {}  # it may hold itself
            self.definitions[name] = make()
        return {"$ref": f"#/definitions/{name}"}

    def _model(self, kind: type[BaseModel], leave_out: set[str]) -> dict[str, Any]:
        about = described(kind)
        properties: dict[str, Any] = {}
        required = []
        for name, field in kind.model_fields.items():
            key = field.alias or name
            if key in leave_out:
                continue
            choice = choice_of(field)
            if choice is not None and choice.beside:  # its kinds are keys beside the others
                properties |= {one: self._kind(choice, one) for one in choice.names}
                continue
            found = self.field(field)
            if about.get(key):
                found = {**_beside_reference(found), "description": about[key]}
            if field.is_required():
                required.append(key)
            elif (default := default_of(field)) is not None:
                found = {**_beside_reference(found), "default": default}
            properties[key] = found
        schema: dict[str, Any] = {
            "type": "object",
            "description": (inspect.getdoc(kind) or "").partition("\n\n")[0],
            "properties": properties,
            "additionalProperties": False,
        }
        if required:
            schema["required"] = required
        if kind is Chunking:
            schema["minProperties"] = 1
        return {"anyOf": [_TEXT, schema]} if kind in _SHORT else schema

    def field(self, field: FieldInfo) -> dict[str, Any]:
        choice = choice_of(field)
        found = self.choice(choice) if choice else self.type(field.annotation, field.metadata)
        is_optional = NoneType in get_args(field.annotation)
        return {"anyOf": [found, _PLAIN[NoneType]]} if is_optional and choice else found

    def type(self, annotation: Any, marks: list[Any] | None = None) -> dict[str, Any]:  # noqa: PLR0911 -- a type each
        choice = one_of(annotation)
        if choice is not None:
            return self.choice(choice)
        if annotation is MetricName:
            return self._metric()
        if hasattr(annotation, "__metadata__"):
            inner = list(marks_of(annotation))
            found = self.type(annotation.__origin__, [*(marks or []), *inner])
            # What reads it before its type is a short form: a text.
            is_short = "$ref" in found and any(isinstance(one, BeforeValidator) for one in inner)
            return {"anyOf": [_TEXT, found]} if is_short else found
        if get_args(annotation):
            return self._of_several(get_origin(annotation), get_args(annotation), marks or [])
        if not isinstance(annotation, type):
            return {}
        if issubclass(annotation, EmbedderRecipe):
            return self._defined("embedder", self._embedder)
        if issubclass(annotation, BaseModel):
            return self.model(annotation)
        default = _TEXT if issubclass(annotation, (str, Path, SecretStr)) else {}
        return _bounded(_PLAIN.get(annotation) or default, marks or [])

    def _of_several(self, origin: Any, arguments: tuple[Any, ...], marks: list[Any]) -> dict[str, Any]:
        if origin is Literal:
            return {"enum": list(arguments)}
        if origin in (tuple, list, frozenset, set):
            items = [one for one in arguments if one is not Ellipsis]
            found: dict[str, Any] = {"type": "array", "items": self.type(items[0])}
            if origin is tuple and Ellipsis not in arguments:
                found = {"type": "array", "items": [self.type(one) for one in items], "maxItems": len(items)}
            return _bounded(found, marks)
        if isinstance(origin, type) and issubclass(origin, Mapping):
            names = self.type(arguments[0])
            found = {"type": "object", "additionalProperties": self.type(arguments[1])}
            return _bounded({**found, "propertyNames": names} if "pattern" in names else found, marks)
        return {"anyOf": [self.type(one, marks) for one in arguments]}

    def choice(self, choice: OneOf) -> dict[str, Any]:
        name = "_or_".join(choice.sorts).replace(" ", "_")
        return self._defined(name, lambda: self._choice(choice))

    def _choice(self, choice: OneOf) -> dict[str, Any]:
        found: dict[str, Any] = {
            "type": "object",
            "minProperties": 1,
            "maxProperties": 1,
            "properties": {name: self._kind(choice, name) for name in choice.names},
            "additionalProperties": False,
        }
        if choice.sorts == [SYSTEMS.sort]:
            return self._system(found)
        if "powerset" in choice.names:  # `{powerset: [...], fuse: ...}` is another way to write one
            others = {name: self.field(one) for name, one in Powerset.model_fields.items() if name != "of"}
            properties: dict[str, Any] = {name: {"anyOf": [_TEXT, one]} for name, one in others.items()}
            array = {"type": "array"}
            of = {"properties": {"powerset": array}, "required": ["powerset"]}
            properties |= {"powerset": array}
            listed = {"type": "object", "properties": properties, "additionalProperties": False}
            found = {"if": of, "then": listed, "else": found}
        return {"anyOf": [self.field(Chain.model_fields["steps"]), found]} if choice.has_shorthand else found

    def _system(self, found: dict[str, Any]) -> dict[str, Any]:
        kinds = found["properties"]
        beside = {
            name: {**_beside_reference(self.field(field)), "description": described(kind)[name]}
            for kind in (CalledSystem, Python)
            for name, field in kind.model_fields.items()
            if name in {"version", "limits", "price", "input", "answers"}
        }
        kinds |= {name: {"anyOf": [_TEXT, kinds[name]]} for name in SHORT}
        one_kind = [{"required": [name]} for name in kinds]
        del found["maxProperties"]
        return {**found, "properties": {**beside, **kinds}, "oneOf": one_kind}

    def _kind(self, choice: OneOf, name: str) -> dict[str, Any]:
        kind = choice.kind(name)
        return {} if kind is None else self.model(kind)

    def _embedder(self) -> dict[str, Any]:
        recipe = self._model(EmbedderRecipe, {"revision"} & set(EmbedderRecipe.model_fields))
        recipe["properties"].setdefault("revision", _TEXT)
        recipe.pop("required", None)
        kinds = {name: self._model(EMBEDDERS[name], {*NOT_ITS_OWN, "revision"}) for name in EMBEDDERS}
        recipe["properties"] |= kinds
        return {**recipe, "minProperties": 1}

    def _metric(self) -> dict[str, Any]:
        deep = [name for name in METRICS if issubclass(METRICS[name], RetrievalMetric)]
        plain = [name for name in METRICS if name not in deep]
        return {
            "anyOf": [
                {"enum": plain},
                {"type": "string", "pattern": rf"^({'|'.join(deep)})@\d+$"},
                {"type": "string", "pattern": rf"^({'|'.join(IN_TOKENS)})@\d+tokens$"},
                {"type": "string", "pattern": r"^[a-z0-9][a-z0-9_+-]*\."},
            ],
            "description": "a metric by its name, `@K` for a depth, `@Ntokens` for a budget of context, "
            "or `JUDGE.METRIC`",
        }


def _beside_reference(schema: dict[str, Any]) -> dict[str, Any]:
    """In draft 7, a reference has no other key beside it."""
    return {"allOf": [schema]} if "$ref" in schema else schema


def _bounded(schema: dict[str, Any], marks: list[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    kind = schema.get("type", "number")
    for mark in marks:
        if kind == "number":
            names = {"ge": "minimum", "le": "maximum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum"}
            found |= {
                key: value for name, key in names.items() if (value := getattr(mark, name, None)) is not None
            }
        elif isinstance(mark, annotated_types.MinLen) and kind in _LENGTHS:
            found[f"min{_LENGTHS[kind]}"] = mark.min_length
        elif isinstance(mark, annotated_types.MaxLen) and kind in _LENGTHS:
            found[f"max{_LENGTHS[kind]}"] = mark.max_length
        elif kind == "string" and isinstance(pattern := getattr(mark, "pattern", None), str):
            found["pattern"] = pattern
    return {**schema, **found}
