"""The kinds of questions that are made without a model, and what each finds in a document."""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from rag_assay.evals.query_transforms.rules.named_dates import Dated, find_dates
from rag_assay.evals.question_generation.definitions import definitions_of
from rag_assay.evals.question_generation.texts import (
    LISTS,
    Drop,
    Language,
    QuestionCandidate,
    Quote,
    SourceText,
    Tally,
    content_words,
    flaw,
    is_generic,
    normalize,
    opening,
    tidy_text,
    turned_around,
)
from rag_assay.evals.retrieval.question_words import stop_words
from rag_assay.evals.word_lists import alternation, entries, groups
from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.pages import decode, read_body
from rag_assay.warehouse.paths import Home

T = TypeVar("T")
HELD = 12  # things that are held of one key; more are counted


@dataclass
class Drawn(Generic[T]):
    """What a sample holds of one key: the first different things that had it, and how many there were."""

    key: str
    things: list[T] = field(default_factory=list)
    count: int = 0


class Sample(Generic[T]):
    """The keys of a stream with the smallest seeded digests ("bottom-k", Cohen and Kaplan, PODC 2007).

    Which keys are drawn depends on the seed and the keys alone, never on their order; a key more in the
    stream moves one drawn key at most. All things of a drawn key are seen, wherever they stand in it.

    >>> sample = Sample(2, seed=7)
    >>> for word in ["ferry", "buoy", "ferry", "tide"]:
    ...     sample.add(word, word)
    >>> [(one.key, one.count) for one in sample.drawn()]
    [('ferry', 1), ('buoy', 1)]
    """

    def __init__(self, size: int, seed: int) -> None:
        self._size, self._seed = size, seed
        self._drawn: dict[str, Drawn[T]] = {}
        self._heap: list[tuple[int, str]] = []  # the greatest digest first, as a negative number

    def add(self, key: str, thing: T) -> None:
        found = self._drawn.get(key) or self._room_for(key)
        if found is None or thing in found.things:
            return
        found.count += 1
        if len(found.things) < HELD:
            found.things.append(thing)

    def drawn(self) -> list[Drawn[T]]:
        """Return what was drawn, in the order of the digests: the first half is a sample of half the size."""
        return [self._drawn[key] for _, key in sorted(self._heap, reverse=True)]

    def _room_for(self, key: str) -> Drawn[T] | None:
        place = (-int(digest([self._seed, key]), 16), key)
        if len(self._heap) < self._size:
            heapq.heappush(self._heap, place)
        elif self._heap and place > self._heap[0]:
            _, gone = heapq.heapreplace(self._heap, place)
            del self._drawn[gone]  # a key never comes back: its digest stays as large as it is
        else:
            return None
        self._drawn[key] = Drawn(key)
        return self._drawn[key]


_EXACT = frozenset({"day", "month", "year"})
_ARTICLES = frozenset({"a", "an", "the", "der", "die", "das", "ein", "eine"})
_YEAR = re.compile(r"(?:18|19|20)\d\d")
_CLAUSE_END = re.compile(r"[,;(:–—]| and | but | which | who | when | after | before | because ")
SUBJECT, REST = 8, 12  # words at most


def dates_of(text: SourceText) -> Iterator[QuestionCandidate]:
    return turned_around(text, "date", question_of)


