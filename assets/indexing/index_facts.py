"""Facts of an index in a JSON file beside its table, for readers and for the next build."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from rag_assay.assets.indexing.index_recipe import Kind
from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.errors import CorruptFileError

FACTS = "facts.json"


@dataclass(frozen=True)
class SearchParameters:
    """How the table is searched by vectors.

    ef, nprobes, refine_factor: of the approximate index; None for exact search and where they mean nothing
    recall: recall@10 against exact search with these parameters, in [0, 1]; 1 for exact search
    """

    kind: Kind = "exact"
    ef: int | None = None
    nprobes: int | None = None
    refine_factor: int | None = None
    recall: float = 1.0


@dataclass(frozen=True)
class IndexFacts:
    """What was built.

    tag: of the table, the version that readers open
    schema, recipe: digests of columns and types, and of the `IndexRecipe`; an upsert needs the same ones
    made: whole, or by an upsert of the previous index
    added, changed, removed: rows that the upsert wrote and removed; all of them were added to a whole table
    dead: rows that lie in the table's files, replaced or removed, since it was made whole
    upserts: since then
    """

    tag: str
    chunks: int
    dimensions: int
    schema: str
    recipe: str
    search: SearchParameters
    made: Literal["whole", "upsert"]
    added: int
    changed: int = 0
    removed: int = 0
    dead: int = 0
    upserts: int = 0


def write_facts(facts: IndexFacts, folder: Path) -> None:
    """Write the facts of an index into its folder."""
    with atomic_write(folder / FACTS) as temporary:
        temporary.write_text(json.dumps(asdict(facts), indent=1))


def read_facts(folder: Path) -> IndexFacts:
    """Read the facts of an index.

    Raises:
        CorruptFileError: there are none, or they cannot be read.
    """
    try:
        found = json.loads((folder / FACTS).read_text())
        return IndexFacts(**{**found, "search": SearchParameters(**found["search"])})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CorruptFileError(
            f"{folder}: the index is damaged ({FACTS}: {error}). Delete the folder; `assay run` makes it "
            "again."
        ) from error
