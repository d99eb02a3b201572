"""Detects answers that say the passages hold no answer, in English and German."""

from __future__ import annotations

import re

_NOTHING = r"""(?xi)^(?:unfortunately,?\s|leider\s|sorry,?\s|based\son\sthe\s\w+(?:\s\w+)?,\s)?(?:
      (?:the|these|those|provided|given|your)\s(?:\w+\s)?(?:document|passage|text|source|context|excerpt)s?
        (?:\sprovided|\sgiven)?\s
        (?:do|does|did)(?:\snot|n't)\s(?:\w+ly\s)?
        (?:say|state|mention|contain|provide|specify|hold|include|answer|give|tell|address|indicate|cover)
      |(?:there\sis|i\s(?:have|found|find))\sno\s(?:\w+\s)?(?:information|answer)
      |(?:no|not\senough|insufficient)\s(?:\w+\s)?information
        (?:\s(?:is|was)\s(?:given|provided|available|found)|\s(?:about|on|regarding|in\sthe)|\W*$)
      |i\s(?:do\snot|don't|cannot|can't|can\snot)\s(?:know|answer|say|find)
      |not\s(?:stated|mentioned|specified|given)\sin\sthe\b
      |(?:die|den|diese|in\sden|aus\sden)\s(?:\w+\s)?
        (?:dokumente?n?|passagen?|texte?n?|quellen?|abschnitten?|textstellen?)\s
        (?:sagen|enthalten|nennen|geben|erwähnen|machen|liefern|beantworten|geht|steht|finde[nt]|gibt|ist|sind)
        \b[^,;]*\b(?:nichts|keine?n?|nicht)\b
      |(?:(?:dazu|darüber|hierzu)\s)?(?:sagen|enthalten|nennen|geben|machen|liefern)\s(?:die|diese)\s
        (?:\w+\s)?(?:dokumente|passagen|texte|quellen|abschnitte|textstellen)\b[^,;]*\b(?:nichts|keine?n?)\b
      |(?:dazu|darüber|hierzu)\s(?:steht|stehen|finde[nt]|gibt)\b[^,;]*
        \b(?:nichts|keine\s(?:\w+\s)?(?:information|angabe|antwort)\w*)\b
      |(?:das|dies)\s(?:steht|geht)\snicht\b
      |es\s(?:gibt|liegen|finden\ssich)\skeine\s(?:\w+\s)?(?:informationen?|angaben?|antwort)
      |keine\s(?:informationen?|angaben?|antwort)\b
      |ich\s(?:weiß|weiss)\s(?:es\s|das\s)?nicht
      |ich\skann\s.*\bnicht\sbeantworten
    )"""
_TURN = r"(?i)\b(?:but|however|although|though|aber|jedoch|allerdings|obwohl|sondern)\b"
_LONGEST_REFUSAL = 30  # words; a longer text says something else beside


def is_refusal(text: str) -> bool:
    """Whether ``text`` says, and says only, that the documents do not hold the answer (English or German).

    >>> is_refusal("The documents don't mention a date.")
    True
    >>> is_refusal("The documents do not mention a date, but the fee is 5 euro.")
    False
    """
    plain = " ".join(text.replace("’", "'").split()).strip("\"'„“”»«*_ ")
    if not plain or len(plain.split()) > _LONGEST_REFUSAL or re.search(_TURN, plain):
        return False
    return re.match(_NOTHING, plain) is not None
