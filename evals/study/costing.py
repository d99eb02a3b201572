"""Estimates the least and most that a run's model calls would cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import polars as pl
from pydantic import BaseModel

from assets.engine.stage import Stage, Work
from evals.study.grid import read_questions_of, read_train_questions_of
from evals.study.planning import PROMPT_TOKENS, Plan, window_of
from evals.study.study import Study
from evals.understanding.by_model.model_transform import ByModel
from warehouse.call_cache import CallCache
from warehouse.inference.chat_model import ChatModel
from warehouse.inference.prices import Price, price_of
from warehouse.parquet import read_parquet
from warehouse.paths import Home
from warehouse.schemas import Status

JSON_TOKENS = 600  # that a model may write at most to say what it understood
DATE_READ, DATE_WRITTEN = 1_600, 60  # tokens of a page's beginning, and of a date as JSON
SUMMARY_TOKENS = 200  # that a summary may have
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
    """

    what: str
    model: str
    calls: Span
    read: Span
    written: Span
    usd: Span | None
    why: str = ""


def estimates(study: Study, found: Plan, stages: dict[str, Stage], home: Home) -> list[Estimate]:
    """Return what each part of a run that asks a model would ask of it, by a plan of the study."""
    cached = _Cached(home)
    corpus = _Corpus(study, home)
    rows = [
        *_answers(study, found, cached),
        *_understanding(study, stages["rankings"], cached, home),
        *_enriching(study, found, cached, corpus),
        *_dating(study, found, cached),
        *_embedding(study, found, corpus),
    ]
    return [row for row in rows if row.calls.most != 0]


def total(rows: list[Estimate]) -> Span:
    """Add the US dollars whose price is known."""
    known = [row.usd for row in rows if row.usd is not None]
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

    def __getitem__(self, model: str) -> int:
        return self._counts[model]


def _of_chat(what: str, chat: ChatModel, calls: Span, per_call: tuple[Span, Span], why: str = "") -> Estimate:
    """Put the estimate of calls of a chat model together, see `_estimate`.

    What one call writes is bounded by the recipe where it says so.
    """
    read, written = per_call
    return _estimate(
        what,
        chat.model,
        chat.token_price(),
        calls,
        (read, Span(written.least, chat.max_tokens or written.most)),
        why,
    )


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


def _calls(most: int, model: str, cached: _Cached) -> Span:
    """Bound the calls that are to be made: any that the cache holds of the model may be one of them."""
    return Span(max(0, most - cached[model]), most)


def _answers(study: Study, found: Plan, cached: _Cached) -> Iterator[Estimate]:
    for plan in found.calls:
        chat = study.generators[plan.generator].chat
        if chat is None:
            continue
        calls = _calls(plan.calls, plan.model, cached)
        n = max(plan.calls, 1)
        tokens = plan.prompt_tokens / n
        written = plan.completion_tokens / n
        # A passage may end short of its window, and an answer of its bound.
        per_call = (Span(PROMPT_TOKENS, tokens), Span(1, written))
        yield _of_chat(f"answers by {plan.generator}", chat, calls, per_call)


def _understanding(study: Study, rankings: Stage, cached: _Cached, home: Home) -> Iterator[Estimate]:
    """Estimate the steps `by: llm`: a call a question and step, in each ranking unless the cache has it."""
    store = Work(home).store
    waiting = [cell for cell in study.cells() if rankings.fresh(cell.ranking, store) is None]
    names = {cell.ranking: cell.retriever for cell in waiting}
    for retriever in dict.fromkeys(names.values()):
        n_rankings = sum(name == retriever for name in names.values())
        for step in parts(study.retrievers[retriever], ByModel):
            if step.chat is None:
                continue
            questions = [*read_questions_of(study), *read_train_questions_of(study)]
            texts = [len(row["question"]) for row in questions]
            mean = sum(texts) / max(len(texts), 1)
            prompt = len(step.prompt.system)
            read = Span((prompt + mean) / SPARSEST, PROMPT_TOKENS + (prompt + mean) / DENSEST + JSON_TOKENS)
            calls = _calls(len(questions), step.chat.model, cached)
            # The same question in another index is the same call, unless a step before has changed it.
            calls = Span(calls.least, len(questions) * n_rankings)
            what = f"{step.kind} of {retriever}"
            yield _of_chat(what, step.chat, calls, (read, Span(1, JSON_TOKENS)))


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
        per_call = (Span(1, PROMPT_TOKENS + longest), Span(1, written))
        calls, why = corpus.bounded(plan.calls, chunking.chunker)
        if plan.calls is None and recipe.summary and calls.most is not None:
            calls = Span(calls.least, calls.most * 2)
        least = max(0.0, calls.least - cached[plan.model])
        yield _of_chat(f"enriching {plan.key}", recipe, Span(least, calls.most), per_call, why)


def _dating(study: Study, found: Plan, cached: _Cached) -> Iterator[Estimate]:
    for plan in found.enriching:
        source = study.sources.get(plan.key.removeprefix("dates of "))
        if not plan.key.startswith("dates of ") or source is None or source.date_by is None:
            continue
        per_call = (Span(1, DATE_READ), Span(1, DATE_WRITTEN))
        # Only pages without a date of their own are asked about.
        most: int | None = plan.calls
        why = ""
        if most is None:
            most = source.limits.pages if source.spider else None
            why = (
                "" if most else f"its pages are counted by `assay crawl {plan.key.removeprefix('dates of ')}`"
            )
        yield _of_chat(plan.key, source.date_by, Span(0, most), per_call, why)


def _embedding(study: Study, found: Plan, corpus: _Corpus) -> Iterator[Estimate]:
    """Estimate what embedders of an `api` read: texts, not calls, for many go into one request."""
    for key, texts in found.texts_to_embed.items():
        _, chunking, embedder = key.split(".")
        recipe = study.embedders[embedder]
        if recipe.api is None:
            continue
        cutter = study.chunkings[chunking].chunker
        n, why = corpus.bounded(texts, cutter)
        per_text = (Span(1, min(window_of(cutter) + PROMPT_TOKENS, recipe.max_tokens)), Span(0, 0))
        price = price_of(recipe.model, embeds=True)
        yield _estimate(f"texts of {key}", recipe.model, price, n, per_text, why)


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
