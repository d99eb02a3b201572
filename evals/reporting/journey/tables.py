"""The tables that the journeys of all questions are made of, with numbers in place of names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from rag_assay.evals.reporting import limits
from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.journey_rows import HITS_SHOWN, JourneyRows, merged
from rag_assay.warehouse.schemas import JUDGEMENTS, Schema


@dataclass(frozen=True, eq=False)
class JourneyTables:
    """Tables by name, each with `_question`, its place among the study's questions.

    count: of questions
    passages: schema PASSAGES
    """

    count: int
    frames: Mapping[str, pl.DataFrame]
    passages: pl.DataFrame

    def stretched(self, hits: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the stretches that some hits lie in, with texts, and the hits with the places of theirs."""
        own = merged(hits).with_row_index("stretch")
        whole = self.passages.rename({"start": "_start", "end": "_end"}).sort("_start")
        texts = own.sort("start").join_asof(
            whole, left_on="start", right_on="_start", by="doc_id", check_sortedness=False
        )
        held = [
            None if text is None or start >= last else text[start - first : end - first]
            for text, start, end, first, last in texts.select(
                "text", "start", "end", "_start", "_end"
            ).iter_rows()
        ]
        stretches = texts.with_columns(pl.Series("text", held, dtype=pl.String)).sort("stretch")
        within = (
            hits.with_row_index("_row")
            .sort("start")
            .join_asof(
                own.select("doc_id", "stretch", "start").sort("start"),
                on="start",
                by="doc_id",
                check_sortedness=False,
            )
            .sort("_row")
        )
        return (
            stretches.select("doc_id", "start", "text"),
            within.with_columns(pl.col("stretch").cast(pl.Int64)).drop("_row", "doc_id"),
        )


def tables_of(
    data: ReportData, rows: JourneyRows, runs: pl.DataFrame, rankings: Sequence[str]
) -> JourneyTables:
    """Return the tables of a study.

    runs: cells and replicates in the order of their numbers
    rankings: in the order of theirs
    """
    asked = data.questions.select("question_id").with_row_index("_question")
    asked = asked.with_columns(pl.col("_question").cast(pl.Int64))
    named = pl.DataFrame({"ranking": list(rankings)}, schema={"ranking": pl.String})
    of_rankings = named.with_row_index("_of").with_columns(_of=pl.col("_of").cast(pl.Int64))
    places = runs.select("cell", "replicate").with_row_index("run")
    places = places.with_columns(pl.col("run").cast(pl.Int64))

    def ranked(frame: pl.DataFrame, *by: str) -> pl.DataFrame:
        found = frame.join(asked, on="question_id").join(of_rankings, on="ranking")
        kept = found.drop("question_id", "ranking").rename({"_of": "ranking"})
        return kept.sort("_question", "ranking", *by)

    def run(frame: pl.DataFrame) -> pl.DataFrame:
        found = frame.join(asked, on="question_id").join(places, on=["cell", "replicate"])
        return found.drop("question_id", "cell", "replicate")

    judged, statements = _judged(data)
    hits = rows.hits.filter(pl.col("rank") <= HITS_SHOWN)
    frames = {
        "questions": _questions(data).join(asked, on="question_id"),
        "evidence": _evidence(data).join(asked, on="question_id").drop("question_id"),
        "hits": ranked(hits, "rank"),
        "taken": ranked(rows.taken, "rank", "order").drop("order"),
        "ended": ranked(rows.ended),
        "lost": ranked(rows.lost, "evidence"),
        "answers": run(_answers(data)),
        "citations": run(_citations(data)),
        "judgements": run(judged),
        "statements": run(statements),
        "people": run(_people(data)),
    }
    frames |= {"documents": _documents(frames["hits"], frames["evidence"], rows.documents)}
    return JourneyTables(data.questions.height, frames, rows.passages)


