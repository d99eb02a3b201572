"""Questions that people asked in conversations: their review file, and the way into a study."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.pipeline.cell_items import StudyQuestions
from rag_assay.evals.query_transforms.rules.follow_up_cues import depends
from rag_assay.evals.query_transforms.rules.named_dates import day_of
from rag_assay.evals.question_generation.generator import UNRELATED, Matrix, NearDuplicates, chance_cosine
from rag_assay.evals.question_generation.llm.candidates import corpus_frame, documents_of
from rag_assay.evals.question_generation.question_file import embed_for
from rag_assay.evals.question_generation.review import (
    AskedInChat,
    ReviewedQuestion,
    ReviewFile,
    ReviewPassage,
    read_review,
    with_earlier_reviews,
    write_review,
)
from rag_assay.evals.question_generation.texts import normalize
from rag_assay.evals.question_sets.question_files import EvidenceQuote, write_yaml
from rag_assay.evals.retrieval.question_words import language as language_of
from rag_assay.evals.study.study import Study
from rag_assay.evals.study.study_file import read_study
from rag_assay.evals.study.study_names import BUNDLED
from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.conversations import Conversation, Conversations, Turn
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import Status

Page = tuple[str, str | None]
"""URL of a document's page and, where several sources have the same, which."""
Only = Literal["down", "up", "declined", "all"]
DECLINED = frozenset({Status.REFUSED, Status.NO_CONTEXT})
MOST_COMMENTS, LONGEST_COMMENT = 5, 400
MOST_PASSAGES, LONGEST_PASSAGE = 3, 1_000
LONGEST_TURN = 20_000  # characters of what was said before, as a question file takes them

