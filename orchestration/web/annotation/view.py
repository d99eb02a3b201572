"""What the page is sent: what an annotator may see, and nothing else.

No id of an item, cell, question or chunk is in it, and nothing that tells an item that is shown again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from secrets import token_hex

from rag_assay.evals.generation.citations import read_markers, without_markers
from rag_assay.evals.human.queue import Queue
from rag_assay.evals.reporting.display import plain
from rag_assay.evals.rubrics.items import Item
from rag_assay.evals.rubrics.rubric import Criterion
from rag_assay.orchestration.web.annotation.annotation_session import (
    AnnotationSession,
    Question,
    QueuePosition,
)
from rag_assay.orchestration.web.languages import Words
from rag_assay.warehouse.identity import Json

CITED = 100_000  # characters of an answer in which citations are looked for


def cited_pieces(answer: str, passages: Sequence[str], numbers: Collection[int]) -> list[Json]:
    """Return an answer in pieces, its markers by themselves, each number of a bracket too.

    passages: texts that the answer may have copied brackets from
    numbers: of the passages that there are

    >>> cited_pieces("It stays.[1, 7]", ["It stays in port."], [1])
    [{'t': 'It stays.'}, {'t': '[1]', 'c': 1, 'v': True}, {'t': '[7]', 'c': 7, 'v': False}]
    """
    pieces: list[Json] = []
    at = 0
    for number, start, end in _markers(answer[:CITED], tuple(passages)):
        pieces += _text(answer[at:start])
        pieces.append({"t": f"[{number}]", "c": number, "v": number in numbers})
        at = max(at, end)
    return [*pieces, *_text(answer[at:])]


def marked_pieces(passage: str, spans: Iterable[tuple[int, int]]) -> list[Json]:
    """Return a passage in pieces, those at the spans marked.

    spans: (start, end) in characters, in order and apart

    >>> marked_pieces("It costs twelve pounds.", [(9, 22)])
    [{'t': 'It costs '}, {'t': 'twelve pounds', 'm': True}, {'t': '.'}]
    """
    pieces: list[Json] = []
    at = 0
    for start, end in spans:
        pieces += _text(passage[at:start])
        pieces.append({"t": plain(passage[start:end]), "m": True})
        at = end
    return [*pieces, *_text(passage[at:])]


def _text(text: str) -> list[Json]:
    return [{"t": plain(text)}] if text else []


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
