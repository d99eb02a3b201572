"""Words of questions: which carry the content, and which only hold the sentence together."""

from __future__ import annotations

import re
import unicodedata
from typing import Literal, NamedTuple

Language = Literal["en", "de"]

_ENGLISH = """
a about above after again all also am an and any are as at be because been before being below
between both but by can could did do does doing done down during each either ever few for from
further get give given had has have having he her here hers him his how i if in into is it its
itself just let like many may me might mine more most much must my no nor not of off often on once
one only onto or other our out over own please same shall she should since so some such suppose than
that the their theirs them then there these they this those through to too under until up upon us
very was we were what when where whether which while who whom whose why will with within without
would yes you your
"""
_GERMAN = """
ab aber alle allem allen aller alles als also am an andere anderen angenommen auch auf aus bei beim
bin bis bist bitte da dabei dadurch dafür dagegen daher damit dann daran darauf daraus darin darüber
darum das dass davon davor dazu dein deine dem den denen denn der deren derselbe des dessen die dies
diese diesem diesen dieser dieses doch dort du durch ein eine einem einen einer eines einst er es
etwa etwas euch euer für gab ganz gar gegen gibt ging habe haben hat hatte hatten hätte hätten ich
ihm ihn ihnen ihr ihre ihrem ihren ihrer im in inwieweit ins ist ja je jede jedem jeden jeder jedes
jener kam kann kein keine keinem keinen können könnte man mehr mein meine mich mir mit möchte muss
müssen musste nach nicht nichts noch nun nur ob oder ohne sehr sein seine seinem seinen seiner seit
sich sie sind so soll sollen sollte solche um und uns unser unter viel viele vielen vom von vor wann
war wäre waren warum was weder wegen weil weit welche welchem welchen welcher welches wem wen wenn
wer werde werden weshalb wessen wie wieder will wir wird wo wobei wofür woher wohin womit wovon
wurde wurden würde zu zum zur zwar zwischen über
"""
STOP: dict[Language, frozenset[str]] = {"en": frozenset(_ENGLISH.split()), "de": frozenset(_GERMAN.split())}
_WORD = re.compile(r"\w+(?:[-/&.’']\w+)*")
_UMLAUTS = {"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss"}


class Word(NamedTuple):
    """A word of a text and where it stands."""

    text: str
    start: int
    end: int


def words(text: str) -> list[Word]:
    """Return the words of a text; hyphens, slashes and points inside hold a word together.

    >>> [word.text for word in words("Saison 2021/22: Rot-Weiß, 3.5 MW?")]
    ['Saison', '2021/22', 'Rot-Weiß', '3.5', 'MW']
    """
    return [Word(found.group(), found.start(), found.end()) for found in _WORD.finditer(text)]


def language(text: str) -> Language:
    """Say whether a text is German or English, by their stop words; English where nothing tells.

    >>> language("Wann fährt die Fähre?"), language("When does it leave?")
    ('de', 'en')
    """
    plain = [word.text.casefold() for word in words(text)]
    german = sum(word in STOP["de"] for word in plain) + 2 * any(c in "äöüß" for c in text.casefold())
    return "de" if german > sum(word in STOP["en"] for word in plain) else "en"


def content(text: str) -> list[Word]:
    """Return the words that are no stop words of the text's language, each once, in their order.

    >>> [word.text for word in content("When does the ferry leave the harbour?")]
    ['ferry', 'leave', 'harbour']
    """
    stop = STOP[language(text)]
    found: dict[str, Word] = {}
    for word in words(text):
        plain = word.text.casefold()
        if plain not in stop and any(c.isalnum() for c in plain):
            found.setdefault(plain, word)
    return list(found.values())


def folded(text: str) -> tuple[str, list[int]]:
    """Return a text without case, umlauts written out, other accents dropped; and each letter's old place.

    Both spellings of a German name meet in it, and other white space and dashes become plain ones.

    >>> folded("Müßig – é")[0]
    'muessig - e'
    >>> folded("Öl")[1]
    [0, 0, 1]
    """
    letters: list[str] = []
    places: list[int] = []
    for place, letter in enumerate(text):
        plain = "".join(_fold(one) for one in letter.casefold())
        letters.append(plain)
        places += [place] * len(plain)
    return "".join(letters), places


def _fold(letter: str) -> str:
    if letter in _UMLAUTS:
        return _UMLAUTS[letter]
    category = unicodedata.category(letter)
    if category in {"Zs", "Cc"}:
        return " "
    if category == "Pd":
        return "-"
    return "".join(c for c in unicodedata.normalize("NFKD", letter) if not unicodedata.combining(c))


_NAME = re.compile(r"[A-ZÄÖÜ0-9][\w’'/&.-]*(?:\s+(?:(?:de|von|van|of)\s+)?[A-ZÄÖÜ0-9][\w’'/&.-]*)*")


def names(text: str) -> list[str]:
    """Return runs of capitalised words and numbers that are no stop words: what a text is about, roughly.

    In German these are the nouns, in English names; the first word of a sentence counts where it is no
    stop word and no question word.

    >>> names("Wann wurde das Flutlicht im Waldstadion Haldenrath gebaut?")
    ['Flutlicht', 'Waldstadion Haldenrath']
    >>> names("Who runs the Harbour Office of Port Ellen since 1987?")
    ['Harbour Office of Port Ellen', '1987']
    """
    every = STOP["en"] | STOP["de"]
    found: dict[str, None] = {}
    for match in _NAME.finditer(text):
        parts = match.group().rstrip(".'’-/&").split()
        while parts and parts[0].casefold() in every:
            parts = parts[1:]
        if parts:
            found.setdefault(" ".join(parts), None)
    return list(found)
