"""The data of a report: plain frames and facts, read from DuckDB."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import polars as pl

from rag_assay.evals.reporting.journey_rows import JourneyRows
from rag_assay.evals.reporting.provenance import Provenance
from rag_assay.evals.reporting.rating_scores import ScoresOfPeople
from rag_assay.evals.statistics.question_clusters import ALONE, Clustering
from rag_assay.evals.statistics.verdict import Verdict
from rag_assay.evals.successive_halving.records import SearchRecord
from rag_assay.warehouse.schemas import (
    ANSWERS,
    HITS,
    HUMAN_ESTIMATES,
    JUDGE_CARDS,
    JUDGEMENTS,
    LEADERBOARD,
    LOSSES,
    QUESTIONS,
    SCORES,
)

Kind = Literal["retrieval", "answer", "cost"]


@dataclass(frozen=True)
class MetricInfo:
    """What a reader must know of a metric.

    bounds: lowest and highest possible value, None where there is none
    unit: "" | "s" | "tokens"
    explanation: one sentence with the formula
    sees: the finest thing that it looks at; "" where that is not known
    of_rankings: whether it looks at rankings alone, and has nothing to measure where none is read
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
        """The title, with the unit where the title does not say it."""
        names_unit = not self.unit or self.unit.lower() in self.title.lower()
        return self.title if names_unit else f"{self.title} ({self.unit})"

    @property
    def worst(self) -> float | None:
        """The worst possible value, or None for a metric that has no bound on that side."""
        return self.bounds[0] if self.higher_is_better else self.bounds[1]

    @property
    def ideal(self) -> float | None:
        return self.bounds[1] if self.higher_is_better else self.bounds[0]


@dataclass(frozen=True)
class SourceFacts:
    """What became of a source: its pages, the documents made of them, and what was lost, by reason."""

    source: str
    pages: int
    documents: int
    dropped: Mapping[str, int]
    failed: Mapping[str, int]


@dataclass(frozen=True)
class ChunkingFacts:
    """What a chunking made of the corpus; tokens are counted without the model's special tokens.

    too_long: chunks that are longer than the embedder reads
    """

    name: str
    recipe: str
    chunks: int
    mean_tokens: float
    median_tokens: float
    max_tokens: int
    too_long: int


@dataclass(frozen=True)
class Duplicates:
    """Documents of the corpus that are copies of another one, and how many of them were left out.

    threshold: from which likeness on a copy is near; None: near copies were not looked for
    """

    exact: int
    near: int
    left_out: int
    threshold: float | None


@dataclass(frozen=True)
class GeneratorFacts:
    """What a generator is given to read (ranking | evidence | nothing), and the model that it asks."""

    reads: str
    model: str | None


@dataclass(frozen=True, eq=False)
class ReportData:
    """All that the report of one study shows; the first metric is the primary one.

    leaderboard: schema LEADERBOARD
    verdict: stored with it; no section ranks or chooses cells by itself
    questions: schema QUESTIONS
    scores, answers: schemas SCORES and ANSWERS with `cell` (as in the leaderboard) and `replicate`
    hits: schema HITS with `cell`, and `text`, `url`, `title` of the chunk; the first five of each question
    losses: schema LOSSES with `cell`, one cell of each ranking; None: no ranking has kept them
    judgements: schema JUDGEMENTS with `cell`, `cell_replicate`, `judge` and `uncalibrated`; without what
        models said, and of the statements the first ones
    clusters: which questions are not independent of each other
    contexts: what of the gold rankings hold at lengths of context (evals.reporting.contexts), one cell
        of each ranking; None: not read
    judges: name -> its kind, and the model that it asks
    judge_cards: schema JUDGE_CARDS
    people: what people scored; None: the study has no rubrics
    human_estimates: schema HUMAN_ESTIMATES; None: people score nothing
    judge_pairs: schema `stored_rows.PAIRS`: what judges and people said of the same answers; None: not read
    journey: what all rankings found; None: not read, and journeys are without passages
    recipes: name of a retriever, embedder, generator or judge -> its recipe as YAML
    generators: by name
    versions: library -> version, model -> digest
    notes: warnings that a reader must see, such as failed checks or cells that were not run
    interval: how `low` and `high` were found, as a noun phrase
    comparison: how the cells were compared with the leader, as a noun phrase
    unpriced: cells that have costs which no answer holds
    unmeasured: (cell, metric) pairs whose missing values are no lack
    part: what a reader must know of a slice of a study; empty for a whole one
    search: what a search of the grid left out; None: there was none
    duplicates: None: there are no documents
    planned: how many cells the study has; None: those of the leaderboard
    provenance: None: not known

    Raises ValueError when a frame lacks a column, there is no metric, or `created_at` has no time zone.
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

    def __post_init__(self) -> None:
        if not self.metrics:
            raise ValueError("a report needs at least one metric; the first is the primary one")
        if self.created_at.tzinfo is None:
            raise ValueError("created_at needs a time zone (UTC)")
        wanted = {
            "leaderboard": [*LEADERBOARD],
            "questions": [*QUESTIONS],
            "scores": [*SCORES, "cell", "replicate"],
            "answers": [*ANSWERS, "cell", "replicate"],
            "hits": [*HITS, "cell", "text", "url", "title"],
            "judgements": [*JUDGEMENTS, "cell", "cell_replicate", "judge", "uncalibrated"],
            "judge_cards": [*JUDGE_CARDS],
            "human_estimates": [*HUMAN_ESTIMATES],
            "losses": [*LOSSES, "cell"],
        }
        for name, columns in wanted.items():
            rows = getattr(self, name)
            missing = [] if rows is None else [column for column in columns if column not in rows.columns]
            if missing:
                raise ValueError(f"the frame `{name}` of the report lacks the columns {', '.join(missing)}")

    @property
    def values(self) -> pl.DataFrame:
        """One row a cell, question and metric: the mean over the replicates that have a value, else NULL."""
        of = ["cell", "question_id", "metric"]
        good = pl.when(pl.col("status") == "ok").then(pl.col("value")).alias("value")
        if self.scores["replicate"].n_unique() < 2:
            return self.scores.select(*of, good)
        return self.scores.group_by(of, maintain_order=True).agg(good.mean())

    @property
    def primary(self) -> MetricInfo:
        return self.metrics[0]
