"""Reads verdicts that a model did not write as the JSON that was wanted: only what can be read in one way."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel

from rag_assay.evals.judging.yes_or_no import word_of
from rag_assay.warehouse.inference.structured import read_json

Mend = Callable[[str], str | None]
"""What a model said -> the JSON that it means; None where that is not sure, or it holds JSON already."""

LONGEST = 20_000  # characters of a reply that is looked through
KEPT = 400  # characters of a reply that stand for its reason
# A sentence or a line begins.
_BEGIN = (
    r"(?:^|[\n.;:!?{,(])[\s\"'*_#>-]{0,8}(?:(?:and|or|und|oder|the|my|final|overall|die|meine)\s{1,3}){0,4}"
)
_BETWEEN = r"[\s\"'*_:=([{`#]{0,8}(?:is|of|ist|lautet)?[\s\"'*_:=([{`]{0,8}"
_OF = r"(?:\s{0,3}(?:/|out of|of|von)\s{0,3}(?P<of>\d{1,3}))?"
_GRADE = re.compile(
    rf"{_BEGIN}(?:score|grade|rating|bewertung|punktzahl|wertung)\b{_BETWEEN}"
    rf"(?P<n>\d{{1,3}}(?:[.,]\d+)?){_OF}(?=[^\S\n]{{0,8}}(?P<next>\S?))",
    re.IGNORECASE,
)
_ALONE = re.compile(rf"[\s\"'*_`]{{0,8}}(?P<n>\d{{1,3}}){_OF}[\s\"'*_`.]{{0,8}}")
_ENDS = frozenset(".;,!?)*_`\"'}]")  # what may follow a grade that is one
_MET = re.compile(
    rf"{_BEGIN}(?:met|verdict|erfüllt|urteil)\b{_BETWEEN}(?P<word>true|false|yes|no|ja|nein|wahr|falsch)\b",
    re.IGNORECASE,
)
_CHOICE = re.compile(
    rf"{_BEGIN}(?:better|winner|verdict|besser|urteil)\b{_BETWEEN}(?:answer|antwort)?\s{{0,3}}(?P<n>[12]|tie)"
    r"(?=[^\S\n]{0,8}(?P<next>\S?))",
    re.IGNORECASE,
)
_TRUE = {"true", "yes", "ja", "wahr"}


def grade_within(text: str, scale: int) -> int | None:
    """Return the grade that a text names, of a scale from 1; None where it names none, or several.

    A number counts that is called a grade, or stands alone, and a fraction only if it is of that scale.

    >>> [grade_within(text, 5) for text in ("Short. **Score:** 4/5", "Score: 8/10", "Score: 4 or 5", "3")]
    [4, None, None, 3]
    """
    text = unicodedata.normalize("NFKC", text)
    if len(text) > LONGEST:
        return None
    alone = _ALONE.fullmatch(text)
    named = [match.groupdict() for match in ([alone] if alone else _GRADE.finditer(text))]
    grades = {_grade(one, scale) for one in named}
    return grades.pop() if len(grades) == 1 else None


def met_within(text: str) -> bool | None:
    """Return whether a text says that a criterion is met; None where it does not say, or says both.

    >>> met_within("Too long. Verdict: no"), met_within("Yes, it is."), met_within("met: true, or met: false")
    (False, True, None)
    """
    text = unicodedata.normalize("NFKC", text)
    if len(text) > LONGEST:
        return None
    words = {match["word"].casefold() in _TRUE for match in _MET.finditer(text)}
    if words:
        return words.pop() if len(words) == 1 else None
    return word_of(text)


def choice_within(text: str) -> str | None:
    """Return which of two answers a text calls better: 1, 2 or tie; None: it does not, or says several.

    >>> [choice_within(text) for text in ("Better: 2", "I like 1.", "**Winner:** tie", "1 or 2", " 1 ")]
    ['2', None, 'tie', None, '1']
    """
    text = unicodedata.normalize("NFKC", text)
    if len(text) > LONGEST:
        return None
    found = {
        None if match["next"] and match["next"] not in _ENDS else match["n"].lower()
        for match in _CHOICE.finditer(text)
    }
    alone = text.strip(" \n\t\"'*_`.").lower()
    found |= {alone} & {"1", "2", "tie"}
    return found.pop() if len(found) == 1 else None


def mending(shape: type[BaseModel], verdict: Callable[[str], Mapping[str, Any] | None]) -> Mend:
    """Return what finds the verdict in the words of a text that holds no JSON of a shape.

    verdict: text -> what the JSON would have said beside the reason
    """

    def mend(text: str) -> str | None:
        try:
            read_json(text, shape)
        except ValueError:
            said = verdict(text)
            return None if said is None else json.dumps({"reason": text[:KEPT], **said})
        return None

    return mend


def _grade(named: Mapping[str, str | None], scale: int) -> int | None:
    number = float((named["n"] or "").replace(",", "."))
    of = named.get("of")
    after = named.get("next")
    if (after and after not in _ENDS) or not number.is_integer() or not 1 <= number <= scale:
        return None
    return int(number) if of is None or int(of) == scale else None
