"""An annotator at a queue: what is before them, and what a key does."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from secrets import token_hex
from typing import Any, Literal, NamedTuple

from rag_assay.evals.human.item_order import next_showing, progress, showing_of
from rag_assay.evals.human.queue import Queue, QueueProgress, Showing
from rag_assay.evals.rubrics.rubric import Criterion, Rubric
from rag_assay.orchestration.web.languages import app_texts, words_in
from rag_assay.warehouse.errors import AssayError, InputError
from rag_assay.warehouse.failure_tags import FailureTags, tags_by_use
from rag_assay.warehouse.human_scores import HumanScore, HumanScores
from rag_assay.warehouse.identity import digest


@dataclass(frozen=True)
class Question:
    """One thing that the annotator is asked of the item; rubric: its name in the study."""

    rubric: str
    of: Rubric
    criterion: Criterion

    @property
    def asked(self) -> RatedCriterion:
        return RatedCriterion(self.rubric, self.criterion.name)


@dataclass(frozen=True)
class QueuePosition:
    """An item as it is shown, all that is asked of it, and which question is before the annotator."""

    showing: Showing
    questions: tuple[Question, ...]
    step: int = 0

    @property
    def shown(self) -> ShownItem:
        return ShownItem(self.showing.item.item_id, self.showing.showing)

    @property
    def now(self) -> Question:
        return self.questions[self.step]

    def kept(self, value: float, question: Question) -> float:
        """Turn a value as seen into one as stored, or back: the rival may stand first."""
        low, high = question.criterion.bounds
        return low + high - value if self.showing.swapped and question.of.compares else value


def place_of(queue: Queue, showing: Showing) -> QueuePosition:
    asked = queue.asked(showing.item.item_id)
    return QueuePosition(showing, tuple(Question(name, queue.rubrics[name], one) for name, one in asked))


class ShownItem(NamedTuple):
    """An item as it was shown: for the first time, or again."""

    item_id: str
    showing: Literal[1, 2]


class RatedCriterion(NamedTuple):
    """One thing that is scored of an item."""

    rubric: str
    criterion: str | None


@dataclass
class CurrentRatings:
    """The rows of one annotator that count, of the items of a queue.

    scores: what stands of each thing that is asked, in the order of scoring; nothing that was taken back
    positions: where each item stood in the annotator's order, in the order in which they were first scored
    """

    scores: dict[tuple[ShownItem, RatedCriterion], HumanScore] = field(default_factory=dict)
    positions: dict[ShownItem, int] = field(default_factory=dict)

    @property
    def last(self) -> tuple[ShownItem, RatedCriterion] | None:
        return next(reversed(self.scores), None)

    def of(self, shown: ShownItem) -> dict[RatedCriterion, HumanScore]:
        return {asked: score for (one, asked), score in self.scores.items() if one == shown}

    def history(self, also: ShownItem | None) -> list[ShownItem]:
        scored = {shown for shown, _ in self.scores}
        return [one for one in self.positions if one in scored or one == also]


def current_ratings(queue: Queue, annotator: str, rows: Iterable[HumanScore]) -> CurrentRatings:
    found = CurrentRatings()
    versions = {name: rubric.version for name, rubric in queue.rubrics.items()}
    for row in rows:
        is_theirs = row.annotator == annotator and row.cell is None and row.item_id in queue.by_id
        if not is_theirs or versions.get(row.rubric) != row.rubric_version:
            continue
        shown = ShownItem(row.item_id, 1 if row.showing == 1 else 2)
        place = shown, RatedCriterion(row.rubric, row.criterion)
        found.positions.setdefault(shown, row.position or len(found.positions) + 1)
        found.scores.pop(place, None)
        if row.status != "withdrawn":
            found.scores[place] = row
    return found


LONGEST_COMMENT = 10_000  # characters that are kept
_DAY = 86_400.0  # seconds; longer looks count as this
_LONGEST_PRESS = 64
Event = Mapping[str, Any]


class AnnotationSession:
    """One annotator's place at the queue of a study. A score is on disk before the next item is there.

    What is shown stays until it is scored, skipped or left, whatever others score meanwhile.

    place: what is before the annotator; None: nothing is left to do
    token: of what is shown now; an event with another is ignored
    stored: names of the drafts of comments that are on disk by now
    """

    def __init__(
        self, queue: Queue, annotator: str, scores: HumanScores, tags: FailureTags | None = None
    ) -> None:
        self.queue, self.annotator, self._scores, self._tags = queue, annotator, scores, tags
        self.token = token_hex(8)
        self.notice = ""
        self.words = words_in(app_texts("annotation"), "en")
        self.stored: list[str] = []
        self.place: QueuePosition | None = None
        self._read()
        self._go_to_newest()

    @property
    def progress(self) -> QueueProgress:
        return progress(self.queue, self.annotator, self._rows)

    @property
    def tags(self) -> Mapping[str, bool]:
        """The failure tags of the study, the most used first -> whether the annotator gave it here."""
        current = self._tags.current() if self._tags and self.place else []
        here = (self.annotator, *(self.place.shown if self.place else ()))
        mine = {one.tag for one in current if (one.annotator, one.item_id, one.showing) == here}
        return {tag: tag in mine for tag in tags_by_use(current)}

    @property
    def is_first(self) -> bool:
        return self._before() is None and not (self.place and self.place.step)

    @property
    def can_undo(self) -> bool:
        return self.standing.last is not None

    def draft(self, place: QueuePosition, step: int) -> str:
        """Return the name under which a browser keeps the draft of a comment, from which no item is told."""
        known = [self.queue.study, self.annotator, self.queue.version, list(place.shown), step]
        return f"assay.draft.{digest(known)[:16]}"

    def _read(self) -> None:
        self._rows = [HumanScore(**row) for row in self._scores.rows(self.queue.study)]
        self.standing: CurrentRatings = current_ratings(self.queue, self.annotator, self._rows)

    # What a key does ---------------------------------------------------------------------------------------

    def take(self, event: Event) -> None:
        press, kind = event.get("press"), event.get("kind")
        if event.get("token") != self.token or not isinstance(press, str) or len(press) > _LONGEST_PRESS:
            return
        self.token, self.notice, self.stored = token_hex(8), "", []
        self._read()
        try:
            if kind == "undo":
                self._undo(event)
            elif self.place and self._tags and kind == "tag":
                has = self._tags.toggle(
                    self.annotator, self.place.shown.item_id, str(event.get("tag")), self.place.shown.showing
                )
                self.notice = self.words("tagged" if has else "tag_back")
            elif self.place and kind in {"score", "skip"}:
                self._score(self.place, event)
            elif self.place:
                self._keep_comment(self.place, event)
            if kind in {"back", "on", "focus"}:
                self._move(str(kind), event.get("step"))
        except InputError as error:  # a tag of no or too many characters
            self.notice = str(error)
        except (OSError, AssayError) as error:  # the disk is full: nothing moves on
            self.notice = self.words("not_saved", why=error)

    def _score(self, place: QueuePosition, event: Event) -> None:
        index, values = event.get("index"), list(place.now.criterion.anchors)
        if event["kind"] == "skip":
            self._append(place, event, status="skipped", value=None, **_said(event))
        elif isinstance(index, int) and 0 <= index < len(values):
            value = place.kept(values[index], place.now)
            self._append(place, event, status="ok", value=value, **_said(event))
        else:
            return
        self.notice = self.words("saved")
        if not self._focus_open():
            self._go_to(self._after())

    def _keep_comment(self, place: QueuePosition, event: Event) -> None:
        row = self.standing.of(place.shown).get(place.now.asked)
        said = _said(event)
        if row and "comment" in event and said["comment"] != row.comment:
            said["seconds"] = row.seconds
            self._append(place, event, status=row.status, value=row.value, **said)
            self.notice = self.words("comment_saved")

    def _undo(self, event: Event) -> None:
        place = self.place
        if place is None or place.now.asked not in self.standing.of(place.shown):
            if self.standing.last is None:
                return
            shown, asked = self.standing.last
            place = self._place(shown)
            steps = [step for step, one in enumerate(place.questions) if one.asked == asked]
            place = replace(place, step=steps[0] if steps else 0)
        self._append(place, event, status="withdrawn", value=None)
        self.place, self.notice = place, self.words("taken_back")

    def _append(self, place: QueuePosition, event: Event, **said: Any) -> None:
        asked, shown = place.now.asked, place.shown
        row = HumanScore(
            # The same press is the same row, however often it arrives.
            score_id=digest([self.annotator, *shown, *asked, event["press"]]),
            study=self.queue.study,
            annotator=self.annotator,
            item_id=shown.item_id,
            rubric=asked.rubric,
            rubric_version=self.queue.rubrics[asked.rubric].version,
            scored_at=datetime.now(UTC),
            criterion=asked.criterion,
            showing=shown.showing,
            position=place.showing.position,
            queue_version=self.queue.version,
            **said,
        )
        self._scores.append([row])
        self.stored.append(self.draft(place, place.step))
        self._read()

    # Where to go -------------------------------------------------------------------------------------------

    def _move(self, kind: str, step: object) -> None:
        place = self.place
        if kind == "focus":
            if place and isinstance(step, int) and 0 <= step < len(place.questions):
                self.place = replace(place, step=step)
        elif kind == "back":
            self._back(place)
        elif place and place.step + 1 < len(place.questions):
            self.place = replace(place, step=place.step + 1)
        elif place and self._focus_open():
            self.notice = self.words("score_first")
        elif place:
            self._go_to(self._after())

    def _back(self, place: QueuePosition | None) -> None:
        before = self._before()
        if place and place.step > 0:
            self.place = replace(place, step=place.step - 1)
        elif before:
            found = self._place(before)
            self.place = replace(found, step=len(found.questions) - 1)

    def _focus_open(self) -> bool:
        """Go to the first thing that is open after this one, or before it; return whether there is one."""
        place = self.place
        if place is None:
            return False
        given, n = self.standing.of(place.shown), len(place.questions)
        steps = [(place.step + away) % n for away in range(1, n + 1)]
        found = next((step for step in steps if place.questions[step].asked not in given), None)
        if found is not None:
            self.place = replace(place, step=found)
        return found is not None

    def _before(self) -> ShownItem | None:
        history, at = self._history()
        return history[at - 1] if at > 0 else None

    def _after(self) -> ShownItem | None:
        history, at = self._history()
        return history[at + 1] if at + 1 < len(history) else None

    def _history(self) -> tuple[list[ShownItem], int]:
        here = self.place.shown if self.place else None
        history = self.standing.history(here)
        return history, history.index(here) if here in history else len(history)

    def _go_to(self, shown: ShownItem | None) -> None:
        if shown is None:
            self._go_to_newest()
        else:
            self.place = self._place(shown)

    def _place(self, shown: ShownItem) -> QueuePosition:
        position = self.standing.positions[shown]
        showing = showing_of(self.queue, self.annotator, shown.item_id, position, shown.showing)
        return place_of(self.queue, showing)

    def _go_to_newest(self) -> None:
        showing = next_showing(self.queue, self.annotator, self._rows)
        self.place = place_of(self.queue, showing) if showing else None
        if self.place:
            self.place = replace(self.place, step=len(self.place.questions) - 1)
            self._focus_open()


def _said(event: Event) -> dict[str, Any]:
    comment, seconds = event.get("comment"), event.get("seconds")
    text = comment.strip()[:LONGEST_COMMENT] if isinstance(comment, str) else ""
    is_number = isinstance(seconds, int | float) and math.isfinite(seconds)
    looked = round(min(max(float(seconds), 0.0), _DAY), 1) if is_number and seconds is not None else None
    return {"comment": text or None, "seconds": looked}
