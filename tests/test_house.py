"""The house itself: its rooms, the sizes of files and functions, and no file that needs one that needs it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("orchestration", "evals", "assets", "crawlers", "warehouse")
BESIDE = ("benchmarks", "tests")
FILE, FUNCTION = 800, 60  # lines
Graph = Mapping[str, frozenset[str]]


def files_of(*rooms: str) -> list[Path]:
    return sorted(path for room in rooms for path in (ROOT / room).rglob("*.py"))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes(tree: ast.Module) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree))


def trees(*rooms: str) -> dict[Path, ast.Module]:
    """The syntax of every Python file of these rooms."""
    return {path.relative_to(ROOT): parsed(path) for path in files_of(*rooms)}


def module_of(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(("rag_assay", *(parts[:-1] if parts[-1] == "__init__" else parts)))


def imported(tree: ast.Module) -> Iterator[str]:
    """Yield what a file imports, in its functions and for its types too: modules and names of them."""
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names)


def imports(files: Mapping[Path, ast.Module]) -> Graph:
    """Which file needs which: module -> modules; a package stands for its `__init__`."""
    modules = {module_of(path) for path in files}
    return {
        module_of(path): frozenset(imported(tree)) & modules - {module_of(path)}
        for path, tree in files.items()
    }


def circles(graph: Graph) -> list[list[str]]:
    """The groups of files that need each other: whatever is left when nobody's leaves are taken away."""
    left = {name: set(needs) for name, needs in graph.items()}
    while loose := {name for name, needs in left.items() if not needs & left.keys()}:
        left = {name: needs for name, needs in left.items() if name not in loose}
    # What only needs a circle is none of it.
    while above := left.keys() - {need for needs in left.values() for need in needs}:
        left = {name: needs for name, needs in left.items() if name not in above}
    return [sorted(left)] if left else []


def private_imports(files: Mapping[Path, ast.Module]) -> list[str]:
    """The names beginning with `_` that a file of ours takes from another one."""
    return [
        f"{path}:{node.lineno}: {node.module}.{one.name}"
        for path, tree in files.items()
        for node in nodes(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rag_assay.")
        for one in node.names
        if one.name.startswith("_") or any(part.startswith("_") for part in (node.module or "").split("."))
    ]


def long_functions(files: Mapping[Path, ast.Module]) -> list[str]:
    return [
        f"{path}:{node.lineno}: {node.name} has {node.end_lineno - node.lineno + 1} lines"
        for path, tree in files.items()
        for node in nodes(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno >= FUNCTION
    ]


def test_the_rooms_are_these() -> None:
    found = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert found == {*ROOMS, *BESIDE}


def test_no_file_needs_one_that_needs_it() -> None:
    graph = imports(trees(*ROOMS))
    assert len(graph) > 300
    assert circles(graph) == []


def test_no_file_is_longer_than_a_person_reads() -> None:
    long = {
        str(path): lines
        for path in files_of(*ROOMS, "benchmarks")
        if (lines := len(path.read_text().splitlines())) > FILE
    }
    assert long == {}


def test_no_function_is_longer_than_a_screen() -> None:
    assert long_functions(trees(*ROOMS, "benchmarks")) == []


def test_a_noun_file_is_a_stage_and_nothing_else() -> None:
    for room in ("assets", "evals"):
        files = {path: tree for path, tree in trees(room).items() if len(path.parts) == 2}
        for path, tree in files.items():
            if path.stem == "__init__":
                continue
            defined = [n for n in tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef)]
            public = [node.name for node in defined if not node.name.startswith("_")]
            assert public == [path.stem.title().replace("_", "")], path


def test_no_public_class_name_is_used_twice() -> None:
    places: dict[str, list[str]] = {}
    for path, tree in trees(*ROOMS).items():
        for node in nodes(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(str(path))
    assert len(places) > 500
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_no_file_takes_private_names_of_another() -> None:
    assert private_imports(trees(*ROOMS, "benchmarks")) == []


def test_polars_calls_no_function_of_ours() -> None:
    """It would in a thread of its pool, which then needs the GIL; a thread that converts a frame to pandas,
    as Streamlit does, holds the GIL and waits for the pool: both wait forever.
    """
    names = {"map_elements", "map_batches", "map_groups", "map_rows"}
    calls = [
        f"{path}:{node.lineno}"
        for path in files_of(*ROOMS, *BESIDE)
        if any(name in path.read_text(encoding="utf-8") for name in names)  # few: they alone are parsed
        for node in nodes(parsed(path))
        if isinstance(node, ast.Attribute) and node.attr in names
    ]
    assert calls == []


def tree_of(**files: str) -> dict[Path, ast.Module]:
    return {Path(name.replace("__", "/") + ".py"): ast.parse(text) for name, text in files.items()}


@pytest.mark.parametrize(
    "back",
    [
        "import rag_assay.evals.a",
        "from rag_assay.evals.a import x",
        "def f():\n    from rag_assay.evals import a",
    ],
)
def test_a_circle_is_found_wherever_it_hides(back: str) -> None:
    files = tree_of(
        evals__a="from rag_assay.evals.b import y", evals__b=back, evals__above="import rag_assay.evals.a"
    )
    assert circles(imports(files)) == [["rag_assay.evals.a", "rag_assay.evals.b"]]
    assert circles(imports(tree_of(evals__a="from rag_assay.evals.b import y", evals__b="import json"))) == []


def test_what_is_too_long_or_private_is_found() -> None:
    body = "\n    pass" * FUNCTION
    private = "from rag_assay.evals.b import _hidden\nfrom rag_assay.evals._c import x"
    files = tree_of(evals__a=f"def long():{body}\n{private}")
    assert [line.partition(": ")[2] for line in long_functions(files)] == [f"long has {FUNCTION + 1} lines"]
    assert len(private_imports(files)) == 2
    assert long_functions(tree_of(evals__a=f"def good():{body[9:]}")) == []


def test_every_make_target_is_phony_and_defined_once() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z-]+):.*## ", text, re.MULTILINE)
    assert sorted(targets) == sorted(text.split(".PHONY: ")[1].splitlines()[0].split())
