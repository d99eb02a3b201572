"""An annotator at a queue: what is before them, what a key does, and what the page is sent of it.

No id of an item, cell, question or chunk is sent, and nothing that tells an item that is shown again.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from secrets import token_hex
from typing import Any, Literal, NamedTuple

from rag_assay.evals.generation.citations import read_markers, without_markers
from rag_assay.evals.human.item_order import next_showing, progress, showing_of
from rag_assay.evals.human.queue import Queue, QueueProgress, Showing
from rag_assay.evals.reporting.display import plain
from rag_assay.evals.rubrics.items import Item
from rag_assay.evals.rubrics.rubric import Criterion, Rubric
from rag_assay.orchestration.web.languages import Words, app_texts, words_in
from rag_assay.warehouse.errors import AssayError, InputError
from rag_assay.warehouse.failure_tags import FailureTags, tags_by_use
from rag_assay.warehouse.human_scores import HumanScore, HumanScores
from rag_assay.warehouse.identity import Json, digest

CITED = 100_000  # characters of an answer in which citations are looked for


def cited_pieces(answer: str, passages: Sequence[str], numbers: Collection[int]) -> list[Json]:
    """Return an answer in pieces, its markers by themselves, each number of a bracket too.

    passages: texts that the answer may have copied brackets from
    numbers: of the passages that there are

    >>> cited_pieces("It stays.[1, 7]", ["It stays in port."], [1])
    [{'t': 'It stays.'}, {'t': '[1]', 'c': 1, 'v': True}, {'t': '[7]', 'c': 7, 'v': False}]
    """
    marked: list[tuple[int, int, Json]] = [
        (start, end, {"t": f"[{number}]", "c": number, "v": number in numbers})
        for number, start, end in _markers(answer[:CITED], tuple(passages))
    ]
    return _pieces(answer, marked)


def marked_pieces(passage: str, spans: Iterable[tuple[int, int]]) -> list[Json]:
    """Return a passage in pieces, those at the spans marked.

    spans: (start, end) in characters, in order and apart

    >>> marked_pieces("It costs twelve pounds.", [(9, 22)])
    [{'t': 'It costs '}, {'t': 'twelve pounds', 'm': True}, {'t': '.'}]
    """
    marked: list[tuple[int, int, Json]] = [
        (start, end, {"t": plain(passage[start:end]), "m": True}) for start, end in spans
    ]
    return _pieces(passage, marked)


def _pieces(text: str, marked: Iterable[tuple[int, int, Json]]) -> list[Json]:
    """Return a text in pieces; marked: (start, end, the piece to put there), in order."""
    pieces: list[Json] = []
    at = 0
    for start, end, piece in marked:
        pieces += [{"t": plain(text[at:start])}] if start > at else []
        pieces.append(piece)
        at = max(at, end)
    return [*pieces, {"t": plain(text[at:])}] if at < len(text) else pieces


@lru_cache(maxsize=64)
def _markers(answer: str, passages: tuple[str, ...]) -> list[tuple[int, int, int]]:
    return [(one.number, one.start, one.end) for one in read_markers(answer, passages)]


View = dict[str, Json]
_SPEAKERS = ("question", "answer")
_SIDES = ("A", "B")


def trouble_view(reason: str, words: Words) -> View:
    return _view("trouble", words("human_ratings"), note=plain(reason))


def name_view(queue: Queue, known: Collection[str], note: str = "") -> View:
    return _view("name", queue.study, note=note, known=[plain(one) for one in known])


def desk_view(desk: AnnotationSession) -> View:
    made, place = desk.progress, desk.place
    head: View = {
        "annotator": plain(desk.annotator),
        "progress": {"done": made.shown, "of": made.shown + made.left, "wanted": made.items - made.scored},
        "undo": desk.can_undo,
        "first": desk.is_first,
        "notice": desk.notice,
        "token": desk.token,
    }
    if place is None:
        return _view("end", desk.queue.study, desk.stored, **head)
    return _view(
        "item",
        desk.queue.study,
        desk.stored,
        **head,
        place=f"{place.showing.position}",
        focus=place.step,
        item=_item(place, desk.words),
        asks=[_ask(desk, place, step) for step in range(len(place.questions))],
        tags=[{"t": plain(tag), "on": has} for tag, has in desk.tags.items()],
    )


def _view(kind: str, study: str, stored: Sequence[str] = (), **more: Json) -> View:
    """Each view has another serial, so that the page knows that the server has answered."""
    return {"kind": kind, "serial": token_hex(8), "study": plain(study), "saved": list(stored), **more}


def _item(place: QueuePosition, words: Words) -> View:
    item, case = place.showing.item, place.showing.item.case
    with_truth = any(one.of.shows_ground_truth for one in place.questions)
    return {
        "question": plain(case.question),
        "lang": case.language,
        "day": plain(item.asked_at[:10]) if item.asked_at else None,
        "conversation": [
            {"who": words(_SPEAKERS[at % 2]), "t": plain(turn)} for at, turn in enumerate(item.conversation)
        ],
        "answers": _answers(place),
        "passages": [] if _is_pair(item) else _passages(item),
        "evidence": [plain(one) for one in item.evidence] if _is_pair(item) else [],
        "truth": plain(case.ground_truth) if with_truth and case.ground_truth else None,
    }


def _is_pair(item: Item) -> bool:
    return item.case.rival is not None


def _answers(place: QueuePosition) -> list[Json]:
    case = place.showing.item.case
    if case.rival is None:
        texts = [one.text for one in case.passages]
        pieces = cited_pieces(case.answer or "", texts, _numbers(place.showing.item))
        return [{"label": None, "pieces": pieces if (case.answer or "").strip() else []}]
    both = [case.answer or "", case.rival]
    if place.showing.swapped:
        both.reverse()
    pair = [(label, without_markers(text)) for label, text in zip(_SIDES, both, strict=True)]
    return [{"label": label, "pieces": [{"t": plain(text)}] if text else []} for label, text in pair]


def _numbers(item: Item) -> list[int]:
    return [one.number or at for at, one in enumerate(item.case.passages, 1)]


def _passages(item: Item) -> list[Json]:
    found: list[Json] = []
    for at, (passage, number) in enumerate(zip(item.case.passages, _numbers(item), strict=True)):
        spans = [(start, end) for passage_at, start, end in item.marks if passage_at == at]
        found.append(
            {
                "number": number,
                "title": plain(passage.title) if passage.title else None,
                "section": [plain(one) for one in passage.section],
                "date": plain(passage.date).partition("T")[0] if passage.date else None,  # the day is enough
                "pieces": marked_pieces(passage.text, spans),
            }
        )
    return found


def _ask(desk: AnnotationSession, place: QueuePosition, step: int) -> View:
    question = place.questions[step]
    criterion = question.criterion
    given = desk.standing.of(place.shown).get(question.asked)
    seen = None if given is None or given.value is None else place.kept(given.value, question)
    keys = anchor_keys(criterion, in_order=question.of.compares)
    anchors: list[Json] = [
        {"index": at, "key": key, "text": plain(text)}
        for at, (key, text) in enumerate(zip(keys, _words(question, desk.words), strict=True))
    ]
    return {
        "name": plain(criterion.name.replace("_", " ")) if criterion.name else None,
        "ask": plain(criterion.ask),
        "anchors": anchors,
        "chosen": next((at for at, value in enumerate(criterion.anchors) if value == seen), None),
        "skipped": given is not None and given.status == "skipped",
        "answered": given is not None,
        "comment": plain(given.comment) if given and given.comment else "",
        "draft": desk.draft(place, step),
    }


def _words(question: Question, words: Words) -> list[str]:
    criterion = question.criterion
    low, high = criterion.bounds
    sides = (
        {value: words("better", side=side) for value, side in zip((high, low), _SIDES, strict=True)}
        if question.of.compares
        else {}
    )
    return [sides.get(value, text) for value, text in criterion.anchors.items()]


def anchor_keys(criterion: Criterion, *, in_order: bool = False) -> list[str | None]:
    """Return the key of each anchor: its own number where all are single digits, else 1 to 9 and 0, in order.

    in_order: never their own

    >>> anchor_keys(Criterion(None, "?", {5: "right", 3: "half", 0: "wrong"}))
    ['5', '3', '0']
    >>> anchor_keys(Criterion(None, "?", {1: "better", 0.5: "alike", 0: "worse"}))
    ['1', '2', '3']
    """
    anchors = criterion.anchors
    if not in_order and all(value in range(10) for value in anchors):
        return [f"{value:.0f}" for value in anchors]
    keys = [*"1234567890", *[None] * len(anchors)]
    return keys[: len(anchors)]


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
