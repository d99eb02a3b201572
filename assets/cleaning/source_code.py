"""Source code: the file as it is; classes, functions and the like begin sections."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator

from rag_assay.assets.cleaning.draft import DocumentDraft, UnusablePage, decode_text
from rag_assay.assets.cleaning.outline import Heading, line_starts, sections_in
from rag_assay.assets.cleaning.unicode import repair_encoding, tidy

_TITLE = 300  # characters
_MOST = 2_000_000  # characters that are parsed; a longer file has no sections
_TAB = 4  # columns
_WORDS = (
    "export|default|public|private|protected|internal|static|final|abstract|async|inline|virtual|override|"
    "sealed|partial|unsafe|extern|open|data|pub"
)
_NAMED = re.compile(
    rf"(?P<indent>[ \t]*)(?:(?:{_WORDS})(?:\([\w:]+\))?[ \t]+)*"
    r"(?:(?P<kind>class|interface|struct|enum|trait|impl|mod|module|namespace|object|record|protocol|union|"
    r"function\*?|fn|func|fun|def|sub|macro_rules!|defmodule|defp?)(?:[ \t]*\([^()]{0,200}\))?"
    r"(?:<[^<>]{0,200}>)?[ \t]+(?P<name>[\w$.:*~<>&', ]{1,200}?)(?=[ \t]*(?:[({;:=]|where\b|extends\b|"
    r"implements\b|do\b|$))"
    r"|(?:const|let|var)[ \t]+(?P<arrow>[\w$]+)[ \t]*=[ \t]*(?:async[ \t]*)?(?:function\b|\([^()]{0,500}\)"
    r"[ \t]*=>|[\w$]+[ \t]*=>)"
    r"|create[ \t]+(?:or[ \t]+replace[ \t]+)?(?:table|view|function|procedure|index|trigger)[ \t]+"
    r"(?:if[ \t]+not[ \t]+exists[ \t]+)?(?P<sql>[\w.\"`]+))",
    re.I,
)
# A function of C, C++, C#, Java: `type name(parameters) {` or with the brace below.
_TYPED = re.compile(
    r"(?P<indent>[ \t]*)(?!(?:return|else|new|throw|delete|goto|case|typedef|using|if|for|while|switch|catch)"
    r"\b)(?:[\w:<>,\[\]]++[ \t*&]++){1,8}+(?P<name>[~\w:]++)[ \t]*\([^;{}()]{0,500}\)"
    r"[ \t]*(?:const|noexcept|override|throws[ \w,.]{1,200})?[ \t]*\{?[ \t]*"
)
_SHELL = re.compile(r"(?P<indent>[ \t]*)(?P<name>[\w.-]+)[ \t]*\(\)[ \t]*\{?[ \t]*")
_LINE = 1000  # longer lines define no section: minified code has no structure


_KEY = re.compile(
    r"(?P<indent> *)(?P<items>(?:- +)*)(?P<name>[^\s:#&*!|>'\"%@`{}\[\],][^\n:#]{0,200}?) *:"
    r"(?P<value>[ \t].*)?"
)
_BLOCK = re.compile(r"[^#]*[|>][-+0-9]{0,2}[ \t]*(?:#.*)?")  # of the value of a key whose text follows
_TABLE = re.compile(r"(?m)^[ \t]*\[\[?([^\[\]\n#=]{1,200})\]\]?[ \t]*(?:#.*)?$")


def clean_source(body: bytes, content_type: str | None) -> DocumentDraft:
    """Return source code unchanged, with sections: for Python from the syntax tree; for YAML the keys of
    mappings and lists, for TOML the tables; for other languages the lines that define a class, function, type
    or table, nested by indentation.
    """
    text = tidy(repair_encoding(decode_text(body, content_type)))
    if not text:
        raise UnusablePage("the file is empty")
    kind = (content_type or "").partition(";")[0].rpartition("-")[2]
    if kind == "yaml":
        headings = list(_keys(text))
    elif kind == "toml":
        headings = [
            Heading(found[1].strip(), found[1].count(".") + 1, found.start())
            for found in _TABLE.finditer(text)
        ]
    else:
        is_parsed = kind == "python" and len(text) <= _MOST
        headings = list(_python(text) if is_parsed else ()) or list(_by_lines(text))
    return DocumentDraft(
        text=text,
        title=_first_comment(text)[:_TITLE] or None,
        sections=sections_in(text, headings),
        repaired=True,
    )


def _python(text: str) -> Iterator[Heading]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the code may cause syntax warnings
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    starts = line_starts(text)
    waiting: list[tuple[ast.AST, int]] = [(tree, 1)]
    found: list[Heading] = []
    while waiting:
        node, level = waiting.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                first = min([child.lineno, *(one.lineno for one in child.decorator_list)])
                kind = "class" if isinstance(child, ast.ClassDef) else "def"
                found.append(Heading(f"{kind} {child.name}", level, starts[first - 1]))
                waiting.append((child, level + 1))
            elif not isinstance(child, ast.expr):
                waiting.append((child, level))
    yield from sorted(found, key=lambda heading: heading.start)


def _by_lines(text: str) -> Iterator[Heading]:
    start = 0
    for line in text.split("\n"):
        if line.strip() and len(line) <= _LINE and (heading := _heading(line, start)):
            yield heading
        start += len(line) + 1


def _keys(text: str) -> Iterator[Heading]:
    """Yield the keys of YAML below which further lines stand, but none within a text of several lines."""
    start, deepest = 0, None
    waiting: Heading | None = None
    for line in text.split("\n"):
        indent = len(line) - len(line.lstrip(" "))
        if line.strip() and not line.lstrip().startswith("#"):
            if deepest is not None and indent <= deepest:
                deepest = None
            if deepest is None:
                if waiting and (indent >= waiting.level or line.lstrip().startswith("- ")):
                    yield waiting
                waiting = None
                found = _KEY.fullmatch(line) if len(line) <= _LINE else None
                if found:
                    value, column = (found["value"] or "").strip(), len(found["indent"] + found["items"])
                    deepest = column if _BLOCK.fullmatch(value) else None
                    if not value or value.startswith(("#", "&", "!")):
                        waiting = Heading(found["name"].strip(), column + 1, start)
        start += len(line) + 1


def _heading(line: str, start: int) -> Heading | None:
    found = _NAMED.match(line)
    if found:
        words = found[0].strip()
    else:
        found = _TYPED.fullmatch(line) or _SHELL.fullmatch(line)
        words = line.strip().rstrip("{ \t") if found else ""
    if found is None or not words:
        return None
    depth = len(found["indent"].expandtabs(_TAB))
    return Heading(" ".join(words.split())[:_TITLE], depth + 1, start)


_COMMENT = re.compile(
    r"""(?:#(?!!)|//+|--|/\*+|\*|;+|"{3}|'{3}|r"{3})[ \t]*(\S.*?)(?:\*/|"{3}|'{3})?[ \t]*"""
)


def _first_comment(text: str) -> str:
    for line in text.split("\n", 20)[:20]:
        if (found := _COMMENT.fullmatch(line.strip()[:_LINE])) and any(map(str.isalpha, found[1])):
            return "" if "copyright" in found[1].lower() or "-*-" in found[1] else found[1]
        if line.strip() and not line.startswith("#!") and not found:
            return ""
    return ""
