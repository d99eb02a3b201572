"""Parts that a study writes as `{kind: {parameters}}`: their base class, and the fields that hold them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    SerializationInfo,
    ValidationError,
    create_model,
)
from pydantic_core import CoreSchema, core_schema

from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.recipe import Recipe, error_at
from rag_assay.warehouse.registry import BrokenComponentError, Registry


class Component(Recipe):
    """A part of a study that is chosen by its kind; its fields are its parameters.

    kind: the name that study files use; package: the other package that it is of, with its version
    """

    kind: ClassVar[str]
    package: ClassVar[str | None] = None

    def all_versions(self) -> list[str]:
        return [*self.versions(), *([self.package] if self.package else [])]

    def identity(self) -> str:
        return digest([self.kind, self.meaning(), self.all_versions()])


class OneOf:
    """Marks a field that holds a part of one of some registries: `Annotated[Retriever, OneOf(RETRIEVERS)]`.

    Pydantic reads `{kind: {its parameters}}` or an instance. A kind is imported when it is named.
    """

    def __init__(
        self,
        *registries: Registry[Any],
        shorthand: Callable[[object], object] | None = None,
        beside: tuple[str, ...] = (),
    ) -> None:
        """shorthand: writes out other ways to write a part; of two kinds of a name, the last counts"""
        self._registries = registries
        self._shorthand = shorthand
        self.beside = beside

    @property
    def sorts(self) -> list[str]:
        return [registry.sort for registry in self._registries]

    @property
    def has_shorthand(self) -> bool:
        return self._shorthand is not None

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(name for registry in self._registries for name in registry))

    def kind(self, name: str) -> type[Component] | None:
        try:
            return self._find(name)
        except BrokenComponentError:
            return None

    def read(self, value: object) -> Any:
        if isinstance(value, tuple(registry.base for registry in self._registries)):
            return value
        written = self._shorthand(value) if self._shorthand else value
        kinds = self._named(written)
        named = [name for name in kinds if isinstance(written, dict) and written[name] is not None]
        if not isinstance(written, dict) or len(named) != 1 or len(kinds) != len(written):
            fields: dict[str, Any] = {name: (kind | None, None) for name, kind in kinds.items()}
            create_model("Kinds", __config__=ConfigDict(extra="forbid"), **fields).model_validate(written)
            raise ValueError(f"give exactly one of {', '.join(self.names)}")
        (name,) = named
        return validate_kind(name, kinds[name], written[name])

    def _named(self, written: object) -> dict[str, type[Component]]:
        kinds = {}
        for name in written if isinstance(written, dict) else ():
            try:
                kind = self._find(name)
            except BrokenComponentError as error:
                raise error_at((name,), str(error)) from error
            if kind is not None:
                kinds[name] = kind
        return kinds

    def _find(self, name: str) -> type[Component] | None:
        built_in = [registry for registry in self._registries if name in registry.built_in]
        for registry in reversed(built_in or self._registries):
            if name in registry:
                return registry[name]
        return None

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            self.read, serialization=core_schema.plain_serializer_function_ser_schema(_nested, info_arg=True)
        )


def validate_kind(name: str, kind: type[BaseModel], written: object) -> Any:
    try:
        return kind.model_validate(written)
    except ValidationError:  # a model around it is slow to make, and tells the same mistakes at their places
        fields: dict[str, Any] = {name: (kind, ...)}
        return getattr(create_model("Kinds", **fields).model_validate({name: written}), name)


def one_of(annotation: Any) -> OneOf | None:
    marks = getattr(annotation, "__metadata__", ())
    return next((mark for mark in marks if isinstance(mark, OneOf)), None)


def as_written(part: Component, *, exclude_none: bool = False) -> dict[str, dict[str, Any]]:
    return {part.kind: part.model_dump(mode="json", exclude_none=exclude_none)}


def _nested(part: Component, info: SerializationInfo) -> dict[str, dict[str, Any]]:
    names = ("mode", "context", "by_alias", "exclude_unset", "exclude_defaults", "exclude_none")
    return {part.kind: part.model_dump(**{name: getattr(info, name) for name in names})}
