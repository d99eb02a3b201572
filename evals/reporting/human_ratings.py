"""Human ratings at each level of an axis, in sentences, and as rows beside the leaderboard's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from markupsafe import Markup

from rag_assay.evals.judge_calibration.agreement import FEW, by_item
from rag_assay.evals.reporting import limits
from rag_assay.evals.reporting.charts.marks import bar, heat
from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.reporting.display import (
    IN_ROWS,
    MISSING,
    breakable,
    count,
    interval,
    left_out,
    listed,
    natural,
    number,
    p_value,
    percent,
    several,
    truncate,
    with_sign,
)
from rag_assay.evals.reporting.effects import AxisEffect, compare_levels, effect_words
from rag_assay.evals.reporting.rating_scores import ScoredAnswers, ScoresOfPeople, written
from rag_assay.evals.reporting.sections import (
    Block,
    Bullets,
    Column,
    Details,
    PageHeading,
    PageParagraph,
    PageSection,
    Row,
    Table,
    TableFigure,
    Tiles,
    bold,
    explain,
    link,
    mark,
    missing,
    numbers,
    section,
)
from rag_assay.evals.reporting.standings import Values, value_table
from rag_assay.evals.statistics.bootstrap import bootstrap
from rag_assay.evals.statistics.effects import over_contexts
from rag_assay.evals.statistics.question_clusters import Clustering
from rag_assay.evals.statistics.raters import RELIABLE, TENTATIVE
from rag_assay.evals.study.cells import AXES

CALLED = 80  # characters of what a sheet calls a level


_Row = Mapping[str, Any]
NOT_COMPARED = "not compared: too few answers in equal contexts"


@dataclass(frozen=True)
class AxisSaid:
    """An axis: its levels, the best mean first, as rows of `people_rows`."""

    axis: str
    levels: tuple[_Row, ...]
    sentences: tuple[str, ...]

    @property
    def between(self) -> bool:
        return any(one["between"] for one in self.levels)


def metric_of(answers: ScoredAnswers) -> MetricInfo:
    about = answers.criterion.ask
    title = f"{answers.title} by people"
    return MetricInfo(answers.name, title, "answer", True, answers.criterion.bounds, "", about, "answers")


def axes_said(people: ScoresOfPeople, answers: ScoredAnswers, data: ReportData) -> list[AxisSaid]:
    return [_axis(people, answers, axis, data) for axis in AXES if len(answers.levels(axis)) > 1]


def axis_effect(answers: ScoredAnswers, axis: str, seed: int, clusters: Clustering) -> AxisEffect | None:
    """Compare the levels of an axis over equal contexts; None where no two of them meet in one."""
    rows = answers.rows.drop_nulls(list(AXES)).group_by("question_id", *AXES).agg(pl.col("value").mean())
    if rows.is_empty():
        return None
    rows = rows.with_columns(cell=pl.concat_str(*AXES, separator="\n"))
    places = tuple(sorted(set(rows.select(AXES).iter_rows())))
    questions = sorted(set(rows["question_id"]))
    table = value_table(rows, questions, ["\n".join(place) for place in places])
    along = Values(AXES, places, tuple(questions), table).along(axis)
    if along is None:
        return None
    crossed, crossed_values = along
    metric, codes = metric_of(answers), clusters.codes(questions)
    found = compare_levels(metric, over_contexts(crossed_values), seed, codes)
    if found is None:
        return None
    return AxisEffect(axis, AXES, metric, "all", crossed.levels[0], crossed, len(places), found)


def least_words(found: AxisEffect) -> str:
    known = found.found.detectable[np.isfinite(found.found.detectable)]
    asked = several(found.found.n, "question")
    if not len(known):
        return f"With {asked} no difference can be significant, however large it is."
    low, high = number(float(known.min())), number(float(known.max()))
    further = "" if low == high else f" ({high} of the level that varies most)"
    return (
        f"The smallest true difference from the best that {asked} would have shown four times out of five is "
        f"{low}{further}."
    )


def _axis(people: ScoresOfPeople, answers: ScoredAnswers, axis: str, data: ReportData) -> AxisSaid:
    compared = axis_effect(answers, axis, data.seed, data.clusters)
    levels = []
    for name in answers.levels(axis):
        called = people.called.get((axis, name), name)
        known = {axis: name, "called": None if called == name else truncate(called, CALLED)}
        figures = _level(answers, axis, name, data)
        levels.append({**figures, **known, **_difference_columns(compared, name)})
    levels.sort(key=lambda row: (-row["value"], row[axis]))
    none = f"The {axis}s cannot be compared: of no question answers were scored in equal contexts of two."
    sentences = (effect_words(compared), least_words(compared)) if compared else (none,)
    return AxisSaid(axis, tuple(levels), sentences)


def _difference_columns(compared: AxisEffect | None, name: str) -> _Row:
    if compared is None:
        return {"leader": None, "reason": NOT_COMPARED}
    if name == compared.best:
        return {"leader": name, "difference": 0.0, "tied": True}
    found, at = compared.found, compared.levels.index(name) if name in compared.levels else -1
    if at < 0 or not np.isfinite(found.p[at]):
        return {"leader": compared.best, "reason": NOT_COMPARED}
    ends = {"difference_low": found.difference_low[at], "difference_high": found.difference_high[at]}
    return {
        "leader": compared.best,
        "difference": float(found.difference[at]),
        **{end: float(value) if np.isfinite(value) else None for end, value in ends.items()},
        "p": float(found.p[at]),
        "tied": not found.apart[at],
    }


def _level(answers: ScoredAnswers, axis: str, name: str, data: ReportData) -> _Row:
    """Return mean with interval, and how many answers are at each anchor; `between`: annotators differ."""
    chosen = (answers.rows[axis] == name).fill_null(value=False).to_numpy()
    values, grades = answers.values[chosen], answers.grades[chosen]
    questions = answers.rows["question_id"].filter(pl.Series(chosen)).to_list()
    mean = bootstrap(values, data.seed, data.clusters.codes(questions), answers.criterion.bounds)
    assert mean is not None  # noqa: S101 -- a level has answers
    least, most = answers.criterion.bounds
    return {
        "value": mean.mean,
        "low": None if mean.low is None else max(least, mean.low),
        "high": None if mean.high is None else min(most, mean.high),
        "n": len(values),
        "counts": _tally(answers, grades.tolist()),
        "between": int((grades < 0).sum()),
    }


def _tally(answers: ScoredAnswers, grades: Sequence[int]) -> Mapping[str, int]:
    return {f"{anchor:g}": grades.count(at) for at, anchor in enumerate(answers.anchors)}


NAMED, NAMED_LEVELS = 4, 6  # of annotators, and of levels that differ; the rest are counted


def scored_words(answers: ScoredAnswers) -> str:
    people = sorted(answers.scores["annotator"].unique())
    n, of, ties = answers.given, answers.of, len(answers.rows) - answers.given
    items = of_all(answers, "items")
    scale = " / ".join(written(value) for value in answers.anchors)
    share = "all answers of the study" if n == of else f"{percent(n / of)} of the study's {count(of)}"
    alike = ""
    if items is not None and items["n"] and items["n"] < n:
        alike = f"; equal answers with equal passages were scored once, {several(items['n'], 'item')} in all"
    if ties:
        alike += f"; {several(ties, 'pair')} of equal answers count as a tie without a rating"
    return (
        f"{listed(people, NAMED)} gave {several(len(answers.scores), 'score')} ({scale}) to "
        f"{several(n, 'answer')}, {share}{alike}."
    )


def agreement_words(answers: ScoredAnswers) -> str:
    alpha, equal = of_all(answers, "alpha"), of_all(answers, "equal")
    if alpha is None:
        return "The agreement of annotators was not computed."
    n = alpha["n"] or 0
    if alpha["value"] is None:
        return f"The agreement of annotators is unknown: {alpha['reason']}."
    ends = interval(alpha["low"], alpha["high"])
    known = f" [{ends}]" if alpha["low"] is not None else ""
    on = f"on the {several(n, 'item')} that two or more scored"
    words = f"Krippendorff's alpha is {number(alpha['value'])}{known} {on}"
    if equal is not None and equal["value"] is not None:
        words += f"; {percent(equal['value'])} of their scores of one item are equal"
    return f"{words}: {_worth(alpha['value'], n)}."


def short_words(answers: ScoredAnswers) -> str:
    people = sorted(answers.scores["annotator"].unique())
    who = f"{listed(people, NAMED)} scored {count(answers.given)} of {several(answers.of, 'answer')}"
    mean = f"mean {number(float(answers.values.mean()))}"
    return f"People by {answers.title}: {who}, {mean}. {agreement_words(answers)}"


def differences_words(axes: Sequence[AxisSaid]) -> str:
    ordered = [(axis.axis, one) for axis in axes for one in sorted(axis.levels, key=lambda r: r[axis.axis])]
    compared = [(axis, one) for axis, one in ordered if "p" in one]
    if not compared:
        return "No two levels of an axis could be compared."
    apart = [
        f"{row[axis]} ({axis}, {with_sign(row['difference'])})" for axis, row in compared if not row["tied"]
    ]
    of = several(len(compared), "level")
    if not apart:
        return f"No level is significantly below the best of its axis ({of} compared)."
    verb, named = "is" if len(apart) == 1 else "are", listed(apart, NAMED_LEVELS)
    return f"{len(apart)} of {of} {verb} significantly below the best of the axis: {named}."


def of_all(answers: ScoredAnswers, measure: str) -> _Row | None:
    """Return a measure of all annotators together, if it was taken."""
    rows = answers.agreement.filter((pl.col("measure") == measure) & pl.col("annotator").is_null())
    return rows.row(0, named=True) if len(rows) else None


def _worth(alpha: float, n: int) -> str:
    if n < FEW:
        return f"too few items to say more; {FEW} or more tell how far people agree"
    if alpha >= RELIABLE:
        return f"enough to draw conclusions ({RELIABLE} or more)"
    if alpha >= TENTATIVE:
        return f"enough for tentative conclusions ({TENTATIVE} to {RELIABLE})"
    return f"too little for conclusions, tentative ones included (below {TENTATIVE})"


SAID, AGREEMENT = "said", "agreement"
PEOPLE_COLUMNS = (
    *("rubric", "criterion", "question_id", "annotator", "other"),
    *("counts", "between", "called", "reason"),
)
"""Beside those of the leaderboard, in rows that have a `rubric`."""


def people_rows(data: ReportData) -> list[dict[str, Any]]:
    """Return rows of human ratings and of agreement.

    `said:people.RUBRIC` is the mean of rated answers with the `counts` at each value: of a level of an axis,
    with its difference from the best, of a combination of all axes, or of a question.
    `agreement:MEASURE` is a row of `current_agreement`.
    """
    people = data.people
    if people is None:
        return []
    rows = [row for answers in people.criteria() for row in _said(people, answers, data)]
    for row in people.agreement.iter_rows(named=True):
        rest = {name: row[name] for name in ("rubric", "criterion", "annotator", "other", "reason")}
        figures = {name: row[name] for name in ("value", "low", "high", "n")}
        rows.append({"subset": "all", "metric": f"{AGREEMENT}:{row['measure']}", **rest, **figures})
    return rows


def _said(people: ScoresOfPeople, answers: ScoredAnswers, data: ReportData) -> Iterator[dict[str, Any]]:
    named = {
        "subset": "all",
        "metric": f"{SAID}:{answers.name}",
        "rubric": answers.rubric,
        "criterion": answers.criterion.name,
    }
    for axis in axes_said(people, answers, data):
        yield from ({**named, **level} for level in axis.levels)
    rows = answers.rows.with_columns(grade=pl.Series(answers.grades))
    for by in ([*AXES], ["question_id"]):
        found = rows.group_by(by).agg(pl.col("value").mean(), n=pl.len(), grades=pl.col("grade"))
        for *place, value, n, grades in found.sort(by, nulls_last=True).iter_rows():
            means = {"value": value, "n": n, "counts": _tally(answers, grades), "between": grades.count(-1)}
            yield {**named, **dict(zip(by, place, strict=True)), **means}


ANSWER, COMMENT, QUESTION = 360, 400, 200  # characters of an answer, a comment and a question
IN_SCORES = "the table `human_scores` in DuckDB holds them"
Links = Callable[[str], str]


def people_section(data: ReportData) -> PageSection | None:
    """Return human ratings; None where the study has no rubrics."""
    people = data.people
    if people is None or not people.rubrics:
        return None
    blocks: list[Block] = []
    unrated = []
    for at, answers in enumerate(people.criteria(), 1):
        if not len(answers.rows):
            unrated.append(unrated_sentence(people, answers))
            continue
        inner = criterion_blocks(people, answers, data, at)
        if blocks:
            blocks.append(Details(answers.title, inner, agreement_words(answers), "criterion"))
        else:
            blocks = [explain("ratings"), PageHeading(answers.title), *inner]
    return section("people", [*blocks, *unrated])


def criterion_blocks(
    people: ScoresOfPeople, answers: ScoredAnswers, data: ReportData, at: int
) -> list[Block]:
    """at: place among the criteria"""
    axes = axes_said(people, answers, data)
    asked = [bold(written(value)) + f" {answers.criterion.anchors[value]}" for value in answers.anchors]
    blocks: list[Block] = [
        breakable(f"{answers.criterion.ask} ") + Markup("; ").join(asked) + ".",
        f"{scored_words(answers)} {agreement_words(answers)}",
    ]
    blocks += [PageParagraph(differences_words(axes), "verdict")] if axes else []
    for axis in axes:
        blocks += [
            PageHeading(axis.axis.capitalize(), level=4),
            " ".join(axis.sentences),
            _axis_table(answers, axis),
        ]
    if maps := list(heat_maps(answers)):
        blocks += [
            PageHeading("Retriever and chunking", level=4),
            "Means over all scored answers; the stronger the colour, the higher the mean among those shown.",
            Tiles(maps),
        ]
    questions, anchors = _questions_table(answers, data, f"said-{at}-question")

    def linked(question: str) -> str:
        return link(question, anchors.get(question))

    blocks += [
        PageHeading("Questions", level=4),
        "The lowest mean first.",
        questions,
        PageHeading("Annotators", level=4),
        _annotators_table(answers),
        *_pairs_table(answers),
        *_disputed_table(people, answers, data, linked),
        *_comments(people, answers, linked),
    ]
    return blocks


def _count_columns(answers: ScoredAnswers, *, between: bool) -> list[Column]:
    columns = [Column("Answers by value", style="shares")]
    columns += [
        Column(written(value), about=answers.criterion.anchors[value], is_number=True)
        for value in answers.anchors
    ]
    about = "people gave different values, whose mean lies between"
    columns += [Column("between", about=about, is_number=True)] if between else []
    return [*columns, Column("Answers", is_number=True, style="total")]


def _counts(counts: Sequence[int], between: int, n: int, *, with_between: bool) -> list[TableFigure]:
    shown = [*counts, *([between] if with_between else [])]
    figures = [TableFigure(count(one), style="" if one else "none") for one in shown]
    return [TableFigure("", drawn=bar(counts, between)), *figures, TableFigure(count(n))]


def _axis_table(answers: ScoredAnswers, axis: AxisSaid) -> Table:
    columns = [Column(axis.axis.capitalize(), style="level"), *_count_columns(answers, between=axis.between)]
    rows = [
        (
            TableFigure(one[axis.axis], (one["called"],) if one["called"] else ()),
            *_counts([*one["counts"].values()], one["between"], one["n"], with_between=axis.between),
            TableFigure(number(one["value"]), (interval(one["low"], one["high"]),)),
            "best" if one["leader"] == one[axis.axis] else _difference(one),
        )
        for one in axis.levels[: limits.PEOPLE_LEVELS]
    ]
    rest = left_out(IN_ROWS, level=len(axis.levels) - len(rows))
    columns += numbers("Mean", "Difference")
    return Table(f"Human ratings by {axis.axis}", columns, rows, rest, "said-axis")


def _difference(level: _Row) -> TableFigure:
    if "p" not in level:
        return missing(level["reason"])
    text = (mark("tied") if level["tied"] else "") + with_sign(level["difference"])
    ends = interval(level["difference_low"], level["difference_high"])
    return TableFigure(text, (ends, p_value(level["p"])))


def heat_maps(answers: ScoredAnswers) -> Iterator[Sequence[Block]]:
    rows = answers.rows.drop_nulls(["chunking", "retriever"])
    if rows["chunking"].n_unique() < 2 or rows["retriever"].n_unique() < 2:
        return
    several_of = [name for name in ("embedder", "generator") if rows[name].n_unique() > 1]
    shown = rows.group_by("chunking", "retriever", *several_of).agg(pl.col("value").mean())["value"].to_list()
    ends = (min(shown), max(shown))
    if not several_of:
        yield _heat_map("", rows, ends)
        return
    parts = rows.partition_by(several_of, as_dict=True)
    for of in sorted(parts, key=str):
        yield _heat_map(" · ".join(map(str, of)), parts[of], ends)


def _heat_map(of: str, rows: pl.DataFrame, ends: tuple[float, float]) -> Sequence[Block]:
    by_retriever, by_chunking, squares = (
        {row[:-2]: row[-2:] for row in _means(rows, by)}
        for by in (("retriever",), ("chunking",), ("retriever", "chunking"))
    )
    retrievers = sorted(by_retriever, key=lambda name: (-by_retriever[name][0], natural(name[0])))
    chunkings = sorted(by_chunking, key=lambda name: natural(name[0]))
    most = limits.PEOPLE_HEAT
    further = {"retriever": max(0, len(retrievers) - most), "chunking": max(0, len(chunkings) - most)}

    def square(found: Sequence[float] | None, *, is_mean: bool = False) -> TableFigure:
        if found is None:
            return missing("no answer was scored")
        mean, n = found
        style = "mean" if is_mean else f"h{heat(mean, *ends, higher_is_better=True)}"
        return TableFigure(number(mean), why=f"n = {n}", style=style)

    lines: list[Row] = []
    for one in retrievers[:most]:
        means = (square(squares.get((*one, *other))) for other in chunkings[:most])
        lines.append((one[0], *means, square(by_retriever[one], is_mean=True)))
    foot: Row = ("Mean", *(square(by_chunking[one], is_mean=True) for one in chunkings[:most]), "")
    columns = [Column(""), *numbers(*(name for (name,) in chunkings[:most]))]
    columns.append(Column("Mean", is_number=True, style="mean"))
    title = f"Means by retriever and chunking{', ' if of else ''}{of}"
    table = Table(title, columns, lines, left_out(IN_SCORES, **further), "heat", foot=[foot])
    return [*([PageHeading(of, level=4)] if of else []), table]


def _means(rows: pl.DataFrame, by: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    return rows.group_by(by).agg(pl.col("value").mean(), n=pl.len()).iter_rows()


def _questions_table(answers: ScoredAnswers, data: ReportData, prefix: str) -> tuple[Table, dict[str, str]]:
    """Return the questions, the lowest mean first, and their places on the page."""
    names = answers.levels("generator")
    generators = names if 1 < len(names) <= limits.PEOPLE_GENERATORS else []
    rows = answers.rows.with_columns(grade=pl.Series(answers.grades))
    grouped = rows.group_by("question_id")
    by_question = grouped.agg(mean=pl.col("value").mean(), n=pl.len(), grades=pl.col("grade"))
    means = {tuple(place): mean for *place, mean, _ in _means(rows, ("question_id", "generator"))}
    asked = data.questions.rows_by_key("question_id", named=True, unique=True)
    between = bool((rows["grade"] == -1).any())
    shown, anchors = [], {}
    ordered = by_question.sort("mean", "question_id").head(limits.PEOPLE_QUESTIONS)
    for at, row in enumerate(ordered.iter_rows(named=True), 1):
        name, grades = row["question_id"], row["grades"]
        question = asked.get(name, {"question": name, "language": None})
        anchors[name] = f"#{prefix}-{at}"
        text = Markup('<span id="{}" dir="auto" lang="{}">{}</span>').format(
            anchors[name][1:], question["language"] or "", truncate(question["question"], QUESTION)
        )
        counts = [grades.count(grade) for grade in range(len(answers.anchors))]
        figures = _counts(counts, grades.count(-1), row["n"], with_between=between)
        own = (means.get((name, one)) for one in generators)
        of_each = [missing("no answer of it was scored") if one is None else number(one) for one in own]
        shown.append((TableFigure(text, (name,)), *figures, *of_each, number(row["mean"])))
    columns = [Column("Question"), *_count_columns(answers, between=between), *numbers(*generators, "Mean")]
    rest = left_out(IN_ROWS, question=by_question.height - len(shown))
    return Table("Human ratings by question", columns, shown, rest, "said-questions"), anchors


def _annotators_table(answers: ScoredAnswers) -> Table:
    found: dict[str, dict[str, _Row]] = {}
    for row in (*answers.agreement.iter_rows(named=True), *answers.minutes.iter_rows(named=True)):
        if row["annotator"] is not None and row["other"] is None:
            found.setdefault(row["annotator"], {})[row["measure"]] = row
    rows: list[Row] = [
        (name, *_figures(measures)) for name, measures in sorted(found.items()) if "scores" in measures
    ]
    columns = [
        Column(title, about=about, is_number=True)
        for title, about in (
            ("Scores", ""),
            ("Bias", "mean difference of the scores to the mean of the others' of the same items"),
            ("Drift", "that difference in the second half of the scores less that in the first"),
            ("Same again", "share of the items shown twice that got the same value again"),
            ("Minutes", "for how long items were looked at"),
        )
    ]
    most = limits.PEOPLE_ANNOTATORS
    rest = left_out(IN_ROWS, annotator=max(0, len(rows) - most))
    return Table("Annotators", [Column("Annotator"), *columns], rows[:most], rest, "groups")


def _pairs_table(answers: ScoredAnswers) -> Iterator[Block]:
    """Yield a table of pairs of annotators, those that agree least first."""
    ordered = answers.agreement.filter(pl.col("other").is_not_null()).sort(
        pl.col("value").fill_null(2.0), "annotator", "other"
    )
    equal_shares, kappas = (
        ordered.filter(measure=one).rows_by_key(("annotator", "other"), named=True, unique=True)
        for one in ("equal", "kappa")
    )
    rows = [
        (" and ".join(names), _measured(equal_shares[names], percent), _measured(row, number))
        for names, row in kappas.items()
    ]
    equal = "share of the items that both scored to which they gave one value"
    kappa = (
        "Cohen's kappa: agreement beyond chance; of ordered values weighted by the square of their distance"
    )
    columns = [Column("Two annotators"), Column("Equal", about=equal, is_number=True)]
    columns.append(Column("Kappa", about=kappa, is_number=True))
    most = limits.PEOPLE_PAIRS
    rest = left_out(IN_ROWS, pair=max(0, len(rows) - most))
    if rows:
        yield Table("Each two annotators", columns, rows[:most], rest, "groups")


def _disputed_table(
    people: ScoresOfPeople, answers: ScoredAnswers, data: ReportData, linked: Links
) -> Iterator[Block]:
    first = by_item(answers.scores).unique(["annotator", "item"], keep="first", maintain_order=True)
    value, falling = pl.col("value"), [True, True, False]
    spreads = first.group_by("item").agg(spread=value.max() - value.min(), various=value.var())
    apart = spreads.filter(pl.col("spread") > 0).sort("spread", "various", "item", descending=falling)
    chosen = apart.head(limits.PEOPLE_DISPUTED)["item"].to_list()
    if not chosen:
        return
    opinions = first.filter(pl.col("item").is_in(chosen)).sort("annotator")
    by_name = {name[0]: part for name, part in opinions.partition_by("item", as_dict=True).items()}
    rows = [_disputed(people, by_name[name], data, linked) for name in chosen]
    yield PageHeading("Largest disagreements between annotators", level=4)
    columns = [Column("Question"), Column("Answer", style="said"), Column("Values", style="opinions")]
    rest = left_out(IN_SCORES, item=apart.height - len(rows))
    yield Table("Largest disagreements between annotators", columns, rows, rest, "stack")


def _disputed(
    people: ScoresOfPeople, rows: pl.DataFrame, data: ReportData, linked: Links
) -> Sequence[str | TableFigure]:
    row = rows.row(0, named=True)
    names = ("item_id",) if row["cell"] is None else ("cell", "question_id")
    places = people.values.filter(**{name: row[name] for name in names})
    places = places.join(people.cells, left_on="cell", right_on="key").sort("cell", "replicate")
    keys = places["cell_right"].unique(maintain_order=True).to_list() if len(places) else []
    question = row["question_id"] or (places["question_id"][0] if len(places) else "")
    first = keys[0] if keys else ""
    more = f" and {count(len(keys) - 1)} more" if len(keys) > 1 else ""
    text = ""
    if keys:
        said = data.answers.filter(cell=first, replicate=places["replicate"][0], question_id=question)
        text = truncate((said["answer"][0] or "") if len(said) else "", ANSWER)
    opinion = Markup("<li><b>{}</b> {}{}</li>")
    opinions = (
        opinion.format(written(one["value"]), one["annotator"], _comment(one["comment"]))
        for one in rows.iter_rows(named=True)
    )
    return (
        TableFigure(linked(question), (f"{first}{more}",)),
        text or missing("no text is stored"),
        Markup("<ul>{}</ul>").format(Markup("").join(opinions)),
    )


def _comment(text: str | None) -> str:
    said = truncate(text, COMMENT)
    return Markup(' <span class="cites" dir="auto">{}</span>').format(said) if said else ""


def _comments(people: ScoresOfPeople, answers: ScoredAnswers, linked: Links) -> Iterator[Block]:
    length = pl.col("comment").str.len_chars()
    wrote = answers.scores.filter(pl.col("comment").str.strip_chars().str.len_chars() > 0)
    ordered = wrote.sort(length, "annotator", "item_id", descending=[True, False, False])
    shown = ordered.head(limits.PEOPLE_COMMENTS)
    of_items = dict(people.values.select("item_id", "question_id").iter_rows())
    items = []
    for row in shown.iter_rows(named=True):
        question = row["question_id"] or of_items.get(row["item_id"]) or ""
        where = Markup(", {}").format(linked(question)) if question else ""
        said = Markup('<b>{}</b> {}{}: <span dir="auto">{}</span>')
        text = truncate(row["comment"], COMMENT)
        items.append(said.format(written(row["value"]), row["annotator"], where, text))
    if items:
        rest = left_out(IN_SCORES, **{"shorter comment": wrote.height - shown.height})
        note = [PageParagraph(rest)] if rest else []
        yield Details(several(wrote.height, "comment"), [Bullets(items, "comments"), *note])


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
    if row["value"] is None:
        return TableFigure(MISSING, why=row["reason"] or "")
    ends = f"n = {count(row['n'])}" if write is percent else interval(row["low"], row["high"])
    return TableFigure(write(row["value"]), () if ends == MISSING else (ends,), row["reason"] or "")


def people_sentences(data: ReportData) -> list[str]:
    people = data.people
    if people is None:
        return []
    return [
        short_words(answers) if len(answers.rows) else unrated_sentence(people, answers)
        for answers in people.criteria()
    ]


def unrated_sentence(people: ScoresOfPeople, answers: ScoredAnswers) -> str:
    return f"No ratings by {answers.title} yet: `{people.command}` opens the annotation page."