def question_of(sentence: str, language: Language) -> str | None:
    """Return what a sentence dates, as a question; None where it dates nothing, or several things.

    >>> question_of("On 3 May 2019 the Harbour Office was founded by five towns.", "en")
    'When was the Harbour Office founded by five towns?'
    >>> question_of("The library opened its new branch in May 2019.", "en")
    'When did the library open its new branch?'
    >>> question_of("Das Stadion an der Schleuse wurde am 3. Mai 1987 eröffnet.", "de")
    'Wann wurde das Stadion an der Schleuse eröffnet?'
    >>> question_of("Im Jahr 1987 wurde das Stadion an der Schleuse eröffnet.", "de")
    'Wann wurde das Stadion an der Schleuse eröffnet?'
    >>> question_of("It was founded in 2019 and closed in 2021.", "en") is None
    True
    """
    if not _YEAR.search(sentence):  # as most, which is seen at once
        return None
    found = [one for one in find_dates(sentence) if one.kind in _EXACT and one.first]
    if len(found) != 1 or not _YEAR.search(found[0].text):
        return None
    clause = _without(sentence, found[0], language)
    if clause is None:
        return None
    return _english(clause) if language == "en" else _german(*clause)


def _without(sentence: str, dated: Dated, language: Language) -> tuple[str, str] | None:
    before, after = sentence[: dated.start], sentence[dated.end :].rstrip(" .!")
    prepositions = alternation("making", "dates_before", LISTS[language])
    found = re.search(rf"(?:^|(?<=\s))(?:{prepositions})\s*$", before, re.I)
    if found is None:
        bare = language == "de" and (dated.kind == "year" or not before.strip())  # "1907", "Anfang" aside
        return (before.strip(), after.strip(" ,")) if bare else None
    return before[: found.start()].strip(), after.strip(" ,")


def _english(clause: tuple[str, str]) -> str | None:
    before, after = clause
    if before and after and not re.match(r"(?:by|with|after|when|and|as|under|at|for|to|,|;|\()", after):
        return None  # what the sentence goes on with is more than the date
    first = _CLAUSE_END.split(before or after)[0].strip()
    return _passive(first) or _active(first)


def _passive(clause: str) -> str | None:
    passives = alternation("making", "passives", "english")
    found = re.match(rf"(?P<subject>.+?) (?P<aux>{passives}) (?P<verb>\w+)(?P<rest>.*)$", clause)
    if not found or not _is_subject(found["subject"], "en"):
        return None
    verb = found["verb"]
    if not (verb.endswith("ed") or verb in entries("making", "participles", "english")):
        return None
    return _when(f"When {found['aux']} {_inside(found['subject'])} {verb}{found['rest']}?", found["rest"])


def _active(clause: str) -> str | None:
    for base, past in groups("making", "english")["past"].items():
        found = re.match(rf"(?P<subject>.+?) {past}(?P<rest>(?: .*)?)$", clause)
        if found and _is_subject(found["subject"], "en"):
            return _when(f"When did {_inside(found['subject'])} {base}{found['rest']}?", found["rest"])
    return None


def _german(before: str, after: str) -> str | None:
    if re.search(r"[,;:(–—„\"]", f"{before} {after}"):
        return None
    verbs = alternation("making", "dated", "german")
    if not before:
        found = re.match(rf"(?P<verb>{verbs}) (?P<rest>.+)$", after)
        subject = found["rest"] if found else ""
        if not found or not _is_subject(" ".join(subject.split()[:2]), "de"):
            return None
        return _when(f"Wann {found['verb']} {found['rest']}?", found["rest"])
    found = re.match(rf"(?P<subject>.+?) (?P<verb>{verbs})\b(?P<rest>.*)$", f"{before} {after}".strip())
    if not found or not _is_subject(found["subject"], "de"):
        return None
    return _when(f"Wann {found['verb']} {_inside(found['subject'])}{found['rest']}?", found["rest"])


def _is_subject(words: str, language: Language) -> bool:
    parts = words.split()
    if not parts or len(parts) > SUBJECT or not content_words(words) or re.search(r"[,;:()–—]", words):
        return False
    first = parts[0].casefold()
    return first in _ARTICLES or first not in stop_words(language)


def _inside(subject: str) -> str:
    first, _, rest = subject.partition(" ")
    return f"{first.lower()} {rest}" if first.casefold() in _ARTICLES else subject


def _when(question: str, rest: str) -> str | None:
    return question if len(rest.split()) <= REST else None


