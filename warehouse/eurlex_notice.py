"""Pages of EUR-Lex that say only that the text of an act is not there."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote, urlsplit

EURLEX = "eur-lex.europa.eu"

# Sector, year, letter of the form, number; correction; date of the version.
_NUMBER = r"[0-9CE]\d{4}[A-Z]{1,2}\d{4}(?:\(\d+\))?(?:R\(\d+\))?(?:-\d{8})?"
_CELEX = rf"(?i)(?<!\w)(?:CELEX:)?({_NUMBER})(?!\w)"


def celex_in(text: str) -> str | None:
    """Return the CELEX number in a URL or text, or None.

    >>> celex_in("https://eur-lex.example/legal-content/EN/TXT/?uri=CELEX%3A02012L0027-20190101")
    '02012L0027-20190101'
    """
    found = re.search(_CELEX, unquote(text))
    return found[1].upper() if found else None


def act_url(start: Any, host: str, language: str) -> Any:
    """Return the URL of the act that a CELEX number names; anything else as it is.

    >>> act_url("CELEX:32019L0944", "eur-lex.europa.eu", "de")
    'https://eur-lex.europa.eu/legal-content/DE/TXT/HTML/?uri=CELEX:32019L0944'
    """
    found = re.fullmatch(rf"(?:CELEX:)?({_NUMBER})", start.strip(), re.I) if isinstance(start, str) else None
    if found is None:
        return start
    return f"https://{host}/legal-content/{language.upper()}/TXT/HTML/?uri=CELEX:{found[1].upper()}"


Element = Any  # lxml's elements come untyped

FEW_WORDS = 15  # beside the notice where the act should stand: a link to its PDF, say
LONG = 200  # characters of a paragraph that no notice has

_CLASS = "contains(concat(' ', normalize-space(@class), ' '), ' {} ')"
_ALERTS = f"//*[{_CLASS.format('alert')}][not(ancestor::noscript)]"
_PLACES = (
    "//*[@id='TexteOnly' or @id='document1' or @id='docHtml' or @id='textTabContent' or @id='text']"
    " | //txt_te | //*[contains(@class, 'eli-container')]"
)
_ACT = " | ".join(
    f"//p[{_CLASS.format(name)}]"
    for name in ("oj-normal", "oj-doc-ti", "normal", "doc-ti", "title-doc-first", "norm", "Normal")
)
_TEXT = ".//text()[not(ancestor::script or ancestor::style or ancestor::noscript)]"
_TITLE = r"\s*EUR-Lex\s+-\s+\S*\d\S*\s+-\s+[A-Z]{2}\b"
_ABSENT = (
    r"(?i)unavailable|not (?:been )?available|does not exist|no text available"
    r"|nicht verfügbar|nicht vorhanden|existiert nicht|pas disponible|indisponible|n['’]existe pas"
    r"|non (?:è )?disponibile|non esiste|no (?:está )?disponible|no existe|niet beschikbaar|bestaat niet"
    r"|não (?:está )?disponível|não existe|ikke tilgængelig|inte tillgänglig|niedostępn|nie istnieje"
)


def says_absent(text: str) -> bool:
    """Return whether a short text says that another one is not there.

    >>> says_absent("The HTML format is unavailable in your User interface language"), says_absent("Lamps")
    (True, False)
    """
    return bool(re.search(_ABSENT, text))


def notice_in(root: Element, url: str) -> str | None:
    """Return what a page of EUR-Lex says (an alert) where the text of an act should stand, or None."""
    alerts = [text for text in (_words(alert) for alert in root.xpath(_ALERTS)) if text]
    if not alerts or not _is_of_document(root, url):
        return None
    places = root.xpath(_PLACES)
    beside = [len(_words(place).split()) - sum(len(text.split()) for text in alerts) for place in places]
    long_ones = sum(len(_words(paragraph)) > LONG for paragraph in root.iter("p"))
    if max(beside, default=0) > FEW_WORDS or root.xpath(_ACT) or long_ones > 2:  # beside the site's own
        return None
    return next(filter(says_absent, alerts), alerts[-1])


def _is_of_document(root: Element, url: str) -> bool:
    title = root.find(".//title")
    return (
        "/legal-content/" in urlsplit(url).path
        or bool(title is not None and re.match(_TITLE, title.text or ""))
        or bool(root.xpath("//div[starts-with(@class, 'PubFormat')]"))
    )


def _words(node: Element) -> str:
    return " ".join(" ".join(node.xpath(_TEXT)).split())
