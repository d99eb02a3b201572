"""The effects of axes in a report: recounted from its scores, in words, rows and on the page."""

from __future__ import annotations

import dataclasses
import json
from io import StringIO
from statistics import fmean
from typing import Any

import numpy as np
import polars as pl
import pytest
from rich.console import Console

from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.effects import (
    AxisTable,
    effect_rows,
    effect_words,
    effects,
    effects_words,
    pair_words,
)
from rag_assay.evals.reporting.figures.heat import effects_section
from rag_assay.evals.reporting.page import COLUMNS, json_rows, other_rows, render_html
from rag_assay.evals.reporting.sections import Table
from rag_assay.evals.reporting.terminal import leaderboard_table
from rag_assay.evals.statistics.question_clusters import Clustering
from tests.fakes.report_data import NDCG, SIMILARITY, report_data


@pytest.fixture(scope="module")
def data() -> ReportData:
    return report_data(n_questions=24)


def table(data: ReportData, axis: str) -> AxisTable:
    return next(one for one in effects(data).axes if one.axis == axis)


def recounted(data: ReportData, levels: dict[str, list[str]], metric: str) -> dict[str, float]:
    """Level -> mean over the questions of the means over its cells, where all levels have a value."""
    values: dict[tuple[str, str], float | None] = {
        (cell, question): value
        for cell, question, value in data.scores.filter(pl.col("metric") == metric)
        .select("cell", "question_id", "value")
        .iter_rows()
    }
    questions = sorted({question for _, question in values})
    found: dict[str, list[float]] = {level: [] for level in levels}
    contexts = len(next(iter(levels.values())))
    for question in questions:
        rows = {level: [values.get((cell, question)) for cell in cells] for level, cells in levels.items()}
        whole = [at for at in range(contexts) if all(row[at] is not None for row in rows.values())]
        for level, row in rows.items():
            if whole:
                found[level].append(fmean(row[at] or 0.0 for at in whole))
    return {level: fmean(means) for level, means in found.items()}


@pytest.mark.parametrize("axis", ["chunking", "retriever"])
@pytest.mark.parametrize("metric", [NDCG, SIMILARITY])
def test_means_are_recounted_from_the_stored_scores(data: ReportData, axis: str, metric: Any) -> None:
    one = next(one for one in table(data, axis).effects if one.metric == metric)
    at = one.axes.index(axis)
    cells = {
        level: [
            ".".join(["energy", *one.crossing.place([at], [level], context)[:3]])
            for context in one.crossing.contexts
        ]
        for level in one.levels
    }
    keys = {key.rpartition(".")[0]: key for key in data.scores["cell"].unique() if key.endswith("extractive")}
    by_hand = recounted(data, {level: [keys[c] for c in of] for level, of in cells.items()}, metric.name)
    assert dict(zip(one.levels, one.found.mean.tolist(), strict=True)) == pytest.approx(by_hand)
    best = max(by_hand, key=lambda level: by_hand[level])
    assert one.best == best
    apart = {level: mean - by_hand[best] for level, mean in by_hand.items()}
    if one.found.n == 24:
        assert dict(zip(one.levels, one.found.difference.tolist(), strict=True)) == pytest.approx(apart)


def test_an_axis_that_differs_on_a_sample_alone_is_shown_on_that(data: ReportData) -> None:
    generator = table(data, "generator")
    assert generator.subset == "sample of 12"
    assert [one.metric for one in generator.effects] == [SIMILARITY], "rankings do not differ by generator"
    assert "on a sample of 12" in effect_words(generator.effects[0])
    assert {one.axis for one in effects(data).axes} == {"chunking", "retriever", "generator"}


def test_questions_of_each_kind_are_compared_by_themselves(data: ReportData) -> None:
    groups = table(data, "retriever").groups
    types = [one for one in groups if one.column == "type"]
    whole = table(data, "retriever").effects[0].found
    assert sum(one.effect.found.n for one in types) == whole.n
    weighted = sum(one.effect.found.mean * one.effect.found.n for one in types) / whole.n
    assert weighted == pytest.approx(whole.mean)


def changed(data: ReportData, **of: Any) -> ReportData:
    return dataclasses.replace(data, **of)


def test_other_names_say_the_same(data: ReportData) -> None:
    names = {"articles": "<b>z</b> {0} 9", "tokens-128-42": "%s"}
    renamed = changed(data, leaderboard=data.leaderboard.with_columns(pl.col("chunking").replace(names)))
    one, other = table(data, "chunking").effects[0], table(renamed, "chunking").effects[0]
    mine = {names.get(level, level): mean for level, mean in zip(one.levels, one.found.mean, strict=True)}
    assert dict(zip(other.levels, other.found.mean, strict=True)) == pytest.approx(mine)
    assert names.get(one.best, one.best) == other.best
    page = render_html(renamed)
    assert "<b>z</b> {0}" not in page
    assert "&lt;b&gt;z&lt;/b&gt;" in page


def test_lower_may_be_better(data: ReportData) -> None:
    turned = [dataclasses.replace(NDCG, higher_is_better=False), SIMILARITY]
    lower = table(changed(data, metrics=tuple(turned)), "retriever").effects[0]
    higher = table(data, "retriever").effects[0]
    assert lower.best == min(zip(higher.found.mean.tolist(), higher.levels, strict=True))[1]
    assert [lower.found.mean[at] for at in lower.best_first()] == sorted(higher.found.mean)


