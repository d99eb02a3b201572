"""Makes a review file of the questions that people asked in conversations: for a person to look at first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from pydantic import ValidationError

from rag_assay.evals.query_transforms.rules.follow_up_cues import depends
from rag_assay.evals.query_transforms.rules.named_dates import day_of
from rag_assay.evals.question_generation.candidate import normalize
from rag_assay.evals.question_generation.generator import UNRELATED, Matrix, NearDuplicates, chance_cosine
from rag_assay.evals.question_generation.review import AskedInChat, ReviewedQuestion, ReviewPassage
from rag_assay.evals.question_sets.question_files import EvidenceQuote
from rag_assay.evals.retrieval.question_words import language as language_of
from rag_assay.warehouse.conversations import Conversation, Turn
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.schemas import Status

Page = tuple[str, str | None]
"""URL of a document's page and, where several sources have the same, which."""
Only = Literal["down", "up", "declined", "all"]
DECLINED = frozenset({Status.REFUSED, Status.NO_CONTEXT})
MOST_COMMENTS, LONGEST_COMMENT = 5, 400
MOST_PASSAGES, LONGEST_PASSAGE = 3, 1_000
LONGEST_TURN = 20_000  # characters of what was said before, as a question file takes them

HEADING = """\
Questions that people asked in conversations, to be read by a person. Give each one its `review`:
  accept  it is good as it is
  mend    you have changed it here (question, ground_truth, evidence …)
  drop    it is of no use
  open    not looked at yet
Then: assay questions review {file}
`asked` says how often it was asked in all its wordings, and what people thought of the answers. Evidence is
a proposal: what was cited by an answer with a thumb up. A question without evidence needs some, or a
`ground_truth`, or `answerable: false`, before it can be accepted. Names of people may stand in questions."""


@dataclass(frozen=True)
class ConversationQuestion:
    """A question and all answers to it; history: oldest first; thumbs: turn -> 1 or -1"""

    question: str
    turns: tuple[Turn, ...]
    history: tuple[str, ...]
    thumbs: dict[str, int]
    comments: tuple[str, ...]

    @property
    def up(self) -> int:
        return sum(one > 0 for one in self.thumbs.values())

    @property
    def down(self) -> int:
        return sum(one < 0 for one in self.thumbs.values())

    @property
    def is_declined(self) -> bool:
        return bool(self.turns) and all(turn.status in DECLINED for turn in self.turns)

    def fits(self, only: Only) -> bool:
        wanted = {"up": self.up > 0, "down": self.down > 0, "declined": self.is_declined, "all": True}
        return wanted[only]


@dataclass
class _Group:
    """Questions that ask the same, the first as it was asked first."""

    first: ConversationQuestion
    others: list[ConversationQuestion] = field(default_factory=list)

    @property
    def every(self) -> list[ConversationQuestion]:
        return [self.first, *self.others]


def questions_in(conversations: Iterable[Conversation]) -> list[ConversationQuestion]:
    found: list[ConversationQuestion] = []
    for one in conversations:
        if one.begun.place == "demo":
            continue
        said: list[str] = []
        by_number: dict[int, list[Turn]] = {}
        for turn in one.turns:
            by_number.setdefault(turn.number, []).append(turn)
        for number in sorted(by_number):
            turns = tuple(by_number[number])
            feedback = [one.feedback[turn.record_id] for turn in turns if turn.record_id in one.feedback]
            thumbs: dict[str, int] = {given.turn: given.thumbs for given in feedback if given.thumbs}
            comments = tuple(given.comment for given in feedback if given.comment)
            found.append(ConversationQuestion(turns[0].question, turns, tuple(said), thumbs, comments))
            said += [turns[0].question, turns[0].answer or ""]
    return sorted(found, key=lambda asked: asked.turns[0].at)


def questions_of(
    asked: Sequence[ConversationQuestion],
    known: Sequence[str],
    embed: Callable[[Sequence[str]], Matrix],
    pages: Mapping[str, Page],
) -> tuple[ReviewedQuestion, ...]:
    """Return what was asked, most often first; near duplicates are one, known questions are left out."""
    groups = _grouped(asked, known, embed)
    groups.sort(key=lambda group: -len(group.every))
    found = (_reviewed(group, pages) for group in groups)
    return tuple(one for one in found if one is not None)


