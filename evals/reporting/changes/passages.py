"""Which passages differ between two results, and which changed documents are among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from rag_assay.evals.reporting.changes.documents import Change, DocumentChange
from rag_assay.evals.reporting.changes.sides import Side
from rag_assay.evals.reporting.display import truncate
from rag_assay.warehouse.identity import sha256_text

LONGEST = 400  # characters of a passage
_OF = ["ranking", "question_id"]
_IS = [*_OF, "doc", "words"]


def passage_changes(
    before: Side, after: Side, rankings: Mapping[str, str], documents: Sequence[DocumentChange]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the questions of each ranking whose passages, or whose order of them, differ.

    A passage is its text in its document, wherever that stands in it; a document that has moved is itself.

    Args:
        rankings: name of a ranking of the first result -> that of the second.
        documents: what differs between the documents of both.

    Returns:
        ranking (of the second), question_id, left and entered (how many passages), causes (ids of the changed
        documents that a passage left, entered, or changed its text in), effects (`left`, `entered` or
        `changed`, one a cause).
        Beside it the passages: ranking, question_id, rank, doc, how (`left` or `entered`), text.
    """
    moved = {one.before: one.doc_id for one in documents if one.change is Change.MOVED}
    wanted = pl.DataFrame(
        {"ranking": list(rankings), "other": list(rankings.values())},
        schema={"ranking": pl.String, "other": pl.String},
    )
    hits = before.hits.join(wanted, on="ranking").drop("ranking").rename({"other": "ranking"})
    old = _named(hits, _texts(before), moved)
    new = _named(after.hits.filter(pl.col("ranking").is_in(list(rankings.values()))), _texts(after), {})
    both = old.select(_OF).unique().join(new.select(_OF).unique(), on=_OF, how="full", coalesce=True)
    lists = [
        one.sort("rank").group_by(_OF).agg(pl.concat_str("doc", "words", separator=" ").alias(name))
        for one, name in ((old, "old"), (new, "new"))
    ]
    for one in lists:
        both = both.join(one, on=_OF, how="left")
    differing = both.filter(pl.col("old").ne_missing(pl.col("new"))).select(_OF)
    gone = old.join(new, on=_IS, how="anti").unique(_IS)
    come = new.join(old, on=_IS, how="anti").unique(_IS)
    causes = _causes(gone, come, {one.doc_id for one in documents})
    found = differing
    for one, name in ((gone, "left"), (come, "entered")):
        found = found.join(one.group_by(_OF).len(name), on=_OF, how="left")
    found = found.join(causes, on=_OF, how="left")
    empty = pl.lit([], pl.List(pl.String))
    found = found.with_columns(
        pl.col("left", "entered").fill_null(0).cast(pl.Int64),
        pl.col("causes", "effects").fill_null(empty),
    ).sort(_OF)
    columns = [*_OF, "rank", "doc", "text"]
    parts = [
        one.select(columns).with_columns(how=pl.lit(how)) for one, how in ((gone, "left"), (come, "entered"))
    ]
    passages: pl.DataFrame = pl.concat(parts)
    return found, passages.sort(*_OF, "how", "rank", descending=[False, False, True, False])


def _texts(side: Side) -> dict[str, str]:
    return dict(side.documents.documents.select("doc_id", "text").iter_rows())


def _named(hits: pl.DataFrame, texts: Mapping[str, str], moved: Mapping[str, str]) -> pl.DataFrame:
    """Add to hits which passage each is: a digest of its words, or its place where the text is gone."""
    spans = hits.select("doc_id", "start", "end").unique()
    found = [texts[doc][start:end] if doc in texts else None for doc, start, end in spans.iter_rows()]
    words = [
        f"{start}–{end}" if text is None else sha256_text(text)[:20]
        for text, start, end in zip(found, spans["start"], spans["end"], strict=True)
    ]
    known = spans.with_columns(
        pl.Series("words", words, pl.String),
        pl.Series("text", [None if text is None else truncate(text, LONGEST) for text in found], pl.String),
    )
    named = hits.join(known, on=["doc_id", "start", "end"])
    return named.with_columns(pl.col("doc_id").replace(dict(moved)).alias("doc"))


def _causes(gone: pl.DataFrame, come: pl.DataFrame, changed: set[str]) -> pl.DataFrame:
    """Return for each question the changed documents among the passages that left or entered."""
    those = [
        one.filter(pl.col("doc").is_in(list(changed)))
        .select(*_OF, "doc")
        .unique()
        .with_columns(how=pl.lit(how))
        for one, how in ((gone, "left"), (come, "entered"))
    ]
    by_document = pl.concat(those).group_by(*_OF, "doc").agg(pl.col("how").sort())
    effect = (
        pl.when(pl.col("how").list.len() > 1).then(pl.lit("changed")).otherwise(pl.col("how").list.first())
    )
    return (
        by_document.with_columns(effect.alias("effect"))
        .sort(*_OF, "doc")
        .group_by(_OF, maintain_order=True)
        .agg(pl.col("doc").alias("causes"), pl.col("effect").alias("effects"))
    )
