"""Pages of the site that are made when it is built: `make docs`.

The README, CONTRIBUTING and CHANGELOG become pages; the reference of the command line, of study files, of the
Python API and of the DuckDB views is written from the code.
"""

from __future__ import annotations

import inspect
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
COPIED = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that no file of docs/ holds."""
    pages: dict[str, Callable[[], str]] = {
        "reference/cli.md": command_line,
        "reference/study.md": study_file,
        "reference/python.md": python_api,
        "reference/views.md": views,
    }
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text()))
    for source, path in COPIED.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, path, content=as_page(text)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Turn links to files that the site does not have into text, and unescape pipes in the code of tables."""
    for source, path in COPIED.items():
        markdown = markdown.replace(f"](../{source}", f"]({path}")
    if not page.file.src_uri.startswith("reference/"):
        elsewhere = r"\((?:\.\./|(?!https?:|#|[\w/-]+\.(?:md|png|gif))[\w./-]+)[^)]*\)"
        markdown = re.sub(rf"\[([^\]]+)\]{elsewhere}", r"\1", markdown)
    rows = re.compile(r"^\|.*\|$", re.MULTILINE)
    return rows.sub(
        lambda row: re.sub(r"`[^`]+`", lambda code: code[0].replace("\\|", "|"), row[0]), markdown
    )


def on_post_page(output: str, page: Page, **_: Any) -> str:
    """Load a script of the theme from this folder instead of the network."""
    here = "../" * page.url.count("/") + "site/iframe-worker.js"
    return output.replace("https://unpkg.com/iframe-worker/shim", here)


def on_post_template(output_content: str, **_: Any) -> str:
    """Do the same in the 404 page."""
    return output_content.replace("https://unpkg.com/iframe-worker/shim", "site/iframe-worker.js")


def as_page(text: str) -> str:
    """Rewrite the links of a file of the repository's root to those of a file of docs/."""
    text = re.sub(r"\]\(docs/", "](", text)
    for source, path in COPIED.items():
        text = text.replace(f"]({source}", f"]({path}")
    return text


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a Markdown table; cells are one line each."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(
        f"| {' | '.join(' '.join(c.split()).replace('|', chr(92) + '|') for c in r)} |" for r in lines
    )


# ------------------------------------------------------------------------------------ command line


def command_line() -> str:
    """Return every command with its help, arguments and options."""
    from typer.main import get_command

    from rag_assay.orchestration.cli import app

    return "# Command line\n\n" + "\n\n".join(_commands(get_command(app), "assay"))


def _commands(command: Any, name: str) -> Iterator[str]:
    for short, one in getattr(command, "commands", {}).items():
        if one.hidden:
            continue
        full = f"{name} {short}"
        if hasattr(one, "commands"):
            yield f"## {full}\n\n{_help(one)}"
            yield from _commands(one, full)
            continue
        rows = [
            (f"`{_spelled(p)}`", getattr(p, "help", "") or "")
            for p in one.params
            if not getattr(p, "hidden", False) and p.name != "help"
        ]
        yield f"## {full}\n\n{_help(one)}" + (
            f"\n\n{table(('argument or option', 'meaning'), rows)}" if rows else ""
        )


def _help(command: Any) -> str:
    text = inspect.cleandoc(command.help or "").replace("\b", "")
    epilog = inspect.cleandoc(command.epilog or "")
    examples = [line.strip() for line in epilog.splitlines() if line.strip().startswith("assay ")]
    return text + ("\n\n```sh\n" + "\n".join(examples) + "\n```" if examples else "")


def _spelled(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name.upper())
    return ", ".join([*parameter.opts, *parameter.secondary_opts])


# -------------------------------------------------------------------------------------- study file


def study_file() -> str:
    """Return the keys of a study file, nested ones included, from its JSON Schema."""
    import json

    from rag_assay.evals.study.study_schema import schema_text

    found = json.loads(schema_text())["definitions"]
    first = ["Study", "ImportedStudy"]
    parts = [
        "# Study file",
        "Keys with their types, bounds and defaults, from the schema that `assay schema` writes.",
    ]
    for name in [*first, *sorted(set(found) - set(first), key=str.lower)]:
        keys = found[name].get("properties")
        if not keys:
            continue
        needed = set(found[name].get("required", ()))
        rows = [
            (
                f"`{key}`",
                _type(value),
                "required" if key in needed else _default(value),
                value.get("description", ""),
            )
            for key, value in keys.items()
        ]
        about = found[name].get("description", "")
        parts += [
            f"## {name}",
            *([about] if about else []),
            table(("key", "type", "default", "meaning"), rows),
        ]
    return "\n\n".join(parts)


