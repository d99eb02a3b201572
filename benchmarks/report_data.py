"""A study that never ran, of any size, as a home's database holds it: what `benchmarks.report` measures.

By default 1,000 questions x 100 cells x 10 metrics: a million scores. Texts are made of words as often as
words of a language are; passages are spans of documents; of a question all rankings find much the same, and
half of the cells give much the same answer. One value of a hundred is missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import polars as pl

from evals.annotating.points import Points
from evals.gold.losses import Loss
from evals.reporting.data import MetricInfo, ReportData
from evals.reporting.people_scores import CELLS, ScoresOfPeople
from warehouse.annotation_schemas import AGREEMENT, ANNOTATIONS, HUMAN_SCORES
from warehouse.schemas import (
    ANSWERS,
    HITS,
    JUDGEMENTS,
    LEADERBOARD,
    QUESTIONS,
    SCORES,
)

STUDY = "bench"
CHUNKINGS = ("tokens-64", "tokens-128", "tokens-256", "articles", "sentences-6")
RETRIEVERS = (
    "bm25",
    "dense",
    "hybrid",
    "bm25+dense",
    "bm25+dense+recency",
    "mmr",
    "hyde",
    "multi",
    "parent",
    "ner",
)
GENERATORS = ("extractive", "small")
SIZES = dict(zip(CHUNKINGS, (260, 520, 1040, 1500, 700), strict=True))
METRICS = (
    MetricInfo("ndcg@10", "nDCG@10", "retrieval", True, (0, 1), "", "", "documents", True),
    MetricInfo("hit_rate@5", "Hit rate@5", "retrieval", True, (0, 1), "", "", "passages", True),
    MetricInfo("mrr", "MRR", "retrieval", True, (0, 1), "", "", "passages", True),
    MetricInfo("evidence_coverage@5", "Evidence coverage@5", "retrieval", True, (0, 1), "", ""),
    MetricInfo("rouge_l", "ROUGE-L", "answer", True, (0, 1), "", ""),
    MetricInfo("semantic_similarity", "Semantic similarity", "answer", True, (-1, 1), "", ""),
    MetricInfo("model.faithfulness", "Faithfulness", "answer", True, (0, 1), "", ""),
    MetricInfo("model.accuracy", "Accuracy", "answer", True, (0, 1), "", ""),
    MetricInfo("latency", "Latency", "cost", False, (0, None), "s", ""),
    MetricInfo("tokens", "Tokens", "cost", False, (0, None), "tokens", ""),
)
JUDGED = ("faithfulness", "accuracy")
WORDS, LENGTH = 8_000, 8_000  # of the language, characters of a document


@dataclass(frozen=True)
class Size:
    """How large the study is; `scored` are answers that two people have scored."""

    questions: int = 1_000
    documents: int = 2_000
    hits: int = 10
    scored: int = 300
    chunkings: int = len(CHUNKINGS)
    retrievers: int = len(RETRIEVERS)


@dataclass(frozen=True)
class Made:
    """The rows of the study, by table, and its documents.

    rows: with `cell` (and `replicate`) or `ranking`
    documents: doc_id, url, title, text
    """

    size: Size
    rows: dict[str, pl.DataFrame]
    documents: pl.DataFrame
    cells: list[dict[str, Any]]
    people: ScoresOfPeople

    @property
    def rankings(self) -> dict[str, str]:
        """Each ranking, and the cell that stands for it."""
        found: dict[str, str] = {}
        for cell in self.cells:
            found.setdefault(ranking_of(cell), cell["cell"])
        return found


def ranking_of(cell: dict[str, Any]) -> str:
    """Return the key of the ranking that a cell reads."""
    return ".".join([STUDY, cell["chunking"], cell["embedder"], cell["retriever"]])


def made(size: Size, seed: int = 7) -> Made:
    """Make a study of a size."""
    draw = np.random.default_rng(seed)
    texts = _Texts(draw)
    documents = _documents(size, texts)
    cells = [
        {
            "cell": f"{STUDY}.{c}.minilm.{r}.{g}",
            "chunking": c,
            "embedder": "minilm",
            "retriever": r,
            "generator": g,
        }
        for c in CHUNKINGS[: size.chunkings]
        for r in RETRIEVERS[: size.retrievers]
        for g in GENERATORS
    ]
    questions = _questions(size, texts, draw, documents)
    rankings = list(dict.fromkeys(map(ranking_of, cells)))
    hits = _hits(size, rankings, draw)
    answers = _answers(size, cells, texts, draw)
    rows = {
        "questions": questions,
        "hits": hits,
        "ranked": _ranked(size, rankings, draw),
        "losses": _losses(size, rankings, draw),
        "answers": answers,
        "scores": _scores(size, cells, draw),
        "judgements": _judgements(size, cells, texts, draw),
    }
    rows["leaderboard"] = _board(rows["scores"], cells)
    return Made(size, rows, documents, cells, _people(size, cells, draw))


def data_of(study: Made, rows: dict[str, pl.DataFrame]) -> ReportData:
    """Return the report's data; `rows` as they were read, by table, `hits` with their texts."""
    return ReportData(
        study=STUDY,
        description="A study that never ran",
        seed=7,
        created_at=datetime.now(UTC),
        metrics=METRICS,
        leaderboard=rows["leaderboard"],
        questions=rows["questions"],
        scores=rows["scores"],
        answers=rows["answers"],
        hits=rows["hits"],
        losses=rows["losses"],
        contexts=rows["contexts"],
        judgements=rows["judgements"],
        judges={"model": "llm, openai/some-model"},
        people=study.people,
    )


