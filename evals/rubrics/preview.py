"""What people have done for a study, as Markdown for the Dagster UI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rag_assay.evals.rubrics.rubric import Rubric

MOST = 20  # annotators that are listed


def preview(meta: Mapping[str, Any], rubrics: Mapping[str, Rubric]) -> str:
    """Return tables of the rubrics and of the annotators.

    meta: scores, coverage, annotators and rejects, as the stage `annotations` counts them

    >>> print(preview({"scores": 0, "skipped": 0, "annotators": {}, "coverage": {}, "reasons": {}}, {}))
    Nobody has scored anything yet.
    """
    if not meta["scores"] and not meta["reasons"]:
        return "Nobody has scored anything yet."
    lines = ["| rubric | version | scored |", "|---|---|---|"]
    for name, rubric in rubrics.items():
        share = meta["coverage"].get(name)
        lines.append(f"| {name} | {rubric.version} | {'–' if share is None else f'{share:.0%}'} |")
    lines += ["", "| annotator | scores |", "|---|---|"]
    people = sorted(meta["annotators"].items(), key=lambda one: (-one[1], one[0]))
    lines += [f"| {_cell(name)} | {count} |" for name, count in people[:MOST]]
    if len(people) > MOST:
        lines.append(f"| and {len(people) - MOST} more | {sum(count for _, count in people[MOST:])} |")
    lines += ["", f"{meta['scores']} scores count, {meta['skipped']} times nobody could say."]
    lines += [f"- {count} do not: {_cell(reason)}" for reason, count in meta["reasons"].items()]
    return "\n".join(lines)


def _cell(text: str) -> str:
    """Return a text of anybody's as one cell of a table, without markup."""
    return "".join(f"\\{sign}" if sign in "\\|`*_<>[]#!~" else sign for sign in " ".join(text.split()))
