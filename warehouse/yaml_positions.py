"""YAML that remembers its lines, so that an error about a value can say where the value stands."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from yaml._yaml import CParser
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

from rag_assay.warehouse.errors import InputError, Mistake, NotSetError
from rag_assay.warehouse.files import read_bounded

_VARIABLE = re.compile(r"\$?\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
MAX_BYTES, MAX_DEPTH, MAX_NODES = 10_000_000, 40, 500_000
Place = tuple[str | int, ...]
_COLLECTIONS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")


@dataclass
class MarkedYaml:
    """A parsed YAML file.

    data: plain dicts, lists and scalars, `${NAME}` replaced from the environment
    lines: path of keys and list positions -> line, from 1
    unset: environment variables that are named and not set, once for each place
    """

    path: Path
    data: Any
    lines: dict[Place, int] = field(default_factory=dict)
    unset: list[str] = field(default_factory=list)

    def line(self, place: Place) -> int:
        """Return the line of ``place``, or of the nearest thing around it that has one."""
        known: Place = ()
        for part in place:
            if (*known, part) in self.lines:
                known = (*known, part)
        return self.lines.get(known, 1)

    def at(self, place: Place) -> str:
        return f"{self.path}:{self.line(place)}"


class FromEnvironment(str):
    """A text of a file in which environment variables, of these ``values``, were replaced."""

    __slots__ = ("values",)
    values: tuple[str, ...]


for _dumper in (yaml.SafeDumper, yaml.Dumper):
    _dumper.add_representer(FromEnvironment, yaml.SafeDumper.represent_str)


class _Loader(Composer, CParser, SafeConstructor, Resolver):
    """Safe loading by libyaml that leaves dates as text and refuses what is too deep or large."""

    def __init__(self, text: str, path: Path = Path("text")) -> None:
        CParser.__init__(self, text)
        Composer.__init__(self)
        SafeConstructor.__init__(self)
        Resolver.__init__(self)
        self._path, self._depth, self._nodes = path, 0, 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self._depth += 1
        self._nodes += 1
        if self._depth > MAX_DEPTH or self._nodes > MAX_NODES:
            event: Any = self.peek_event()
            raise _too_much(self._path, event.start_mark.line + 1)
        node = Composer.compose_node(self, parent, index)
        self._depth -= 1
        return node


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def load(path: Path, text: str | None = None) -> MarkedYaml:
    text = _text(path) if text is None else text
    marked = MarkedYaml(path, None)
    findings: list[str] = []
    try:
        loader = _Loader(text, path)
        node = loader.get_single_node()
        if node is not None:
            marked.data = _convert(node, (), marked, findings, loader)
        loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = min(mark.line, text.rstrip("\n").count("\n")) + 1 if mark else 1  # not below the last line
        raise InputError(f"{path}:{line}: not valid YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, ValueError) as error:  # the latter: a tag that its value does not fit (`!!int x`)
        raise InputError(f"{path}: not valid YAML: {error}") from error
    if findings:
        raise (NotSetError if len(findings) == len(marked.unset) else InputError)(*findings)
    return marked


def escape_text(text: str) -> str:
    """Return how a text is written in a file so that `load` gives it back: no `${NAME}` of it is replaced.

    >>> escape_text("the shell reads ${HOME}")
    'the shell reads $${HOME}'
    """
    return _VARIABLE.sub(lambda match: f"${match[0]}", text)


def with_paths(text: str) -> str:
    """Replace the variables that name a file or folder; the others may be secrets."""

    def replace(match: re.Match[str]) -> str:
        value = "" if match[0].startswith("$$") else os.environ.get(match[1])
        return escape_text(value) if value and Path(value).exists() else match[0]

    return _VARIABLE.sub(replace, text)


def rewrite(text: str, change: Callable[[Place, str], str], drop: Collection[str] = ()) -> str:
    """Return a YAML file's text with its scalars changed by ``change(place, text)``, but for keys."""
    load(Path("text"), text)  # refuses what is nested endlessly, too
    loader = _Loader(text)
    root = loader.get_single_node()
    loader.dispose()
    if root is None:
        return ""
    if isinstance(root, yaml.MappingNode):
        root.value = [(key, value) for key, value in root.value if key.value not in drop]
    _change(root, (), change)
    written: str = yaml.serialize(root, allow_unicode=True, width=math.inf)
    return written


def _change(node: yaml.Node, place: Place, change: Callable[[Place, str], str]) -> None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            change(place, key.value)
            _change(value, (*place, key.value), change)
    elif isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            _change(item, (*place, number), change)
    else:
        node.value = change(place, node.value)


def _text(path: Path) -> str:
    data = read_bounded(path, MAX_BYTES).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        words = f"cannot be read as UTF-8 text (invalid byte 0x{data[error.start]:02x}); save it as UTF-8"
        raise InputError(Mistake("not_utf8", path, line, words)) from error
    found = yaml.reader.Reader.NON_PRINTABLE.search(text)
    if found:
        line = text.count("\n", 0, found.start()) + 1
        raise InputError(
            f"{path}:{line}: not valid YAML: the control character U+{ord(found[0]):04X} is not allowed"
        )
    return text


def _too_much(path: Path, line: int) -> InputError:
    return InputError(f"{path}:{line}: the file is nested too deeply or is too large")


def _convert(node: yaml.Node, place: Place, marked: MarkedYaml, findings: list[str], loader: _Loader) -> Any:
    if len(place) > MAX_DEPTH or len(marked.lines) > MAX_NODES:
        # Aliases can nest a small file into an endless one.
        raise _too_much(marked.path, node.start_mark.line + 1)
    marked.lines.setdefault(place, node.start_mark.line + 1)
    if isinstance(node, yaml.CollectionNode) and node.tag not in _COLLECTIONS:
        findings.append(f"{marked.path}:{node.start_mark.line + 1}: the tag {node.tag} is not allowed here")
    if isinstance(node, yaml.MappingNode):
        return _convert_mapping(node, place, marked, findings, loader)
    if isinstance(node, yaml.SequenceNode):
        return [_convert(item, (*place, i), marked, findings, loader) for i, item in enumerate(node.value)]
    value = loader.construct_object(node)
    return _substitute(value, place, marked, findings) if isinstance(value, str) else value


def _convert_mapping(
    node: yaml.MappingNode, place: Place, marked: MarkedYaml, findings: list[str], loader: _Loader
) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            findings.append(f"{marked.path}:{line}: a key must be a single word or text")
            continue
        key = str(key_node.value)  # as written: `no` and `2024` are names, too
        if key in mapping:
            findings.append(f"{marked.path}:{line}: the key `{key}` is here a second time")
        inner = (*place, key)
        marked.lines[inner] = line
        mapping[key] = _convert(value_node, inner, marked, findings, loader)
    return mapping


def _substitute(value: str, place: Place, marked: MarkedYaml, findings: list[str]) -> str:
    values: list[str] = []

    def replace(match: re.Match[str]) -> str:
        name = match[1]
        if match[0].startswith("$$"):
            return match[0][1:]
        if name not in os.environ:
            marked.unset.append(name)
            findings.append(
                f"{marked.at(place)}: the environment variable {name} is not set; "
                f"set it, as in `{name}=… assay run …`"
            )
            return match[0]
        values.append(os.environ[name])
        return values[-1]

    text = _VARIABLE.sub(replace, value)
    if not values:
        return text
    found = FromEnvironment(text)
    found.values = tuple(values)
    return found
