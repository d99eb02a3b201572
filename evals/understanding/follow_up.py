"""Makes a question that leans on the conversation stand alone."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import Annotated, Any, ClassVar

from pydantic import Field

from evals.retrieving.contract import Query
from evals.retrieving.index import OpenIndex
from evals.understanding.asking import READ, ByModel, quoted
from evals.understanding.dates import find_dates
from evals.understanding.rewriting import rewritten
from evals.understanding.words import content, language, names, words
from warehouse.recipe import Strict

_OPENERS = re.compile(
    r"^\W*(?:and|but|also|or|then|so|what about|how about|und|aber|auch|oder|was ist mit|"
    r"wie ist es (?:mit|bei)|wie steht es (?:mit|um)|wie sieht es (?:mit|bei)(?=.* aus)|gilt das auch)\b",
    re.IGNORECASE,
)
_POINTING = {
    "en": re.compile(
        r"\b(?:he|she|it|they|him|her|them|his|hers|its|their|theirs|this|these|there|then|"
        r"(?:that|those)(?=\s*[?.,!]|\s+(?:is|was|were|are|had|has|mean|cost|take)\b)|"
        r"the (?:former|latter|same))\b",
        re.IGNORECASE,
    ),
    "de": re.compile(
        r"\b(?:er|sie|es|ihn|ihm|ihr|ihre[nmrs]?|ihnen|sein|seine[nmrs]?|dessen|deren|denen|diese[nmrs]?|"
        r"jene[nmrs]?|dort|dabei|davon|damit|dafür|dagegen|daran|darin|darüber|danach|davor|damals|derselbe\w*)\b",
        re.IGNORECASE,
    ),
}
# "it" and "es" that stand for nothing, and "that" that only joins two clauses.
_EMPTY = re.compile(
    r"\b(?:gibt es|es gibt|gab es|es gab|it (?:is |was |be |become |becomes )?(?:\w+ )?(?:to|that)\b|"
    r"(?:is|was|does|will|did|how long does) it (?:take|\w+ )?(?:\w+ )?(?:to|that)\b|"
    r"(?:ist|war|wäre) es \w+(?:,| dass\b| zu\b))",
    re.IGNORECASE,
)
_DETERMINED = re.compile(r"\b(?:the|a|an|each|every|any|no|ein|eine[nmrs]?|jede[nmrs]?)\s+\w+", re.IGNORECASE)
_OWNED = {"its", "his", "her", "their", "sein", "ihr"} | {
    f"{one}e{end}" for one in ("sein", "ihr") for end in ("", *"nmrs")
}
SHORT = 4  # words: a shorter question without a name of its own says too little to stand alone
TURNS = 6  # questions of the conversation that are read
CARRIED = 6  # names that are carried over at most


class _Said(Strict):
    depends: bool
    standalone: Annotated[str, Field(max_length=600)]


class FollowUp(ByModel):
    """Says whether a question depends on the conversation, and if so rewrites it to stand alone.

    By rules: it depends on it where it begins with "and", "what about", "und", …, where a pronoun comes
    before anything that it could stand for, or where it is shorter than four words. "And in 2023?" then
    takes its place in the question before; otherwise the names of the last turn are put behind it.
    """

    code_version: ClassVar[str] = "1"
    kind: ClassVar[str] = "follow_up"
    prompt: ClassVar[str] = (
        "Given a conversation and a question, say whether the question can only be understood with the "
        "conversation. If so, rewrite it in its own language so that it stands alone, adding nothing that "
        "was not said; else repeat it."
    )

    def read(self, query: Query, index: OpenIndex) -> list[Query]:
        """Return the query, standing alone; its conversation is then used up."""
        if not query.conversation or not query.text.strip():
            return [query]
        return [replace(rewritten(query, self._standalone(query)), conversation=())]

    def _standalone(self, query: Query) -> str:
        if self.by == "llm":
            turns = [turn[: READ // TURNS] for turn in query.conversation[-2 * TURNS :]]
            talk = "\n".join(f"- {turn}" for turn in turns)
            schema: dict[str, Any] = {
                "depends": {"type": "boolean"},
                "standalone": {"type": "string", "maxLength": 600},
            }
            said = self.ask(query, _Said, schema, f"{quoted(talk)}\n{quoted(query.text)}", 300)
            if said is not None:
                return said.standalone if said.depends and said.standalone.strip() else query.text
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
    if len(text) > READ or not depends(text):
        return text
    odd = len(conversation) % 2
    questions = conversation[0::2][-TURNS:]
    answer = conversation[-1] if not odd else ""
    if not questions:
        return text
    before = questions[0][:READ]
    for earlier, later in pairwise(questions):
        before = _joined(later[:READ], earlier[:READ], "") if depends(later[:READ]) else later[:READ]
    return _joined(text, before, answer[:READ])


def depends(text: str) -> bool:
    """Say whether a question leans on what was said before.

    >>> depends("Und wie hoch ist es?"), depends("Wie hoch ist der Turm, und wem gehört er?")
    (True, False)
    """
    if _OPENERS.match(text):
        return True
    found = _POINTING[language(text)].search(_EMPTY.sub(lambda match: " " * len(match.group()), text))
    if found and not _is_resolved(text, found):
        return True
    return len(words(text)) < SHORT and not names(text)


def _is_resolved(text: str, found: re.Match[str]) -> bool:
    """Say whether the question itself names what its pronoun may stand for."""
    before, word = text[: found.start()], found.group().casefold()
    if names(before) or _DETERMINED.search(before):
        return True
    if word in {"they", "them", "their"}:  # plurals need no article: "did firms say whether they …"
        return len(content(before)) >= 2
    # "its stocks that a country may keep": the owner may come later.
    return word in _OWNED and _DETERMINED.search(text[found.end() :]) is not None


def _joined(text: str, before: str, answer: str) -> str:
    swapped = _swapped(text, before) if _OPENERS.match(text) else None
    if swapped:
        return swapped
    own = text.casefold()
    topics = [*_topics(before), *names(answer.split("\n", maxsplit=1)[0][:300])]
    new = [topic for topic in dict.fromkeys(topics) if topic.casefold() not in own][:CARRIED]
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
    rest = _OPENERS.sub("", text)
    new_names, old_names = names(rest), [name for name in names(before) if " " in name] or names(before)
    if len(new_names) == 1 and len(old_names) == 1 and len(content(rest)) <= len(words(new_names[0])):
        return before.replace(old_names[0], new_names[0], 1)
    return None
