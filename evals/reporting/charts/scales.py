"""Scales: where a value lies, in percent of the width or height that a chart has."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from rag_assay.evals.reporting.display import count

Bounds = tuple[float | None, float | None]
DECADES = 1.5
"""Powers of ten between the least and the largest cost, from which on a scale is logarithmic."""


@dataclass(frozen=True)
class Scale:
    """Maps values from `low` to `high` onto `left` to `right`, in percent.

    logarithmic: equal ratios are equally far apart; `low` is above 0 then
    """

    low: float
    high: float
    left: float = 0.0
    right: float = 100.0
    logarithmic: bool = False

    def at(self, value: float) -> float:
        """Return the place of a value, kept within the scale's ends.

        >>> Scale(0.0, 1.0).at(0.25), Scale(0.0, 1.0, 3, 97).at(7.0), Scale(1, 100, logarithmic=True).at(10)
        (25.0, 97.0, 50.0)
        """
        low, high, place = self.low, self.high, value
        if self.logarithmic:
            low, high, place = math.log(low), math.log(high), math.log(max(value, self.low))
        share = (place - low) / (high - low)
        return round(self.left + min(1.0, max(0.0, share)) * (self.right - self.left), 2)


@dataclass(frozen=True)
class Tick:
    """A line of the grid, in percent, and its label."""

    at: float
    label: str


def finite(values: Iterable[float | None]) -> list[float]:
    """Return the values that can be drawn.

    >>> finite([0.5, None, float("nan"), float("inf")])
    [0.5]
    """
    return [value for value in values if value is not None and math.isfinite(value)]


def domain(values: Iterable[float | None], bounds: Bounds = (None, None)) -> tuple[float, float]:
    """Return the range to draw: all values with a margin, within the bounds of what is drawn.

    >>> domain([0.4, 0.8], (0.0, 0.81))
    (0.38, 0.81)
    """
    known = finite(values) or [0.0]
    low, high = min(known), max(known)
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 0.05
    floor, ceiling = bounds
    first = low - margin if floor is None else max(floor, low - margin)
    last = high + margin if ceiling is None else min(ceiling, high + margin)
    if first > low or last < high or not last > first:  # values beyond their bounds are drawn, too
        first, last = low - margin, high + margin
    return round(first, 12), round(last, 12)


def from_zero(values: Iterable[float | None]) -> tuple[float, float]:
    """Return the range of bars: it holds 0, where bars begin.

    >>> from_zero([0.2, 0.7]), from_zero([-0.5, 0.2]), from_zero([0.0])
    ((0.0, 0.7), (-0.5, 0.2), (0.0, 1.0))
    """
    known = [0.0, *finite(values)]
    low, high = min(known), max(known)
    return (low, high) if high > low else (0.0, 1.0)


def cost_scale(values: Iterable[float]) -> Scale:
    """Return a scale of costs: logarithmic where they lie far apart and none is 0.

    >>> cost_scale([0.001, 1.0]).logarithmic, cost_scale([1.0, 2.0]).logarithmic
    (True, False)
    """
    known = finite(values)
    if known and min(known) > 0 and math.log10(max(known) / min(known)) >= DECADES:
        return Scale(min(known) / 1.3, max(known) * 1.3, logarithmic=True)
    return Scale(*domain(known, (0.0, None)))


def ticks(scale: Scale, most: int, unit: str = "") -> tuple[Tick, ...]:
    """Return the lines of the grid of a scale, at round values, about ``most`` of them."""
    values = powers(scale.low, scale.high) if scale.logarithmic else rounded(scale.low, scale.high, most)
    return tuple(Tick(scale.at(value), tick_label(value, unit)) for value in values)


def rounded(low: float, high: float, most: int) -> list[float]:
    """Return round values from ``low`` to ``high``, at most ``most`` + 1 of them.

    >>> rounded(0.0, 1.0, 5)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    raw = (high - low) / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(index * step, 10) + 0.0 for index in range(first, last + 1)]


def powers(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times powers of ten between two values; the powers alone where there are many.

    >>> powers(0.8, 30)
    [1.0, 2.0, 5.0, 10.0, 20.0]
    >>> powers(0.001, 40)
    [0.001, 0.01, 0.1, 1.0, 10.0]
    """
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if math.log10(high / low) <= 2 else (1,)
    found = [float(f"{factor}e{exponent}") for exponent in exponents for factor in factors]
    return [value for value in found if low <= value <= high]


def tick_label(value: float, unit: str = "") -> str:
    """Write a value of an axis.

    >>> tick_label(0.25), tick_label(20000.0, "tokens"), tick_label(-0.5), tick_label(0.2, "s")
    ('0.25', '20\u202f000', '−0.5', '0.2 s')
    """
    text = count(round(value)) if abs(value) >= 1000 else f"{value:g}"
    return text.replace("-", "−") + (" s" if unit == "s" else "")
