"""What labels of people mean: which are good, and where they stand on their scale."""

from __future__ import annotations

import math
from typing import NamedTuple, Self

from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr, model_validator

from rag_assay.warehouse.recipe import Strict

Level = StrictBool | StrictInt | StrictFloat | StrictStr
GOOD, BAD = ("true", "yes", "good"), ("false", "no", "bad")
"""Labels that need no scale; any case."""


class Label(NamedTuple):
    """What a person says of a case.

    good: whether the case is a good one
    grade: where that stands on the scale of the labels: 0 the worst, 1 the best
    """

    good: bool
    grade: float


class LabelScale(Strict):
    """What labels mean.

    scale: the worst label and the best one: two numbers, as in [1, 5], or the two words that labels are, as
        in [wrong, right]. The first may be the larger number, as of marks at school. Default: true, yes and
        good are good ones, false, no and bad are bad ones, and nothing else is a label
    good_from: the label that is just good enough; needed where labels lie between the two numbers
    """

    scale: tuple[Level, Level] | None = None
    good_from: StrictInt | StrictFloat | None = None

    @model_validator(mode="after")
    def _is_a_scale(self) -> Self:
        if self.scale is None:
            if self.good_from is not None:
                raise ValueError("`good_from` is a label of a `scale`: say that, as in scale: [1, 5]")
            return self
        numbers = [one for one in map(_number, self.scale) if one is not None]
        if len(numbers) == 1 or _word(self.scale[0]) == _word(self.scale[1]) or len(set(numbers)) == 1:
            raise ValueError("`scale` has two ends, the worst and the best: numbers or words that differ")
        if self.good_from is not None and not numbers:
            raise ValueError("`good_from` is of a scale of numbers; of two words the second is the good one")
        if self.good_from is not None and not 0 < _share(float(self.good_from), *numbers) <= 1:
            raise ValueError("`good_from` must lie on the `scale`, and not be its worst end")
        return self

    def read(self, value: object) -> Label:
        """Return what a label of a file means.

        Raises:
            AmbiguousLabelError: a number, and no scale says what it means; or the scale does not say which of
                its labels are good.
            ValueError: it is no label of the scale.
        """
        number = _number(value)
        if self.scale is None:
            word = _word(value)
            if word in (GOOD[0], BAD[0]):
                return Label(word == GOOD[0], float(word == GOOD[0]))
            if number is None:
                raise ValueError(f"must be one of {', '.join((*GOOD, *BAD))}, or say a `scale`")
            raise AmbiguousLabelError(
                "is a number, and nothing says whether it is good. Say the worst and the best label in the "
                "study: `labels: {file: FILE, scale: [0, 1]}`, or `scale: [1, 5], good_from: 4`"
            )
        ends = [_number(one) for one in self.scale]
        if ends[0] is None or ends[1] is None:
            words = [_word(one) for one in self.scale]
            if _word(value) not in words:
                raise ValueError(f"must be one of {_told(self.scale)}, as its `scale` says")
            return Label(_word(value) == words[1], float(_word(value) == words[1]))
        share = math.nan if number is None else _share(number, ends[0], ends[1])
        if not 0 <= share <= 1:
            raise ValueError(f"must be a number of its `scale`, {_told(self.scale)}")
        if self.good_from is not None:
            return Label(share >= _share(float(self.good_from), ends[0], ends[1]), share)
        if 0 < share < 1:
            raise AmbiguousLabelError(
                f"lies between the ends of its `scale`, {_told(self.scale)}: say in the study which labels "
                "are good, as in `good_from: 4`"
            )
        return Label(share == 1, share)


class LabelFile(LabelScale):
    """A file of cases that people have labelled; in a study, its path alone will do where labels are words.

    file: JSON Lines or CSV
    scale, good_from: of all labels
    metrics: those of single metrics, in place of that
    """

    file: str
    metrics: dict[str, LabelScale] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _may_be_a_path(cls, value: object) -> object:
        return {"file": value} if isinstance(value, str) else value

    def scale_of(self, metric: str) -> LabelScale:
        """Return what labels of a metric mean."""
        return self.metrics.get(metric, self)


class AmbiguousLabelError(ValueError):
    """A label that may be good or bad: the study does not say."""


def _number(value: object) -> float | None:
    """Return a number, also one that a table has as text; None for all else, true and false among it."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def _word(value: object) -> str:
    """Return a label as it is compared: any case, and words that mean the same as one."""
    word = str(value).strip().casefold()
    return GOOD[0] if word in GOOD else BAD[0] if word in BAD else word


def _share(number: float, worst: float, best: float) -> float:
    return (number - worst) / (best - worst)


def _told(scale: tuple[Level, Level]) -> str:
    return f"[{scale[0]}, {scale[1]}]"
