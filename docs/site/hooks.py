"""Pages of the site that are made when it is built: `make docs`.

The README, CONTRIBUTING and CHANGELOG become pages; the reference of the command line, of study files, of the
Python API, of the HTTP API, of assets with their checks and of the DuckDB views is written from the code.
"""

from __future__ import annotations

import inspect
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

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
        "reference/questions.md": question_files,
        "reference/python.md": python_api,
        "reference/http.md": http_api,
        "reference/assets.md": assets,
        "reference/views.md": views,
    }
    for path, written in pages.items():
        files.append(File.generated(config, path, content=without_dead_anchors(written())))
    for source, path in COPIED.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, path, content=as_page(text)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Turn links to files that the site does not have into text, and unescape pipes in the code of tables."""
    for source, path in COPIED.items():
        markdown = markdown.replace(f"](../{source}", f"]({path}")
    if not page.file.src_uri.startswith("reference/"):
        elsewhere = r"\((?:\.\./|(?!https?:|#|(?!examples/)[\w/-]+\.(?:md|png|gif))[\w./-]+)[^)]*\)"
        markdown = re.sub(rf"\[([^\]]+)\]{elsewhere}", r"\1", markdown)
    # A block that a test writes to a file is shown with the file's name
    markdown = re.sub(r"^(```\w+) file=(\S+)$", r'\1 title="\2"', markdown, flags=re.MULTILINE)
    markdown = re.sub(r"^(```\w+) append-after=\S+$", r'\1 title="study.yaml"', markdown, flags=re.MULTILINE)
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


def without_dead_anchors(text: str) -> str:
    """Turn links to sections that a generated page lacks into text: a type without keys has none."""
    heads = {head.lower() for head in re.findall(r"^#+ (\w+)$", text, re.MULTILINE)}
    return re.sub(r"\[(\w+)\]\(#(\w+)\)", lambda link: link[0] if link[2] in heads else link[1], text)


def as_page(text: str) -> str:
    """Rewrite the links of a file of the repository's root to those of a file of docs/."""
    text = re.sub(r"\]\(docs/", "](", text)
    for source, path in COPIED.items():
        text = text.replace(f"]({source}", f"]({path}")
    return text


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Return a Markdown table; cells are one line each."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(
        f"| {' | '.join(' '.join(c.split()).replace('|', chr(92) + '|') for c in r)} |" for r in lines
    )


def _first_lines(text: str) -> str:
    """Return a docstring or comment up to its first line `name, name: description`."""
    return re.split(r"^\w+(?:, \w+)*: ", inspect.cleandoc(text), maxsplit=1, flags=re.MULTILINE)[0].strip()


# ------------------------------------------------------------------------------------ command line


