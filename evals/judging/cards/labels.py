"""Reads labelled cases from JSON Lines or CSV; columns: `COLUMNS` or ragas' names, `_…` are notes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr, model_validator

from rag_assay.evals.generation.contract import Passage
from rag_assay.evals.judging.contract import JudgeCase, JudgedMetric
from rag_assay.evals.question_sets.readers.records import finite_number, is_empty, listed, plain_text
from rag_assay.evals.question_sets.readers.table import csv_objects, json_objects
from rag_assay.warehouse.encodable import encodable
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.recipe import Strict
from rag_assay.warehouse.suggestions import did_you_mean

Level = StrictBool | StrictInt | StrictFloat | StrictStr
GOOD, BAD = ("true", "yes", "good"), ("false", "no", "bad")
"""Labels that need no scale; any case."""


class Label(NamedTuple):
    """What a person says of a case."""

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
        numbers = [one for one in map(finite_number, self.scale) if one is not None]
        if len(numbers) == 1 or _word(self.scale[0]) == _word(self.scale[1]) or len(set(numbers)) == 1:
            raise ValueError("`scale` has two ends, the worst and the best: numbers or words that differ")
        if self.good_from is not None and not numbers:
            raise ValueError("`good_from` is of a scale of numbers; of two words the second is the good one")
        if self.good_from is not None and not 0 < _share(float(self.good_from), *numbers) <= 1:
            raise ValueError("`good_from` must lie on the `scale`, and not be its worst end")
        return self

    def read(self, value: object) -> Label:
        number = finite_number(value)
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
        ends = [finite_number(one) for one in self.scale]
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
        return self.metrics.get(metric, self)


class AmbiguousLabelError(ValueError):
    """A label that may be good or bad: the study does not say."""

    def __init__(self, reason: str, metric: str = "") -> None:
        super().__init__(reason)
        self.metric = metric


def _word(value: object) -> str:
    word = str(value).strip().casefold()
    return GOOD[0] if word in GOOD else BAD[0] if word in BAD else word


def _share(number: float, worst: float, best: float) -> float:
    return (number - worst) / (best - worst)


def _told(scale: tuple[Level, Level]) -> str:
    return f"[{scale[0]}, {scale[1]}]"


COLUMNS = ("question", "answer", "passages", "ground_truth", "rival", "language", "metric", "label", "labels")
_THEIRS = {
    **{"user_input": "question", "response": "answer", "reference": "ground_truth"},
    **{"contexts": "passages", "retrieved_contexts": "passages"},
}
_OF_METRIC = "labels."
SUFFIXES = (".jsonl", ".ndjson", ".csv", ".tsv")
MOST = 20_000  # labelled cases of a file


_Scaled = tuple[JudgedMetric, LabelScale]


@dataclass(frozen=True)
class LabelledCase:
    """A case that a person has rated."""

    case: JudgeCase
    labels: Mapping[str, Label]
    place: str


def read_labels(path: Path, metrics: Sequence[JudgedMetric], meaning: LabelFile) -> list[LabelledCase]:
    """Lines of the same case are one with several labels; a label without a metric is of all metrics."""
    known = {metric.name: (metric, meaning.scale_of(metric.name)) for metric in metrics}
    findings: list[str] = []
    unclear: set[str] = set()
    found: dict[str, LabelledCase] = {}
    n_lines = 0
    for line, cells in _lines(path, findings):
        n_lines += 1
        if n_lines > MOST:
            findings.append(f"{path}:{line}: more than {MOST:,} labelled cases; a few hundred tell as much")
            break
        try:
            one = _labelled(cells, known, f"{path}:{line}")
        except AmbiguousLabelError as error:
            if error.metric not in unclear:
                findings.append(f"{path}:{line}: {error}")
            unclear.add(error.metric)
            continue
        except ValueError as error:
            findings.append(f"{path}:{line}: {error}")
            continue
        case = one.case
        passages = [[passage.text, passage.title] for passage in case.passages]
        key = digest([case.question, case.answer, case.ground_truth, case.rival, passages])
        before = found.get(key)
        twice = sorted(before.labels.keys() & one.labels.keys()) if before else []
        if before and twice:
            findings.append(f"{one.place}: labelled twice for {twice[0]}, first at {before.place}; keep one")
            continue
        labels = {**before.labels, **one.labels} if before else one.labels
        found[key] = LabelledCase(one.case, labels, before.place if before else one.place)
    findings += [
        f"{path}: the judge has no metric `{name}`, whose scale is said; {did_you_mean(name, known)}"
        for name in sorted(meaning.metrics.keys() - known.keys())
    ]
    if not n_lines and not findings:
        findings.append(f"{path}: it holds no labelled case; each line is one, as docs/judging.md shows")
    if findings:
        raise InputError(*findings)
    return list(found.values())


def _lines(path: Path, findings: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        findings.append(f"{path}: labels are a file of {', '.join(SUFFIXES)}")
        return

    def check(columns: list[str], line: str) -> None:
        if wrong := _misnamed(columns):
            raise InputError(f"{path}:{line}: {wrong}")

    is_table = suffix in {".csv", ".tsv"}
    try:
        for line, row in csv_objects(path, check) if is_table else json_objects(path):
            wrong = row if isinstance(row, str) else None if is_table else _misnamed(list(row))
            if isinstance(row, str) or wrong:
                findings.append(f"{path}:{line}: {wrong}")
            else:
                yield line, _ours(row)
    except InputError as error:
        findings += error.findings


def _misnamed(columns: list[str]) -> str | None:
    names = [_THEIRS.get(name, name) for name in columns if name and not name.startswith("_")]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        return f"more than one column {doubled[0]!r}"
    for name in names:
        if name not in COLUMNS and not name.startswith(_OF_METRIC):
            hint = did_you_mean(name, COLUMNS)
            return f"unknown column {name!r}; {hint}; begin its name with `_` to pass it over"
    return None if "question" in names else "no column 'question'"


def _ours(row: Mapping[str, Any]) -> dict[str, Any]:
    cells = {
        _THEIRS.get(name, name): value
        for name, value in row.items()
        if name and not name.startswith("_") and not is_empty(value)
    }
    single = {
        name.removeprefix(_OF_METRIC): cells.pop(name) for name in list(cells) if name.startswith(_OF_METRIC)
    }
    if single and isinstance(cells.get("labels", {}), dict):
        cells["labels"] = {**cells.get("labels", {}), **single}
    return cells


def _labelled(cells: Mapping[str, Any], metrics: Mapping[str, _Scaled], place: str) -> LabelledCase:
    if "question" not in cells:
        raise ValueError("no question")
    texts = {}
    for name in ("question", "answer", "ground_truth", "rival", "language"):
        try:
            texts[name] = encodable(plain_text(cells[name])) if name in cells else None
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    case = JudgeCase(
        texts["question"] or "",
        texts["language"],
        texts["answer"],
        ground_truth=texts["ground_truth"],
        passages=_passages(cells.get("passages")),
        rival=texts["rival"],
    )
    labels = _labels(cells, metrics)
    obstacles = {}
    for name in labels:
        metric = metrics[name][0]
        if not metric.applies(case):
            obstacles[name] = "there is no ground_truth"
        elif obstacle := metric.obstacle(case):
            obstacles[name] = obstacle.reason or ""
    if "label" in cells and "metric" not in cells and len(obstacles) < len(labels):
        labels = {name: label for name, label in labels.items() if name not in obstacles}
    elif obstacles:
        raise ValueError("; ".join(f"{name} cannot be judged: {why}" for name, why in obstacles.items()))
    return LabelledCase(case, labels, place)


def _passages(value: Any) -> tuple[Passage, ...]:
    if value is None:
        return ()
    is_text = isinstance(value, str) and not value.lstrip().startswith("[")
    found = []
    for number, one in enumerate([value] if is_text else listed(value), start=1):
        if isinstance(one, dict):
            title = one.get("title")
            found.append(Passage(_text(one.get("text"), number), title=title and _text(title, number)))
        else:
            found.append(Passage(_text(one, number)))
    return tuple(found)


def _text(value: Any, number: int) -> str:
    if not isinstance(value, str):
        raise ValueError(f"passages: item {number} must be a text, not {type(value).__name__}")  # noqa: TRY004 -- wrong input, as others
    return encodable(value)


def _labels(cells: Mapping[str, Any], metrics: Mapping[str, _Scaled]) -> dict[str, Label]:
    given = cells.get("labels", {})
    if not isinstance(given, dict):
        raise ValueError('labels: must be an object, as in {"faithfulness": 1}')  # noqa: TRY004 -- wrong input, as others
    written = {plain_text(name): value for name, value in given.items() if not is_empty(value)}
    if "label" in cells:
        named = [plain_text(cells["metric"])] if "metric" in cells else list(metrics)
        if both := [name for name in named if name in written]:
            raise ValueError(f"labelled twice for {both[0]}: by `label` and by `labels`")
        written |= dict.fromkeys(named, cells["label"])
    elif "metric" in cells:
        raise ValueError("a metric without a label")
    if not written:
        raise ValueError("no label")
    return {name: _label(name, value, metrics) for name, value in written.items()}


def _label(name: str, value: Any, metrics: Mapping[str, _Scaled]) -> Label:
    if name not in metrics:
        raise ValueError(f"the judge has no metric `{name}`; {did_you_mean(name, metrics)}")
    said = f"the label of {name}, {str(value)[:40]!r},"
    try:
        return metrics[name][1].read(value)
    except AmbiguousLabelError as error:
        raise AmbiguousLabelError(f"{said} {error}", name) from error
    except ValueError as error:
        raise ValueError(f"{said} {error}") from error
