"""Says in sentences what the axes of a study do."""

from __future__ import annotations

from rag_assay.evals.reporting.display import interval, listed, number, p_value, several, with_sign
from rag_assay.evals.reporting.effects import AxisEffect, AxisPair, Effects
from rag_assay.evals.statistics.interactions import BestAt
from rag_assay.evals.statistics.significance import ALPHA


def effects_words(found: Effects) -> list[str]:
    """Say of each axis which level is best by the metric that ranks, and of pairs where that depends.

    Pairs that show no sign of it are left to the page.
    """
    axes = [effect_words(table.effects[0]) for table in found.axes]
    return axes + [pair_words(pair) for pair in found.pairs if pair.p < ALPHA]


def effect_words(effect: AxisEffect) -> str:
    """Say which level of an axis is best, and which are tied with it."""
    found, metric = effect.found, effect.metric
    value = number(found.mean[found.best], metric.unit)
    opening = f"Of the {effect.axis}s, {effect.best} has the best mean {metric.title}, {value}"
    if len(effect.crossing.contexts) > 1:
        opening += f" over {_contexts(effect)}"
    where = f" on a {effect.subset}" if effect.subset != "all" else ""
    others = [at for at in effect.best_first() if at != found.best]
    tied = [effect.levels[at] for at in others if not found.apart[at]]
    if not tied:
        every = "the other is" if len(others) == 1 else "all others are"
        furthest = others[-1]
        words = (
            f"{every} significantly worse, {effect.levels[furthest]} by "
            f"{with_sign(found.difference[furthest], metric.unit)} "
            f"[{_interval(effect, furthest)}]"
        )
    elif len(tied) == len(others):
        words = f"{listed(tied)} is tied with it" if len(tied) == 1 else f"all {len(tied)} others are tied"
    else:
        verb = "is" if len(tied) == 1 else "are"
        words = f"of {len(others)} others, {listed(tied)} {verb} tied with it"
    return f"{opening}{where}; {words}.{_left_out(effect)}"


def pair_words(pair: AxisPair) -> str:
    """Say whether the best level of the first axis depends on that of the second."""
    one, other = pair.axes
    p = p_value(pair.p)
    overall = pair.levels[0][pair.found.overall]
    where = f" on a {pair.subset}" if pair.subset != "all" else ""
    apart = [(at, best) for at, best in enumerate(pair.found.best) if best.apart]
    if not pair.p < ALPHA:
        return f"No sign{where} that the best {one} depends on the {other} ({pair.metric.title}, {p})."
    if apart:
        named = [_best_at(pair, at, best) for at, best in apart]
        return (
            f"The best {one} depends on the {other}{where} ({pair.metric.title}, {p}): {overall} is best on "
            f"the whole, but {listed(named)}."
        )
    largest = pair.found.largest
    level, here = pair.levels[0][largest.one], pair.levels[1][largest.here]
    ends = interval(largest.low, largest.high, pair.metric.unit)
    return (
        f"What the {one} does depends on the {other}{where} ({pair.metric.title}, {p}; most of all, {level} "
        f"with {here} is {with_sign(largest.value, pair.metric.unit)} [{ends}] off what both do on average), "
        f"but no other {one} can be told to be better than {overall} with any {other}."
    )


def _best_at(pair: AxisPair, at: int, best: BestAt) -> str:
    ends = interval(best.low, best.high, pair.metric.unit)
    gain = with_sign(best.difference, pair.metric.unit)
    return f"{pair.levels[0][best.level]} with {pair.levels[1][at]} ({gain} [{ends}])"


def _contexts(effect: AxisEffect) -> str:
    """Name what the means are over: the levels of one other axis, or combinations of several."""
    contexts = effect.crossing.contexts
    varying = [at for at in range(len(contexts[0])) if len({context[at] for context in contexts}) > 1]
    others = [axis for axis in effect.axes if axis != effect.axis]
    if len(varying) == 1:
        return several(len(contexts), others[varying[0]])
    return several(len(contexts), "combination") + f" of {listed([others[at] for at in varying])}"


def _interval(effect: AxisEffect, at: int) -> str:
    found = effect.found
    return interval(found.difference_low[at], found.difference_high[at], effect.metric.unit)


def _left_out(effect: AxisEffect) -> str:
    """Say which levels and cells are in no comparison, so that nobody takes them for compared."""
    names = effect.crossing.left_out[0]
    words = ""
    if names:
        words = f" Left out, for want of enough equal cells: {listed(names)}."
    if effect.crossing.unused:
        used = effect.of - effect.crossing.unused
        words += f" {used} of {several(effect.of, 'cell')} stand in equal contexts and are compared."
    return words
