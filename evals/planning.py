"""What a run would do: cells, chunks to embed, model calls and tokens, and what is there already."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from assets.stage import Need, Stage, Work
from evals.grid import read_questions_of
from evals.study import Cell, Llm, Study
from warehouse.artifacts import ArtifactStore
from warehouse.errors import AssayError
from warehouse.identity import sha256_text
from warehouse.parquet import read_parquet
from warehouse.paths import Home
from warehouse.schemas import RETRYABLE
from warehouse.vectors import VectorCache

PROMPT_TOKENS = 120  # of the instructions around the passages, about
MEAN_PASSAGE = 0.85  # of a window's size: what a passage has on average, where there are no chunks to look at


@dataclass(frozen=True)
class StagePlan:
    """Of one stage: keys in all, up to date, to be done; of these unknown, since their needs are not done."""

    stage: str
    keys: int
    done: int
    to_do: int
    unknown: int


@dataclass(frozen=True)
class CallPlan:
    """Model calls of one generator: at most so many, with about so many tokens; fewer where cached."""

    generator: str
    model: str
    cells: int
    calls: int
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True)
class EnrichPlan:
    """Model calls that enrich one set of chunks: at most so many; None where its chunks are not there yet."""

    key: str
    model: str
    calls: int | None


@dataclass(frozen=True)
class Plan:
    """What `assay plan` shows.

    texts_to_embed: distinct chunk texts that are not in the vector cache; None where chunks are not there yet
    """

    cells: list[Cell]
    stages: list[StagePlan]
    texts_to_embed: dict[str, int | None]
    calls: list[CallPlan]
    enriching: list[EnrichPlan]


def plan(study: Study, stages: dict[str, Stage], home: Home) -> Plan:
    """Look at what there is, and say what a run would do; changes nothing."""
    return Plan(
        study.cells(),
        _stage_plans(stages, home),
        {key: _texts_to_embed(study, key, home) for key in study.indexes()},
        _call_plans(study, stages["answers"], home),
        [_enrich_plan(study, key, stages["enrichments"], home) for key in stages["enrichments"].keys()],
    )


def _stage_plans(stages: dict[str, Stage], home: Home) -> list[StagePlan]:
    """Plan the stages in their order: a key whose needs are not all done cannot be known to be done."""
    store = Work(home).store
    done: set[Need] = set()
    plans = []
    for name, stage in stages.items():
        keys = stage.keys()
        known = [key for key in keys if done.issuperset(stage.needs(key))]
        fresh = [key for key in known if stage.fresh(key, store) is not None]
        done |= {Need(name, key) for key in fresh}
        if keys:
            plans.append(
                StagePlan(name, len(keys), len(fresh), len(keys) - len(fresh), len(keys) - len(known))
            )
    return plans


def _texts_to_embed(study: Study, key: str, home: Home) -> int | None:
    corpus, chunking, embedder = key.split(".")
    chunks = _chunks(f"{corpus}.{chunking}", home)
    if chunks is None:
        return None
    recipe = study.embedders[embedder]
    hashes = [
        sha256_text(recipe.passage_prefix + text) for text in (chunks["prefix"] + chunks["text"]).unique()
    ]
    return len(hashes) - len(VectorCache(home, recipe.revision()).get(hashes))


def _chunks(key: str, home: Home) -> pl.DataFrame | None:
    store = Work(home).store
    artifact = store.current("chunks", key)
    return read_parquet(store.folder("chunks", artifact.identity) / "chunks.parquet") if artifact else None


def _call_plans(study: Study, answers: Stage, home: Home) -> list[CallPlan]:
    asked = {name: g.recipe for name, g in study.generators.items() if isinstance(g.recipe, Llm)}
    n_questions = len(read_questions_of(study)) if asked else 0
    return [_call_plan(study, name, recipe, answers, n_questions, home) for name, recipe in asked.items()]


def _call_plan(
    study: Study, name: str, recipe: Llm, answers: Stage, n_questions: int, home: Home
) -> CallPlan:
    store = Work(home).store
    cells = [cell for cell in study.cells() if cell.generator == name]
    calls = prompt = 0
    for cell in cells:
        n_asked = n_questions if cell.sample is None else min(cell.sample, n_questions)
        to_do = 0 if answers.fresh(cell.key, store) else n_asked - _kept(answers, cell, store)
        calls += to_do
        prompt += to_do * (PROMPT_TOKENS + recipe.passages * _passage_tokens(study, cell, home))
    return CallPlan(name, recipe.model, len(cells), calls, prompt, calls * recipe.max_tokens)


def _enrich_plan(study: Study, key: str, stage: Stage, home: Home) -> EnrichPlan:
    recipe = study.chunkings[key.partition(".")[2]].enrich
    if stage.fresh(key, Work(home).store):
        return EnrichPlan(key, recipe.model, 0)
    chunks = _chunks(key, home)
    if chunks is None:
        return EnrichPlan(key, recipe.model, None)
    summaries = chunks["doc_id"].n_unique() if recipe.summary else 0
    return EnrichPlan(key, recipe.model, summaries + (len(chunks) if recipe.questions else 0))


def _kept(answers: Stage, cell: Cell, store: ArtifactStore) -> int:
    """Count the answers of an incomplete run that the next run keeps."""
    try:
        artifact = store.find(answers.name, answers.identity(cell.key, store))
    except AssayError:
        return 0  # what they would be answered from is not there yet
    by_status = artifact.meta["by_status"] if artifact else {}
    return sum(count for status, count in by_status.items() if status not in RETRYABLE)


def _passage_tokens(study: Study, cell: Cell, home: Home) -> int:
    artifact = Work(home).store.current("chunks", f"{study.corpus.name}.{cell.chunking}")
    if artifact:
        return round(float(artifact.meta["tokens_mean"]))
    recipe = study.chunkings[cell.chunking].recipe
    return round(getattr(recipe, "size", 256) * MEAN_PASSAGE)
