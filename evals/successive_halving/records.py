"""Records of searches: which cells of a study are run, which were dropped on the way, and by what.

A record is an artifact like those of stages: Parquet first, then DuckDB. It is rewritten after each rung
of a race, so that a killed run goes on with what was decided; its meta says what each look was at, by the
identities of the scores, so that what is decided again is decided alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rag_assay.warehouse.artifacts import Artifact, ArtifactStore
from rag_assay.warehouse.attempts import attempt
from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.parquet import frame, read_parquet, write_parquet
from rag_assay.warehouse.schemas import SEARCH_VALUES, SEARCHES
from rag_assay.warehouse.tables import sync, use_database

if TYPE_CHECKING:
    import polars as pl

    from rag_assay.evals.study.cells import Cell
    from rag_assay.evals.study.study import Study
    from rag_assay.evals.successive_halving.rungs import EliminationRound
    from rag_assay.warehouse.paths import Home

STAGE = "searches"
CODE_VERSION = "2"
KEPT, NOT_DRAWN, NOT_VARIED = "kept", "not_drawn", "not_varied"


@dataclass(frozen=True)
class SearchSavings:
    """What a search asked of the whole grid's evaluations; calls, tokens, usd: spared at most"""

    evaluations: int = 0
    of_evaluations: int = 0
    calls: float = 0
    tokens: float = 0
    usd: float = 0


@dataclass(frozen=True)
class SearchRecord:
    """The state of a search. kept: names of cells; looks: of each rung the digest and the cells left"""

    recipe: str
    kept: tuple[str, ...]
    rows: Sequence[Mapping[str, Any]] = ()
    values: pl.DataFrame = field(default_factory=lambda: frame([], SEARCH_VALUES))
    done: bool = True
    metric: str | None = None
    looks: tuple[Mapping[str, Any], ...] = ()
    spared: SearchSavings = SearchSavings()
    notes: tuple[str, ...] = ()


def recipe_of(study: Study) -> str:
    assert study.search is not None  # noqa: S101 -- only such studies are searched
    cells = [[cell.short, cell.sample, study.times(cell)] for cell in study.every_cell]
    said = [list(study.measured), study.seed, study.clusters, study.margin, study.prefer, cells]
    return digest([STAGE, CODE_VERSION, study.search.model_dump(mode="json"), *said])


def narrow_study(study: Study, home: Home) -> Study:
    if study.search is None or study.slice is not None:
        return study
    record = stored_record(study, home)
    return study.narrowed(record.kept) if record is not None and record.done else study


def stored_record(study: Study, home: Home) -> SearchRecord | None:
    store = ArtifactStore(home)
    artifact = store.current(STAGE, study.study)
    if artifact is None or artifact.meta.get("recipe") != recipe_of(study):
        return None
    folder = store.folder(STAGE, artifact.identity)
    try:
        rows, values = (read_parquet(folder / f"{name}.parquet") for name in (STAGE, "search_values"))
    except CorruptFileError:
        store.set_aside(artifact)
        return None
    meta = artifact.meta
    return SearchRecord(
        meta["recipe"],
        tuple(meta["kept"]),
        rows.to_dicts(),
        values,
        meta["done"],
        meta["metric"],
        tuple(meta["looks"]),
        SearchSavings(**meta["spared"]),
        tuple(meta["notes"]),
    )


def keep(record: SearchRecord, study: Study, home: Home) -> SearchRecord:
    store = ArtifactStore(home)
    tables = {"rows", "values"}
    meta = {name: one for name, one in vars(record).items() if name not in tables}
    meta["spared"] = vars(record.spared)
    version = digest([[list(row.values()) for row in record.rows], meta])
    identity = digest([STAGE, CODE_VERSION, study.study, version])
    if store.find(STAGE, identity) is None:
        with attempt(store.place(STAGE, identity), resumes=False) as folder:
            write_parquet(frame(list(map(dict, record.rows)), SEARCHES), folder / f"{STAGE}.parquet")
            write_parquet(record.values, folder / "search_values.parquet")
            store.commit_once(Artifact(STAGE, study.study, identity, version, meta=meta), folder)
    else:
        store.point(STAGE, study.study, identity)
    use_database(home, lambda connection: sync(connection, store, STAGE, [study.study]))
    return record


def row_of(study: Study, cell: Cell, n_questions: int) -> dict[str, Any]:
    assert study.search is not None  # noqa: S101 -- only such studies are searched
    return {
        **dict.fromkeys(SEARCHES),
        "study": study.study,
        "method": study.search.method,
        "cell": cell.name,
        **{axis: getattr(cell, axis) for axis in ("chunking", "embedder", "retriever", "generator")},
        "rule": KEPT,
        "questions": n_questions if cell.sample is None else min(cell.sample, n_questions),
        "asked": n_questions if cell.sample is None else min(cell.sample, n_questions),
    }


def with_look(
    rows: Iterable[Mapping[str, Any]],
    found: EliminationRound,
    *,
    rung: int,
    rungs: int,
    asked: int,
    level: float,
) -> list[dict[str, Any]]:
    gone = {one.cell: one for one in found.dropped}
    marked = []
    for row in rows:
        study, _, name = str(row["cell"]).partition(".")
        one = gone.get(name)
        if one is None:
            marked.append({**row, "rungs": rungs})
            continue
        marked.append(
            {
                **row,
                "rule": one.rule,
                "reason": f"{_WHY[one.rule]}, after {asked} questions",
                "rung": rung,
                "rungs": rungs,
                "asked": asked,
                "leader": f"{study}.{one.leader}",
                **{key: getattr(one, key) for key in ("n", "difference", "low", "high", "p")},
                "level": level,
            }
        )
    return marked


_WHY = {
    "significance": "significantly worse than the leader",
    "budget": "among the worst, and the budget is too small for all",
}


def left_out(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [row for row in rows if row["rule"] != KEPT]


def with_savings(record: SearchRecord, calls: float, tokens: float, usd: float) -> SearchRecord:
    full = sum(row["questions"] or 0 for row in record.rows)
    asked = sum(row["asked"] or 0 for row in record.rows)
    return replace(record, spared=SearchSavings(asked, full, calls, tokens, usd))
