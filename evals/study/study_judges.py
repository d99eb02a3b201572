"""The judges of a study: the names of their metrics, and what does not fit."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from rag_assay.evals.judging.contract import AnyJudge, Judge
from rag_assay.evals.judging.judge_metrics import JudgedScores
from rag_assay.warehouse.suggestions import did_you_mean
from rag_assay.warehouse.validation_errors import Finding
from rag_assay.warehouse.yaml_positions import Place

_JUDGE: TypeAdapter[Judge] = TypeAdapter(AnyJudge)
_JUDGED = re.compile(r"[a-z0-9][a-z0-9_+-]*\.\S+")


def is_judged(name: str) -> bool:
    """Return whether the name of a metric is that of a judge's, `JUDGE.METRIC`.

    >>> is_judged("ragas.faithfulness"), is_judged("ndcg@10")
    (True, False)
    """
    return _JUDGED.fullmatch(name) is not None


def judged_metrics(judges: Mapping[str, Judge]) -> dict[str, JudgedScores]:
    """Return all metrics of judges, by the names that a study has for them."""
    found = [JudgedScores(name, judge, one) for name, judge in judges.items() for one in judge.judged_metrics]
    return {metric.name: metric for metric in found}


def judges_of(written: Any) -> dict[str, Judge | None] | None:
    """Return the judges that a study file writes; None for one, or all, that cannot be read."""
    return {name: _read(one) for name, one in written.items()} if isinstance(written, dict) else None


def _read(written: object) -> Judge | None:
    try:
        return _JUDGE.validate_python(written)
    except ValidationError:
        return None


def unfit_judges(judges: Mapping[str, Judge | None], generators: Sequence[str] | None) -> list[Finding]:
    """Return which judges cannot be used: named as a generator is, or without answers to judge."""
    found: list[Finding] = []
    for name, judge in judges.items():
        if name in (generators or ()):
            text = f"`{name}` is a generator, too; a judge has a name of its own"
            found.append(Finding(("judges", name), "doubled_name", text))
        of_answers = judge is not None and all("answer" in one.needs for one in judge.judged_metrics)
        if of_answers and generators is not None and not generators:
            text = f"`{name}` judges answers, but the study has no `generators`"
            found.append(Finding(("judges", name), "no_generators", text))
    return found


def unfit_metric(
    name: str, place: Place, judges: Mapping[str, Judge | None] | None, generators: Sequence[str] | None
) -> list[Finding]:
    """Return why `JUDGE.METRIC` cannot be measured."""
    if judges is None:
        return []
    named, _, stem = name.partition(".")
    if named not in judges:
        hint = did_you_mean(named, judges) if judges else "the study has no `judges`"
        return [Finding(place, "unknown_judge", f"unknown judge `{named}` in the metric {name}; {hint}")]
    judge = judges[named]
    if judge is None:
        return []
    metrics = {f"{named}.{one.name}": one for one in judge.judged_metrics}
    if name not in metrics:
        text = f"the judge `{named}` has no metric `{stem}`; {did_you_mean(name, metrics)}"
        return [Finding(place, "unknown_metric", text)]
    if generators is not None and not generators and "answer" in metrics[name].needs:
        text = f"{name} measures answers, but the study has no `generators`"
        return [Finding(place, "no_generators", text)]
    return []
