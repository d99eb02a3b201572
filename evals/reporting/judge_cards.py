"""How far the judges of a study can be trusted, and what they and annotators say together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
from markupsafe import Markup

from rag_assay.evals.judging.cards.mutations import MUTATIONS
from rag_assay.evals.reporting import sections, stored_rows
from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.reporting.display import (
    IN_ROWS,
    MISSING,
    count,
    interval,
    left_out,
    listed,
    number,
    percent,
    several,
    with_sign,
)
from rag_assay.evals.rubrics.rubric import PEOPLE, metric_name

_Place = tuple[str, str | None]  # measure, slice
COLUMNS: tuple[tuple[str, str, tuple[_Place, ...]], ...] = (
    (
        "AUC",
        "how often it puts a case that people call good above a bad one; 0.5 is a coin",
        (("auc", None),),
    ),
    ("Gives a number", "share of its judgements with a value", (("parse_rate", None),)),
    ("Changes its mind", "share of pairs of replicates that differ", (("flip_rate", None),)),
    ("Kappa", "agreement with people beyond chance", (("kappa", "quadratic"), ("kappa", None))),
    ("Tau", "Kendall's tau-b of its values and people's labels", (("tau", None),)),
    ("Worse caught", "share of answers made worse that score lower", (("caught", None),)),
    ("False alarms", "share of unchanged words that score lower", (("false_alarm", None),)),
    (
        "Length",
        "correlation of value and length of the answer; of equal labels, where there are any",
        (("length_bias", "equal labels"), ("length_bias", None)),
    ),
    (
        "Position",
        "share of cases that another order of passages moves; of two answers, how far the first is preferred",
        (("position_bias", "places"), ("position_bias", "sides"), ("position_bias", "order")),
    ),
)
PEOPLE_COLUMNS: tuple[tuple[str, str, str], ...] = (
    ("AUC", "how often it puts a case that people call good above a bad one; 0.5 is a coin", "auc"),
    (
        "Accuracy",
        "share of cases that both call good or both bad; the judge does from the middle of its range on",
        "accuracy",
    ),
    ("Cases", "that people have scored or labelled, and the judge has judged", "labels"),
    ("People", "who have scored them", "people"),
    (
        "Their own agreement",
        "Krippendorff's alpha of the people: what no judge can be expected to pass",
        "people_alpha",
    ),
    ("Kappa", "agreement beyond chance; of grades weighted by the square of their distance", "kappa"),
    ("Tau", "Kendall's tau-b of its values and people's", "tau"),
)
_SHARES = frozenset({"parse_rate", "flip_rate", "caught", "false_alarm", "tied", "accuracy"})
_COUNTS = frozenset({"labels", "people"})
_LABELLED = "labelled cases"


ByPlace = Mapping[tuple[str | None, str, str | None], Mapping[str, Any]]
"""Metric, measure and slice -> a row of schemas.JUDGE_CARDS."""


@dataclass(frozen=True)
class CardRow:
    """A metric of a judge: its figures by column, and its catches by kind of mutation.

    by: of agreement with annotators: `people.RUBRIC[.CRITERION]`, or `labelled cases`
    coin: its cases are labelled, but no AUC is significantly above 0.5
    """

    metric: str
    figures: tuple[sections.TableFigure, ...]
    by: str = ""
    calibrated: bool = True
    caught: tuple[sections.TableFigure, ...] = ()
    coin: bool = False

    @property
    def warning(self) -> str:
        return "no better than chance" if self.calibrated and self.coin else self.state

    @property
    def state(self) -> str:
        return "" if self.calibrated else stored_rows.UNCALIBRATED


_Line = tuple[CardRow, str, tuple[sections.TableFigure, ...]]  # a metric, what stands below its name, figures


@dataclass(frozen=True)
class Card:
    """One judge; about: its kind and model; kinds: mutations that were tried, with what each does.

    costs: of 1,000 cases, in a sentence; people: agreement of annotators with it, and with each other
    """

    judge: str
    about: str
    sentence: str
    calibrated: bool
    kinds: tuple[tuple[str, str], ...]
    rows: tuple[CardRow, ...]
    costs: str
    people: tuple[CardRow, ...] = ()


def judge_cards(data: ReportData) -> tuple[Card, ...]:
    if data.judge_cards is None:
        return ()
    names = [name for name in data.judges or {} if name in set(data.judge_cards["judge"])]
    return tuple(_card(name, data) for name in names)


def judges_section(data: ReportData, charts: Sequence[sections.Chart]) -> sections.PageSection | None:
    """Return the judges' cards below charts of them; None where there are no cards."""
    cards = judge_cards(data)
    if not cards:
        return None
    blocks: list[sections.Block] = [*charts]
    for card in cards:
        said = card.sentence if card.calibrated else sections.PageParagraph(card.sentence, "uncalibrated")
        blocks += [sections.PageHeading(card.judge, card.about), said]
        caption, heads = f"Card of the judge {card.judge}", [one[:2] for one in COLUMNS]
        warned = Markup('<span class="uncalibrated">{}</span>')
        rows: list[_Line] = [
            (row, row.warning and warned.format(row.warning), row.figures) for row in card.rows
        ]
        blocks.append(_card_table(caption, "Metric", heads, rows))
        if card.people:
            caption, heads = f"Agreement of people with {card.judge}", [one[:2] for one in PEOPLE_COLUMNS]
            rows = [(row, row.by, row.figures) for row in card.people]
            blocks.append(_card_table(caption, "Agreement with people", heads, rows))
        if card.kinds:
            caption = f"Answers made worse, judged by {card.judge}"
            rows = [(row, "", row.caught) for row in card.rows]
            blocks.append(_card_table(caption, "Worse caught", card.kinds, rows))
        blocks += [card.costs] if card.costs else []
    return sections.section("judges", blocks)


