"""A queue goes out as tasks of Label Studio, and comes back as its exports."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag_assay.evals.human.spreadsheets.export import export_config
from rag_assay.evals.human.spreadsheets.table import showings_of
from rag_assay.evals.human.spreadsheets.upload import bring_back, is_ours
from rag_assay.evals.rubrics.criteria import CriteriaRubric
from rag_assay.evals.rubrics.pairwise import PairwiseRubric
from rag_assay.evals.rubrics.points import Points
from rag_assay.warehouse.errors import InputError
from tests.fakes.queues import item_of, queue_of, scores_of
from tests.fakes.sheets import AT, Desk

Said = dict[str, Any]
CHOICE = {"score-points": {"type": "choices", "value": {"choices": ["5"]}}}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path, queue_of(4))


def annotation(said: Said, who: Any = 7, **more: Any) -> dict[str, Any]:
    """An annotation as Label Studio exports it."""
    result = [
        {"id": f"r{n}", "from_name": name, "to_name": "answer", "origin": "manual", **one}
        for n, (name, one) in enumerate(said.items())
    ]
    return {
        "id": 1001,
        "completed_by": who,
        "result": result,
        "was_cancelled": False,
        "ground_truth": False,
        "created_at": "2026-05-06T08:00:00.000000Z",
        "updated_at": "2026-05-06T08:00:30.000000Z",
        "lead_time": 30.25,
        "prediction": {},
        "result_count": 1,
        "task": 1,
        **more,
    }


def annotated(path: Path, *annotations: list[dict[str, Any]]) -> Path:
    """The tasks of a file as Label Studio exports them, with the annotations of each."""
    tasks = json.loads(path.read_text("utf-8"))
    for task, found in zip(tasks, annotations, strict=False):
        task |= {"annotations": found, "drafts": [], "predictions": [], "total_annotations": len(found)}
    path.write_text(json.dumps(tasks), encoding="utf-8")
    return path


def reduced(path: Path) -> Path:
    """The annotations of an export as JSON-MIN has them."""
    rows = []
    for task in json.loads(path.read_text("utf-8")):
        for one in task.get("annotations", []):
            if one["was_cancelled"]:
                continue
            row = {**task["data"], "id": task["id"]}
            for result in one["result"]:
                value = result["value"]
                bare = value.get("choices", value.get("text"))
                is_bare = result["type"] in {"choices", "textarea"} and len(bare) == 1
                row[result["from_name"]] = bare[0] if is_bare else [value]
            who = one["completed_by"]
            row["annotator"] = who["email"] if isinstance(who, dict) else who
            row |= {name: one[name] for name in ("created_at", "updated_at", "lead_time")}
            rows.append(row | {"annotation_id": one["id"]})
    other = path.with_name("min-" + path.name)
    other.write_text(json.dumps(rows, indent=2, ensure_ascii=False), encoding="utf-8")
    return other


def test_tasks_hold_what_the_configuration_shows(desk: Desk) -> None:
    path = desk.export("tasks.json")
    assert is_ours(path)
    tasks = json.loads(path.read_text("utf-8"))
    assert [task["id"] for task in tasks] == [1, 2, 3, 4]
    export_config(desk.queue, desk.folder / "config.xml", "anna")
    view = ElementTree.parse(desk.folder / "config.xml").getroot()  # noqa: S314 -- our own
    assert view.tag == "View"
    shown = {one.get("value") for one in view.iter("Text")}
    assert shown == {"$question", "$answer", "$ground_truth", "$passages"}
    assert all({name[1:] for name in shown if name} <= task["data"].keys() for task in tasks)
    (choices,) = view.iter("Choices")
    assert [one.get("alias") for one in choices] == ["5", "3", "0", "skip"]
    names = {one.get("name") for one in view.iter() if one.get("name")}
    assert all(one.get("toName") in names for one in view.iter() if one.get("toName"))
    assert "[2] Tickets" in tasks[0]["data"]["passages"]


@pytest.mark.parametrize("is_reduced", [False, True])
def test_results_become_scores(desk: Desk, is_reduced: bool) -> None:
    comment = {"comment": {"type": "textarea", "value": {"text": ["<b>fine</b>"]}}}
    path = annotated(desk.export("tasks.json"), [annotation(CHOICE | comment)], [annotation(CHOICE)], [])
    path = reduced(path) if is_reduced else path
    found = desk.bring(path)
    assert not found.rejects
    first, second = desk.rows()
    assert (first["annotator"], first["value"], first["comment"]) == ("anna", 5.0, "<b>fine</b>")
    assert (first["seconds"], first["scored_at"].isoformat()) == (30.2, "2026-05-06T08:00:30+00:00")
    assert first["place"].startswith(f"{path.name}:")
    assert "(task 1)" in first["place"]
    assert second["comment"] is None
    assert not desk.bring(path).scores


@pytest.mark.parametrize("is_reduced", [False, True])
def test_those_who_work_together_are_told_apart(desk: Desk, is_reduced: bool) -> None:
    low = {"score-points": {"type": "choices", "value": {"choices": ["0: Wrong"]}}}
    path = annotated(
        desk.export("tasks.json", None),
        [annotation(CHOICE, {"id": 3, "email": "anna@example.org"}), annotation(low, 12)],
        [annotation(CHOICE, {"id": 3, "email": "anna@example.org"})],
    )
    path = reduced(path) if is_reduced else path
    assert desk.bring(path).counts == {"ok": 3}
    by_name = sorted((key[0], value) for key, value in desk.values().items())
    assert by_name == [("anna@example.org", 5.0), ("anna@example.org", 5.0), ("user 12", 0.0)]


def test_one_persons_tasks_are_not_scored_by_two(desk: Desk) -> None:
    path = annotated(desk.export("tasks.json"), [annotation(CHOICE, 1), annotation(CHOICE, 2)])
    with pytest.raises(InputError, match="2 people have scored in it"):
        desk.bring(path)


def test_cancelled_is_skipped_and_predictions_are_nothing(desk: Desk) -> None:
    path = annotated(desk.export("tasks.json"), [annotation({}, was_cancelled=True)])
    tasks = json.loads(path.read_text("utf-8"))
    tasks[1]["predictions"] = [{"model_version": "m", "result": annotation(CHOICE)["result"]}]
    path.write_text(json.dumps(tasks), encoding="utf-8")
    assert desk.bring(path).counts == {"skipped": 1}


def test_a_later_annotation_counts_and_a_corrected_one_is_a_later_row(desk: Desk) -> None:
    low = {"score-points": {"type": "choices", "value": {"choices": ["0"]}}}
    older = annotation(low, updated_at="2026-05-05T08:00:00Z", id=1)
    path = annotated(desk.export("tasks.json"), [annotation(CHOICE), older])
    found = desk.bring(path)
    assert (found.counts, list(desk.values().values())) == ({"ok": 1}, [5.0])
    assert "the later annotation counts" in found.notes[0]
    annotated(path, [annotation(low)])
    assert desk.bring(path).counts == {"ok": 1}
    annotated(path, [annotation({})])
    assert desk.bring(path).counts == {"withdrawn": 1}


def test_what_was_scored_before_is_offered_to_its_annotator_alone(desk: Desk) -> None:
    shown = showings_of(desk.queue, "anna")
    desk.scores.append(scores_of(desk.queue, "anna", shown[0], lambda _: 3.0, comment="so so"))
    (first, *_) = json.loads(desk.export("tasks.json").read_text("utf-8"))
    (prediction,) = first["predictions"]
    assert [one["value"] for one in prediction["result"]] == [{"choices": ["3"]}, {"text": ["so so"]}]
    assert "so so" not in desk.export("bo.json", "bo").read_text("utf-8")
    assert "so so" not in desk.export("all.json", None).read_text("utf-8")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"rating": 3}, 3.0),
        ({"number": 5}, 5.0),
        ({"text": ["5"]}, 5.0),
        ({"choices": ["Wrong"]}, 0.0),
        ({"choices": ["skip: you cannot say"]}, "skipped"),
    ],
)
def test_other_controls_are_read(desk: Desk, value: Said, expected: Any) -> None:
    path = annotated(desk.export("tasks.json"), [annotation({"points": {"type": "any", "value": value}})])
    desk.bring(path)
    assert list(desk.values().values()) == [expected]


@pytest.mark.parametrize(
    "value",
    [
        {"rating": 4},
        {"choices": ["5", "3"]},
        {"choices": ["good"]},
        {"x": 1},
        {"number": 1e400},
        [[[1]]],
        True,
    ],
)
def test_what_is_no_value_is_rejected(desk: Desk, value: Any) -> None:
    said = {"score-points": {"type": "choices", "value": value}}
    path = annotated(desk.export("tasks.json"), [annotation(CHOICE)], [annotation(said)])
    found = desk.bring(path)
    assert len(found.rejects) == 1
    assert "(task 2): `score: points`:" in found.rejects[0]
    assert not desk.rows()


@pytest.mark.parametrize("selected", ["left", "right", "none"])
@pytest.mark.parametrize("is_reduced", [False, True])
def test_pairs_are_scored_as_they_stood(tmp_path: Path, selected: str, is_reduced: bool) -> None:
    duel = PairwiseRubric.model_validate({"against": "a.b.c.d"})
    desk = Desk(tmp_path, queue_of([item_of(n, rival="Never.") for n in range(8)], {"duel": duel}))
    said = {"score-duel": {"type": "pairwise", "value": {"selected": selected}}}
    path = annotated(desk.export("tasks.json"), *[[annotation(said)]] * 8)
    desk.bring(reduced(path) if is_reduced else path)
    shown = showings_of(desk.queue, "anna")
    first = {"left": 1.0, "right": 0.0, "none": 0.5}[selected]
    assert list(desk.values().values()) == [1 - first if one.swapped else first for one in shown]
    assert {one.swapped for one in shown} == {True, False}


def test_criteria_have_a_control_each(tmp_path: Path) -> None:
    rubric = CriteriaRubric.model_validate({"scale": "binary"})
    desk = Desk(tmp_path, queue_of(2, {"quality": rubric}))
    said = {
        f"score-quality.{one.name}": {"type": "choices", "value": {"choices": [str(n % 2)]}}
        for n, one in enumerate(rubric.criteria)
    }
    desk.bring(annotated(desk.export("tasks.json"), [annotation(said)]))
    values = [value for _, value in sorted(desk.values().items())]
    assert sorted(values) == sorted(float(n % 2) for n in range(len(rubric.criteria)))


@pytest.mark.parametrize("name", ["lead_time", "annotator", "comment", "question", "id"])
def test_a_rubric_may_be_called_as_what_stands_beside_it(tmp_path: Path, name: str) -> None:
    desk = Desk(tmp_path, queue_of(2, {name: Points(anchors={30.25: "Long", 7: "So", 1: "Short"})}))
    comment = {"comment": {"type": "textarea", "value": {"text": ["7"]}}}
    path = reduced(annotated(desk.export("tasks.json"), [annotation(comment)]))
    found = desk.bring(path)
    assert (found.scores, found.rejects) == ([], [])
    said = {f"score-{name}": {"type": "choices", "value": {"choices": ["7"]}}}
    desk.bring(reduced(annotated(path.with_name("tasks.json"), [annotation(said)])))
    assert list(desk.values().values()) == [7.0]


def test_edited_data_and_unknown_items_are_rejected(desk: Desk) -> None:
    path = annotated(
        desk.export("tasks.json"), [annotation(CHOICE)], [annotation(CHOICE)], [annotation(CHOICE)]
    )
    tasks = json.loads(path.read_text("utf-8"))
    tasks[0]["data"]["answer"] = "At one."
    tasks[1]["data"]["item"] = "r0"
    tasks[2]["annotations"] = [17]
    path.write_text(json.dumps(tasks, indent=1), encoding="utf-8")
    found = desk.bring(path)
    assert len(found.rejects) == 3
    assert not desk.rows()
    assert {reject.split(":")[1].split(" ")[0] for reject in found.rejects} > {"2"}  # lines of the file


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{}", "a JSON array of tasks"),
        (b"", "a JSON array of tasks"),
        (b"[1]", "not a JSON object"),
        (b"[{}]", "of no queue"),
        (b"[", "no JSON"),
        (b'[{"a": 1} {"b": 2}]', "does not end"),
        (b"[" * 100_000, "no JSON"),
        (b"\xff\xfe\x00", "no JSON"),
    ],
)
def test_what_is_no_export_is_refused(desk: Desk, body: bytes, said: str) -> None:
    path = desk.folder / "odd.json"
    path.write_bytes(body)
    assert not is_ours(path)
    with pytest.raises(InputError, match=said):
        bring_back(path, desk.home, AT)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["choices", "text", "rating", "email", "id", "value", "x"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    odd=JSON,
    place=st.sampled_from(["annotations", "result", "value", "completed_by", "lead_time", "created_at"]),
)
def test_odd_json_is_a_sentence_and_never_a_stack_trace(desk: Desk, odd: Any, place: str) -> None:
    path = annotated(desk.export("tasks.json"), [annotation(CHOICE)])
    tasks = json.loads(path.read_text("utf-8"))
    one = tasks[0]["annotations"][0]
    if place == "annotations":
        tasks[0][place] = odd
    elif place == "value":
        one["result"][0]["value"] = odd
    else:
        one[place] = odd
    path.write_text(json.dumps(tasks), encoding="utf-8")
    with suppress(InputError):
        bring_back(path, desk.home, AT)


def test_anchors_that_look_like_markup_are_text_in_the_configuration(tmp_path: Path) -> None:
    rubric = Points(ask='<b>$question</b> & "so"?', anchors={1: "</Choice><Script/>", 0: "$answer"})
    queue = queue_of(1, {"points": rubric})
    export_config(queue, tmp_path / "config.xml")
    view = ElementTree.parse(tmp_path / "config.xml").getroot()  # noqa: S314 -- our own
    assert {one.tag for one in view.iter()} == {"View", "Header", "Text", "Choices", "Choice", "TextArea"}
    words = [one.get("value", "") for one in view.iter() if one.tag in {"Header", "Choice"}]
    assert not any("$" in one for one in words)
    assert any("</Choice><Script/>" in one for one in words)