def _type(value: dict[str, Any]) -> str:
    if "$ref" in value:
        name = value["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})" if name[:1].isupper() else name
    if choices := value.get("enum", [value["const"]] if "const" in value else []):
        return ", ".join(f"`{one}`" for one in choices)
    several = value.get("anyOf") or value.get("allOf") or value.get("oneOf")
    if several:
        kinds = [
            _type(one) for one in several if one.get("type") != "null" and "{" not in one.get("pattern", "")
        ]
        return " or ".join(dict.fromkeys(kinds))
    kind = value.get("type", "any")
    if kind == "array":
        items = value.get("items", {})
        return f"list of {_type(items) if isinstance(items, dict) else ', '.join(map(_type, items))}"
    if kind == "object" and isinstance(value.get("additionalProperties"), dict):
        return f"map of names to {_type(value['additionalProperties'])}"
    return kind if isinstance(kind, str) else " or ".join(kind)


def _default(value: dict[str, Any]) -> str:
    import json

    if "default" not in value or value["default"] in ({}, [], "", None):
        return ""
    text = json.dumps(value["default"], ensure_ascii=False)
    return f"`{text}`" if len(text) <= 60 else ""


# -------------------------------------------------------------------------------------- Python API


def python_api() -> str:
    """Return each public name with its signature and docstring."""
    import rag_assay

    parts = ["# Python API reference", "`import rag_assay as ra`. How to use it: [Python API](../python.md)."]
    for name in rag_assay.__all__:
        value = getattr(rag_assay, name)
        parts += [f"## {name}", f"```python\n{_signature(name, value)}\n```", _docstring(value)]
        if not inspect.isclass(value):
            continue
        for own, member in vars(value).items():
            if own.startswith("_") or not inspect.getdoc(member):
                continue
            if isinstance(member, property):
                parts += [f"### {name}.{own}", _docstring(member)]
            elif callable(getattr(value, own)) and inspect.isroutine(getattr(value, own)):
                shown = _signature(own, getattr(value, own))
                parts += [f"### {name}.{own}", f"```python\n{shown}\n```", _docstring(getattr(value, own))]
    return "\n\n".join(parts)


def _signature(name: str, value: Any) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return name
    parts = [_short(str(one)) for one in signature.parameters.values()]
    keywords = [one.kind is one.KEYWORD_ONLY for one in signature.parameters.values()]
    if True in keywords and not any(one.kind is one.VAR_POSITIONAL for one in signature.parameters.values()):
        parts.insert(keywords.index(True), "*")
    result = signature.return_annotation
    end = (
        "" if result in (signature.empty, None, "None") else f" -> {_short(inspect.formatannotation(result))}"
    )
    line = f"{name}({', '.join(parts)}){end}"
    return line if len(line) <= 78 else f"{name}(\n    " + ",\n    ".join(parts) + f",\n){end}"


def _short(annotation: str) -> str:
    """Return an annotation without modules, quotes and bounds."""
    text = re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Za-z])", "", annotation).replace("'", "")
    return re.sub(r"Annotated\[([^,]+), [^\]]*\]", r"\1", text)


def _docstring(value: Any) -> str:
    return re.sub(
        r"^(Args|Returns|Raises|Attributes):$", r"\n**\1**\n", inspect.getdoc(value) or "", flags=re.MULTILINE
    )


# ------------------------------------------------------------------------------------------- views


def views() -> str:
    """Return the views of a migrated, empty database with their columns."""
    from rag_assay.warehouse.connection import connect

    with tempfile.TemporaryDirectory() as folder, connect(Path(folder) / "assay.duckdb") as connection:
        rows = connection.execute(
            "SELECT table_name, column_name, data_type FROM information_schema.columns"
            " JOIN information_schema.tables USING (table_schema, table_name)"
            " WHERE table_type = 'VIEW' ORDER BY table_name, ordinal_position"
        ).fetchall()
    found: dict[str, list[tuple[str, ...]]] = {}
    for view, column, kind in rows:
        found.setdefault(view, []).append((f"`{column}`", kind))
    parts = ["# DuckDB views", "Views of `assay.duckdb` in the [workspace](../workspace.md)."]
    for view, columns in found.items():
        parts += [f"## {view}", table(("column", "type"), columns)]
    return "\n\n".join(parts)
