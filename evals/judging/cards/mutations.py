"""Cases made worse on purpose, which a judge must score lower, and controls, which it must not."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Literal, NamedTuple

from rag_assay.assets.chunking.sentence_splitter import sentence_places, sentences
from rag_assay.evals.generation.contract import Passage
from rag_assay.evals.generation.refusals import is_refusal
from rag_assay.evals.judging.contract import JudgeCase, JudgedMetric
from rag_assay.evals.retrieval.question_words import Language, content, language, stop_words
from rag_assay.evals.word_lists import Language as Lists
from rag_assay.evals.word_lists import entries, groups
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.schemas import Status

LISTS: dict[Language, Lists] = {"en": "english", "de": "german"}
MOST_NOTED = 3  # changes that a note names

_PROTECTED = re.compile(r"\[\s*\d+(?:\s*,\s*\d+)*\s*\]|^\s*(?:\d{1,2}|[a-z])[.)](?=\s)", re.MULTILINE)
_DIGITS = re.compile(r"\d+")
_WORD = re.compile(r"[^\W\d_][\w’'-]*")
_AMBIGUOUS = frozenset({"may", "march", "mai", "sun", "august"})
_FRAGMENT = 6  # words of what is no sentence, at most


class Changed(NamedTuple):
    """A changed text, and in what."""

    text: str
    note: str


def _drawn(among: Iterable[str], key: str) -> list[str]:
    return sorted(among, key=lambda one: digest([key, one]))


def _noted(pairs: Sequence[tuple[str, str]]) -> str:
    shown = "; ".join(f"{old} → {new}" for old, new in pairs[:MOST_NOTED])
    return shown + (f"; and {len(pairs) - MOST_NOTED} more" if len(pairs) > MOST_NOTED else "")


def with_other_numbers(text: str, known: str, key: str) -> Changed | None:
    """Replace numbers, months, weekdays and small number words, equal ones by equal ones; markers `[2]` stay.

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
    found: list[dict[str, str]] = []
    for tongue in LISTS.values():
        calendar = groups("calendar", tongue)
        for name in ("months", "weekdays"):
            full = [words.split()[0] for words in calendar[name].values()]
            found.append({word: word.capitalize() for word in full})
        small = entries("negating", "small_numbers", tongue)
        found.append({word: word for word in small})
    return tuple(found)


@cache
def _named_units() -> re.Pattern[str]:
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
    """Replace a name by one of ``others`` that shares no word with ``known``; None: there is none.

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
    while run and run[0].group().casefold() in stop_words():
        run = run[1:]
    lead = text[sentence : run[0].start()] if run else ""
    alone_at_start = len(run) == 1 and not _WORD.search(lead)
    if run and not alone_at_start:
        name = text[run[0].start() : run[-1].end()]
        if len(name) > 1 and not _named_units().search(name):
            yield name


def negate_text(text: str, language: Language) -> Changed | None:
    """Negate the first sentence of an English or German text, or take its negation out; None: no words.

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


Role = Literal["worse", "same", "order"]
"""What a change does to a case: worse; nothing that counts; another order of what it holds."""
ORIGINALS = 2  # times that an answer is judged before it is changed, where the judge may vary
LEAST_WORDS = 4  # of a sentence that is put into another answer
LIKE = 0.5  # share of its words that a text may have in common with a case and still be foreign to it


class Mutated(NamedTuple):
    """A case that was changed."""

    kind: str
    case: JudgeCase | None
    note: str


class Mutation(NamedTuple):
    """A kind of change."""

    kind: str
    role: Role
    changes: Literal["answer", "passages", "both", "rival"]
    about: str
    make: Callable[[JudgeCase, Sequence[JudgeCase], str], tuple[JudgeCase, str] | str]

    def moves(self, metric: JudgedMetric) -> bool:
        """Return whether a metric, by what it needs, should see the change."""
        needs = metric.needs
        if self.changes == "both":
            return True
        if self.changes == "rival":
            return "rival" in needs
        if self.changes == "passages":
            return "passages" in needs and (metric.higher_is_better or self.role != "worse")
        return "answer" in needs and (
            self.kind == "other_answer" or bool({"passages", "ground_truth"} & needs)
        )


