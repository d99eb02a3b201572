"""Query transform `follow_up`: rewrites a question that depends on the conversation to stand alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from itertools import zip_longest
from typing import Annotated, ClassVar, NamedTuple, Self

from pydantic import Field, model_validator

from rag_assay.assets.tokenization.words import plain_tokens
from rag_assay.evals.query_transforms.model_transform import ByModel, quote_input, rewritten
from rag_assay.evals.query_transforms.rules.follow_up_cues import ASKS, OPENERS, depends, is_courtesy
from rag_assay.evals.query_transforms.rules.named_dates import (
    Dated,
    find_dates,
    month_pattern,
    shift_date,
    shift_in,
)
from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Query
from rag_assay.evals.retrieval.question_words import (
    MAX_READ,
    content,
    content_forms,
    language,
    names,
    stop_words,
    words,
)
from rag_assay.evals.word_lists import alternation, numbered
from rag_assay.warehouse.recipe import Strict

_LONGEST = 600  # characters of the rewritten question
_MAX_TOKENS = 300


class StandaloneReply(Strict):
    """The model's reply: whether the question depends on the conversation, and the question by itself."""

    depends: bool
    standalone: Annotated[str, Field(max_length=_LONGEST)]

    @model_validator(mode="after")
    def _stands_alone(self) -> Self:
        if self.depends and not self.standalone.strip():
            raise ValueError("a question that depends is not rewritten")
        return self


_CARRIED = re.compile(r" \([^()]+\)$")
_LEADS = f"(?:{alternation('follow_ups', 'leading')})"
_LED_BY = re.compile(rf"\W*(?:(?:the one|that|die|der|das) )?({_LEADS})\s", re.IGNORECASE)
_ARTICLE = re.compile(r"\W*(?:the|der|die|das|den|dem)\s", re.IGNORECASE)
_DATE_LEADS = alternation("follow_ups", "date_leading")
_DATE_LED = re.compile(
    rf"\b(?:{_DATE_LEADS}|of|between|zwischen)\s+"
    r"(?:(?:der|dem|the)\s+)?(?:(?:saison|spielzeit|season|jahre?|year)\s+)?$",
    re.IGNORECASE,
)


@cache
def _part_of_date() -> re.Pattern[str]:
    weekdays = "|".join(numbered("calendar", "weekdays"))
    return re.compile(
        rf"\W*(?P<lead>(?:am|im|in|on)\s+)?(?:(?P<month>{month_pattern()})|(?P<day>{weekdays}))\W*",
        re.IGNORECASE,
    )


_LEADING_DATE = re.compile(rf"(?:{_DATE_LEADS})\s", re.IGNORECASE)
_NUMBER, _NUMBERING = re.compile(r"\d"), re.compile(r"^(?:\d\S*\s+)+")
_SENTENCE_END = re.compile(r"(?<=[^\W\d_]{3})[.!?:;|]\s|\s\|\s")
_DETERMINED = rf"\b(?:{alternation('follow_ups', 'determiners')})\s+"
_THING = re.compile(
    r"\b(?:the|an?|its|his|her|their|our)\s+(?P<thing>[\w’'-]+(?:\s+[\w’'-]+)?)", re.IGNORECASE
)
TURNS = 6  # questions of the conversation that are read
CARRIED = 6  # names and words that are carried over at most
WORDS = 3  # … of them words that are no names, where their rarity is known: more drown the question
SHORT_ANSWER = 20  # words; single nouns of a longer one are no names
LONGEST = 80  # characters of a name: what is longer is a pasted text
MOST_NAMES = 20  # of a question in which one is replaced
RESERVED = 2  # … of them places for names of the last answer
Frequency = Callable[[str], int]
"""Word in small letters -> in how many chunks it stands."""


