"""The documents of a corpus as questions are made from them, and the questions before they are filtered."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rag_assay.assets.chunking.sentence_splitter import sentence_places
from rag_assay.assets.cleaning.outline import sections_in
from rag_assay.assets.cleaning.text_files import headings_in
from rag_assay.assets.tokenization.words import plain_tokens
from rag_assay.evals.retrieval.question_words import language, stop_words, words
from rag_assay.evals.word_lists import Language as Lists
from rag_assay.evals.word_lists import entries
from rag_assay.warehouse.identity import digest

Language = Literal["en", "de"]


@dataclass(frozen=True)
class Quote:
    """Where an answer stands, word for word; None: the whole document."""

    doc_id: str
    source: str
    url: str
    quote: str | None = None


@dataclass(frozen=True)
class QuestionCandidate:
    """A question, what it was made from (`title`, `heading`, …), and where its answer stands."""

    kind: str
    question: str
    language: Language
    evidence: tuple[Quote, ...]
    ground_truth: str | None = None
    needs: Literal["all", "any"] = "all"

    @property
    def id(self) -> str:
        return f"{self.kind}-{digest([self.kind, normalize(self.question)])[:10]}"

    def with_evidence_of(self, others: Iterable[QuestionCandidate]) -> QuestionCandidate:
        """Return it with the evidence of all, itself first; of several pieces any suffices."""
        evidence = tuple(dict.fromkeys(quote for one in (self, *others) for quote in one.evidence))
        return replace(self, evidence=evidence, needs="any") if len(evidence) > 1 else self


def normalize(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).rstrip("?.!:… ")


class Drop(NamedTuple):
    """A title, heading, sentence or link that no question was made of, and why."""

    kind: str
    reason: str


class Tally:
    """Counts what was looked at, dropped and kept, by kind.

    >>> tally = Tally()
    >>> tally.drop(Drop("title", "generic"))
    >>> tally.lines()
    ['1 title: generic']
    """

    def __init__(self) -> None:
        self.dropped: Counter[Drop] = Counter()

    def drop(self, drop: Drop, times: int = 1) -> None:
        self.dropped[drop] += times

    def lines(self) -> list[str]:
        ordered = sorted(self.dropped.items(), key=lambda item: (item[0].kind, -item[1], item[0].reason))
        return [f"{count:,} {drop.kind}{'' if count == 1 else 's'}: {drop.reason}" for drop, count in ordered]


BATCH = 200  # documents in memory
_COLUMNS = ["doc_id", "source", "url", "title", "text", "language", "sections", "page_sha256"]
_HEAD = 2_000  # characters by which a language is told that the document does not say


@dataclass(frozen=True)
class TextSection:
    """A part of a text under a heading, from below its line to above the next."""

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
        if self.given_language:
            return next((one for one in ("en", "de") if one == self.given_language[:2]), None)
        return language(self.text[:_HEAD])

    @cached_property
    def sections(self) -> list[TextSection]:
        given = self.given_sections or sections_in(self.text, headings_in(self.text, underlined=False))
        starts = [int(one["start"]) for one in given] + [len(self.text)]
        return [
            TextSection(str(one["heading"]), *below(self.text, str(one["heading"]), int(one["start"]), until))
            for one, until in zip(given, starts[1:], strict=True)
        ]

    @cached_property
    def lead(self) -> tuple[int, int]:
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
    # As data sets do that join title and text
    if heading.split() and repeated and repeated.end() < len(part):
        start, part = start + repeated.end(), part[repeated.end() :]
    return start + len(part) - len(part.lstrip()), end - len(part) + len(part.rstrip())


def texts_in(files: Sequence[Path]) -> Iterator[SourceText]:
    import pyarrow.parquet

    for path in files:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=BATCH, columns=_COLUMNS):
                for row in batch.to_pylist():
                    yield SourceText(
                        *(row["doc_id"], row["source"], row["url"], row["title"] or "", row["text"]),
                        *(row["language"], row["sections"] or (), row["page_sha256"]),
                    )


LONGEST = 25  # words of a question
QUOTED = 450  # characters of a section that are quoted, about: whole sentences, and one at least
LEAST, MOST = 40, 1_500  # characters of a quote
LISTS: dict[Language, Lists] = {"en": "english", "de": "german"}

_MARKUP = re.compile(r"[<>{}\[\]|\\`\x00-\x08\x0b-\x1f\x7f\ufffd]|https?://|www\.|\]\(|\$\{")
_ACT = re.compile(
    r"^(?:article|artikel|annex|anhang|section|abschnitt|chapter|kapitel)\s+[\w.]+\s*[–—:-]\s*", re.I
)
_STRESS = re.compile(r"[*_]{1,3}(?=\S)(.+?)(?<=\S)[*_]{1,3}")
_NO_PROSE = re.compile(r"[{<|]|!\[|\[!")
_FILE = re.compile(r"\S+\.\w{2,5}", re.A)


def tidy_text(text: str) -> str:
    """Return a heading, title or link text without its number, its marks of stress and its white space.

    >>> tidy_text("3.2  *Moorings* in  winter"), tidy_text("Article 5 – Fines"), tidy_text("2019 in numbers")
    ('Moorings in winter', 'Fines', '2019 in numbers')
    """
    plain = " ".join(_STRESS.sub(r"\1", text).split()).strip(" #*:")
    plain = _ACT.sub("", plain)
    found = re.match(r"(?:§\s*)?(?:\d{1,2}(?:\.\d{1,2})*[.)]?|[IVX]+[.)]|[A-Za-z][.)])\s+(?=[^\W\d])", plain)
    if found and not re.match(r"\d+\s", found.group()):
        return plain[found.end() :]
    return plain


def flaw(text: str) -> str | None:
    """Return why a text cannot be a question as it stands; None: it can.

    >>> flaw("Where to moor?"), flaw("setup.cfg"), flaw("{{ post.title }}")
    (None, 'the name of a file', 'markup or a URL in it')
    """
    if _MARKUP.search(text):
        return "markup or a URL in it"
    if _FILE.fullmatch(text):
        return "the name of a file"
    if len(words(text)) > LONGEST:
        return f"longer than {LONGEST} words"
    if not content_words(text):
        return "no word that says anything"
    return None


def content_words(text: str) -> list[str]:
    every = stop_words()
    plain = (word.text.casefold() for word in words(text))
    return [word for word in plain if word not in every and len(word) > 1 and not word.isdigit()]


@cache
def _generic(language: Language) -> tuple[frozenset[str], re.Pattern[str]]:
    lists = LISTS[language]
    whole = frozenset(map(normalize, entries("making", "generic", lists)))
    return whole, re.compile("|".join(entries("making", "generic_patterns", lists)), re.I)


def is_generic(text: str) -> bool:
    plain = normalize(tidy_text(text))
    return any(plain in whole or pattern.fullmatch(plain) for whole, pattern in map(_generic, ("en", "de")))


def opening(text: str, start: int, end: int) -> str | None:
    """Return the first sentences of prose, about QUOTED characters; None: too little."""
    begin, until = start, start
    for first, stop in sentence_places(text[start : min(end, start + 3 * MOST)]):
        if until == begin and _NO_PROSE.match(text[start + first : start + stop]):
            begin = until = start + stop
            continue
        if until > begin and start + stop - begin > QUOTED:
            break
        until = start + stop
    quote = text[begin:until].strip()
    return quote if LEAST <= len(quote) <= MOST and len(content_words(quote)) >= 5 else None


SHORTEST_SENTENCE, LONGEST_SENTENCE = 5, 60  # words
_HEADING_LINES = re.compile(r"\A(?:\s*#{1,6} [^\n]*\n)+\s*|\A\s*[-*+•] ")
_ENDS = ".!;”\"'’)“"
_LINK = re.compile(r"!?\[([^\]\[]*)\]\([^()]*(?:\([^()]*\)[^()]*)*\)")
_EMPHASIS = re.compile(r"(?<!\w)[*_]{1,3}(?=\S)([^*_]+)(?<=\S)[*_]{1,3}(?!\w)")


@lru_cache(maxsize=1)
def _sentences(text: str) -> list[tuple[str, str]]:
    found = []
    for start, end in sentence_places(text):
        quote = _HEADING_LINES.sub("", text[start:end])
        plain = " ".join(_EMPHASIS.sub(r"\1", _LINK.sub(r"\1", quote)).split())
        has_length = len(plain) >= LEAST and SHORTEST_SENTENCE <= plain.count(" ") + 1 <= LONGEST_SENTENCE
        if has_length and plain[-1] in _ENDS:
            found.append((quote, plain))
    return found


def turned_around(
    text: SourceText, kind: str, question_of: Callable[[str, Language], str | None]
) -> Iterator[QuestionCandidate]:
    if text.language is None:
        return
    for quote, plain in _sentences(text.text):
        question = question_of(plain, text.language)
        if question and not flaw(question):
            evidence = (Quote(text.doc_id, text.source, text.url, quote),)
            yield QuestionCandidate(kind, question, text.language, evidence, ground_truth=plain)
