"""Files of labelled cases: both forms, and every mistake with its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from rag_assay.evals.judging.cards import labels as module
from rag_assay.evals.judging.cards.labels import Label, LabelFile, LabelledCase, read_labels
from rag_assay.evals.judging.contract import JudgedMetric
from rag_assay.warehouse.errors import InputError

METRICS = (
    JudgedMetric("support", frozenset({"answer", "passages"})),
    JudgedMetric("agreement", frozenset({"answer", "ground_truth"})),
    JudgedMetric("detail", bounds=(1.0, 5.0)),
)
CASE = {
    "question": "When?",
    "answer": "At noon.",
    "passages": ["It leaves at noon."],
    "ground_truth": "Noon.",
}


ZERO_ONE = {"scale": [0, 1], "metrics": {"detail": {"scale": [1, 5], "good_from": 4}}}
YES, NO = Label(good=True, grade=1.0), Label(good=False, grade=0.0)


def written(
    folder: Path, *lines: object, name: str = "labels.jsonl", meaning: dict[str, Any] | None = None
) -> list[LabelledCase]:
    path = folder / name
    path.write_text("".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in lines))
    means = LabelFile.model_validate({"file": name, **(ZERO_ONE if meaning is None else meaning)})
    return read_labels(path, METRICS, means)


def mistakes(folder: Path, *lines: object, **how: Any) -> list[str]:
    name = how.get("name", "labels.jsonl")
    with pytest.raises(InputError) as caught:
        written(folder, *lines, **how)
    return [str(one).removeprefix(f"{folder / name}:") for one in caught.value.findings]


def test_lines_of_json(tmp_path: Path) -> None:
    found = written(
        tmp_path,
        {**CASE, "labels": {"support": 1, "detail": 4.5}, "_by": "Ada"},
        "",
        {"user_input": "Why?", "response": "So.", "contexts": ["x"], "label": "1", "metric": "support"},
    )
    assert [one.labels for one in found] == [
        {"support": YES, "detail": Label(good=True, grade=0.875)},
        {"support": YES},
    ]
    assert found[0].case.passages[0].text == "It leaves at noon."
    assert found[0].case.ground_truth == "Noon."
    assert [one.place.rpartition(":")[2] for one in found] == ["1", "3"]


def test_rows_of_a_table_with_text_or_a_list_for_passages(tmp_path: Path) -> None:
    found = written(
        tmp_path,
        "question;answer;passages;labels.support;labels.detail;_note",
        'When?;At noon.;It leaves at noon.;1;;"a; b"',
        'Why?;So.;"[""x"", ""y""]";0;2;',
        name="labels.csv",
    )
    assert [one.labels for one in found] == [
        {"support": YES},
        {"support": NO, "detail": Label(good=False, grade=0.25)},
    ]
    assert [len(one.case.passages) for one in found] == [1, 2]


def test_a_label_without_a_metric_is_of_all_that_can_be_judged(tmp_path: Path) -> None:
    no_truth = {key: value for key, value in CASE.items() if key != "ground_truth"}
    assert written(tmp_path, {**CASE, "label": 1})[0].labels == {
        "support": YES,
        "agreement": YES,
        "detail": NO,
    }
    assert written(tmp_path, {**no_truth, "label": 1})[0].labels == {"support": YES, "detail": NO}


def test_lines_of_the_same_case_are_one_case(tmp_path: Path) -> None:
    found = written(
        tmp_path,
        {**CASE, "metric": "support", "label": 1},
        {**CASE, "metric": "agreement", "label": 0},
        {**CASE, "answer": "Never.", "metric": "support", "label": 0},
    )
    assert [one.labels for one in found] == [{"support": YES, "agreement": NO}, {"support": NO}]


@pytest.mark.parametrize(
    ("cells", "part"),
    [
        ({"metric": "supprt", "label": 1}, "no metric `supprt`; did you mean `support`?"),
        ({"metric": "judge.support", "label": 1}, "no metric `judge.support`"),
        (
            {"labels": {"support": 1.01}},
            "the label of support, '1.01', must be a number of its `scale`, [0, 1]",
        ),
        ({"labels": {"support": -0.01}}, "a number of its `scale`, [0, 1]"),
        ({"labels": {"detail": 0}}, "the label of detail, '0', must be a number of its `scale`, [1, 5]"),
        ({"labels": {"support": "good"}}, "a number of its `scale`, [0, 1]"),
        ({"labels": {"support": True}}, "a number of its `scale`, [0, 1]"),
        ({"labels": {"support": "NaN"}}, "a number of its `scale`, [0, 1]"),
        (
            {"labels": {"support": 0.5}},
            "lies between the ends of its `scale`, [0, 1]: say in the study which",
        ),
        ({"labels": {"support": [1]}}, "a number of its `scale`, [0, 1]"),
        ({"labels": {"support": 10**400}}, "a number of its `scale`, [0, 1]"),
        ({"labels": 1}, "must be an object"),
        ({"label": 1, "labels": {"support": 1}}, "labelled twice for support: by `label` and by `labels`"),
        ({"metric": "support"}, "a metric without a label"),
        ({}, "no label"),
        ({"labels": {"support": None}}, "no label"),
        ({"label": 1, "question": " "}, "no question"),
        ({"label": 1, "answer": {"a": 1}}, "answer: must be text"),
        ({"label": 1, "passages": [1]}, "passages: item 1 must be a text"),
        ({"label": 1, "passages": {"a": 1}}, "must be a list"),
        ({"labels": {"support": 1}, "passages": None}, "support cannot be judged: there is no passage"),
        (
            {"labels": {"agreement": 1}, "ground_truth": ""},
            "agreement cannot be judged: there is no ground_truth",
        ),
        ({"labels": {"detail": 1}, "answer": ""}, "detail cannot be judged: the answer is empty"),
        ({"label": 1, "answr": "x"}, "unknown column 'answr'; did you mean `answer`?"),
        ({"label": 1, "contexts": ["x"]}, "more than one column 'passages'"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, cells: dict[str, object], part: str) -> None:
    good = {**CASE, "question": "Where?", "label": 1}
    found = mistakes(tmp_path, good, {**CASE, **cells})
    assert len(found) == 1
    assert found[0].startswith("2: ")
    assert part in found[0]


def test_all_mistakes_of_a_file_are_told(tmp_path: Path) -> None:
    good = {**CASE, "labels": {"agreement": 1}}
    found = mistakes(tmp_path, "[1]", "{", {**CASE, "label": 7}, good, {**good, "labels": {"agreement": 0}})
    assert [one.partition(":")[0] for one in found] == ["1", "2", "3", "5"]
    assert "labelled twice for agreement, first at" in found[3]
    assert found[3].endswith("labels.jsonl:4; keep one")


@pytest.mark.parametrize(
    ("lines", "name", "part"),
    [
        ([], "labels.jsonl", "no labelled case"),
        (["question,label"], "labels.csv", "no labelled case"),
        (["answer,label", "a,1"], "labels.csv", "1: no column 'question'"),
        (["question,answer,answer,label", "a,b,c,1"], "labels.csv", "1: more than one column 'answer'"),
        (["question,label", "a,1,2"], "labels.csv", "2: 3 cells for 2 columns"),
        (["question,answer,label", '"a,1'], "labels.csv", "2: not a row of a table"),
        (["x"], "labels.txt", "labels are a file of .jsonl, .ndjson, .csv, .tsv"),
    ],
)
def test_files_that_hold_nothing(tmp_path: Path, lines: list[str], name: str, part: str) -> None:
    assert part in mistakes(tmp_path, *lines, name=name)[0]


def test_one_case_more_than_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 2)
    cases = [{**CASE, "question": f"{n}?", "label": 1} for n in range(3)]
    assert len(written(tmp_path, *cases[:2])) == 2
    assert mistakes(tmp_path, *cases) == ["3: more than 2 labelled cases; a few hundred tell as much"]


# What labels mean -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("meaning", "values", "good"),
    [
        ({}, [True, "yes", "GOOD ", "True", False, "no", "bad"], [1, 1, 1, 1, 0, 0, 0]),
        ({"scale": [0, 1]}, [1, 0, "1", "0.0"], [1, 0, 1, 0]),
        ({"scale": [1, 0]}, [1, 0, "1", "0.0"], [0, 1, 0, 1]),
        ({"scale": [-1, 1]}, [-1, 1], [0, 1]),
        ({"scale": [True, False]}, [True, False, "yes", "no"], [0, 1, 0, 1]),
        ({"scale": ["hallucinated", "Supported"]}, ["supported", "HALLUCINATED"], [1, 0]),
        ({"scale": [1, 5], "good_from": 4}, [1, 3.9, 4, 5], [0, 0, 1, 1]),
        ({"scale": [6, 1], "good_from": 2}, [6, 3, 2, 1], [0, 0, 1, 1]),
        ({"scale": [0, 10], "good_from": 10}, [0, 9, 10], [0, 0, 1]),
        ({"scale": [1, 5]}, [1, 5], [0, 1]),
    ],
)
def test_what_is_good_is_what_the_study_says(
    tmp_path: Path, meaning: dict[str, Any], values: list[object], good: list[int]
) -> None:
    lines = [{**CASE, "question": f"{n}?", "metric": "support", "label": one} for n, one in enumerate(values)]
    found = written(tmp_path, *lines, meaning=meaning)
    assert [one.labels["support"].good for one in found] == [bool(one) for one in good]


def test_grades_go_from_the_worst_to_the_best(tmp_path: Path) -> None:
    lines = [{**CASE, "question": f"{n}?", "metric": "support", "label": n} for n in (6, 3.5, 1)]
    found = written(tmp_path, *lines, meaning={"scale": [6, 1], "good_from": 2})
    assert [one.labels["support"].grade for one in found] == [0.0, 0.5, 1.0]


@pytest.mark.parametrize("values", [[0, 1], [1, 1], ["0", "1"], [-1, 1], [True, 0], [3]])
def test_numbers_without_a_scale_are_refused_once_with_line_and_advice(
    tmp_path: Path, values: list[object]
) -> None:
    lines = [{**CASE, "question": f"{n}?", "metric": "support", "label": one} for n, one in enumerate(values)]
    (found,) = mistakes(tmp_path, *lines, meaning={})
    assert found.startswith(f"{2 if values[0] is True else 1}: the label of support, ")
    assert "`labels: {file: FILE, scale: [0, 1]}`" in found


def test_a_scale_of_a_metric_that_is_none_is_told(tmp_path: Path) -> None:
    meaning = {"scale": [0, 1], "metrics": {"suport": {"scale": [1, 5]}}}
    (found,) = mistakes(tmp_path, {**CASE, "metric": "support", "label": 1}, meaning=meaning)
    assert "no metric `suport`, whose scale is said; did you mean `support`?" in found


@pytest.mark.parametrize(
    ("meaning", "part"),
    [
        ({"scale": [1, 1]}, "two ends"),
        ({"scale": ["yes", "true"]}, "two ends"),
        ({"scale": [True, 1]}, "two ends"),
        ({"scale": ["bad", 1]}, "two ends"),
        ({"scale": [1]}, "Field required"),
        ({"scale": [1, 2, 3]}, "at most 2 items"),
        ({"scale": [0, float("inf")]}, "finite"),
        ({"good_from": 3}, "say that, as in scale: [1, 5]"),
        ({"scale": ["no", "yes"], "good_from": 1}, "of two words the second is the good one"),
        ({"scale": [1, 5], "good_from": 1}, "not be its worst end"),
        ({"scale": [5, 1], "good_from": 5}, "not be its worst end"),
        ({"scale": [1, 5], "good_from": 6}, "must lie on the `scale`"),
        ({"scale": [1, 5], "good_from": float("nan")}, "finite"),
        ({"scale": [1, 5], "good_from": True}, "good_from"),
        ({"metrics": {"support": {"scale": [0, 0]}}}, "two ends"),
        ({"scales": [0, 1]}, "Extra inputs"),
    ],
)
def test_a_scale_that_is_none_is_refused(meaning: dict[str, Any], part: str) -> None:
    with pytest.raises(ValidationError) as caught:
        LabelFile.model_validate({"file": "labels.jsonl", **meaning})
    assert part in str(caught.value)


def test_a_path_alone_will_do() -> None:
    assert LabelFile.model_validate("labels.jsonl") == LabelFile(file="labels.jsonl")
