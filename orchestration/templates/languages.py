"""The language of a folder, and the embedder and retrievers that a new study has for it."""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice
from pathlib import Path

from rag_assay.assets.cleaning.language import detect
from rag_assay.warehouse.pages import decode

READABLE = {".txt", ".md", ".markdown", ".rst", ".html", ".htm", ".xhtml", ".json", ".jsonl", ".csv", ".tsv"}
LOOKED_AT = 5_000  # files whose names are looked at
FILES = 12  # of them that are read, evenly spread
BYTES = 60_000  # of each, from its beginning
_MARKUP = re.compile(r"(?is)<(script|style)\b.*?</\1\s*>|<[^>]{0,2000}>|[{}\[\]\"#*_=|]")
STEMMED = {"de": "german", "en": "english"}  # whose stems and function words `bm25` knows
NAMES = {"de": "German", "fr": "French", "es": "Spanish", "it": "Italian", "nl": "Dutch", "pl": "Polish"}


def language_of(folder: Path) -> str | None:
    """Return the language (ISO 639-1) that most texts of a folder are in; None where none could be told.

    folder: or a single file
    """
    paths = sorted(
        path
        for path in islice(folder.rglob("*") if folder.is_dir() else [folder], LOOKED_AT)
        if path.suffix.lower() in READABLE and path.is_file()
    )
    step = max(1, len(paths) // FILES)
    found = Counter(filter(None, map(_language, paths[::step][:FILES])))
    return found.most_common(1)[0][0] if found else None


def _language(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            text, _encoding = decode(file.read(BYTES), None)
    except OSError:
        return None
    return detect(" ".join(_MARKUP.sub(" ", text).split()))


def lines_for(language: str | None) -> dict[str, str]:
    """Return the lines of a template that go by the language: embedder, bm25 and hybrid."""
    if language in {None, "en"}:
        return {
            "embedder": (
                "# for other languages than English: e5: {model: multilingual-e5-small}\n"
                "  minilm: {model: all-MiniLM-L6-v2, max_tokens: 512}"
            ),
            "bm25": "{bm25: {k: 50}}",
            "hybrid": "{hybrid: {k: 50}}",
        }
    name = NAMES.get(str(language), f"the language `{language}`")
    words = (
        f"language: {STEMMED[str(language)]}"
        if language in STEMMED
        else "tokenizer: plain, function_words: keep"
    )
    return {
        "embedder": (
            f"# most of the documents are in {name}; all-MiniLM-L6-v2 has read English alone\n"
            "  e5: {model: multilingual-e5-small}"
        ),
        "bm25": f"{{bm25: {{k: 50, {words}}}}}",
        "hybrid": f"{{hybrid: {{k: 50, bm25: {{{words}}}}}}}",
    }
