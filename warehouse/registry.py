"""Registries: the kinds of one sort of part by their names. Another package adds a kind by an entry point,
which is imported when it is first asked for by its name:

    [project.entry-points."rag_assay.retrievers"]
    by_colour = "acme_parts.by_colour:ByColour"
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from rag_assay.warehouse.errors import InputError

PREFIX = "rag_assay."

Kind = TypeVar("Kind")


class BrokenComponentError(InputError):
    """A part of another package cannot be used; the message names the package and says why."""


class Registry(Mapping[str, type[Kind]], Generic[Kind]):
    """The kinds of one sort of part, by the names that studies use. A name of our own is never another
    package's.

    group: what they are together, as in `retrievers`
    base: the class that each of them derives from, or `module:class`
    called: the attribute in which a kind carries its name
    """

    def __init__(self, group: str, base: type[Kind] | str, called: str = "kind") -> None:
        self.group = group
        self._base = base
        self._called = called
        self._built_in: dict[str, type[Kind] | str] = {}
        self._added: dict[str, type[Kind]] = {}

    @property
    def sort(self) -> str:
        return self.group.removesuffix("s").replace("_", " ")

    @property
    def base(self) -> type[Kind]:
        return _imported(self._base) if isinstance(self._base, str) else self._base

    @property
    def built_in(self) -> tuple[str, ...]:
        return tuple(self._built_in)

    def add(self, *kinds: type[Kind]) -> None:
        for kind in kinds:
            self._add(getattr(kind, self._called), kind)

    def add_places(self, package: str, **places: str) -> None:
        for name, place in places.items():
            self._add(name, f"{package}.{place}")

    def _add(self, name: str, kind: type[Kind] | str) -> None:
        if self._built_in.setdefault(name, kind) is not kind:
            raise ValueError(f"there are two kinds of {self.sort} with the name `{name}`")

    def __getitem__(self, name: str) -> type[Kind]:
        built_in = self._built_in.get(name)
        if built_in is not None:
            return _imported(built_in) if isinstance(built_in, str) else built_in
        if name not in self._added:
            self._added[name] = self._loaded(name)
        return self._added[name]

    def __contains__(self, name: object) -> bool:
        return name in self._built_in or any(name == entry.name for entry in self.entries())

    def __iter__(self) -> Iterator[str]:
        yield from self._built_in
        yield from sorted({entry.name for entry in self.entries()} - self._built_in.keys())

    def __len__(self) -> int:
        return sum(1 for _ in self)

    # Those of a mapping would import all that other packages add.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def entries(self) -> tuple[EntryPoint, ...]:
        return _entries(self.group)

    def broken(self, entry: EntryPoint) -> str | None:
        if entry.name in self._built_in:
            reason = f"`{entry.name}` is a {self.sort} of rag-assay itself; give it another name"
            return f"{_who(self.sort, entry)} cannot be used: {reason}"
        try:
            self[entry.name]
        except BrokenComponentError as error:
            return str(error)
        return None

    def _loaded(self, name: str) -> type[Kind]:
        entries = [entry for entry in self.entries() if entry.name == name]
        if not entries:
            raise KeyError(name)
        if len(entries) > 1:
            packages = " and ".join(sorted(package_of(entry) for entry in entries))
            raise BrokenComponentError(
                f"the {self.sort} `{name}` comes from {packages}; only one may be installed"
            )
        (entry,) = entries
        try:
            kind = entry.load()
        except (Exception, SystemExit) as error:
            raise BrokenComponentError(
                f"{_who(self.sort, entry)} cannot be imported: {type(error).__name__}: {error}"
            ) from error
        reason = self._why_unusable(kind, name)
        if reason:
            raise BrokenComponentError(f"{_who(self.sort, entry)} cannot be used: {reason}")
        kind.package = package_of(entry)
        found: type[Kind] = kind
        return found

    def _why_unusable(self, kind: Any, name: str) -> str | None:
        base = self.base
        if not isinstance(kind, type) or not issubclass(kind, base):
            return f"it is not a class derived from {base.__module__}.{base.__qualname__}"
        called = getattr(kind, self._called, None)
        if called != name:
            return f"its class says `{self._called} = {called!r}`, which must be the entry point's name"
        missing = sorted(getattr(kind, "__abstractmethods__", ()))
        return f"it lacks {', '.join(missing)}" if inspect.isabstract(kind) else None


def package_of(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unknown package"


def _who(sort: str, entry: EntryPoint) -> str:
    return f"the {sort} `{entry.name}` of the package {package_of(entry)} ({entry.value})"


@cache
def _entries(group: str) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=PREFIX + group))


def _imported(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
