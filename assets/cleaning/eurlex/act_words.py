"""The words by which acts name their parts, by language."""

from __future__ import annotations

import re

DIVISIONS = ("part", "title", "chapter", "section", "subsection")

_DIVISION_WORDS = {
    "part": "part teil partie parte deel",
    "title": "title titel titre titolo título titulo",
    "chapter": "chapter kapitel chapitre capo capitolo capítulo hoofdstuk",
    "section": "section abschnitt sezione sección secção afdeling",
    "subsection": "subsection sub-section unterabschnitt sous-section sottosezione subsección",
}
_KIND_OF = {word: kind for kind, names in _DIVISION_WORDS.items() for word in names.split()}
_NUMBER = r"(?:[IVXLC]+[a-z]?|\d{1,3}[a-z]?|[A-Z])"
_DIVISION = re.compile(
    rf"(?P<word>{'|'.join(sorted(_KIND_OF, key=len, reverse=True))})\s+(?P<number>{_NUMBER})(?![\w(])"
    r"\s*[-–—:.]?\s*(?P<rest>.*)",
    re.I,
)
_FIRST = re.compile(r"erster|zweiter|dritter|premier|première", re.I)
_LATIN = "bis|ter|quater|quinquies|sexies|septies|octies|novies|nonies|decies"
_ARTICLE = re.compile(
    r"(?:Article|Artikel|Artículo|Articolo|Artigo|ARTICLE|ARTIKEL|ARTÍCULO|ARTICOLO|ARTIGO|Άρθρο|Art\.)\s+"
    rf"(\d{{1,3}}(?:er|[º°])?[\s-]?(?:{_LATIN}|[a-z]{{1,3}}|[A-Z])?|premier|[IVXLC]+)\.?"
    rf"|(\d{{1,3}}\s?[a-z]?)\sartikla"
)
_SPARE = re.compile(r"(?<=\d)(?:er\b|[º°])|[\s-]")  # in "1er", "2 bis", "2-bis"
_SOLE = re.compile(
    r"(?:Sole|Single|Only|Einziger|Enig|Eneste|Enda) Arti(?:cle|kel)|Article unique|Enig artikel"
    r"|Artículo único|Articolo unico|Artigo único",
    re.I,
)
_ANNEX = re.compile(
    rf"(?:ANNEX|ANHANG|ANNEXE|ALLEGATO|ANEXO|BIJLAGE|Annex|Anhang|Annexe)(?:\s+({_NUMBER}(?:\s?[A-Z])?)(?!\w))?(?![a-z])(?:\s?\(\d+\))?\s*(.*)"
)
_APPENDIX = re.compile(
    rf"(?:Appendix|Anlage|Appendice|Apéndice|Apêndice|Aanhangsel|Tillæg|Tillägg)(?:\s+{_NUMBER})?(?![\w'’])",
    re.I,
)
_MARKED_NUMBER = re.compile(
    rf"(\d{{1,3}})(?:er\b|[º°])?[\s-]?\(?((?:{_LATIN}|[a-z]{{1,3}})?)\)?(?![\w/])", re.I
)
_PREAMBLE = re.compile(
    r"(?:THE|DER|DIE|DAS|LE|LA|LES|L['’]|EL|IL|DE|HET|O)\s+[^a-z]{4,}$"
    r"|(?:The|Der|Die|Das|Le|La|Il)\s(?:Council|Commission|European Parliament|Rat|Kommission|Conseil"
    r"|Parlement|Consiglio|Commissione)\b[^.;:]*[,–—-]$"
    r"|Having regard|gestützt auf|auf Vorschlag|vu le|visto|Whereas|in Erwägung|HAS ADOPTED|HAVE ADOPTED"
)
_FINAL = re.compile(r"(?:Done at|Geschehen zu|Fait à|Fatto a|Hecho en|Brüssel, den|Gedaan te)\s")
_NOTE = re.compile(r"\(\*?\d{1,3}\)\s?(?=\S)")
_NAMES = {
    "en": {"preamble": "Preamble", "recital": "Recital", "final": "Concluding formula", "notes": "Footnotes"},
    "de": {
        "preamble": "Präambel",
        "recital": "Erwägungsgrund",
        "final": "Schlussformel",
        "notes": "Fußnoten",
    },
}
_GERMAN = re.compile(r"\b(?:der|des|vom|zur|und|über|für|RAT|RATES|VERORDNUNG|RICHTLINIE|BESCHLUSS)\b")


