"""Metadata of an act: CELEX number, title, dates, form, language, authors."""

from __future__ import annotations

import re
from datetime import date
from itertools import islice
from typing import Any

from rag_assay.assets.cleaning.draft import DocumentDraft
from rag_assay.assets.cleaning.eurlex.act_lines import classes_of, collapse_whitespace
from rag_assay.assets.cleaning.eurlex.act_structure import Act
from rag_assay.assets.cleaning.page_facts import first_tag
from rag_assay.assets.cleaning.tree import Element
from rag_assay.assets.cleaning.written_dates import written_date
from rag_assay.warehouse.eurlex_notice import celex_in
from rag_assay.warehouse.iso_dates import iso_day, texts_in

_REFERENCE = re.compile(
    r"(?<!\w)0?(\d{4}[A-Z]{1,2}\d{4})\s*[—–-]+\s*([A-Z]{2})\s*[—–-]+\s*(\d{2})\.(\d{2})\.(\d{4})"
)
_NUMERIC = re.compile(r"\b(\d{1,2})[./](\d{1,2})[./](\d{4})\b")
_FORMS = (  # what a title calls it, the letter of its CELEX number
    ("Directive", "L", r"directive|richtlinie"),
    ("Framework Decision", "F", r"framework decision|rahmenbeschluss"),
    ("Joint Action", "F", r"joint action|gemeinsame ma(?:ß|ss|ẞ)nahme"),
    ("Regulation", "R", r"regulation|verordnung"),
    ("Decision", "D", r"decision|entscheidung|beschluss"),
    ("Recommendation", "H", r"recommendation|empfehlung"),
)
_FORM = re.compile(
    r"\W*(?:commission\s+|council\s+)?(implementing|delegated|framework)\s+(regulation|directive|decision)|(durchführungs|delegierte\s+)(verordnung|richtlinie|beschluss)",
    re.I,
)
_NEW_NUMBER = re.compile(r"\b((?:19|20)\d{2})/(\d{1,4})\b")  # Directive 2009/73/EC, Regulation (EU) 2018/1999
_OLD_NUMBER = re.compile(r"\b(?:No|Nr\.?|n°)\s*(\d{1,4})/((?:19|20)?\d{2})\b")  # Regulation (EC) No 715/2009
_SHORT_NUMBER = re.compile(r"\b(\d{2})/(\d{1,4})/[A-Z]+")  # Directive 92/13/EEC
_PROPOSAL = re.compile(r"\bCOM\((\d{4})\)\s*(\d{1,4})\s*final")
_COMMON = {"en": r"\b(?:the|of|and|to|in|shall)\b", "de": r"\b(?:der|die|und|den|von|des|zu|ist)\b"}
_SHOWN_TITLE = ("englishTitle", "title", "translatedTitle")
_HEAD = frozenset({"hd-date", "hd-lg", "Emission"})
_HEAD_PARAGRAPHS = 500  # among which the head must be; menus of the site stand before it
_EEA = re.compile(r"\s*\(?Text with EEA relevance\.?\)?|\s*\(?Text von Bedeutung für den EWR\)?", re.I)
_BODIES = (
    (
        r"european parliament and of the council|europäischen parlaments und des rates",
        ("European Parliament", "Council of the European Union"),
    ),
    (r"^(?:commission|.{0,20}kommission)\b|^\S+ \S+ der kommission", ("European Commission",)),
    (r"^(?:\w+ )?council\b|\bdes rates vom|vom rat aufgrund", ("Council of the European Union",)),
)