def _card_table(
    caption: str, first: str, columns: Sequence[tuple[str, str]], rows: Sequence[_Line]
) -> sections.Table:
    heads = [sections.Column(title, about=about, is_number=True) for title, about in columns]
    lines = [
        (sections.TableFigure(row.metric, (small,) if small else ()), *figures)
        for row, small, figures in rows
    ]
    return sections.Table(caption, [sections.Column(first), *heads], lines, style="groups card")


def judge_sentences(data: ReportData) -> list[str]:
    return [_in_a_line(card) for card in judge_cards(data)]


def card_rows(data: ReportData) -> list[dict[str, Any]]:
    """Return schemas.JUDGE_CARDS, metrics by their names in the study."""
    rows = [] if data.judge_cards is None else data.judge_cards.to_dicts()
    return [{**row, "metric": row["metric"] and f"{row['judge']}.{row['metric']}"} for row in rows]


def _card(judge: str, data: ReportData) -> Card:
    assert data.judge_cards is not None  # noqa: S101 -- `judge_cards` has seen it
    rows = data.judge_cards.filter(judge=judge)
    by_place = {(r["metric"], r["measure"], r["slice"]): r for r in rows.iter_rows(named=True)}
    metrics = list(dict.fromkeys(r["metric"] for r in rows.iter_rows(named=True) if r["metric"] is not None))
    known, coins = stored_rows.calibrated_metrics(rows), stored_rows.no_better_than_coins(rows)
    kinds = [kind for kind in MUTATIONS if any((metric, "caught", kind) in by_place for metric in metrics)]
    infos = {one.name: one for one in data.metrics}
    found = tuple(
        CardRow(
            _title(infos.get(f"{judge}.{metric}"), metric),
            tuple(_first(by_place, metric, places) for _, _, places in COLUMNS),
            calibrated=f"{judge}.{metric}" in known,
            caught=tuple(_caught(by_place, metric, kind) for kind in kinds),
            coin=f"{judge}.{metric}" in coins,
        )
        for metric in metrics
    )
    return Card(
        judge,
        (data.judges or {}).get(judge, ""),
        _sentence(found),
        all(row.calibrated for row in found),
        tuple((kind.replace("_", " "), MUTATIONS[kind].about) for kind in kinds),
        found,
        _costs(by_place),
        tuple(_people(rows, infos, judge)),
    )