def name(kind: str, language: str) -> str:
    return _NAMES.get(language, _NAMES["en"])[kind]


def language_of(text: str) -> str:
    return "de" if len(_GERMAN.findall(text)) > 1 else "en"


def article(text: str) -> str | None:
    """Return the number of an article's title that stands in a line of its own, or None.

    >>> article("Article 7a"), article("Article 2(1) shall apply."), article("Artikel 12")
    ('7a', None, '12')
    """
    if _SOLE.fullmatch(text):
        return "1"
    found = _ARTICLE.fullmatch(text)
    return _joined(found[1] or found[2]) if found else None


def begins_with_article(text: str) -> bool:
    """Return whether a line begins with the name of an article, whatever follows.

    >>> begins_with_article("Article 87 - EEC Treaty"), begins_with_article("In Article 87")
    (True, False)
    """
    return bool(_ARTICLE.match(text))


def marked_number(text: str) -> str | None:
    """Return the number in a line that markup calls an article's title; its language does not matter.

    >>> marked_number("Article 10 b"), marked_number("5. cikk"), marked_number("Article premier")
    ('10b', '5', '1')
    """
    found = _MARKED_NUMBER.search(text)
    if found:
        return found[1] + found[2].lower()
    if article(text):
        return article(text)
    return "1" if _FIRST.search(text) else None


def _joined(number: str) -> str:
    return "1" if number == "premier" else _SPARE.sub("", number) if number[0].isdigit() else number


def leading(number: str) -> int:
    """Return the number without its letters; 0 where there is none.

    >>> leading("28c")
    28
    """
    found = re.match(r"\d+", number)
    return int(found[0]) if found else 0


def division(text: str) -> tuple[str, str, str] | None:
    """Return kind, number and the rest of a line that begins a part, title, chapter or section, or None.

    >>> division("TITLE II SCOPE")
    ('title', 'II', 'SCOPE')
    >>> division("Section 4 of Annex I applies.") is None
    True
    """
    found = _DIVISION.fullmatch(text)
    if not found or len(text) > 250:
        return None
    rest = found["rest"]
    if rest and (not rest[0].isupper() or rest[-1] in ".;,"):
        return None
    if not rest and text[-1] in ",;":
        return None
    return _KIND_OF[found["word"].lower()], found["number"], rest


def annex(text: str) -> tuple[str | None, str] | None:
    """Return number and heading of a line that begins an annex, or None.

    >>> annex("ANNEX IIb"), annex("ANNEX A LIST OF ACTIVITIES"), annex("Annex I is replaced")
    (('IIb', ''), ('A', 'LIST OF ACTIVITIES'), None)
    """
    found = _ANNEX.fullmatch(text)
    if not found or len(text) > 250:
        return None
    number, rest = found[1], found[2]
    if rest and (rest[0].islower() or rest[-1] in ".;,"):
        return None
    return number, rest


def is_structure(text: str) -> bool:
    return bool(article(text) or division(text) or annex(text))


def is_part(text: str) -> bool:
    """Return whether a line names a part of an annex.

    >>> is_part("Appendix 2"), is_part("Teil B"), is_part("Partial loads")
    (True, True, False)
    """
    return bool(_APPENDIX.match(text)) or division(text) is not None


def begins_preamble(text: str) -> bool:
    return bool(_PREAMBLE.match(text))


def is_final(text: str) -> bool:
    return bool(_FINAL.match(text))


def is_note(text: str) -> bool:
    return bool(_NOTE.match(text))
