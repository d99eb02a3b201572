"""Plans a run: cells, chunks to embed, model calls with tokens and costs, and what is stored already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from rag_assay.assets.embedding.blocks import blocks, texts_of
from rag_assay.assets.embedding.cached_embedder import CachedEmbedder
from rag_assay.assets.engine.stage import BuildContext, PartitionRef, Stage
from rag_assay.assets.enrichment.similarity import tags_text
from rag_assay.evals.study.chunk_windows import WINDOW, window_of
from rag_assay.evals.study.grid import read_questions_of
from rag_assay.warehouse.call_cache import CallCache
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.identity import sha256_text
from rag_assay.warehouse.inference.budget import Amount, Caps
from rag_assay.warehouse.inference.model_servers import LOCAL
from rag_assay.warehouse.pages import read_manifest
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.status import RETRYABLE, Status

if TYPE_CHECKING:
    from rag_assay.assets.embedding.embedder import EmbedderRecipe
    from rag_assay.evals.study.cells import Cell
    from rag_assay.evals.study.sections import StudyBudget
    from rag_assay.evals.study.study import Study
    from rag_assay.warehouse.artifacts import ArtifactStore
    from rag_assay.warehouse.inference.chat_model import ChatModel
    from rag_assay.warehouse.inference.chat_part import CallsEach
    from rag_assay.warehouse.inference.prices import Price
    from rag_assay.warehouse.paths import Home


class CostRange(NamedTuple):
    """most: None: unbounded so far"""

    least: float
    most: float | None


@dataclass(frozen=True)
class CallEstimate:
    """Calls of one part of a run to one model; usd: None: no known price; why: of missing bounds."""

    what: str
    model: str
    calls: CostRange
    read: CostRange
    written: CostRange
    usd: CostRange | None
    why: str = ""
    of_study: bool = False
    limit_usd: float | None = None


def total(rows: Iterable[CallEstimate]) -> CostRange:
    return added(row.usd for row in rows if row.usd is not None)


def added(spans: Iterable[CostRange]) -> CostRange:
    known = list(spans)
    most = [span.most for span in known]
    bounded = None if None in most else sum(value for value in most if value is not None)
    return CostRange(sum(span.least for span in known), bounded)


class Cached:
    """Good calls of a model in the cache: so many of a plan's may cost nothing."""

    def __init__(self, home: Home) -> None:
        self._home = home

    @cached_property
    def _counts(self) -> Counter[str]:
        rows = CallCache(self._home).rows()
        return Counter(str(row["model"]) for row in rows if row["status"] == Status.OK)

    def of(self, chat: ChatModel) -> int:
        return sum(self.named(model) for model in {one.model for one in chat.ranked()})

    def named(self, model: str) -> int:
        return self._counts[model]


def of_chat(
    what: str, chat: ChatModel, calls: CostRange, per_call: tuple[CostRange, CostRange], why: str = ""
) -> CallEstimate:
    read, written = per_call
    ranked = []
    for one in chat.ranked():
        each = (read, CostRange(written.least, one.max_tokens or written.most))
        ranked.append(estimate(what, chat.model, one.token_price(), calls, each, why))
    known = [row.usd for row in ranked if row.usd is not None]
    if len(known) < len(ranked):
        return replace(ranked[0], usd=None)
    most = [span.most for span in known if span.most is not None]
    bounds = CostRange(min(span.least for span in known), max(most) if len(most) == len(known) else None)
    return replace(ranked[0], usd=bounds)


def estimate(
    what: str,
    model: str,
    price: Price | None,
    calls: CostRange,
    per_call: tuple[CostRange, CostRange],
    why: str,
) -> CallEstimate:
    read, written = (_times(calls, tokens) for tokens in per_call)
    usd = None
    if price is not None and any(price):
        usd = added(_times(n, CostRange(rate, rate)) for n, rate in zip((read, written), price, strict=True))
    elif price is not None:
        usd = CostRange(0.0, 0.0)
    return CallEstimate(what, model, calls, read, written, usd, why)


def _times(calls: CostRange, tokens: CostRange) -> CostRange:
    most = None if calls.most is None or tokens.most is None else calls.most * tokens.most
    return CostRange(calls.least * tokens.least, most)


def bound_calls(n: int, each: CallsEach, chat: ChatModel, cached: Cached) -> CostRange:
    return CostRange(max(0, n * each.least - cached.of(chat)), n * each.most)


