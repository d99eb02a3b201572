"""The schemas of stored tables (column -> polars type); beside them the statuses that they hold."""

from __future__ import annotations

import inspect
import re
from functools import cache
from typing import TypeAlias

import polars as pl

from rag_assay.warehouse import schemas
from rag_assay.warehouse.status import MIN_COVERAGE, RETRYABLE, Status

_BEGIN = re.compile(r"(\w+): Schema = \{")
_COLUMN = re.compile(r'    "(\w+)": .*?,\s+# (.+)')


def notes_of(schema: Schema) -> dict[str, str]:
    """Return column -> the comment on its line, of a schema of the warehouse; of another schema nothing.

    >>> from rag_assay.warehouse.schemas import CHUNKS
    >>> notes_of(CHUNKS)["words"] if "words" in notes_of(CHUNKS) else notes_of(CHUNKS)["page"]
    'of the file, from 1; NULL for what has no pages'
    """
    notes = _notes()
    return next((notes[name] for name in notes if getattr(schemas, name) is schema), {})


@cache
def _notes() -> dict[str, dict[str, str]]:
    """Return schema -> column -> comment, by the text of `schemas`; nothing where it has no text."""
    try:
        lines = inspect.getsource(schemas).splitlines()
    except OSError:
        return {}
    found: dict[str, dict[str, str]] = {}
    notes: dict[str, str] = {}
    for line in lines:
        if begin := _BEGIN.fullmatch(line):
            notes = found.setdefault(begin[1], {})
        elif column := _COLUMN.fullmatch(line):
            notes[column[1]] = column[2]
    return found


__all__ = ["MIN_COVERAGE", "RETRYABLE", "Status"]  # read with the tables that hold them

Schema: TypeAlias = dict[str, pl.DataType | type[pl.DataType]]

UTC_TIME = pl.Datetime("us", "UTC")

PAGES: Schema = {
    "url": pl.String,  # after redirects
    "requested_url": pl.String,
    "status": pl.Int64,  # HTTP status; NULL when there was no answer or the page is a file
    "content_type": pl.String,
    "etag": pl.String,
    "last_modified": pl.String,
    "fetched_at": UTC_TIME,
    "sha256": pl.String,  # NULL when nothing was stored; `reason` says why
    "size": pl.Int64,  # bytes
    "fields": pl.String,  # JSON object: what the spider or reader knows of the page (title, celex, id …)
    "reason": pl.String,
    "gone_at": UTC_TIME,  # since when the source serves or holds it no longer; NULL while it does
}

SECTION = pl.Struct({"heading": pl.String, "level": pl.Int64, "start": pl.Int64, "end": pl.Int64})

DOCUMENTS: Schema = {
    "doc_id": pl.String,
    "version": pl.String,  # digest of all that a reader of the document can see
    "source": pl.String,
    "url": pl.String,
    "title": pl.String,
    "text": pl.String,
    "language": pl.String,
    "published_at": pl.String,  # ISO 8601 date or time, as precise as the page says
    "authors": pl.List(pl.String),
    "keywords": pl.List(pl.String),
    "sections": pl.List(SECTION),  # offsets in characters: text[start:end]
    "metadata": pl.String,  # JSON object
    "page_sha256": pl.String,
    "page_key": pl.String,  # digest of all that the document follows from; the same key needs no new cleaning
}

DROPPED: Schema = {
    "source": pl.String,
    "url": pl.String,
    "reason": pl.String,
    "page_key": pl.String,  # NULL: to be looked at again
}

VERSIONS: Schema = {
    "doc_id": pl.String,
    "version": pl.String,
    "url": pl.String,
    "title": pl.String,
    "text_sha256": pl.String,
    "valid_from": UTC_TIME,  # when the page that brought it was fetched
    "valid_to": UTC_TIME,  # when it was replaced or found gone; NULL for the current version
    "gone": pl.Boolean,  # it ended because the source has no such document any longer
}

DUPLICATES: Schema = {
    "doc_id": pl.String,
    "duplicate_of": pl.String,  # the first copy, which is never a duplicate itself
    "similarity": pl.Float64,  # Jaccard of the word 5-grams; 1.0 for equal normalised texts
    "exact": pl.Boolean,
}

