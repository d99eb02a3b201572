"""Quality over what it costs: every cell as a point, and the front of those that no other beats."""

from __future__ import annotations

from rag_assay.evals.reporting import limits
from rag_assay.evals.reporting.charts.planes import Plane, PlotLine, Point, Shape, grid, labelled, upward
from rag_assay.evals.reporting.charts.scales import Scale, cost_scale, domain
from rag_assay.evals.reporting.contexts import Bought, Front
from rag_assay.evals.reporting.display import count, number, several, times
from rag_assay.evals.reporting.figures.captions import left_out

KEY: tuple[tuple[Shape, str], ...] = (
    ("diamond", "the leading pipeline, and those tied with it"),
    ("disc", "another cell"),
)
_NOUNS = {"tokens": "tokens", "s": "time", "US$": "price"}  # unit of a cost -> what there is more of
FRONT = 5  # style of the line of the front


def front_figure(front: Front, at: int) -> Plane:
    """Return the plane of a front.

    at: of how many fronts on the page it is
    """
    across = cost_scale([one.cost for one in front.all])
    ends = [end for one in front.points for end in (one.low, one.high)]
    up = upward(Scale(*domain([*ends, *(one.value for one in front.all)])))
    numbers = {one: number_of for number_of, one in enumerate(front.points, 1)}
    others = [one for one in front.all if one not in numbers]
    drawn = others[: limits.PLANE_POINTS]
    x_ticks, y_ticks = grid(across, up)
    points = [_point(one, None, across, up, front) for one in drawn]
    points += [_point(one, n, across, up, front) for one, n in numbers.items()]
    shapes = {one.shape for one in points}
    unit = f", {front.unit}" if front.unit and front.unit not in front.cost.lower() else ""
    return Plane(
        f"chart-front-{at}",
        f"{front.quality} and {front.cost}",
        _about(front),
        f"{front.cost}{unit}" + (" (logarithmic)" if across.logarithmic else ""),
        front.quality,
        x_ticks,
        y_ticks,
        labelled(points),
        (PlotLine(_steps(front, across, up), FRONT),),
        tuple((shape, words) for shape, words in KEY if shape in shapes) if len(shapes) > 1 else (),
        rest=left_out("none of them is on the front", point=len(others) - len(drawn)),
    )


def _point(one: Bought, n: int | None, across: Scale, up: Scale, front: Front) -> Point:
    low, high = (one.low, one.high) if n else (None, None)
    cost = f"{front.cost} {cost_words(one.cost, front.unit)}"
    words = f"{_named(one)}: {front.quality} {number(one.value)}, {cost}"
    return Point(
        across.at(one.cost),
        up.at(one.value),
        "diamond" if one.tied else "disc",
        words,
        n,
        None if low is None else up.at(low),
        None if high is None else up.at(high),
    )


def _steps(front: Front, across: Scale, up: Scale) -> str:
    """Return the line under which every other lies: it goes right, then up to the next of the front."""
    places: list[str] = []
    for before, one in zip((None, *front.points[:-1]), front.points, strict=True):
        if before is not None:
            places.append(f"{across.at(one.cost):.5g},{up.at(before.value):.5g}")
        places.append(f"{across.at(one.cost):.5g},{up.at(one.value):.5g}")
    places.append(f"100,{up.at(front.points[-1].value):.5g}")
    return " ".join(places)


def cost_words(cost: float, unit: str) -> str:
    """Write a cost with what it is counted in.

    >>> cost_words(0.01234, "US$"), cost_words(0.25, "s"), cost_words(1234.4, "tokens")
    ('US$ 0.0123', '0.250 s', '1\u202f234 tokens')
    """
    if unit == "US$":
        return f"US$ {cost:.4f}"
    return f"{number(cost, unit)} {unit}".strip()


def _about(front: Front) -> str:
    """Say what the dearest of the front gives for what it costs more than the cheapest."""
    cheap, dear = front.points[0], front.points[-1]
    words = f"The line is the front: {several(len(front.points), 'point')} of {front.of} that no other beats"
    if cheap is dear:
        as_cheap = sum(one.cost <= cheap.cost for one in front.all) - 1
        if as_cheap:
            same = f"{count(as_cheap)} {'costs' if as_cheap == 1 else 'cost'} the same"
            return f"{words}. {_named(cheap)} is the best; none is cheaper, {same}."
        return f"{words}. {_named(cheap)} is both the cheapest and the best."
    more = f"{number(abs(dear.value - cheap.value))} better"
    noun = _NOUNS.get(front.unit, "cost")
    spent = f"{cost_words(dear.cost, front.unit)} instead of none"
    if cheap.cost > 0:
        spent = f"{times(dear.cost / cheap.cost)} times the {noun}"
    differ = len({one.cost for one in front.all if one.tied}) > 1
    near = " Of the diamonds the cheapest is worth a look: chance may have put the best above it."
    return f"{words}. {_named(dear)} is {more} than {_named(cheap)}, for {spent}.{near if differ else ''}"


def _named(one: Bought) -> str:
    return f"{one.label} ({several(one.depth, 'passage')})" if one.depth else one.label
