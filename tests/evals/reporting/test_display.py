"""What the formats, scales and small texts of a report give for single values."""

from __future__ import annotations

import math

import polars as pl

from rag_assay.evals.generation.contract import Bin
from rag_assay.evals.reporting import display
from rag_assay.evals.reporting.answers import AnswerSteps, cut_words, evidence_spans
from rag_assay.evals.reporting.charts import marks
from rag_assay.evals.reporting.contexts import price
from rag_assay.evals.reporting.data import MetricInfo
from rag_assay.evals.reporting.exports import trec_id
from rag_assay.evals.reporting.figures.heat import Effect, effect_sentence
from rag_assay.evals.reporting.figures.planes import cost_words
from rag_assay.evals.reporting.journey_rows import merged
from rag_assay.evals.reporting.markdown import markdown_table
from rag_assay.evals.reporting.rating_scores import written
from rag_assay.evals.reporting.retrieval_funnel import depth
from rag_assay.evals.reporting.sections import Column, Point, mark, plain_text
from rag_assay.evals.reporting.standings import LeaderboardCell
from rag_assay.evals.reporting.study_facts import command
from rag_assay.evals.reporting.texts import several, words_in
from rag_assay.evals.reporting.thresholds import MetricGate
from rag_assay.evals.rubrics.rubric import metric_name
from rag_assay.evals.word_lists import entries, numbered, table
from rag_assay.warehouse.status import Status

METRIC = MetricInfo("ndcg@5", "nDCG@5", "retrieval", True, (0, 1), "", "")
PAGES = {"p": ("{n} pages", "{n} Seiten"), "p_1": ("1 page", "1 Seite")}


def test_numbers_are_written_for_readers() -> None:
    assert [*map(display.with_sign, (0.0514, -0.2, None))] == ["+0.051", "−0.200", "–"]
    assert [*map(display.p_value, (0.04321, 5e-10, 1.0))] == ["p = 0.043", "p < 0.001", "p = 1.000"]
    assert [display.quantity(one, "s") for one in (0.25, None)] == ["0.250 s", "–"]
    ends = [display.interval(*one) for one in ((0.6, 0.75), (-0.1, 0.2), (None, 0.2))]
    assert ends == ["0.600–0.750", "−0.100 to 0.200", "–"]
    assert display.count(1234567) == "1\u202f234\u202f567"
    ratios = [*map(display.times, (61.23, 5234.3, 9.96, 1.04, 0.512, math.inf))]
    assert ratios == ["61", "5\u202f200", "10", "1.0", "0.51", "–"]
    assert [*map(price, (0.0, 2.0, 0.00123))] == ["0", "2.00", "0.0012"]
    assert [*map(written, (5.0, 0.5, -1.0))] == ["5", "0.5", "−1"]
    costs = [cost_words(*one) for one in ((0.01234, "US$"), (0.25, "s"), (1234.4, "tokens"))]
    assert costs == ["US$ 0.0123", "0.250 s", "1\u202f234 tokens"]


def test_names_and_lists_are_written_for_readers() -> None:
    assert [display.several(one, "cell") for one in (1, 3)] == ["1 cell", "3 cells"]
    left = display.left_out("the table holds them", cell=3, metric=1)
    assert left == "3 further cells and 1 further metric left out; the table holds them."
    assert not display.left_out("the table holds them", cell=0)
    assert [*map(display.listed, (["a", "b"], [*"abcde"]))] == ["a and b", "a, b and 3 more"]
    assert display.format_counts({"timeout": 1, "error": 12}) == "12 × error, 1 × timeout"
    assert display.truncate("abcdef", 4) == "abc…"
    assert str(display.breakable("bm25+dense")) == "bm25+<wbr>dense"
    assert sorted(["tokens-128", "tokens-64"], key=display.natural) == ["tokens-64", "tokens-128"]
    assert display.link_of('a/b "c" ü') == "#q=a%2Fb%20%22c%22%20%C3%BC"
    assert [*map(trec_id, ("a b%", "zwölf"))] == ["a%20b%25", "zwölf"]
    assert plain_text(mark("tied") + "0.5") == "≈ 0.5"
    assert markdown_table(["a"], [["x|y"]]) == "| a |\n| --- |\n| x\\|y |"
    cell = LeaderboardCell("c.t.e.r.g", "t", "e", "r", None)
    assert cell.label(["chunking", "retriever", "generator"]) == "t · r"
    assert command("demo", "a.b.c.d") == "assay run demo --cells a.b.c.d"
    assert [metric_name("points", None), metric_name("quality", "brevity")] == [
        "people.points",
        "people.quality.brevity",
    ]
    assert several(words_in(PAGES, "en"), "p", 1) == "1 page"
    assert words_in(PAGES, "de")("p", n=3) == "3 Seiten"
    assert entries("calendar", "last", "english") == ("last", "past", "previous")
    assert table("calendar", "units")["tag"] == "day"
    assert numbered("calendar", "months")["märz"] == 3