REVIEWING = """\
Give each one its `review`:
  accept  it is good as it is
  mend    you have changed it here (question, ground_truth, evidence …)
  drop    it is of no use
  open    not looked at yet
Then: assay questions review {file}
"""
HEADING = f"""\
Questions that people asked in conversations, to be read by a person. {REVIEWING}\
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


_Group = list[ConversationQuestion]
"""Questions that ask the same, the first as it was asked first."""


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
    groups = sorted(_grouped(asked, known, embed), key=len, reverse=True)
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
            following.setdefault(key, []).append(one)
            continue
        one = replace(one, history=())  # noqa: PLW2901 -- it stands alone, and is asked so
        if normalize(one.question) in plain_known or old.like(one.question, vector):
            continue
        like = new.like(one.question, vector)
        if like is not None:
            by_text[like].append(one)
        else:
            new.keep(one.question, vector)
            by_text[one.question] = [one]
    return [*by_text.values(), *following.values()]


def _reviewed(group: _Group, pages: Mapping[str, Page]) -> ReviewedQuestion | None:
    first = group[0]
    turn = first.turns[0]
    evidence = _evidence(group, pages)
    declined = sum(one.is_declined for one in group)
    wordings = dict.fromkeys(one.question for one in group if one.question != first.question)
    comments = [comment[:LONGEST_COMMENT] for one in group for comment in one.comments]
    told = AskedInChat(
        times=len(group),
        up=sum(one.up for one in group),
        down=sum(one.down for one in group),
        declined=declined,
        also_as=tuple(wordings)[:10],
        comments=tuple(comments[:MOST_COMMENTS]),
    )
    with_passages = next((one for asked in group for one in asked.turns if one.passages), turn)
    try:
        return ReviewedQuestion.model_validate(
            {
                "id": f"asked-{digest([*map(normalize, (*first.history[0::2], first.question))])[:10]}",
                "language": turn.language or language_of(first.question),
                "question": first.question,
                "evidence": [one.model_dump(exclude_none=True) for one in evidence],
                "needs": "any" if len(evidence) > 1 else "all",
                "answerable": declined < len(group) or bool(evidence),
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


_FLOW = re.compile(r"^(questions:[ \t]*\[[^#\n]*[^\s#,])([ \t]*,?[ \t]*\][ \t]*)$", re.MULTILINE)
_TURN = threading.Lock()
_BLOCK = re.compile(r"^questions:[ \t]*(?:#.*)?\n(?:(?:[ \t]*#.*|[ \t]*)\n)*([ \t]*)- ", re.MULTILINE)


def review_of(
    study: Study, asked: Sequence[ConversationQuestion], set_name: str, named: str, work: BuildContext
) -> ReviewFile:
    several = len(study.corpus.sources) > 1
    documents = documents_of(corpus_frame(study, work))
    pages = {one.doc_id: (one.url, one.source if several else None) for one in documents}
    known = StudyQuestions(study, work).texts
    questions = questions_of(asked, known, embed_for(study, work), pages)
    languages = [one.language or "en" for one in questions]
    language = max(sorted(set(languages)), key=languages.count, default="en")
    return ReviewFile(question_set=set_name, language=language, study=named, questions=questions)


def texts_in(study: Study, work: BuildContext) -> Callable[[str, str | None], list[str]]:
    documents = documents_of(corpus_frame(study, work))

    def texts_of(url: str, source: str | None) -> list[str]:
        return [one.text for one in documents if one.url == url and source in (None, one.source)]

    return texts_of


class ChatReview:
    """The review of a study's chat questions; thread-safe. questions: path of the file that it makes"""

    def __init__(self, study: Study, home: Home) -> None:
        self.study = study
        self.home = home
        self.set_name = f"{study.study}-asked"
        self.path = study.path.with_name(f"{self.set_name}.review.yaml")
        self.questions = study.path.with_name(f"{self.set_name}.questions.yaml")

    def file(self, only: Only = "down") -> ReviewFile:
        asked = [one for one in questions_in(Conversations(self.home).of(self.study.study)) if one.fits(only)]
        with closing(BuildContext(self.home)) as work:
            study = read_study(self.study.path)  # it may have been edited since the page was opened
            found = review_of(study, asked, self.set_name, study.path.name, work)
        return with_earlier_reviews(found, self.path) if self.path.exists() else found

    def decide(self, file: ReviewFile, question: ReviewedQuestion) -> ReviewFile:
        with _TURN:
            is_there = self.path.exists()  # perhaps of `questions from-chat`, with more questions
            current = with_earlier_reviews(file, self.path, keep_open=True) if is_there else file
            every = (question if one.id == question.id else one for one in current.questions)
            decided = current.model_copy(update={"questions": tuple(every)})
            write_review(self.path, decided, HEADING)
        return decided

    def add_to_study(self) -> int:
        """Write the accepted questions as a file that the study lists; InputError: nothing has changed."""
        if self.study.path.resolve().parent == BUNDLED.resolve():
            name = self.study.path.name
            raise InputError(
                f"{name} is part of rag-assay and cannot be changed; copy it to a study of your own"
            )
        with _TURN, closing(BuildContext(self.home)) as work:
            read = read_review(self.path, texts_in(read_study(self.study.path), work))
            text = self.study.path.read_text(encoding="utf-8")
            edited = with_question_file(text, self.questions.name)
            before = self.questions.read_bytes() if self.questions.exists() else None
            write_yaml(read.rows, self.questions)
            if edited != text:
                _replace(self.study.path, edited)
                try:
                    read_study(self.study.path)
                except InputError:
                    _replace(self.study.path, text)
                    if before is None:
                        self.questions.unlink()
                    else:
                        self.questions.write_bytes(before)
                    raise
        return len(read.rows)


def _replace(path: Path, text: str) -> None:
    with atomic_write(path) as new:
        new.write_text(text, encoding="utf-8")


def with_question_file(text: str, name: str) -> str:
    r"""Return the text of a study file that lists a question file too.

    It is the last one of a list on one line, and the first one of a list of lines.

    >>> with_question_file("study: s\nquestions: [{file: a.yaml}]\n", "b.yaml")
    'study: s\nquestions: [{file: a.yaml}, {file: b.yaml}]\n'
    >>> print(with_question_file("questions:\n  - file: a.yaml\nmetrics: [mrr]\n", "b.yaml"))
    questions:
      - file: b.yaml
      - file: a.yaml
    metrics: [mrr]
    <BLANKLINE>
    """
    if re.search(rf"^[^#\n]*\bfile:[ \t]*[\"']?{re.escape(name)}(?![\w.-])", text, re.MULTILINE):
        return text
    if found := _FLOW.search(text):
        return f"{text[: found.end(1)]}, {{file: {name}}}]{text[found.end(2) :]}"
    if found := _BLOCK.search(text):
        at = found.start(1)
        return f"{text[:at]}{found[1]}- file: {name}\n{text[at:]}"
    raise InputError(f"add `- file: {name}` to `questions` of the study file; it could not be edited here")
