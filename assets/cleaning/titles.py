"""Titles and author names that programs write by default, such as "untitled"."""

from __future__ import annotations

import re

_NO_TITLE = re.compile(
    r"^\W*$|^(?:microsoft (?:word|powerpoint|excel) -|untitled\b|\(?(?:unspecified|anonymous|unknown)\)?$"
    r"|document\d*$|presentation\d*$|(?:powerpoint|word|excel)[ -]\w+$|book\d*$|slide \d+$)"
    r"|\.(?:docx?|pdf|indd|tex|dvi|xlsx?|pptx?|odt|rtf|qxd)$",
    re.I,
)
_NO_NAME = re.compile(
    r"^\W*$|^\(?(?:anonymous|unspecified|unknown|author|user|admin(?:istrator)?|owner|root"
    r"|(?:microsoft office|windows|office) user|python-docx|openpyxl|steve canny)\)?$",
    re.I,
)
_BETWEEN = re.compile(r"\s*[;\n]\s*|\s+(?:and|und|&)\s+")


def is_title(text: str) -> bool:
    """Return whether what a file gives as its title is one.

    >>> is_title("Harbour rules"), is_title("(anonymous)"), is_title("Microsoft Word - a.doc")
    (True, False, False)
    """
    return not _NO_TITLE.search(text.strip())


def names_in(text: str) -> tuple[str, ...]:
    """Return the authors that a file names. Commas separate names only if each part has a space: "Pilot, Ada"
    is one.

    >>> names_in("Ada Pilot; Ben Quay and Cleo Dock"), names_in("Ada Pilot, Ben Quay"), names_in("Pilot, Ada")
    (('Ada Pilot', 'Ben Quay', 'Cleo Dock'), ('Ada Pilot', 'Ben Quay'), ('Pilot, Ada',))
    >>> names_in("(anonymous)"), names_in("python-docx")
    ((), ())
    """
    found: list[str] = []
    for part in _BETWEEN.split(text.strip()):
        listed = [name.strip() for name in part.split(",")]
        found += listed if all(" " in name for name in listed) else [part.strip()]
    return tuple(dict.fromkeys(name for name in found if not _NO_NAME.match(name)))