def _grouped(
    asked: Sequence[ConversationQuestion], known: Sequence[str], embed: Callable[[Sequence[str]], Matrix]
) -> list[_Group]:
    if not asked:
        return []
    texts = [*UNRELATED, *known, *(one.question for one in asked)]
    vectors = embed(texts)
    first_known, first_asked = len(UNRELATED), len(UNRELATED) + len(known)
    chance = chance_cosine(vectors[:first_known])
    old, new = NearDuplicates(chance), NearDuplicates(chance)
    for text, vector in zip(known, vectors[first_known:first_asked], strict=True):
        old.keep(text, vector)
    plain_known = {normalize(one) for one in known}
    by_text: dict[str, _Group] = {}
    following: dict[tuple[str, ...], _Group] = {}
    for one, vector in zip(asked, vectors[first_asked:], strict=True):
        if one.history and depends(one.question):
            key = (*map(normalize, one.history[0::2]), normalize(one.question))
            group = following.setdefault(key, _Group(one))
            if group.first is not one:
                group.others.append(one)
            continue
        one = replace(one, history=())  # noqa: PLW2901 -- it stands alone, and is asked so
        if normalize(one.question) in plain_known or old.like(one.question, vector):
            continue
        like = new.like(one.question, vector)
        if like is not None:
            by_text[like].others.append(one)
        else:
            new.keep(one.question, vector)
            by_text[one.question] = _Group(one)
    return [*by_text.values(), *following.values()]


def _reviewed(group: _Group, pages: Mapping[str, Page]) -> ReviewedQuestion | None:
    first, every = group.first, group.every
    turn = first.turns[0]
    evidence = _evidence(every, pages)
    declined = all(one.is_declined for one in every)
    wordings = dict.fromkeys(one.question for one in group.others if one.question != first.question)
    comments = [comment[:LONGEST_COMMENT] for one in every for comment in one.comments]
    told = AskedInChat(
        times=len(every),
        up=sum(one.up for one in every),
        down=sum(one.down for one in every),
        declined=sum(one.is_declined for one in every),
        also_as=tuple(wordings)[:10],
        comments=tuple(comments[:MOST_COMMENTS]),
    )
    with_passages = next((one for asked in every for one in asked.turns if one.passages), turn)
    try:
        return ReviewedQuestion.model_validate(
            {
                "id": f"asked-{digest([*map(normalize, (*first.history[0::2], first.question))])[:10]}",
                "language": turn.language or language_of(first.question),
                "question": first.question,
                "evidence": [one.model_dump(exclude_none=True) for one in evidence],
                "needs": "any" if len(evidence) > 1 else "all",
                "answerable": not (declined and not evidence),
                "asked_at": day_of(turn.asked_at),
                "conversation": [text[:LONGEST_TURN] or "…" for text in first.history],
                "asked": told.model_dump(),
                "passages": [
                    ReviewPassage(url=one.url or one.doc_id, text=one.text[:LONGEST_PASSAGE]).model_dump()
                    for one in with_passages.passages[:MOST_PASSAGES]
                ],
            }
        )
    except ValidationError:
        return None


def _evidence(every: Sequence[ConversationQuestion], pages: Mapping[str, Page]) -> list[EvidenceQuote]:
    found: dict[tuple[str, str], EvidenceQuote] = {}
    for asked in every:
        for turn in asked.turns:
            if asked.thumbs.get(turn.record_id, 0) < 1:
                continue
            for passage in turn.passages:
                if not passage.cited or passage.doc_id not in pages:
                    continue
                url, source = pages[passage.doc_id]
                for start, end in passage.evidence or ((0, len(passage.text)),):
                    quote = " ".join(passage.text[start:end].split())
                    if len(quote) >= 3:
                        found[url, quote] = EvidenceQuote(url=url, source=source, quote=quote)
    return [
        one
        for one in found.values()
        if not any(
            one is not other and one.url == other.url and (one.quote or "") in (other.quote or "")
            for other in found.values()
        )
    ]
