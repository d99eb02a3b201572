"""Estimates the least and most that a run's model calls would cost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import polars as pl
from pydantic import BaseModel

from assets.embedding.embedder import EmbedderRecipe
from assets.engine.stage import Stage, Work
from evals.judging.contract import Judge
from evals.measuring import get_metric
from evals.measuring.contract import Metric
from evals.study.grid import read_questions_of, read_train_questions_of
from evals.study.planning import PROMPT_TOKENS, Plan, window_of
from evals.study.study import Study
from evals.understanding.by_model.model_transform import ByModel
from evals.understanding.multi_query import MultiQuery
from warehouse.call_cache import CallCache
from warehouse.inference.chat_model import ChatModel
from warehouse.inference.chat_part import CallsEach
from warehouse.inference.prices import Price, price_of
from warehouse.inference.structured import MOST_ASKED
from warehouse.parquet import read_parquet
from warehouse.paths import Home
from warehouse.schemas import Status

JSON_TOKENS = 600  # that a model may write at most to say what it understood
DATE_READ, DATE_WRITTEN = 1_600, 60  # tokens of a page's beginning, and of a date as JSON
SUMMARY_TOKENS = 200  # that a summary may have
CASE_TOKENS = 8_000  # of a question, its passages, its ground truth and its answer, at most about
DENSEST, SPARSEST = 2.5, 6.0  # characters of a token: German compounds and code, plain English


class Span(NamedTuple):
    """From so much to so much; `most` is None where nothing bounds it yet."""

    least: float
    most: float | None


@dataclass(frozen=True)
class Estimate:
    """What one part of a run asks of one model.

    what: what it is asked for
    calls, read, written: calls, and tokens that it reads and writes; those in the cache cost nothing
    usd: US dollars; None where the model's price is not known
    why: what bounds are missing, and what gives them; empty where nothing is missing
    of_study: whether the study's budget pays for it
    limit_usd: the most that it may cost by itself; None: no such bound
    """

    what: str
    model: str
    calls: Span
    read: Span
    written: Span
    usd: Span | None
    why: str = ""
    of_study: bool = False
    limit_usd: float | None = None


def estimates(study: Study, found: Plan, stages: dict[str, Stage], home: Home) -> list[Estimate]:
    """Return what each part of a run that asks a model would ask of it, by a plan of the study."""
    cached = _Cached(home)
    corpus = _Corpus(study, home)
    rows = [
        *_answers(study, found, cached),
        *_understanding(study, stages["rankings"], cached, home),
        *_measuring(study, stages["scores"], cached, home),
        *_enriching(study, found, cached, corpus),
        *_dating(study, found, cached),
        *_embedding(study, found, corpus),
        *_embedding_questions(study, stages["rankings"], home),
    ]
    return [row for row in rows if row.calls.most != 0]


def judging(name: str, judge: Judge, cases: int, home: Home) -> Estimate | None:
    """Return what a judge would ask its model about so many cases; None where it asks none."""
    return _of_cases(f"judging by {name}", judge, cases, _Cached(home))


def total(rows: Iterable[Estimate]) -> Span:
    """Add the US dollars whose price is known."""
    return added(row.usd for row in rows if row.usd is not None)


def added(spans: Iterable[Span]) -> Span:
    """Add spans; where nothing bounds one of them, nothing bounds the sum."""
    known = list(spans)
    most = [span.most for span in known]
    bounded = None if None in most else sum(value for value in most if value is not None)
    return Span(sum(span.least for span in known), bounded)


class _Cached:
    """How many good calls of a model the cache holds: so many of a plan's may cost nothing."""

    def __init__(self, home: Home) -> None:
        self._home = home

    @cached_property
    def _counts(self) -> Counter[str]:
        rows = CallCache(self._home).rows()
        return Counter(str(row["model"]) for row in rows if row["status"] == Status.OK)

    def of(self, chat: ChatModel) -> int:
        return sum(self._counts[model] for model in {one.model for one in chat.ranked()})


def _of_chat(what: str, chat: ChatModel, calls: Span, per_call: tuple[Span, Span], why: str = "") -> Estimate:
    """Put the estimate of calls of a chat model together, see `_estimate`.

    What one call writes is bounded by the recipe where it says so. With further models to fall back on, the
    least is what the cheapest of them would cost, and the most what the dearest would.
    """
    read, written = per_call
    ranked = [
        _estimate(
            what,
            chat.model,
            one.token_price(),
            calls,
            (read, Span(written.least, one.max_tokens or written.most)),
            why,
        )
        for one in chat.ranked()
    ]
    spans = [row.usd for row in ranked]
    known = [span for span in spans if span is not None]
    if len(known) < len(spans):
        return replace(ranked[0], usd=None)
    most = [span.most for span in known if span.most is not None]
    bounds = Span(min(span.least for span in known), max(most) if len(most) == len(known) else None)
    return replace(ranked[0], usd=bounds)