def _people(rows: pl.DataFrame, infos: Mapping[str, MetricInfo], judge: str) -> Iterator[CardRow]:
    labelled = rows.filter((pl.col("measure") == "labels") & (pl.col("value") > 0))
    for metric, part in labelled.select("metric", "slice").iter_rows():
        same = (pl.col("metric") == metric) & pl.col("slice").eq_missing(pl.lit(part, pl.String))
        of_part = {row["measure"]: row for row in rows.filter(same).iter_rows(named=True)}
        title = _title(infos.get(f"{judge}.{metric}"), metric)
        figures = tuple(_agreed(of_part, measure, part) for _, _, measure in PEOPLE_COLUMNS)
        yield CardRow(title, figures, part or _LABELLED)


def _agreed(rows: Mapping[str, Mapping[str, Any]], measure: str, part: str | None) -> sections.TableFigure:
    row = rows.get(measure)
    if row is None:
        of_file = measure in {"people", "people_alpha"} and part is None
        return sections.missing("a file does not say" if of_file else rows["labels"]["reason"] or "too few")
    if measure in _COUNTS and row["value"] is not None:
        return sections.TableFigure(count(round(row["value"])), why=row["reason"] or "")
    return _figure(row)


def _title(info: MetricInfo | None, metric: str) -> str:
    return metric.replace("_", " ").capitalize() if info is None else info.title.partition(" by ")[0]


def _sentence(rows: Sequence[CardRow]) -> str:
    open_rows = [row.metric for row in rows if not row.calibrated]
    coins = [row.metric for row in rows if row.coin]
    coin = ""
    if coins:
        coin = f"By the labels that there are, {listed(coins)} {_are(coins)} no better than chance. "
    if not open_rows:
        return coin + "People have labelled cases of all of its metrics."
    of = "It is" if len(open_rows) == len(rows) else f"{listed(open_rows)} {_are(open_rows)}"
    return coin + (
        f"{of} {stored_rows.UNCALIBRATED}: no labels of people show how far its numbers mean what they "
        "should. Answers made worse on purpose show only whether it detects them."
    )


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _first(by_place: ByPlace, metric: str, places: Sequence[_Place]) -> sections.TableFigure:
    rows = [row for place in places if (row := by_place.get((metric, *place))) is not None]
    if places[0][0] in stored_rows.AGREEMENT_MEASURES:
        of_people = (place for place in by_place if (place[2] or "").startswith(f"{PEOPLE}."))
        rows += [by_place[place] for place in of_people if place[:2] == (metric, places[0][0])]
    row = next((one for one in rows if one["value"] is not None), rows[0] if rows else None)
    if row is None:
        agrees = places[0][0] in stored_rows.AGREEMENT_MEASURES
        return sections.missing("no labelled cases" if agrees else "nothing was tried that would show it")
    return _figure(row)


def _figure(row: Mapping[str, Any]) -> sections.TableFigure:
    is_share = row["measure"] in _SHARES or (row["measure"] == "position_bias" and row["slice"] == "order")
    if row["value"] is None:
        return sections.missing(row["reason"] or "not measured")
    text = percent(row["value"]) if is_share else number(row["value"])
    ends = interval(row["low"], row["high"])
    if is_share and ends != MISSING:
        ends = f"{percent(row['low']).removesuffix(' %')}–{percent(row['high'])}"
    lines = [f"n = {count(row['n'])}"] if row["n"] is not None else []
    lines = lines if ends == MISSING else [ends, *lines]
    if row["measure"] == "accuracy" and row["reason"]:
        lines.append(row["reason"])
    named = {"quadratic", "equal labels", "places", "sides", "order"}
    if row["slice"] in named or (row["slice"] or "").startswith(f"{PEOPLE}."):
        lines.append(row["slice"])
    return sections.TableFigure(text, tuple(lines), row["reason"] or "")


