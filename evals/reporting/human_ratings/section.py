"""The section on human ratings, criterion by criterion."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import polars as pl

from rag_assay.evals.judge_calibration.agreement import by_item
from rag_assay.evals.reporting import limits
from rag_assay.evals.reporting.charts.marks import Bar, HeatRow, HeatSquare, HeatTable, bar, heat
from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.display import (
    MISSING,
    TableFigure,
    count,
    interval,
    natural,
    number,
    percent,
    truncate,
    with_sign,
)
from rag_assay.evals.reporting.human_ratings.axes import (
    AxisSaid,
    agreement_words,
    axes_said,
    differences_words,
    scored_words,
    short_words,
)
from rag_assay.evals.reporting.rating_scores import ScoredAnswers, ScoresOfPeople, written

ANSWER, COMMENT = 360, 400  # characters of an answer and of a comment
_Row = Mapping[str, Any]


@dataclass(frozen=True)
class Annotator:
    """What is known of one annotator: scores, bias, drift, repeats, minutes."""

    name: str
    figures: tuple[TableFigure, ...]


@dataclass(frozen=True)
class AnnotatorPair:
    """Two annotators: the share of equal scores, and kappa."""

    names: tuple[str, str]
    equal: TableFigure
    kappa: TableFigure


@dataclass(frozen=True)
class Opinion:
    """What one annotator gave to an item, and wrote of it."""

    annotator: str
    value: str
    comment: str


@dataclass(frozen=True)
class Disputed:
    """An item that people differ in.

    cells: names of the cells that it is of, and how many more
    answer: its text; empty where there is none
    """

    question_id: str
    cells: str
    answer: str
    opinions: tuple[Opinion, ...]


@dataclass(frozen=True)
class Comment:
    """What an annotator wrote of an item."""

    annotator: str
    value: str
    question_id: str
    text: str


def annotators_of(answers: ScoredAnswers) -> list[Annotator]:
    found: dict[str, dict[str, _Row]] = {}
    for row in (*answers.agreement.iter_rows(named=True), *answers.minutes.iter_rows(named=True)):
        if row["annotator"] is not None and row["other"] is None:
            found.setdefault(row["annotator"], {})[row["measure"]] = row
    return [Annotator(name, _figures(rows)) for name, rows in sorted(found.items()) if "scores" in rows]


def pairs_of(answers: ScoredAnswers) -> list[AnnotatorPair]:
    """Return each two annotators with common items, those that agree least first."""
    found: dict[tuple[str, str], dict[str, _Row]] = {}
    for row in answers.agreement.filter(pl.col("other").is_not_null()).iter_rows(named=True):
        found.setdefault((row["annotator"], row["other"]), {})[row["measure"]] = row
    ordered = sorted(found.items(), key=lambda one: (_kappa(one[1]), one[0]))
    return [
        AnnotatorPair(names, _measured(rows["equal"], percent), _measured(rows["kappa"], number))
        for names, rows in ordered
    ]


def disputed_items(
    people: ScoresOfPeople, answers: ScoredAnswers, data: ReportData, most: int
) -> tuple[list[Disputed], int]:
    """Return the items that people differ in most, and how many they differ in at all."""
    first = by_item(answers.scores).unique(["annotator", "item"], keep="first", maintain_order=True)
    apart = (
        first.group_by("item")
        .agg(spread=pl.col("value").max() - pl.col("value").min(), various=pl.col("value").var())
        .filter(pl.col("spread") > 0)
        .sort("spread", "various", "item", descending=[True, True, False])
    )
    chosen = apart.head(most)["item"].to_list()
    rows = first.filter(pl.col("item").is_in(chosen)).sort("annotator")
    by_name = {name[0]: part for name, part in rows.partition_by("item", as_dict=True).items()}
    return [_disputed(people, by_name[name], data) for name in chosen], len(apart)


def comments(people: ScoresOfPeople, answers: ScoredAnswers, most: int) -> tuple[list[Comment], int]:
    """Return comments, the longest first, and how many there are."""
    wrote = answers.scores.filter(pl.col("comment").str.strip_chars().str.len_chars() > 0)
    shown = wrote.sort(
        pl.col("comment").str.len_chars(), "annotator", "item_id", descending=[True, False, False]
    )
    of_items = dict(people.values.select("item_id", "question_id").iter_rows())
    return [
        Comment(
            row["annotator"],
            written(row["value"]),
            row["question_id"] or of_items.get(row["item_id"]) or "",
            truncate(row["comment"], COMMENT),
        )
        for row in shown.head(most).iter_rows(named=True)
    ], len(wrote)


def _disputed(people: ScoresOfPeople, rows: pl.DataFrame, data: ReportData) -> Disputed:
    row = rows.row(0, named=True)
    places = people.values.filter(pl.col("item_id") == row["item_id"])
    if row["cell"] is not None:
        places = people.values.filter(
            (pl.col("cell") == row["cell"]) & (pl.col("question_id") == row["question_id"])
        )
    places = places.join(people.cells, left_on="cell", right_on="key").sort("cell", "replicate")
    keys = places["cell_right"].unique(maintain_order=True).to_list() if len(places) else []
    question = row["question_id"] or (places["question_id"][0] if len(places) else "")
    first = keys[0] if keys else ""
    more = f" and {count(len(keys) - 1)} more" if len(keys) > 1 else ""
    text = ""
    if keys:
        said = data.answers.filter(
            (pl.col("cell") == first)
            & (pl.col("replicate") == places["replicate"][0])
            & (pl.col("question_id") == question)
        )
        text = (said["answer"][0] or "") if len(said) else ""
    opinions = tuple(
        Opinion(one["annotator"], written(one["value"]), truncate(one["comment"], COMMENT))
        for one in rows.iter_rows(named=True)
    )
    return Disputed(question, f"{first}{more}", truncate(text, ANSWER), opinions)


def _figures(rows: Mapping[str, _Row]) -> tuple[TableFigure, ...]:
    minutes = rows.get("minutes")
    shown = TableFigure(MISSING, why="not measured")
    if minutes is not None and minutes["value"] is not None:
        decimals = 0 if minutes["value"] >= 10 else 1
        each = minutes["value"] * 60 / max(1, minutes["n"])
        shown = TableFigure(f"{minutes['value']:.{decimals}f}", (f"{each:.0f} s an item",))
    return (
        TableFigure(count(rows["scores"]["n"])),
        _measured(rows["bias"], with_sign),
        _measured(rows["drift"], with_sign),
        _measured(rows["repeats"], percent),
        shown,
    )


def _measured(row: _Row, write: Callable[[float], str]) -> TableFigure:
    """Return a measure with its interval; a share with its number of items."""
    if row["value"] is None:
        return TableFigure(MISSING, why=row["reason"] or "")
    ends = f"n = {count(row['n'])}" if write is percent else interval(row["low"], row["high"])
    return TableFigure(write(row["value"]), () if ends == MISSING else (ends,), row["reason"] or "")


def _kappa(rows: Mapping[str, _Row]) -> float:
    value = rows["kappa"]["value"]
    return 2.0 if value is None else float(value)


QUESTION = 200  # characters of a question
PLACE = ("retriever", "chunking")


@dataclass(frozen=True)
class MeanSquare:
    """A mean, of how many answers, and its heat from 0 (lowest shown) to 8 (highest shown)."""

    mean: float
    n: int
    level: int


@dataclass(frozen=True)
class HeatMap:
    """Means of one generator (and embedder), by retriever and chunking.

    of: generator and embedder where there are several
    retrievers: the best mean first
    rows, columns: plain means over what was scored of a retriever, and of a chunking
    """

    of: str
    retrievers: tuple[str, ...]
    chunkings: tuple[str, ...]
    squares: Mapping[tuple[str, str], MeanSquare]
    rows: Mapping[str, MeanSquare]
    columns: Mapping[str, MeanSquare]
    left_out: int

    def table(self) -> HeatTable:
        return HeatTable(
            "",
            f"Means by retriever and chunking{', ' if self.of else ''}{self.of}",
            "",
            "",
            self.chunkings,
            tuple(
                HeatRow(
                    retriever,
                    tuple(_drawn(self.squares.get((retriever, one))) for one in self.chunkings),
                    _drawn(self.rows[retriever], is_mean=True),
                )
                for retriever in self.retrievers
            ),
            (HeatRow("Mean", tuple(_drawn(self.columns[one], is_mean=True) for one in self.chunkings)),),
            "Mean",
        )


@dataclass(frozen=True)
class QuestionSaid:
    """A question with what people gave to its answers.

    anchor: id of its row on the page
    means: of each generator, where there are several, in their order; None: no answer was scored
    """

    question_id: str
    text: str
    language: str | None
    anchor: str
    n: int
    counts: tuple[int, ...]
    between: int
    bar: Bar
    mean: float
    means: tuple[float | None, ...]


def _drawn(square: MeanSquare | None, *, is_mean: bool = False) -> HeatSquare:
    if square is None:
        return HeatSquare("", title="no answer was scored")
    level = None if is_mean else square.level
    return HeatSquare(number(square.mean), level, f"n = {square.n}")


def heat_maps(answers: ScoredAnswers, most: int) -> list[HeatMap]:
    """Return a heat map a generator and embedder, where several retrievers and chunkings were scored.

    most: retrievers and chunkings that are shown
    """
    rows = answers.rows.drop_nulls(["chunking", "retriever"])
    if rows["chunking"].n_unique() < 2 or rows["retriever"].n_unique() < 2:
        return []
    several = [name for name in ("embedder", "generator") if rows[name].n_unique() > 1]
    shown = rows.group_by("chunking", "retriever", *several).agg(pl.col("value").mean())["value"].to_list()
    ends = (min(shown), max(shown))
    if not several:
        return [_map("", rows, ends, most)]
    parts = rows.partition_by(several, as_dict=True)
    return [_map(" · ".join(map(str, of)), parts[of], ends, most) for of in sorted(parts, key=str)]


def _map(of: str, rows: pl.DataFrame, ends: tuple[float, float], most: int) -> HeatMap:
    of_retrievers, of_chunkings = ({one[0]: s for one, s in _squares(rows, [by], ends)} for by in PLACE)
    retrievers = sorted(of_retrievers, key=lambda name: (-of_retrievers[name].mean, natural(name)))
    chunkings = sorted(of_chunkings, key=natural)
    return HeatMap(
        of,
        tuple(retrievers[:most]),
        tuple(chunkings[:most]),
        {(one[0], one[1]): square for one, square in _squares(rows, PLACE, ends)},
        of_retrievers,
        of_chunkings,
        max(0, len(retrievers) - most) + max(0, len(chunkings) - most),
    )


def _squares(
    rows: pl.DataFrame, by: Sequence[str], ends: tuple[float, float]
) -> list[tuple[tuple[str, ...], MeanSquare]]:
    found = rows.group_by(by).agg(pl.col("value").mean(), n=pl.len())
    return [
        (tuple(place), MeanSquare(mean, n, heat(mean, *ends, higher_is_better=True)))
        for *place, mean, n in found.iter_rows()
    ]


def questions_said(
    answers: ScoredAnswers, data: ReportData, generators: Sequence[str], prefix: str
) -> list[QuestionSaid]:
    """Return the questions of which answers were scored, the lowest mean first.

    generators: that have a mean of their own
    prefix: of the ids of their rows
    """
    rows = answers.rows.select("question_id", "generator", "value").with_columns(
        grade=pl.Series(answers.grades)
    )
    by_question = rows.group_by("question_id").agg(
        mean=pl.col("value").mean(), n=pl.len(), grades=pl.col("grade")
    )
    of_generators = {
        (question, generator): mean
        for question, generator, mean in rows.group_by("question_id", "generator")
        .agg(pl.col("value").mean())
        .iter_rows()
    }
    texts = {
        row["question_id"]: row
        for row in data.questions.select("question_id", "question", "language").iter_rows(named=True)
    }
    found = []
    ordered = by_question.sort("mean", "question_id").iter_rows(named=True)
    for at, row in enumerate(ordered, 1):
        grades = row["grades"]
        counts = tuple(grades.count(grade) for grade in range(len(answers.anchors)))
        between = grades.count(-1)
        name = row["question_id"]
        question = texts.get(name, {"question": name, "language": None})
        found.append(
            QuestionSaid(
                name,
                truncate(question["question"], QUESTION),
                question["language"],
                f"{prefix}-{at}",
                row["n"],
                counts,
                between,
                bar(counts, between),
                row["mean"],
                tuple(of_generators.get((name, one)) for one in generators),
            )
        )
    return found


@dataclass(frozen=True)
class CriterionSection:
    """Human ratings by one criterion.

    anchors: value and what it means, the best first
    generators: of which questions have means of their own; none where there is one alone, or there are many
    links: question id -> where on the page it is
    """

    title: str
    ask: str
    anchors: tuple[tuple[str, str], ...]
    sentences: tuple[str, ...]
    differences: str
    axes: tuple[AxisSaid, ...]
    maps: tuple[HeatMap, ...]
    questions: tuple[QuestionSaid, ...]
    questions_left_out: int
    between: bool
    generators: tuple[str, ...]
    annotators: tuple[Annotator, ...]
    annotators_left_out: int
    pairs: tuple[AnnotatorPair, ...]
    pairs_left_out: int
    disputed: tuple[Disputed, ...]
    differ: int
    comments: tuple[Comment, ...]
    comments_left_out: int
    links: Mapping[str, str]


@dataclass(frozen=True)
class People:
    """The section: the ratings, and a sentence for each criterion without any."""

    said: tuple[CriterionSection, ...]
    unrated: tuple[str, ...]


@lru_cache(maxsize=2)  # the page and the terminal show it
def people_section(data: ReportData) -> People | None:
    """Return human ratings; None where the study has no rubrics."""
    people = data.people
    if people is None or not people.rubrics:
        return None
    said, unrated = [], []
    for at, answers in enumerate(people.criteria(), 1):
        if len(answers.rows):
            said.append(_said(people, answers, data, at))
        else:
            unrated.append(unrated_sentence(people, answers))
    return People(tuple(said), tuple(unrated))


def people_sentences(data: ReportData) -> list[str]:
    people = data.people
    if people is None:
        return []
    return [
        short_words(answers) if len(answers.rows) else unrated_sentence(people, answers)
        for answers in people.criteria()
    ]


def unrated_sentence(people: ScoresOfPeople, answers: ScoredAnswers) -> str:
    """Say that a criterion has no ratings yet, and how to begin."""
    return f"No ratings by {answers.title} yet: `{people.command}` opens the annotation page."


def _said(people: ScoresOfPeople, answers: ScoredAnswers, data: ReportData, at: int) -> CriterionSection:
    axes = axes_said(people, answers, data, limits.PEOPLE_LEVELS)
    names = answers.levels("generator")
    generators = tuple(names) if 1 < len(names) <= limits.PEOPLE_GENERATORS else ()
    questions = questions_said(answers, data, generators, f"said-{at}-question")
    shown = questions[: limits.PEOPLE_QUESTIONS]
    annotators, pairs = annotators_of(answers), pairs_of(answers)
    differing, differ = disputed_items(people, answers, data, limits.PEOPLE_DISPUTED)
    wrote, written_at_all = comments(people, answers, limits.PEOPLE_COMMENTS)
    return CriterionSection(
        answers.title,
        answers.criterion.ask,
        tuple((written(value), answers.criterion.anchors[value]) for value in answers.anchors),
        (scored_words(answers), agreement_words(answers)),
        differences_words(axes) if axes else "",
        tuple(axes),
        tuple(heat_maps(answers, limits.PEOPLE_HEAT)),
        tuple(shown),
        len(questions) - len(shown),
        any(one.between for one in questions),
        generators,
        tuple(annotators[: limits.PEOPLE_ANNOTATORS]),
        max(0, len(annotators) - limits.PEOPLE_ANNOTATORS),
        tuple(pairs[: limits.PEOPLE_PAIRS]),
        max(0, len(pairs) - limits.PEOPLE_PAIRS),
        tuple(differing),
        differ,
        tuple(wrote),
        written_at_all - len(wrote),
        {one.question_id: f"#{one.anchor}" for one in shown},
    )
