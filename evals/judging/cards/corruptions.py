"""Makes a text say something else: other numbers and dates, other names, the opposite."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from rag_assay.assets.chunking.sentence_splitter import sentence_places
from rag_assay.evals.retrieval.question_words import Language, stop_words
from rag_assay.evals.word_lists import Language as Lists
from rag_assay.evals.word_lists import entries, groups
from rag_assay.warehouse.identity import digest

LISTS: dict[Language, Lists] = {"en": "english", "de": "german"}
MOST_NOTED = 3  # changes that a note names

_PROTECTED = re.compile(r"\[\s*\d+(?:\s*,\s*\d+)*\s*\]|^\s*(?:\d{1,2}|[a-z])[.)](?=\s)", re.MULTILINE)
_DIGITS = re.compile(r"\d+")
_WORD = re.compile(r"[^\W\d_][\w’'-]*")
_AMBIGUOUS = frozenset({"may", "march", "mai", "sun", "august"})
_FRAGMENT = 6  # words of what is no sentence, at most


class Changed(NamedTuple):
    """A text that says something else, and in what."""

    text: str
    note: str


def _drawn(among: Iterable[str], key: str) -> list[str]:
    """Return things in an order that a key decides, and that does not hang on theirs."""
    return sorted(among, key=lambda one: digest([key, one]))


def _noted(pairs: Sequence[tuple[str, str]]) -> str:
    shown = "; ".join(f"{old} → {new}" for old, new in pairs[:MOST_NOTED])
    return shown + (f"; and {len(pairs) - MOST_NOTED} more" if len(pairs) > MOST_NOTED else "")


def with_other_numbers(text: str, known: str, key: str) -> Changed | None:
    """Replace every number, month, day of the week and small number word by another; None: there is none.

    Equal ones become equal ones. A number that stands in ``known`` is not taken, where there is another.
    Markers of sources (`[2]`) and numbers of lists stay what they are.

    >>> with_other_numbers("The fee is 12 euro [1].", "", "a").text
    'The fee is 6 euro [1].'
    """
    taken = frozenset(_DIGITS.findall(known))
    protected = [found.span() for found in _PROTECTED.finditer(text)]
    swaps: dict[str, str] = {}

    def swapped(found: re.Match[str], choose: Callable[[str], str | None]) -> str:
        old = found.group()
        if any(start <= found.start() < end for start, end in protected):
            return old
        if old not in swaps and (new := choose(old)) is not None:
            swaps[old] = new
        return swaps.get(old, old)

    changed = _named_units().sub(lambda found: swapped(found, lambda old: _other_word(old, key)), text)
    if len(changed) != len(text):  # words of other lengths have moved what is protected
        protected = [found.span() for found in _PROTECTED.finditer(changed)]
    changed = _DIGITS.sub(lambda found: swapped(found, lambda old: _other_number(old, taken, key)), changed)
    return Changed(changed, _noted(list(swaps.items()))) if swaps else None


def _other_number(old: str, taken: Collection[str], key: str) -> str | None:
    """Return a number of the same kind and width that is not the same: a year, a day, a month, any."""
    number, width = int(old[:18]), min(len(old), 18)
    if width == 4 and 1900 <= number < 2100:
        choice = range(max(1900, number - 30), min(2100, number + 30))
    elif number <= 12:
        choice = range(1, 13)
    elif number <= 31:
        choice = range(13, 32)
    else:
        choice = range(max(1, number // 2), number * 2 + 10)
        choice = choice[:: max(1, len(choice) // 97)]
    others = [one for one in choice if one != number]
    free = [f"{one:0{width}}" if old[0] == "0" else str(one) for one in others]
    best = [one for one in free if one not in taken] or free
    return _drawn(best, f"{key}/{old}")[0] if best else None


@cache
def _word_groups() -> tuple[dict[str, str], ...]:
    """Return groups of words that can stand for each other: folded -> as it is written."""
    found: list[dict[str, str]] = []
    for language in LISTS.values():
        calendar = groups("calendar", language)
        for name in ("months", "weekdays"):
            full = [words.split()[0] for words in calendar[name].values()]
            found.append({word: word.capitalize() for word in full})
        small = entries("negating", "small_numbers", language)
        found.append({word: word for word in small})
    return tuple(found)


@cache
def _named_units() -> re.Pattern[str]:
    """Return what finds months and days of the week, and numbers in words.

    Words that may be others (May, March) are looked for beside a number only.
    """
    words = {word: group for group in _word_groups() for word in group.values()}
    plain = "|".join(sorted((w for w in words if w.casefold() not in _AMBIGUOUS), key=lambda w: (-len(w), w)))
    doubtful = "|".join(sorted(w for w in words if w.casefold() in _AMBIGUOUS))
    return re.compile(
        rf"\b(?:{plain})\b|(?<=\d )(?:{doubtful})\b|(?<=\d\. )(?:{doubtful})\b|\b(?:{doubtful})(?= \d)"
    )


def _other_word(old: str, key: str) -> str | None:
    group = next((one for one in _word_groups() if old in one.values()), None)
    if group is None:
        return None
    others = [word for word in group.values() if word.casefold() != old.casefold()]
    return _drawn(others, f"{key}/{old}")[0]


def with_other_name(text: str, known: str, others: Iterable[str], key: str) -> Changed | None:
    """Replace a name by one of other texts; None where there is none, or none for it.

    A name is a run of words with capitals, in German also a noun; not the first word of a sentence alone, nor
    a month or a day. The other one shares no word with ``known``, which is all that the case holds: so it is
    never another word for the same.

    >>> with_other_name("It was founded by Ada Lind in 1932.", "", ["We saw Tom Berg there."], "a").text
    'It was founded by Tom Berg in 1932.'
    """
    mine = list(dict.fromkeys(names_of(text)))
    own = {word.casefold()[:4] for word in _WORD.findall(f"{known} {text}")}
    found = dict.fromkeys(name for other in others for name in names_of(other))
    foreign = [name for name in found if not any(word.casefold()[:4] in own for word in _WORD.findall(name))]
    for old in sorted(mine, key=lambda name: -len(name.split())):
        alike = [name for name in foreign if len(name.split()) == len(old.split())] or foreign
        if alike:
            new = _drawn(alike, f"{key}/{old}")[0]
            pattern = rf"\b{re.escape(old)}\b"
            return Changed(re.sub(pattern, new.replace("\\", r"\\"), text), _noted([(old, new)]))
    return None


def names_of(text: str) -> Iterator[str]:
    """Yield the runs of words with capitals of a text.

    >>> list(names_of("The ferry of Ada Lind leaves Norderhafen. Boats wait."))
    ['Ada Lind', 'Norderhafen']
    """
    for begin, end in sentence_places(text):
        run: list[re.Match[str]] = []
        for word in [*_WORD.finditer(text, begin, end), None]:
            joined = not run or (word and text[run[-1].end() : word.start()] == " ")
            if word and joined and word.group()[0].isupper():
                run.append(word)
                continue
            yield from _name(text, begin, run)
            run = [word] if word and word.group()[0].isupper() else []


def _name(text: str, sentence: int, run: list[re.Match[str]]) -> Iterator[str]:
    """Yield the name that a run of words with capitals holds; its first words may be no part of it."""
    while run and run[0].group().casefold() in stop_words():
        run = run[1:]
    lead = text[sentence : run[0].start()] if run else ""
    alone_at_start = len(run) == 1 and not _WORD.search(lead)
    if run and not alone_at_start:
        name = text[run[0].start() : run[-1].end()]
        if len(name) > 1 and not _named_units().search(name):
            yield name


def negate_text(text: str, language: Language) -> Changed | None:
    """Turn the first sentence of an English or German text into its opposite; None where it has no words.

    What denies is taken out; else "not" is put behind the first auxiliary; else the sentence is denied as a
    whole. "Not only" denies nothing, and stays.

    >>> english = negate_text("The ferry is blue. It is fast.", "en")
    >>> english.text, negate_text("Die Fähre fährt nicht.", "de").text
    ('The ferry is not blue. It is fast.', 'Die Fähre fährt.')
    """
    places = sentence_places(text)
    if not places or not (_WORD.search(text) or _DIGITS.search(text)):
        return None
    begin, end = places[0]
    sentence = text[begin:end]
    turned = _turned(sentence, LISTS[language])
    return Changed(text[:begin] + turned + text[end:], _noted([(_short(sentence), _short(turned))]))


def _turned(sentence: str, lists: Lists) -> str:
    yes, no = entries("negating", "yes", lists)[0], entries("negating", "no", lists)[0]
    opener = re.match(rf"\W*({yes}|{no})\b[\s,.:;–—-]*", sentence, re.IGNORECASE)
    if opener:
        other = (no if opener[1].casefold() == yes else yes).capitalize()
        rest = sentence[opener.end() :]
        return opener.group().replace(opener[1], other) + (_turned(rest, lists) if rest.strip() else rest)
    for pattern, instead in groups("negating", lists)["denials"]:
        without = re.sub(pattern, instead, sentence, count=1, flags=re.IGNORECASE)
        if without != sentence:
            return without
    auxiliaries = "|".join(entries("negating", "auxiliaries", lists))
    word = "not" if lists == "english" else "nicht"
    inserted = re.sub(rf"\b({auxiliaries})\b(?=\s)", rf"\1 {word}", sentence, count=1)
    if inserted != sentence and not re.search(rf"\b{word}\b", sentence, re.IGNORECASE):
        return inserted
    is_fragment = len(sentence.split()) <= _FRAGMENT and sentence[-1:] not in ".!?"
    opening = entries("negating", "denied_words" if is_fragment else "denied_sentence", lists)[0]
    first = sentence.split(maxsplit=1)[0]
    if lists == "english" and first.casefold() in stop_words("en") and first != "I":
        sentence = sentence[:1].lower() + sentence[1:]
    return opening + sentence


def _short(text: str, most: int = 60) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
