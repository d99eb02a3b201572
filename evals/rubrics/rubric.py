"""The contract of a rubric; `tests/contracts/test_rubrics.py` checks every implementation."""

from __future__ import annotations

import unicodedata
from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, TypeAdapter

from rag_assay.evals.question_sets.readers.records import finite_number
from rag_assay.warehouse.components import Component, OneOf
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.recipe import error_at
from rag_assay.warehouse.registry import Registry

PEOPLE = "people"
"""What human ratings are called after, as those of a judge are after the judge; no judge has the name."""


class Criterion(NamedTuple):
    """One thing that people score.

    name: None where the rubric has one criterion alone
    anchors: value -> meaning, the best first
    bounds: smallest and largest value
    """

    name: str | None
    ask: str
    anchors: Mapping[float, str]

    @property
    def bounds(self) -> tuple[float, float]:
        return min(self.anchors), max(self.anchors)


class Rubric(Component):
    """What people are asked of an item, and which answers they have; higher values are better.

    The contract: one criterion or more, names unique (None if there is one); each with two anchors or more,
    all finite, the best first; a value that is given is one of the anchors'.

    level: what agreement on it means (`evals.statistics.raters.Level`)
    shows_ground_truth: whether the annotator sees the ground truth, where there is one
    """

    level: ClassVar[Literal["nominal", "ordinal", "interval"]] = "ordinal"
    compares: ClassVar[bool] = False  # the item holds two answers, and the value says which is better

    shows_ground_truth: bool = True

    @property
    @abstractmethod
    def criteria(self) -> tuple[Criterion, ...]:
        """What is scored, in the order in which it is asked."""

    @property
    def against(self) -> str | None:
        """Key of the cell, without the study, whose answers are the second of a pair; None: no pairs."""
        return None

    @property
    def version(self) -> str:
        """Digest of all that an annotator reads of it, whatever the order of the criteria."""
        shown = [
            [one.name or "", one.ask, sorted([float(value), text] for value, text in one.anchors.items())]
            for one in self.criteria
        ]
        return digest([self.kind, sorted(shown), self.shows_ground_truth, self.against])[:12]


def metric_name(rubric: str, criterion: str | None) -> str:
    return ".".join([PEOPLE, rubric, *([criterion] if criterion else [])])


RUBRICS: Registry[Rubric] = Registry("rubrics", Rubric)
AnyRubric = Annotated[Rubric, OneOf(RUBRICS)]
"""A rubric as a study writes it: `{kind: {its parameters}}`."""

MOST_VALUES = 11  # that people tell apart, and find keys for


def _is_readable(text: str) -> str:
    strange = next((sign for sign in text if unicodedata.category(sign) == "Cc" and sign not in "\n\t"), None)
    if strange is not None:
        raise ValueError(f"the control character U+{ord(strange):04X} stands in the text")
    return text


Wording = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1000), AfterValidator(_is_readable)
]
"""Some sentences that an annotator reads, as they are: no markup in them means anything."""
_TEXTS = TypeAdapter(dict[str, Wording])


def _by_value(written: object) -> object:
    if not isinstance(written, Mapping):
        return written
    found: dict[float, object] = {}
    for key, text in written.items():
        value = finite_number(key)
        if value is None:
            raise error_at((str(key),), f"the anchor `{key}` must be a number, as in `5: Right`")
        value += 0.0  # so that -0 is 0
        if value in found:
            raise error_at((str(key),), f"the value {value:g} has a second anchor")
        found[value] = text
    texts = _TEXTS.validate_python({str(key): text for key, text in written.items()})
    return dict(zip(found, texts.values(), strict=True))


def _best_first(anchors: Mapping[float, str]) -> Mapping[float, str]:
    return dict(sorted(anchors.items(), reverse=True))


Anchors = Annotated[
    Mapping[float, str],
    Field(min_length=2, max_length=MOST_VALUES),
    BeforeValidator(_by_value),
    AfterValidator(_best_first),
]
"""Value -> what it means, the best first; two values or more."""


def graded(grades: int, anchors: Mapping[float, str]) -> dict[float, str]:
    """Return an anchor for each grade from 1 on, the best first; one without words is between two with some.

    >>> graded(4, {1: "Bad", 4: "Good"})
    {4.0: 'Good', 3.0: 'Between 1 and 4', 2.0: 'Between 1 and 4', 1.0: 'Bad'}
    """
    worded = sorted(anchors)
    found: dict[float, str] = {}
    for grade in range(grades, 0, -1):
        below = max((one for one in worded if one <= grade), default=1)
        above = min((one for one in worded if one >= grade), default=grades)
        found[float(grade)] = anchors.get(grade, f"Between {below:g} and {above:g}")
    return found