def _caught(by_place: ByPlace, metric: str, kind: str) -> sections.TableFigure:
    row, tied = by_place.get((metric, "caught", kind)), by_place.get((metric, "tied", kind))
    if row is None:
        return sections.missing("this metric need not detect it")
    found = _figure(row)
    if row["value"] is None or tied is None or not tied["value"]:
        return found
    return sections.TableFigure(found.text, (*found.small, f"{percent(tied['value'])} as high"), found.why)


def _costs(by_place: ByPlace) -> str:
    def of(measure: str) -> float | None:
        row = by_place.get((None, f"{measure}_per_1000", None))
        return row["value"] if row else None

    calls, seconds, usd = of("calls"), of("seconds"), of("usd")
    tokens = [found for found in (of("prompt_tokens"), of("completion_tokens")) if found is not None]
    parts = [several(round(calls), "call")] if calls else []
    parts += [several(round(sum(tokens)), "token")] if tokens else []
    if seconds is not None:
        parts.append(f"{count(round(seconds)) if seconds >= 10 else number(seconds, 's')} s")
    if usd is not None:
        parts.append(f"US$\u00a0{usd:.4f}" if usd < 1 else f"US$\u00a0{usd:.2f}")
    return f"{several(1000, 'case')}, judged once by all of its metrics: {', '.join(parts)}." if parts else ""


def _in_a_line(card: Card) -> str:
    parts = []
    for row in card.rows:
        figures = {
            title: one for (title, *_), one in zip(COLUMNS, row.figures, strict=True) if one.text != MISSING
        }
        words = {"Gives a number": "a value for", "Changes its mind": "flips", "Worse caught": "detects"}
        shown = [_auc(figures["AUC"], is_coin=row.coin)] if "AUC" in figures else []
        shown += [f"{said} {figures[title].text}" for title, said in words.items() if title in figures]
        state = f" ({row.state})" if row.state else ""
        parts.append(f"{row.metric}{state}: {', '.join(shown) or 'nothing was measured'}")
    return f"{card.judge}, {card.about}: {'; '.join(parts)}."


def _auc(figure: sections.TableFigure, *, is_coin: bool) -> str:
    ends = f" [{figure.small[0]}]" if figure.small and not figure.small[0].startswith("n = ") else ""
    return f"AUC {figure.text}{ends}{' (no better than chance)' if is_coin else ''}"


MOST_CELLS = 30
Row = Mapping[str, Any]


def estimates_section(data: ReportData, labels: Mapping[str, str]) -> sections.PageSection | None:
    """Return the estimates of every criterion, if any."""
    blocks: list[sections.Block] = []
    titles: Mapping[Any, str] = {one.name: one.title for one in data.metrics}
    for name, together, cells in _estimates(data):
        title = titles.get(together[0]["metric"], together[0]["metric"])
        blocks += [sections.PageHeading(name), _estimate_sentence(together[0], title)]
        lines = [_line(titles.get(row["metric"], row["metric"]), row) for row in together]
        caption = f"All cells together, by judge: {name}"
        blocks.append(sections.Table(caption, _heads("Judge"), lines, style="risk stack"))
        if cells:
            blocks.append(sections.explain("estimated-cells", metric=title))
            lines = [
                (*_line(labels.get(row["cell"], row["cell"]), row), _behind(row))
                for row in cells[:MOST_CELLS]
            ]
            heads = [*_heads("Cell"), *sections.numbers("Combined, less the highest")]
            rest = left_out(IN_ROWS, cell=max(len(cells) - MOST_CELLS, 0))
            blocks.append(sections.Table(f"Cells by {name}", heads, lines, rest, "risk stack"))
    return sections.section("estimates", blocks) if blocks else None


def _heads(first: str) -> list[sections.Column]:
    return [
        sections.Column(first),
        *sections.numbers("People alone", "Judge alone", "Combined estimate", "Narrower", "Scores saved"),
    ]


