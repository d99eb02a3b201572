"""The list of all parts, on a terminal and as Markdown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby

from rich.padding import Padding

from rag_assay.evals.study.component_list import Parameter, PartFacts
from rag_assay.orchestration.terminal.cli_errors import console, text, width


def show_parts(found: Sequence[PartFacts]) -> None:
    out = console(width=width())
    for group, those in groupby(found, key=lambda one: one.group):
        out.print(text(_title(group), "bold"))
        for one in those:
            out.print(Padding(text(f"{one.name}{_package(one)}: {one.broken or one.about}"), (0, 0, 0, 2)))
            for parameter in one.parameters:
                out.print(Padding(text(_line(parameter)), (0, 0, 0, 6)))
        out.print()


def markdown_of(found: Sequence[PartFacts]) -> str:
    r"""Return the list as Markdown: a section a sort, a table for each part that has parameters.

    >>> print(markdown_of([PartFacts("steps", "top", "Keeps the first k.")]))
    ## Steps
    <BLANKLINE>
    **`top`** Keeps the first k.
    <BLANKLINE>
    """
    lines: list[str] = []
    for group, those in groupby(found, key=lambda one: one.group):
        lines += [f"## {_title(group)}", ""]
        for one in those:
            lines += [f"**`{one.name}`**{_package(one)} {one.broken or one.about}", ""]
            if one.parameters:
                lines += ["| parameter | value | default | |", "|---|---|---|---|"]
                lines += [_row(parameter) for parameter in one.parameters] + [""]
    return "\n".join(lines) + ("\n" if lines and lines[-1] else "")


def _title(group: str) -> str:
    return group.replace("_", " ").capitalize()


def _package(one: PartFacts) -> str:
    return f" ({one.package})" if one.package else ""


def _line(parameter: Parameter) -> str:
    default = "required" if parameter.required else f"default {_default(parameter)}"
    about = f": {parameter.about}" if parameter.about else ""
    return f"{parameter.name} ({_value(parameter)}; {default}){about}"


def _row(parameter: Parameter) -> str:
    default = "required" if parameter.required else f"`{_default(parameter)}`"
    cells = (f"`{parameter.name}`", _value(parameter), default, parameter.about)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _value(parameter: Parameter) -> str:
    return ", ".join(filter(None, [parameter.type, parameter.bounds]))


def _default(parameter: Parameter) -> str:
    if parameter.default is None:
        return "none"
    if isinstance(parameter.default, dict):
        return "{}"
    return parameter.default if isinstance(parameter.default, str) else json.dumps(parameter.default)