PAGES = 2_000  # bodies of web pages that are looked at for links
MOST_LINKS = 500  # of one page
LARGEST = 3_000_000  # bytes of a page that is parsed for its links

_MARKDOWN = re.compile(r"(?<!!)\[([^\]\[]{3,200})\]\(((?:[^()\n]|\([^()\n]{0,200}\)){1,500})\)")
_INLINE = re.compile(
    r"<a\s[^>]{0,1000}?href\s*=\s*[\"']([^\"'<>]{1,1000})[\"'][^>]{0,1000}>(.{3,300}?)</a>", re.I | re.S
)
_TAG = re.compile(r"<[^>]{0,1000}>")
_LIQUID = re.compile(r"\{\{\s*(?:[\"']([^\"']*)[\"'])?[^}]*\}\}")

Link = tuple[str, str]
"""Its words, and what it leads to, as written."""


class Targets:
    """The documents that links may lead to, by their addresses."""

    def __init__(self) -> None:
        self._by_address: dict[str, tuple[str, str, str]] = {}

    def add(self, text: SourceText) -> None:
        self._by_address.setdefault(_address(text.url) or text.url, (text.doc_id, text.source, text.url))

    def of(self, text: SourceText, href: str) -> Quote | None:
        try:
            address = _address(urljoin(text.url, _plain(href)))
        except ValueError:
            return None
        found = self._by_address.get(address or "")
        return Quote(*found) if found and found[0] != text.doc_id else None


def _plain(href: str) -> str:
    """Return what a link leads to without a title behind it, and without what a template would fill in.

    >>> _plain('ferry.md "The ferry"'), _plain('{{ "/2014/ferry/" | url }}'), _plain("{{ site.url }}/ferry")
    ('ferry.md', '/2014/ferry/', '/ferry')
    """
    if "{{" in href:
        return _LIQUID.sub(lambda found: found[1] or "", href).strip()
    return (href.split() or [""])[0].strip("<>")


def _address(url: str) -> str | None:
    """Return a URL or path as links are compared: without scheme, `www.`, fragment and the file of an index.

    None: it leads to no page (`mailto:`).

    >>> _address("https://www.a.example/x/index.html#top"), _address("http://a.example/x/")
    ('a.example/x', 'a.example/x')
    """
    parts = urlsplit(urldefrag(url).url)
    if parts.scheme not in {"", "http", "https"}:
        return None
    path = re.sub(r"(?:^|/)index\.(?:html?|php|md)$", "", unquote(parts.path)).rstrip("/")
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.netloc.casefold().removeprefix('www.')}{path}{query}"


def links_of(
    text: SourceText, targets: Targets, home: Home | None = None
) -> Iterator[QuestionCandidate | Drop]:
    if text.language is None:
        return
    for words, href in _links(text, home):
        target = targets.of(text, href)
        if target is None:
            continue
        question = tidy_text(words)
        if is_generic(question) or len(content_words(question)) < 2:
            yield Drop("link", "generic")
        elif reason := flaw(question):
            yield Drop("link", reason)
        else:
            yield QuestionCandidate("link", question, text.language, (target,))


def _links(text: SourceText, home: Home | None) -> Iterator[Link]:
    for found in _MARKDOWN.finditer(text.text):
        yield found[1], found[2]
    for found in _INLINE.finditer(text.text):
        yield _TAG.sub(" ", found[2]), found[1]
    if home is not None and text.page_sha256:
        said = " ".join(text.text.split())
        for words, href in _of_page(home, text.page_sha256):
            if words in said:  # not those of menus and footers, which cleaning has left out
                yield words, href


