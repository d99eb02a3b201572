"""The data of a report: plain frames and facts, read from DuckDB."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import polars as pl

from rag_assay.evals.reporting.journey_rows import JourneyRows
from rag_assay.evals.reporting.rating_scores import ScoresOfPeople
from rag_assay.evals.statistics.comparison import Bounded, margin_of
from rag_assay.evals.statistics.question_clusters import ALONE, Clustering
from rag_assay.evals.statistics.verdict import Verdict
from rag_assay.evals.successive_halving.records import SearchRecord

Kind = Literal["retrieval", "answer", "cost"]


@dataclass(frozen=True)
class MetricInfo:
    """A metric as the report explains it; sees: the finest thing that it looks at; "": not known.

    bounds: lowest and highest possible value, None where there is none; unit: "" | "s" | "tokens"
    of_rankings: it looks at rankings alone
    """

    name: str
    title: str
    kind: Kind
    higher_is_better: bool
    bounds: tuple[float | None, float | None]
    unit: str
    explanation: str
    sees: str = ""
    of_rankings: bool = False

    @property
    def heading(self) -> str:
        names_unit = not self.unit or self.unit.lower() in self.title.lower()
        return self.title if names_unit else f"{self.title} ({self.unit})"

    @property
    def worst(self) -> float | None:
        return self.bounds[0] if self.higher_is_better else self.bounds[1]

    @property
    def ideal(self) -> float | None:
        return self.bounds[1] if self.higher_is_better else self.bounds[0]


@dataclass(frozen=True)
class SourceFacts:
    """A source as the study read it; dropped, failed: what was lost, by reason.

    crawled: last fetch, ISO 8601; digest: of its documents
    """

    source: str
    pages: int
    documents: int
    dropped: Mapping[str, int]
    failed: Mapping[str, int]
    crawled: str | None = None
    digest: str | None = None


@dataclass(frozen=True)
class ChunkingFacts:
    """Tokens are counted without special tokens; too_long: chunks that are longer than the embedder reads."""

    name: str
    recipe: str
    chunks: int
    mean_tokens: float
    median_tokens: float
    max_tokens: int
    too_long: int


@dataclass(frozen=True)
class Duplicates:
    """Copies among the documents; threshold: least similarity of a near copy, None: not looked for."""

    exact: int
    near: int
    left_out: int
    threshold: float | None


@dataclass(frozen=True)
class GeneratorFacts:
    """reads: ranking | evidence | nothing; model: that it calls"""

    reads: str
    model: str | None


@dataclass(frozen=True)
class Provenance:
    """corpus: digest of all documents; machine: fact -> value, of the machine that wrote the report
    commands: cell -> the command that makes it again; identities: cell -> digest of all that made it
    """

    corpus: str | None
    machine: Mapping[str, str]
    commands: Mapping[str, str]
    identities: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class ReportData:
    """All that the report of one study shows; the first metric is the primary one; frames have their schema.

    verdict: no section ranks or chooses cells by itself
    scores, answers: with `cell` (as in the leaderboard) and `replicate`
    hits: with `cell`, and `text`, `url`, `title` of the chunk; the first five of each question
    losses, contexts (`contexts.CURVES`): with `cell`, one cell of each ranking
    judgements: with `cell`, `cell_replicate`, `judge` and `uncalibrated`; first statements
    judges: name -> its kind and model; judge_pairs: `stored_rows.PAIRS`
    people: None: the study has no rubrics
    recipes: name of a retriever, embedder, generator or judge -> its recipe as YAML
    versions: library -> version, model -> digest
    notes: warnings such as failed checks or cells that were not run
    interval, comparison: how they were computed, as noun phrases
    unpriced: cells with costs that no answer holds
    unmeasured: (cell, metric) pairs whose missing values are no lack
    part: what a reader must know of a slice of a study; planned: how many cells the study has
    duplicates: None: there are no documents
    """

    study: str
    description: str
    seed: int
    created_at: datetime
    metrics: tuple[MetricInfo, ...]
    leaderboard: pl.DataFrame
    verdict: Verdict
    questions: pl.DataFrame
    scores: pl.DataFrame
    answers: pl.DataFrame
    hits: pl.DataFrame
    corpus: tuple[SourceFacts, ...] = ()
    chunkings: tuple[ChunkingFacts, ...] = ()
    recipes: Mapping[str, str] | None = None
    versions: Mapping[str, str] | None = None
    notes: tuple[str, ...] = ()
    interval: str = "interval over the questions"
    comparison: str = "paired permutation test over the questions"
    losses: pl.DataFrame | None = None
    contexts: pl.DataFrame | None = None
    generators: Mapping[str, GeneratorFacts] | None = None
    clusters: Clustering = ALONE
    judgements: pl.DataFrame | None = None
    judges: Mapping[str, str] | None = None
    judge_cards: pl.DataFrame | None = None
    judge_pairs: pl.DataFrame | None = None
    people: ScoresOfPeople | None = None
    human_estimates: pl.DataFrame | None = None
    journey: JourneyRows | None = None
    unpriced: frozenset[str] = frozenset()
    unmeasured: frozenset[tuple[str, str]] = frozenset()
    part: str = ""
    search: SearchRecord | None = None
    duplicates: Duplicates | None = None
    planned: int | None = None
    provenance: Provenance | None = None

    def margin_of(self, metric: Bounded) -> float | None:
        return margin_of(metric, self.verdict.margin, self.primary)

    @property
    def values(self) -> pl.DataFrame:
        """A row a cell, question and metric: the mean over the replicates with a value, else NULL."""
        of = ["cell", "question_id", "metric"]
        good = pl.when(pl.col("status") == "ok").then(pl.col("value")).alias("value")
        if self.scores["replicate"].n_unique() < 2:
            return self.scores.select(*of, good)
        return self.scores.group_by(of, maintain_order=True).agg(good.mean())

    @property
    def primary(self) -> MetricInfo:
        return self.metrics[0]
