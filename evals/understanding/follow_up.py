"""Query transform `follow_up`: rewrites a question that depends on the conversation to stand alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import ClassVar

from evals.retrieving.context import RetrievalContext
from evals.retrieving.contract import OpenTransform
from evals.retrieving.index import OpenIndex
from evals.retrieving.query import Query
from evals.retrieving.question_words import MAX_READ, content, language, names, words
from evals.understanding.by_model.follow_up import PROMPT, standalone_by_model
from evals.understanding.by_model.model_transform import ByModel
from evals.understanding.rewriting import rewritten
from evals.understanding.rules.follow_up_cues import OPENERS, depends
from evals.understanding.rules.named_dates import find_dates
from warehouse.inference.prompt import Prompt

_LEADS = r"(?:in|im|for|für|at|bei|from|aus|of|von|on|auf|to|nach)"
_LED_BY = re.compile(rf"\W*(?:(?:the one|that|die|der|das) )?({_LEADS})\s", re.IGNORECASE)
_ASKS = re.compile(
    r"\W*(?:wh\w+|how|wer|wen|wem|was|wann|wo\w*|warum|weshalb|wieso|wie|welche\w*)\b", re.IGNORECASE
)
_ARTICLE = re.compile(r"\W*(?:the|der|die|das|den|dem)\s", re.IGNORECASE)
TURNS = 6  # questions of the conversation that are read
CARRIED = 6  # names that are carried over at most


class FollowUp(ByModel):
    """Says whether a question depends on the conversation, and if so rewrites it to stand alone.

    By rules: it depends on it where it begins with "and", "what about", "und", …, where a pronoun comes
    before anything that it could stand for, or where it is shorter than four words. "And in 2023?" then
    takes its place in the question before; otherwise the names of the last turn are put behind it.
    """

    code_version: ClassVar[str] = "2"
    kind: ClassVar[str] = "follow_up"
    prompt: ClassVar[Prompt] = PROMPT

    def concerns(self, question: Mapping[str, object]) -> bool:
        """Return whether something was said before it."""
        return super().concerns(question) and bool(question["conversation"])

    def open(self, index: OpenIndex, context: RetrievalContext) -> OpenTransform:
        """Let questions stand alone; their conversations are then used up."""
        return OpenTransform(lambda query: self._read(query, context))

    def _read(self, query: Query, context: RetrievalContext) -> list[Query]:
        if not query.conversation or not query.text.strip():
            return [query]
        text = self._standalone(query, context)
        if text != query.text:
            known = query.understand(self.kind, "standalone", query.text, text)
            text = query.text if known.status == "removed" else text
        return [replace(rewritten(query, text, context.embed), conversation=())]

    def _standalone(self, query: Query, context: RetrievalContext) -> str:
        if self.by == "llm":
            found = standalone_by_model(self, query, context, TURNS)
            if found is not None:
                return found
        return standalone(query.text, query.conversation)


def standalone(text: str, conversation: tuple[str, ...]) -> str:
    """Return the question as it would be asked without the conversation (question and answer by turns).

    >>> standalone("And in 2022/23?", ("Who won the league in 2021/22?", "Steelbrück."))
    'Who won the league in 2022/23?'
    >>> standalone("How old is he?", ("Who coaches Zechenau?", "Ralf Dünnwald."))
    'How old is he? (Zechenau, coaches, Ralf Dünnwald)'
    >>> standalone("Where is the ferry sold?", ("Who coaches Zechenau?", "Ralf Dünnwald."))
    'Where is the ferry sold?'
    """
    if len(text) > MAX_READ or not depends(text):
        return text
    odd = len(conversation) % 2
    questions = [question[:MAX_READ] for question in conversation[0::2][-TURNS:]]
    answer = conversation[-1] if not odd else ""
    if not questions:
        return text
    before = questions[0]
    for earlier, later in pairwise(questions):
        before = _joined(later, earlier, "") if depends(later) else later
    return _joined(text, before, answer[:MAX_READ])


def _joined(text: str, before: str, answer: str) -> str:
    swapped = _swapped(text, before) if OPENERS.match(text) else None
    if swapped:
        return swapped
    plain = text.casefold()
    topics = [*_topics(before), *names(answer.split("\n", maxsplit=1)[0][:300])]
    new = [topic for topic in dict.fromkeys(topics) if topic.casefold() not in plain][:CARRIED]
    return f"{text} ({', '.join(new)})" if new else text


def _topics(question: str) -> list[str]:
    """Return what a question is about: its names; its content words too, where these are no German nouns."""
    found = names(question)
    if found and language(question) == "de":
        return found
    named = " ".join(found).casefold().split()
    return [*found, *(word.text for word in content(question) if word.text.casefold() not in named)]


def _swapped(text: str, before: str) -> str | None:
    """Put the one date or name of an elliptic question in the place of its like in the question before."""
    new_dates, old_dates = find_dates(text), find_dates(before)
    if len(new_dates) == 1 and len(old_dates) == 1:
        new, old = new_dates[0], old_dates[0]
        return before[: old.start] + new.text + before[old.end :]
    if new_dates or old_dates:
        return None
    return _renamed(OPENERS.sub("", text), before)


def _renamed(rest: str, before: str) -> str | None:
    """Put the one name of "Hammerlohe?" or "in Bayern?" where the question before has its like."""
    new_names = names(rest)
    if len(new_names) != 1 or len(content(rest)) > len(words(new_names[0])) or _ASKS.match(rest):
        return None
    new, old_names = new_names[0], names(before)
    led = _LED_BY.match(rest)
    if led:  # "and in Bavaria?": what the question before puts behind the same word, or behind one like it
        same = [name for name in old_names if re.search(rf"\b{led[1]}\s+{re.escape(name)}", before, re.I)]
        old_names = same or [
            name for name in old_names if re.search(rf"\b{_LEADS}\s+{re.escape(name)}", before)
        ]
    elif _ARTICLE.match(rest) and " " not in new:
        return None  # "and the deputy?": another thing of the same, whose name must stay
    else:
        old_names = [name for name in old_names if " " in name] or old_names
    return before.replace(old_names[0], new, 1) if len(old_names) == 1 else None