def _documents(hits: pl.DataFrame, evidence: pl.DataFrame, documents: pl.DataFrame) -> pl.DataFrame:
    """Return the documents that are named of each question."""
    named = pl.concat([hits.select("_question", "doc_id"), evidence.select("_question", "doc_id")])
    return named.unique(maintain_order=True).join(documents.unique("doc_id"), on="doc_id")


def _questions(data: ReportData) -> pl.DataFrame:
    said = (
        pl.col("conversation").list.join("\n") if "conversation" in data.questions.columns else pl.lit(None)
    )
    names = ("question_id", "ground_truth", "answerable", "needs", "asked_at")
    return data.questions.select(*names, conversation=said.cast(pl.String))


def _evidence(data: ReportData) -> pl.DataFrame:
    exploded = data.questions.select("question_id", "evidence").explode("evidence").drop_nulls("evidence")
    names = ("doc_id", "url", "quote", "start", "end", "reason")
    piece = pl.col("evidence").struct
    return exploded.select("question_id", *(piece.field(name) for name in names))


def _answers(data: ReportData) -> pl.DataFrame:
    names = (
        "status",
        "reason",
        "answer",
        "seconds",
        "prompt_tokens",
        "completion_tokens",
        "usd",
        "model",
        "confidence",
    )
    return data.answers.select("question_id", "cell", "replicate", *names)


def _citations(data: ReportData) -> pl.DataFrame:
    names = ("marker", "chunk_id", "doc_id", "start", "end", "url")
    exploded = data.answers.select("question_id", "cell", "replicate", "citations").explode("citations")
    one = pl.col("citations").struct
    found = exploded.drop_nulls("citations").select(
        "question_id", "cell", "replicate", *(one.field(name) for name in names)
    )
    return found.unique(["question_id", "cell", "replicate", "marker"], maintain_order=True)


def _judged(data: ReportData) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the judgements, numbered, and their statements with the number of theirs."""
    known = data.judgements if data.judgements is not None else pl.DataFrame(schema=_JUDGED)
    of: list[str | pl.Expr] = ["question_id", "cell", pl.col("cell_replicate").alias("replicate")]
    names = [
        pl.concat_str("judge", "metric", separator=".").alias("metric"),
        pl.col("replicate").alias("again"),
    ]
    numbered = known.with_row_index("number").with_columns(pl.col("number").cast(pl.Int64))
    judged = numbered.select(*of, *names, "number", "status", "value", "reason", "uncalibrated", "model")
    said = pl.col("statements")
    exploded = numbered.filter(said.list.len() > 0).with_columns(said.list.head(limits.STATEMENTS))
    exploded = exploded.select(*of, "number", "statements").explode("statements")
    parts = ("of", "text", "verdict", "value", "reason")
    return judged, exploded.select(
        "question_id", "cell", "replicate", "number", *(said.struct.field(name) for name in parts)
    )


_JUDGED: Schema = {
    **JUDGEMENTS,
    "cell": pl.String,
    "cell_replicate": pl.Int64,
    "judge": pl.String,
    "uncalibrated": pl.Boolean,
}


def _people(data: ReportData) -> pl.DataFrame:
    """Return every score that somebody gave to an answer, skipped ones among them."""
    if data.people is None:
        return pl.DataFrame(schema=_SAID)
    on = ["item_id", "rubric", "criterion"]
    given = data.people.scores.select(
        *on, "annotator", "value", "status", "comment", of="cell", asked="question_id"
    )
    items = data.people.values.select(*on, "question_id", key="cell")
    found = given.join(items, on=on, nulls_equal=True).filter(
        pl.col("of").is_null()
        | ((pl.col("of") == pl.col("key")) & (pl.col("asked") == pl.col("question_id")))
    )
    return found.join(data.people.cells.select("key", "cell", "replicate"), on="key").select(*_SAID)


_SAID: Schema = {
    "question_id": pl.String,
    "cell": pl.String,
    "replicate": pl.Int64,
    "annotator": pl.String,
    "rubric": pl.String,
    "criterion": pl.String,
    "value": pl.Float64,
    "status": pl.String,
    "comment": pl.String,
}
