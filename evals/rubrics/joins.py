"""Joins the human ratings to the cells that hold what they scored; a score without a cell counts for all of
them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from rag_assay.evals.rubrics.rubric import Criterion, Rubric

Row = dict[str, Any]
_Place = tuple[str, str]  # key of a cell, id of a question
_Asked = tuple[str, str | None]  # name of a rubric, name of its criterion


class RatableItems(NamedTuple):
    """What people can rate of a cell: question -> item (None: not looked up); ties: equal answers."""

    items: Mapping[str, str | None]
    ties: frozenset[str] = frozenset()


class Rejected(NamedTuple):
    """A score that fits nothing that the study has now, as `schemas.REJECTED_SCORES`."""

    place: str
    annotator: str | None
    score_id: str | None
    rubric: str | None
    reason: str


class Joined(NamedTuple):
    """Rows of `schemas.ANNOTATIONS`; the `schemas.HUMAN_SCORES` that count, skipped ones too."""

    rows: list[Row]
    counted: list[Row]
    rejected: list[Rejected]


class _Said(NamedTuple):
    """Human ratings of one place by one criterion: annotator -> values; who could not say."""

    values: dict[str, list[float]]
    skipped: set[str]


def join_scores(
    rubrics: Mapping[str, Rubric],
    places: Mapping[str, Mapping[str, RatableItems]],
    scores: Iterable[Row],
    probabilities: Mapping[str, float],
) -> Joined:
    by_item = {name: _by_item(cells) for name, cells in places.items()}
    said: dict[_Asked, dict[_Place, _Said]] = defaultdict(lambda: defaultdict(lambda: _Said({}, set())))
    result = Joined([], [], [])
    for row in scores:
        why = _misfit(row, rubrics.get(row["rubric"]))
        where: list[_Place] = []
        if why is None:
            where, why = _where(row, places[row["rubric"]], by_item[row["rubric"]])
        if why is not None:
            named = {name: row[name] for name in ("place", "annotator", "score_id", "rubric")}
            result.rejected.append(Rejected(**named, reason=why))
            continue
        result.counted.append(row)
        for place in where:
            one = said[row["rubric"], row["criterion"]][place]
            if row["status"] == "ok":
                one.values.setdefault(row["annotator"], []).append(row["value"])
            else:
                one.skipped.add(row["annotator"])
    for name, rubric in rubrics.items():
        for one_of in rubric.criteria:
            result.rows.extend(_rows(name, one_of, places[name], said[name, one_of.name], probabilities))
    return result


def _by_item(cells: Mapping[str, RatableItems]) -> dict[str, list[_Place]]:
    found: dict[str, list[_Place]] = {}
    for cell, of_cell in cells.items():
        for question, item in of_cell.items.items():
            if item is not None:
                found.setdefault(item, []).append((cell, question))
    return found


def _misfit(row: Row, rubric: Rubric | None) -> str | None:
    if rubric is None:
        return f"the study has no rubric `{row['rubric']}`"
    if row["rubric_version"] != rubric.version:
        version = row["rubric_version"][:20]
        return f"it is by another wording of the rubric `{row['rubric']}` (version {version})"
    criterion = next((one for one in rubric.criteria if one.name == row["criterion"]), None)
    if criterion is None:
        return f"the rubric `{row['rubric']}` has no criterion {row['criterion'] or 'without a name'}"
    if row["status"] == "ok" and row["value"] not in criterion.anchors:
        known = ", ".join(f"{value:g}" for value in criterion.anchors)
        return f"{row['value']:g} is not a value of `{row['rubric']}`: {known}"
    return None


def _where(
    row: Row, cells: Mapping[str, RatableItems], by_item: Mapping[str, list[_Place]]
) -> tuple[list[_Place], str | None]:
    cell, question = row["cell"], row["question_id"]
    if cell is None:
        found = by_item.get(row["item_id"], [])
        return found, None if found else "no cell gives this answer from these passages now"
    if cell not in cells:
        return [], f"there is no cell `{cell}` whose answers are there"
    items = cells[cell].items
    if question not in items:
        return [], f"`{question}` is not a question that `{cell}` has answered"
    if items[question] != row["item_id"]:
        return [], f"`{cell}` answers `{question}` otherwise by now"
    return [(cell, question)], None


def _rows(
    rubric: str,
    criterion: Criterion,
    cells: Mapping[str, RatableItems],
    said: Mapping[_Place, _Said],
    probabilities: Mapping[str, float],
) -> Iterator[Row]:
    nothing, asked = _Said({}, set()), {"rubric": rubric, "criterion": criterion.name}
    tie = sum(criterion.bounds) / 2
    for cell, of_cell in cells.items():
        for question, item in of_cell.items.items():
            found = said.get((cell, question), nothing)
            means = [sum(values) / len(values) for values in found.values.values()]
            given = [value for values in found.values.values() for value in values]
            yield {
                **asked,
                **{"cell": cell, "question_id": question},
                "value": sum(means) / len(means) if means else None,
                "annotators": len(means),
                "low": min(given, default=None),
                "high": max(given, default=None),
                "skipped": len(found.skipped - found.values.keys()),
                "item_id": item,
                "probability": probabilities.get(item) if item else None,
            }
        for question in sorted(of_cell.ties):
            yield {
                **asked,
                **{"cell": cell, "question_id": question},
                **dict.fromkeys(("value", "low", "high"), tie),
                **dict.fromkeys(("annotators", "skipped"), 0),
                **dict.fromkeys(("item_id", "probability")),
            }


MOST = 20  # annotators that are listed


def preview(meta: Mapping[str, Any], rubrics: Mapping[str, Rubric]) -> str:
    """Return tables of the rubrics and of the annotators; meta: as the stage `annotations` counts them"""
    if not meta["scores"] and not meta["reasons"]:
        return "There are no ratings yet."
    lines = ["| rubric | version | scored |", "|---|---|---|"]
    for name, rubric in rubrics.items():
        share = meta["coverage"].get(name)
        lines.append(f"| {name} | {rubric.version} | {'–' if share is None else f'{share:.0%}'} |")
    lines += ["", "| annotator | scores |", "|---|---|"]
    people = sorted(meta["annotators"].items(), key=lambda one: (-one[1], one[0]))
    lines += [f"| {_cell(name)} | {count} |" for name, count in people[:MOST]]
    if len(people) > MOST:
        lines.append(f"| and {len(people) - MOST} more | {sum(count for _, count in people[MOST:])} |")
    lines += ["", f"{meta['scores']} scores count, {meta['skipped']} were skipped."]
    lines += [f"- {count} do not: {_cell(reason)}" for reason, count in meta["reasons"].items()]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return "".join(f"\\{sign}" if sign in "\\|`*_<>[]#!~" else sign for sign in " ".join(text.split()))
