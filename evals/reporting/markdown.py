"""The report as Markdown, as a code host shows it: verdict, trust, leaderboards, notes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from rag_assay.evals.metrics.costs import RunningCost
from rag_assay.evals.reporting import limits
from rag_assay.evals.reporting.contexts import price, running
from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.reporting.display import (
    MISSING,
    interval,
    number,
    p_value,
    percent,
    plain,
    several,
    with_sign,
)
from rag_assay.evals.reporting.standings import ALL, CellStanding, Result, Subset, subsets, varying_axes
from rag_assay.evals.reporting.trust import trust_lines

_SIGNS = re.compile(r"[\\`*_{}\[\]|<>~&$]|^[#+\-=](?=\s|$|[#=+\-])|(?<=^\d)[.)]|(?<=^\d\d)[.)]")
_LINKS = re.compile(r"(?<=[A-Za-z])(:)(?=//)|(?<=[Ww])(\.)(?=\w)")
_MENTIONS = re.compile(r"@(?=\w)|#(?=\d)|(?<=GH)-(?=\d)")
NOWHERE = "\u200b"  # after an `@` or `#`: no user or issue of a code host is notified
TIED = "≈"


def render_markdown(data: ReportData) -> str:
    """Return the report as Markdown (GitHub's dialect); all text of the study is escaped."""
    decision, *why = map(escape_markdown, data.verdict.sentences)
    blocks = [f"# {escape_markdown(data.study)}"]
    blocks += [escape_markdown(text) for text in (data.part, data.description) if text]
    blocks += [f"**{decision}**", "\n".join(f"- {sentence}" for sentence in why)]
    rows = [
        (line.sign, escape_markdown(line.name), line.word, escape_markdown(line.text))
        for line in trust_lines(data)
    ]
    blocks += ["## What this rests on", (_table(("", "What", "State", "Because"), rows, 4))]
    if data.notes:
        blocks += ["## Read this first", "\n".join(f"- {escape_markdown(note)}" for note in data.notes)]
    costs = running(data)
    for subset in subsets(data):
        blocks += _board(data, subset, costs)
    made = data.created_at.strftime("%Y-%m-%d %H:%M UTC")
    blocks.append(f"*{escape_markdown(f'Made {made}, seed {data.seed}. Intervals: {data.interval}.')}*")
    return "\n\n".join(block for block in blocks if block) + "\n"


def escape_markdown(text: str) -> str:
    r"""Return a text as Markdown that shows it as it is: no markup, link, mention or line break of its own.

    >>> escape_markdown("a|b <b>*c*</b>") == r"a\|b \<b\>\*c\*\</b\>"
    True
    >>> texts = "1. one\n# two", "# one", "https://x.example www.example"
    >>> tuple(map(escape_markdown, texts))
    ('1\\. one # two', '\\# one', 'https\\://x.example www\\.example')
    >>> escape_markdown("@you") == "@" + NOWHERE + "you"
    True
    """
    flat = plain(re.sub(r"\s+", " ", text))
    signs = _SIGNS.sub(lambda found: f"\\{found[0]}", flat)
    return _MENTIONS.sub(lambda found: found[0] + NOWHERE, _LINKS.sub(lambda found: f"\\{found[0]}", signs))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], right: int) -> str:
    """Return a table whose columns from ``right`` on are numbers."""
    rule = ["---" if at < right else "---:" for at in range(len(head))]
    lines = [head, rule, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _board(data: ReportData, subset: Subset, costs: Mapping[str, RunningCost]) -> list[str]:
    recommended = data.verdict.recommended if subset.name == data.verdict.subset else None
    taken = recommended.cell if recommended else None
    n = several(subset.n(data.primary), "question")
    title = "Leaderboard" if subset.name == ALL else f"Leaderboard on a {subset.name}"
    shown = subset.standings[: limits.LEADERBOARD_ROWS]
    axes = varying_axes(subset.standings)
    head = [
        "Rank",
        "Pipeline",
        data.primary.heading,
        "Difference",
        "Tie group",
        "Chance of being best",
        "Coverage",
    ]
    head += ["US$ / 1,000", "p50 s", "p95 s", *(one.heading for one in data.metrics[1:])]
    rows = []
    for one in shown:
        name = escape_markdown(one.cell.label(axes)) + (" **(recommended)**" if one.cell.key == taken else "")
        cost = costs.get(one.cell.key, RunningCost())
        usd = MISSING if cost.usd is None else price(cost.usd)
        rows.append(
            [
                _rank(one, data.primary),
                name,
                *_standing(one, data),
                *([usd, number(cost.p50, "s"), number(cost.p95, "s")]),
                *([_value(one.results.get(metric.name), metric) for metric in data.metrics[1:]]),
            ]
        )
    parts = [
        f"## {escape_markdown(title)}",
        f"{escape_markdown(f'{n}; ranked by {data.primary.title}.')} {TIED} tied with the leader.",
        _table([escape_markdown(text) for text in head], rows, 2),
    ]
    left_out = len(subset.standings) - len(shown)
    return [*parts, f"{several(left_out, 'further pipeline')} left out."] if left_out else parts


def _rank(one: CellStanding, metric: MetricInfo) -> str:
    result = one.results.get(metric.name)
    if one.rank is None:
        return MISSING
    return f"{TIED} {one.rank}" if result and result.tied and result.p is not None else str(one.rank)


def _standing(one: CellStanding, data: ReportData) -> list[str]:
    result = one.results.get(data.primary.name)
    return [
        _value(result, data.primary),
        _difference(result, one, data.primary),
        MISSING if one.tie_group is None else str(one.tie_group),
        percent(one.p_best),
        percent(one.coverage(data.primary)),
    ]


def _value(result: Result | None, metric: MetricInfo) -> str:
    if result is None or result.value is None:
        return MISSING
    ends = result.ends(metric.unit).replace("[", r"\[").replace("]", r"\]")
    return result.written(metric.unit) + ends


def _difference(result: Result | None, one: CellStanding, metric: MetricInfo) -> str:
    if result is None or one.rank is None or result.difference is None:
        return MISSING
    if result.p is None:
        return "leader"
    ends = interval(result.difference_low, result.difference_high, metric.unit)
    return (
        f"{with_sign(result.difference, metric.unit)} \\[{ends}\\] {p_value(result.p).replace('<', '&lt;')}"
    )


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown; a cell's text is shown as it is.

    >>> print(markdown_table(["a"], [["x|y"]]))
    | a |
    | --- |
    | x\\|y |
    """
    lines = [head, ["---"] * len(head), *([escape_markdown(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
