"""Finds parts of a study that do not fit each other, such as unknown names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from rag_assay.evals.judging.contract import AnyJudge, Judge
from rag_assay.evals.judging.judge_metrics import JudgedScores
from rag_assay.evals.metrics import get_metric
from rag_assay.evals.rubrics.human_rating_metrics import people_metrics
from rag_assay.evals.rubrics.rubric import PEOPLE, AnyRubric, Rubric
from rag_assay.evals.study.cells import NO_GENERATOR
from rag_assay.evals.study.registry import GENERATORS, SYSTEMS, read_retriever_or_powerset
from rag_assay.evals.study.sections import expand_powersets
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.suggestions import did_you_mean
from rag_assay.warehouse.validation_errors import Finding

if TYPE_CHECKING:
    from rag_assay.warehouse.yaml_positions import Place

_JUDGE: TypeAdapter[Judge] = TypeAdapter(AnyJudge)
_RUBRIC: TypeAdapter[Rubric] = TypeAdapter(AnyRubric)
_JUDGED = re.compile(r"[a-z0-9][a-z0-9_+-]*\.\S+")


def is_judged(name: str) -> bool:
    return _JUDGED.fullmatch(name) is not None


def judged_metrics(judges: Mapping[str, Judge]) -> dict[str, JudgedScores]:
    found = [JudgedScores(name, judge, one) for name, judge in judges.items() for one in judge.judged_metrics]
    return {metric.name: metric for metric in found}


def _read(adapter: TypeAdapter[Any], written: object) -> Any:
    try:
        return adapter.validate_python(written)
    except ValidationError:
        return None  # what is wrong with it is told where it stands


def judges_of(written: Any) -> dict[str, Judge | None] | None:
    return {name: _read(_JUDGE, one) for name, one in written.items()} if isinstance(written, dict) else None


def is_of_people(name: str) -> bool:
    """
    >>> is_of_people("people.points"), is_of_people("peoples.points"), is_of_people("people")
    (True, False, False)
    """
    return name.startswith(f"{PEOPLE}.")


def _unfit_judges(judges: Mapping[str, Judge | None], generators: Sequence[str] | None) -> Iterator[Finding]:
    for name, judge in judges.items():
        place = ("judges", name)
        if name in (generators or ()):
            yield Finding(
                place, "doubled_name", f"`{name}` is a generator, too; a judge has a name of its own"
            )
        of_answers = judge is not None and all("answer" in one.needs for one in judge.judged_metrics)
        if of_answers and generators == []:
            text = f"`{name}` judges answers, but the study has no `generators`"
            yield Finding(place, "no_generators", text)


def _unfit_owned(
    name: str, place: Place, judges: Mapping[str, Judge | None] | None, rubrics: Any, *, has_answers: bool
) -> Iterator[Finding]:
    people = is_of_people(name)
    what, owner = ("rubric", name.split(".")[1]) if people else ("judge", name.partition(".")[0])
    owners = rubrics if people else judges
    if not isinstance(owners, Mapping):
        return
    if owner not in owners:
        hint = did_you_mean(owner, owners) if owners else f"the study has no `{what}s`"
        yield Finding(place, f"unknown_{what}", f"unknown {what} `{owner}` in the metric {name}; {hint}")
    elif read := _read(_RUBRIC, owners[owner]) if people else owners[owner]:
        metrics = people_metrics({owner: read}) if isinstance(read, Rubric) else judged_metrics({owner: read})
        if name not in metrics:
            named = name if people else f"`{name.partition('.')[2]}`"
            text = f"the {what} `{owner}` has no metric {named}; {did_you_mean(name, metrics)}"
            yield Finding(place, "unknown_metric", text)
        elif not has_answers and metrics[name].kind == "answer":
            yield _no_generators(name, place)


def _no_generators(metric: str, place: Place) -> Finding:
    text = f"{metric} measures answers, but the study has no `generators`"
    return Finding(place, "no_generators", text)


def misfits(data: Mapping[str, Any]) -> Iterator[Finding]:
    known = {part: _names(data.get(part)) for part in ("sources", "chunkings", "embedders")}
    known["retrievers"] = _retriever_names(data.get("retrievers"))
    generators = _answering(data)
    judges = judges_of(data.get("judges", {}))
    corpus = data.get("corpus")
    for number, name in enumerate(_strings(corpus.get("sources")) if isinstance(corpus, dict) else ()):
        yield from _unknown("source", name, known["sources"], ("corpus", "sources", number))
    for part in ("generators", "systems"):
        if NO_GENERATOR in (_names(data.get(part)) or ()):
            text = f"the name `{NO_GENERATOR}` is kept for cells without a generator"
            yield Finding((part, NO_GENERATOR), "kept_name", text)
    for name in {*(_names(data.get("generators")) or ())} & {*(_names(data.get("systems")) or ())}:
        text = f"`{name}` is a generator, too; a system has a name of its own"
        yield Finding(("systems", name), "doubled_name", text)
    yield from _unfit_judges(judges or {}, generators)
    known["generators"] = None if generators is None else generators or [NO_GENERATOR]
    restrict = data.get("restrict", {})
    for name, restriction in restrict.items() if isinstance(restrict, dict) else ():
        yield from _restriction(data, name, restriction, known, judges)
    for name in _names(data.get("judge_cards", {})) or []:
        yield from _unknown("judge", name, None if judges is None else [*judges], ("judge_cards", name))
    yield from _unfit_rubrics(data, known, generators)
    yield from _unfit_search(data)
    yield from _unfit_questions(data.get("questions"), data.get("retrievers"), data.get("generators"))
    yield from _unfit_metrics(_strings(data.get("metrics")), generators, judges, data.get("rubrics", {}))


def _restriction(
    data: Mapping[str, Any],
    name: str,
    restriction: Any,
    known: dict[str, list[str] | None],
    judges: dict[str, Judge | None] | None,
) -> Iterator[Finding]:
    place: Place = ("restrict", name)
    axes = ("chunkings", "embedders", "retrievers")
    if judges and name in judges:
        if isinstance(restriction, dict):
            if restriction.get("others") is not None:
                text = f"`others` is about the pipelines that a generator leaves out; `{name}` is a judge"
                yield Finding((*place, "others"), "no_generator", text)
            yield from _restricted(name, restriction, known, ("generators", *axes), place)
        return
    generators = _answering(data)
    names = None if generators is None or judges is None else list(dict.fromkeys((*generators, *judges)))
    yield from _unknown("generator or judge" if judges else "generator", name, names, place)
    if not isinstance(restriction, dict):
        return
    if restriction.get("generators") is not None:
        text = f"`generators` names the generators to judge, and `{name}` is not one of them"
        yield Finding((*place, "generators"), "no_judge", text)
    unknown = list(_restricted(name, restriction, known, axes, place))
    yield from unknown or _without_ranking(data, name, restriction)


def _restricted(
    name: str,
    restriction: dict[str, Any],
    known: dict[str, list[str] | None],
    axes: Sequence[str],
    within: Place,
) -> Iterator[Finding]:
    for axis in axes:
        place: Place = (*within, axis)
        values = restriction.get(axis)
        if isinstance(values, list | tuple) and not values:
            text = f"an empty list leaves `{name}` no cell; name some {axis}, or delete the line"
            yield Finding(place, "no_cell", text)
        for number, value in enumerate(_strings(values)):
            yield from _unknown(axis[:-1], value, known[axis], (*place, number))


def _without_ranking(data: Mapping[str, Any], name: str, restriction: dict[str, Any]) -> list[Finding]:
    kind = _kind_of(data.get("systems"), name, SYSTEMS) or _kind_of(data.get("generators"), name, GENERATORS)
    if kind is None or (kind in GENERATORS and GENERATORS[kind].reads == "ranking"):
        return []
    text = f"`{kind}` reads no ranking and is one cell of the study; only `sample` restricts it"
    keys = ("chunkings", "embedders", "retrievers", "others")
    axes = (axis for axis in keys if restriction.get(axis) is not None)
    return [Finding(("restrict", name, axis), "reads_no_ranking", text) for axis in axes]


def _kind_of(part: Any, name: str, known: Collection[str]) -> str | None:
    written = part.get(name) if isinstance(part, dict) else None
    return next((one for one in written if one in known), None) if isinstance(written, dict) else None


def _answering(data: Mapping[str, Any]) -> list[str] | None:
    generators, systems = _names(data.get("generators", {})), _names(data.get("systems", {}))
    return None if generators is None or systems is None else [*generators, *systems]


def _unfit_rubrics(
    data: Mapping[str, Any], known: dict[str, list[str] | None], generators: list[str] | None
) -> Iterator[Finding]:
    rubrics = _names(data.get("rubrics", {}))
    if PEOPLE in (_names(data.get("judges", {})) or ()):
        text = f"the name `{PEOPLE}` is reserved for human ratings"
        yield Finding(("judges", PEOPLE), "kept_name", text)
    if rubrics and generators == []:
        text = "human ratings need answers, but the study has no `generators`"
        yield Finding(("rubrics", rubrics[0]), "no_generators", text)
    annotation = data.get("annotation")
    if not isinstance(annotation, dict):
        return
    if rubrics == []:
        text = "`annotation` needs `rubrics`, and the study has none"
        yield Finding(("annotation",), "no_rubrics", text)
    for axis in ("rubrics", "cells"):
        if annotation.get(axis) in ([], ()):
            text = f"an empty list leaves nothing to score; name some {axis}, or delete the line"
            yield Finding(("annotation", axis), "no_cell", text)
    for number, name in enumerate(_strings(annotation.get("rubrics")) if rubrics else ()):
        yield from _unknown("rubric", name, rubrics, ("annotation", "rubrics", number))
    axes = ("generators", "chunkings", "embedders", "retrievers")
    yield from _restricted("annotation", annotation, known, axes, ("annotation",))


def _unfit_search(data: Mapping[str, Any]) -> Iterator[Finding]:
    search, metrics = data.get("search"), _strings(data.get("metrics"))
    method = getattr(search, "method", None) or (search.get("method") if isinstance(search, dict) else None)
    if method == "successive_halving" and metrics and is_of_people(metrics[0]):
        text = (
            "cells race by the first metric, and people would have to score every rung: "
            f"put another before {metrics[0]}"
        )
        yield Finding(("search", "method"), "raced_by_people", text)


def _unfit_questions(sources: Any, retrievers: Any, generators: Any) -> Iterator[Finding]:
    if not isinstance(sources, list | tuple):
        return
    uses = [one.get("use", "test") for one in sources if isinstance(one, dict)]
    if uses and "test" not in uses:
        text = "all questions are for training; a study asks at least one set of others"
        yield Finding(("questions", 0), "no_test_questions", text)
        return
    tuned: list[tuple[Place, str]] = [
        (("retrievers", name), "weights") for name in _names(retrievers) or () if _is_tuned(retrievers[name])
    ]
    tuned += [
        (("generators", name), "threshold")
        for name in _names(generators) or ()
        if _is_gated(generators[name])
    ]
    if tuned and "train" not in uses:
        place, what = tuned[0]
        text = f"`{what}: tuned` needs train questions: add a set with `use: train` to `questions`"
        yield Finding(place, "no_train_questions", text)


def _is_gated(part: Any) -> bool:
    written = next(iter(part.values())) if isinstance(part, dict) and len(part) == 1 else None
    gate = written.get("gate") if isinstance(written, dict) else None
    return isinstance(gate, dict) and gate.get("threshold") == "tuned"


def _is_tuned(part: Any) -> bool:
    if isinstance(part, dict):
        return part.get("weights") == "tuned" or any(_is_tuned(one) for one in part.values())
    return isinstance(part, list | tuple) and any(_is_tuned(one) for one in part)


def _unfit_metrics(
    metrics: list[str], generators: list[str] | None, judges: dict[str, Judge | None] | None, rubrics: Any
) -> Iterator[Finding]:
    for number, name in enumerate(metrics):
        place: Place = ("metrics", number)
        if name in metrics[:number]:
            yield Finding(place, "doubled_metric", f"the metric {name} is named twice")
        elif is_judged(name) or is_of_people(name):
            yield from _unfit_owned(name, place, judges, rubrics, has_answers=generators != [])
        elif generators == [] and _measures_answers(name):
            yield _no_generators(name, place)


def _measures_answers(name: str) -> bool:
    try:
        return get_metric(name).kind == "answer"
    except InputError:
        return False  # an unknown one is told of elsewhere


def _unknown(what: str, name: str, known: list[str] | None, place: Place) -> Iterator[Finding]:
    if known is not None and name not in known:
        text = f"unknown {what} `{name}`; {did_you_mean(name, known)}"
        yield Finding(place, f"unknown_{what.partition(' ')[0]}", text)


def _names(part: Any) -> list[str] | None:
    return list(part) if isinstance(part, dict) else None


def _retriever_names(part: Any) -> list[str] | None:
    names = _names(part)
    if names is None or not any(isinstance(one, dict) and "powerset" in one for one in part.values()):
        return names
    try:
        return list(expand_powersets({name: read_retriever_or_powerset(one) for name, one in part.items()}))
    except ValidationError:
        return None


def _strings(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list | tuple) else []
