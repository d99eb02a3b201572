"""Acts of EUR-Lex: fragments of each markup, written for these tests; real acts where the data is there."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from benchmarks.cleaning import measure_acts, numbering_faults, own_articles
from rag_assay.assets.cleaning.draft import DocumentDraft, UnusablePage
from rag_assay.assets.cleaning.eurlex.cleaner import clean_eurlex, is_eurlex

REPOSITORY = Path(__file__).resolve().parents[4]
DATA = REPOSITORY.parent / "shared" / "data"
SITE = REPOSITORY / "crawlers" / "sample_site" / "energy" / "pages"

MODERN = """<html><head><title>L_2020001EN.01000101.xml</title></head><body>
<table><tr><td><p class="oj-hd-date">3.2.2020</p></td><td><p class="oj-hd-lg">EN</p></td>
<td><p class="oj-hd-ti">Official Journal</p></td><td><p class="oj-hd-oj">L 1/1</p></td></tr></table>
<div class="eli-container"><div class="eli-main-title" id="tit_1">
<p class="oj-doc-ti">COUNCIL REGULATION (EU) 2020/12</p><p class="oj-doc-ti">of 20 January 2020</p>
<p class="oj-doc-ti">on lamps</p><p class="oj-doc-ti">(Text with EEA relevance)</p></div>
<div class="eli-subdivision" id="pbl_1"><p class="oj-normal">THE COUNCIL OF THE EUROPEAN UNION,</p>
<div class="eli-subdivision" id="rct_1"><table><tr><td><p class="oj-normal">(1)</p></td>
<td><p class="oj-normal">Lamps give light.</p></td></tr></table></div>
<div class="eli-subdivision" id="rct_2"><table><tr><td><p class="oj-normal">(2)</p></td>
<td><p class="oj-normal">Some emit more CO<span class="oj-sub">2</span> than others.</p></td></tr></table></div>
<p class="oj-normal">HAS ADOPTED THIS REGULATION:</p></div>
<div class="eli-subdivision" id="enc_1"><div id="cpt_I"><p class="oj-ti-section-1">CHAPTER I</p>
<div class="eli-title"><p class="oj-ti-section-2">GENERAL</p></div>
<div class="eli-subdivision" id="art_1"><p class="oj-ti-art">Article 1</p>
<div class="eli-title"><p class="oj-sti-art">Scope</p></div><p class="oj-normal">This covers:</p>
<table><tr><td><p class="oj-normal">(a)</p></td><td><p class="oj-normal">lamps;</p>
<table><tr><td><p class="oj-normal">(i)</p></td><td><p class="oj-normal">old ones.</p></td></tr></table></td></tr></table></div>
<div class="eli-subdivision" id="art_2"><p class="oj-ti-art">Article 2</p>
<p class="oj-normal">Regulation (EU) 2010/1 is amended as follows:</p>
<table><tr><td><p class="oj-normal">(1)</p></td><td><p class="oj-normal">the following is inserted:</p>
<div><p class="oj-ti-art">‘Article 7a</p><p class="oj-sti-art">Quoted</p><p class="oj-normal">Light is free.’</p></div></td></tr></table>
</div></div></div>
<div class="eli-subdivision" id="fnp_1"><div class="oj-final"><p class="oj-normal">Done at Brussels, 20 January 2020.</p></div></div>
<p class="oj-note">(1) OJ L 9, 1.1.2019, p. 1.</p></div>
<div class="eli-container" id="anx_I"><p class="oj-doc-ti">ANNEX I</p><p class="oj-ti-grseq-1">VALUES</p>
<table class="oj-table"><tr class="oj-table"><td class="oj-table"><p class="oj-tbl-hdr">Lamp</p></td>
<td class="oj-table"><p class="oj-tbl-hdr">Watt</p></td></tr>
<tr class="oj-table"><td class="oj-table"><p class="oj-tbl-txt">LED</p></td><td class="oj-table"><p class="oj-tbl-txt">0,4</p></td></tr>
</table></div></body></html>"""  # noqa: E501 -- as pages have it

CONSOLIDATED = """<html><head><title>Consolidated TEXT: 32011L0005 — EN — 02.03.2018</title></head><body>
<p class="reference">02011L0005 — EN — 02.03.2018 — 001.001</p><p class="disclaimer">This text is meant purely as a tool</p>
<table><tr><td><p class="arrow"><a title="32011L0005">►B</a></p></td><td><p class="title-doc-first">DIRECTIVE 2011/5/EU</p></td></tr></table>
<p class="hd-modifiers">Amended by:</p>
<table><tr><td><p class="arrow"><a title="32017L0009">►M1</a></p></td><td><p class="title-fam-member-star">DIRECTIVE 2017/9</p></td></tr></table>
<p class="title-doc-first">DIRECTIVE 2011/5/EU</p><p class="title-doc-first">of 4 May 2011</p><p class="title-doc-last">on wind</p>
<p class="title-division-1">CHAPTER I</p><p class="title-division-2">BASICS</p>
<p class="title-article-norm">Article 1</p><p class="stitle-article-norm">Aim</p>
<div class="norm"><span class="no-parag">1.  </span><div class="norm inline-element">Wind ►M1 shall ◄ blow.</div></div>
<div class="grid-container grid-list"><div class="list grid-list-column-1"><span>(a) </span></div>
<div class="grid-list-column-2"><p class="norm">gently;</p></div></div>
<p class="modref"><a title="32017L0009: DELETED">▼M1</a> —————</p>
<p class="title-article-norm">Article 3</p><p class="stitle-article-norm">Mills</p><p class="norm">Mills turn.</p>
<p class="title-article-norm">Article 3a</p><p class="stitle-article-norm">Inserted</p><p class="norm">They stop.</p>
<p class="title-annex-1">ANNEX II</p><p class="title-annex-2">Towers</p><p class="norm">None.</p>
<p class="footnote">( 1 ) OJ L 1.</p></body></html>"""  # noqa: E501 -- as pages have it

OLDER = """<html><body><p class="doc-ti">DIRECTIVE 94/3/EC</p><p class="doc-ti">of 9 June 1994</p>
<p class="normal">THE COUNCIL OF THE EUROPEAN UNION,</p><p class="normal">Whereas:</p>
<p class="normal">(1) Water flows.</p><p class="ti-section-1">TITLE I</p><p class="ti-section-2">Water</p>
<p class="ti-art">Article 1</p><p class="sti-art">Flow</p><p class="normal">It shall flow.</p>
<p class="ti-art">Article 2</p><p class="normal">It shall stop.</p></body></html>"""

PLAIN = """<html lang="DE"><head><meta name="DC.language" content="DE">
<meta name="DC.description" content="2003/7/JI: Rahmenbeschluss des Rates vom 3. März 2003 über Mühlen">
<meta name="DC.source" content="Amtsblatt Nr. L 60 vom 05/03/2003 S. 0001">
<meta name="DC.identifier" content="http://x.example/?uri=CELEX:32003F0007:DE:HTML"></head><body>
<div id="banner">Avis juridique important</div><div id="TexteOnly"><p><TXT_TE><p>Rahmenbeschluss des Rates</p>
<p>vom 3. März 2003</p><p>über Mühlen</p><p></p><p>DER RAT DER EUROPÄISCHEN UNION -</p>
<p>in Erwägung nachstehender Gründe:</p><p>(1) Mühlen mahlen.</p><p>(2) Manche stehen still.</p>
<p>HAT FOLGENDEN RAHMENBESCHLUSS ERLASSEN:</p><p>KAPITEL I</p><p>ALLGEMEINES</p><p>Artikel 1</p><p>Begriffe</p>
<p>(1) Eine Mühle mahlt.</p><p>Artikel 2</p><p>Die Mitgliedstaaten mahlen.</p><p>Artikel 2 gilt auch für Windmühlen.</p>
<p>Geschehen zu Brüssel am 3. März 2003.</p><p>(1) ABl. C 1 vom 1.1.2002, S. 1.</p>
<p>ANHANG</p><p>Liste der Mühlen</p><p>Mühle A</p></TXT_TE></p></div></body></html>"""  # noqa: E501 -- as pages have it


def clean(html: str, url: str = "") -> DocumentDraft:
    return clean_eurlex(html.encode(), "text/html; charset=utf-8", url)


def outline(draft: DocumentDraft) -> list[tuple[int, str, str | None]]:
    structure = draft.metadata["structure"]
    return [
        (s["level"], part["kind"], part["number"]) for s, part in zip(draft.sections, structure, strict=True)
    ]


def text_of(draft: DocumentDraft, heading: str) -> str:
    section = next(s for s in draft.sections if s["heading"] == heading)
    return draft.text[section["start"] : section["end"]]


def test_modern_markup_gives_recitals_chapters_articles_notes_and_annexes() -> None:
    draft = clean(MODERN)
    assert outline(draft) == [
        (1, "preamble", None), (2, "recital", "1"), (2, "recital", "2"), (1, "chapter", "I"),
        (2, "article", "1"),
        (2, "article", "2"), (1, "final", None), (1, "notes", None), (1, "annex", "I"),
    ]  # fmt: skip
    assert text_of(draft, "Article 1 – Scope") == "Article 1\nScope\nThis covers:\n(a) lamps;\n(i) old ones."
    assert text_of(draft, "Recital 2").startswith("(2) Some emit more CO2 than others.")


def test_an_article_that_an_amending_act_quotes_stays_text() -> None:
    draft = clean(MODERN)
    assert own_articles(draft) == ["1", "2"]
    assert "‘Article 7a\nQuoted\nLight is free.’" in text_of(draft, "Article 2")


def test_tables_are_rows_of_cells() -> None:
    assert text_of(clean(MODERN), "ANNEX I – VALUES") == "ANNEX I\nVALUES\nLamp | Watt\nLED | 0,4"


ANNEX_HEADINGS = [
    # classes and texts below "ANNEX I", then the sections that they give
    ([("oj-ti-grseq-1", "PART A"), ("oj-normal", "x")], ["ANNEX I", "PART A"]),
    ([("oj-ti-grseq-1", "1. Scope"), ("oj-normal", "x")], ["ANNEX I", "1. Scope"]),
    ([("oj-ti-grseq-1", "Appendix 1"), ("oj-normal", "x")], ["ANNEX I", "Appendix 1"]),
    (
        [("oj-doc-ti", "LAMPS"), ("oj-ti-grseq-1", "General"), ("oj-normal", "x")],
        ["ANNEX I – LAMPS", "General"],
    ),
    ([("oj-doc-ti", "LAMPS"), ("oj-doc-ti", "AND BULBS")], ["ANNEX I – LAMPS AND BULBS"]),
    (
        [("oj-ti-grseq-1", "LAMPS"), ("oj-ti-grseq-1", "(see Article 3)"), ("oj-ti-grseq-1", "A. Old")],
        ["ANNEX I – LAMPS (see Article 3)", "A. Old"],
    ),
    (
        [("oj-ti-grseq-1", "LAMPS"), ("oj-ti-grseq-1", "Part I"), ("oj-ti-grseq-1", "General")],
        ["ANNEX I – LAMPS", "Part I – General"],
    ),
    (
        [("oj-ti-grseq-1", "A LIST"), ("oj-ti-grseq-1", "1. Old"), ("oj-ti-grseq-1", "1.1. Dim")],
        ["ANNEX I – A LIST", "1. Old", "1.1. Dim"],
    ),
    ([("title-annex-2", "LAMPS"), ("title-gr-seq-level-1", "Dim")], ["ANNEX I – LAMPS", "Dim"]),
    ([("title-gr-seq-level-1", "Teil A")], ["ANNEX I", "Teil A"]),
]


@pytest.mark.parametrize(("below", "headings"), ANNEX_HEADINGS)
def test_the_heading_of_an_annex_takes_none_of_its_parts(
    below: list[tuple[str, str]], headings: list[str]
) -> None:
    kind = "title-annex-1" if below[0][0].startswith("title") else "oj-doc-ti"
    annex = "".join(f'<p class="{name}">{text}</p>' for name, text in [(kind, "ANNEX I"), *below])
    html = (
        CONSOLIDATED
        if kind == "title-annex-1"
        else MODERN[: MODERN.index('<div class="eli-container" id="anx')]
    )
    draft = clean(html.replace("</body></html>", "") + annex)
    annexes = [part.get("annex") == "I" or part["kind"] == "annex" for part in draft.metadata["structure"]]
    found = [s["heading"] for s, is_annex in zip(draft.sections, annexes, strict=True) if is_annex]
    assert [text for text in found if not text.startswith("ANNEX II")] == headings


def test_numbered_parts_of_one_class_nest_by_their_numbers() -> None:
    numbers = ["1. Old", "1.1. Dim", "1.1.1. Dark", "1.2. Bright", "2. New"]
    annex = "".join(f'<p class="oj-ti-grseq-1">{text}</p><p class="oj-normal">x</p>' for text in numbers)
    draft = clean(MODERN.replace('<p class="oj-ti-grseq-1">VALUES</p>', annex))
    assert [s["level"] for s in draft.sections][-5:] == [2, 3, 4, 3, 2]


def test_an_appendix_in_plain_markup_is_no_heading_of_its_annex() -> None:
    draft = clean(PLAIN.replace("Liste der Mühlen", "Anlage 1"))
    assert [s["heading"] for s in draft.sections][-1] == "ANHANG"


def test_facts_of_a_page_without_meta_tags_come_from_its_head_and_title() -> None:
    draft = clean(MODERN)
    assert draft.title == "COUNCIL REGULATION (EU) 2020/12 of 20 January 2020 on lamps"
    facts = draft.metadata
    assert (facts["celex"], facts["celex_source"], facts["form"]) == ("32020R0012", "title", "Regulation")
    assert (facts["document_date"], facts["document_date_source"]) == ("2020-01-20", "text")
    assert (draft.published_at, draft.language) == ("2020-02-03", "en")
    assert draft.authors == ("Council of the European Union",)


def test_the_url_names_the_celex_number_first() -> None:
    url = "https://eur-lex.example/legal-content/EN/TXT/?uri=CELEX%3A02020R0012-20210101"
    facts = clean(MODERN, url).metadata
    assert (facts["celex"], facts["celex_source"], facts["version_date"]) == (
        "02020R0012-20210101",
        "url",
        "2021-01-01",
    )


def test_a_consolidated_text_keeps_its_inserted_and_names_its_deleted_articles() -> None:
    draft = clean(CONSOLIDATED)
    assert own_articles(draft) == ["1", "3", "3a"]
    assert draft.metadata["deleted_articles"] == ["2"]
    assert numbering_faults(own_articles(draft), ["2"]) == []
    assert text_of(draft, "Article 1 – Aim") == "Article 1\nAim\n1. Wind shall blow.\n(a) gently;"
    assert text_of(draft, "ANNEX II – Towers") == "ANNEX II\nTowers\nNone."


def test_the_head_of_a_consolidated_text_is_facts_and_not_text() -> None:
    draft = clean(CONSOLIDATED)
    assert draft.text.startswith("DIRECTIVE 2011/5/EU\nof 4 May 2011\non wind\n\nCHAPTER I\nBASICS")
    facts = draft.metadata
    assert (facts["celex"], facts["amended_by"]) == ("02011L0005-20180302", ["32017L0009"])
    assert (facts["document_date"], draft.published_at, facts["consolidated"]) == (
        "2011-05-04",
        "2018-03-02",
        True,
    )


def test_the_older_class_names_are_read_too() -> None:
    draft = clean(OLDER)
    assert [part[1:] for part in outline(draft)] == [
        ("preamble", None), ("recital", "1"), ("title", "I"), ("article", "1"), ("article", "2"),
    ]  # fmt: skip
    assert draft.metadata["celex"] == "31994L0003"


def test_plain_markup_in_german_is_read_by_its_words() -> None:
    draft = clean(PLAIN)
    assert [part[1:] for part in outline(draft)] == [
        ("preamble", None), ("recital", "1"), ("recital", "2"), ("chapter", "I"), ("article", "1"),
        ("article", "2"),
        ("final", None), ("notes", None), ("annex", None),
    ]  # fmt: skip
    assert [s["heading"] for s in draft.sections][3:6] == [
        "KAPITEL I – ALLGEMEINES",
        "Artikel 1 – Begriffe",
        "Artikel 2",
    ]
    assert "Avis juridique" not in draft.text
    assert (draft.language, draft.metadata["celex"], draft.metadata["form"]) == (
        "de",
        "32003F0007",
        "Framework Decision",
    )
    assert (draft.metadata["document_date"], draft.published_at) == ("2003-03-03", "2003-03-05")


@pytest.mark.parametrize("html", [MODERN, CONSOLIDATED, OLDER])
def test_a_part_of_an_act_without_its_title_keeps_its_articles(html: str) -> None:
    whole = own_articles(clean(html))
    kind = "title-article-norm" if html is CONSOLIDATED else "ti-art"
    start = html.rindex("<", 0, html.index(f'{kind}">Article 1'))
    assert own_articles(clean(f"<html><body>{html[start:]}")) == whole


def test_the_page_of_one_article_of_a_treaty_has_it_once() -> None:
    lines = [
        "Treaty on Lamps (consolidated version)", "Title VI: Common rules", "Section 1: Rules for lamps",
        "Article 83", "Article 87 - Treaty on Bulbs (consolidated version)", "Article 87 - Treaty on Bulbs",
        "Article 83", "1. Lamps burn.",
    ]  # fmt: skip
    body = "".join(f"<p>{line}</p>" for line in lines)
    draft = clean(f"<div id='TexteOnly'><TXT_TE>{body}</TXT_TE></div>")
    assert own_articles(draft) == ["83"]
    assert text_of(draft, "Article 83").endswith("1. Lamps burn.")
    assert draft.text.count("Article 83") == 2


def test_footnotes_in_a_plain_preamble_are_no_recitals() -> None:
    note = "<p>(1) OJ No C 55, 13.5.1974, p. 43.</p>"
    preamble = "<p>The Council of the European Communities,</p><p>Having regard to the Treaty;</p>"
    draft = clean(
        f"<div id='TexteOnly'><p>DIRECTIVE</p>{preamble}{note}<p>Article 1</p><p>Pay is equal.</p></div>"
    )
    assert [part["kind"] for part in draft.metadata["structure"]] == ["preamble", "article"]
    assert draft.text[: draft.sections[0]["start"]].strip() == "DIRECTIVE"


def test_a_consolidated_page_that_names_only_who_repealed_its_act_has_no_text() -> None:
    head = CONSOLIDATED[: CONSOLIDATED.index('<p class="title-doc-first">DIRECTIVE 2011/5/EU</p><p')]
    with pytest.raises(UnusablePage, match="no text of it"):
        clean(head.replace("Amended by:", "repealed by:"))


def test_a_missing_date_has_a_reason() -> None:
    draft = clean(
        '<p class="oj-doc-ti">DECISION ON NOTHING AT ALL</p><p class="oj-normal">THE COUNCIL, asleep</p>'
    )
    assert (draft.published_at, draft.metadata["date_source"]) == (None, "none")
    assert "date_reason" in draft.metadata
    assert "celex_reason" in draft.metadata


def test_a_page_without_the_text_of_an_act_is_unusable() -> None:
    with pytest.raises(UnusablePage, match="no text of it"):
        clean('<html><body><div class="eli-container"></div></body></html>')


@pytest.mark.parametrize("html", [MODERN, CONSOLIDATED, OLDER, PLAIN])
def test_sections_lie_in_the_text_and_nest(html: str) -> None:
    draft = clean(html)
    assert is_eurlex(html, "")
    open_until: list[int] = []
    for section in draft.sections:
        assert 0 <= section["start"] < section["end"] <= len(draft.text)
        assert (
            draft.text[section["start"] : section["end"]].strip()
            == draft.text[section["start"] : section["end"]]
        )
        del open_until[section["level"] - 1 :]
        assert len(open_until) == section["level"] - 1
        assert all(section["end"] <= end for end in open_until)
        open_until.append(section["end"])


def test_an_act_of_a_wrong_charset_keeps_its_sections() -> None:
    wrong = MODERN.replace("</body>", "<p class='oj-normal'>Itâ€™s a CafÃ© and a Cafe\u0301.</p></body>")
    draft = clean(wrong)
    assert "It’s a Café and a Café." in draft.text
    assert outline(draft) == outline(clean(MODERN.replace("</body>", "<p class='oj-normal'>It.</p></body>")))
    assert draft.repaired, "else its sections are left out with the next change of its text"


@pytest.mark.parametrize(
    "name", ["search-1.html", "legal-notice.html", "homepage.html", "celex-numbers.html"]
)
def test_other_pages_of_the_site_are_no_acts(name: str) -> None:
    assert not is_eurlex((SITE / name).read_text(encoding="utf-8"), f"https://energy.sample.example/{name}")


@pytest.mark.parametrize("path", sorted(SITE.glob("[03]*.html")), ids=lambda path: path.stem)
def test_acts_of_the_sample_site(path: Path) -> None:
    page = path.read_bytes()
    assert is_eurlex(page.decode(), "")
    draft = clean_eurlex(page, "text/html", "")
    numbers = own_articles(draft)
    assert (draft.metadata["celex"], numbering_faults(numbers, [])) == (path.stem, [])
    assert len(numbers) >= 8
    assert all(" – " in s["heading"] for s in draft.sections if s["heading"].startswith("Article "))
    assert draft.title
    assert draft.published_at
    for furniture in ("Related documents", "cookies", "Official Journal of the Boreal Union | "):
        assert furniture not in draft.text


@pytest.mark.skipif(not (DATA / "eurlex-energy").is_dir(), reason="shared/data/eurlex-energy is not there")
def test_every_real_act_has_its_title_number_date_and_all_of_its_articles() -> None:
    figures = measure_acts(DATA / "eurlex-energy")
    faults = (
        figures.failed + figures.untitled + figures.wrong_celex + figures.wrong_date + figures.misnumbered
    )
    assert (figures.acts, figures.articles, faults) == (52, 1461, [])


@pytest.mark.skipif(
    not (DATA / "eurlex-served-pages").is_dir(), reason="shared/data/eurlex-served-pages is not there"
)
@pytest.mark.parametrize(
    ("name", "celex", "date", "numbers"),
    [
        ("CELEX-32017R2403-EN-TXT", "32017R2403", "2017-12-12", [*map(str, range(1, 49))]),
        ("CELEX-32017R2403-EN-ALL", "32017R2403", "2017-12-12", [*map(str, range(1, 49))]),
        ("lexparency/proposal_raw", "52021PC0206", "2021-04-21", [*map(str, range(1, 86))]),
        # These four were shortened by those who published them: the numbers that are left.
        ("lexparency/EUHb_de_raw", "32002F0584", "2002-06-13", ["1", "2", "9", "31", "35"]),
        ("lexparency/modern_1_raw", "32013R0575", "2013-06-26", ["1", "2", "3", "4", "521"]),
        ("lexparency/moderncons_1_raw", "02009L0065-20130620", "2009-07-13", [*"12345", "114", "118", "119"]),
        ("lexparency/old_1_raw", "32002R0006", "2001-12-12", ["1", "2", "3", "4", "110", "111"]),
        # Articles 1 and 3 were deleted.
        ("lexparency/old_consolidated_raw", "01998F0699-20010705", "1998-12-03", [*"2456789"]),
    ],
)  # fmt: skip
def test_served_pages(name: str, celex: str, date: str, numbers: list[str]) -> None:
    page = gzip.decompress((DATA / "eurlex-served-pages" / f"{name}.html.gz").read_bytes())
    draft = clean_eurlex(page, "text/html", "")
    assert (draft.metadata["celex"], draft.metadata["document_date"]) == (celex, date)
    assert own_articles(draft) == numbers
    assert draft.title