def draft_of(root: Element, named: dict[str, Element], url: str, act: Act) -> DocumentDraft:
    journal = _journal(root)
    tags = _meta(root)
    head = collapse_whitespace(" ".join(root.xpath("string(.)")[:4000].split()))
    reference = _REFERENCE.search(head[:2000])
    title = _title(named, tags, act)
    celex, celex_source = _celex(url, tags, reference, root, title, head)
    version = _version(celex, reference)
    document, source, reason = _document_date(tags, f"{act.title} {journal.get('Emission', '')}", title)
    published, published_source = _published(journal, tags, version, document, source)
    marks = root.xpath(
        "//p[contains(@class, 'arrow')]//*[@title][starts-with(normalize-space(.), '►M')]/@title"
    )
    metadata: dict[str, Any] = {
        "celex": celex,
        "celex_source": celex_source,
        "document_date": document,
        "document_date_source": source,
        "date_source": published_source,
        "version_date": version,
        "form": _form(title, celex),
        "consolidated": version is not None,
        "amended_by": list(dict.fromkeys(filter(None, map(celex_in, marks)))),
    }
    metadata = {name: value for name, value in metadata.items() if value not in (None, [], False)}
    if celex is None:
        metadata["celex_reason"] = "neither URL, meta tags, head nor title give a CELEX number"
    if reason:
        metadata["date_reason"] = reason
    return DocumentDraft(
        text=act.text,
        title=title,
        published_at=published,
        language=_language(root, journal, tags, reference, url, act),
        authors=_authors(title),
        keywords=tuple(dict.fromkeys(texts_in([text.split(",") for text in tags.get("dc.subject", [])]))),
        sections=act.sections,
        metadata={**metadata, "structure": list(act.structure), **act.remarks},
        repaired=True,
    )


# ------------------------------------------------------------------------------------------- sources


def _meta(root: Element) -> dict[str, list[str]]:
    tags: dict[str, list[str]] = {}
    for tag in root.iter("meta"):
        name = tag.get("name") or tag.get("property")
        content = collapse_whitespace(tag.get("content") or "")
        if name and content and not (tag.get("about") or "").startswith("/"):  # said of another act
            tags.setdefault(name.lower(), []).append(content)
    return tags


def _journal(root: Element) -> dict[str, str]:
    found: dict[str, str] = {}
    for paragraph in islice(root.iter("p"), _HEAD_PARAGRAPHS):
        for name in classes_of(paragraph) & _HEAD:
            found.setdefault(name, collapse_whitespace("".join(paragraph.itertext())))
    return found


def _text_of(root: Element, path: str) -> str | None:
    found = root.find(path)
    return collapse_whitespace("".join(found.itertext())) if found is not None else None


# ------------------------------------------------------------------------------------------- title and number


def _title(named: dict[str, Element], tags: dict[str, list[str]], act: Act) -> str | None:
    shown = (
        first_tag(tags, "wt.z_doctitle"),
        next((text for text in tags.get("dc.title", []) if not celex_in(text)), None),
        *(collapse_whitespace("".join(named[name].itertext())) for name in _SHOWN_TITLE if name in named),
        first_tag(tags, "dc.description"),
        act.title,
        first_tag(tags, "eli:title"),
    )
    for text in shown:
        if text and len(text) > 12:
            return _EEA.sub("", re.sub(r"<[^>]*>", "", text)).strip(" ,") or None
    return None


def _celex(
    url: str,
    tags: dict[str, list[str]],
    reference: re.Match[str] | None,
    root: Element,
    title: str | None,
    head: str,
) -> tuple[str | None, str | None]:
    named = " ".join(
        first_tag(tags, name) or "" for name in ("wt.z_docid", "eli:id_local", "dc.identifier", "dc.title")
    )
    consolidated = f"0{reference[1]}-{reference[5]}{reference[4]}{reference[3]}" if reference else None
    sources = (
        ("url", celex_in(url)),
        ("meta", celex_in(named)),
        ("head", consolidated or celex_in(_text_of(root, ".//title") or "")),
        ("title", number_of(title or "") or _proposal(head)),
    )
    return next(((value, source) for source, value in sources if value), (None, None))


def _proposal(head: str) -> str | None:
    found = _PROPOSAL.search(head)
    return f"5{found[1]}PC{int(found[2]):04d}" if found else None


def number_of(title: str) -> str | None:
    """Return the CELEX number that follows from an act's title, or None.

    >>> number_of("Regulation (EC) No 715/2009 of the European Parliament and of the Council")
    '32009R0715'
    >>> number_of("Council Directive 92/13/EEC of 25 February 1992"), number_of("Directive (EU) 2018/2001")
    ('31992L0013', '32018L2001')
    """
    head = title[:160]
    form = _named_form(head)
    if form is None:
        return None
    if found := _OLD_NUMBER.search(head):
        return f"3{_year(found[2])}{form[1]}{int(found[1]):04d}"
    found = _NEW_NUMBER.search(head) or _SHORT_NUMBER.search(head)
    return f"3{_year(found[1])}{form[1]}{int(found[2]):04d}" if found else None


