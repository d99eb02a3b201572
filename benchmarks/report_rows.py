"""The tables of a study that never ran, each by itself (see `benchmarks.report_data`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from rag_assay.evals.question_sets.losses import Loss
from rag_assay.evals.reporting.data import MetricInfo
from rag_assay.warehouse.schemas import ANSWERS, HITS, JUDGEMENTS, QUESTIONS, SCORES

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


class Texts:
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


def documents_of(size: Size, texts: Texts) -> pl.DataFrame:
    """Return doc_id, url, title and text."""
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


def gold_of(size: Size) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the document and the place of each question's evidence."""
    at = np.arange(size.questions)
    return at * 7 % size.documents, at * 131 % (LENGTH - 400)


def questions_of(
    size: Size, texts: Texts, draw: np.random.Generator, documents: pl.DataFrame
) -> pl.DataFrame:
    """Return questions (schemas.QUESTIONS) with a piece of evidence each."""
    lengths = draw.integers(50, 160, size.questions)
    asked, truths = texts.texts(lengths), texts.texts(lengths * 2)
    of, starts = gold_of(size)
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


def cross(size: Size, names: list[str], column: str) -> pl.DataFrame:
    """Return a row for each name and question."""
    asked = [f"q{at:04}" for at in range(size.questions)]
    return pl.DataFrame({column: names}).join(pl.DataFrame({"question_id": asked}), how="cross")


def hits_of(size: Size, rankings: list[str], draw: np.random.Generator) -> pl.DataFrame:
    """Draw hits: rankings of a question share 20 documents, and the places where they are cut."""
    asked, k = size.questions, size.hits
    of, starts = gold_of(size)
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
    return pl.concat(frames).cast(pl.Schema({**HITS, "ranking": pl.String}))


def ranked_of(size: Size, rankings: list[str], draw: np.random.Generator) -> pl.DataFrame:
    """Return how each ranking ended, by question."""
    rows = cross(size, rankings, "ranking")
    return rows.with_columns(
        status=pl.lit("ok"),
        reason=pl.lit(None, pl.String),
        seconds=pl.Series(draw.random(len(rows))),
        n_hits=pl.lit(size.hits),
    )


def losses_of(size: Size, rankings: list[str], draw: np.random.Generator) -> pl.DataFrame:
    """Return where evidence was lost: nowhere for half of it."""
    rows = cross(size, rankings, "ranking")
    kinds = np.array([*(str(one) for one in Loss), *[""] * 12])
    at = pl.Series("lost_at", kinds[draw.integers(0, len(kinds), len(rows))])
    lost = pl.when(pl.col("lost_at") != "").then("lost_at")
    found = pl.Series(draw.integers(1, 11, len(rows)))
    return rows.with_columns(
        at, pl.lit(0).alias("evidence"), url=pl.lit("https://example.org/"), step=pl.lit("fuse")
    ).with_columns(lost_at=lost, found_at=pl.when(lost.is_null()).then(found))


def answers_of(
    size: Size, cells: list[dict[str, Any]], texts: Texts, draw: np.random.Generator
) -> pl.DataFrame:
    """Return answers (schemas.ANSWERS) with `cell` and `replicate`."""
    rows = cross(size, [one["cell"] for one in cells], "cell")
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


def scores_of(size: Size, cells: list[dict[str, Any]], draw: np.random.Generator) -> pl.DataFrame:
    """Return scores (schemas.SCORES) with `cell` and `replicate`: harder questions, better cells."""
    rows = cross(size, [one["cell"] for one in cells], "cell")
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


def judgements_of(
    size: Size, cells: list[dict[str, Any]], texts: Texts, draw: np.random.Generator
) -> pl.DataFrame:
    """Return judgements (schemas.JUDGEMENTS) with `cell`, `cell_replicate` and `judge`."""
    rows = cross(size, [one["cell"] for one in cells], "cell")
    n = len(rows)
    filled: dict[str, Any] = {name: pl.lit(None, kind) for name, kind in JUDGEMENTS.items()}
    frames = []
    for metric in JUDGED:
        said: dict[str, Any] = {
            "metric": pl.lit(metric),
            "replicate": pl.lit(1, pl.Int64),
            "status": pl.lit("ok"),
            "value": pl.Series(np.round(draw.random(n) * 4) / 4),
            "reason": pl.Series(texts.texts(draw.integers(60, 200, n))),
        }
        names: dict[str, Any] = {
            "cell": "cell",
            "cell_replicate": pl.lit(1, pl.Int64),
            "judge": pl.lit("model"),
        }
        frames.append(rows.select(**filled | {"question_id": "question_id"} | said, **names))
    return pl.concat(frames)