def test_sentences_about_single_facts() -> None:
    bins = (Bin("", (), Status.OK),) * 2
    steps = AnswerSteps(bins=bins, turns_left_out=1)
    assert steps.summary == "2 bins · 1 turn of the conversation left out"
    cut = cut_words([240, 0, 0])
    assert cut == "1 passage shortened and 2 passages left out to fit the context"
    moved = effect_sentence(Effect({"a": 0.2, "b": 0.5}, 3, 3), "chunking", "retriever", METRIC)
    assert moved == (
        "The chunking moves nDCG@5 by 0.300: from 0.200 (a) to 0.500 (b), each the mean over 3 retrievers."
    )
    assert depth(METRIC) == 5
    assert depth(MetricInfo("rouge_l", "", "answer", True, (0, 1), "", "")) == 10
    assert MetricGate("latency", 2.0, higher_is_better=False).holds(2.0)
    assert not MetricGate("mrr@10", 0.5).holds(0.499)
    part = [{"doc_id": "d", "quote": "q", "start": 90, "end": 110}]
    assert evidence_spans("d", 100, 200, part) == [(0, 10)]
    hits = pl.DataFrame({"doc_id": ["a", "a", "a"], "start": [0, 5, 20], "end": [10, 15, 30]})
    assert merged(hits).rows() == [("a", 0, 15), ("a", 20, 30)]


def test_scales_and_marks_of_charts() -> None:
    assert marks.finite([0.5, None, float("nan"), float("inf")]) == [0.5]
    assert marks.domain([0.4, 0.8], (0.0, 0.81)) == (0.38, 0.81)
    ranges = [marks.from_zero(one) for one in ([0.2, 0.7], [-0.5, 0.2], [0.0])]
    assert ranges == [(0.0, 0.7), (-0.5, 0.2), (0.0, 1.0)]
    assert [marks.cost_scale(one).logarithmic for one in ([0.001, 1.0], [1.0, 2.0])] == [True, False]
    assert marks.rounded(0.0, 1.0, 5) == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert marks.powers(0.001, 40) == [0.001, 0.01, 0.1, 1.0, 10.0]
    values = [marks.BarValue(0.5, 0.4, 1.0), marks.BarValue(None, why="not run")]
    figures = [(one.text, one.small, one.why) for (one,) in marks.column(Column("Recall"), values).rows]
    assert figures == [("0.500", ("0.400–1.000",), ""), ("–", (), "not run")]
    near = [Point(50, 50, "disc", "", 1), Point(51, 49, "disc", "", 2)]
    assert [one.label for one in marks.labelled(near)] == [(-17, -7), (8, -7)]
    across, up = marks.Scale(0, 1), marks.upward(marks.Scale(0, 1))
    assert marks.polyline([0.0, 0.5, 1.0], [0.0, 1.0, 1.0], across, up) == "0,100 50,0 100,0"
    levels = [(0.2, 0.2, 0.6, True), (0.4, 0.2, 0.6, True), (0.2, 0.2, 0.6, False), (1, 1, 1, True)]
    assert [marks.heat(*one) for one in levels] == [0, 4, 8, 4]
    assert str(marks.bar([1, 0, 2], 1)).count("<rect") == 3
    assert 'class="s8" x="0.0" y="0" width="30.0"' in marks.bar([1, 0, 2], 1)
