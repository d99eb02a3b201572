"""What differs between two results as a page, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from rag_assay.evals.reporting.changes.diff import Diff, Hanging, MatchedCells
from rag_assay.evals.reporting.changes.pages import labels_of
from rag_assay.evals.reporting.display import (
    MISSING,
    interval,
    listed,
    number,
    p_value,
    several,
    truncate,
    with_sign,
)
from rag_assay.evals.reporting.sections import (
    Column,
    Definitions,
    Details,
    PageSection,
    Table,
    TitledPage,
    numbers,
)

LONGEST = 600  # characters of an answer
NAMES = 12  # of one kind that are listed


def diff_page(found: Diff) -> TitledPage:
    before, after = found.before, found.after
    same_study = before.study == after.study
    title = f"{before.study} – what changed" if same_study else f"{before.study} and {after.study}"
    if before.leaderboard == after.leaderboard:
        same = "No differences: both are the same result."
        return TitledPage(title, f"{before.name} → {after.name}", (same,), ())
    sections = (_documents(found), _cells(found), _answers(found), _else(found))
    return TitledPage(title, f"{before.name} → {after.name}", tuple(_lead(found)), sections)


def _lead(found: Diff) -> Iterator[str]:
    n, n_moved = len(found.documents), len({one.cell for one in found.moved})
    differ = "differs" if n == 1 else "differ"
    documents = f"{several(n, 'document')} {differ}" if n else "no document differs"
    answers = _answer_words(found)
    moved = several(n_moved, "cell") if n_moved else "no cell"
    yield f"{documents[:1].upper()}{documents[1:]}, {answers}, {moved} changed significantly."
    old, new = found.before.leader, found.after.leader
    if old and new and old.partition(".")[2] != new.partition(".")[2]:
        then = [one for one in found.after.tied if one.cell.partition(".")[2] == old.partition(".")[2]]
        how = then[0].standing if then else "now significantly worse"
        yield f"{_short(new)} leads now; before it was {_short(old)}, {how}."
    elif new:
        yield f"{_short(new)} leads, as before."
    if found.gone:
        names = "; ".join(found.gone)
        yield f"No longer in the workspace, so what depends on them is not known: {names}."


def _short(cell: str) -> str:
    return cell.partition(".")[2].replace(".", " · ")


def _documents(found: Diff) -> PageSection:
    if not found.documents:
        known = "The documents of both are the same." if not found.gone else "None is known to differ."
        return PageSection("", "Documents", [known])
    rows = []
    for one in sorted(found.documents, key=lambda one: -found.hanging[one.doc_id].answers):
        depends = hanging_words(found.hanging[one.doc_id])
        rows.append((one.change.value, one.title or MISSING, one.url or MISSING, depends, one.note))
    columns = [Column(name) for name in ("change", "title", "address", "what depends on it", "note")]
    return PageSection("", "Documents", [Table("Documents", columns, rows)])


def hanging_words(one: Hanging) -> str:
    """
    >>> hanging_words(Hanging()), hanging_words(Hanging(2, 1, ("q1",)))
    ('no answer depends on it', '1 answer, by passages of 1 question')
    """
    if not one.rankings:
        return "no answer depends on it"
    answers = several(one.answers, "answer") if one.answers else "no answer is another"
    return f"{answers}, by passages of {several(len(one.questions), 'question')}"


def _cells(found: Diff) -> PageSection:
    label = labels_of([f"s.{one.cell}" for one in found.moves])
    primary = found.after.primary
    units = {one.name: one.unit for one in found.after.metrics}
    shown = [one for one in found.moves if one.is_significant or one.metric == primary.name]
    rows = []
    for one in sorted(shown, key=lambda one: (not one.is_significant, one.p, -abs(one.difference))):
        unit, moved = units.get(one.metric, ""), "moved" if one.is_significant else ""
        means = (number(one.before, unit), number(one.after, unit), with_sign(one.difference, unit))
        ends = interval(one.low, one.high, unit)
        rows.append((label(f"s.{one.cell}"), one.metric, *means, ends, p_value(one.p), moved))
    sentences = [
        "Paired by the questions that both ask alike; the p-value is the larger of the paired bootstrap's "
        "and the paired permutation test's, each adjusted (Holm) for the cells of its metric. Times are "
        "measured again by each run, and are not compared.",
        *_unmatched(found.cells),
    ]
    columns = [Column("cell"), Column("metric"), *numbers("before", "after", "difference", "interval", "p")]
    table = [Table("Cells", [*columns, Column("")], rows)] if rows else []
    return PageSection("", "Cells", [*sentences, *table])


def _unmatched(cells: MatchedCells) -> Iterator[str]:
    by_recipes = len(cells.pairs) - cells.by_names
    if by_recipes:
        yield (
            f"{several(cells.by_names, 'cell')} of the same names were compared, and {by_recipes} that "
            "have the same recipes under other names."
        )
    for names, whose in ((cells.only_before, "first"), (cells.only_after, "second")):
        if names:
            yield f"Only the {whose} has {several(len(names), 'cell')}: {listed(names, NAMES)}."


def _answers(found: Diff) -> PageSection:
    names = {one.doc_id: one.title or one.url or one.doc_id for one in found.documents}
    rows = list(found.answers.iter_rows(named=True))
    label = labels_of([f"s.{row['cell']}" for row in rows])
    passages = _passages(found, names)
    folds = []
    for row in rows:
        again = f" · replicate {row['replicate']}" if row["replicate"] > 1 else ""
        said = [
            ("question", truncate(row["question"], LONGEST)),
            ("before", _said(row["old_status"], row["old"])),
            ("after", _said(row["new_status"], row["new"])),
            ("because of", because(row, names)),
            *passages.get((row["cell"].rpartition(".")[0], row["question_id"]), ()),
        ]
        title = f"{row['question_id']} · {label('s.' + row['cell'])}{again}"
        folds.append(Details(title, [Definitions(said, "")], style="change"))
    return PageSection("", "Answers", [f"{_answer_words(found)}.", *folds])


def _answer_words(found: Diff) -> str:
    n = len(found.answers)
    return f"{n} of {several(found.compared, 'answer')} {'is' if n == 1 else 'are'} another"


def _passages(found: Diff, names: Mapping[str, str]) -> dict[tuple[str, str], list[tuple[str, str]]]:
    listed: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for row in found.passages.iter_rows(named=True):
        name = f" of {names[row['doc']]}" if row["doc"] in names else ""
        said = (f"passage {row['rank']} {row['how']}{name}", row["text"] or "(its text is gone)")
        listed.setdefault((row["ranking"], row["question_id"]), []).append(said)
    return listed


def _said(status: str, text: str | None) -> str:
    return truncate(text, LONGEST) if status == "ok" else f"({status}) {truncate(text, LONGEST)}".strip()


def because(row: Mapping[str, Any], names: Mapping[str, str]) -> str:
    words = {
        "left": "a passage of it left",
        "entered": "a passage of it entered",
        "changed": "its passage changed",
    }
    causes = [
        f"{names.get(cause, cause)} ({words[effect]})"
        for cause, effect in zip(row["causes"] or (), row["effects"] or (), strict=True)
    ]
    if causes:
        return "; ".join(causes)
    if row["left"] or row["entered"]:
        return (
            "no changed document: other passages were found, by other statistics of the corpus, another "
            "recipe or other code"
        )
    if row["left"] is not None:
        return "no changed document: the same passages came in another order"
    return "no document: its passages are the same, or it reads none; the generator answered otherwise"


def _else(found: Diff) -> PageSection:
    parts = found.parts
    rows = [
        (what, kind, listed(names, NAMES))
        for what, one in parts.by_kind.items()
        for kind, names in (("new", one.added), ("gone", one.removed), ("changed", one.changed))
        if names
    ]
    rows += [("recipe", name, text) for name, text in parts.written.items()]
    rows += [("study", "", text) for text in parts.other]
    if not rows:
        return PageSection("", "What else differs", ["Questions, recipes, code and weights are the same."])
    columns = [Column(name) for name in ("what", "", "which")]
    return PageSection("", "What else differs", [Table("What else differs", columns, rows)])


def diff_json(found: Diff) -> str:
    """Ids of documents in causes are those under `documents`."""
    names = ("leaderboard", "leader")
    before, after = (
        {"study": one.study, "since": one.at.isoformat(), **{name: getattr(one, name) for name in names}}
        for one in (found.before, found.after)
    )
    only = {"only_before": found.cells.only_before, "only_after": found.cells.only_after}
    return json.dumps(
        {
            "before": before,
            "after": after,
            "gone": list(found.gone),
            "documents": [
                {**asdict(one), "hanging": asdict(found.hanging[one.doc_id])} for one in found.documents
            ],
            "cells": {"matched": found.cells.pairs, **only},
            "moves": [{**asdict(one), "significant": one.is_significant} for one in found.moves],
            "answers_compared": found.compared,
            **{name: getattr(found, name).to_dicts() for name in ("answers", "rankings", "passages")},
            "parts": asdict(found.parts),
        },
        indent=1,
        ensure_ascii=False,
        default=dict,
    )
