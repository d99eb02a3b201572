"""The decision of a study: which cell to use, what it is expected to lose, and what the data cannot say.

A cheaper cell is recommended only where its expected loss against the leader is at most half of the margin
and it is not significantly worse; else the leader is. A difference that is shown to be within the margin
does not matter, however significant it is. The rule was chosen by simulation (`make bench-verdict`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from html import escape
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Protocol

import yaml

from rag_assay.evals.metrics.costs import RunningCost
from rag_assay.evals.statistics.comparison import Bounded, margin_of
from rag_assay.evals.statistics.question_clusters import Clustering
from rag_assay.evals.statistics.significance import FEWEST_CLUSTERS
from rag_assay.evals.study.cells import AXES, varying_axes
from rag_assay.evals.study.sections import Prefer

if TYPE_CHECKING:
    from rag_assay.evals.study.complexity import Simplicity

NAMED = 2  # tied cells that are named; the rest are counted
FEW = 12  # clusters; with fewer, only large differences are found


TEXTS: Mapping[str, Sequence[str]] = yaml.load(
    Path(__file__).with_name("verdict.yaml").read_text("utf-8"), yaml.CSafeLoader
)
"""The sentences of a verdict in English, which are stored, and in German, for the app."""
JUDGES = tuple(name.removeprefix("judged_by_") for name in TEXTS if name.startswith("judged_by_"))


def verdict_on(
    study: str, rows: Sequence[Row], metrics: Sequence[MeasuredMetric], facts: VerdictInputs
) -> Verdict:
    found = decide(study, rows, metrics, facts)
    return replace(found, sentences=verdict_sentences(found, facts.labels, judged=facts.judged))


def verdict_sentences(
    found: Verdict, labels: Mapping[str, str], *, judged: str | None = None, german: bool = False
) -> tuple[str, ...]:
    """Return the decision and then its reasons.

    labels: cell -> what it is called
    judged: `JudgedScores.judged_by` of the metric; None: no judge gives its values
    """
    words = _Wording(found, labels, int(german))
    leader, chosen = found.leader, found.recommended
    if leader is None or chosen is None:
        same = (both[int(german)] for both in TEXTS.values() if both[0] == found.reason)
        return (words("none", reason=next(same, found.reason)),)
    lines = [words("use", label=chosen.label)]
    lines += words.leader(leader, chosen) if chosen == leader else words.cheaper(leader, chosen)
    lines += words.others()
    lines += words.limits(chosen)
    if judged:
        lines.append(words(f"judged_by_{judged if judged in JUDGES else 'other'}"))
    # A comma is a decimal sign in German; the app groups digits by thin spaces.
    return tuple(re.sub(r"(?<=\d),(?=\d{3})", "\u202f", one) if german else one for one in lines)


@dataclass(frozen=True)
class _Wording:
    found: Verdict
    labels: Mapping[str, str]
    language: int

    def __call__(self, name: str, **values: object) -> str:
        return TEXTS[name][self.language].format(**values)

    def leader(self, leader: Pick, chosen: Pick) -> list[str]:
        found, of = self.found, self._measured(leader)
        if not found.tied:
            return [self("best" if found.worse else "only", of=of)]
        open_ones = [cell for cell in found.tied if cell not in found.within_margin]
        lines = [self("leads", of=of)]
        for how, cells in (("tied", open_ones), ("within", found.within_margin)):
            if names := [self.labels.get(cell, cell) for cell in cells]:
                lines.append(self(f"{how}_1" if len(names) == 1 else how, names=self._listed(names)))
        known = chosen.usd_per_1000 is not None or found.prefer == "simplicity"
        if found.prefer != "quality" and found.margin is not None and known:
            most = _number(found, found.margin / 2)
            lines.append(self("none_cheaper", what=self(found.prefer), most=most))
        return lines

    def cheaper(self, leader: Pick, chosen: Pick) -> list[str]:
        found = self.found
        if found.by is not None and not (chosen.expected_loss or 0.0) > 0:
            return [self("answers_best", by=found.by, of=self._measured(chosen))]
        lines = [self("leader", label=leader.label, of=self._measured(leader))]
        saved = {"what": self(found.prefer), "saved": self._saved(leader, chosen)}
        lines.append(self("chosen", label=chosen.label, value=self._value(chosen), **saved))
        if found.generalises and found.margin is not None and chosen.expected_loss is not None:
            loss, most = _number(found, chosen.expected_loss), _number(found, found.margin)
            lines.append(self("loses", loss=loss, p=self._percent(chosen.p_loss), most=most))
            within = chosen.cell in found.within_margin
            lines.append(self("within_1", names=chosen.label) if within else self("not_within"))
        return lines

    def _saved(self, leader: Pick, chosen: Pick) -> str:
        usd = (chosen.usd_per_1000, leader.usd_per_1000)
        seconds = (chosen.seconds, leader.seconds)
        if self.found.prefer == "simplicity":
            return ""
        if None not in usd and usd[0] != usd[1] and self.found.prefer == "cost":
            return self("usd", a=dollars(usd[0] or 0.0), b=dollars(usd[1] or 0.0))
        if None not in seconds:
            return self("seconds", a=f"{seconds[0]:.2g}", b=f"{seconds[1]:.2g}")
        return ""

    def others(self) -> list[str]:
        lines = []
        if n := len(self.found.worse):
            every = not self.found.tied and n > 1
            lines.append(self("all_worse") if every else self("worse_1" if n == 1 else "worse", n=f"{n:,}"))
        if n := len(self.found.unranked):
            lines.append(self("unranked_1" if n == 1 else "unranked", n=f"{n:,}"))
        return lines

    def limits(self, chosen: Pick) -> list[str]:
        found = self.found
        noun = "document" if found.clusters_by == "documents" else "question"
        several = self._several(found.documents, noun)
        lines = []
        if found.context == "tokens":
            budget = found.metric.rpartition("@")[2].removesuffix("tokens")
            lines.append(self("by_tokens", n=f"{int(budget):,}"))
        elif found.context == "passages":
            lines.append(self("by_passages", title=found.title))
        if not found.generalises:
            better = 2 * FEW
            claim = "no_claim_1" if found.documents == 1 else "no_claim"
            others = self(f"{noun}s")
            lines.append(self(claim, several=several, others=others, least=FEWEST_CLUSTERS, better=better))
        elif found.documents < FEW and found.detectable is not None:
            lines.append(self("few", several=several, below=_number(found, found.detectable)))
        elif found.documents_needed is not None:
            lines.append(self("needed", several=self._several(round_up(found.documents_needed), noun)))
        if found.prefer in ("cost", "latency") and chosen.usd_per_1000 is None:
            lines.append(self("costs_unknown" if chosen.seconds is None else "cost_unknown"))
        return lines

    def _measured(self, pick: Pick) -> str:
        found = self.found
        sample = self._several(found.questions, "question")
        if found.clusters_by == "documents":
            documents = self._several(found.documents, "document")
            sample = self("about", questions=sample, documents=documents)
        if found.subset != "all":
            subset = found.subset.replace("sample of", self("sample"))
            sample = self("of_subset", subset=subset, text=sample)
        return self("on", title=found.title, value=self._value(pick), sample=sample)

    def _value(self, pick: Pick) -> str:
        value = _number(self.found, pick.value)
        if pick.low is None or pick.high is None:
            return value
        low, high = _number(self.found, pick.low), _number(self.found, pick.high)
        ends = self("to", low=low, high=high) if "−" in low + high else f"{low}–{high}"
        return f"{value} [{ends}]"

    def _percent(self, share: float | None) -> str:
        if share is None:
            return self("unknown")
        return self("below_1") if share < 0.01 else f"{share:.0%}".replace("%", " %")

    def _listed(self, names: Sequence[str]) -> str:
        shown = list(names)
        if len(names) > NAMED + 1:
            shown = [*names[:NAMED], self("more", n=len(names) - NAMED)]
        return shown[0] if len(shown) == 1 else self("and", first=", ".join(shown[:-1]), last=shown[-1])

    def _several(self, n: int, noun: str) -> str:
        return f"{n:,} {self(noun if n == 1 else f'{noun}s')}"


def _number(found: Verdict, value: float | None) -> str:
    if value is None:
        return "–"
    text = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3f}"
    return (text + (f" {found.unit}" if found.unit else "")).replace("-", "−")


def round_up(n: int) -> int:
    """Round up to two significant digits.

    >>> round_up(87), round_up(238), round_up(1001)
    (87, 240, 1100)
    """
    step = 10 ** max(0, len(str(n)) - 2)
    return -(-n // step) * step


def dollars(value: float) -> str:
    """At least two significant digits.

    >>> dollars(0.0), dollars(12.345), dollars(0.01234), dollars(1234.5)
    ('US$ 0', 'US$ 12.35', 'US$ 0.012', 'US$ 1,234.50')
    """
    if value == 0:
        return "US$ 0"
    return f"US$ {value:,.2f}" if value >= 1 else f"US$ {value:.2g}"


Row = Mapping[str, Any]
ALL = "all"
NOT_RANKED, NOT_RUN = TEXTS["not_ranked"][0], TEXTS["not_run"][0]
OUT_OF_REACH = 20  # times as many documents: a larger number helps no reader


class MeasuredMetric(Bounded, Protocol):
    """A metric, for verdicts."""

    @property
    def title(self) -> str:
        """Its name for readers."""

    @property
    def kind(self) -> str:
        """What it measures: retrieval, answer or cost."""

    @property
    def unit(self) -> str:
        """Of its values; "" where it has none."""

    @property
    def higher_is_better(self) -> bool:
        """Whether the larger value is the better one."""


@dataclass(frozen=True)
class Pick:
    """A cell as a verdict names it (schemas.PICK)."""

    cell: str
    label: str
    rank: int | None
    value: float
    low: float | None
    high: float | None
    coverage: float
    p_best: float | None
    expected_loss: float | None
    p_loss: float | None
    bound: float | None
    usd_per_1000: float | None
    seconds: float | None


_LISTS = ("tied", "within_margin", "worse", "unranked", "sentences")


@dataclass(frozen=True)
class Verdict:
    """The decision of a study (schemas.VERDICTS)."""

    study: str
    subset: str
    metric: str
    title: str
    unit: str
    higher_is_better: bool
    margin: float | None
    prefer: str
    questions: int
    documents: int
    clusters_by: str
    generalises: bool
    cells: int
    coverage: float | None
    by: str | None = None
    context: str | None = None
    leader: Pick | None = None
    recommended: Pick | None = None
    tied: tuple[str, ...] = ()
    within_margin: tuple[str, ...] = ()
    worse: tuple[str, ...] = ()
    unranked: tuple[str, ...] = ()
    detectable: float | None = None
    documents_needed: int | None = None
    reason: str | None = None
    sentences: tuple[str, ...] = ()

    @classmethod
    def of_row(cls, row: Row) -> Verdict:
        picks = {name: Pick(**row[name]) if row[name] else None for name in ("leader", "recommended")}
        lists = {name: tuple(row[name] or ()) for name in _LISTS}
        return cls(**{**row, **picks, **lists})

    def row(self) -> dict[str, Any]:
        return asdict(self)

    def _repr_html_(self) -> str:
        decision, *reasons = map(escape, self.sentences or ("There is no verdict.",))
        return f"<p><strong>{decision}</strong> {' '.join(reasons)}</p>"


@dataclass(frozen=True)
class VerdictInputs:
    """What is known of the cells beside their leaderboard, by cell.

    judged: `JudgedScores.judged_by` of the first metric
    """

    labels: Mapping[str, str]
    simple: Mapping[str, Simplicity]
    costs: Mapping[str, RunningCost]
    clusters: Clustering
    prefer: Prefer = "cost"
    margin: float | None = None
    chunks_differ: bool = False
    judged: str | None = None


def decide(
    study: str, rows: Sequence[Row], metrics: Sequence[MeasuredMetric], facts: VerdictInputs
) -> Verdict:
    """Return the verdict on all questions or, without, the largest sample; the first metric ranks."""
    primary = metrics[0]
    subset = _main_subset(rows)
    mine = [row for row in rows if row["subset"] == subset]
    first = {row["cell"]: row for row in mine if row["metric"] == primary.name}
    ranked = sorted((row for row in first.values() if row["rank"] is not None), key=_place)
    questions = max((row["n"] or 0 for row in first.values()), default=0)
    documents = max((row["clusters"] or 0 for row in first.values()), default=0) or questions
    found = Verdict(
        study,
        subset,
        primary.name,
        primary.title,
        primary.unit,
        primary.higher_is_better,
        margin_of(primary, facts.margin, primary),
        facts.prefer,
        questions,
        documents,
        facts.clusters.by if documents < questions else "questions",
        documents >= FEWEST_CLUSTERS,
        len(first),
        min(map(_coverage, first.values()), default=None),
        context=_context(primary.name, facts.chunks_differ),
        unranked=tuple(sorted(row["cell"] for row in first.values() if row["rank"] is None)),
        reason=None if ranked else NOT_RANKED if first else NOT_RUN,
    )
    return _decided(found, mine, ranked, metrics, facts) if ranked else found


def _decided(
    found: Verdict,
    mine: Sequence[Row],
    ranked: Sequence[Row],
    metrics: Sequence[MeasuredMetric],
    facts: VerdictInputs,
) -> Verdict:
    primary = metrics[0]
    name = next((row["leader"] for row in ranked if row["leader"]), ranked[0]["cell"])
    ranked = sorted(ranked, key=lambda row: (row["cell"] != name, _place(row)))
    leader, rows = ranked[0], {row["cell"]: row for row in ranked}
    tied = tuple(row["cell"] for row in ranked[1:] if row["tied"] is not False)
    close = [name, *(cell for cell in tied if _loses_little(rows[cell], leader, found))]
    best, by, among = name, None, close
    if primary.kind == "retrieval" and len({rows[cell]["generator"] for cell in close}) > 1:
        best, by, among = _by_answers(mine, metrics, close, facts, primary)
    chosen = _preferred(among, best, facts)
    within = tuple(cell for cell in tied if rows[cell]["within_margin"])
    open_ones = [rows[cell] for cell in tied if cell not in within]
    finds = [row["detectable"] for row in ranked[1:] if row["detectable"] is not None]
    return replace(
        found,
        by=by,
        leader=_pick(leader, facts, leader),
        recommended=_pick(rows[chosen], facts, leader),
        tied=tied,
        within_margin=within,
        worse=tuple(row["cell"] for row in ranked[1:] if row["tied"] is False),
        detectable=median(finds) if finds else None,
        documents_needed=_documents_needed(open_ones, found),
    )


def _loses_little(row: Row, leader: Row, found: Verdict) -> bool:
    """Return whether a tied cell is close enough to the leader to be taken for being cheaper."""
    if found.margin is None:
        return False
    if not found.generalises:
        return abs(row["value"] - leader["value"]) <= found.margin
    return row["expected_loss"] is not None and row["expected_loss"] <= found.margin / 2


def _by_answers(
    mine: Sequence[Row],
    metrics: Sequence[MeasuredMetric],
    close: list[str],
    facts: VerdictInputs,
    primary: MeasuredMetric,
) -> tuple[str, str | None, list[str]]:
    """Return the best cell, the metric, and the cells near it by the first metric of answers."""
    for metric in (one for one in metrics if one.kind == "answer"):
        margin = margin_of(metric, facts.margin, primary)
        losses = {
            row["cell"]: row["expected_loss"]
            for row in mine
            if row["metric"] == metric.name and row["cell"] in close and row["expected_loss"] is not None
        }
        if margin is not None and len(losses) > 1:
            least = min(losses.values())
            among = [cell for cell in close if cell in losses and losses[cell] - least <= margin / 2]
            return min(among, key=lambda cell: (losses[cell], close.index(cell))), metric.name, among
    return close[0], None, close


def _preferred(among: Sequence[str], best: str, facts: VerdictInputs) -> str:
    """Return the cheapest cell by what the study prefers; the best unless another is cheaper."""
    left = list(among)
    for value, noise in _KEYS[facts.prefer]:
        known = {cell: found for cell in left if (found := value(facts, cell)) is not None}
        if not known or (best in left and best not in known):
            continue
        least = min(known.values())
        left = [cell for cell in left if cell in known and known[cell] - least <= noise(known[cell])]
    return best if best in left else left[0]


def _dollars(facts: VerdictInputs, cell: str) -> float | None:
    return facts.costs.get(cell, RunningCost()).usd


def _median_seconds(facts: VerdictInputs, cell: str) -> float | None:
    return facts.costs.get(cell, RunningCost()).p50


def _taken(part: str) -> Callable[[VerdictInputs, str], float | None]:
    return lambda facts, cell: getattr(facts.simple.get(cell), part, None)


_Key = tuple[Callable[[VerdictInputs, str], float | None], Callable[[float], float]]
_DOLLARS: _Key = (_dollars, lambda usd: max(0.01, 0.1 * usd))  # token counts of the same model vary by 10 %
_SECONDS: _Key = (_median_seconds, lambda s: max(0.05, 0.25 * s))  # a machine's load varies by a quarter
_KEYS: Mapping[Prefer, tuple[_Key, ...]] = {
    "quality": (),
    "cost": (_DOLLARS, _SECONDS),
    "latency": (_SECONDS, _DOLLARS),
    "simplicity": tuple((_taken(part), lambda _n: 0.0) for part in ("calls", "models", "parts")),
}
"""What is least, in this order; what differs by less than the noise is equal."""


def _documents_needed(open_ones: Sequence[Row], found: Verdict) -> int | None:
    needed = sorted(row["questions_needed"] for row in open_ones if row["questions_needed"] is not None)
    half = math.ceil(len(open_ones) / 2)
    if not open_ones or len(needed) < half or not found.questions:
        return None
    documents = math.ceil(needed[half - 1] * found.documents / found.questions)
    return documents if documents <= OUT_OF_REACH * found.documents else None


def _pick(row: Row, facts: VerdictInputs, leader: Row) -> Pick:
    cell = row["cell"]
    stored = ("rank", "value", "low", "high", "p_best", "p_loss", "bound")
    return Pick(
        cell=cell,
        label=facts.labels.get(cell, cell),
        coverage=_coverage(row),
        expected_loss=0.0 if cell == leader["cell"] else row["expected_loss"],
        usd_per_1000=_dollars(facts, cell),
        seconds=_median_seconds(facts, cell),
        **{name: row[name] for name in stored},
    )


def _coverage(row: Row) -> float:
    answered = row["answered"]
    return float(min(row["coverage"] or 0.0, 1.0 if answered is None else answered))


def _context(metric: str, chunks_differ: bool) -> str | None:
    if not chunks_differ or "@" not in metric:
        return None
    return "tokens" if metric.endswith("tokens") else "passages"


def labels_of(rows: Sequence[Row]) -> dict[str, str]:
    subset = _main_subset(rows)
    places = {row["cell"]: [row[axis] for axis in AXES] for row in rows if row["subset"] == subset}
    axes = [AXES.index(axis) for axis in varying_axes(places.values())]
    return {
        cell: " · ".join(place[at] for at in axes if place[at] is not None) or cell
        for cell, place in places.items()
    }


def _main_subset(rows: Sequence[Row]) -> str:
    names = {row["subset"] for row in rows}
    if ALL in names or not names:
        return ALL
    return max(names, key=lambda name: (max(row["n"] or 0 for row in rows if row["subset"] == name), name))


def _place(row: Row) -> tuple[int, str]:
    return row["rank"], row["cell"]
