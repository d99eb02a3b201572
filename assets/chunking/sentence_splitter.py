"""Splits text into sentences, with the abbreviations of German and English."""

from __future__ import annotations

import re
from collections.abc import Iterator


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


ABBREVIATIONS = word_set("""
    abk abl allg aufl bd begr bes betr bgbl bspw bzgl bzw ca chr dgl dipl dr ebd ehem eigtl einschl engl
    entspr evtl exkl fa frz geb gegr ggf ggü gem gez hrsg inkl insb insbes jh jhdt jr kath lfd ltd med mio mrd
    mtl nachm prof sog
    st std str tel ugs verf vgl vors vorm zit zzgl
    al approx appt assn ave capt cf col corp dept esq est excl gov hon inc incl lt messrs mr mrs ms mt pres
    regs rev sen sgt sr univ viz vs
    jan feb mär apr jun jul aug sep sept okt oct nov dez dec
""")
"""Words that a dot follows inside a sentence; those that are plain words too ("red", "mind") are left out."""

BEFORE_NUMBER = word_set("""
    abb abs abschn anh anm art arts az ch eq eqs fig figs kap no nos nr nrn op p par para paras pp ref refs rn
    s sec secs sect vol vols ziff
""")
"""Words that a dot follows within a sentence when a number comes next: "Art. 5", "No. 3"."""

STARTERS = word_set("""
    A An And At But For He Her His I If In It Its On She Some That The Their There These They This Those We
    What When You Das Der Die Diese Er Es Ihr Sie Wir
""")
"""Words that begin a sentence, and hardly ever stand with a capital after an abbreviation within one."""

COMPANIES = word_set("KG KGaA OHG GmbH Ltd Inc LLC")
"""Words that come after "Co." in the name of a company."""

MONTHS = word_set("""
    januar jänner februar märz april mai juni juli august september oktober november dezember
    january february march may june july october december
    jan feb mär mar apr jun jul aug sep sept okt oct nov dez dec
""")

BEFORE_ORDINAL = word_set("""
    ab am an auf bis das dem den der des deren die diesem dieser im in jede jedem jeden jeder jedes nach seit
    seinem seinen seiner ihrem ihren ihrer unserem unserer und vom von vor zum zur
""")

_END = (
    # Chinese and Japanese write no space after an end mark; Arabic, Hindi and others have marks of their own.
    r"(?<![.!?…])[.!?…]+[\"'”“’‘»«›‹)\]]*(?=\s)|[。！？｡]+[\"'”’»›)\]」』】）]*|[؟۔।॥။]+[\"'”’»›)\]]*(?=\s)"
)
_BREAK = r"\n\s*\n|(?<=[.!?:;])\s*\n\s*|\n\s*(?=(?:[-–•*·]|\(?\w{1,3}\)|\d{1,3}\.)\s)"
_OPENING = "\"'„“‚‘»«›‹([–—-"
_CLOSING = "\"'”“’‘»«›‹)]"
# Matched with each sentence; `re` compiles the longer patterns above at their first use.
_LEAD = re.compile(rf"\s*[{re.escape(_OPENING)}]*\s*")
_WORD = re.compile(r"\w+")
_DOTTED = re.compile(r"(?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,2}")
_STREET = re.compile(r"\w+str")
_LOOK = 400  # characters around an end mark that decide whether it ends the sentence


def sentences(text: str) -> list[str]:
    """Split a text into sentences, with white space inside them collapsed. Blank lines, list items, and
    lines after an end mark or colon begin a new sentence. Thai has no end marks.

    >>> sentences("Laut Art. 5 gilt das ab dem 3. Mai 2024. Dr. Meier sagte: „Gut!“ und ging.")
    ['Laut Art. 5 gilt das ab dem 3. Mai 2024.', 'Dr. Meier sagte: „Gut!“ und ging.']
    """
    plain = (" ".join(text[start:end].split()) for start, end in _spans(text))
    return [sentence for sentence in plain if _WORD.search(sentence)]


def sentence_places(text: str) -> list[tuple[int, int]]:
    """Return (start, end) of each sentence of `sentences`; wordless stretches belong to the sentence before
    them.

    >>> sentence_places("Gut! *** Ja.")
    [(0, 4), (5, 12)]
    """
    places: list[tuple[int, int]] = []
    wordless = True  # so far
    for begin, stop in _spans(text):
        part = text[begin:stop]
        bare = part.strip()
        if not bare:
            continue
        start = begin + len(part) - len(part.lstrip())
        has_word = _WORD.search(bare) is not None
        if places and (wordless or not has_word):
            places[-1] = (places[-1][0], start + len(bare))
        else:
            places.append((start, start + len(bare)))
        wordless = wordless and not has_word
    return places


def _spans(text: str) -> Iterator[tuple[int, int]]:
    begin = 0
    for match in re.finditer(_BREAK, text):
        yield from _in_block(text, begin, match.start())
        begin = match.end()
    yield from _in_block(text, begin, len(text))


def _in_block(text: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    block = text[start:stop]
    begin = 0
    for match in re.finditer(_END, block):
        before = block[max(begin, match.start() - _LOOK) : match.start()]
        lead = _LEAD.match(block, match.end())
        following = lead.end() if lead else match.end()
        if _is_end(before, match.group(), block[following : following + _LOOK]):
            yield start + begin, start + match.end()
            begin = match.end()
    yield start + begin, stop


def _is_end(before: str, mark: str, following: str) -> bool:
    if following[:1].islower():
        return False
    return not mark.startswith(".") or len(mark.rstrip(_CLOSING)) > 1 or _is_full_stop(before, following)


def _is_full_stop(before: str, following: str) -> bool:
    words = before.rsplit(maxsplit=2)
    last = words[-1].lstrip(_OPENING) if words else ""
    if re.fullmatch(r"\d{1,2}", last):
        return not _is_ordinal([word.lower() for word in words[:-1]], following)
    if re.fullmatch(r"[^\W\d_]", last):
        return False  # an initial: "J."
    if _DOTTED.fullmatch(last):
        # "z.B." and "e.g." stand within a sentence; "U.S.", "Ph.D." and "p.m." may end one.
        may_end = ((last[0] + last[-1]).isupper() and last != "Z.B") or last in {"a.m", "p.m"}
        return may_end and _first_word(following) in STARTERS
    if last == "Co":
        return _first_word(following) not in COMPANIES
    if last.lower() in BEFORE_NUMBER or _STREET.fullmatch(last):
        return not following[:1].isdigit()
    return last.lower() not in ABBREVIATIONS


def _first_word(text: str) -> str:
    found = _WORD.match(text)
    return found.group() if found else ""


def _is_ordinal(previous: list[str], following: str) -> bool:
    next_word = _first_word(following).lower()
    if not previous or next_word in MONTHS or next_word.isdigit():
        return True
    return previous[-1] in BEFORE_ORDINAL