def command_line() -> str:
    """Return every command with its help, arguments and options."""
    from typer.main import get_command

    from rag_assay.orchestration.cli import app

    top = get_command(app)
    return f"# Command line\n\n{_help(top)}\n\n" + "\n\n".join(_commands(top, "assay"))


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
            (f"`{_spelled(p)}`", _set_to(p), getattr(p, "help", "") or "")
            for p in one.params
            if not getattr(p, "hidden", False) and p.name != "help"
        ]
        yield f"## {full}\n\n{_help(one)}" + (
            f"\n\n{table(('argument or option', 'default', 'meaning'), rows)}" if rows else ""
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


def _set_to(parameter: Any) -> str:
    """Return the default, and the other values after it if there are few."""
    value = getattr(parameter.default, "value", parameter.default)
    is_set = value not in (None, "", (), []) and not isinstance(value, bool) and not callable(value)
    kind = parameter.type_descriptor.annotation
    kinds = [one for one in (kind, *get_args(kind)) if inspect.isclass(one) and issubclass(one, Enum)]
    values = [str(one.value) for choices in kinds for one in choices if one.value != value]
    shown = f"`{value}`" if is_set else "required" if parameter.required else ""
    return shown + (
        f" ({'or ' if is_set else ''}{', '.join(f'`{one}`' for one in values)})" if values else ""
    )


# -------------------------------------------------------------------------------------- study file


def study_file() -> str:
    """Return the keys of a study file, nested ones included, from its JSON Schema."""
    import json

    from rag_assay.evals.study.study_schema import schema_text

    found = {
        name: next((one for one in value.get("anyOf", ()) if "properties" in one), value)
        for name, value in json.loads(schema_text())["definitions"].items()
    }
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
        rows = [(key, value, key in needed, _meaning(value, found)) for key, value in keys.items()]
        about = found[name].get("description", "")
        parts += [f"## {name}", *([about] if about else []), _key_table(rows)]
    return "\n\n".join(parts)


def question_files() -> str:
    """Return the keys of a question file, and why generated questions are left out."""
    from rag_assay.evals.question_generation.generator import GenerationPlan
    from rag_assay.evals.question_generation.llm.candidates import Reason
    from rag_assay.evals.question_sets import question_files as files
    from rag_assay.evals.study.component_list import described

    parts = ["# Question files", "Keys of a YAML file of questions, with their types and defaults."]
    for kind in (files.QuestionFile, files.WrittenQuestion, files.EvidenceQuote, files.PublicationWindow):
        schema, about = kind.model_json_schema(), described(kind)
        needed = set(schema.get("required", ()))
        rows = [
            (key, value, key in needed, about.get(key, "")) for key, value in schema["properties"].items()
        ]
        parts += [f"## {kind.__name__}", _first_paragraph(kind), _key_table(rows)]
    reasons = [(f"`{reason}`", described(Reason)[reason]) for reason in Reason]
    return "\n\n".join(
        [
            *parts,
            "## Generating without a model",
            _first_paragraph(GenerationPlan),
            "## Faults of questions that a model writes",
            _first_paragraph(Reason),
            table(("fault", "meaning"), reasons),
        ]
    )


def _first_paragraph(kind: type) -> str:
    return (inspect.getdoc(kind) or "").partition("\n\n")[0]


def _key_table(keys: list[tuple[str, dict[str, Any], bool, str]]) -> str:
    """keys: name, schema, whether it is required, meaning"""
    rows = [
        (f"`{key}`", _type(value), "required" if needed else _default(value), meaning)
        for key, value, needed, meaning in keys
    ]
    return table(("key", "type", "default", "meaning"), rows)


def _meaning(value: dict[str, Any], found: dict[str, Any]) -> str:
    """Return what a key says; of one that says nothing, what its model says."""
    references = [one["$ref"] for one in (value, *value.get("anyOf", ())) if "$ref" in one]
    names = [reference.rsplit("/", 1)[1] for reference in references]
    texts = [value.get("description", ""), *(found[name].get("description", "") for name in names)]
    return next((text for text in texts if text), "")


def _type(value: dict[str, Any]) -> str:
    if "$ref" in value:
        name = value["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})" if name[:1].isupper() else name
    if choices := value.get("enum", [value["const"]] if "const" in value else []):
        return ", ".join(f"`{one}`" for one in choices)
    several = value.get("anyOf") or value.get("allOf") or value.get("oneOf")
    if several:
        kinds = [
            _type(one)
            for one in several
            if one.get("type") != "null" and r"\$\{" not in one.get("pattern", "")
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

    parts = [
        "# Python API reference",
        "`import rag_assay as ra`. How to use it: [Python API](../systems.md#python-api).",
    ]
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


# ---------------------------------------------------------------------------------------- HTTP API


def http_api() -> str:
    """Return the fields of requests and replies of `assay serve`, and the statuses of errors."""
    from rag_assay.evals.study.component_list import described
    from rag_assay.orchestration.server import chat_requests, failures
    from rag_assay.warehouse import conversations

    def request(model: Any) -> str:
        keys = model.model_json_schema()
        rows = [
            (
                f"`{name}`",
                _type(key),
                "required" if name in keys.get("required", ()) else _default(key),
                key.get("description", described(model).get(name, "")),
            )
            for name, key in keys["properties"].items()
        ]
        return table(("field", "type", "default", "meaning"), rows)

    def reply(model: Any) -> str:
        meanings = described(model)
        names = model.model_json_schema(mode="serialization")["properties"]
        rows = [(f"`{name}`", meanings.get(name, "")) for name in names]
        return f"{_first_lines(model.__doc__)}\n\n{table(('field', 'meaning'), rows)}"

    return "\n\n".join(
        [
            "# HTTP API",
            "Requests and replies of [`assay serve`](../app.md#serving).",
            f"## POST /v1/chat/completions\n\n{request(chat_requests.ChatForm)}",
            "OpenAI clients send the fields that OpenAI does not have in `extra_body`. The reply is a chat"
            " completion of OpenAI with two more fields: `sources`, a list of [passages](#passage), and"
            " `assay`, the [turn](#turn). `finish_reason` is `length` for an answer cut at `max_tokens`.",
            f"## POST /retrieve\n\n{request(chat_requests.SearchForm)}",
            "The reply has `passages`, each with its rank after every step of the retriever in `steps`, and"
            " `understood`.",
            f"## Passage\n\n{reply(conversations.ShownPassage)}",
            f"## Turn\n\n{reply(conversations.Turn)}",
            f"## Understood\n\n{reply(conversations.StoredInterpretation)}",
            f"## Errors\n\n{failures.__doc__}",
        ]
    )


# ---------------------------------------------------------------------------------- assets and checks


def assets() -> str:
    """Return the assets of the bundled studies with their columns, and their checks."""
    from rag_assay.assets.engine.definition import BUILT, BUILT_MEANS
    from rag_assay.evals.study.grid import Grid
    from rag_assay.evals.study.study_file import read_studies
    from rag_assay.evals.study.study_names import study_files
    from rag_assay.orchestration.stages import stages_of

    stages = stages_of(Grid(list(read_studies(study_files()).studies.values())))
    parts = [
        "# Assets and checks",
        "Assets of [Dagster](../dagster.md). Nothing is built from a partition that fails a blocking check.",
        f"Every asset has the check `{BUILT}`: {BUILT_MEANS}",
    ]
    for name, stage in stages.items():
        checks = [
            (f"`{check}`", meaning, "yes" if check in stage.blocking else "")
            for check, meaning in stage.checks.items()
        ]
        parts += [f"## {name}", stage.description]
        parts += [table(("check", "passes if", "blocks"), checks)] if checks else []
        if headline := stage.headline:
            parts += [f"## {headline.asset}", f"{headline.description} The check is `{headline.check}`."]
    return "\n\n".join(parts)


# ------------------------------------------------------------------------------------------- views


def comments_of_views() -> dict[str, str]:
    """Return the comment above each view in the newest migration that has one."""
    found = re.compile(r"((?:^-- .*\n)+)CREATE (?:OR REPLACE )?VIEW (\w+) AS", re.MULTILINE)
    return {
        name: re.sub("^-- ", "", comment, flags=re.MULTILINE)
        for path in sorted((ROOT / "warehouse" / "migrations").glob("*.sql"))
        for comment, name in found.findall(path.read_text(encoding="utf-8"))
    }


def comments_of_columns() -> dict[str, dict[str, str]]:
    """Return what columns hold, by table and column."""
    from rag_assay.warehouse.schemas import COLUMN_NOTES

    return {
        table.lower(): {column: _resolved(note) for column, note in notes.items()}
        for table, notes in COLUMN_NOTES.items()
    }


def _resolved(comment: str) -> str:
    """Put the values of an enum or a mapping in place of its name at the beginning."""
    if not (found := re.match(r"(evals(?:\.\w+)+)\.(\w+)", comment)):
        return comment
    values = getattr(import_module(f"rag_assay.{found[1]}"), found[2])
    named = [f"`{one}` ({values[one]})" if isinstance(values, dict) else f"`{one}`" for one in values]
    return ", ".join(named) + comment[found.end() :]


def views() -> str:
    """Return the views of a migrated, empty database with their columns."""
    from rag_assay.evals.study.component_list import described_in
    from rag_assay.warehouse.connection import connect

    with tempfile.TemporaryDirectory() as folder, connect(Path(folder) / "assay.duckdb") as connection:
        rows = connection.execute(
            "SELECT table_name, column_name, data_type FROM information_schema.columns"
            " JOIN information_schema.tables USING (table_schema, table_name)"
            " WHERE table_type = 'VIEW' ORDER BY table_name, ordinal_position"
        ).fetchall()
    found: dict[str, dict[str, str]] = {}
    for view, column, kind in rows:
        found.setdefault(view, {})[column] = kind
    parts = ["# DuckDB views", "Views of `assay.duckdb` in the [workspace](../dagster.md#sql-views)."]
    comments, tables = comments_of_views(), comments_of_columns()
    for view, columns in found.items():
        comment, name = comments.get(view, ""), view.removeprefix("current_")
        meanings = {**tables.get(name, tables.get(f"{name}s", {})), **described_in(comment)}
        told = [(f"`{name}`", kind, meanings.get(name, "")) for name, kind in columns.items()]
        parts += [f"## {view}", _first_lines(comment), table(("column", "type", "meaning"), told)]
    return "\n\n".join(parts)
