"""The leaderboard of a set of questions as a section, for the page, Markdown and the terminal alike."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from rag_assay.evals.metrics.costs import RunningCost
from rag_assay.evals.reporting import limits, sections, standings
from rag_assay.evals.reporting.caveats import ceiling_sentences, power_sentence, replicates_sentence
from rag_assay.evals.reporting.contexts import price, running
from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.reporting.display import (
    MISSING,
    count,
    interval,
    left_out,
    number,
    p_value,
    percent,
    several,
    with_sign,
)
from rag_assay.evals.reporting.figures.bars import small_bars
from rag_assay.evals.reporting.trust import reasons_missing
from rag_assay.warehouse.schemas import MIN_COVERAGE

TAKEN = Markup(' <a class="taken-mark" href="#verdict">recommended</a>')
METRICS = 0  # beside the primary one, that a page shows before others are chosen


def leaderboard_sections(data: ReportData) -> list[sections.PageSection]:
    """All questions first, then each sample."""
    found = standings.subsets(data)
    if not found:
        return [sections.PageSection("leaderboard", "Leaderboard", ["No cell was run."], "Leaderboard")]
    return [_section(data, subset, is_first=at == 0) for at, subset in enumerate(found)]


def _section(data: ReportData, subset: standings.Subset, *, is_first: bool) -> sections.PageSection:
    n, primary = several(subset.n(data.primary), "question"), data.primary
    ranked = [entry for entry in standings.entries(data, subset) if entry.rank is not None]
    unranked = sum(
        one.rank is None and primary.name in one.results and not one.is_ceiling(primary)
        for one in subset.standings
    )
    table, words = leaderboard(data, subset), [f"Every cell below was asked the same {n}."]
    if subset.name != standings.ALL:
        here = "their values here are not those of the table of all questions."
        words = [f"Cells are compared on these {n} only; {here}"]
    words.append(sections.explain("ranked", metric=primary.title, direction=direction(primary)))
    words += [sections.explain("unranked", cells=several(unranked, "cell"))] if unranked else []
    if replicates := replicates_sentence(data, subset):
        words.append(sections.explain("replicates", sentence=replicates))
    settling = power_sentence([one for one in ranked[1:] if one.is_open], subset.n(primary), primary)
    ceilings = ceiling_sentences(data, subset)
    blocks: list[sections.Block] = [" ".join(words), *filter(None, [settling]), *ceilings, table]
    is_main = is_first and subset == standings.main_subset(data)
    anchor, short = ("leaderboard", "Leaderboard") if is_main else ("", "")
    return sections.PageSection(anchor, table.caption, blocks, short, folded=not is_first)


def direction(metric: MetricInfo) -> str:
    return "higher is better" if metric.higher_is_better else "lower is better"


def leaderboard(data: ReportData, subset: standings.Subset) -> sections.Table:
    """Ranked rows first."""
    shown = subset.standings[: limits.LEADERBOARD_ROWS]
    grouped = any(one.tie_group is not None for one in subset.standings)
    embedders = data.leaderboard["embedder"].drop_nulls().n_unique() > 1
    axes = ["chunking", *(["embedder"] if embedders else []), "retriever", "generator"]
    labels, reasons, costs = standings.cell_labels(data), reasons_missing(data), running(data)
    bars = small_bars(data.primary, standings.entries(data, subset))
    recommended = data.verdict.recommended if subset == standings.main_subset(data) else None
    taken = recommended.cell if recommended else None
    rows = []
    for one in shown:
        cell, cost = one.cell, costs.get(one.cell.key, RunningCost())
        primary = one.results.get(data.primary.name)
        mark = TAKEN if cell.key == taken else Markup("")
        parts = [_part(getattr(cell, axis), axis, mark) for axis in axes]
        ties, chance = str(one.tie_group), percent(one.p_best)
        chances = [_known(one.tie_group, "no rank", ties), _known(one.p_best, "no rank", chance)]
        first, *others = (
            result(one.results.get(metric.name), metric, reasons.get((cell.key, metric.name)))
            for metric in data.metrics
        )
        rows.append(
            [
                _rank(one, data.primary),
                sections.TableFigure(labels[cell.key], behind=mark),
                *parts,
                first,
                sections.TableFigure("", drawn=bars.get(cell.key, Markup(""))),
                _difference(primary, data.primary, one.rank),
                *(chances if grouped else []),
                _coverage(one, data.primary),
                _known(cost.usd, "no known price", price(cost.usd or 0.0)),
                *(_known(value, "not measured", number(value, "s")) for value in (cost.p50, cost.p95)),
                *others,
            ]
        )
    unranked = {at: "unranked" for at, one in enumerate(shown) if one.rank is None}
    why = "to keep this file small; the leaderboard in DuckDB holds them"
    rest = left_out(why, cell=len(subset.standings) - len(shown))
    title = "Leaderboard" if subset.name == standings.ALL else f"Leaderboard on a {subset.name}"
    columns, style = _columns(data, axes, grouped=grouped), "sortable filterable board"
    keys = [(one.cell.key,) for one in shown]
    return sections.Table(title, columns, rows, rest, style, name=1, row_styles=unranked, row_pipelines=keys)


def _columns(data: ReportData, axes: Sequence[str], *, grouped: bool) -> list[sections.Column]:
    primary, *others = data.metrics

    def cost(title: str, unit: str, about: str, style: str = "") -> sections.Column:
        return sections.Column(title, unit, about, is_number=True, style=style, best="low")

    likely = "chance of being the best pipeline on further documents like these"
    chances = [
        sections.Column("Tie group", "", "pipelines tied with the first of their group", True, "more", "low"),
        sections.Column("Chance of being best", "", likely, is_number=True, best="high"),
    ]
    about = "value less the leader's, on the same questions"
    price_about = "of the models that write answers, for 1,000 questions; 0 where all runs on this machine"
    return [
        sections.Column("Rank", is_number=True, style="rank", best="low"),
        sections.Column("Cell", style="merged"),
        *(sections.Column(axis.capitalize(), style="part", is_axis=True) for axis in axes),
        _metric_column(primary),
        sections.Column("", style="bar"),
        sections.Column("Difference", about=about, is_number=True, best=_best(primary)),
        *(chances if grouped else []),
        sections.Column("Coverage", is_number=True, best="high"),
        cost("Price", "US$ / 1,000", price_about),
        cost("Time", "p50, s", "of retrieval and answer together, the median"),
        cost("Time", "p95, s", "of retrieval and answer together, the 95th percentile", "more"),
        *(_metric_column(one, "more" if at >= METRICS else "") for at, one in enumerate(others)),
    ]


def _best(metric: MetricInfo) -> str:
    return "high" if metric.higher_is_better else "low"


def _metric_column(metric: MetricInfo, style: str = "") -> sections.Column:
    unit = "" if metric.heading == metric.title else metric.unit
    return sections.Column(
        metric.title, unit, direction(metric), is_number=True, style=style, best=_best(metric)
    )


def _rank(one: standings.CellStanding, metric: MetricInfo) -> sections.TableFigure:
    found = one.results.get(metric.name)
    if one.rank is None:
        why = "coverage below 98 %" if found else "reads no ranking"
        why = "it answers from the reference passages" if one.is_ceiling(metric) else why
        return sections.missing(f"no rank: {why}")
    mark = sections.mark(found.standing if found else None)
    return sections.TableFigure(mark + str(one.rank), sort=one.rank)


def _part(name: str | None, axis: str, mark: Markup) -> sections.TableFigure:
    if not name:
        return sections.missing("no generator" if axis == "generator" else "reads no ranking")
    style = "" if len(name) <= limits.WHOLE_NAME else "long"
    return sections.TableFigure(name, style=style, behind=mark if axis == "generator" else Markup(""))


def _known(value: float | None, why: str, text: str) -> sections.TableFigure:
    return sections.missing(why) if value is None else sections.TableFigure(text, sort=value)


def _coverage(one: standings.CellStanding, metric: MetricInfo) -> sections.TableFigure:
    share, found = one.coverage(metric), one.results.get(metric.name)
    if share is None:
        return sections.missing("not measured in this cell")
    small = (f"{percent(share)} answered",) if found and share < found.coverage else ()
    return sections.TableFigure(
        percent(share), small, sort=share, style="low" if share < MIN_COVERAGE else ""
    )


def result(found: standings.Result | None, metric: MetricInfo, why: str | None) -> sections.TableFigure:
    """Return a mean with its interval; with its worst and best case where coverage is too low."""
    if found is None:
        return sections.missing("not measured in this cell")
    if found.value is None:
        return sections.missing("no question has a value" + (f": {why}" if why else ""))
    unit, small = metric.unit, []
    if found.covered:
        small.append(interval(found.low, found.high, unit))
    elif found.worst is None or found.best is None:
        small.append("no bounds")
    else:
        small += [f"worst {number(found.worst, unit)}", f"best {number(found.best, unit)}"]
    if found.spread is not None:
        small.append(f"{found.replicates}×: {interval(found.replicate_low, found.replicate_high, unit)}")
    about = "" if found.covered else f"coverage {percent(found.coverage)}" + (f": {why}" if why else "")
    style = "" if found.covered else "low"
    return sections.TableFigure(found.written(unit), tuple(small), about, found.value, style)


def _difference(found: standings.Result | None, metric: MetricInfo, rank: int | None) -> sections.TableFigure:
    if found is None or rank is None:
        return sections.missing("not compared: the cell has no rank")
    if found.difference is None:
        return sections.missing("not compared")
    if found.p is None:
        return sections.TableFigure("leader", sort=0)
    text = with_sign(found.difference, metric.unit)
    ends = interval(found.difference_low, found.difference_high, metric.unit)
    about = ""
    if found.detectable is not None:
        smallest = number(found.detectable, metric.unit)
        about = f"A difference of {smallest} would be found four times out of five"
        if found.questions_needed is not None:
            about += f"; about {count(found.questions_needed)} questions would settle this one"
    small = ["too few questions for an interval" if ends == MISSING else ends, p_value(found.p)]
    small += ["within the margin"] if found.within_margin else []
    return sections.TableFigure(sections.mark(found.standing) + text, tuple(small), about, found.difference)