def mutate_case(case: JudgeCase, others: Sequence[JudgeCase], mutation: Mutation, seed: int) -> Mutated:
    key = digest([seed, mutation.kind, case.question, case.answer])
    foreign = [one for one in others if one.question.casefold() != case.question.casefold()]
    if mutation.changes == "answer" and (case.status is not Status.OK or not _answer(case)):
        return Mutated(mutation.kind, None, "there is no answer to change")
    if mutation.role == "worse" and is_refusal(_answer(case)):
        return Mutated(mutation.kind, None, "a refusal says nothing that could be wrong")
    foreign.sort(key=lambda one: (one.language != case.language, digest([key, one.question, one.answer])))
    made = mutation.make(case, foreign, key)
    if isinstance(made, str):
        return Mutated(mutation.kind, None, made)
    return Mutated(mutation.kind, *made)


def _answer(case: JudgeCase) -> str:
    return (case.answer or "").strip()


def _known(case: JudgeCase) -> str:
    return "\n".join(
        (case.question, _answer(case), case.ground_truth or "", *(p.text for p in case.passages))
    )


def _texts(cases: Sequence[JudgeCase]) -> list[str]:
    return [text for one in cases for text in (_answer(one), *(p.text for p in one.passages))]


def _with_answer(case: JudgeCase, changed: Changed | None, reason: str) -> tuple[JudgeCase, str] | str:
    if changed is None or changed.text.split() == _answer(case).split():
        return reason
    return replace(case, answer=changed.text), changed.note


def _numbers(case: JudgeCase, _others: Sequence[JudgeCase], key: str) -> tuple[JudgeCase, str] | str:
    changed = with_other_numbers(_answer(case), _known(case), key)
    return _with_answer(case, changed, "there is no number or date in the answer")


def _names(case: JudgeCase, others: Sequence[JudgeCase], key: str) -> tuple[JudgeCase, str] | str:
    near = [one for one in others if one.language == case.language]
    found = (with_other_name(_answer(case), _known(case), _texts(some), key) for some in (near, others))
    changed = next((one for one in found if one), None)
    return _with_answer(case, changed, "there is no name in the answer that another question's could replace")


def _denied(case: JudgeCase, _others: Sequence[JudgeCase], _key: str) -> tuple[JudgeCase, str] | str:
    of = (case.language or "")[:2] or language(_answer(case))
    if of not in {"en", "de"}:
        return f"how {of!r} denies is not known: English and German are"
    changed = negate_text(_answer(case), "de" if of == "de" else "en")
    return _with_answer(case, changed, "there is no sentence in the answer")


def _foreign_sentence(case: JudgeCase, others: Sequence[JudgeCase], _key: str) -> tuple[JudgeCase, str] | str:
    for text in _texts(others):
        for sentence in sentences(text):
            if (
                len(sentence.split()) >= LEAST_WORDS
                and not is_refusal(sentence)
                and _is_foreign(sentence, case)
            ):
                return replace(case, answer=f"{_answer(case)} {sentence}"), f"added: {sentence[:120]}"
    return "no other question has a sentence that is not about this one too"


def _other_answer(case: JudgeCase, others: Sequence[JudgeCase], _key: str) -> tuple[JudgeCase, str] | str:
    for one in others:
        text = _answer(one)
        if one.status is Status.OK and text and not is_refusal(text) and _is_foreign(text, case):
            return replace(case, answer=one.answer), f"that of “{one.question[:100]}”"
    return "no other question has an answer that is not one to this, too"


