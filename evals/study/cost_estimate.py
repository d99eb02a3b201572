"""Estimates the least and most that a run's model calls would cost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import polars as pl
from pydantic import BaseModel

from rag_assay.assets.embedding.embedder import EmbedderRecipe
from rag_assay.assets.engine.stage import BuildContext, Stage
from rag_assay.evals.query_transforms.llm.model_transform import ByModel
from rag_assay.evals.query_transforms.multi_query import MultiQuery
from rag_assay.evals.study.call_estimate import (
    Cached,
    CallEstimate,
    CostRange,
    bound_calls,
    estimate,
    of_chat,
)
from rag_assay.evals.study.grid import read_questions_of, read_train_questions_of
from rag_assay.evals.study.judge_costs import judge_estimates, of_cases
from rag_assay.evals.study.run_plan import PROMPT_TOKENS, RunPlan, window_of
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.inference.chat_part import JSON_TOKENS
from rag_assay.warehouse.inference.prices import price_of
from rag_assay.warehouse.inference.structured import MOST_ASKED
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.paths import Home

DATE_READ, DATE_WRITTEN = 1_600, 60  # tokens of a page's beginning, and of a date as JSON
SUMMARY_TOKENS = 200  # that a summary may have
DENSEST, SPARSEST = 2.5, 6.0  # characters of a token: German compounds and code, plain English


def estimates(study: Study, found: RunPlan, stages: dict[str, Stage], home: Home) -> list[CallEstimate]:
    """Return what each part of a run that asks a model would ask of it, by a plan of the study."""
    cached = Cached(home)
    corpus = _Corpus(study, home)
    rows = [
        *_answers(study, found, cached),
        *_understanding(study, stages, cached, home),
        *judge_estimates(study, stages, cached, home),
        *_measuring(study, stages["scores"], cached, home),
        *_enriching(study, found, cached, corpus),
        *_dating(study, found, cached),
        *_embedding(study, found, corpus),
        *_embedding_questions(study, stages["rankings"], home),
    ]
    return [row for row in rows if row.calls.most != 0]


def _answers(study: Study, found: RunPlan, cached: Cached) -> Iterator[CallEstimate]:
    for plan in found.calls:
        chat = study.generators[plan.generator].chat
        if chat is None:
            continue
        generator = study.generators[plan.generator]
        each = generator.calls_per_question()
        if generator.gate is not None:  # it may refuse them all
            each = each._replace(least=0)
        calls = bound_calls(plan.calls, each, chat, cached)
        n = max(plan.calls, 1)
        tokens = plan.prompt_tokens / n
        written = plan.completion_tokens / n
        # A passage may end short of its window, and an answer of its bound.
        per_call = (CostRange(PROMPT_TOKENS, tokens), CostRange(1, written))
        row = of_chat(f"answers by {plan.generator}", chat, calls, per_call)
        yield replace(row, of_study=True, limit_usd=generator.budget_limit)


def _understanding(
    study: Study, stages: dict[str, Stage], cached: Cached, home: Home
) -> Iterator[CallEstimate]:
    """Estimate the steps `by: llm`: a call a question and step, wherever a retriever is asked it.

    Of train questions, those that the study asks, too, or that no metric can be asked of are left out of it.
    """
    searches = _searches(study, stages, home)
    ranked = set(_waiting_rankings(study, stages, home).values())
    asked, train = read_questions_of(study), read_train_questions_of(study)
    for retriever, (n_asked, n_train) in searches.items():
        wordings = 1  # of a question, that the steps before have made of it
        for step in parts(study.retrievers[retriever], ByModel):
            if step.chat is not None:
                certain = {row["question"] for row in asked if retriever in ranked and step.concerns(row)}
                # The same question in another index is the same call, unless a step before has changed it.
                most = n_asked * sum(map(step.concerns, asked)) + n_train * sum(map(step.concerns, train))
                least = max(0, len(certain) - cached.of(step.chat))
                tokens = _understood([*asked, *train], len(step.prompt.system))
                calls = CostRange(least, most * wordings * MOST_ASKED)
                row = of_chat(f"{step.kind} of {retriever}", step.chat, calls, tokens)
                yield replace(row, of_study=True)
            wordings *= step.n if isinstance(step, MultiQuery) else 1


def _waiting_rankings(study: Study, stages: dict[str, Stage], home: Home) -> dict[str, str]:
    """Return the retriever of each ranking that is to be made."""
    store, rankings = BuildContext(home).store, stages["rankings"]
    return {
        cell.ranking: cell.retriever
        for cell in study.cells()
        if cell.reads_ranking and rankings.fresh(cell.ranking, store) is None
    }


def _searches(study: Study, stages: dict[str, Stage], home: Home) -> dict[str, tuple[int, int]]:
    """Return how often each retriever is asked all test questions, and all train questions, at most.

    Rankings ask the test questions, and the train questions where something is tuned; a generator that may
    search again asks the test questions, and one whose gate is fitted the train questions.
    """
    found: Counter[tuple[str, str]] = Counter()
    for retriever in _waiting_rankings(study, stages, home).values():
        found[retriever, "test"] += 1
        found[retriever, "train"] += study.retrievers[retriever].needs_tuning
    store = BuildContext(home).store
    for cell in study.runs():
        generator = study.generators.get(cell.generator)
        if generator is None or not cell.reads_ranking or not (generator.retrieves or generator.tunes):
            continue
        if stages["answers"].fresh(cell.key, store) is None:
            found[cell.retriever, "test"] += generator.retrieves
            found[cell.retriever, "train"] += generator.tunes
    return {name: (found[name, "test"], found[name, "train"]) for name in study.retrievers}


def _understood(questions: list[dict[str, Any]], prompt: int) -> tuple[CostRange, CostRange]:
    """Return the tokens that a call of a step reads and writes; ``prompt``: characters of what it is told."""
    mean = prompt + sum(len(row["question"]) for row in questions) / max(len(questions), 1)
    read = CostRange(mean / SPARSEST, PROMPT_TOKENS + mean / DENSEST + 2 * JSON_TOKENS)
    return read, CostRange(1, JSON_TOKENS)


def _measuring(study: Study, scores: Stage, cached: Cached, home: Home) -> Iterator[CallEstimate]:
    """Estimate the metrics that ask a model: of every question of every cell that is to be measured."""
    metrics = [metric for name in study.metrics if (metric := study.metric(name)).chat is not None]
    if not metrics:
        return
    store = BuildContext(home).store
    rows = read_questions_of(study)
    sizes = [
        min(cell.sample or len(rows), len(rows))
        for cell in study.runs()
        if scores.fresh(cell.key, store) is None
    ]
    for metric in metrics:
        applies = sum(map(metric.applies, rows))
        row = of_cases(metric.name, metric, sum(min(size, applies) for size in sizes), cached)
        yield from [row] if row else []


def _enriching(study: Study, found: RunPlan, cached: Cached, corpus: _Corpus) -> Iterator[CallEstimate]:
    for plan in found.enriching:
        name = plan.key.partition(".")[2]
        if plan.key.startswith("dates of ") or name not in study.chunkings:
            continue
        chunking = study.chunkings[name]
        recipe = chunking.enrich
        if recipe is None:
            continue
        window = window_of(chunking.chunker)
        longest = max(window, recipe.max_characters / DENSEST if recipe.summary else 0)
        written = max(SUMMARY_TOKENS if recipe.summary else 0, 100 + 80 * recipe.questions)
        per_call = (CostRange(1, PROMPT_TOKENS + longest + written), CostRange(1, written))
        calls, why = corpus.bounded(plan.calls, chunking.chunker)
        if plan.calls is None and recipe.summary and calls.most is not None:
            calls = CostRange(calls.least, calls.most * 2)
        least = max(0.0, calls.least - cached.of(recipe))
        often = MOST_ASKED if recipe.questions else 1
        calls = CostRange(least, None if calls.most is None else calls.most * often)
        row = of_chat(f"enriching {plan.key}", recipe, calls, per_call, why)
        yield replace(row, limit_usd=recipe.budget_usd)


def _dating(study: Study, found: RunPlan, cached: Cached) -> Iterator[CallEstimate]:
    for plan in found.enriching:
        source = study.sources.get(plan.key.removeprefix("dates of "))
        if not plan.key.startswith("dates of ") or source is None or source.date_by is None:
            continue
        per_call = (CostRange(1, DATE_READ + DATE_WRITTEN), CostRange(1, DATE_WRITTEN))
        # Only pages without a date of their own are asked about.
        most: int | None = plan.calls
        why = ""
        if most is None:
            most = source.limits.pages if source.spider else None
            why = "" if most else f"its pages are counted by `assay run {study.study} --only documents`"
        calls = CostRange(0, None if most is None else most * MOST_ASKED)
        row = of_chat(plan.key, source.date_by, calls, per_call, why)
        yield replace(row, limit_usd=source.date_by.budget_usd)


def _embedding(study: Study, found: RunPlan, corpus: _Corpus) -> Iterator[CallEstimate]:
    """Estimate what embedders of an `api` read: many texts go into one request."""
    for key, texts in found.texts_to_embed.items():
        _, chunking, embedder = key.split(".")
        recipe = study.embedders[embedder]
        if recipe.api is None:
            continue
        cutter = study.chunkings[chunking].chunker
        n, why = corpus.bounded(texts, cutter)
        each = CostRange(1, min(window_of(cutter) + PROMPT_TOKENS, recipe.max_tokens))
        row = _embedded(f"texts of {key}", recipe, n, each, why)
        if row:
            yield row


def _embedding_questions(study: Study, rankings: Stage, home: Home) -> Iterator[CallEstimate]:
    """Estimate what embedders of an `api` read of the questions: a vector that is kept costs nothing."""
    store = BuildContext(home).store
    waiting = {
        cell.embedder
        for cell in study.cells()
        if cell.reads_ranking
        and study.retrievers[cell.retriever].needs_vector
        and rankings.fresh(cell.ranking, store) is None
    }
    for name in sorted(waiting):
        texts = {row["question"] for row in (*read_questions_of(study), *read_train_questions_of(study))}
        longest = max(map(len, texts), default=0) / DENSEST + PROMPT_TOKENS
        row = _embedded(
            f"questions by {name}", study.embedders[name], CostRange(0, len(texts)), CostRange(1, longest)
        )
        if row:
            yield row


def _embedded(
    what: str, recipe: EmbedderRecipe, texts: CostRange, each: CostRange, why: str = ""
) -> CallEstimate | None:
    """Estimate the requests for so many texts; None where this machine embeds them."""
    if recipe.api is None:
        return None
    requests = CostRange(math.ceil(texts.least / recipe.batch_size), texts.most)
    price = price_of(recipe.model, embeds=True)
    row = estimate(what, recipe.model, price, texts, (each, CostRange(0, 0)), why)
    return replace(row, calls=requests, limit_usd=recipe.api.budget_usd)


class _Corpus:
    """How large the documents are, where they are there."""

    def __init__(self, study: Study, home: Home) -> None:
        self._study = study
        self._home = home
        self._size: tuple[int, int] | None = None

    def bounded(self, counted: int | None, chunker: Any) -> tuple[CostRange, str]:
        """Return as many as were counted, or as the documents can give chunks; and what is missing."""
        if counted is not None:
            return CostRange(counted, counted), ""
        size = self._characters()
        if size is None:
            missing = ", ".join(self._missing())
            how = f"`assay run {self._study.study} --only documents`"
            return CostRange(0, None), f"not known before the documents of {missing} are there: {how}"
        characters, n_documents = size
        parameters = chunker.model_dump()
        window = window_of(chunker)
        step = max(1.0, window - float(parameters.get("overlap") or 0))
        least = characters / (window * SPARSEST)
        return CostRange(round(least), round(characters / (step * DENSEST)) * 2 + n_documents), ""

    def _missing(self) -> list[str]:
        store = BuildContext(self._home).store
        return [name for name in self._study.corpus.sources if store.current("documents", name) is None]

    def _characters(self) -> tuple[int, int] | None:
        if self._size is None and not self._missing():
            store = BuildContext(self._home).store
            found = [store.current("documents", source) for source in self._study.corpus.sources]
            frames = [
                read_parquet(store.folder("documents", one.identity) / "documents.parquet", ["text"])
                for one in found
                if one
            ]
            lengths = pl.concat(frames)["text"].str.len_chars()
            self._size = (int(lengths.sum() or 0), len(lengths))
        return self._size


def parts(value: Any, kind: type[BaseModel]) -> Iterator[Any]:
    """Yield every part of a recipe that is of a kind, however deep, in the order of the file."""
    if isinstance(value, kind):
        yield value
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from parts(getattr(value, name), kind)
    elif isinstance(value, dict):
        for one in value.values():
            yield from parts(one, kind)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from parts(one, kind)
