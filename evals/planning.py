"""What a run would do: cells, chunks to embed, model calls and tokens, and what is there already."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from assets.stage import Stage, Work
from evals.study import Cell, Llm, Study
from warehouse.errors import AssayError
from warehouse.identity import sha256_text
from warehouse.parquet import read_parquet
from warehouse.paths import Home
from warehouse.vectors import VectorCache

PROMPT_TOKENS = 120  # of the instructions around the passages, about
MEAN_PASSAGE = 0.85  # of a window's size: what a passage has on average, where no chunks are there to look at


@dataclass(frozen=True)
class StagePlan:
    """Of one stage: keys in all, up to date, and to be done (or not yet known, since what they need is not there)."""

    stage: str
    keys: int
    done: int
    to_do: int
    unknown: int


@dataclass(frozen=True)
class CallPlan:
    """Model calls of one generator: at most so many, with about so many tokens, none of them where answered before."""

    generator: str
    model: str
    cells: int
    calls: int
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True)
class Plan:
    """What `assay plan` shows.

    texts_to_embed: distinct chunk texts that are not in the vector cache; None where chunks are not there yet
    """

    cells: list[Cell]
    stages: list[StagePlan]
    texts_to_embed: dict[str, int | None]
    calls: list[CallPlan]


def plan(study: Study, stages: dict[str, Stage], home: Home) -> Plan:
    """Look at what there is, and say what a run would do; changes nothing."""
    return Plan(
        study.cells(),
        [_stage_plan(stage, home) for stage in stages.values() if stage.keys()],
        {key: _texts_to_embed(study, key, home) for key in study.indexes()},
        [_call_plan(study, name, home) for name, g in study.generators.items() if isinstance(g.recipe, Llm)],
    )


def _stage_plan(stage: Stage, home: Home) -> StagePlan:
    store = Work(home).store
    done = unknown = 0
    for key in stage.keys():
        try:
            stage.identity(key, store)
        except AssayError:
            unknown += 1
            continue
        done += stage.fresh(key, store) is not None
    keys = len(stage.keys())
    return StagePlan(stage.name, keys, done, keys - done, unknown)


def _texts_to_embed(study: Study, key: str, home: Home) -> int | None:
    corpus, chunking, embedder = key.split(".")
    chunks = _chunks(f"{corpus}.{chunking}", home)
    if chunks is None:
        return None
    recipe = study.embedders[embedder]
    hashes = [sha256_text(recipe.passage_prefix + text) for text in chunks["text"].unique()]
    return len(hashes) - len(VectorCache(home, recipe.revision()).get(hashes))


def _chunks(key: str, home: Home) -> pl.DataFrame | None:
    store = Work(home).store
    artifact = store.current("chunks", key)
    return read_parquet(store.folder("chunks", artifact.identity) / "chunks.parquet") if artifact else None


def _call_plan(study: Study, name: str, home: Home) -> CallPlan:
    recipe: Llm = study.generators[name].recipe
    store = Work(home).store
    cells = [cell for cell in study.cells() if cell.generator == name]
    calls = prompt = 0
    for cell in cells:
        artifact = store.current("answers", cell.key)
        n_questions = _questions(study, home) if cell.sample is None else min(cell.sample, _questions(study, home))
        to_do = 0 if artifact and artifact.complete else n_questions
        calls += to_do
        prompt += to_do * (PROMPT_TOKENS + recipe.passages * _passage_tokens(study, cell, home))
    return CallPlan(name, recipe.model, len(cells), calls, prompt, calls * recipe.max_tokens)


def _passage_tokens(study: Study, cell: Cell, home: Home) -> int:
    artifact = Work(home).store.current("chunks", f"{study.corpus.name}.{cell.chunking}")
    if artifact:
        return round(float(artifact.meta["tokens_mean"]))
    recipe = study.chunkings[cell.chunking].recipe
    return round(getattr(recipe, "size", 256) * MEAN_PASSAGE)


def _questions(study: Study, home: Home) -> int:
    from evals.grid import question_sets
    from evals.question_files import read_beir, read_yaml

    total = 0
    for question_set in question_sets(study):
        path: Path = question_set.path
        beir = question_set.beir
        total += len(read_beir(path, beir.split, beir.name) if beir else read_yaml(path))
    return total


