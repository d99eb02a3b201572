"""CELEX numbers, which name the acts of EUR-Lex, and the addresses of acts."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

EURLEX = "eur-lex.europa.eu"

# Sector, year, letter of the form, number; correction; date of the version.
_NUMBER = r"[0-9CE]\d{4}[A-Z]{1,2}\d{4}(?:\(\d+\))?(?:R\(\d+\))?(?:-\d{8})?"
_CELEX = re.compile(rf"(?<!\w)(?:CELEX:)?({_NUMBER})(?!\w)", re.I)


def celex_in(text: str) -> str | None:
    """Return the CELEX number in a URL or text, or None.

    >>> celex_in("https://eur-lex.example/legal-content/EN/TXT/?uri=CELEX%3A02012L0027-20190101")
    '02012L0027-20190101'
    """
    found = _CELEX.search(unquote(text))
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
