"""The recipe of an index (exact or approximate search), and the facts of a finished one."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.recipe import Recipe

Kind = Literal["exact", "hnsw", "ivf_pq"]
MIN_ROWS = 1_000
"""Below so many chunks an approximate index cannot be trained well, and an exact search takes no time."""
PARTITION = 25_000
"""Vectors of one HNSW graph: smaller graphs build faster and find more at equal `ef` (all are searched)."""

Ef = Annotated[int, Field(ge=10, le=20_000)]
Probes = Annotated[int, Field(ge=1, le=65_536)]
Refinement = Annotated[int, Field(ge=1, le=1_000)]


class IndexRecipe(Recipe):
    """The `index` of a corpus.

    search: exact | hnsw (IVF-HNSW-SQ) | ivf_pq; auto is exact below `exact_below` chunks, hnsw from there
    exact_below: from so many chunks on, `auto` searches approximately; below 1,000 every search is exact
    partitions: of the approximate index; default: one in 25,000 chunks for hnsw, their square root for ivf_pq
    m: neighbours of a vector in the HNSW graph
    ef_construction: candidates while the graph is built
    ef, nprobes, refine_factor: candidates while an HNSW graph is searched, partitions that are searched, and
        how many times the wanted rows are compared by their exact vectors; default: tuned to the cheapest
        with a recall of 0.97
    """

    code_version: ClassVar[str] = "2"

    search: Literal["auto", "exact", "hnsw", "ivf_pq"] = "auto"
    exact_below: Annotated[int, Field(ge=0, le=100_000_000)] = 50_000
    partitions: Annotated[int, Field(ge=1, le=65_536)] | None = None
    m: Annotated[int, Field(ge=4, le=128)] = 20
    ef_construction: Annotated[int, Field(ge=16, le=2_000)] = 150
    ef: Ef | None = None
    nprobes: Probes | None = None
    refine_factor: Refinement | None = None

    def kind(self, chunks: int) -> Kind:
        """Return how so many chunks are searched.

        >>> IndexRecipe().kind(49_999), IndexRecipe().kind(50_000), IndexRecipe(search="ivf_pq").kind(2_000)
        ('exact', 'hnsw', 'ivf_pq')
        """
        if chunks < MIN_ROWS:
            return "exact"
        if self.search == "auto":
            return "exact" if chunks < self.exact_below else "hnsw"
        return self.search

    def partitions_of(self, chunks: int) -> int:
        if self.partitions:
            return min(self.partitions, chunks)
        return max(1, round(chunks**0.5) if self.kind(chunks) == "ivf_pq" else -(-chunks // PARTITION))

    def identity(self) -> str:
        return digest(["index", self.model_dump(mode="json"), self.versions()])


FACTS = "facts.json"


@dataclass(frozen=True)
class SearchParameters:
    """How the table is searched by vectors (None: not used), and recall@10, in [0, 1]."""

    kind: Kind = "exact"
    ef: int | None = None
    nprobes: int | None = None
    refine_factor: int | None = None
    recall: float = 1.0


@dataclass(frozen=True)
class IndexFacts:
    """What was built. ``tag``: the version of the table that readers open; ``schema`` and ``recipe``:
    digests.

    added, changed, removed: rows of the upsert; a whole table adds all
    dead, upserts: replaced or removed rows, and upserts, since the whole build
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
    with atomic_write(folder / FACTS) as temporary:
        temporary.write_text(json.dumps(asdict(facts), indent=1))


def read_facts(folder: Path) -> IndexFacts:
    """Read the facts of an index. Raises CorruptFileError: there are none, or they cannot be read."""
    try:
        found = json.loads((folder / FACTS).read_text())
        return IndexFacts(**{**found, "search": SearchParameters(**found["search"])})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CorruptFileError(
            f"{folder}: the index is damaged ({FACTS}: {error}). Delete the folder; `assay run` makes it "
            "again."
        ) from error