def passed_caps(budget: StudyBudget | None, rows: Sequence[CallEstimate]) -> list[str]:
    whose = "all that the study's budget pays for"
    of_study = _passed(whose, budget.caps, _of_study(rows)) if budget else []
    own = (_passed(row.what, Caps(row.limit_usd), Amount(row.usd.least)) for row in rows if row.usd)
    return [*of_study, *chain.from_iterable(own)]


def _of_study(rows: Sequence[CallEstimate]) -> Amount:
    paid = [row for row in rows if row.of_study and not row.model.startswith(LOCAL)]
    usd = added(row.usd for row in paid if row.usd is not None).least
    tokens = added(span for row in paid for span in (row.read, row.written)).least
    return Amount(usd, round(tokens), round(added(row.calls for row in paid).least))


def _passed(what: str, caps: Caps, least: Amount) -> list[str]:
    passed = [cap is not None and amount > cap for cap, amount in zip(caps, least, strict=True)]
    if not any(passed):
        return []
    both = [[value if one else None for one, value in zip(passed, of, strict=True)] for of in (least, caps)]
    needed, allowed = (", ".join(Caps._make(values).in_words()) for values in both)
    return [
        f"{what}: at least {needed}, and no more than {allowed} may be spent; the rest ends as over_budget"
    ]


PROMPT_TOKENS = 120  # of the instructions around the passages, about
ANSWER_TOKENS = 256  # that an answer may have, where a generator sets no bound
MEAN_PASSAGE = 0.85  # of a window's size: what a passage has on average, where there are no chunks to look at


@dataclass(frozen=True)
class StagePlan:
    """Keys of a stage in all, up to date, to do; of these unknown, since their inputs are not built."""

    stage: str
    keys: int
    done: int
    to_do: int
    unknown: int


@dataclass(frozen=True)
class CallPlan:
    """Model calls of a generator at most, and about so many tokens."""

    generator: str
    model: str
    cells: int
    calls: int
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True)
class EnrichPlan:
    """Model calls at most that enrich chunks or date documents; None: their inputs do not exist yet."""

    key: str
    model: str
    calls: int | None


@dataclass(frozen=True)
class RunPlan:
    """What `assay run --dry-run` shows; a number that is not known yet is None."""

    cells: list[Cell]
    replicates: int
    stages: list[StagePlan]
    texts_to_embed: dict[str, int | None]
    calls: list[CallPlan]
    enriching: list[EnrichPlan]


def plan(study: Study, stages: dict[str, Stage], home: Home) -> RunPlan:
    planned, done = _stage_plans(stages, home)
    return RunPlan(
        study.cells(),
        len(study.runs()),
        planned,
        {key: _texts_to_embed(study, key, stages["embeddings"], done, home) for key in study.indexes()},
        _call_plans(study, stages["answers"], done, home),
        [
            *(
                EnrichPlan(f"dates of {name}", source.date_by.model, _date_calls(name, done, home))
                for name, source in study.sources.items()
                if source.date_by and name in study.corpus.sources
            ),
            *(_enrich_plan(study, key, done, home) for key in stages["enrichments"].keys()),
        ],
    )


def _stage_plans(stages: dict[str, Stage], home: Home) -> tuple[list[StagePlan], set[PartitionRef]]:
    store = BuildContext(home).store
    done: set[PartitionRef] = set()
    plans = []
    for name, stage in stages.items():
        keys = stage.keys()
        known = [key for key in keys if done.issuperset(stage.needs(key))]
        fresh = [key for key in known if stage.fresh(key, store) is not None]
        done |= {PartitionRef(name, key) for key in fresh}
        if keys:
            plans.append(
                StagePlan(name, len(keys), len(fresh), len(keys) - len(fresh), len(keys) - len(known))
            )
    return plans, done


def _texts_to_embed(study: Study, key: str, stage: Stage, done: set[PartitionRef], home: Home) -> int | None:
    if not done.issuperset(stage.needs(key)):
        return None
    embedder = _looking(study.embedders[key.rpartition(".")[2]], home)
    hashes = {
        sha256_text(text)
        for need in stage.needs(key)
        for texts in _embedded(_file(need, home), embedder)
        for text in texts
    }
    return len(hashes) - int(embedder.cache.has(sorted(hashes)).sum())


def _looking(recipe: EmbedderRecipe, home: Home) -> CachedEmbedder:
    embedder = CachedEmbedder(recipe, home)
    embedder.cache.refresh()
    if len(embedder.cache):
        return embedder
    return CachedEmbedder(recipe.model_copy(update={"query_prompt": None, "passage_prompt": None}), home)


