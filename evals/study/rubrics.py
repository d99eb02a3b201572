"""The metrics that the rubrics of a study are: which of them cannot be measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from rag_assay.evals.rubrics.human_rating_metrics import people_metrics
from rag_assay.evals.rubrics.rubric import PEOPLE, AnyRubric, Rubric
from rag_assay.warehouse.suggestions import did_you_mean
from rag_assay.warehouse.validation_errors import Finding
from rag_assay.warehouse.yaml_positions import Place

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
        hint = did_you_mean(rubric, rubrics) if rubrics else "the study has no `rubrics`"
        return [Finding(place, "unknown_rubric", f"unknown rubric `{rubric}` in the metric {name}; {hint}")]
    read = _read(rubrics[rubric])
    if read is None:
        return []
    metrics = people_metrics({rubric: read})
    if name not in metrics:
        text = f"the rubric `{rubric}` has no metric {name}; {did_you_mean(name, metrics)}"
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
