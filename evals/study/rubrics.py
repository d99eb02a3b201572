"""The metrics that the rubrics of a study are: which of them cannot be measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from evals.annotating.human_metrics import people_metrics
from evals.annotating.rubric import PEOPLE, AnyRubric, Rubric
from warehouse.findings import Finding
from warehouse.marked_yaml import Place
from warehouse.near_names import instead

_RUBRIC: TypeAdapter[Rubric] = TypeAdapter(AnyRubric)


def is_of_people(name: str) -> bool:
    """Return whether the name of a metric is that of a rubric's, `people.RUBRIC`.

    >>> is_of_people("people.points"), is_of_people("peoples.points"), is_of_people("people")
    (True, False, False)
    """
    return name.startswith(f"{PEOPLE}.")


def unfit_people_metric(
    name: str, place: Place, rubrics: Any, generators: Sequence[str] | None
) -> list[Finding]:
    """Return why `people.RUBRIC[.CRITERION]` cannot be measured.

    rubrics: as a study file writes them
    """
    if not isinstance(rubrics, Mapping):
        return []
    rubric = name.split(".")[1]
    if rubric not in rubrics:
        hint = instead(rubric, rubrics) if rubrics else "the study has no `rubrics`"
        return [Finding(place, "unknown_rubric", f"unknown rubric `{rubric}` in the metric {name}; {hint}")]
    read = _read(rubrics[rubric])
    if read is None:
        return []
    metrics = people_metrics({rubric: read})
    if name not in metrics:
        text = f"the rubric `{rubric}` has no metric {name}; {instead(name, metrics)}"
        return [Finding(place, "unknown_metric", text)]
    if generators is not None and not generators:
        text = f"{name} measures answers, but the study has no `generators`"
        return [Finding(place, "no_generators", text)]
    return []


def _read(written: object) -> Rubric | None:
    try:
        return _RUBRIC.validate_python(written)
    except ValidationError:
        return None  # what is wrong with it is told where it stands
