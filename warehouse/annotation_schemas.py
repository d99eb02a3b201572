"""The schemas of what people score, and of sheets that hold their scores."""

from __future__ import annotations

import polars as pl

from rag_assay.warehouse.schemas import UTC_TIME, Schema

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
"""What people said, a row a score; corrections are later rows (warehouse.human_scores)."""

ANNOTATIONS: Schema = {
    "cell": pl.String,  # key of the cell, its replicate included
    "question_id": pl.String,
    "rubric": pl.String,
    "criterion": pl.String,
    "value": pl.Float64,  # mean over annotators of the mean over their showings; NULL: nobody has scored it
    "annotators": pl.Int64,  # that gave a value
    "low": pl.Float64,  # smallest and largest value that an annotator gave
    "high": pl.Float64,
    "skipped": pl.Int64,  # annotators that looked at it and could not say
    "item_id": pl.String,  # NULL: nobody has scored anything yet, or two answers that are compared are equal
    "probability": pl.Float64,  # with which the item was drawn into the queue; NULL: it was not drawn
}
"""What the scores of people come to, a row for each (cell, question, rubric, criterion)."""

REJECTED_SCORES: Schema = {
    "place": pl.String,  # where the score is from; of a line that is none, the file and its number
    "annotator": pl.String,
    "score_id": pl.String,
    "rubric": pl.String,
    "reason": pl.String,
}
"""What people said and what fits nothing that a study has now; it is kept, and counts for nothing."""

IMPORTED: Schema = {
    "line": pl.Int64,  # of the sheet, from 1, its header included
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
    "axes": pl.String,  # JSON object: what the sheet itself says for the names
    "annotator": pl.String,
    "scores": pl.List(pl.Struct({"rubric": pl.String, "criterion": pl.String, "value": pl.Float64})),
    "comment": pl.String,
    "scored_at": UTC_TIME,  # NULL: the sheet does not say
}
"""Rows of a sheet with questions, answers and scores of its own (evals.spreadsheet_import)."""

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
"""How far the annotators of a study agree, and what each of them does, a row a measure."""

HUMAN_ESTIMATES: Schema = {
    "study": pl.String,
    "cell": pl.String,  # its replicates together; NULL: all cells
    "rubric": pl.String,
    "criterion": pl.String,
    "metric": pl.String,  # of the study, whose values are the judgements
    "people": pl.Float64,  # mean of people's scores alone; NULL: nobody has scored anything
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
"""Means of people's scores, by themselves and with judgements (evals.statistics.prediction_powered)."""
