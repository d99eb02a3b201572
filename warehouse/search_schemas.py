"""The columns of what a search left out of a study (`evals.successive_halving.records`)."""

from __future__ import annotations

import polars as pl

from rag_assay.warehouse.schemas import Schema

SEARCHES: Schema = {
    "study": pl.String,
    "method": pl.String,
    "cell": pl.String,
    "chunking": pl.String,
    "embedder": pl.String,
    "retriever": pl.String,
    "generator": pl.String,
    "rule": pl.String,  # kept | significance | budget | not_drawn | not_varied
    "reason": pl.String,  # in words
    "metric": pl.String,  # by which the cells raced; NULL where none did
    "rung": pl.Int64,  # after which it was dropped, from 1; NULL: it was not
    "rungs": pl.Int64,
    "asked": pl.Int64,  # questions that it was asked before it was dropped
    "questions": pl.Int64,  # that the study asks it
    "leader": pl.String,  # the cell that led when it was dropped
    "n": pl.Int64,  # questions on which both have a value
    "difference": pl.Float64,  # mean of its values less the leader's, in the metric's own direction
    "low": pl.Float64,  # 95 % interval
    "high": pl.Float64,
    "p": pl.Float64,  # the larger of two tests', adjusted for all cells of the look
    "level": pl.Float64,  # below which it had to be
}
"""Of each cell of the whole grid what became of it."""

SEARCH_VALUES: Schema = {
    "cell": pl.String,
    "question_id": pl.String,
    "rung": pl.Int64,
    "value": pl.Float64,  # the mean over its replicates that have one
}
"""By what the cells were compared."""