CHUNKS: Schema = {
    "chunk_id": pl.String,
    "doc_id": pl.String,
    "doc_version": pl.String,
    "ordinal": pl.Int64,  # position in its document, from 0
    "start": pl.Int64,  # characters: document.text[start:end] == text
    "end": pl.Int64,
    "text": pl.String,
    "gap": pl.String,  # white space between it and the next chunk; empty where they touch or overlap
    "context_start": pl.Int64,  # the stretch that is delivered where the chunk is found: it holds the chunk
    "context_end": pl.Int64,
    "prefix": pl.String,  # stands before the text when it is embedded
    "n_tokens": pl.Int64,  # of prefix and text, without the model's special tokens
    "heading_path": pl.List(pl.String),
    "n_chunks": pl.Int64,  # of its document
    "position": pl.Float64,  # in its document, from 0 (first chunk) to 1 (last)
    "words": pl.Int64,
    "characters": pl.Int64,
    "tags": pl.List(pl.String),  # keywords of the document that stand in the text
    "n_tags": pl.Int64,
    "content_hash": pl.String,  # of text, title and URL
    "page": pl.Int64,  # of the file, from 1; NULL for what has no pages
    "title": pl.String,
    "url": pl.String,
    "published_at": pl.String,
    "language": pl.String,
    "keywords": pl.List(pl.String),
}

EMBEDDINGS: Schema = {
    "chunk_id": pl.String,  # in the order of the chunks; beside it `vector`, an array of floats
    "title_similarity": pl.Float32,  # cosine of the chunk and its document's title; NULL: no title, not asked
    "tags_similarity": pl.Float32,  # … and its document's keywords, joined by commas
}

ENRICHMENTS: Schema = {
    "doc_id": pl.String,
    "chunk_id": pl.String,  # NULL: of the whole document
    "kind": pl.String,  # summary | question
    "ordinal": pl.Int64,  # among the questions of a chunk, from 0
    "text": pl.String,  # NULL when the call gave nothing usable
    "status": pl.String,
    "reason": pl.String,
    "prompt_tokens": pl.Int64,  # of the call, on its first row
    "completion_tokens": pl.Int64,
    "usd": pl.Float64,
    "cached": pl.Boolean,
}

EVIDENCE = pl.Struct(
    {
        "doc_id": pl.String,  # NULL: no such document
        "url": pl.String,
        "quote": pl.String,  # NULL: the whole document is the evidence (BEIR)
        "start": pl.Int64,
        "end": pl.Int64,
        "grade": pl.Int64,  # >= 1
        "reason": pl.String,  # why it was not found; NULL when it was
        "similarity": pl.Float64,  # of quote and place, 1 word for word; NULL: no quote, or not found
    }
)

QUESTIONS: Schema = {
    "question_id": pl.String,
    "question_set": pl.String,
    "type": pl.String,
    "language": pl.String,
    "question": pl.String,
    "ground_truth": pl.String,
    "answerable": pl.Boolean,
    "needs": pl.String,  # all | any
    "gold": pl.String,  # spans | documents | none
    "time_from": pl.String,
    "time_to": pl.String,
    "asked_at": pl.String,  # ISO 8601 date on which it is asked; NULL: any day
    "conversation": pl.List(pl.String),  # what was said before it, oldest first, question and answer by turns
    "evidence": pl.List(EVIDENCE),
}

HITS: Schema = {
    "question_id": pl.String,
    "rank": pl.Int64,  # from 1
    "chunk_id": pl.String,
    "doc_id": pl.String,
    "start": pl.Int64,
    "end": pl.Int64,
    "score": pl.Float64,
}

RANKED: Schema = {
    "question_id": pl.String,
    "status": pl.String,
    "reason": pl.String,
    "seconds": pl.Float64,  # wall time of this question alone, its query embedding included
    "n_hits": pl.Int64,
}

