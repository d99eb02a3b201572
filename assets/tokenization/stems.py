"""Languages with stems: Snowball's names, by the two-letter codes of documents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

Language = Literal[
    "arabic", "armenian", "basque", "catalan", "czech", "danish", "dutch", "english", "esperanto", "estonian",
    "finnish", "french", "german", "greek", "hindi", "hungarian", "indonesian", "irish", "italian",
    "lithuanian", "nepali", "norwegian", "persian", "polish", "portuguese", "romanian", "russian", "serbian",
    "sesotho", "spanish", "swedish", "tamil", "turkish", "yiddish",
]  # fmt: skip

LANGUAGES: dict[str, Language] = {
    "ar": "arabic", "hy": "armenian", "eu": "basque", "ca": "catalan", "cs": "czech", "da": "danish",
    "nl": "dutch", "en": "english", "eo": "esperanto", "et": "estonian", "fi": "finnish", "fr": "french",
    "de": "german", "el": "greek", "hi": "hindi", "hu": "hungarian", "id": "indonesian", "ga": "irish",
    "it": "italian", "lt": "lithuanian", "ne": "nepali", "no": "norwegian", "nb": "norwegian",
    "nn": "norwegian", "fa": "persian", "pl": "polish", "pt": "portuguese", "ro": "romanian", "ru": "russian",
    "sr": "serbian", "st": "sesotho", "es": "spanish", "sv": "swedish", "ta": "tamil", "tr": "turkish",
    "yi": "yiddish",
}  # fmt: skip
"""Two-letter code -> the language of its stems."""


def stemmer(language: Language | None) -> Callable[[str], str]:
    """Return Snowball's stemmer (Porter 1980 and its sequels); None: words as they stand."""
    if language is None:
        return str
    import Stemmer

    stem: Callable[[str], str] = Stemmer.Stemmer(language, 0).stemWord
    return stem