def _estimate(
    what: str, model: str, price: Price | None, calls: Span, per_call: tuple[Span, Span], why: str
) -> Estimate:
    """Put an estimate together: ``per_call`` are the tokens that one call reads and writes."""
    read, written = (_times(calls, tokens) for tokens in per_call)
    usd = None
    if price is not None:
        most = (
            None
            if read.most is None or written.most is None
            else read.most * price.read + written.most * price.written
        )
        usd = Span(read.least * price.read + written.least * price.written, most)
        if price == (0.0, 0.0):
            usd = Span(0.0, 0.0)
    return Estimate(what, model, calls, read, written, usd, why)


def _times(calls: Span, tokens: Span) -> Span:
    most = None if calls.most is None or tokens.most is None else calls.most * tokens.most
    return Span(calls.least * tokens.least, most)


def _calls(n: int, each: CallsEach, chat: ChatModel, cached: _Cached) -> Span:
    """Bound the calls for so many questions: any that the cache holds of the models may be one of them."""
    return Span(max(0, n * each.least - cached.of(chat)), n * each.most)


def _answers(study: Study, found: Plan, cached: _Cached) -> Iterator[Estimate]:
    for plan in found.calls:
        chat = study.generators[plan.generator].chat
        if chat is None:
            continue
        generator = study.generators[plan.generator]
        calls = _calls(plan.calls, generator.calls_per_question(), chat, cached)
        n = max(plan.calls, 1)
        tokens = plan.prompt_tokens / n
        written = plan.completion_tokens / n
        # A passage may end short of its window, and an answer of its bound.
        per_call = (Span(PROMPT_TOKENS, tokens), Span(1, written))
        row = _of_chat(f"answers by {plan.generator}", chat, calls, per_call)
        yield replace(row, of_study=True, limit_usd=generator.budget_limit)


def _understanding(study: Study, rankings: Stage, cached: _Cached, home: Home) -> Iterator[Estimate]:
    """Estimate the steps `by: llm`: a call a question and step, in each ranking unless the cache has it.

    Train questions are asked where something is tuned on them; those that the study asks, too, or that no
    metric can be asked of, are left out of it.
    """
    store = Work(home).store
    waiting = [
        cell for cell in study.cells() if cell.reads_ranking and rankings.fresh(cell.ranking, store) is None
    ]
    names = {cell.ranking: cell.retriever for cell in waiting}
    for retriever in dict.fromkeys(names.values()):
        n_rankings = sum(name == retriever for name in names.values())
        recipe = study.retrievers[retriever]
        asked = read_questions_of(study)
        train = read_train_questions_of(study) if recipe.needs_tuning else []
        wordings = 1  # of a question, that the steps before have made of it
        for step in parts(recipe, ByModel):
            if step.chat is not None:
                certain = {row["question"] for row in asked if step.concerns(row)}
                possible = sum(map(step.concerns, [*asked, *train]))
                # The same question in another index is the same call, unless a step before has changed it.
                most = possible * n_rankings * wordings * MOST_ASKED
                calls = Span(max(0, len(certain) - cached.of(step.chat)), most)
                tokens = _understood([*asked, *train], len(step.prompt.system))
                row = _of_chat(f"{step.kind} of {retriever}", step.chat, calls, tokens)
                yield replace(row, of_study=True)
            wordings *= step.n if isinstance(step, MultiQuery) else 1


def _understood(questions: list[dict[str, Any]], prompt: int) -> tuple[Span, Span]:
    """Return the tokens that a call of a step reads and writes; ``prompt``: characters of what it is told."""
    mean = prompt + sum(len(row["question"]) for row in questions) / max(len(questions), 1)
    read = Span(mean / SPARSEST, PROMPT_TOKENS + mean / DENSEST + 2 * JSON_TOKENS)
    return read, Span(1, JSON_TOKENS)


def _measuring(study: Study, scores: Stage, cached: _Cached, home: Home) -> Iterator[Estimate]:
    """Estimate the metrics that ask a model: of every question of every cell that is to be measured."""
    metrics = [metric for name in study.metrics if (metric := get_metric(name)).chat is not None]
    if not metrics:
        return
    store = Work(home).store
    rows = read_questions_of(study)
    sizes = [
        min(cell.sample or len(rows), len(rows))
        for cell in study.runs()
        if scores.fresh(cell.key, store) is None
    ]
    for metric in metrics:
        applies = sum(map(metric.applies, rows))
        row = _of_cases(metric.name, metric, sum(min(size, applies) for size in sizes), cached)
        yield from [row] if row else []