TRACES: Schema = {
    "question_id": pl.String,
    "step": pl.String,  # with those around it: chain steps and arms in the order in which they were taken
    "kind": pl.String,  # arm | fuse | rerank | filter | cut | deliver | budget
    "chunk_ids": pl.List(pl.String),  # the first candidates after it, best first; as many as the study keeps
}

LOSSES: Schema = {
    "question_id": pl.String,
    "evidence": pl.Int64,  # place in the question's list of evidence, from 0
    "url": pl.String,
    "lost_at": pl.String,  # evals.question_sets.losses.Loss; NULL when what was delivered holds it
    "step": pl.String,  # the step that lost it; NULL where no step did
    "found_at": pl.Int64,  # how many of the delivered passages hold all of it, from 1; NULL when they do not
}

NOTES: Schema = {
    "question_id": pl.String,
    "kind": pl.String,  # the step of understanding that says it
    "question": pl.String,  # as the step was given it, shortened
    "status": pl.String,  # relaxed | empty | not_a_date | unknown | how a model's call ended (Status)
    "reason": pl.String,
    "raw": pl.String,  # what a model said that was of no use, shortened; all of it is in the cache of calls
}

CITATION = pl.Struct(
    {
        "marker": pl.Int64,  # as it is written in the answer: [1]
        "sentence": pl.Int64,  # of the answer, from 0; NULL: in a list of sources
        "chunk_id": pl.String,  # NULL: the marker points nowhere
        "doc_id": pl.String,
        "url": pl.String,  # of an act of EUR-Lex its official page
        "section": pl.List(pl.String),  # headings, outermost first
        "start": pl.Int64,
        "end": pl.Int64,
    }
)

CUT = pl.Struct({"chunk_id": pl.String, "kept": pl.Int64})  # characters that the model was given; 0: none

BIN = pl.Struct(
    {
        "text": pl.String,
        "chunk_ids": pl.List(pl.String),
        "status": pl.String,
        "reason": pl.String,
        "answer": pl.String,
    }
)

ATTEMPT = pl.Struct(
    {
        "query": pl.String,
        "chunk_ids": pl.List(pl.String),
        "sufficient": pl.Boolean,  # NULL: not asked, or nothing usable was said
        "reason": pl.String,
    }
)

ANSWERS: Schema = {
    "question_id": pl.String,
    "status": pl.String,
    "reason": pl.String,
    "answer": pl.String,
    "raw": pl.String,  # what the generator gave back, untouched
    "chunk_ids": pl.List(pl.String),  # the context that it was given
    "seconds": pl.Float64,  # of the call that computed it, also when it now comes from the cache
    "prompt_tokens": pl.Int64,
    "completion_tokens": pl.Int64,
    "usd": pl.Float64,
    "cached": pl.Boolean,
    "model": pl.String,  # that answered; NULL where none did, and in answers of earlier versions
    "citations": pl.List(CITATION),
    "cuts": pl.List(CUT),  # passages that the model was not given as a whole
    "bins": pl.List(BIN),  # parts of the context that were answered one by one
    "attempts": pl.List(ATTEMPT),  # looks for passages, where there was more than one to be had
    "confidence": pl.Float64,  # of no scale, higher is surer; NULL where nothing says
    "turns_left_out": pl.Int64,  # of the conversation, which the model was not given for want of room
}

SCORES: Schema = {
    "question_id": pl.String,
    "metric": pl.String,
    "status": pl.String,
    "value": pl.Float64,
    "reason": pl.String,
}

STATEMENT = pl.Struct(
    {
        "of": pl.String,  # where it is from: answer | ground_truth | passage 2 …
        "text": pl.String,
        "verdict": pl.String,  # the judge's word for it
        "value": pl.Float64,  # what it counts; NULL where it does not count by itself
        "reason": pl.String,
    }
)