class _Texts:
    """Texts of words whose frequencies fall with their ranks."""

    def __init__(self, draw: np.random.Generator) -> None:
        letters = np.array([*"eeeeenniisstrraahdulcgmobwfkzpv"])
        self.draw = draw
        self.words = ["".join(draw.choice(letters, draw.integers(2, 12))) for _ in range(WORDS)]
        weights = 1 / np.arange(2, WORDS + 2)
        self._ends = np.cumsum(weights / weights.sum())

    def texts(self, lengths: np.ndarray[Any, Any]) -> list[str]:
        """Return a text of about so many characters for each length."""
        counts = np.maximum(lengths // 7, 2)
        ends = np.cumsum(counts)
        at = np.searchsorted(self._ends, self.draw.random(int(ends[-1])))
        words = self.words
        drawn = [words[min(one, WORDS - 1)] for one in at.tolist()]
        starts = (ends - counts).tolist()
        return [" ".join(drawn[a:b]) for a, b in zip(starts, ends.tolist(), strict=True)]


def _documents(size: Size, texts: _Texts) -> pl.DataFrame:
    found = texts.texts(np.full(size.documents, int(LENGTH * 1.15)))
    names = [f"doc-{at}" for at in range(size.documents)]
    return pl.DataFrame(
        {
            "doc_id": names,
            "url": [f"https://example.org/{name}" for name in names],
            "title": [" ".join(text.split()[:6]) for text in found],
            "text": [text[:LENGTH].ljust(LENGTH) for text in found],
        }
    )


def _gold(size: Size) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the document and the place of each question's evidence."""
    at = np.arange(size.questions)
    return at * 7 % size.documents, at * 131 % (LENGTH - 400)


def _questions(size: Size, texts: _Texts, draw: np.random.Generator, documents: pl.DataFrame) -> pl.DataFrame:
    lengths = draw.integers(50, 160, size.questions)
    asked, truths = texts.texts(lengths), texts.texts(lengths * 2)
    of, starts = _gold(size)
    held = documents["text"].to_list()
    rows = [
        {
            "question_id": f"q{at:04}",
            "question_set": ("people", "model")[at % 2],
            "type": ("fact", "list", "why", "time")[at % 4],
            "language": "en",
            "question": asked[at] + "?",
            "ground_truth": truths[at],
            "answerable": at % 20 != 0,
            "needs": "all",
            "gold": "spans",
            "evidence": [
                {
                    "doc_id": f"doc-{of[at]}",
                    "url": f"https://example.org/doc-{of[at]}",
                    "quote": held[of[at]][starts[at] : starts[at] + 180],
                    "start": int(starts[at]),
                    "end": int(starts[at]) + 180,
                    "grade": 1,
                    "reason": None,
                    "similarity": 1.0,
                }
            ],
        }
        for at in range(size.questions)
    ]
    return pl.DataFrame(rows, schema=QUESTIONS)


def _cross(size: Size, names: list[str], column: str) -> pl.DataFrame:
    """Return a row for each name and question."""
    asked = [f"q{at:04}" for at in range(size.questions)]
    return pl.DataFrame({column: names}).join(pl.DataFrame({"question_id": asked}), how="cross")


def _hits(size: Size, rankings: list[str], draw: np.random.Generator) -> pl.DataFrame:
    """Draw hits: rankings of a question share 20 documents, and the places where they are cut."""
    asked, k = size.questions, size.hits
    of, starts = _gold(size)
    pool = draw.integers(0, size.documents, (asked, 20))
    pool[:, 0] = of
    frames = []
    for ranking in rankings:
        width = SIZES[ranking.split(".")[1]]
        order = np.argsort(draw.random((asked, 20)) + np.arange(20) / 12, axis=1)[:, :k]
        docs = np.take_along_axis(pool, order, axis=1)
        places = np.where(order == 0, starts[:, None], docs * 977 % (LENGTH - 1600)) // width * width
        frames.append(
            pl.DataFrame(
                {
                    "ranking": [ranking] * (asked * k),
                    "question_id": np.repeat([f"q{at:04}" for at in range(asked)], k),
                    "rank": np.tile(np.arange(1, k + 1), asked),
                    "chunk_id": [
                        f"{ranking.split('.')[1]}-{d}-{p}"
                        for d, p in zip(docs.ravel().tolist(), places.ravel().tolist(), strict=True)
                    ],
                    "doc_id": [f"doc-{d}" for d in docs.ravel().tolist()],
                    "start": places.ravel(),
                    "end": places.ravel() + width,
                    "score": np.sort(draw.random((asked, k)), axis=1)[:, ::-1].ravel(),
                }
            )
        )
    return pl.concat(frames).cast({**HITS, "ranking": pl.String})


def _ranked(size: Size, rankings: list[str], draw: np.random.Generator) -> pl.DataFrame:
    rows = _cross(size, rankings, "ranking")
    return rows.with_columns(
        status=pl.lit("ok"),
        reason=pl.lit(None, pl.String),
        seconds=pl.Series(draw.random(len(rows))),
        n_hits=pl.lit(size.hits),
    )


def _losses(size: Size, rankings: list[str], draw: np.random.Generator) -> pl.DataFrame:
    rows = _cross(size, rankings, "ranking")
    kinds = np.array([*(str(one) for one in Loss), *[""] * 12])
    at = pl.Series("lost_at", kinds[draw.integers(0, len(kinds), len(rows))])
    lost = pl.when(pl.col("lost_at") != "").then("lost_at")
    found = pl.Series(draw.integers(1, 11, len(rows)))
    return rows.with_columns(
        at, pl.lit(0).alias("evidence"), url=pl.lit("https://example.org/"), step=pl.lit("fuse")
    ).with_columns(lost_at=lost, found_at=pl.when(lost.is_null()).then(found))


def _answers(
    size: Size, cells: list[dict[str, Any]], texts: _Texts, draw: np.random.Generator
) -> pl.DataFrame:
    rows = _cross(size, [one["cell"] for one in cells], "cell")
    n = len(rows)
    same = texts.texts(draw.integers(100, 300, size.questions))
    own = texts.texts(draw.integers(100, 300, n))
    texts_of = np.where(draw.random(n) < 0.5, np.array(own, object), np.array(same * len(cells), object))
    failed = pl.Series(draw.random(n) < 0.01)
    ids = rows["cell"].str.split(".").list.get(1)
    filled: dict[str, Any] = {name: pl.lit(None, kind) for name, kind in ANSWERS.items()}
    chunk = pl.concat_str(pl.Series(ids), pl.lit("-0-0"))
    rows = rows.with_columns(replicate=pl.lit(1, pl.Int64), **filled | {"question_id": "question_id"})
    return rows.with_columns(
        answer=pl.Series(texts_of.tolist(), dtype=pl.String),
        status=pl.when(failed).then(pl.lit("timeout")).otherwise(pl.lit("ok")),
        reason=pl.when(failed).then(pl.lit("no answer within 60 s")),
        seconds=pl.Series(draw.lognormal(0, 0.5, n)),
        prompt_tokens=pl.Series(draw.integers(600, 3_000, n)),
        completion_tokens=pl.Series(draw.integers(20, 90, n)),
        usd=pl.lit(0.0003),
        chunk_ids=pl.concat_list(chunk),
        confidence=pl.Series(draw.random(n)),
    ).cast(
        {
            name: kind
            for name, kind in ANSWERS.items()
            if name not in ("citations", "cuts", "bins", "attempts")
        }
    )


def _scores(size: Size, cells: list[dict[str, Any]], draw: np.random.Generator) -> pl.DataFrame:
    rows = _cross(size, [one["cell"] for one in cells], "cell")
    n = len(rows)
    hardness = np.tile(draw.random(size.questions), len(cells))
    skill = np.repeat(draw.random(len(cells)) * 0.3, size.questions)
    worth = np.clip(0.3 + skill - hardness * 0.5 + draw.normal(0.3, 0.25, n), 0, 1)
    frames = []
    for metric in METRICS:
        if metric.kind == "cost":
            value = draw.lognormal(0, 0.4, n) if metric.unit == "s" else draw.integers(600, 3_000, n) * 1.0
        elif metric.kind == "retrieval":
            value = np.round(worth * 7) / 7
        elif metric.name.startswith("model."):
            value = np.round(worth * 4) / 4
        else:
            value = np.clip(worth + draw.normal(0, 0.05, n), 0, 1)
        failed = pl.Series(draw.random(n) < 0.01)
        frames.append(
            rows.with_columns(
                metric=pl.lit(metric.name),
                replicate=pl.lit(1, pl.Int64),
                status=pl.when(failed).then(pl.lit("timeout")).otherwise(pl.lit("ok")),
                value=pl.when(~failed).then(pl.Series(value)),
                reason=pl.when(failed).then(pl.lit("no answer within 60 s")),
            )
        )
    return pl.concat(frames).select("cell", "replicate", *SCORES)


def _judgements(
    size: Size, cells: list[dict[str, Any]], texts: _Texts, draw: np.random.Generator
) -> pl.DataFrame:
    rows = _cross(size, [one["cell"] for one in cells], "cell")
    n = len(rows)
    filled: dict[str, Any] = {name: pl.lit(None, kind) for name, kind in JUDGEMENTS.items()}
    frames = []
    for metric in JUDGED:
        said = {
            "metric": pl.lit(metric),
            "replicate": pl.lit(1, pl.Int64),
            "status": pl.lit("ok"),
            "value": pl.Series(np.round(draw.random(n) * 4) / 4),
            "reason": pl.Series(texts.texts(draw.integers(60, 200, n))),
        }
        names = {"cell": "cell", "cell_replicate": pl.lit(1, pl.Int64), "judge": pl.lit("model")}
        frames.append(rows.select(**filled | {"question_id": "question_id"} | said, **names))
    return pl.concat(frames)


def _board(scores: pl.DataFrame, cells: list[dict[str, Any]]) -> pl.DataFrame:
    """Return rows as wide as those of a leaderboard, their tests by a rule of thumb."""
    value = pl.col("value")
    means = scores.group_by("cell", "metric", maintain_order=True).agg(
        value=value.mean(), n=pl.len(), coverage=value.is_not_null().mean(), sd=value.std()
    )
    primary = METRICS[0].name
    first = means.filter(pl.col("metric") == primary).sort("value", descending=True)
    ranks = first.with_row_index("rank", 1).select("cell", "rank")
    leader = str(first["cell"][0])
    led = means.filter(pl.col("cell") == leader).select("metric", led="value")
    half = 1.96 * pl.col("sd") / pl.col("n").sqrt()
    found = (
        means.join(pl.DataFrame(cells), on="cell")
        .join(ranks, on="cell")
        .join(led, on="metric")
        .with_columns(
            study=pl.lit(STUDY),
            subset=pl.lit("all"),
            cell_id=pl.col("cell"),
            low=value - half,
            high=value + half,
            worst=value - 0.01,
            best=value + 0.01,
            leader=pl.lit(leader),
            difference=value - pl.col("led"),
            tied=(value - pl.col("led")).abs() < half,
            p=pl.lit(0.04),
            coverage=pl.lit(1.0),
            answered=pl.lit(1.0),
            replicates=pl.lit(1),
            tie_group=pl.col("rank") // 10 + 1,
            p_best=1 / pl.col("rank") / 6,
        )
    )
    missing = [
        pl.lit(None, kind).alias(name) for name, kind in LEADERBOARD.items() if name not in found.columns
    ]
    return found.with_columns(*missing).select(pl.col(name).cast(kind) for name, kind in LEADERBOARD.items())


def _people(size: Size, cells: list[dict[str, Any]], draw: np.random.Generator) -> ScoresOfPeople:
    keys = [one["cell"] for one in cells]
    rows = _cross(size, keys, "cell")
    drawn = pl.Series(draw.permutation(len(rows)) < size.scored)
    value = pl.Series(draw.choice([0.0, 3.0, 5.0], len(rows)))
    values = rows.with_columns(
        rubric=pl.lit("points"),
        criterion=pl.lit(None, pl.String),
        value=pl.when(drawn).then(value),
        annotators=pl.when(drawn).then(2).otherwise(0),
        low=pl.when(drawn).then(value * 0.6),
        high=pl.when(drawn).then(value),
        skipped=pl.lit(0),
        item_id=pl.concat_str("cell", "question_id"),
        probability=pl.lit(size.scored / len(rows)),
    ).cast(ANNOTATIONS)
    scored = values.filter(pl.col("value").is_not_null())
    filled: dict[str, Any] = {name: pl.lit(None, kind) for name, kind in HUMAN_SCORES.items()}
    scores = [
        scored.with_columns(
            **filled
            | {
                "score_id": pl.concat_str("item_id", pl.lit(who)),
                "study": pl.lit(STUDY),
                "annotator": pl.lit(who),
                "item_id": "item_id",
                "rubric": "rubric",
                "value": "value",
                "status": pl.lit("ok"),
                "showing": pl.lit(1, pl.Int64),
                "position": pl.int_range(1, pl.len() + 1),
                "seconds": pl.lit(30.0),
                "comment": pl.lit("it says half of it"),
                "scored_at": pl.lit(datetime(2026, 11, 2, tzinfo=UTC)),
            }
        ).select(*HUMAN_SCORES)
        for who in ("ada", "ben")
    ]
    places = pl.DataFrame([{"key": one["cell"], "replicate": 1, **one} for one in cells]).select(*CELLS)
    agreement = pl.DataFrame(schema=AGREEMENT)
    return ScoresOfPeople(
        {"points": Points()},
        places,
        values.select(*ANNOTATIONS),
        pl.concat(scores),
        agreement,
        {},
        "assay annotate",
    )