def _without_evidence(
    case: JudgeCase, _others: Sequence[JudgeCase], _key: str
) -> tuple[JudgeCase, str] | str:
    asked = _folded(case.question)
    telling = (_folded(case.ground_truth or "") | _folded(_answer(case))) - asked
    if not telling:
        return "the answer has no word that is not in the question: its evidence cannot be told"
    kept: list[Passage] = []
    n_cut = 0
    for passage in case.passages:
        parts = sentences(passage.text)
        left = [one for one in parts if not _folded(one) & telling]
        n_cut += len(parts) - len(left)
        if left:
            kept.append(replace(passage, text=" ".join(left)))
    if not n_cut:
        return "no sentence of the passages holds a word of the answer"
    if not kept:
        return "every sentence of the passages holds a word of the answer"
    what = "1 sentence" if n_cut == 1 else f"{n_cut} sentences"
    return replace(case, passages=tuple(kept)), f"{what} with words of the answer left out"


def _other_passages(case: JudgeCase, others: Sequence[JudgeCase], _key: str) -> tuple[JudgeCase, str] | str:
    if not any(passage.text.strip() for passage in case.passages):
        return "there are no passages"
    texts = {passage.text for passage in case.passages}
    telling = (_folded(case.ground_truth or "") | _folded(_answer(case))) - _folded(case.question)
    for one in others:
        held = _folded(" ".join(passage.text for passage in one.passages))
        apart = one.passages and not any(passage.text in texts for passage in one.passages)
        if apart and held and len(telling & held) <= LIKE * len(telling):
            return replace(case, passages=one.passages), f"those of “{one.question[:100]}”"
    return "no other question has passages that do not hold this answer, too"


def _is_foreign(text: str, case: JudgeCase) -> bool:
    words = _folded(text)
    return bool(words) and len(words & _folded(_known(case))) <= LIKE * len(words)


def _folded(text: str) -> frozenset[str]:
    return frozenset(word.text.casefold()[:6] for word in content(text))


def _layout(case: JudgeCase, _others: Sequence[JudgeCase], _key: str) -> tuple[JudgeCase, str] | str:
    answer = _answer(case)
    marked = re.sub(r"(?<=[.!?]) +(?=\S)", "\n\n", answer)
    marked = re.sub(r"^(\w[^\s*_`\[]*)", r"**\1**", marked, count=1)
    passages = tuple(replace(one, text=f"\n{one.text.strip()}\n") for one in case.passages)
    if marked == answer and passages == case.passages:
        return "there is nothing to lay out in another way"
    return replace(
        case, answer=marked + "\n" if answer else case.answer, passages=passages
    ), "white space, **"


def _reversed(case: JudgeCase, _others: Sequence[JudgeCase], _key: str) -> tuple[JudgeCase, str] | str:
    if len({passage.text for passage in case.passages}) < 2:
        return "there are no two passages to change places"
    return replace(case, passages=case.passages[::-1]), "passages in the opposite order"


def _rivals(case: JudgeCase, _others: Sequence[JudgeCase], _key: str) -> tuple[JudgeCase, str] | str:
    rival = (case.rival or "").strip()
    if not rival or not _answer(case) or rival == _answer(case):
        return "there are no two answers to change places"
    return replace(case, answer=case.rival, rival=case.answer), "the two answers have changed places"


MUTATIONS: dict[str, Mutation] = {
    one.kind: one
    for one in (
        Mutation("numbers", "worse", "answer", "numbers and dates replaced by others", _numbers),
        Mutation("names", "worse", "answer", "a name replaced by that of another question", _names),
        Mutation("denied", "worse", "answer", "the first sentence turned into its opposite", _denied),
        Mutation(
            "foreign_sentence", "worse", "answer", "a sentence about something else added", _foreign_sentence
        ),
        Mutation("other_answer", "worse", "answer", "another question's answer", _other_answer),
        Mutation(
            "no_evidence", "worse", "passages", "sentences that hold the answer left out", _without_evidence
        ),
        Mutation("other_passages", "worse", "passages", "another question's passages", _other_passages),
        Mutation("layout", "same", "both", "the same words with other white space and stress", _layout),
        Mutation("order", "order", "passages", "the passages in the opposite order", _reversed),
        Mutation("sides", "order", "rival", "the two answers in each other's place", _rivals),
    )
}
"""All kinds, in the order of the report."""
