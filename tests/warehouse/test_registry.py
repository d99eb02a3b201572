"""Registries: our own parts and those of other packages, which matter only where they are named."""

from __future__ import annotations

from abc import abstractmethod
from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import Annotated, Any, ClassVar

import pytest
from pydantic import BaseModel, ValidationError

from rag_assay.warehouse import registry as registries
from rag_assay.warehouse.components import Component, OneOf
from rag_assay.warehouse.registry import BrokenComponentError, Registry


class Shape(Component):
    """A shape."""

    @abstractmethod
    def corners(self) -> int:
        """Count them."""


class Square(Shape):
    """Four."""

    kind: ClassVar[str] = "square"

    def corners(self) -> int:
        return 4


class Triangle(Square):
    """Three, of another package."""

    kind: ClassVar[str] = "triangle"

    size: int = 1


class Blob(Shape):
    """Lacks its method."""

    kind: ClassVar[str] = "blob"


NO_CLASS = 7


def entry(name: str, value: str, package: str = "acme", version: str = "1.0") -> EntryPoint:
    point = EntryPoint(name, f"{__name__}:{value}" if ":" not in value else value, "rag_assay.shapes")
    vars(point)["dist"] = SimpleNamespace(name=package, version=version)
    return point


@pytest.fixture
def shapes(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what makes a registry of shapes with entry points of other packages."""

    def make(*entries: EntryPoint) -> Registry[Shape]:
        monkeypatch.setattr(registries, "_entries", lambda group: entries)
        found: Registry[Shape] = Registry("shapes", Shape)
        found.add(Square)
        return found

    monkeypatch.setattr(Triangle, "package", None)
    return make


def test_a_part_of_another_package_carries_it_in_its_identity(shapes: Any) -> None:
    alone = Triangle().identity()
    first = shapes(entry("triangle", "Triangle"))["triangle"]().identity()
    second = shapes(entry("triangle", "Triangle", version="1.1"))["triangle"]().identity()
    assert len({alone, first, second}) == 3
    assert Square().all_versions() == ["1"]
    assert Triangle().all_versions() == ["1", "acme 1.1"]


def test_nothing_is_imported_that_is_not_named(shapes: Any) -> None:
    found = shapes(entry("absent", "no_such_module:Absent"))
    assert list(found) == ["square", "absent"]
    assert found["square"] is Square
    assert "absent" in found
    assert found == found  # noqa: PLR0124 -- and comparing imports nothing either
    with pytest.raises(KeyError):
        found["circle"]


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        (
            [entry("absent", "no_such_module:Absent")],
            r"`absent` of the package acme 1\.0 .*cannot be",
        ),
        ([entry("blob", "Blob")], "cannot be used: it lacks corners"),
        ([entry("seven", "NO_CLASS")], "it is not a class derived from .*Shape"),
        (
            [entry("round", "Square")],
            "says `kind = 'square'`, which must be the entry point's name",
        ),
        (
            [entry("triangle", "Triangle"), entry("triangle", "Triangle", "other", "2.0")],
            r"the shape `triangle` comes from acme 1\.0 and other 2\.0",
        ),
    ],
)
def test_what_cannot_be_used_is_told_with_its_package(
    entries: list[EntryPoint], reason: str, shapes: Any
) -> None:
    found = shapes(*entries)
    with pytest.raises(BrokenComponentError, match=reason):
        found[entries[0].name]
    assert found.broken(entries[0]) is not None
    assert found["square"] is Square


def test_a_name_of_ours_stays_ours(shapes: Any) -> None:
    other = entry("square", "Triangle")
    found = shapes(other)
    assert found["square"] is Square
    assert "`square` is a shape of rag-assay itself" in (found.broken(other) or "")


def test_a_field_reads_parts_of_both_and_says_where_one_is_broken(shapes: Any) -> None:
    found = shapes(entry("triangle", "Triangle"), entry("absent", "no_such_module:Absent"))

    class Drawing(BaseModel):
        shapes: list[Annotated[Shape, OneOf(found)]]

    written = {"shapes": [{"square": {}}, {"triangle": {"size": 3}}]}
    drawing = Drawing.model_validate(written)
    assert drawing.shapes == [Square(), Triangle(size=3)]
    assert drawing.model_dump() == written
    assert Drawing.model_validate(drawing.model_dump()) == drawing
    with pytest.raises(ValidationError) as caught:
        Drawing.model_validate({"shapes": [{"absent": {}}, {"triangle": {"size": "x"}}, {"circle": {}}, {}]})
    places = [error["loc"] for error in caught.value.errors()]
    assert places == [
        ("shapes", 0, "absent"),
        ("shapes", 1, "triangle", "size"),
        ("shapes", 2, "circle"),
        ("shapes", 3),
    ]


def test_a_field_of_which_there_is_one_kind_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registries, "_entries", lambda group: (entry("triangle", "Triangle"),))
    monkeypatch.setattr(Triangle, "package", None)
    alone: Registry[Shape] = Registry("shapes", Shape)

    class Drawing(BaseModel):
        shape: Annotated[Shape, OneOf(alone)]

    assert Drawing.model_validate({"shape": {"triangle": {"size": 2}}}).shape == Triangle(size=2)
    with pytest.raises(ValidationError, match="circle"):
        Drawing.model_validate({"shape": {"circle": {}}})
    with pytest.raises(ValidationError) as caught:
        Drawing.model_validate({"shape": {"triangle": {"size": "x"}}})
    assert caught.value.errors()[0]["loc"][:2] == ("shape", "triangle")
