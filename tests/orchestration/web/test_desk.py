"""An annotator at a queue, without a browser: which rows a key writes, and where it leads."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from rag_assay.evals.human.queue import Queue
from rag_assay.evals.rubrics.points import Points
from rag_assay.evals.rubrics.rubric import Criterion, Rubric
from rag_assay.orchestration.web.annotation.annotation_session import (
    LONGEST_COMMENT,
    AnnotationSession,
    desk_view,
)
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.human_scores import HumanScores
from rag_assay.warehouse.paths import Home
from tests.fakes.queues import item_of, queue_of

ADA = "Ada"
Row = dict[str, Any]


class ThreeThings(Points):
    """Three criteria, one after the other."""

    kind = "three_things"

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        return tuple(
            Criterion(name, f"Is it {name}?", {1: "Yes", 0: "No"}) for name in ("right", "short", "kind")
        )


class Better(Points):
    """Which of two answers is better."""

    kind = "better"
    compares = True

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        return (Criterion(None, "Which is better?", {1: "It is", 0.5: "Neither", 0: "The other is"}),)


@pytest.fixture
def scores(tmp_path: Path) -> HumanScores:
    return HumanScores(Home(tmp_path))


@pytest.fixture
def sit(scores: HumanScores) -> Callable[..., AnnotationSession]:
    """Sit down at a queue of items, or of so many."""

    def at(queue: Queue, annotator: str = ADA) -> AnnotationSession:
        return AnnotationSession(queue, annotator, scores)

    return at


PRESSES = count()


def press(desk: AnnotationSession, kind: str, name: str | None = None, **said: Any) -> None:
    """A press, which has a name of its own unless one is given."""
    event = {
        "kind": kind,
        "token": desk.token,
        "press": name or f"p{next(PRESSES)}",
        "comment": "",
        "seconds": 1,
    }
    desk.take({**event, **said})


def question(desk: AnnotationSession) -> str | None:
    return desk.place.showing.item.case.question if desk.place else None


def rows(scores: HumanScores) -> list[Row]:
    return list(scores.rows())


def values(scores: HumanScores) -> list[tuple[float | None, str]]:
    return [(row["value"], row["status"]) for row in rows(scores)]


def test_a_score_is_a_row_and_leads_to_the_next_item(
    sit: Callable[..., AnnotationSession], scores: HumanScores
) -> None:
    queue = queue_of(3, repeats=0.0)
    desk = sit(queue)
    first = desk.place
    assert first is not None
    press(desk, "score", index=1, seconds=12.34, comment="  half right ")
    (row,) = rows(scores)
    assert (row["value"], row["status"], row["seconds"], row["comment"]) == (3.0, "ok", 12.3, "half right")
    assert (row["annotator"], row["study"], row["place"]) == (ADA, "tiny", "page")
    assert (row["item_id"], row["showing"], row["position"]) == (*first.shown, 1)
    assert (row["rubric"], row["criterion"]) == ("points", None)
    assert (row["rubric_version"], row["queue_version"]) == (queue.rubrics["points"].version, queue.version)
    assert (row["cell"], row["question_id"]) == (None, None)
    assert question(desk) != first.showing.item.case.question
    press(desk, "score", index=0)
    press(desk, "skip", index=0)
    assert values(scores) == [(3.0, "ok"), (5.0, "ok"), (None, "skipped")]
    assert desk.place is None
    assert desk.progress.left == 0


def test_an_event_is_taken_once_and_only_for_what_is_shown(
    sit: Callable[..., AnnotationSession], scores: HumanScores
) -> None:
    desk = sit(queue_of(4))
    event = {"kind": "score", "token": desk.token, "press": "one", "index": 0}
    for _ in range(3):
        desk.take(event)
    assert values(scores) == [(5.0, "ok")]
    for strange in (
        {},
        {"kind": "score", "index": 0},
        {"kind": "score", "token": desk.token, "index": 0},
        {"kind": "score", "token": desk.token, "press": "x" * 65, "index": 0},
        {"kind": "score", "token": desk.token, "press": 7, "index": 0},
    ):
        desk.take(strange)
    assert len(rows(scores)) == 1


@pytest.mark.parametrize("index", [-1, 3, 99, None, "0", 0.0, [0]])
def test_what_is_no_anchor_is_no_score(
    sit: Callable[..., AnnotationSession], scores: HumanScores, index: object
) -> None:
    desk = sit(queue_of(2))
    before = question(desk)
    press(desk, "score", index=index)
    press(desk, "nonsense", index=index)
    press(desk, "focus", step=index)
    assert rows(scores) == []
    assert question(desk) == before


def test_the_same_press_that_arrives_in_a_second_session_is_one_row(
    sit: Callable[..., AnnotationSession], scores: HumanScores
) -> None:
    queue = queue_of(3)
    one, other = sit(queue), sit(queue)
    press(one, "score", "lost on the way", index=0)
    press(other, "score", "lost on the way", index=0)
    assert values(scores) == [(5.0, "ok")]


def test_two_tabs_of_one_annotator_lose_nothing(
    sit: Callable[..., AnnotationSession], scores: HumanScores
) -> None:
    queue = queue_of(3)
    one, other = sit(queue), sit(queue)
    press(one, "score", index=0)
    press(other, "score", index=2)
    assert values(scores) == [(5.0, "ok"), (0.0, "ok")]
    assert len({row["item_id"] for row in rows(scores)}) == 1
    assert one.progress.shown == 1


def test_back_and_another_score_is_a_later_row(
    sit: Callable[..., AnnotationSession], scores: HumanScores
) -> None:
    desk = sit(queue_of(5, repeats=0.0))
    asked = [question(desk)]
    for _ in range(3):
        press(desk, "score", index=0)
        asked.append(question(desk))
    press(desk, "back")
    press(desk, "back")
    assert question(desk) == asked[1]
    press(desk, "score", index=2)
    assert question(desk) == asked[2]
    press(desk, "on")
    assert question(desk) == asked[3]
    assert [value for value, _ in values(scores)] == [5.0, 5.0, 5.0, 0.0]
    changed = [row for row in rows(scores) if row["item_id"] == rows(scores)[3]["item_id"]]
    assert [row["position"] for row in changed] == [2, 2]
    assert len({row["score_id"] for row in rows(scores)}) == 4
    assert desk.progress.shown == 3


def test_on_does_not_pass_what_is_open(sit: Callable[..., AnnotationSession], scores: HumanScores) -> None:
    desk = sit(queue_of(3))
    before = question(desk)
    press(desk, "on")
    assert question(desk) == before
    assert "press s" in desk.notice
    press(desk, "back")
    assert question(desk) == before
    assert desk.is_first


def test_undo_takes_back_one_after_the_other_also_after_a_reload(
    sit: Callable[..., AnnotationSession], scores: HumanScores
) -> None:
    queue = queue_of(4, repeats=0.0)
    desk = sit(queue)
    asked = []
    for index in (0, 1, 2):
        asked.append(question(desk))
        press(desk, "score", index=index)
    press(desk, "undo")
    assert question(desk) == asked[2]
    press(desk, "undo")
    assert question(desk) == asked[1]
    again = sit(queue)
    assert again.progress.shown == 1
    press(again, "undo")
    assert question(again) == asked[0]
    assert not again.can_undo
    press(again, "undo")
    assert [status for _, status in values(scores)] == ["ok"] * 3 + ["withdrawn"] * 3
    assert all(row["value"] is None and row["comment"] is None for row in rows(scores)[3:])
    press(again, "score", index=1)
    assert again.progress.shown == 1


def test_undo_takes_back_what_is_shown_before_what_came_last(
    sit: Callable[..., AnnotationSession], scores: HumanScores
) -> None:
    desk = sit(queue_of(5, repeats=0.0))
    for _ in range(3):
        press(desk, "score", index=0)
    press(desk, "back")
    press(desk, "back")
    here = question(desk)
    press(desk, "undo")
    assert question(desk) == here
    assert rows(scores)[-1]["item_id"] == rows(scores)[1]["item_id"]


def test_a_comment_is_kept_with_its_score_and_changed_by_a_later_row(
    sit: Callable[..., AnnotationSession], scores: HumanScores
) -> None:
    desk = sit(queue_of(3, repeats=0.0))
    press(desk, "comment", comment="nothing to hang it on")
    assert rows(scores) == []
    press(desk, "score", index=0, comment="first", seconds=9)
    press(desk, "back", comment="of the next item, which has no score")
    assert len(rows(scores)) == 1
    press(desk, "comment", comment="first")
    assert len(rows(scores)) == 1
    press(desk, "comment", comment="second")
    press(desk, "on", comment="")
    assert [(row["comment"], row["value"], row["seconds"]) for row in rows(scores)] == [
        ("first", 5.0, 9.0),
        ("second", 5.0, 9.0),
        (None, 5.0, 9.0),
    ]


def test_criteria_are_asked_one_after_the_other(
    sit: Callable[..., AnnotationSession], scores: HumanScores
) -> None:
    queue = queue_of(3, {"three": ThreeThings()}, repeats=0.0)
    desk = sit(queue)
    first = question(desk)
    press(desk, "score", index=0)
    assert (question(desk), desk.place and desk.place.step) == (first, 1)
    press(desk, "on")
    press(desk, "score", index=1)
    assert desk.place.step == 1 if desk.place else False  # what was passed over
    again = sit(queue)
    assert (question(again), again.place and again.place.step) == (first, 1)
    press(again, "skip")
    assert question(again) != first
    assert [(row["criterion"], row["value"]) for row in rows(scores)] == [
        ("right", 1.0),
        ("kind", 0.0),
        ("short", None),
    ]
    press(again, "undo")
    assert (question(again), again.place and again.place.step) == (first, 1)
    press(again, "focus", step=2)
    assert again.place is not None
    assert again.place.now.asked.criterion == "kind"


def test_a_pair_keeps_the_value_of_the_answer_itself(
    sit: Callable[..., AnnotationSession], scores: HumanScores
) -> None:
    rubrics: dict[str, Rubric] = {"better": Better()}
    queue = queue_of([item_of(n, f"own {n} [1].", f"other {n}.") for n in range(12)], rubrics, repeats=0.0)
    desk = sit(queue)
    swapped = []
    while desk.place:
        swapped.append(desk.place.showing.swapped)
        view = json.loads(json.dumps(desk_view(desk)))
        texts = ["".join(piece["t"] for piece in one["pieces"]) for one in view["item"]["answers"]]
        own = "AB"[[text.startswith("own") for text in texts].index(True)]
        (anchor,) = [one for one in view["asks"][0]["anchors"] if one["text"] == f"{own} is better"]
        assert [one["key"] for one in view["asks"][0]["anchors"]] == ["1", "2", "3"]
        assert "[1]" not in "".join(texts)
        assert view["item"]["passages"] == []
        press(desk, "score", index=anchor["index"])
    assert {row["value"] for row in rows(scores)} == {1.0}
    assert set(swapped) == {True, False}
    press(desk, "back")
    chosen = json.loads(json.dumps(desk_view(desk)))["asks"][0]
    assert chosen["chosen"] == (2 if desk.place and desk.place.showing.swapped else 0)


def test_what_is_shown_stays_though_somebody_else_scores_it(
    sit: Callable[..., AnnotationSession], scores: HumanScores
) -> None:
    queue = queue_of(1, twice=0.0)
    ada, ben = sit(queue), sit(queue, "Ben")
    press(ada, "score", index=0)
    press(ben, "on")
    assert question(ben) == "When does ferry 0 leave?"
    press(ben, "score", index=2)
    assert [row["annotator"] for row in rows(scores)] == [ADA, "Ben"]


def test_another_wording_is_another_score(sit: Callable[..., AnnotationSession], scores: HumanScores) -> None:
    press(sit(queue_of(1)), "score", index=0)
    other = sit(queue_of(1, {"points": Points(ask="Is it right?")}))
    assert other.place is not None
    assert not other.can_undo


@pytest.mark.parametrize("seconds", [None, "9", float("nan"), float("inf"), -5, 1e12, [1]])
@pytest.mark.parametrize("comment", [None, 7, "x" * 20_000, "\ud800 ../../etc/passwd <script>"])
def test_strange_times_and_comments_are_kept_as_they_can_be(
    sit: Callable[..., AnnotationSession], scores: HumanScores, seconds: object, comment: object
) -> None:
    desk = sit(queue_of(2))
    press(desk, "score", index=0, seconds=seconds, comment=comment)
    (row,) = rows(scores)
    assert row["seconds"] is None or 0 <= row["seconds"] <= 86_400
    assert len(row["comment"] or "") <= LONGEST_COMMENT
    if isinstance(comment, str) and "script" in comment:
        assert row["comment"].endswith("../../etc/passwd <script>")


def test_a_full_disk_is_said_and_nothing_moves_on(
    sit: Callable[..., AnnotationSession], scores: HumanScores, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = sit(queue_of(2))
    before = question(desk)

    def full(_: object) -> int:
        raise AssayError("no space is left")

    with monkeypatch.context() as patch:
        patch.setattr(scores, "append", full)
        press(desk, "score", index=0)
    assert (question(desk), desk.notice) == (before, "NOT SAVED: no space is left")
    press(desk, "score", index=0)
    assert len(rows(scores)) == 1
    assert question(desk) != before


def test_nothing_of_a_view_tells_a_repeat_or_where_an_item_is_from(
    sit: Callable[..., AnnotationSession], scores: HumanScores
) -> None:
    queue = queue_of(20, repeats=0.1)
    queue = replace(
        queue, items=tuple(replace(one, probability=0.125, disputed=0.625) for one in queue.items)
    )
    desk = sit(queue)
    seen: dict[int, list[str]] = {1: [], 2: []}
    while desk.place:
        view = dict(desk_view(desk))
        showing, item = desk.place.showing, desk.place.showing.item
        text = json.dumps(view)
        secrets = [
            item.item_id,
            str(item.case.question_id),
            queue.version,
            "0.125",
            "0.625",
            "ferries.example",
        ]
        assert not [one for one in secrets if json.dumps(one)[1:-1] in text]
        seen[showing.showing].append(json.dumps([view["item"], _without_draft(view["asks"])]))
        press(desk, "score", index=showing.position % 3, comment=f"at {showing.position}")
    assert len(seen[2]) == 2
    assert set(seen[2]) < set(seen[1])  # word for word as the first time: no score, no comment


def _without_draft(asks: Any) -> list[Row]:
    return [{name: value for name, value in one.items() if name != "draft"} for one in asks]