def _named_form(head: str) -> tuple[str, str] | None:
    places = [
        (found.start(), name, letter)
        for name, letter, words in _FORMS
        if (found := re.search(words, head, re.I))
    ]
    return min(places)[1:] if places else None


def _year(text: str) -> int:
    return int(text) if len(text) == 4 else 1900 + int(text)


def _form(title: str | None, celex: str | None) -> str | None:
    found = _FORM.match(re.sub(r"^consolidated text:\s*", "", title or "", flags=re.I))
    if found and found[1]:
        return f"{found[1].title()} {found[2].title()}"
    if found:
        kinds = {"verordnung": "Regulation", "richtlinie": "Directive", "beschluss": "Decision"}
        how = "Implementing" if found[3].lower().startswith("durch") else "Delegated"
        return f"{how} {kinds[found[4].lower()]}"
    number = re.match(r"[0-9CE]\d{4}([A-Z]{1,2})", celex or "")
    if number and number[1] == "PC":
        return "Proposal"
    named = _named_form((title or "")[:160])
    by_letter = next((name for name, letter, _ in _FORMS if number and number[1] == letter), None)
    return named[0] if named else by_letter


# ------------------------------------------------------------------------------------------- dates


def _iso(text: str | None) -> str | None:
    if not text:
        return None
    try:
        return date.fromisoformat(text[:10]).isoformat()
    except ValueError:
        found = _NUMERIC.search(text)
        return iso_day(found[3], found[2], found[1]) if found else None


def _version(celex: str | None, reference: re.Match[str] | None) -> str | None:
    if reference:
        return iso_day(reference[5], reference[4], reference[3])
    found = re.search(r"^0.*-(\d{4})(\d{2})(\d{2})$", celex or "")
    return iso_day(found[1], found[2], found[3]) if found else None


def _document_date(
    tags: dict[str, list[str]], shown: str, title: str | None
) -> tuple[str | None, str, str | None]:
    if day := _iso(first_tag(tags, "eli:date_document", "wt.z_docdate", "dc.date")):
        return day, "meta", None
    if day := written_date(shown[:600]) or written_date((title or "")[:600]) or _iso(shown[:600]):
        return day, "text", None
    return None, "none", "neither meta tags nor the title give a date"


def _published(
    journal: dict[str, str],
    tags: dict[str, list[str]],
    version: str | None,
    document: str | None,
    source: str,
) -> tuple[str | None, str]:
    candidates = (
        (version, "version"),
        (_iso(first_tag(tags, "eli:date_publication")), "meta"),
        (_iso(journal.get("hd-date")), "journal"),
        (_iso(first_tag(tags, "dc.source")), "journal"),
    )
    return next(((day, where) for day, where in candidates if day), (document, source))


# ------------------------------------------------------------------------------------------- the rest


def _language(
    root: Element,
    journal: dict[str, str],
    tags: dict[str, list[str]],
    reference: re.Match[str] | None,
    url: str,
    act: Act,
) -> str | None:
    in_url = re.search(r"/legal-content/([A-Z]{2})/", url)
    shown = (
        first_tag(tags, "dc.language"),
        journal.get("hd-lg"),
        reference[2] if reference else None,
        in_url[1] if in_url else None,
        root.get("lang"),
    )
    code = next((text for text in shown if text and re.fullmatch(r"[A-Za-z]{2}(?:-\w+)?", text)), None)
    return code[:2].lower() if code else _guessed(act.text[:5000])


def _guessed(text: str) -> str | None:
    counts = {code: len(re.findall(words, text)) for code, words in _COMMON.items()}
    best = max(counts, key=counts.__getitem__)
    return best if counts[best] > 10 and counts[best] > 3 * min(counts.values()) else None


def _authors(title: str | None) -> tuple[str, ...]:
    head = (title or "")[:200]
    return next((names for words, names in _BODIES if re.search(words, head, re.I)), ())