JUDGEMENTS: Schema = {
    "question_id": pl.String,
    "metric": pl.String,  # the judge's own name for it, without the judge: faithfulness
    "replicate": pl.Int64,  # of the judge, from 1
    "status": pl.String,
    "value": pl.Float64,
    "reason": pl.String,
    "raw": pl.String,
    "statements": pl.List(STATEMENT),
    "seconds": pl.Float64,  # and what follows: of the calls for this metric; shared ones stand at the first
    "prompt_tokens": pl.Int64,
    "completion_tokens": pl.Int64,
    "usd": pl.Float64,
    "cached": pl.Boolean,
    "calls": pl.Int64,
    "model": pl.String,  # that answered
    "case_id": pl.String,  # digest of all that the judge read: equal cases have equal ones
}

JUDGE_CARDS: Schema = {
    "study": pl.String,
    "judge": pl.String,  # its name in the study
    "metric": pl.String,  # the judge's own name for it; NULL: of the judge as a whole
    "measure": pl.String,  # parse_rate | flip_rate | auc | kappa | tau | caught | position_bias …
    "slice": pl.String,  # what of: a kind of mutation; NULL: all
    "value": pl.Float64,  # NULL: could not be measured, and `reason` says why
    "low": pl.Float64,  # 95 % interval; NULL where there is none
    "high": pl.Float64,
    "n": pl.Int64,  # of what: judgements, pairs, mutated answers
    "reason": pl.String,
}

JUDGE_TRIALS: Schema = {
    "trial": pl.String,  # the question id of its judgements
    "role": pl.String,  # original | labelled | worse | same | order
    "kind": pl.String,  # of the mutation
    "of": pl.String,  # the trial that was changed
    "note": pl.String,  # what was changed; where a labelled case is from
    "question": pl.String,
    "answer": pl.String,
    # value: on the scale of the labels, from the worst (0) to the best (1)
    "labels": pl.List(pl.Struct({"metric": pl.String, "value": pl.Float64, "good": pl.Boolean})),
}

LEADERBOARD: Schema = {
    "study": pl.String,
    "subset": pl.String,  # all | sample of N: cells are compared on the same questions only
    "cell": pl.String,
    "cell_id": pl.String,
    "chunking": pl.String,
    "embedder": pl.String,
    "retriever": pl.String,
    "generator": pl.String,
    "metric": pl.String,
    "value": pl.Float64,  # mean over the questions that have a value: the mean over their replicates
    "n": pl.Int64,  # questions that the metric applies to: the same in every cell of the subset
    "coverage": pl.Float64,  # share of them that have a value, in each replicate
    "low": pl.Float64,  # 95 % interval
    "high": pl.Float64,
    "worst": pl.Float64,  # the mean if every missing value were the metric's worst …
    "best": pl.Float64,  # … or best possible one; NULL for metrics without bounds
    "rank": pl.Int64,  # by the study's first metric; NULL below a coverage of 98 %
    "leader": pl.String,  # the cell that leads the subset by the study's first metric; NULL if none is ranked
    "difference": pl.Float64,  # mean of value - leader's value over the questions of both, if compared
    "difference_low": pl.Float64,  # its interval (evals.statistics.significance)
    "difference_high": pl.Float64,
    "p": pl.Float64,  # of the difference, adjusted for the comparisons of this subset and metric
    # not significantly different from the leader in this metric, or within the margin; NULL if not compared
    "tied": pl.Boolean,
    "within_margin": pl.Boolean,  # the difference is shown to be smaller than the margin
    "answered": pl.Float64,  # share of the questions that its generator answered or refused; NULL without one
    "replicates": pl.Int64,  # how often the cell was asked; its values are means over them; NULL before: once
    "replicate_low": pl.Float64,  # the smallest mean of a replicate, over the questions of which each has a
    "replicate_high": pl.Float64,  # value, and the largest; NULL where the cell was asked once
    "detectable": pl.Float64,  # the smallest true difference that would be found four times out of five
    "questions_needed": pl.Int64,  # to find this difference so often, if it is what it seems; NULL if found
    "tie_group": pl.Int64,  # by the study's first metric, from 1: what is tied with the first cell of it
    "p_best": pl.Float64,  # chance of being the best cell by the study's first metric (statistics.posterior)
    "expected_loss": pl.Float64,  # of the cell with the best mean of this metric, less this cell, on further
    "p_loss": pl.Float64,  # questions; chance that this loss is above the margin
    "bound": pl.Float64,  # lower bound of its mean less the best other one's, 95 % for all cells at once
    "clusters": pl.Int64,  # of questions that are drawn together; n where each stands for itself
    "question_sd": pl.Float64,  # between questions, of what is expected of them …
    "replicate_sd": pl.Float64,  # … and between replicates of a question; NULL where the cell was asked once
}

