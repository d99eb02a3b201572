"""Prompts as files: Jinja templates with a block for each message, sandboxed, read and checked with lines.

A template has a block `user` and may have a block `system`; nothing stands outside of them, and nothing is
included from other files. What they are given is text already: nothing is escaped here.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_assay.warehouse.errors import InputError, Mistake
from rag_assay.warehouse.files import read_bounded
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.suggestions import did_you_mean

if TYPE_CHECKING:
    from jinja2 import nodes
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    from rag_assay.warehouse.inference.gateway import Messages

MOST_BYTES = 1_000_000
Values = Mapping[str, object]
_PLACE = "<template>"  # what Jinja calls a template without a file in a traceback


class Template:
    """One prompt file; text: with the blocks that it is to have."""

    def __init__(self, text: str, path: Path) -> None:
        self.text = text
        self.path = path

    @staticmethod
    def read(path: Path) -> Template:
        data = read_bounded(path, MOST_BYTES)
        try:
            return Template(data.decode("utf-8-sig"), path)
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            text = f"byte {error.start} is not UTF-8 (0x{data[error.start]:02x}); save the file as UTF-8"
            raise InputError(Mistake("not_utf8", path, line, text)) from error

    def identity(self) -> str:
        """Digest of the text: another wording is another result, wherever the file stands."""
        return digest(self.text)

    def mistakes(self, samples: Sequence[Values]) -> list[Mistake]:
        from jinja2 import TemplateSyntaxError

        try:
            parsed = _environment().parse(self.text)
            _environment().compile(self.text)  # which looks for unknown filters and tests
        except TemplateSyntaxError as error:
            return [self._mistake("template_syntax", error.lineno, str(error.message))]
        found = [*self._shape(parsed), *self._unknown(parsed, sorted(samples[0]))]
        for sample in () if found else samples:
            try:
                self.messages(sample)
            except InputError as error:
                found += [one for one in error.findings if isinstance(one, Mistake)]
        return list(dict.fromkeys(found))

    def messages(self, values: Values) -> Messages:
        system = self.render("system", values) if "system" in self._compiled.blocks else ""
        chat = [{"role": "system", "content": system}] if system else []
        return [*chat, {"role": "user", "content": self.render("user", values)}]

    def render(self, block: str, values: Values) -> str:
        template = self._compiled
        if block not in template.blocks:
            raise InputError(self._mistake("no_block", 1, f"there is no `{{% block {block} %}}`"))
        try:
            return "".join(template.blocks[block](template.new_context(dict(values)))).strip()
        except Exception as error:  # whatever an expression of a template raises
            reason = str(error).strip() or type(error).__name__
            raise InputError(self._mistake("template_value", self._line_of(error), reason)) from error

    @cached_property
    def _compiled(self) -> Any:
        from jinja2 import TemplateSyntaxError

        try:
            return _environment().from_string(self.text)
        except TemplateSyntaxError as error:
            mistake = self._mistake("template_syntax", error.lineno, str(error.message))
            raise InputError(mistake) from error

    def _line_of(self, error: Exception) -> int:
        numbers = [
            frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == _PLACE
        ]
        return self._compiled.get_corresponding_lineno(numbers[-1]) if numbers and numbers[-1] else 1

    def _shape(self, parsed: nodes.Template) -> list[Mistake]:
        from jinja2 import nodes

        from_outside = (nodes.Include, nodes.Extends, nodes.Import, nodes.FromImport)
        found = []
        for outside in parsed.find_all(from_outside):
            text = "a prompt includes nothing from other files; write the text here"
            found.append(self._mistake("template_outside", outside.lineno, text))
        blocks = [node for node in parsed.body if isinstance(node, nodes.Block)]
        for node in parsed.body:
            if isinstance(node, (nodes.Block, *from_outside)) or _is_blank(node):
                continue
            text = "this is outside of all blocks, and would not be sent; put it into `system` or `user`"
            found.append(self._mistake("template_outside_blocks", _first_line(node), text))
        for block in blocks:
            if block.name not in {"system", "user"}:
                text = f"unknown block `{block.name}`; {did_you_mean(block.name, ['system', 'user'])}"
                found.append(self._mistake("unknown_block", block.lineno, text))
        if not any(block.name == "user" for block in blocks):
            text = "a prompt needs `{% block user %}…{% endblock %}`: the message that asks"
            found.append(self._mistake("no_block", 1, text))
        return found

    def _unknown(self, parsed: nodes.Template, known: list[str]) -> list[Mistake]:
        from jinja2 import nodes
        from jinja2.meta import find_undeclared_variables

        known = sorted({*known, *_environment().globals})
        lines: dict[str, int] = {}
        for node in parsed.find_all(nodes.Name):
            lines.setdefault(node.name, node.lineno)
        unknown = find_undeclared_variables(parsed) - set(known)
        return [
            self._mistake(
                "unknown_variable",
                lines.get(name, 1),
                f"unknown variable `{name}`; {did_you_mean(name, known)}",
            )
            for name in sorted(unknown, key=lambda name: (lines.get(name, 1), name))
        ]

    def _mistake(self, code: str, line: int, text: str) -> Mistake:
        return Mistake(code, self.path, line, text)


@cache
def bundled_template(name: str) -> Template:
    return Template.read(Path(__file__).parent / "prompts" / f"{name}.j2")


@cache
def _environment() -> ImmutableSandboxedEnvironment:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        undefined=StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.clear()  # `range`, `lipsum` …: a prompt needs none of them
    return environment


def _is_blank(node: nodes.Node) -> bool:
    from jinja2 import nodes

    if not isinstance(node, nodes.Output):
        return False
    return all(isinstance(one, nodes.TemplateData) and not one.data.strip() for one in node.nodes)


def _first_line(node: nodes.Node) -> int:
    from jinja2 import nodes

    first = node.nodes[0] if isinstance(node, nodes.Output) and node.nodes else node
    if isinstance(first, nodes.TemplateData):
        return first.lineno + first.data[: len(first.data) - len(first.data.lstrip())].count("\n")
    return first.lineno
