"""Columns of the verdict: one row a study, stored with its leaderboard."""

from __future__ import annotations

import polars as pl

from rag_assay.warehouse.schemas import Schema

PICK = pl.Struct(
    {
        "cell": pl.String,
        "label": pl.String,  # by the axes on which the cells differ
        "rank": pl.Int64,
        "value": pl.Float64,  # mean of the metric, with its 95 % interval
        "low": pl.Float64,
        "high": pl.Float64,
        "coverage": pl.Float64,  # share of the questions with a value and, from a generator, an answer
        "p_best": pl.Float64,
        "expected_loss": pl.Float64,  # against the leader on further questions, in the metric's unit
        "p_loss": pl.Float64,  # chance of losing more than the margin against it
        "bound": pl.Float64,  # lower bound of its mean less the best other one's (LEADERBOARD)
        "usd_per_1000": pl.Float64,  # US dollars for 1,000 questions; NULL: not known
        "seconds": pl.Float64,  # median of a question; NULL: not known
    }
)

VERDICTS: Schema = {
    "study": pl.String,
    "subset": pl.String,  # all | sample of N
    "metric": pl.String,
    "title": pl.String,  # of the metric, for readers
    "unit": pl.String,
    "higher_is_better": pl.Boolean,
    "by": pl.String,  # metric of answers that decided between equal rankings; NULL: none had to
    "context": pl.String,  # tokens: compared in equally long contexts; passages: not, though chunks differ
    "margin": pl.Float64,  # a loss below it does not matter, in the metric's unit; NULL: none is stated
    "prefer": pl.String,  # quality | cost | latency | simplicity
    "questions": pl.Int64,
    "documents": pl.Int64,  # clusters of questions; the questions, where each is one of its own
    "clusters_by": pl.String,  # documents | ids | questions
    "generalises": pl.Boolean,  # whether there are enough clusters to say anything of further ones
    "cells": pl.Int64,
    "coverage": pl.Float64,  # the lowest of all cells
    "leader": PICK,  # NULL: no cell has a rank
    "recommended": PICK,
    "equivalent": pl.Boolean,  # recommended is shown to be less than the margin below the best
    "tied": pl.List(pl.String),  # cells that are not significantly worse than the leader, best first
    "worse": pl.List(pl.String),  # cells that are
    "unranked": pl.List(pl.String),  # cells without a rank: coverage below 98 %
    "detectable": pl.Float64,  # the smallest true difference that would be found four times out of five
    "documents_needed": pl.Int64,  # about so many would settle the median open comparison; NULL: out of reach
    "reason": pl.String,  # why no cell is recommended
    "sentences": pl.List(pl.String),  # the verdict in words, the decision first
}
