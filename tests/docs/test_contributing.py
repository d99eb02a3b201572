"""CONTRIBUTING: every file and folder that it names is there, and its walks go the way that the code goes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study_file import read_book
from rag_assay.orchestration.stages import stages_of

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
ROOMS = "orchestration|evals|assets|crawlers|warehouse|tests|benchmarks|docs"
PATH = re.compile(rf"`((?:{ROOMS})/[\w./-]*)`")
WALKS = ("A chunk", "A question", "A score")


def named(text: str) -> list[str]:
    return PATH.findall(text)


def walk(name: str) -> str:
    return PAGE.split(f"**{name}.**")[1].split("\n**")[0].split("\n## ")[0]


def test_every_path_is_there() -> None:
    paths = [path for path in named(PAGE) if "NAME" not in path]
    assert len(paths) > 60
    assert [path for path in paths if not (REPOSITORY / path).exists()] == []


def test_a_part_has_a_place_beside_others_of_its_kind() -> None:
    places = [path for path in named(PAGE) if "NAME" in path]
    assert len(places) >= 9
    for path in places:
        assert len(list((REPOSITORY / path).parent.glob("*.py"))) > 1, path


def test_together_the_walks_pass_every_stage_in_its_order() -> None:
    stages = stages_of(Grid(list(read_book().studies.values())))
    passed = [path for name in WALKS for path in named(walk(name))]
    nouns = [Path(path).stem for path in passed if re.fullmatch(r"(assets|evals)/\w+\.py", path)]
    optional = {"enrichments"}
    assert list(dict.fromkeys(nouns)) == [name for name in stages if name not in optional]


@pytest.mark.parametrize("name", WALKS)
def test_a_walk_fits_one_screen(name: str) -> None:
    assert 5 <= len(walk(name).splitlines()) <= 20
    assert len(named(walk(name))) >= 8


@pytest.mark.parametrize("room", ["assets", "evals"])
def test_every_room_inside_is_named(room: str) -> None:
    folders = {path.parent.name for path in (REPOSITORY / room).glob("*/__init__.py")}
    told = {Path(path).parts[1].removesuffix(".py") for path in named(PAGE) if re.match(rf"{room}/\w", path)}
    assert folders - told <= {"recipes", "studies", "word_lists"}
