"""Writes questions as a YAML file of ours; `evals.question_sets.question_files` reads back the same rows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from rag_assay.evals.question_sets.no_answer_sentence import UNANSWERED
from rag_assay.evals.question_sets.question_files import QuestionFile
from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.validation_errors import display_place, in_words
from rag_assay.warehouse.yaml_positions import MAX_BYTES, escape_text

_DEFAULTS: dict[str, Any] = {"type": "normal", "answerable": True, "needs": "all"}
_UNPLAIN = re.compile(
    r"[^\t -\x7e\u00a0-\u1fff\u2010-\u2027\u2030-\u205e\u2070-\ud7ff\uf900-\ufdcf\ufdf0-\ufdff]"
)
"""What an editor may show as nothing, or YAML reads as the end of a line: written as an escape."""


def write_yaml(rows: Sequence[Mapping[str, Any]], path: Path, heading: str = "") -> Path:
    """Write a question file; return its path.

    Args:
        rows: of `schemas.QUESTIONS`, their evidence as written (`url`, `quote`, `grade` …) or resolved.
        path: replaced where it is there, as a whole or not at all.
        heading: lines of comment for its head, without `#`.

    Raises:
        InputError: a row could not be read back: no id, one twice, two sets, an empty question.
    """
    text = as_yaml(rows, heading)
    if len(text.encode()) > MAX_BYTES:
        raise InputError(f"{path}: the file would be larger than {MAX_BYTES // 1_000_000} MB; write fewer")
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as new:
        new.write_text(text, encoding="utf-8", newline="\n")
    return path


def as_yaml(rows: Sequence[Mapping[str, Any]], heading: str = "") -> str:
    """Return the text of a question file, as `write_yaml` writes it.

    >>> row = {"question_id": "a", "question_set": "s", "question": "Who, then: me?", "ground_truth": "- yes"}
    >>> print(as_yaml([row | {"language": "en"}]), end="")
    question_set: s
    language: en
    questions:
    - id: a
      question: 'Who, then: me?'
      ground_truth: '- yes'
    """
    sets = {row["question_set"] for row in rows}
    if len(sets) != 1:
        raise InputError(f"a question file holds one set of questions; these are of {len(sets)}")
    language = next((row["language"] for row in rows if row.get("language")), "en")
    data = {
        "question_set": sets.pop(),
        "language": language,
        "questions": [dict(_question(row, language)) for row in rows],
    }
    _check(data)
    return yaml_text(data, heading)


def yaml_text(data: Mapping[str, Any], heading: str = "") -> str:
    """Return data as the text of a YAML file that `warehouse.yaml_positions` reads back as the same data.

    heading: lines of comment for its head, without `#`
    """
    comment = "".join(f"# {line}".rstrip() + "\n" for line in heading.splitlines())
    return comment + yaml.dump(
        _escaped(dict(data)),
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=110,
        default_flow_style=False,
    )


def _check(data: dict[str, Any]) -> None:
    """Refuse what could not be read back.

    Raises:
        InputError: every such thing, by its place.
    """
    try:
        QuestionFile.model_validate(data)
    except ValidationError as error:
        found = in_words(error, QuestionFile)
        raise InputError(*(f"{display_place(one.place)}: {one.text}" for one in found)) from error
    ids = [question["id"] for question in data["questions"]]
    doubled = sorted({name for name in ids if ids.count(name) > 1}) if len(set(ids)) < len(ids) else []
    if doubled:
        raise InputError(*(f"two questions have the id {name}" for name in doubled))


def _question(row: Mapping[str, Any], language: str) -> Iterator[tuple[str, Any]]:
    """Yield the keys of one question of the file, those that say no more than the default left out."""
    yield "id", row["question_id"]
    if row.get("language") not in (None, language):
        yield "language", row["language"]
    yield "question", row["question"]
    truth = row.get("ground_truth")
    is_refusal = row.get("answerable") is False and truth == UNANSWERED.get(row.get("language") or language)
    if truth is not None and not is_refusal:
        yield "ground_truth", truth
    for name, default in _DEFAULTS.items():
        if row.get(name, default) != default:
            yield name, row[name]
    frame = {key: row[name] for key, name in (("from", "time_from"), ("to", "time_to")) if row.get(name)}
    if frame:
        yield "time_frame", frame
    if row.get("asked_at"):
        yield "asked_at", row["asked_at"]
    if row.get("conversation"):
        yield "conversation", list(row["conversation"])
    if row.get("evidence"):
        yield "evidence", [_evidence(item) for item in row["evidence"]]


def _evidence(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return evidence as it is written; of what was resolved, the quote says the place."""
    keys = ("url", "source", "quote") if "similarity" in item else ("url", "source", "quote", "start", "end")
    found = {key: item[key] for key in keys if item.get(key) is not None}
    return found | ({"grade": item["grade"]} if item.get("grade", 1) != 1 else {})


def _escaped(value: Any) -> Any:
    """Return data whose texts are read back as they are, also where they look like `${NAME}`."""
    if isinstance(value, dict):
        return {key: _escaped(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_escaped(one) for one in value]
    return escape_text(value) if isinstance(value, str) else value


class _Dumper(yaml.CSafeDumper):
    """Writes every list and mapping anew, never a reference to one that was written before."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = '"' if _UNPLAIN.search(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