def _embedded(path: Path, embedder: CachedEmbedder) -> Iterator[list[str]]:
    if path.name == "enrichments.parquet":
        rows = read_parquet(path, ["kind", "text"]).filter(pl.col("kind") == "question").drop_nulls("text")
        yield [embedder.query_prefix + text for text in rows["text"]]
        return
    for chunks in blocks(path):
        yield texts_of(chunks, embedder)
        if embedder.recipe.similarities:
            others = [*chunks["title"].unique(), *map(tags_text, chunks["keywords"].unique().to_list())]
            yield [embedder.passage_prefix + text for text in others if text and text.strip()]


def _file(need: PartitionRef, home: Home) -> Path:
    store = BuildContext(home).store
    artifact = store.current(need.stage, need.key)
    assert artifact is not None  # noqa: S101 -- it is done
    return store.folder(need.stage, artifact.identity) / f"{need.stage}.parquet"


def _call_plans(study: Study, answers: Stage, done: set[PartitionRef], home: Home) -> list[CallPlan]:
    models = {name: one.chat for name, one in study.generators.items() if one.chat}
    n_questions = len(read_questions_of(study)) if models else 0
    passages = {
        cell.chunking: _passage_tokens(study, cell.chunking, done, home)
        for cell in study.cells()
        if cell.generator in models and cell.reads_ranking
    }
    plans = []
    for name, recipe in models.items():
        generator, prompt = study.generators[name], 0
        n_read = {"ranking": generator.passages, "evidence": 1, "nothing": 0}[study.reads(name)]
        to_ask = questions_to_ask(study, name, answers, n_questions, home)
        for cell, n in to_ask.items():
            context = n_read * passages.get(cell.chunking, WINDOW)
            prompt += n * (PROMPT_TOKENS + min(context, generator.context_tokens or context))
        calls = sum(to_ask.values())
        written = calls * (recipe.max_tokens or ANSWER_TOKENS)
        plans.append(CallPlan(name, recipe.model, len(to_ask), calls, prompt, written))
    return plans


def questions_to_ask(
    study: Study, generator: str, answers: Stage, n_questions: int, home: Home
) -> dict[Cell, int]:
    store = BuildContext(home).store
    found = {}
    for cell in (one for one in study.runs() if one.generator == generator):
        n_sampled = n_questions if cell.sample is None else min(cell.sample, n_questions)
        found[cell] = 0 if answers.fresh(cell.key, store) else n_sampled - _kept(answers, cell, store)
    return found


def _date_calls(source: str, done: set[PartitionRef], home: Home) -> int | None:
    if PartitionRef("documents", source) in done:
        return 0
    return len(read_manifest(home, source)) if PartitionRef("pages", source) in done else None


def _enrich_plan(study: Study, key: str, done: set[PartitionRef], home: Home) -> EnrichPlan:
    recipe = study.chunkings[key.partition(".")[2]].enrich
    assert recipe is not None  # noqa: S101 -- only such chunkings have a key of this stage
    if PartitionRef("enrichments", key) in done:
        return EnrichPlan(key, recipe.model, 0)
    if PartitionRef("chunks", key) not in done:
        return EnrichPlan(key, recipe.model, None)
    chunks = read_parquet(_file(PartitionRef("chunks", key), home), ["doc_id"])
    summaries = chunks["doc_id"].n_unique() if recipe.summary else 0
    return EnrichPlan(key, recipe.model, summaries + (len(chunks) if recipe.questions else 0))


def _kept(answers: Stage, cell: Cell, store: ArtifactStore) -> int:
    try:
        artifact = store.find(answers.name, answers.identity(cell.key, store))
    except AssayError:
        return 0  # what they would be answered from is not there yet
    by_status = artifact.meta["by_status"] if artifact else {}
    return sum(count for status, count in by_status.items() if status not in RETRYABLE)


def _passage_tokens(study: Study, chunking: str, done: set[PartitionRef], home: Home) -> int:
    need = PartitionRef("chunks", f"{study.corpus.name}.{chunking}")
    if need not in done:
        return round(window_of(study.chunkings[chunking].chunker) * MEAN_PASSAGE)
    columns = ["n_tokens", "characters", "context_start", "context_end"]
    means = read_parquet(_file(need, home), columns).select(pl.all().mean())
    tokens, characters, begin, end = means.row(0)
    return round(tokens * (end - begin) / characters)
