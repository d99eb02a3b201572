"""The documents of a corpus as questions are made from them, one after the other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rag_assay.assets.cleaning.outline import sections_in
from rag_assay.assets.cleaning.text_files import headings_in
from rag_assay.assets.indexing.lexical import plain_tokens
from rag_assay.evals.question_generation.candidate import Language
from rag_assay.evals.retrieval.question_words import language

BATCH = 200  # documents in memory
_COLUMNS = ["doc_id", "source", "url", "title", "text", "language", "sections", "page_sha256"]
_HEAD = 2_000  # characters by which a language is told that the document does not say


@dataclass(frozen=True)
class TextSection:
    """A part of a text under a heading.

    heading: its words
    start, end: of what stands below the heading's line and above the next heading, white space left out
    """

    heading: str
    start: int
    end: int


@dataclass(frozen=True)
class SourceText:
    """A document that questions are made from."""

    doc_id: str
    source: str
    url: str
    title: str
    text: str
    given_language: str | None = None
    given_sections: Sequence[dict[str, Any]] = ()
    page_sha256: str | None = None

    @cached_property
    def language(self) -> Language | None:
        """English or German; None: another language, which no words are known of."""
        if self.given_language:
            return next((one for one in ("en", "de") if one == self.given_language[:2]), None)
        return language(self.text[:_HEAD])

    @cached_property
    def sections(self) -> list[TextSection]:
        """The sections in the order of the text; of a text without any, those of its Markdown headings."""
        given = self.given_sections or sections_in(self.text, headings_in(self.text, underlined=False))
        starts = [int(one["start"]) for one in given] + [len(self.text)]
        return [
            TextSection(str(one["heading"]), *below(self.text, str(one["heading"]), int(one["start"]), until))
            for one, until in zip(given, starts[1:], strict=True)
        ]

    @cached_property
    def lead(self) -> tuple[int, int]:
        """Where the text stands whose heading is the title: from below it to the next heading."""
        for section in self.sections:
            if section.start < section.end:
                first = min((int(one["start"]) for one in self.given_sections), default=section.start)
                above = below(self.text, self.title, 0, first) if self.given_sections else (0, 0)
                return above if above[0] < above[1] else (section.start, section.end)
        return below(self.text, self.title, 0, len(self.text))


def below(text: str, heading: str, start: int, end: int) -> tuple[int, int]:
    r"""Return where the text stands of `text[start:end]` without its first lines that repeat the heading.

    >>> text = "# Article 2\nScope\nThis applies to ferries.\n"
    >>> first, last = below(text, "Article 2 – Scope", 0, len(text))
    >>> text[first:last]
    'This applies to ferries.'
    """
    words = f" {' '.join(plain_tokens(heading))} "
    while start < end:
        line_end = text.find("\n", start, end)
        line_end = end if line_end < 0 else line_end
        line = plain_tokens(text[start:line_end])
        if line and f" {' '.join(line)} " not in words:
            break
        start = min(end, line_end + 1)
    part = text[start:end]
    repeated = re.match(r"\W*" + r"\W+".join(map(re.escape, heading.split())) + r"[\s.:]*", part, re.I)
    if (
        heading.split() and repeated and repeated.end() < len(part)
    ):  # as data sets do that join title and text
        start, part = start + repeated.end(), part[repeated.end() :]
    return start + len(part) - len(part.lstrip()), end - len(part) + len(part.rstrip())


def texts_in(files: Sequence[Path]) -> Iterator[SourceText]:
    """Yield the documents of files of `schemas.DOCUMENTS`, BATCH of them in memory."""
    import pyarrow.parquet

    for path in files:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=BATCH, columns=_COLUMNS):
                for row in batch.to_pylist():
                    yield SourceText(
                        *(row["doc_id"], row["source"], row["url"], row["title"] or "", row["text"]),
                        *(row["language"], row["sections"] or (), row["page_sha256"]),
                    )