def _of_page(home: Home, sha256: str) -> Iterator[Link]:
    try:
        body = read_body(home, sha256)
    except CorruptFileError:
        return
    if len(body) > LARGEST or b"<a " not in body or body.lstrip()[:1] != b"<":
        return
    import lxml.etree
    import lxml.html

    try:
        tree = lxml.html.fromstring(decode(body)[0].encode(), parser=lxml.html.HTMLParser(encoding="utf-8"))
    except (lxml.etree.LxmlError, ValueError):
        return
    for number, anchor in enumerate(tree.iter("a")):
        if number == MOST_LINKS:
            return
        words = " ".join(str(anchor.text_content()).split())
        href = anchor.get("href")
        if href and 3 <= len(words) <= 200:
            yield words, href


ALONE = 4  # words that say something, from which on a heading is understood without its document's title


def title_of(text: SourceText) -> QuestionCandidate | Drop:
    title = tidy_text(text.title)
    if not title:
        return Drop("title", "the document has none")
    reason = flaw(title) or ("generic" if is_generic(title) else None)
    if reason is None and len(content_words(title)) < 2:
        reason = "a single word"
    if reason:
        return Drop("title", reason)
    return _asked("title", title, text, *text.lead)


def headings_of(text: SourceText) -> Iterator[QuestionCandidate | Drop]:
    title = tidy_text(text.title)
    for section in text.sections:
        heading = tidy_text(section.heading)
        if not heading or is_generic(heading):
            yield Drop("heading", "generic")
            continue
        if heading == title:
            continue  # which is asked as the title
        short = len(content_words(heading)) < ALONE
        if short and (not title or is_generic(title)):
            yield Drop("heading", "too short to be understood, and its document has no title")
            continue
        question = f"{title}: {heading}" if short else heading
        if reason := flaw(question):
            yield Drop("heading", reason)
        else:
            yield _asked("heading", question, text, section.start, section.end)


def _asked(kind: str, question: str, text: SourceText, start: int, end: int) -> QuestionCandidate | Drop:
    if text.language is None:
        return Drop(kind, "neither English nor German")
    quote = opening(text.text, start, end)
    if quote is None:
        return Drop(kind, "next to no text below it")
    evidence = (Quote(text.doc_id, text.source, text.url, quote),)
    return QuestionCandidate(kind, question, text.language, evidence)


_OF_DOCUMENT: Mapping[str, Callable[[SourceText], Iterable[QuestionCandidate | Drop]]] = {
    "titles": lambda text: [title_of(text)],
    "headings": headings_of,
    "definitions": definitions_of,
    "dates": dates_of,
}
KINDS = (*_OF_DOCUMENT, "links")
TITLES = 10_000  # that are compared with each other
MANY = 3  # documents: what stands in more of them tells none apart

Texts = Callable[[], Iterable[SourceText]]
"""Reads the documents from the start each time that it is called."""


def draw_candidates(
    texts: Texts, kinds: Sequence[str], size: int, seed: int, tally: Tally, home: Home | None = None
) -> dict[str, list[QuestionCandidate]]:
    targets = Targets()
    if "links" in kinds:
        for text in texts():
            targets.add(text)
    samples: dict[str, Sample[QuestionCandidate]] = {
        kind: Sample(TITLES if kind == "titles" else size, seed) for kind in KINDS if kind in kinds
    }
    for number, text in enumerate(texts()):
        for kind, sample in samples.items():
            read = _OF_DOCUMENT.get(kind)
            links = links_of(text, targets, home if number < PAGES else None)
            for found in read(text) if read else links:
                if isinstance(found, Drop):
                    tally.drop(found)
                else:
                    sample.add(normalize(found.question), found)
    return {kind: list(_merged(sample, tally)) for kind, sample in samples.items()}


def _merged(sample: Sample[QuestionCandidate], tally: Tally) -> Iterator[QuestionCandidate]:
    for one in sample.drawn():
        first = one.things[0]
        joined = first.with_evidence_of(one.things)
        if len({quote.doc_id for quote in joined.evidence}) > MANY:
            tally.drop(Drop(first.kind, f"the same words in more than {MANY} documents"), one.count)
        else:
            yield joined
