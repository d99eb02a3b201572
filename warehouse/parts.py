"""Parts that a study names by their kind: their base class, their registries, and the fields that hold them.

A study writes a part as `{kind: {its parameters}}`; in memory it is an instance of the kind's class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from typing import Annotated, Any, ClassVar, Generic, TypeVar, Union

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Discriminator,
    GetCoreSchemaHandler,
    SerializationInfo,
    Tag,
    TypeAdapter,
    create_model,
)
from pydantic_core import CoreSchema, core_schema

from warehouse.identity import digest
from warehouse.recipe import Recipe


class Part(Recipe):
    """A part of a study that is chosen by its kind; its fields are its parameters.

    kind: the name that study files use
    """

    kind: ClassVar[str]

    def identity(self) -> str:
        """Digest of the kind, its parameters (defaults written out) and the versions of its code."""
        return digest([self.kind, self.meaning(), self.versions()])


Kind = TypeVar("Kind", bound=Part)


class Registry(Mapping[str, type[Kind]], Generic[Kind]):
    """The kinds of one sort of part, by their names, in the order in which they were added.

    sort: what they are, as in `retriever`
    base: the class that each of them derives from
    """

    def __init__(self, sort: str, base: type[Kind]) -> None:
        self.sort = sort
        self.base = base
        self._kinds: dict[str, type[Kind]] = {}

    def add(self, *kinds: type[Kind]) -> None:
        """Add kinds under the names that they carry.

        Raises:
            ValueError: another kind has that name.
        """
        for kind in kinds:
            if self._kinds.setdefault(kind.kind, kind) is not kind:
                raise ValueError(f"there are two kinds of {self.sort} with the name `{kind.kind}`")

    def __getitem__(self, name: str) -> type[Kind]:
        return self._kinds[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)


class OneOf:
    """Marks a field that holds a part of one of some registries: `Annotated[Retriever, OneOf(RETRIEVERS)]`.

    To mypy, the value is what the annotation says. To pydantic, it is a union whose discriminator is the one
    key of `{kind: {its parameters}}`; an instance passes as it is, and is written back as such a mapping. The
    registries may be filled after the field's class was made: the union is built at its first use.
    """

    def __init__(
        self, *registries: Registry[Any], shorthand: Callable[[object], object] | None = None
    ) -> None:
        """Of two kinds with one name, that of the later registry counts.

        shorthand: writes out other ways to write a part, such as a list; returns all else as it is
        """
        self._registries = registries
        self._shorthand = shorthand

    @property
    def kinds(self) -> dict[str, type[Part]]:
        """The kinds that the field may hold, by their names."""
        return {name: kind for registry in self._registries for name, kind in registry.items()}

    def read(self, given: object) -> Any:
        """Return the part that a study wrote.

        Raises:
            ValidationError: every mistake, with its place.
            ValueError: it names no kind, or several.
        """
        if isinstance(given, tuple(registry.base for registry in self._registries)):
            return given
        written = self._shorthand(given) if self._shorthand else given
        kinds = self.kinds
        named = _named(written)
        if not isinstance(written, dict) or len(named) != 1 or not kinds.keys() >= written.keys():
            raise self._refusal(written, kinds)
        return self._union.validate_python(named)

    @cached_property
    def _union(self) -> TypeAdapter[Any]:
        choices = [
            Annotated[kind, BeforeValidator(partial(_parameters, name)), Tag(name)]
            for name, kind in self.kinds.items()
        ]
        union: Any = Annotated[Union[tuple(choices)], Discriminator(_kind_of)]  # noqa: UP007
        return TypeAdapter(union)

    def _refusal(self, written: object, kinds: Mapping[str, type[Part]]) -> ValueError:
        """Return what is wrong with a value that does not name one kind; raises where its parts are wrong."""
        named = [name for name in kinds if isinstance(written, dict) and name in written]
        fields: dict[str, Any] = {name: (kinds[name] | None, None) for name in named}
        create_model("Kinds", __config__=ConfigDict(extra="forbid"), **fields).model_validate(written)
        return ValueError(f"give exactly one of {', '.join(kinds)}")

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Let pydantic read a field by `read`, and write it as `{kind: {its parameters}}`."""
        return core_schema.no_info_plain_validator_function(
            self.read,
            serialization=core_schema.plain_serializer_function_ser_schema(_nested, info_arg=True),
        )


def one_of(annotation: Any) -> OneOf | None:
    """Return the mark of a field's type that holds a part; None where it holds something else."""
    marks = getattr(annotation, "__metadata__", ())
    return next((mark for mark in marks if isinstance(mark, OneOf)), None)


def as_written(part: Part, *, exclude_none: bool = False) -> dict[str, dict[str, Any]]:
    """Return a part as a study would write it, in types of JSON: `{kind: {its parameters}}`.

    exclude_none: leave out the parameters that are None
    """
    return {part.kind: part.model_dump(mode="json", exclude_none=exclude_none)}


def _nested(part: Part, info: SerializationInfo) -> dict[str, dict[str, Any]]:
    return {
        part.kind: part.model_dump(
            mode=info.mode,
            context=info.context,
            by_alias=info.by_alias,
            exclude_unset=info.exclude_unset,
            exclude_defaults=info.exclude_defaults,
            exclude_none=info.exclude_none,
        )
    }


def _named(written: object) -> dict[str, object]:
    """Return what is given a value: a kind without one (`bm25:` and nothing after it) is not named."""
    return {k: v for k, v in written.items() if v is not None} if isinstance(written, dict) else {}


def _kind_of(written: dict[str, object]) -> str:
    return next(iter(written))


def _parameters(name: str, written: dict[str, object]) -> object:
    return written[name]