class FollowUp(ByModel):
    """Says whether a question depends on the conversation, and if so rewrites it to stand alone.

    Thanks and greetings are left alone, and are no question that a later one depends on.

    By rules: it depends on it where it begins with "and", "what about", "und", …, where a pronoun comes
    before anything that it could stand for, or where it is shorter than four words. "And in 2023?" then
    takes its place in the question before, and so does the date that "und davor?" counts from its date;
    otherwise the names of the turns before are put behind it, and their three rarest words.
    """

    code_version: ClassVar[str] = "5"
    kind: ClassVar[str] = "follow_up"

    def concerns(self, question: Mapping[str, object]) -> bool:
        return super().concerns(question) and bool(question["conversation"])

    def read(self, query: Query, index: OpenIndex, context: RetrievalContext) -> list[Query]:
        if not query.conversation:
            return [query]
        text = self._standalone(query, index, context)
        if text != query.text:
            known = query.understand(self.kind, "standalone", query.text, text)
            text = query.text if known.status == "removed" else text
        return [replace(rewritten(query, text, context.embed), conversation=())]

    def _standalone(self, query: Query, index: OpenIndex, context: RetrievalContext) -> str:
        said = [turn[: MAX_READ // TURNS] for turn in query.conversation[-2 * TURNS :]]
        conversation = "\n".join(f"- {turn}" for turn in said)
        user = f"{quote_input(conversation, 'conversation')}\n{quote_input(query.text)}"
        reply = self.ask(query, context, StandaloneReply, user, _MAX_TOKENS)
        if reply is not None:
            return reply.standalone.strip() if reply.depends else query.text

        def frequency(word: str) -> int:  # "cross-border": as rare as the rarer of its parts
            return min((len(index.lexical.postings(one)[0]) for one in plain_tokens(word)), default=0)

        return standalone(query.text, query.conversation, query.asked_at, frequency)


def standalone(
    text: str, conversation: tuple[str, ...], asked_at: str | None = None, frequency: Frequency | None = None
) -> str:
    """Return the question as it would be asked without the conversation (question and answer by turns).

    asked_at: the day from which dates such as "last week" are counted on ("and the week before?")
    frequency: the rarest `WORDS` words that are no names are carried over; None: the first ones

    >>> standalone("And in 2022/23?", ("Who won the league in 2021/22?", "Steelbrück."))
    'Who won the league in 2022/23?'
    >>> standalone("And the season before?", ("Who won the league in 2021/22?", "Steelbrück."))
    'Who won the league in 2020/21?'
    >>> standalone("How old is he?", ("Who coaches Zechenau?", "Ralf Dünnwald."))
    'How old is he? (Zechenau, coaches, Ralf Dünnwald)'
    >>> standalone("Where is the ferry sold?", ("Who coaches Zechenau?", "Ralf Dünnwald."))
    'Where is the ferry sold?'
    """
    if len(text) > MAX_READ or not _leans(text):
        return text
    turns = [
        (question[:MAX_READ], answer[:MAX_READ])
        for question, answer in zip_longest(conversation[0::2], conversation[1::2], fillvalue="")
        if question.strip() and not is_courtesy(question)
    ][-TURNS:]
    if not turns:
        return text
    before, answer = turns[0]
    for later, its_answer in turns[1:]:
        before = _joined(later, before, answer, asked_at, frequency) if _leans(later) else later
        answer = its_answer
    return _joined(text, before, answer, asked_at, frequency)


def own_words(text: str) -> str:
    """
    >>> own_words("And how old is he? (Zechenau, coaches)"), own_words("Who won the league in 2022/23?")
    ('How old is he?', 'Who won the league in 2022/23?')
    """
    rest = OPENERS.sub("", _CARRIED.sub("", text)).strip(" ,:;–-")
    return f"{rest[:1].upper()}{rest[1:]}" if words(rest) else text


def _leans(text: str) -> bool:
    return not is_courtesy(text) and (depends(text) or shift_in(OPENERS.sub("", text)) is not None)


def _joined(text: str, before: str, answer: str, asked_at: str | None, frequency: Frequency | None) -> str:
    moved = _moved(text, before, asked_at)
    if moved and moved.is_whole:
        return moved.text
    text = moved.text if moved else text
    if not moved and OPENERS.match(text) and (new := _swapped(text, before) or _of_its_own(text, before)):
        return new
    plain = text.casefold()
    fresh = [name for name in _answered(answer) if name.casefold() not in plain]
    topics = [topic for topic in _topics(before, frequency) if topic.casefold() not in plain]
    if moved:  # the date that it was counted from is another one
        topics = [topic for topic in topics if moved.old.casefold() not in topic.casefold()]
    kept = topics[: CARRIED - len(fresh[:RESERVED])]
    carried = [topic for topic in dict.fromkeys([*kept, *fresh]) if len(topic) <= LONGEST][:CARRIED]
    return f"{text} ({', '.join(carried)})" if carried else text


def _answered(answer: str) -> list[str]:
    first = answer.split("\n", maxsplit=1)[0][:300]
    is_long = len(words(first)) > SHORT_ANSWER
    found: dict[str, None] = {}
    for sentence in _SENTENCE_END.split(first):
        for numbered_name in names(sentence):
            name = _NUMBERING.sub("", numbered_name)
            is_name = name.casefold() not in stop_words() and (" " in name or not is_long)
            if is_name and not _NUMBER.search(name):
                found.setdefault(name)
    return list(found)


def _of_its_own(text: str, before: str) -> str | None:
    """Return "and who coaches Hammerlohe?" without its "and", where it points at nothing before."""
    rest = OPENERS.sub("", text).strip(" ,:;–-")
    new_names = [name for name in names(rest) if name not in names(before)]
    if not (ASKS.match(rest) and new_names) or depends(rest) or find_dates(before):
        return None
    if any(re.search(rf"{_DETERMINED}{re.escape(name)}", rest, re.IGNORECASE) for name in new_names):
        return None
    common = content_forms(rest) & content_forms(before)
    return f"{rest[:1].upper()}{rest[1:]}" if common else None


class _Moved(NamedTuple):
    """A question with a date that was counted from `old`, the one before."""

    text: str
    old: str
    is_whole: bool


def _moved(text: str, before: str, asked_at: str | None) -> _Moved | None:
    rest = OPENERS.sub("", text)
    shift = shift_in(rest)
    dates = find_dates(before, asked_at)
    if shift is None or len(dates) != 1:
        return None
    new = shift_date(dates[0], shift, language(f"{before} {text}"))
    if new is None:
        return None
    old = dates[0]
    if not words(rest[: shift.start] + rest[shift.end :]):  # it says nothing else
        return _Moved(_dated(before, old, new), old.text, is_whole=True)
    if new[:1].isdigit():  # in the place of digits it needs no preposition; here it does
        lead = _DATE_LED.search(before[: old.start])
        new = f"{lead.group()}{new}" if lead else new
    opener = text[: len(text) - len(rest)]
    return _Moved(f"{opener}{rest[: shift.start]}{new}{rest[shift.end :]}", old.text, is_whole=False)


def _dated(question: str, old: Dated, new: str) -> str:
    start, lead = old.start, _DATE_LED.search(question[: old.start])
    has_lead = _LEADING_DATE.match(new) is not None
    if lead and (has_lead or not any(letter.isdigit() for letter in new)):
        start = lead.start()
    return question[:start] + new + question[old.end :]


def _topics(question: str, frequency: Frequency | None) -> list[str]:
    """Return what a question is about: its names, then its rarest words, first those after an article."""
    found = names(question)
    if found and language(question) == "de":
        return found
    named = " ".join(found).casefold().split()
    others = [word.text for word in content(question) if word.text.casefold() not in named]
    if frequency is None:
        return [*found, *others]
    counts = {word: frequency(word.casefold()) for word in others}
    held = [word for word in others if counts[word]]
    things = {word.casefold() for run in _THING.finditer(question) for word in run.group("thing").split()}
    order = sorted(held, key=lambda word: 0 if word.casefold() in things else counts[word])
    return [*found, *order[:WORDS]]


def _swapped(text: str, before: str) -> str | None:
    new_dates, old_dates = find_dates(text), find_dates(before)
    if len(new_dates) == 1 and len(old_dates) == 1:
        new = new_dates[0]
        lead = _DATE_LED.search(text[: new.start])
        return _dated(before, old_dates[0], text[lead.start() if lead else new.start : new.end])
    part = _part_of_date().fullmatch(OPENERS.sub("", text))
    if part and len(old_dates) == 1:
        year = old_dates[0].first.year if part["month"] and old_dates[0].first else ""
        return _dated(
            before, old_dates[0], f"{part['lead'] or ''}{part['month'] or part['day']} {year}".strip()
        )
    if new_dates:
        return None
    return _renamed(OPENERS.sub("", text), before, is_dated=bool(old_dates))


def _renamed(rest: str, before: str, *, is_dated: bool) -> str | None:
    """Put the one name of "Hammerlohe?" or "in Bayern?" where the question before has its like."""
    new_names = names(rest)
    if len(new_names) != 1 or len(content(rest)) > len(words(new_names[0])) or ASKS.match(rest):
        return None
    new, old_names = new_names[0], names(before.partition("? (")[0])  # without what it carries itself
    if len(old_names) > MOST_NAMES:
        return None  # a pasted text
    led = _LED_BY.match(rest)
    if led:  # "and in Bavaria?": what the question before puts behind the same word, or behind one like it
        parts = [name.rpartition(f" {led[1]} ")[2] for name in old_names]  # "Vertrag von Lukas Terhorst"
        same = [name for name in parts if _follows(led[1], name, before)]
        like = [name for name in old_names if _follows(_LEADS, name, before)]
        old_names = same if same or is_dated else like
    elif is_dated:
        return None
    elif _ARTICLE.match(rest) and " " not in new:
        return None  # "and the deputy?": another thing of the same, whose name must stay
    else:
        old_names = [name for name in old_names if " " in name] or old_names
    return before.replace(old_names[0], new, 1) if len(old_names) == 1 else None


def _follows(word: str, name: str, question: str) -> bool:
    articles = r"(?:(?:the|der|die|das|den|dem)\s+)?"
    return re.search(rf"\b{word}\s+{articles}{re.escape(name)}", question, re.IGNORECASE) is not None
