"""Pages that say only that an act's text is not there: dropped with what they say, never stored."""

from __future__ import annotations

import pytest

from rag_assay.assets.cleaning.draft import UnusablePage
from rag_assay.assets.cleaning.eurlex.cleaner import notice_of
from rag_assay.assets.cleaning.page_cleaner import clean_html

URL = "https://eur-lex.example/legal-content/EN/TXT/HTML/?uri=CELEX:01971R2821-19950101"
SENTENCES = [
    "The HTML format is unavailable in your User interface language",
    "The HTML format is unavailable; for more information please view the other tabs.",
    "Text is not available.",
    "The document is not available on EUR-Lex. Use the link to the European Parliament's website above.",
    "Das HTML-Format ist in der Sprache Ihrer Benutzeroberfläche nicht verfügbar",
    "Le format HTML n’est pas disponible dans la langue de votre interface utilisateur",
    "HTML-muoto ei ole saatavilla",  # said in no word that is known
]
MENU = "".join(
    f'<li><a href="/{at}">Part {at} of the site, with its forms and lists</a></li>' for at in range(80)
)
FORMATS = """<div class="PubFormat"><span>PDF</span><ul class="dropdown-menu PubFormatPDF">
<li class="disabled"><a class="disabled" href="./../BG/TXT/PDF/?uri=CELEX:01971R2821-19950101">BG</a></li>
<li><a href="./../EN/TXT/PDF/?uri=CELEX:01971R2821-19950101"><span>EN</span></a></li></ul></div>"""


def page(
    said: str, around: str = '<div class="panel panel-default PagePanel">{}</div>', more: str = ""
) -> str:
    alert = f'<div class="alert alert-warning" role="alert"><span>&nbsp;</span>\n\n {said} \n</div>'
    return (
        "<!DOCTYPE html><html lang='en'><head><title>EUR-Lex - 01971R2821-19950101 - EN - EUR-Lex</title>"
        '<meta property="eli:title" content="Regulation (EEC) No 2821/71 of the Council"></head><body>'
        f'<div class="norm-menu"><ul>{MENU}</ul></div>{FORMATS}{around.format(alert)}{more}'
        "<footer><p>Contact us</p></footer></body></html>"
    )


def reason(html: str, url: str) -> str:
    with pytest.raises(UnusablePage) as said:
        clean_html(html.encode(), "text/html; charset=utf-8", url)
    return str(said.value)


@pytest.mark.parametrize("url", [URL, "https://mirror.example/x.html", ""])
@pytest.mark.parametrize(
    "around",
    [
        '<div class="panel panel-default PagePanel">{}</div>',
        '<div id="text"><div id="textTabContent">{}</div></div>',
        '<div id="document1"><div class="tabContent">{}<a href="x.pdf">View the PDF</a></div></div>',
    ],
)
@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_notice_is_dropped_with_what_it_says(sentence: str, around: str, url: str) -> None:
    said = reason(page(sentence, around), url)
    assert said.startswith("not the text of the act, but a notice: ")
    assert sentence in said.replace("\\'", "'")


def test_a_notice_without_an_alert_is_dropped_too() -> None:
    html = f'<html><body><ul>{MENU}</ul><div id="TexteOnly"><TXT_TE><p>Text is not available.</p></TXT_TE>'
    assert "Text is not available." in reason(html, "")


@pytest.mark.parametrize(
    "act",
    [
        '<div id="text"><p class="oj-doc-ti">DECISION</p><p class="oj-normal">Lamps shall burn.</p></div>',
        '<div class="eli-container"><p class="oj-ti-art">Article 1</p><p class="oj-normal">burn</p></div>',
        f'<div id="TexteOnly"><TXT_TE><p>Decision</p><p>{"Lamps shall burn. " * 9}</p></TXT_TE></div>',
        f'<div id="text"><div>{"Lamps are not available, and shall burn. " * 9}</div></div>',
    ],
)
def test_an_act_beside_an_alert_is_kept(act: str) -> None:
    html = page("This text is not available in Irish.", more=act)
    assert notice_of(html, URL) is None
    assert "burn" in clean_html(html.encode(), "text/html; charset=utf-8", URL).text


def test_alerts_of_other_sites_are_not_asked() -> None:
    story = (
        "<p>"
        + "The lamp is not available, said the maker of it on Monday in the evening news. " * 20
        + "</p>"
    )
    html = f'<html><body><div class="alert">The video is not available</div><article>{story}</article>'
    assert notice_of(html, "https://news.example/lamp") is None
    assert "said the maker" in clean_html(html.encode(), "text/html", "https://news.example/lamp").text
