"""Files of labelled cases: both forms, and every mistake with its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evals.judging.cards import labels as module
from evals.judging.cards.labels import LabelledCase, read_labels
from evals.judging.contract import JudgedMetric
from warehouse.errors import InputError

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


def written(folder: Path, *lines: object, name: str = "labels.jsonl") -> list[LabelledCase]:
    path = folder / name
    path.write_text("".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in lines))
    return read_labels(path, METRICS)


def mistakes(folder: Path, *lines: object, name: str = "labels.jsonl") -> list[str]:
    with pytest.raises(InputError) as caught:
        written(folder, *lines, name=name)
    return [str(one).removeprefix(f"{folder / name}:") for one in caught.value.findings]


def test_lines_of_json(tmp_path: Path) -> None:
    found = written(
        tmp_path,
        {**CASE, "labels": {"support": 1, "detail": 4.5}, "_by": "Ada"},
        "",
        {"user_input": "Why?", "response": "So.", "contexts": ["x"], "label": True, "metric": "support"},
    )
    assert [one.labels for one in found] == [{"support": 1.0, "detail": 4.5}, {"support": 1.0}]
    assert found[0].case.passages[0].text == "It leaves at noon."
    assert found[0].case.ground_truth == "Noon."
    assert [one.place.rpartition(":")[2] for one in found] == ["1", "3"]


def test_rows_of_a_table_with_text_or_a_list_for_passages(tmp_path: Path) -> None:
    found = written(
        tmp_path,
        "question;answer;passages;labels.support;labels.detail;_note",
        'When?;At noon.;It leaves at noon.;yes;;"a; b"',
        'Why?;So.;"[""x"", ""y""]";0;2;',
        name="labels.csv",
    )
    assert [one.labels for one in found] == [{"support": 1.0}, {"support": 0.0, "detail": 2.0}]
    assert [len(one.case.passages) for one in found] == [1, 2]


def test_a_label_without_a_metric_is_of_all_that_can_be_judged(tmp_path: Path) -> None:
    no_truth = {key: value for key, value in CASE.items() if key != "ground_truth"}
    assert written(tmp_path, {**CASE, "label": 1})[0].labels == {"support": 1, "agreement": 1, "detail": 1}
    assert written(tmp_path, {**no_truth, "label": 1})[0].labels == {"support": 1, "detail": 1}


def test_lines_of_the_same_case_are_one_case(tmp_path: Path) -> None:
    found = written(
        tmp_path,
        {**CASE, "metric": "support", "label": 1},
        {**CASE, "metric": "agreement", "label": 0},
        {**CASE, "answer": "Never.", "metric": "support", "label": 0},
    )
    assert [one.labels for one in found] == [{"support": 1, "agreement": 0}, {"support": 0}]


@pytest.mark.parametrize(
    ("cells", "part"),
    [
        ({"metric": "supprt", "label": 1}, "no metric `supprt`; did you mean `support`?"),
        ({"metric": "judge.support", "label": 1}, "no metric `judge.support`"),
        ({"labels": {"support": 1.01}}, "a number from 0 to 1, not '1.01'"),
        ({"labels": {"support": -0.01}}, "a number from 0 to 1"),
        ({"labels": {"detail": 0}}, "a number from 1 to 5, not '0'"),
        ({"labels": {"support": "good"}}, "a number from 0 to 1, not 'good'"),
        ({"labels": {"support": [1]}}, "a number from 0 to 1"),
        ({"labels": {"support": 10**400}}, "a number from 0 to 1"),
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
