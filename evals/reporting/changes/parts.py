"""What differs between two results beside their documents: questions, recipes, code, weights, seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl
import yaml

from rag_assay.evals.reporting.changes.entry import HistoryEntry
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.parquet import conform_rows, read_parquet
from rag_assay.warehouse.schemas import QUESTIONS

_OF_STUDY = (
    "source",
    "cleaning",
    "corpus",
    "chunking",
    "embedder",
    "retriever",
    "generator",
    "judge",
    "index",
)
"""Kinds of recipes that a person has written; of what hangs on them nothing more is said."""


@dataclass(frozen=True)
class Named:
    """Names that came, went, or mean something else now."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything differs."""
        return bool(self.added or self.removed or self.changed)

    @property
    def counts(self) -> str:
        """The numbers in a few characters.

        >>> Named(("a",), (), ("b", "c")).counts
        '+1 ~2'
        """
        parts = {"+": self.added, "−": self.removed, "~": self.changed}
        return " ".join(f"{sign}{len(names)}" for sign, names in parts.items() if names)


@dataclass(frozen=True)
class PartChanges:
    """What differs beside documents.

    recipes: by the names of the parts
    written: name of a part -> what of its recipe differs, as `bm25.k: 5 → 10; …`
    code: stages, and the package, whose version is another one
    """

    questions: Named = Named()
    recipes: Named = Named()
    written: Mapping[str, str] = field(default_factory=dict)
    code: Named = Named()
    weights: Named = Named()
    other: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything differs."""
        return any((self.questions, self.recipes, self.code, self.weights, self.other))


def compare_by_name(before: Mapping[str, Any], after: Mapping[str, Any]) -> Named:
    """Compare two mappings by their names.

    >>> compare_by_name({"a": 1, "b": 1}, {"b": 2, "c": 1})
    Named(added=('c',), removed=('a',), changed=('b',))
    """
    return Named(
        tuple(sorted(after.keys() - before.keys())),
        tuple(sorted(before.keys() - after.keys())),
        tuple(sorted(name for name in before.keys() & after.keys() if before[name] != after[name])),
    )


def part_changes(before: HistoryEntry, after: HistoryEntry, store: ArtifactStore) -> PartChanges:
    """Return what differs between two results beside their documents."""
    other = [
        f"{what}: {old} → {new}"
        for what, old, new in (
            ("seed", before.seed, after.seed),
            ("clusters", before.clusters, after.clusters),
            ("metric that ranks", before.metric, after.metric),
        )
        if old != new
    ]
    return PartChanges(
        _question_changes(before, after, store),
        compare_by_name(_recipes(before), _recipes(after)),
        _written(before, after),
        compare_by_name(before.code, after.code),
        compare_by_name(before.weights, after.weights),
        tuple(other),
    )


def _recipes(entry: HistoryEntry) -> dict[str, str]:
    """Return the recipes that a person has written, without the study's name in theirs: it may be another."""
    found = {}
    for name, value in entry.recipes.items():
        kind, _, rest = name.partition(".")
        if kind in _OF_STUDY:
            found[f"{kind} {rest.removeprefix(entry.study + '.')}"] = value
    return found


def _written(before: HistoryEntry, after: HistoryEntry) -> dict[str, str]:
    found = {}
    for name in sorted(before.written.keys() & after.written.keys()):
        old, new = (dict(_flat(yaml.safe_load(one.written[name]))) for one in (before, after))
        lines = [
            f"{path}: {old.get(path, 'absent')} → {new.get(path, 'absent')}"
            for path in dict.fromkeys((*old, *new))
            if old.get(path) != new.get(path)
        ]
        if lines:
            found[name] = "; ".join(lines)
    return found


def _flat(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and the text of every value inside of lists and mappings.

    >>> list(_flat({"fuse": {"k": 10, "of": ["bm25", "dense"]}}))
    [('fuse.k', '10'), ('fuse.of.0', 'bm25'), ('fuse.of.1', 'dense')]
    """
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in items:
            yield from _flat(inner, f"{path}.{key}" if path else str(key))
    else:
        yield path, str(value)


def questions_of(entry: HistoryEntry, store: ArtifactStore) -> pl.DataFrame | None:
    """Return the questions of a result (schemas.QUESTIONS); None where those of then are gone."""
    frames = []
    for identity in entry.artifacts.get("questions", {}).values():
        artifact = store.find("questions", identity)
        if artifact is None:
            return None
        try:
            path = store.folder("questions", identity) / "questions.parquet"
            frames.append(conform_rows(read_parquet(path), QUESTIONS))
        except CorruptFileError:
            return None
    return pl.concat(frames) if frames else pl.DataFrame(schema=QUESTIONS)


def _question_changes(before: HistoryEntry, after: HistoryEntry, store: ArtifactStore) -> Named:
    """Return which questions differ as people wrote them; where their evidence stands may differ, too."""
    if before.questions == after.questions:
        return Named()
    old, new = questions_of(before, store), questions_of(after, store)
    if old is None or new is None:
        return compare_by_name(before.questions, after.questions)
    return compare_by_name(question_contents(old), question_contents(new))


def question_contents(questions: pl.DataFrame) -> dict[str, Any]:
    """Return id -> what makes a question another one: its words, ground truth and wanted evidence."""
    quoted = pl.col("evidence").list.eval(
        pl.struct(pl.element().struct.field("url"), pl.element().struct.field("quote"))
    )
    columns = ["question_id", "question", "ground_truth", "answerable", "conversation", "asked_at"]
    rows = questions.select(*columns, quoted.alias("wanted")).iter_rows()
    return {row[0]: row[1:] for row in rows}
