"""Limits on what the report shows, so that a large study stays a small file."""

from __future__ import annotations

LEADERBOARD_ROWS = 400
CHART_ROWS = 80
METRICS_ROWS = 30  # cells with all of their metrics
METRICS_COLUMNS = 10
FULL_SCORE_ROWS = 30  # chunkings
LATENCY_ROWS = 30  # generators
QUESTION_ROWS = 40  # questions x chunkings
QUESTION_COLUMNS = 12
PAIR_LEVELS = 16  # of each of two axes
PLANE_POINTS = 160  # of a plane, beside those on its front
ROC_CURVES = 6
ROC_POINTS = 12  # of a curve, in its table
STAGE_ROWS = 24
BEST_CELLS = 5  # columns of the tables by question type and set
FIRST_ROWS = 5  # of the leaderboard, beside the verdict
HARDEST_QUESTIONS = 20
HITS = 5
ANSWERS = 12  # of one question
BINS = 12  # of one answer
STATEMENTS = 8  # of one judgement
STATEMENT_CHARACTERS = 240
FAILURES = 80
EFFECT_GROUPS = 24  # of the questions, by type, language and set each, that axes are compared on
EFFECT_METRICS = 6  # columns of the tables of effects
HIT_CHARACTERS = 560
ANSWER_CHARACTERS = 360
BIN_CHARACTERS = 280
QUOTE_CHARACTERS = 600
REASON_CHARACTERS = 240
WORST = 10  # questions that are listed
DISPUTED = 10
UNFOUND = 8  # questions that no retriever finds
UNFOUND_CHARACTERS = 160
WHOLE_NAME = 24  # characters of a part's name that the leaderboard never breaks
PEOPLE_LEVELS = 40  # of an axis, by human ratings
PEOPLE_QUESTIONS = 40
PEOPLE_DISPUTED = 10
PEOPLE_COMMENTS = 20
PEOPLE_ANNOTATORS = 30
PEOPLE_PAIRS = 12  # of annotators, those that agree least
PEOPLE_HEAT = 40  # retrievers and chunkings of a heat map
PEOPLE_GENERATORS = 4  # that questions have means of
