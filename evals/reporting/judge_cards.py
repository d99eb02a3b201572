"""How far the judges of a study can be trusted, as the report shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from rag_assay.evals.judging.cards.mutations import MUTATIONS
from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.reporting.display import MISSING, count, interval, listed, number, percent, several
from rag_assay.evals.reporting.stored_cards import (
    AGREEMENT,
    UNCALIBRATED,
    calibrated_metrics,
    no_better_than_coins,
)
from rag_assay.evals.rubrics.rubric import PEOPLE

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


@dataclass(frozen=True)
class CardFigure:
    """One figure of a card: the value, lines below it (its interval, its cases), and what to know of it.

    text: a dash where there is no value: ``why`` says why
    """

    text: str
    small: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True)
class CardRow:
    """A metric of a judge: its figures by column, and its catches by kind of mutation.

    coin: people have labelled or scored cases of it, and by none of them its AUC is shown to be above 0.5
    """

    metric: str
    calibrated: bool
    figures: tuple[CardFigure, ...]
    caught: tuple[CardFigure, ...]
    coin: bool = False


@dataclass(frozen=True)
class PeopleRow:
    """How far a metric agrees with people: by a rubric's criterion, or by a file of labelled cases.

    by: `people.RUBRIC[.CRITERION]`, or `labelled cases`
    figures: by `PEOPLE_COLUMNS`
    """

    metric: str
    by: str
    figures: tuple[CardFigure, ...]


@dataclass(frozen=True)
class Card:
    """One judge.

    about: its kind, and the model that it asks
    sentence: what a reader must know first
    columns: title and explanation of each figure
    kinds: of mutations that were tried, with what each does
    costs: of 1,000 cases, in a sentence; empty where they are not known
    people: how far people agree with it, and with each other; people_columns: title and explanation of each
    """

    judge: str
    about: str
    sentence: str
    calibrated: bool
    columns: tuple[tuple[str, str], ...]
    kinds: tuple[tuple[str, str], ...]
    rows: tuple[CardRow, ...]
    costs: str
    people: tuple[PeopleRow, ...] = ()
    people_columns: tuple[tuple[str, str], ...] = tuple((title, about) for title, about, _ in PEOPLE_COLUMNS)


def judge_cards(data: ReportData) -> tuple[Card, ...]:
    """Return the cards of a study's judges, in the order of the study."""
    if data.judge_cards is None:
        return ()
    names = [name for name in data.judges or {} if name in set(data.judge_cards["judge"])]
    return tuple(_card(name, data) for name in names)


def judge_sentences(data: ReportData) -> list[str]:
    """Return, for the terminal, a sentence a judge that begins with its name."""
    return [_in_a_line(card) for card in judge_cards(data)]


def card_rows(data: ReportData) -> list[dict[str, Any]]:
    """Return the rows of all cards (schemas.JUDGE_CARDS), their metrics by the names that the study has."""
    rows = [] if data.judge_cards is None else data.judge_cards.to_dicts()
    return [{**row, "metric": row["metric"] and f"{row['judge']}.{row['metric']}"} for row in rows]


def _card(judge: str, data: ReportData) -> Card:
    assert data.judge_cards is not None  # noqa: S101 -- `judge_cards` has seen it
    rows = data.judge_cards.filter(judge=judge)
    by_place = {(r["metric"], r["measure"], r["slice"]): r for r in rows.iter_rows(named=True)}
    metrics = list(dict.fromkeys(r["metric"] for r in rows.iter_rows(named=True) if r["metric"] is not None))
    known, coins = calibrated_metrics(rows), no_better_than_coins(rows)
    kinds = [kind for kind in MUTATIONS if any((metric, "caught", kind) in by_place for metric in metrics)]
    infos = {one.name: one for one in data.metrics}
    found = tuple(
        CardRow(
            _title(infos.get(f"{judge}.{metric}"), metric),
            f"{judge}.{metric}" in known,
            tuple(_first(by_place, metric, places) for _, _, places in COLUMNS),
            tuple(_caught(by_place, metric, kind) for kind in kinds),
            f"{judge}.{metric}" in coins,
        )
        for metric in metrics
    )
    return Card(
        judge,
        (data.judges or {}).get(judge, ""),
        _sentence(found),
        all(row.calibrated for row in found),
        tuple((title, about) for title, about, _ in COLUMNS),
        tuple((kind.replace("_", " "), MUTATIONS[kind].about) for kind in kinds),
        found,
        _costs(by_place),
        tuple(_people(rows, infos, judge)),
    )


def _people(rows: pl.DataFrame, infos: Mapping[str, MetricInfo], judge: str) -> Iterator[PeopleRow]:
    """Yield a line for each metric and criterion that people have scored, or file that they have labelled."""
    labelled = rows.filter((pl.col("measure") == "labels") & (pl.col("value") > 0))
    for metric, part in labelled.select("metric", "slice").iter_rows():
        same = (pl.col("metric") == metric) & pl.col("slice").eq_missing(pl.lit(part, pl.String))
        of_part = {row["measure"]: row for row in rows.filter(same).iter_rows(named=True)}
        title = _title(infos.get(f"{judge}.{metric}"), metric)
        figures = tuple(_agreed(of_part, measure, part) for _, _, measure in PEOPLE_COLUMNS)
        yield PeopleRow(title, part or _LABELLED, figures)


def _agreed(rows: Mapping[str, Mapping[str, Any]], measure: str, part: str | None) -> CardFigure:
    row = rows.get(measure)
    if row is None:
        of_file = measure in {"people", "people_alpha"} and part is None
        return CardFigure(
            MISSING, why="a file does not say" if of_file else rows["labels"]["reason"] or "too few"
        )
    if measure in _COUNTS and row["value"] is not None:
        return CardFigure(count(round(row["value"])), why=row["reason"] or "")
    return _figure(row)