CALLS: Schema = {
    "call_id": pl.String,  # cache key: digest of model digest, messages and parameters
    "model": pl.String,
    "status": pl.String,
    "reason": pl.String,
    "request": pl.String,
    "response": pl.String,
    "prompt_tokens": pl.Int64,
    "completion_tokens": pl.Int64,
    "seconds": pl.Float64,
    "usd": pl.Float64,
    "created_at": UTC_TIME,
    "purpose": pl.String,  # answers | understanding | enrich …: what it was paid for; NULL before it was kept
    "study": pl.String,
    "cell": pl.String,  # key of what was built by it: a cell, a ranking, the chunks of a corpus, a source
    "question": pl.String,  # id; NULL where it was for none
    "queued": pl.Float64,  # seconds that it waited for its turn
    "retries": pl.Int64,  # attempts after the first one
}

CRAWLS: Schema = {
    "crawl_id": pl.String,
    "source": pl.String,
    "started_at": UTC_TIME,
    "ended_at": UTC_TIME,
    "outcome": pl.String,  # finished, or the limit or signal that ended it
    "requests": pl.Int64,
    "bytes": pl.Int64,
    "new": pl.Int64,
    "changed": pl.Int64,
    "unchanged": pl.Int64,
    "gone": pl.Int64,  # pages that the source had before and has no longer
    "failed": pl.String,  # JSON object: reason -> count
}


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
    "tied": pl.List(pl.String),  # cells that are not worse than the leader, best first
    "within_margin": pl.List(pl.String),  # those of them that are shown to differ by less than the margin
    "worse": pl.List(pl.String),  # cells that are
    "unranked": pl.List(pl.String),  # cells without a rank: coverage below 98 %
    "detectable": pl.Float64,  # the smallest true difference that would be found four times out of five
    "documents_needed": pl.Int64,  # about so many would settle the median open comparison; NULL: out of reach
    "reason": pl.String,  # why no cell is recommended
    "sentences": pl.List(pl.String),  # the verdict in words, the decision first
}


HUMAN_SCORES: Schema = {
    "score_id": pl.String,  # of this row alone
    "study": pl.String,
    "annotator": pl.String,
    "item_id": pl.String,  # digest of what was shown: question, answer, passages
    "rubric": pl.String,  # its name in the study
    "rubric_version": pl.String,  # digest of its wording
    "criterion": pl.String,  # NULL: the rubric has one alone
    "value": pl.Float64,  # in the rubric's own scale; NULL unless the status is ok
    "status": pl.String,  # ok | withdrawn | skipped
    "comment": pl.String,
    "seconds": pl.Float64,  # that the item was looked at
    "showing": pl.Int64,  # 1, or 2 for a hidden repeat
    "position": pl.Int64,  # in the annotator's order, from 1
    "queue_version": pl.String,  # NULL: it is of no queue
    "cell": pl.String,  # key of the one cell (and replicate) that it is of; NULL: of all with the item
    "question_id": pl.String,
    "scored_at": UTC_TIME,
    "place": pl.String,  # page | FILE:LINE
}
"""Human ratings, a row each; corrections are later rows (warehouse.human_scores)."""

ANNOTATIONS: Schema = {
    "cell": pl.String,  # key of the cell, its replicate included
    "question_id": pl.String,
    "rubric": pl.String,
    "criterion": pl.String,
    "value": pl.Float64,  # mean over annotators of the mean over their showings; NULL: there is none
    "annotators": pl.Int64,  # that gave a value
    "low": pl.Float64,  # smallest and largest value that an annotator gave
    "high": pl.Float64,
    "skipped": pl.Int64,  # annotators that looked at it and could not say
    "item_id": pl.String,  # NULL: there are no human ratings yet, or two answers that are compared are equal
    "probability": pl.Float64,  # with which the item was drawn into the queue; NULL: it was not drawn
}
"""Human ratings in summary, a row for each (cell, question, rubric, criterion)."""

