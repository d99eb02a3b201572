"""The help of `assay` and of each command: grouped, short, in plain English, with examples."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main
from typer.core import TyperGroup
from typer.testing import CliRunner

from rag_assay.evals.metrics import METRICS
from rag_assay.orchestration.cli import COMMANDS, app

ROOT = Path(__file__).parents[2]
MOST = 25
WIDTH = 100
TOP = typer.main.get_command(app)
BANNED = re.compile(
    r"unless said|of now\b|of then\b|\banew\b|\bnobody\b|none of|hangs on|\bmended?\b|\bwalk|asks? a model"
    r"|scores of people|\bpeople\b|\bsheets?\b|\bgold\b|\bparts?\b"
)


def commands(group: TyperGroup, *path: str) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        yield (*path, name)
        if isinstance(command, TyperGroup):
            yield from commands(command, *path, name)


assert isinstance(TOP, TyperGroup)
ALL = list(commands(TOP))


def help_of(*path: str) -> str:
    done = CliRunner().invoke(
        app, [*path, "--help"], env={"COLUMNS": str(WIDTH), "TERMINAL_WIDTH": str(WIDTH)}
    )
    assert done.exit_code == 0, done.output
    return done.output


def test_commands_are_few_and_grouped() -> None:
    names = [name for panel in COMMANDS.values() for name in panel]
    assert len(names) <= MOST
    assert set(names) == set(TOP.commands)
    lines = help_of().splitlines()
    at = [next(n for n, line in enumerate(lines) if f"─ {panel} ─" in line) for panel in COMMANDS]
    assert at == sorted(at)
    listed = [line.split()[1] for line in lines if re.match(r"│ [a-z]", line)]
    assert listed == names, "in their order, each on one line"
    assert "ASSAY_HOME" in help_of()


def parse(written: str) -> None:
    """Refuse a command that does not exist, or that has arguments and options that it does not know."""
    program, *words = shlex.split(written, comments=True)
    assert program == "assay"
    command = TOP
    while isinstance(command, TyperGroup) and words:
        command = command.commands[words.pop(0)]
    if not isinstance(command, TyperGroup):
        command.make_context(written, words)


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_each_help_is_short_and_has_an_example(path: tuple[str, ...]) -> None:
    text = help_of(*path)
    assert all(len(line) <= WIDTH for line in text.splitlines())
    examples = re.findall(r"^ +(assay .+?) *$", text.split("Example")[1], re.M)
    assert examples
    assert not BANNED.search(text), BANNED.search(text)
    for written in examples:
        parse(written)


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_no_option_repeats_its_values(path: tuple[str, ...]) -> None:
    for line in help_of(*path).splitlines():
        values = re.search(r"<(\w+(?:\|\w+)+)>", line)
        if values:
            words = line.split(">", 1)[1].split("[default")[0]
            assert not all(one in words for one in values[1].split("|")), line


@pytest.mark.parametrize(
    "page", ["README.md", *sorted(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))]
)
def test_commands_of_a_page_have_the_options_that_it_gives_them(page: str) -> None:
    text = (ROOT / page).read_text("utf-8").replace("\\\n", " ")
    blocks = re.findall(r"^```(?:sh|console)[^\n]*\n(.*?)^```", text, re.M | re.S)
    for line in re.findall(r"^(?:\$ )?(?:[A-Z_]+=\S+ )*(assay .*)$", "\n".join(blocks), re.M):
        parse(line)


def test_texts_name_commands_that_exist() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "Makefile", *(ROOT / "docs").glob("*.md")]
    modules = [
        path for path in (ROOT / "src" / "rag_assay").glob("*/**/*") if path.suffix in {".py", ".yaml"}
    ]
    named = re.compile(
        r"(?:`|^\s*|: +|/)assay ((?:[a-z]+(?:-[a-z]+)*)(?: [a-z]+(?:-[a-z]+)*)?)(?![\w.:*-])", re.M
    )
    unknown = []
    for path in [*pages, *modules]:
        for found in named.findall(path.read_text("utf-8")):
            first, *rest = found.split()
            command = TOP.commands.get(first)
            is_group = isinstance(command, TyperGroup)
            if command is None or (is_group and rest and rest[0] not in command.commands):
                unknown.append(f"{path.relative_to(ROOT)}: assay {found}")
    assert len(modules) > 500
    assert unknown == []


def test_gates_of_pages_name_metrics_that_exist() -> None:
    text = "".join(page.read_text("utf-8") for page in sorted((ROOT / "docs").glob("*.md")))
    gates = re.findall(r"--fail-under '?([a-z_]+)[\w@.:*-]*=", text)
    assert gates
    assert set(gates) <= set(METRICS.built_in)
