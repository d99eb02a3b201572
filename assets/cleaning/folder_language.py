"""The language of the files in a folder, from a sample of them."""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice
from pathlib import Path

from rag_assay.assets.cleaning.language import detect
from rag_assay.warehouse.pages import decode

READABLE = {".txt", ".md", ".markdown", ".rst", ".html", ".htm", ".xhtml", ".json", ".jsonl", ".csv", ".tsv"}
LOOKED_AT = 5_000  # directory entries that are listed
FILES = 12  # files that are read, evenly spread
BYTES = 60_000  # read from the beginning of each file
_MARKUP = re.compile(r"(?is)<(script|style)\b.*?</\1\s*>|<[^>]{0,2000}>|[{}\[\]\"#*_=|]")


def language_of(folder: Path) -> str | None:
    """Return the language (ISO 639-1) of most texts in a folder, or of one file; None: not detected."""
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