REJECTED_SCORES: Schema = {
    "place": pl.String,  # where the score is from; of a line that is none, the file and its number
    "annotator": pl.String,
    "score_id": pl.String,
    "rubric": pl.String,
    "reason": pl.String,
}
"""Human ratings that match nothing in the current study: kept, and not counted."""

IMPORTED: Schema = {
    "line": pl.Int64,  # of the spreadsheet, from 1, its header included
    "question_id": pl.String,
    "question": pl.String,
    "language": pl.String,
    "ground_truth": pl.String,
    "answer": pl.String,  # NULL: nothing was answered and nothing is scored; "": the model wrote nothing
    "contexts": pl.List(pl.String),  # best first
    "chunking": pl.String,  # names of the axes, as keys can hold them
    "embedder": pl.String,
    "retriever": pl.String,
    "generator": pl.String,
    "replicate": pl.Int64,  # of the (cell, question), from 1, in the order of the lines
    "axes": pl.String,  # JSON object: what the spreadsheet itself says for the names
    "annotator": pl.String,
    "scores": pl.List(pl.Struct({"rubric": pl.String, "criterion": pl.String, "value": pl.Float64})),
    "comment": pl.String,
    "scored_at": UTC_TIME,  # NULL: the spreadsheet does not say
}
"""Rows of a spreadsheet with questions, answers and scores of its own (evals.spreadsheet_import)."""

AGREEMENT: Schema = {
    "measure": pl.String,  # evals.judge_calibration.agreement.MEASURES
    "rubric": pl.String,
    "criterion": pl.String,
    "annotator": pl.String,  # NULL: of all of them
    "other": pl.String,  # the second of a pair
    "value": pl.Float64,  # NULL: there is none, and the reason says why
    "low": pl.Float64,  # 95 % interval
    "high": pl.Float64,
    "n": pl.Int64,  # items, pairs of scores or scores that it is of
    "reason": pl.String,
}
"""Agreement of the annotators of a study, and habits of each, a row a measure."""

HUMAN_ESTIMATES: Schema = {
    "study": pl.String,
    "cell": pl.String,  # its replicates together; NULL: all cells
    "rubric": pl.String,
    "criterion": pl.String,
    "metric": pl.String,  # of the study, whose values are the judgements
    "people": pl.Float64,  # mean of the human ratings alone; NULL: there are none
    "people_low": pl.Float64,  # 95 % intervals; NULL where there is none
    "people_high": pl.Float64,
    "judged": pl.Float64,  # mean of the judgements alone, their range stretched to that of the rubric
    "judged_low": pl.Float64,
    "judged_high": pl.Float64,
    "combined": pl.Float64,  # estimate of people's mean from their scores and the judgements
    "combined_low": pl.Float64,
    "combined_high": pl.Float64,
    "items": pl.Int64,  # answers that could be scored
    "labels": pl.Int64,  # of them scored by people
    "judgements": pl.Int64,  # of them judged
    "left_out": pl.Int64,  # scored, but not drawn by the queue that others were drawn by
    "share": pl.Float64,  # how far the judgements count, 0 to 1, in standard deviations
    "saved": pl.Float64,  # labels that people alone would need more for as small an error
    "width": pl.Float64,  # of the combined interval, as a share of people's
    "wanted": pl.Float64,  # half width of an interval, in the rubric's scale
    "labels_needed": pl.Int64,  # for that with the judge, all counted; NULL: all items would not do
    "leader": pl.String,  # the cell with the highest combined estimate
    "difference": pl.Float64,  # combined estimate less the leader's
    "difference_low": pl.Float64,  # 95 % intervals of all differences to the leader together
    "difference_high": pl.Float64,
    "reason": pl.String,  # why something is missing
}
"""Means of the human ratings, alone and with judgements (evals.statistics.prediction_powered)."""