def _estimates(data: ReportData) -> Iterator[tuple[str, Sequence[Row], Sequence[Row]]]:
    """Yield a criterion's name, its rows by judge, and those of cells by the judge that saves most."""
    if data.human_estimates is None:
        return
    by_criterion = data.human_estimates.group_by("rubric", "criterion", maintain_order=True)
    for (rubric, criterion), rows in by_criterion:
        judged = rows.filter(pl.col("cell").is_null()).iter_rows(named=True)
        together = sorted(judged, key=lambda row: -(row["saved"] or 0.0))
        cells = rows.drop_nulls("cell").filter(metric=together[0]["metric"]).iter_rows(named=True)
        ordered = sorted(cells, key=lambda row: (-(row["combined"] or -math.inf), row["cell"]))
        yield metric_name(str(rubric), None if criterion is None else str(criterion)), together, ordered


def estimate_sentences(data: ReportData) -> list[str]:
    titles: Mapping[Any, str] = {one.name: one.title for one in data.metrics}
    return [
        f"{name}: {_estimate_sentence(together[0], titles.get(together[0]['metric'], together[0]['metric']))}"
        for name, together, _ in _estimates(data)
    ]


def estimate_json(data: ReportData) -> list[dict[str, Any]]:
    """The metric is None, so that no row looks like a score."""
    if data.human_estimates is None:
        return []
    rows = data.human_estimates.iter_rows(named=True)
    names = ((row, metric_name(row["rubric"], row["criterion"])) for row in rows)
    return [{**row, "estimate_of": of, "judged_by": row["metric"], "metric": None} for row, of in names]


def _line(name: str, row: Row) -> tuple[sections.TableFigure, ...]:
    parts = [row["reason"]] if row["reason"] else []
    if row["judged"] is None:
        parts.append("no judgements" if not row["judgements"] else "the metric has no bounds")
    if row["left_out"]:
        parts.append(f"{several(row['left_out'], 'score')} left out that the queue did not draw")
    of = count(row["items"])
    return (
        sections.TableFigure(name, ("; ".join(parts),) if parts else ()),
        _mean(row, "people", f"{count(row['labels'])} of {of} scored"),
        _mean(row, "judged", f"{count(row['judgements'])} of {of} judged"),
        _mean(row, "combined"),
        sections.TableFigure(percent(None if row["width"] is None else max(1 - row["width"], 0.0))),
        sections.TableFigure(MISSING if row["saved"] is None else count(round(row["saved"]))),
    )


def _mean(row: Row, name: str, *small: str) -> sections.TableFigure:
    ends = interval(row[f"{name}_low"], row[f"{name}_high"])
    return sections.TableFigure(number(row[name]), (*([] if ends == MISSING else [ends]), *small))


def _behind(row: Row) -> sections.TableFigure:
    if row["leader"] is not None and row["leader"] == row["cell"]:
        return sections.TableFigure("the highest")
    ends = interval(row["difference_low"], row["difference_high"])
    return sections.TableFigure(with_sign(row["difference"]), () if ends == MISSING else (ends,))


def _estimate_sentence(row: Row, title: str) -> str:
    said = f"Of {several(row['items'], 'answer')}, people have scored {count(row['labels'])}."
    if row["combined_low"] is None:
        return f"{said} That is too few for an interval."
    if row["labels"] == row["items"]:
        return f"{said} So the estimate is the mean of their scores. {_needed(row)}"
    saved = round(row["saved"] or 0)
    width = 1.0 if row["width"] is None else row["width"]
    if saved:
        said += (
            f" With the {several(row['judgements'], 'judgement')} by {title} the interval is "
            f"{percent(max(1 - width, 0.0))} narrower, as if {several(saved, 'more answer')} had been scored."
        )
    else:
        said += " No judge makes the interval narrower."
    return f"{said} {_needed(row)}"


def _needed(row: Row) -> str:
    wanted = f"An interval of ±{row['wanted']:g}"
    needed = row["labels_needed"]
    if needed is None:
        return f"{wanted} is out of reach with these answers, all of them scored: it needs more questions."
    more = needed - row["labels"]
    return f"{wanted} is reached." if more <= 0 else f"{wanted} needs about {several(more, 'further score')}."
