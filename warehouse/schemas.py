"""The schemas of stored tables (column -> polars type); beside them the statuses that they hold."""

from __future__ import annotations

from typing import TypeAlias

import polars as pl

from rag_assay.warehouse.status import MIN_COVERAGE, RETRYABLE, Status

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
    "valid_to": UTC_TIME,  # when it was replaced or found gone; NULL for the version of now
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
    "low": pl.Float64,  # bootstrap interval
    "high": pl.Float64,
    "worst": pl.Float64,  # the mean if every missing value were the metric's worst …
    "best": pl.Float64,  # … or best possible one; NULL for metrics without bounds
    "rank": pl.Int64,  # by the study's first metric; NULL below MIN_COVERAGE
    "leader": pl.String,  # the cell that leads the subset by the study's first metric; NULL if none is ranked
    "difference": pl.Float64,  # mean of value - leader's value over the questions of both, if compared
    "difference_low": pl.Float64,  # its interval (evals.statistics.significance)
    "difference_high": pl.Float64,
    "p": pl.Float64,  # of the difference, adjusted for the comparisons of this subset and metric
    "tied": pl.Boolean,  # not significantly different from the leader in this metric; NULL if not compared
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
