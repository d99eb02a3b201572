"""Estimates the least and most that a run's model calls would cost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl

from rag_assay.assets.engine.stage import BuildContext, Stage
from rag_assay.evals.judging.cards.labels import read_labels
from rag_assay.evals.judging.cards.mutations import MUTATIONS, ORIGINALS
from rag_assay.evals.judging.judge_metrics import JudgedScores
from rag_assay.evals.query_transforms.model_transform import ByModel
from rag_assay.evals.query_transforms.multi_query import MultiQuery
from rag_assay.evals.study.cells import Cell, JudgedCell
from rag_assay.evals.study.chunk_windows import window_of
from rag_assay.evals.study.grid import read_questions_of, read_train_questions_of
from rag_assay.evals.study.run_plan import (
    PROMPT_TOKENS,
    Cached,
    CallEstimate,
    CostRange,
    RunPlan,
    bound_calls,
    estimate,
    of_chat,
    questions_to_ask,
)
from rag_assay.evals.systems.contract import CalledSystem
from rag_assay.warehouse.errors import AssayError, InputError
from rag_assay.warehouse.inference.chat_part import JSON_TOKENS
from rag_assay.warehouse.inference.prices import price_of
from rag_assay.warehouse.inference.structured import MOST_ASKED
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.recipe import nested_recipes
from rag_assay.warehouse.schemas import RETRYABLE, Status

if TYPE_CHECKING:
    from rag_assay.assets.chunking import Chunker
    from rag_assay.assets.embedding.embedder import EmbedderRecipe
    from rag_assay.evals.judging.contract import Judge
    from rag_assay.evals.metrics.contract import Metric
    from rag_assay.evals.study.study import Study
    from rag_assay.warehouse.artifacts import ArtifactStore
    from rag_assay.warehouse.paths import Home

CASE_TOKENS = 8_000  # of a question, its passages, its ground truth and its answer, at most about
Rows = list[dict[str, Any]]


def judge_estimates(
    study: Study, stages: Mapping[str, Stage], cached: Cached, questions: _Questions, home: Home
) -> Iterator[CallEstimate]:
    asking = {name: judge for name, judge in study.judges.items() if judge.chat is not None}
    if not asking:
        return
    store = BuildContext(home).store
    for name, judge in asking.items():
        cells = [JudgedCell(cell, name) for cell in study.runs() if name in study.judged_by(cell)]
        waiting = [one for one in cells if stages["judgements"].fresh(one.key, store) is None]
        cases = sum(_cases(study, one, questions.test, stages, store) for one in waiting)
        yield of_cases(f"judging by {name}", judge, cases, cached)
        trials = _trials(study, name, stages["judge_cards"], store)
        yield of_cases(f"the card of {name}", judge, trials, cached)


def _trials(study: Study, name: str, judge_cards: Stage, store: ArtifactStore) -> int:
    key, judge, card = f"{study.study}.{name}", study.judges[name], study.card_of(name)
    if key not in judge_cards.keys() or judge_cards.fresh(key, store) is not None:
        return 0
    n_labelled = 0
    if card.labels is not None:
        try:
            file = study.resolve(card.labels.file)
            n_labelled = len(read_labels(file, judge.judged_metrics, card.labels))
        except InputError:  # which `assay check` tells
            n_labelled = 0
    again = max(ORIGINALS, judge.times) if judge.varies else 1
    kinds = sum(any(kind.moves(metric) for metric in judge.judged_metrics) for kind in MUTATIONS.values())
    n_mutated = card.mutations if study.generators or n_labelled else 0
    return n_labelled * judge.times + n_mutated * (again + kinds * judge.times)


def of_cases(what: str, part: Judge | Metric, cases: int, cached: Cached) -> CallEstimate:
    chat = part.chat
    assert chat is not None  # noqa: S101 -- others cost nothing, and are left out
    calls = bound_calls(cases, part.calls_per_case(), chat, cached)
    per_call = (CostRange(PROMPT_TOKENS, PROMPT_TOKENS + CASE_TOKENS), CostRange(1, part.longest_reply))
    return replace(of_chat(what, chat, calls, per_call), of_study=True, limit_usd=part.budget_limit)


def _cases(
    study: Study, judged: JudgedCell, questions: Rows, stages: Mapping[str, Stage], store: ArtifactStore
) -> int:
    cell, judge = judged.cell, study.judges[judged.judge]
    ids = study.sampled([row["question_id"] for row in questions], cell.sample)
    chosen = set(study.sampled(ids, study.judged_sample(judged.judge)))
    usable = _answered(cell, stages["answers"], store)
    metrics = [
        one for one in study.metrics_of(cell) if isinstance(one, JudgedScores) and one.judge == judged.judge
    ]
    cases = {
        row["question_id"]
        for row in questions
        if row["question_id"] in chosen
        and any(
            one.applies(row)
            and ("answer" not in one.metric.needs or usable is None or row["question_id"] in usable)
            for one in metrics
        )
    }
    return len(cases) * judge.times - _kept(judged, cases, stages["judgements"], store)


def _answered(cell: Cell, answers: Stage, store: ArtifactStore) -> set[str] | None:
    artifact = answers.fresh(cell.key, store)
    if artifact is None:
        return None
    path = store.folder(artifact.stage, artifact.identity) / "answers.parquet"
    rows = read_parquet(path, ["question_id", "status", "answer"])
    return {
        question
        for question, status, text in rows.iter_rows()
        if status in {Status.OK, Status.REFUSED} and (text or "").strip()
    }


def _kept(judged: JudgedCell, cases: set[str], judgements: Stage, store: ArtifactStore) -> int:
    try:
        artifact = store.find(judgements.name, judgements.identity(judged.key, store))
    except AssayError:
        return 0  # what would be judged is not there yet
    if artifact is None:
        return 0
    path = store.folder(artifact.stage, artifact.identity) / "judgements.parquet"
    rows = read_parquet(path, ["question_id", "replicate", "status"])
    of_cases = rows.filter(pl.col("question_id").is_in(list(cases))).group_by("question_id", "replicate")
    return int(of_cases.agg(~pl.col("status").is_in(list(map(str, RETRYABLE))).any())["status"].sum())


DATE_READ, DATE_WRITTEN = 1_600, 60  # tokens of a page's beginning, and of a date as JSON
SUMMARY_TOKENS = 200  # that a summary may have
DENSEST, SPARSEST = 2.5, 6.0  # characters of a token: German compounds and code, plain English


def estimates(study: Study, found: RunPlan, stages: dict[str, Stage], home: Home) -> list[CallEstimate]:
    cached = Cached(home)
    corpus, questions = _Corpus(study, home), _Questions(study)
    rows = [
        *_answers(study, found, cached),
        *_systems(study, stages["answers"], cached, questions, home),
        *_understanding(study, stages, cached, questions, home),
        *judge_estimates(study, stages, cached, questions, home),
        *_measuring(study, stages["scores"], cached, questions, home),
        *_enriching(study, found, cached, corpus),
        *_dating(study, found, cached),
        *_embedding(study, found, corpus),
        *_embedding_questions(study, stages["rankings"], questions, home),
    ]
    return [row for row in rows if row.calls.most != 0]


def _answers(study: Study, found: RunPlan, cached: Cached) -> Iterator[CallEstimate]:
    for plan in found.calls:
        generator = study.generators[plan.generator]
        chat = generator.chat
        if chat is None:
            continue
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


def _systems(
    study: Study, answers: Stage, cached: Cached, questions: _Questions, home: Home
) -> Iterator[CallEstimate]:
    n_questions = len(questions.test) if study.systems else 0
    for name, system in study.systems.items():
        if not isinstance(system, CalledSystem):
            continue
        n = sum(questions_to_ask(study, name, answers, n_questions, home).values())
        calls = CostRange(max(0, n - cached.named(system.asked_as)), n)
        tokens = CostRange(0, None if system.price else 0)
        what = f"answers of {name}"
        row = estimate(what, system.asked_as, system.token_price, calls, (tokens, tokens), "")
        yield replace(row, of_study=True)


def _understanding(
    study: Study, stages: dict[str, Stage], cached: Cached, questions: _Questions, home: Home
) -> Iterator[CallEstimate]:
    searches = _searches(study, stages, home)
    ranked = {cell.retriever for cell in _waiting_rankings(study, stages["rankings"], home).values()}
    asked, train = questions.test, questions.train
    for retriever, (n_asked, n_train) in searches.items():
        wordings = 1  # of a question, that the steps before have made of it
        for step in nested_recipes(study.retrievers[retriever]):
            if isinstance(step, ByModel) and step.chat is not None:
                certain = {row["question"] for row in asked if retriever in ranked and step.concerns(row)}
                # The same question in another index is the same call, unless a step before has changed it.
                most = n_asked * sum(map(step.concerns, asked)) + n_train * sum(map(step.concerns, train))
                least = max(0, len(certain) - cached.of(step.chat))
                tokens = _understood([*asked, *train], len(step.prompt.system))
                calls = CostRange(least, most * wordings * MOST_ASKED)
                row = of_chat(f"{step.kind} of {retriever}", step.chat, calls, tokens)
                yield replace(row, of_study=True)
            wordings *= step.n if isinstance(step, MultiQuery) else 1


def _waiting_rankings(study: Study, rankings: Stage, home: Home) -> dict[str, Cell]:
    store = BuildContext(home).store
    return {
        cell.ranking: cell
        for cell in study.cells()
        if cell.reads_ranking and rankings.fresh(cell.ranking, store) is None
    }


def _searches(study: Study, stages: dict[str, Stage], home: Home) -> dict[str, tuple[int, int]]:
    found: Counter[tuple[str, str]] = Counter()
    for cell in _waiting_rankings(study, stages["rankings"], home).values():
        found[cell.retriever, "test"] += 1
        found[cell.retriever, "train"] += study.retrievers[cell.retriever].needs_tuning
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
    mean = prompt + sum(len(row["question"]) for row in questions) / max(len(questions), 1)
    read = CostRange(mean / SPARSEST, PROMPT_TOKENS + mean / DENSEST + 2 * JSON_TOKENS)
    return read, CostRange(1, JSON_TOKENS)


def _measuring(
    study: Study, scores: Stage, cached: Cached, questions: _Questions, home: Home
) -> Iterator[CallEstimate]:
    metrics = [metric for name in study.metrics if (metric := study.metric(name)).chat is not None]
    if not metrics:
        return
    store = BuildContext(home).store
    rows = questions.test
    sizes = [
        min(cell.sample or len(rows), len(rows))
        for cell in study.runs()
        if scores.fresh(cell.key, store) is None
    ]
    for metric in metrics:
        applies = sum(map(metric.applies, rows))
        yield of_cases(metric.name, metric, sum(min(size, applies) for size in sizes), cached)


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
    for key, texts in found.texts_to_embed.items():
        _, chunking, embedder = key.split(".")
        recipe = study.embedders[embedder]
        if recipe.api is None:
            continue
        cutter = study.chunkings[chunking].chunker
        n, why = corpus.bounded(texts, cutter)
        each = CostRange(1, min(window_of(cutter) + PROMPT_TOKENS, recipe.max_tokens))
        yield from _embedded(f"texts of {key}", recipe, n, each, why)


def _embedding_questions(
    study: Study, rankings: Stage, questions: _Questions, home: Home
) -> Iterator[CallEstimate]:
    cells = _waiting_rankings(study, rankings, home).values()
    waiting = {cell.embedder for cell in cells if study.retrievers[cell.retriever].needs_vector}
    for name in sorted(waiting):
        texts = {row["question"] for row in (*questions.test, *questions.train)}
        longest = max(map(len, texts), default=0) / DENSEST + PROMPT_TOKENS
        asked, each = CostRange(0, len(texts)), CostRange(1, longest)
        yield from _embedded(f"questions by {name}", study.embedders[name], asked, each)


def _embedded(
    what: str, recipe: EmbedderRecipe, texts: CostRange, each: CostRange, why: str = ""
) -> Iterator[CallEstimate]:
    if recipe.api is None:  # this machine embeds them
        return
    requests = CostRange(math.ceil(texts.least / recipe.batch_size), texts.most)
    price = price_of(recipe.model, embeds=True)
    row = estimate(what, recipe.model, price, texts, (each, CostRange(0, 0)), why)
    yield replace(row, calls=requests, limit_usd=recipe.api.budget_usd)


class _Questions:
    """The questions of a study, read at most once."""

    def __init__(self, study: Study) -> None:
        self._study = study

    @cached_property
    def test(self) -> Rows:
        return read_questions_of(self._study)

    @cached_property
    def train(self) -> Rows:
        return read_train_questions_of(self._study)


class _Corpus:
    def __init__(self, study: Study, home: Home) -> None:
        self._study = study
        self._store = BuildContext(home).store
        self._documents = {name: self._store.current("documents", name) for name in study.corpus.sources}

    def bounded(self, counted: int | None, chunker: Chunker) -> tuple[CostRange, str]:
        if counted is not None:
            return CostRange(counted, counted), ""
        if missing := [name for name, artifact in self._documents.items() if artifact is None]:
            how = f"`assay run {self._study.study} --only documents`"
            why = f"not known before the documents of {', '.join(missing)} are there: {how}"
            return CostRange(0, None), why
        window, lengths = window_of(chunker), self._lengths
        step = max(1.0, window - float(chunker.model_dump().get("overlap") or 0))
        characters = int(lengths.sum() or 0)
        least = round(characters / (window * SPARSEST))
        return CostRange(least, round(characters / (step * DENSEST)) * 2 + len(lengths)), ""

    @cached_property
    def _lengths(self) -> pl.Series:
        folders = (self._store.folder("documents", one.identity) for one in self._documents.values() if one)
        texts = pl.concat(read_parquet(folder / "documents.parquet", ["text"]) for folder in folders)
        return texts["text"].str.len_chars()
