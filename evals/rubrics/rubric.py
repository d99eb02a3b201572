"""The contract of a rubric; `tests/contracts/test_rubrics.py` checks every implementation."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, NamedTuple

from rag_assay.warehouse.components import Component, OneOf
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.registry import Registry

PEOPLE = "people"
"""What scores of people are called after, as those of a judge are after the judge; no judge has the name."""


class Criterion(NamedTuple):
    """One thing that people score.

    name: None where the rubric has one criterion alone
    ask: what the annotator is asked
    anchors: value -> what it means, the best first; an annotator gives one of these values
    bounds: smallest and largest value
    """

    name: str | None
    ask: str
    anchors: Mapping[float, str]

    @property
    def bounds(self) -> tuple[float, float]:
        """Smallest and largest value."""
        return min(self.anchors), max(self.anchors)


class Rubric(Component):
    """What people are asked of an item, and which answers they have; higher values are better.

    The contract: one criterion or more, names unique (None if there is one); each with two anchors or more,
    all finite, the best first; a value that is given is one of the anchors'.

    level: what agreement on it means (`evals.statistics.alpha`): of ordered values how many stand between two
        of them, of an interval how far their numbers are apart
    shows_ground_truth: whether the annotator sees the answer that is right, where somebody wrote one
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
        """Digest of all that an annotator reads of it: scores by another wording are not mixed with these.

        The order of the criteria is no part of it.
        """
        shown = [
            [one.name or "", one.ask, sorted([float(value), text] for value, text in one.anchors.items())]
            for one in self.criteria
        ]
        return digest([self.kind, sorted(shown), self.shows_ground_truth, self.against])[:12]


def metric_name(rubric: str, criterion: str | None) -> str:
    """Return what a criterion of a rubric is called as a metric of a study.

    >>> metric_name("points", None), metric_name("quality", "brevity")
    ('people.points', 'people.quality.brevity')
    """
    return ".".join([PEOPLE, rubric, *([criterion] if criterion else [])])


RUBRICS: Registry[Rubric] = Registry("rubrics", Rubric)
AnyRubric = Annotated[Rubric, OneOf(RUBRICS)]
"""A rubric as a study writes it: `{kind: {its parameters}}`."""