def _of_cases(what: str, part: Judge | Metric, cases: int, cached: _Cached) -> Estimate | None:
    """Estimate what is asked about answers: question, passages, ground truth and answer are read."""
    chat = part.chat
    if chat is None:
        return None
    calls = _calls(cases, part.calls_per_case(), chat, cached)
    per_call = (Span(PROMPT_TOKENS, PROMPT_TOKENS + CASE_TOKENS), Span(1, JSON_TOKENS))
    return replace(_of_chat(what, chat, calls, per_call), of_study=True, limit_usd=part.budget_limit)


def _enriching(study: Study, found: Plan, cached: _Cached, corpus: _Corpus) -> Iterator[Estimate]:
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
        per_call = (Span(1, PROMPT_TOKENS + longest + written), Span(1, written))
        calls, why = corpus.bounded(plan.calls, chunking.chunker)
        if plan.calls is None and recipe.summary and calls.most is not None:
            calls = Span(calls.least, calls.most * 2)
        least = max(0.0, calls.least - cached.of(recipe))
        often = MOST_ASKED if recipe.questions else 1
        calls = Span(least, None if calls.most is None else calls.most * often)
        row = _of_chat(f"enriching {plan.key}", recipe, calls, per_call, why)
        yield replace(row, limit_usd=recipe.budget_usd)


def _dating(study: Study, found: Plan, cached: _Cached) -> Iterator[Estimate]:
    for plan in found.enriching:
        source = study.sources.get(plan.key.removeprefix("dates of "))
        if not plan.key.startswith("dates of ") or source is None or source.date_by is None:
            continue
        per_call = (Span(1, DATE_READ + DATE_WRITTEN), Span(1, DATE_WRITTEN))
        # Only pages without a date of their own are asked about.
        most: int | None = plan.calls
        why = ""
        if most is None:
            most = source.limits.pages if source.spider else None
            why = (
                "" if most else f"its pages are counted by `assay crawl {plan.key.removeprefix('dates of ')}`"
            )
        calls = Span(0, None if most is None else most * MOST_ASKED)
        row = _of_chat(plan.key, source.date_by, calls, per_call, why)
        yield replace(row, limit_usd=source.date_by.budget_usd)


def _embedding(study: Study, found: Plan, corpus: _Corpus) -> Iterator[Estimate]:
    """Estimate what embedders of an `api` read: many texts go into one request."""
    for key, texts in found.texts_to_embed.items():
        _, chunking, embedder = key.split(".")
        recipe = study.embedders[embedder]
        if recipe.api is None:
            continue
        cutter = study.chunkings[chunking].chunker
        n, why = corpus.bounded(texts, cutter)
        each = Span(1, min(window_of(cutter) + PROMPT_TOKENS, recipe.max_tokens))
        row = _embedded(f"texts of {key}", recipe, n, each, why)
        if row:
            yield row


def _embedding_questions(study: Study, rankings: Stage, home: Home) -> Iterator[Estimate]:
    """Estimate what embedders of an `api` read of the questions: a vector that is kept costs nothing."""
    store = Work(home).store
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
        row = _embedded(f"questions by {name}", study.embedders[name], Span(0, len(texts)), Span(1, longest))
        if row:
            yield row


def _embedded(what: str, recipe: EmbedderRecipe, texts: Span, each: Span, why: str = "") -> Estimate | None:
    """Estimate the requests for so many texts; None where this machine embeds them."""
    if recipe.api is None:
        return None
    requests = Span(math.ceil(texts.least / recipe.batch_size), texts.most)
    price = price_of(recipe.model, embeds=True)
    row = _estimate(what, recipe.model, price, texts, (each, Span(0, 0)), why)
    return replace(row, calls=requests, limit_usd=recipe.api.budget_usd)


class _Corpus:
    """How large the documents are, where they are there."""

    def __init__(self, study: Study, home: Home) -> None:
        self._study = study
        self._home = home
        self._size: tuple[int, int] | None = None

    def bounded(self, counted: int | None, chunker: Any) -> tuple[Span, str]:
        """Return as many as were counted, or as the documents can give chunks; and what is missing."""
        if counted is not None:
            return Span(counted, counted), ""
        size = self._characters()
        if size is None:
            waiting = ", ".join(self._missing())
            return Span(0, None), f"not known before its documents are there: `assay crawl {waiting}`"
        characters, n_documents = size
        parameters = chunker.model_dump()
        window = window_of(chunker)
        step = max(1.0, window - float(parameters.get("overlap") or 0))
        least = characters / (window * SPARSEST)
        return Span(round(least), round(characters / (step * DENSEST)) * 2 + n_documents), ""

    def _missing(self) -> list[str]:
        store = Work(self._home).store
        return [name for name in self._study.corpus.sources if store.current("documents", name) is None]

    def _characters(self) -> tuple[int, int] | None:
        if self._size is None and not self._missing():
            store = Work(self._home).store
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
