"""What people who score or ask are called."""

from __future__ import annotations

import unicodedata

from rag_assay.warehouse.errors import InputError

LONGEST_NAME = 80  # characters


def annotator_name(text: str) -> str:
    r"""Return the name of an annotator in the one form in which it is kept.

    >>> annotator_name("  Zoe\u0308  Müller ")
    'Zoë Müller'

    Raises:
        InputError: it is empty, too long, or has characters that cannot be seen.
    """
    name = " ".join(unicodedata.normalize("NFC", text).split())
    if not name:
        raise InputError("an annotator has a name: it is empty")
    if len(name) > LONGEST_NAME:
        raise InputError(f"the name of an annotator has at most {LONGEST_NAME} characters, not {len(name)}")
    unseen = next((sign for sign in name if unicodedata.category(sign) in {"Cc", "Cf", "Cs", "Cn", "Co"}), "")
    if unseen:
        raise InputError(f"the name of an annotator has a character that cannot be seen: U+{ord(unseen):04X}")
    return name