def _title(info: MetricInfo | None, metric: str) -> str:
    """Return how a metric is called among those of its judge."""
    return metric.replace("_", " ").capitalize() if info is None else info.title.partition(" by ")[0]


def _sentence(rows: Sequence[CardRow]) -> str:
    open_rows = [row.metric for row in rows if not row.calibrated]
    coins = [row.metric for row in rows if row.coin]
    coin = (
        f"By the labels that there are, {listed(coins)} {_are(coins)} no better than a coin. "
        if coins
        else ""
    )
    if not open_rows:
        return coin + "People have labelled cases of all of its metrics."
    of = "It is" if len(open_rows) == len(rows) else f"{listed(open_rows)} {_are(open_rows)}"
    return coin + (
        f"{of} {UNCALIBRATED}: no labels of people show how far its numbers mean what they should. "
        "Answers made worse on purpose show only whether it notices them."
    )


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _first(
    by_place: Mapping[tuple[str | None, str, str | None], Mapping[str, Any]],
    metric: str,
    places: Sequence[_Place],
) -> CardFigure:
    """Return the figure of the first of these measures that was taken."""
    rows = [row for place in places if (row := by_place.get((metric, *place))) is not None]
    if places[0][0] in AGREEMENT:
        rows += [
            row
            for (of, measure, part), row in by_place.items()
            if of == metric and measure == places[0][0] and (part or "").startswith(f"{PEOPLE}.")
        ]
    row = next((one for one in rows if one["value"] is not None), rows[0] if rows else None)
    if row is None:
        missing = "no labelled cases" if places[0][0] in AGREEMENT else "nothing was tried that would show it"
        return CardFigure(MISSING, why=missing)
    return _figure(row)


def _figure(row: Mapping[str, Any]) -> CardFigure:
    is_share = row["measure"] in _SHARES or (row["measure"] == "position_bias" and row["slice"] == "order")
    if row["value"] is None:
        return CardFigure(MISSING, why=row["reason"] or "not measured")
    text = percent(row["value"]) if is_share else number(row["value"])
    ends = interval(row["low"], row["high"])
    if is_share and ends != MISSING:
        ends = f"{percent(row['low']).removesuffix(' %')}–{percent(row['high'])}"
    lines = [f"n = {count(row['n'])}"] if row["n"] is not None else []
    lines = lines if ends == MISSING else [ends, *lines]
    if row["measure"] == "accuracy" and row["reason"]:
        lines.append(row["reason"])
    if row["slice"] in {"quadratic", "equal labels", "places", "sides", "order"}:
        lines.append(row["slice"])
    if row["slice"] and row["slice"].startswith(f"{PEOPLE}."):
        lines.append(row["slice"])
    return CardFigure(text, tuple(lines), row["reason"] or "")


def _caught(
    by_place: Mapping[tuple[str | None, str, str | None], Mapping[str, Any]], metric: str, kind: str
) -> CardFigure:
    row, tied = by_place.get((metric, "caught", kind)), by_place.get((metric, "tied", kind))
    if row is None:
        return CardFigure(MISSING, why="this metric need not notice it")
    found = _figure(row)
    if row["value"] is None or tied is None or not tied["value"]:
        return found
    return CardFigure(found.text, (*found.small, f"{percent(tied['value'])} as high"), found.why)


def _costs(by_place: Mapping[tuple[str | None, str, str | None], Mapping[str, Any]]) -> str:
    def of(measure: str) -> float | None:
        row = by_place.get((None, f"{measure}_per_1000", None))
        return row["value"] if row else None

    calls, seconds, usd = of("calls"), of("seconds"), of("usd")
    tokens = [found for found in (of("prompt_tokens"), of("completion_tokens")) if found is not None]
    parts = [
        *([several(round(calls), "call")] if calls else []),
        *([several(round(sum(tokens)), "token")] if tokens else []),
        *(
            [f"{count(round(seconds)) if seconds >= 10 else number(seconds, 's')} s"]
            if seconds is not None
            else []
        ),
        *([f"US$\u00a0{usd:.4f}" if usd < 1 else f"US$\u00a0{usd:.2f}"] if usd is not None else []),
    ]
    return f"{several(1000, 'case')}, judged once by all of its metrics: {', '.join(parts)}." if parts else ""


def _in_a_line(card: Card) -> str:
    parts = []
    for row in card.rows:
        figures = dict(zip((title for title, _ in card.columns), row.figures, strict=True))
        shown = [_auc(figures["AUC"], is_coin=row.coin)] if figures["AUC"].text != MISSING else []
        shown += [
            f"{words} {figure.text}"
            for title, words in (
                ("Gives a number", "a number in"),
                ("Changes its mind", "flips"),
                ("Worse caught", "notices"),
            )
            if (figure := figures[title]).text != MISSING
        ]
        state = "" if row.calibrated else f" ({UNCALIBRATED})"
        parts.append(f"{row.metric}{state}: {', '.join(shown) or 'nothing was measured'}")
    return f"{card.judge}, {card.about}: {'; '.join(parts)}."


def _auc(figure: CardFigure, *, is_coin: bool) -> str:
    """Return an AUC with its interval, and whether it is that of a coin."""
    ends = f" [{figure.small[0]}]" if figure.small and not figure.small[0].startswith("n = ") else ""
    return f"AUC {figure.text}{ends}{' (no better than a coin)' if is_coin else ''}"
