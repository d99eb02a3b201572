"""The base classes of everything in a study file: strict models, and recipes with a code version."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    JsonValue,
    SerializationInfo,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError


class Strict(BaseModel):
    """A part of a study file: unknown keys are refused; `true` is no number and 1 no truth value."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)

    @field_validator("*", mode="before")
    @classmethod
    def _tells_numbers_from_truth_values(cls, value: Any, info: ValidationInfo) -> Any:
        types = _plain_types(cls.model_fields[info.field_name or ""].annotation)
        numbers = types & {int, float}
        if numbers and bool not in types and any(isinstance(one, bool) for one in _values(value)):
            raise PydanticCustomError(f"{'float' if float in numbers else 'int'}_type", "must be a number")
        if bool in types and not numbers and any(type(one) in {int, float} for one in _values(value)):
            raise PydanticCustomError("bool_type", "must be true or false")
        return value


def _plain_types(annotation: Any) -> set[Any]:
    parts = get_args(annotation)
    if parts:
        return set().union(*(_plain_types(part) for part in parts))
    return {annotation} if isinstance(annotation, type) else set()


def _values(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else [value]


_IDENTITY = "identity"  # the serialization context in which a recipe is written for its identity


def in_identity(info: SerializationInfo) -> bool:
    return info.context == _IDENTITY


def error_at(place: tuple[str | int, ...], reason: str) -> ValidationError:
    kind = PydanticCustomError("value_error", "{reason}", {"reason": reason})
    return ValidationError.from_exception_data("Part", [InitErrorDetails(type=kind, loc=place, input={})])


class Recipe(Strict):
    """Parameters of one way to do a step; raise `code_version` when its code computes something else."""

    code_version: ClassVar[str] = "1"

    def versions(self) -> list[str]:
        return [self.code_version]

    def meaning(self) -> dict[str, JsonValue]:
        return self.model_dump(mode="json", context=_IDENTITY)


def nested_recipes(part: object) -> Iterator[BaseModel]:
    """Yield a component and the components in its fields, each before its own."""
    if isinstance(part, BaseModel):
        yield part
    for one in children_of(part):
        yield from nested_recipes(one)


def children_of(part: object) -> Iterable[object]:
    if isinstance(part, BaseModel):
        return [getattr(part, name) for name in type(part).model_fields]
    if isinstance(part, Mapping):
        return part.values()
    return part if isinstance(part, list | tuple) else ()