@pytest.mark.parametrize(
    "kept",
    [
        pl.col("chunking") == "articles",
        (pl.col("chunking") == "articles") & (pl.col("retriever") == "dense"),
        pl.col("cell").is_null(),
    ],
)
def test_axes_of_one_level_have_no_effect(data: ReportData, kept: pl.Expr) -> None:
    few = changed(data, leaderboard=data.leaderboard.filter(kept & (pl.col("subset") == "all")))
    axes = [one.axis for one in effects(few).axes]
    assert axes == ["retriever"] * (few.leaderboard["retriever"].n_unique() > 1)
    assert effects(few).pairs == ()
    assert ('id="effects"' in render_html(few)) == bool(axes)
    assert len(effect_rows(few)) >= len(axes)


def test_one_question_names_no_winner() -> None:
    one = report_data(n_questions=1, sample=1)
    for axis in effects(one).axes:
        assert not any(any(effect.found.apart) for effect in axis.effects)
    assert not any(pair.p < 0.05 for pair in effects(one).pairs)
    assert "significantly worse" not in " ".join(effects_words(effects(one)))
    render_html(one)


def test_words_say_what_is_left_out_and_what_is_tied(data: ReportData) -> None:
    one = table(data, "retriever").effects[0]
    words = effect_words(one)
    assert words.startswith(f"Of the retrievers, {one.best} has the best mean nDCG@10, ")
    if one.crossing.unused:
        assert f"{one.of - one.crossing.unused} of {one.of} cells stand in equal contexts" in words
    for pair in effects(data).pairs:
        assert pair.axes[0] in pair_words(pair)
        assert pair.axes[1] in pair_words(pair)


def test_the_rows_hold_every_level_and_pair(data: ReportData) -> None:
    rows = json.loads(json_rows(data.leaderboard, other_rows(data)))
    assert all(list(row) == list(COLUMNS) for row in rows[:-1])
    one = table(data, "chunking").effects[0]
    found = {
        row["chunking"]: row
        for row in rows
        if row["metric"] == "effect:ndcg@10" and row["subset"] == "all" and row["chunking"]
    }
    assert {name: row["value"] for name, row in found.items()} == pytest.approx(
        dict(zip(one.levels, one.found.mean.tolist(), strict=True))
    )
    assert found[one.best]["p"] is None
    assert {row["leader"] for row in found.values()} == {one.best}
    pair = next(pair for pair in effects(data).pairs if pair.axes == ("chunking", "retriever"))
    of_pair = [row for row in rows if row["metric"] == "interaction:ndcg@10" and row["subset"] == "all"]
    assert len(of_pair) == len(pair.levels[0]) * len(pair.levels[1])
    assert {row["p"] for row in of_pair} == {pair.p}


def test_the_terminal_says_it_in_sentences(data: ReportData) -> None:
    console = Console(width=100, record=True, file=StringIO())
    console.print(leaderboard_table(data, 100))
    text = " ".join(console.export_text().split())
    assert "Of the chunkings, " in text
    assert "Of the retrievers, " in text


def test_questions_that_are_not_independent_are_drawn_together(data: ReportData) -> None:
    ids = sorted(data.questions["question_id"])
    of = {question: at // 6 for at, question in enumerate(ids)}
    together = changed(data, clusters=Clustering("ids", of, 4, 4.0))
    alone, clustered = (table(one, "retriever").effects[0].found for one in (data, together))
    assert clustered.mean == pytest.approx(alone.mean)
    assert np.nanmin(clustered.p) >= 2.0**-3, "four clusters tell no more"
    assert all(pair.p >= 2.0**-3 for pair in effects(together).pairs)


def test_of_many_kinds_of_questions_the_largest_are_compared(
    data: ReportData, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag_assay.evals.reporting.effects.EFFECT_GROUPS", 5)
    numbered = pl.Series([f"kind {max(0, at - 1):02}" for at in range(24)] * 2)[: data.questions.height]
    many = changed(data, questions=data.questions.with_columns(type=numbered))
    types = [one for one in table(many, "retriever").groups if one.column == "type"]
    assert [one.group for one in types] == [f"kind {at:02}" for at in range(5)]
    assert types[0].effect.found.n == 2
    few = changed(data, questions=data.questions.with_columns(type=pl.lit("one")))
    assert not [one for one in table(few, "retriever").groups if one.column == "type"]


def test_means_that_stand_in_the_matrix_are_not_drawn_again() -> None:
    found = effects(report_data())
    (pair,) = [one for one in found.pairs if one.axes == ("chunking", "retriever")]
    whole = dataclasses.replace(
        pair, crossing=pair.crossing._replace(unused=0, contexts=pair.crossing.contexts[:1])
    )
    for one, drawn in ((pair, True), (whole, False)):
        section = effects_section(dataclasses.replace(found, pairs=(one,)))
        assert section is not None
        anchors = [block.anchor for block in section.blocks if isinstance(block, Table)]
        assert ("chart-pair-chunking-retriever" in anchors) == drawn
        assert drawn or pair_words(whole) in section.blocks
