"""Rules that tell whether a German or English question depends on the conversation before it.

It does where it opens as a continuation, asks for more of the same, is too short, or holds a word (pronoun,
"dort", "these") that stands for nothing named before it. A pronoun is looked up in earlier clauses, not in
its own ("what does the coach earn with him?"), unless it is possessive.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from rag_assay.evals.retrieval.question_words import content, language, names, stop_words, words
from rag_assay.evals.word_lists import Language, entries

MOST = 12  # words: a longer message says something
_REPLIES = {"en": "Ask something about the documents.", "de": "Fragen Sie etwas zu den Dokumenten."}


def is_courtesy(text: str) -> bool:
    """Return whether a message thanks, greets or nods, and asks nothing.

    >>> is_courtesy("Vielen Dank, das hilft mir sehr."), is_courtesy("hi"), is_courtesy("great, thank you!")
    (True, True, True)
    >>> is_courtesy("Danke, und wer war das?"), is_courtesy("Guten Tag, Spielplan Kohlenbach")
    (False, False)
    """
    if "?" in text[:1_000]:
        return False
    found = _words(text)
    core, beside = _lists()
    return 0 < len(found) <= MOST and any(word in core for word in found) and set(found) <= beside


def reply_to_courtesy(text: str, language: str | None = None) -> str:
    """Return the reply to a message without a question, in its language if that can be detected.

    >>> reply_to_courtesy("Danke!", "en"), reply_to_courtesy("thanks", "de")
    ('Fragen Sie etwas zu den Dokumenten.', 'Ask something about the documents.')
    """
    found = set(_words(text))
    english, german = found & _core("english"), found & _core("german")
    if english - german or german - english:
        language = "de" if len(german) > len(english) else "en"
    return _REPLIES.get(language or "", _REPLIES["en"])


def _words(text: str) -> list[str]:
    return [word.text.casefold() for word in words(text[:1_000])]


@cache
def _core(language: Language) -> frozenset[str]:
    return frozenset(entries("courtesies", "core", language))


@cache
def _lists() -> tuple[frozenset[str], frozenset[str]]:
    core = _core("english") | _core("german")
    return core, core | frozenset(entries("courtesies", "beside")) | stop_words()


OPENERS = re.compile(
    r"^\W*(?:and|but|also|or|then|so|what about|how about|und|aber|auch|oder|was ist mit|"
    r"wie ist es (?:mit|bei)|wie steht es (?:mit|um)|wie sieht es (?:mit|bei)(?=.* aus)|"
    r"gilt das auch|(?:no|nein|nee|sorry|entschuldigung)?\W*(?:i|ich) (?:mean|meant|meine|meinte))\b(?!-)",
    re.IGNORECASE,
)
ASKS = re.compile(
    r"\W*(?:wh\w+|how|wer|wen|wem|was|wann|wo\w*|warum|weshalb|wieso|wie|welche\w*)\b", re.IGNORECASE
)
_HOW_IT_IS = re.compile(r"\W*wie (?:ist|steht|sieht) es\b", re.IGNORECASE)
_MORE = re.compile(
    r"""\b(?:tell\ me\ more|elaborate|go\ on|(?:any|some)(?:thing|one|body|where)\ else
    |same\ (?:question|thing|for)
    |(?:what|who|where|when|how|why)\ else|(?:more|further|the)\ (?:details|examples)|ones
    |(?:the|this|that|which|another|first|second|third|last|next|previous|other|same)\ one(?!-)
    |(?:own|have|had|need|buy|get|use|want)\ one(?=\s*(?:[?.,!]|$))
    |erzähl\w*\ (?:mir\ )?mehr|(?:sonst|was|wer|wo)\ noch
    |noch\ (?:etwas|jemand|was|mehr|eins|eine[nrs]?)(?=\s*[?.!])
    |(?:noch|mehr|weitere[nrs]?)\ (?:beispiele?n?|einzelheiten|details|angaben|informationen|infos)
    |(?:noch|dann)(?=\s*\?)
    |(?:die|den|der)\ beiden(?=(?:\ \w+)?\s*\?)|(?:the\ two|both)(?=\s*\?))\b""",
    re.IGNORECASE | re.VERBOSE,
)
_POINTING = {
    "en": re.compile(
        r"""\b(?:he|she|it|they|him|her|them|his|hers|its|their|theirs|this|these|there|then
        |(?<=\bis\ )that|(?<=\bwas\ )that|(?<=\bdid\ )that|(?<=\bdoes\ )that|(?<=\babout\ )that
        |(?<=\bof\ )that
        |(?<=\bfor\ )that|(?<=\bwith\ )that|(?<=\bafter\ )that|(?<=\bthan\ )that|(?<=\bbefore\ )that
        |(?<=\bare\ )those|(?<=\bwere\ )those|(?<=\bdo\ )those|(?<=\bof\ )those
        |(?<=\bexplain\ )that|(?<=\brepeat\ )that|(?<=\bsummari[sz]e\ )that
        |(?:that|those)(?=\s*[?.,!])|the\ (?:former|latter|same(?=\s*[?.,!]|\ (?:for|with|about))))\b""",
        re.IGNORECASE | re.VERBOSE,
    ),
    # A capital "Sie" or "Ihr" within a sentence is the polite "you".
    "de": re.compile(
        r"""\b(?:er|sie|es|ihn|ihm|ihr|ihre[nmrs]?|ihnen|(?:^|(?<=[.?!]\ ))(?:Er|Sie|Es|Ihm|Ihr|Ihre[nmrs]?)
        |[Ss]ein|[Ss]eine[nmrs]?|[Dd]essen|(?<!,\ )[Dd]eren|(?<!,\ )[Dd]enen|[Dd]iese[nmrs]?|[Jj]ene[nmrs]?
        |[Dd]ort|[Dd]a(?=\ (?:rein|raus|hin|drin|drauf|dran)\b)
        |[Dd](?:abei|avon|amit|afür|agegen|aran|arin|arauf|araus|arüber|anach|avor|azu)
            (?!,\ (?:dass|ob|wie))
        |[Hh]ier(?:zu|für|von)|[Dd]amals|[Dd]erselbe\w*
        |(?<!,\ )(?:[Dd]as|[Dd]er|[Dd]ie|[Dd]en|[Dd]em)
            (?=\s*[?.!]|\s+(?:auch|noch|so|denn|eigentlich|genau|schon|für|bei|im?|auf|pro|nicht|jetzt)\b
            |(?:\s+[a-zäöüß]+)+\s*[?.!]?$))\b""",
        re.VERBOSE,
    ),
}
# Words that look so but stand for nothing: "it is legal to", "is there a limit", "this season".
_EMPTY = re.compile(
    r"""\b(?:gibt\ es|es\ gibt|gab\ es|es\ gab|(?:geht|handelt)\ es\ (?:um|sich)|wie\ (?:geht|steht)\ es
    |es(?:,?\ (?:dass|wenn|ob)\b|\ (?:regne|schnei)\w+)|(?:regnet|schneit)e?\ es
    |(?:ist|war|wäre)\ es\ \w+(?=,|\ dass\b|\ zu\b)
    |it\ (?:is\ |was\ |be\ |become\ |becomes\ )?(?:\w+\ )?(?:to|that)\b(?!\s*[?.!])
    |(?:is|was|does|will|did|how\ long\ does)\ it\ (?:take|\w+\ )?(?:\w+\ )?(?:to|that)\b(?!\s*[?.!])
    |(?:is|was)\ it\ (?:rain|snow)\w*|it\ (?:rain|snow)\w*|it\ matter\w*
    |(?:is|are|was|were|be|been|will|can|could|has|have|had|would|should|must|may|might)
        \ there\b(?!\s*[?.,!])
    |there\ (?:is|are|was|were|has|have|had|will|exists?|remains?)
    |(?:this|these)\ (?:\w+\ )?(?:days?|weeks?|weekend|months?|years?|quarter|season|summer|winter
        |spring|autumn)
    |(?:this)\ (?:morning|evening|afternoon)
    |diese[nmrs]?\ (?:\w+\ )?(?:tage?n?|wochen?|wochenende|monate?n?|jahre?[ns]?|quartal|saison|spielzeit
        |sommer|winter|frühjahr|frühling|herbst))\b""",
    re.IGNORECASE | re.VERBOSE,
)
_CLAUSE = re.compile(
    r"[,;:?!–]|\b(?:and|or|but|when|if|whether|that|who|which|while|because|before|after|until|unless|since|so|as|"
    r"than|though|und|oder|aber|wenn|falls|ob|dass|weil|während|bevor|nachdem|sobald|als|obwohl)\b",
    re.IGNORECASE,
)
_DETERMINED = re.compile(r"\b(?:the|a|an|each|every|any|no|ein|eine[nmrs]?|jede[nmrs]?)\s+\w+", re.IGNORECASE)
_SOME = re.compile(r"\b(?:a|an|each|every|any|no|ein|eine[nmrs]?|jede[nmrs]?)\s+\w+", re.IGNORECASE)
_DEFINED = re.compile(r"^\W*(?:what|who)\s+(?:is|are|was|were)\s+", re.IGNORECASE)
_OWNED = {"its", "his", "her", "their", "dessen", "deren", "sein", "ihr"} | {
    f"{one}e{end}" for one in ("sein", "ihr") for end in ("", *"nmrs")
}
SHORT = 4  # words: a shorter question without a name of its own says too little to stand alone


def depends(text: str) -> bool:
    """Return whether a question leans on what was said before.

    >>> depends("Und wie hoch ist es?"), depends("Wie hoch ist der Turm, und wem gehört er?")
    (True, False)
    >>> depends("Wer hat das beschlossen?"), depends("Is there a limit on this year's catch?")
    (True, False)
    """
    opener = OPENERS.match(text)
    if _MORE.search(text) or (opener and not _asks_by_itself(opener.group(), text)):
        return True
    if any(not _is_resolved(text, found) for found in _pointing(text)):
        return True
    return _says_too_little(text)


def _asks_by_itself(opener: str, text: str) -> bool:
    return _HOW_IT_IS.match(opener) is not None and len(names(text[len(opener) :])) >= 2


def _pointing(text: str) -> Iterator[re.Match[str]]:
    blank = _EMPTY.sub(lambda match: " " * len(match.group()), text)
    return _POINTING[language(text)].finditer(blank)


def _is_resolved(text: str, found: re.Match[str]) -> bool:
    before, word = text[: found.start()], found.group().casefold()
    if word in _OWNED:
        # "its stocks that a country may keep": the owner may come later.
        cataphoric = word not in {"his", "her"} and _SOME.search(text[found.end() :]) is not None
        return cataphoric or _names_something(before, word)
    ends = [match.start() for match in _CLAUSE.finditer(before)]
    return bool(ends) and _names_something(before[: ends[-1]], word)


def _names_something(clause: str, word: str) -> bool:
    if names(clause) or _DETERMINED.search(clause):
        return True
    # Plurals need no article: "did firms say whether they …".
    return word in {"they", "them", "their"} and len(content(clause)) >= 2


def _says_too_little(text: str) -> bool:
    found = words(text)
    # Without the capital of its beginning: "Against whom?" has no name.
    if len(found) >= SHORT or names(text[:1].lower() + text[1:]):
        return False
    every = stop_words()
    bare = [word.text for word in found if word.text.casefold() not in every]
    if len(bare) == len(found) > 0:
        return False
    return not (bare and _DEFINED.match(text))  # "what is inflation?"
