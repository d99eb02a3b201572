"""The verdict in sentences: what to use, why, and what the data cannot say. One idea a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rag_assay.evals.statistics.verdict import (
    FEWEST_CLUSTERS,
    MeasuredMetric,
    Pick,
    Row,
    Verdict,
    VerdictInputs,
    decide,
)

NAMED = 2  # tied cells that are named; the rest are counted
FEW = 12  # clusters; with fewer, only large differences are found


def verdict_on(
    study: str, rows: Sequence[Row], metrics: Sequence[MeasuredMetric], facts: VerdictInputs
) -> Verdict:
    """Decide by a leaderboard (`decide`), and write the decision in sentences."""
    found = decide(study, rows, metrics, facts)
    lines = verdict_sentences(found, facts.labels)
    if facts.judged and found.leader:
        lines += ("A model judges this metric; its judge card says how far people agree with it.",)
    return replace(found, sentences=lines)


def verdict_sentences(found: Verdict, labels: Mapping[str, str]) -> tuple[str, ...]:
    """Return the verdict in sentences, the decision first.

    labels: cell -> its name for readers
    """
    leader, chosen = found.leader, found.recommended
    if leader is None or chosen is None:
        return (f"No pipeline is recommended: {found.reason}.",)
    lines = [f"Use {chosen.label}."]
    lines += _leader(found, leader, chosen, labels) if chosen == leader else _cheaper(found, leader, chosen)
    lines += _others(found)
    return (*lines, *_limits(found, chosen))


def _leader(found: Verdict, leader: Pick, chosen: Pick, labels: Mapping[str, str]) -> list[str]:
    of = f"{found.title} {_value(found, leader)} on {_sample(found)}"
    if not found.tied and not found.worse:
        return [f"It is the only pipeline with a rank: {of}."]
    if not found.tied:
        return [f"It is the best: {of}."]
    names = [labels.get(cell, cell) for cell in found.tied]
    verb = "is" if len(names) == 1 else "are"
    lines = [f"It leads by {of}.", f"{_listed(names)} {verb} tied with it."]
    known = chosen.usd_per_1000 is not None or found.prefer == "simplicity"
    if found.prefer != "quality" and found.margin is not None and known:
        lines.append(
            f"No tied pipeline is {_what(found.prefer)} at an expected loss of at most "
            f"{_number(found, found.margin / 2)}, half of the margin."
        )
    return lines


def _cheaper(found: Verdict, leader: Pick, chosen: Pick) -> list[str]:
    if found.by is not None and not (chosen.expected_loss or 0.0) > 0:
        return [f"It ranks as well as any and answers best by {found.by}: {_measured(found, chosen)}."]
    lines = [f"{leader.label} leads by {found.title} {_value(found, leader)} on {_sample(found)}."]
    saved = f"{_what(found.prefer)}{_saved(found, leader, chosen)}"
    lines.append(f"{chosen.label} has {_value(found, chosen)} and is {saved}.")
    if found.generalises and found.margin is not None and chosen.expected_loss is not None:
        lines.append(
            f"It is expected to lose {_number(found, chosen.expected_loss)} against the leader, with a "
            f"{_percent(chosen.p_loss)} chance of losing more than {_number(found, found.margin)}."
        )
        lines.append(f"That they are equivalent is {'' if found.equivalent else 'not '}shown.")
    return lines


def _measured(found: Verdict, chosen: Pick) -> str:
    return f"{found.title} {_value(found, chosen)} on {_sample(found)}"


def _what(prefer: str) -> str:
    return {"cost": "cheaper", "latency": "faster", "simplicity": "simpler"}[prefer]


def _saved(found: Verdict, leader: Pick, chosen: Pick) -> str:
    """Return what the recommended cell costs beside the leader, where that is known and differs."""
    usd = (chosen.usd_per_1000, leader.usd_per_1000)
    seconds = (chosen.seconds, leader.seconds)
    if found.prefer == "simplicity":
        return ""
    if None not in usd and usd[0] != usd[1] and found.prefer == "cost":
        return f" ({dollars(usd[0] or 0.0)} against {dollars(usd[1] or 0.0)} for 1,000 questions)"
    if None not in seconds:
        return f" ({seconds[0]:.2g} s against {seconds[1]:.2g} s a question)"
    return ""


def _others(found: Verdict) -> list[str]:
    lines = []
    if found.worse:
        n = len(found.worse)
        what = "every other pipeline is" if not found.tied and n > 1 else _several(n, "pipeline", "is", "are")
        lines.append(f"{what[:1].upper()}{what[1:]} significantly worse.")
    if found.unranked:
        n = len(found.unranked)
        lines.append(f"{_several(n, 'pipeline', 'has', 'have')} no rank: coverage below 98 %.")
    return lines


def _limits(found: Verdict, chosen: Pick) -> list[str]:
    noun = "document" if found.clusters_by == "documents" else "question"
    lines = []
    if found.context == "tokens":
        budget = found.metric.rpartition("@")[2].removesuffix("tokens")
        lines.append(f"All pipelines are compared at an equal context of {int(budget):,} tokens.")
    elif found.context == "passages":
        lines.append(
            f"{found.title} counts passages and so favours long chunks; put `evidence_coverage@2000tokens` "
            "first in `metrics:` for an equal context."
        )
    if not found.generalises:
        claim = f"{_several(found.documents, noun)} support no claim about other {noun}s"
        lines.append(f"{claim}: at least {FEWEST_CLUSTERS} are needed, {2 * FEW} or more are better.")
    elif found.documents < FEW and found.detectable is not None:
        below = _number(found, found.detectable)
        lines.append(
            f"Only {_several(found.documents, noun)}: differences below {below} would mostly be missed."
        )
    elif found.documents_needed is not None:
        lines.append(f"About {_rounded(found.documents_needed):,} {noun}s would settle half of the ties.")
    if found.prefer in ("cost", "latency") and chosen.usd_per_1000 is None:
        known = "cost is" if chosen.seconds is not None else "costs and latencies are"
        lines.append(f"Its {known} not known, so no pipeline is recommended for being cheaper.")
    return lines


def _sample(found: Verdict) -> str:
    text = _several(found.questions, "question")
    if found.clusters_by == "documents":
        text += f" about {_several(found.documents, 'document')}"
    return text if found.subset == "all" else f"a {found.subset}: {text}"


def _value(found: Verdict, pick: Pick) -> str:
    ends = "" if pick.low is None or pick.high is None else f" [{_ends(found, pick)}]"
    return f"{_number(found, pick.value)}{ends}"


def _ends(found: Verdict, pick: Pick) -> str:
    low, high = _number(found, pick.low), _number(found, pick.high)
    return f"{low} to {high}" if "−" in low + high else f"{low}–{high}"


def _number(found: Verdict, value: float | None) -> str:
    if value is None:
        return "–"
    text = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3f}"
    return (text + (f" {found.unit}" if found.unit else "")).replace("-", "−")


def _percent(share: float | None) -> str:
    """Write a chance.

    >>> _percent(0.004), _percent(0.237), _percent(None)
    ('less than 1 %', '24 %', 'unknown')
    """
    if share is None:
        return "unknown"
    return "less than 1 %" if share < 0.01 else f"{share:.0%}".replace("%", " %")


def _rounded(n: int) -> int:
    """Round up to two significant digits.

    >>> _rounded(87), _rounded(238), _rounded(1001)
    (87, 240, 1100)
    """
    step = 10 ** max(0, len(str(n)) - 2)
    return -(-n // step) * step


def _listed(names: Sequence[str]) -> str:
    shown = list(names) if len(names) <= NAMED + 1 else [*names[:NAMED], f"{len(names) - NAMED} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _several(n: int, noun: str, one: str = "", many: str = "") -> str:
    verb = one if n == 1 else many
    return f"{n:,} {noun}{'' if n == 1 else 's'}{f' {verb}' if verb else ''}"


def dollars(value: float) -> str:
    """Write US dollars with at least two significant digits.

    >>> dollars(0.0), dollars(12.345), dollars(0.01234), dollars(1234.5)
    ('US$ 0', 'US$ 12.35', 'US$ 0.012', 'US$ 1,234.50')
    """
    if value == 0:
        return "US$ 0"
    return f"US$ {value:,.2f}" if value >= 1 else f"US$ {value:.2g}"
