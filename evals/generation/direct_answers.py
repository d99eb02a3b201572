"""The date, number, amount, score or name that a question asks for, out of the sentence that answers it; and
whether it asks which documents there are.

Rules, with what each kind is worth: a short answer is given only where one candidate stands out, and of a
kind that was right often enough on questions of several collections (docs/proof.md).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Literal, NamedTuple, get_args

from rag_assay.evals.retrieval.question_words import stop_words
from rag_assay.evals.word_lists import entries, table

Kind = Literal["documents", "score", "date", "number", "name", "yes_no"]


class Expected(NamedTuple):
    """What a question asks for.

    unit: what is counted ("how many *days*"), as the question says it; empty where it does not
    """

    kind: Kind
    unit: str = ""


@cache
def _months() -> str:
    return "|".join(sorted(table("calendar", "months"), key=len, reverse=True))


@cache
def _patterns() -> dict[str, re.Pattern[str]]:
    numerals = "|".join(entries("direct_answers", "numerals"))
    hedges = "|".join(entries("direct_answers", "hedges"))
    units = "|".join(entries("direct_answers", "units"))
    date = rf"""(?ix)(?<![\w.,/-])(?:
        \d{{1,2}}\.?\ (?:{_months()})\b\.?(?:\ \d{{4}})?
      | (?:{_months()})\ \d{{1,2}}(?:st|nd|rd|th)?(?:,?\ \d{{4}})?(?!\d)
      | (?:{_months()})\ \d{{4}}
      | \d{{1,2}}\.\d{{1,2}}\.(?:\d{{4}})?
      | \d{{4}}-\d{{2}}-\d{{2}}
      | (?:1[0-9]|20)\d{{2}}(?:[/–-](?:\d{{4}}|\d{{2}}))?(?!\w|[.,]\d|\ ?[%€£$])
      )"""
    number = rf"""(?ix)(?<![\w/.,-])
        (?:(?:{hedges})\ )?
        (?:[€£$]\ ?)?
        (?:\d{{1,3}}(?:[.,\u202f\u00a0 ]\d{{3}})+(?:[.,]\d+)?|\d+(?:[.,]\d+)?|(?:{numerals})\b)
        (?:(?:\ to\ |\ bis\ |\ and\ |\ und\ |\ ?[–-]\ ?|/)(?:\d+(?:[.,]\d+)?|(?:{numerals})\b))?
        (?:\ ?(?:{units})(?![^\W\d]))*
        (?![\w/])"""
    score = r"(?<![\w:.,/–-])\d{1,3}(?::|\ ?[–-]\ ?)\d{1,3}(?![\w:/–-]|\ (?:Uhr|Jahre)|[.,]\d)"
    no_name = rf"(?i)(?:(?:{_months()})|[IVX]+)$"
    return {
        name: re.compile(pattern)
        for name, pattern in (("score", score), ("date", date), ("number", number), ("no_name", no_name))
    }


_WHICH = r"""(?:in\ )?(?:what|which)\ (?:\w+\ )?(?:articles|posts|documents|reports|pages|entries)\b
    |(?:in\ )?welche[nr]?\ (?:\w+\ )?
        (?:artikeln?|beiträgen?|berichten?|dokumenten?|meldungen|seiten|texten?)\b"""
_TELLS = r"""\b(?:appear|appeared|published|written|posted|mention|mentioned|discuss|discussed|describe
    |described|about|deal|cover|erschienen|erscheinen|veröffentlicht|erwähnen|erwähnt|handeln|behandeln|berichten
    |beschreiben|geht\ es|gibt\ es|gab\ es)\b"""
_ASKED = {
    "documents": rf"(?:{_WHICH})\ (?:\w+\ ){{0,4}}?(?:{_TELLS})",
    "score": r"""how\ (?:did|does)\ .{1,80}\ (?:end|finish)\b
        |(?:with\ )?(?:what|which)\ (?:is|was|were)?\ ?(?:the\ )?(?:final\ |half-time\ )(?:score|result)\b
        |wie\ (?:ging|geht)\ .{1,80}\ aus\b|wie\ (?:endete|endet|steht\ es|stand\ es|war\ der\ spielstand)\b
        |(?:mit\ )?welche[mns]?\ (?:end|halbzeit)?(?:ergebnis|resultat|spielstand)\b""",
    "date": r"""(?:since\ |until\ |by\ |from\ )?when\b
        |(?:in\ |on\ |by\ |since\ |until\ )?(?:what|which)\ (?:year|date|day|month|season)\b
        |(?:what|which)\ (?:is|was)\ the\ (?:\w+\ ){0,2}(?:year|date|day|deadline)\b
        |(?:seit\ |bis\ |ab\ )?wann\b
        |(?:in\ |an\ |am\ |im\ |seit\ |bis\ |zu\ )?welche[mnrs]?\ (?:jahr|datum|tag|monat|saison)\b""",
    "number": r"""(?:\w+\ ){0,3}(?:
        how\ (?:many|much|high|long|far|old|big|large|tall|fast|often|wide|deep|full|late|heavy|quickly
            |soon)\b
        |(?:what|which)\ (?:percentage|percent|share|number|amount|price|proportion|fraction|sum|size|length
            |guarantee|fee)\b
        |what\ (?:is|was|are|were)\ the\ (?:\w+\ ){0,3}(?:percentage|share|number|amount|price|proportion|sum
            |size|length|limit|population|largest|smallest|highest|lowest|maximum|minimum|fee|cost|distance
            |score)\b
        |wie\ (?:viele?n?|hoch|lange|oft|alt|groß|weit|schnell|teuer|stark|schwer|breit|tief)\b|wieviele?\b
        |what\ (?:did|does|do|will|would)\ .{1,60}\ cost\b|was\ kostete?n?\b|was\ hat\ .{1,60}\ gekostet\b
        |welche[rmns]?\ (?:anteil|betrag|summe|preis|gebühr|anzahl|zahl|ablöse|etat|kapazität)\b
        |um\ wie\ ?viel)""",
    "name": r"""(?:by\ |to\ |for\ |with\ |from\ |of\ )?(?:who|whom|whose)\b
        |what\ (?:is|was)\ the\ (?:\w+\ ){0,2}name\b|what\ (?:is|was)\ .{1,40}\ (?:called|named)\b
        |(?:in\ )?(?:what|which)\ (?:city|country|person|company|river|state|team|player|university|town
            |club)\b
        |(?:von\ |mit\ |für\ |gegen\ |an\ |bei\ )?(?:wer|wem|wen|wessen)\b|wie\ hei(?:ß|ss)t\b
        |(?:welche[rmns]?)\ (?:stadt|spieler|trainer|verein|klub|torwart|person|land|firma|unternehmen)\b""",
}
_KINDS: list[tuple[Kind, str]] = [
    (kind, rf"(?ix)\W*(?:{_ASKED[kind]})") for kind in get_args(Kind) if kind in _ASKED
]
_UNIT = r"(?i)\b(?:how many|how much|wie ?viele?n?|(?:what|which|welche[rmns]?)) (\w+)"
_DURATION = r"(?i)\b(?:how (?:long|quickly|soon|old|late)|wie (?:lange|schnell|alt))\b"
_TIMES = (
    r"(?i)\b(?:(?:second|minute|hour|day|week|month|year|season)s?|(?:sekunde|minute|stunde|woche|saison)n?"
    r"|tage?n?|monate?n?|jahre?n?|jährige[nmrs]?|spiele?n?|spielzeiten)\b"
)
_SHARE = r"(?i)\b(?:percentage|percent|proportion|share|anteil|prozent)\b"
_MONEY = (
    r"(?i)\b(?:costs?|paid?|pays?|price|fee|fine|spent?|spend|budget|salary|refunded|how much money|kosten"
    r"|kostet|gekostet|kosteten?|(?:be|ge)?zahlt|preis|gebühr|etat|ablöse|strafe|geldstrafe|geldbuße|bußgeld|teuer)\b"
)
_CURRENCY = r"(?i)[€£$]|\b(?:euros?|pounds?|dollars?|crowns?|cents?|pence|kronen)\b"
_MEASURES = [
    (_SHARE, r"(?i)%|per ?cent|prozent"),
    (_MONEY, _CURRENCY),
    (_DURATION, _TIMES),
]
_BEHIND = r"(?:\s?[%€£$])?(?:\W+\w+){0,2}"  # what follows a number, in which its unit stands
_COUNTS = r"(?i)\b(?:how many|wie ?viele)\b"
_GERMAN_PERSON = r"(?i)\W*(?:\w+ )?(?:wer|wem|wen|wessen)\b"
_NAME = (
    r"(?<![\w-])[A-ZÄÖÜ][\w’'&-]*\w(?:\.(?= [A-ZÄÖÜ]))?"
    r"(?: (?:(?:of|the|de|la|von|van|der|den|du|di|and) ){0,2}[A-ZÄÖÜ][\w’'&-]*\w)*"
)
_TOKEN = r"\w+"  # noqa: S105 -- a pattern
_SPEECH = r"(?i)\b(?:said|says|told|explained|added|sagte?|erklärte?|meinte?|betonte?|gesagt|erklärt)\b"
_STEM = 5
_CLEAR = 3  # so many times as far from the question's words all other dates and numbers have to be


def expected_answer(question: str) -> Expected | None:
    """Return what a question asks for; None where it is nothing that a `Kind` names.

    >>> expected_answer("In welchem Jahr wurde es gebaut?"), expected_answer("How many days are there?")
    (Expected(kind='date', unit=''), Expected(kind='number', unit='days'))
    >>> expected_answer("Does it stay in port?"), expected_answer("Why does it stay?")
    (Expected(kind='yes_no', unit=''), None)
    >>> expected_answer("Which posts mention the drill?"), expected_answer("Which articles of it apply?")
    (Expected(kind='documents', unit=''), None)
    >>> expected_answer("How much is left?"), expected_answer("And what did the drill cost?")
    (Expected(kind='number', unit=''), Expected(kind='number', unit=''))
    """
    last = re.split(r"(?<=[.!?]) ", question.strip())[-1]
    clause = last.rpartition(", ")[2] if last.partition(", ")[2].strip() else last
    for text in dict.fromkeys((last, clause)):
        for kind, pattern in _KINDS:
            if re.match(pattern, text):
                unit = re.search(_UNIT, text) if kind == "number" else None
                counted = unit is not None and unit[1].casefold() not in _verbs() | stop_words()
                return Expected(kind, unit[1] if unit and counted else "")
        first = re.search(_TOKEN, text)
        if first and first[0].casefold() in _verbs():
            return Expected("yes_no")
    return None


def topic_of(question: str) -> str:
    """Return a question without its dates and the words that ask for documents.

    >>> topic_of("Which articles about Hammerlohe appeared in April 2024?").split()
    ['Hammerlohe', 'in', '?']
    """
    found = re.sub(rf"(?ix)\W*(?:{_WHICH})|{_TELLS}", " ", question)
    return re.sub(rf"(?i)\b(?:{_months()})\b", " ", _patterns()["date"].sub(" ", found))


@cache
def _verbs() -> frozenset[str]:
    return frozenset(entries("direct_answers", "asking_verbs"))


def candidates(wanted: Expected, question: str, sentence: str) -> list[tuple[int, int]]:
    """Return (start, end) of each candidate answer that the question does not contain.

    If the question asks for a share, an amount of money or a time, only such numbers are candidates.

    >>> wanted, question = Expected("number"), "How long may it take?"
    >>> candidates(wanted, question, "Of the 4 firms one has 30 days.")
    [(23, 30)]
    >>> question, sentence = "How many days do I have to pay the fine?", "Pay 30 € within 14 days."
    >>> direct_answer(expected_answer(question), question, sentence)
    '14 days'
    >>> direct_answer(wanted, "What does a ticket cost?", "A ticket of 2 parts is 30 €.")
    '30'
    >>> question, sentence = "Wie ging das Spiel aus?", "Mit 1:3 (0:2) unterlag Union vor 4105 Zuschauern."
    >>> [sentence[a:b] for a, b in candidates(expected_answer(question), question, sentence)]
    ['1:3', '0:2']
    >>> said = "„Wieder Zweiter“, sagte Coach Holger Brink."
    >>> [len(candidates(Expected("name"), asked, said)) for asked in ("Wer wurde Zweiter?", "Wer sagte das?")]
    [0, 1]
    >>> candidates(wanted, "Wie alt ist er?", "Er wird Nachfolger von 2 Trainern, sagte der 51-Jährige.")
    [(45, 47)]
    """
    if wanted.kind == "name":
        return list(_names(question, sentence))
    if wanted.kind in {"documents", "yes_no"}:
        return []
    if wanted.kind == "score":
        return [match.span() for match in _patterns()["score"].finditer(sentence)]
    said = _stems(question)
    dates = [match.span() for match in _patterns()["date"].finditer(sentence) if not _is_number_of_act(match)]
    found = dates
    if wanted.kind == "number":
        found = [
            span
            for span in (match.span() for match in _patterns()["number"].finditer(sentence))
            if not any(a < span[1] and span[0] < b for a, b in dates)
            or re.search(_CURRENCY, sentence[span[0] : span[1]])
        ]
    new = [(a, b) for a, b in found if not set(re.findall(_TOKEN, sentence[a:b].casefold())) <= said["words"]]
    measure = _measure(wanted, question)
    if wanted.kind == "date" or measure is None:
        return new
    return [(a, b) for a, b in new if re.search(measure, _with_unit(sentence, a, b))]


def _measure(wanted: Expected, question: str) -> str | None:
    """Return the units of the share, money or time that is asked for; None where other things are counted."""
    for asks, units in _MEASURES:
        if re.search(asks, question):
            counts_others = wanted.unit and re.search(_COUNTS, question) and not re.search(units, wanted.unit)
            return None if counts_others else units
    return None


def _with_unit(sentence: str, start: int, end: int) -> str:
    """Return a number with the words after it in which its unit may stand."""
    behind = re.compile(_BEHIND).match(sentence, end)
    return sentence[start : behind.end() if behind else end].casefold()


def _is_number_of_act(match: re.Match[str]) -> bool:
    """Whether it is no season ("2021/22"), but of "Regulation (EU) 2018/2066" or "Directive 2009/28/EC"."""
    first, slash, second = match[0].partition("/")
    return bool(slash) and int(second[-2:]) != (int(first) + 1) % 100


@lru_cache(maxsize=64)  # of a question, for each sentence
def _stems(text: str) -> dict[str, frozenset[str]]:
    words = [word.casefold() for word in re.findall(_TOKEN, text)]
    stop = stop_words()
    return {
        "words": frozenset(words),
        "stems": frozenset(word[:_STEM] for word in words if word not in stop),
    }


def _names(question: str, sentence: str) -> list[tuple[int, int]]:
    said = _stems(question)["stems"]
    stop = stop_words()
    least = 2 if re.match(_GERMAN_PERSON, question) else 1  # German nouns look like names
    found = []
    spoken = None if re.search(_SPEECH, question) else _SPEECH
    for match in re.finditer(_NAME, sentence):
        start, end = match.span()
        if spoken and any(start - one.end() in {0, 1} for one in re.finditer(spoken, sentence[:start])):
            continue  # who says it is not whom it is about
        parts = list(re.compile(_TOKEN).finditer(sentence, start, end))
        while parts and parts[0][0].casefold() in stop:
            parts = parts[1:]
        if len(parts) < least:
            continue
        if start == 0 and len(parts) == 1 and parts[0].start() == 0 and len(re.findall(_TOKEN, sentence)) > 1:
            following = sentence[end : end + 2]
            if not re.match(r"(?: [a-z]|’s|'s)", following):
                continue
        if any(part[0].casefold()[:_STEM] in said for part in parts) or _patterns()["no_name"].match(
            match[0]
        ):
            continue
        found.append((parts[0].start(), end))
    return found


def direct_answer(wanted: Expected, question: str, sentence: str) -> str | None:
    """Return the one candidate that stands out, by its nearness to the question's words; else None.

    Of numbers those count that have the unit of the question: days, a share, an amount of money. One in
    brackets ("120 m (390 ft)") says the same once more.

    >>> wanted = Expected("number", "days")
    >>> direct_answer(wanted, "For how many days are bids kept?", "Bids of 4 firms are kept for 30 days.")
    '30 days'
    """
    spans = candidates(wanted, question, sentence)
    if wanted.kind == "number":
        spans = _of_the_unit(wanted, question, sentence, spans)
    plain = [one for one in spans if sentence.count("(", 0, one[0]) == sentence.count(")", 0, one[0])]
    stems = _stems(question)["stems"]
    places = [
        match.start() for match in re.finditer(_TOKEN, sentence) if match[0].casefold()[:_STEM] in stems
    ]
    if not plain or not places:
        return None

    def distance(span: tuple[int, int]) -> int:
        return min(min(abs(span[0] - at), abs(span[1] - at)) for at in places)

    best, *others = sorted(plain, key=distance)
    if others and (wanted.kind == "name" or distance(others[0]) < _CLEAR * (distance(best) + 1)):
        return None
    return sentence[best[0] : best[1]].strip(" ,;")


def _of_the_unit(
    wanted: Expected, question: str, sentence: str, spans: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    stem = wanted.unit.casefold()[:_STEM]
    if _measure(wanted, question) is not None:
        return list(spans)
    if stem:
        return [
            one
            for one in spans
            if any(word[:_STEM] == stem for word in re.findall(_TOKEN, _with_unit(sentence, *one)))
        ]
    return [one for one in spans if sentence[one[0] : one[1]][:1].isdigit()]
