"""EUR-Lex and sites of its make: search results, then the acts that they list."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from parsel import Selector
from scrapy.http import HtmlResponse, Request, Response
from twisted.python.failure import Failure

from rag_assay.crawlers.items import Page
from rag_assay.crawlers.links import base_of, clean_url
from rag_assay.crawlers.markup import collapse_whitespace, first, meta, present, text_of
from rag_assay.crawlers.spiders.base import HTML, Output, SiteSpider
from rag_assay.crawlers.store import GONE
from rag_assay.warehouse.eurlex_notice import celex_in, notice_in
from rag_assay.warehouse.iso_dates import first_iso

PDF = "application/pdf"
THIN = 400  # characters of text below which a page without an act's markup is taken for a notice of absence

# The letter of a CELEX number in the sectors 3 (acts) and 0 (consolidated texts).
_FORMS = {"R": "Regulation", "L": "Directive", "D": "Decision", "H": "Recommendation", "A": "Opinion"}
_LANGUAGE = re.compile(r"/legal-content/([A-Z]{2})/", re.I)
_TXT = re.compile(r"(/legal-content/[A-Z]{2}/TXT)(/HTML)?(?=/(?:\?|$))", re.I)
_ACT = (
    "//*[@id='TexteOnly' or @id='text' or @id='document1' or @id='docHtml'] | //txt_te"
    " | //*[contains(@class, 'oj-') or contains(@class, 'eli-') or contains(@class, 'norm')]"
)


class EurlexSpider(SiteSpider):
    """Starts at search pages or acts; stores acts as HTML, or as PDF where there is no HTML."""

    name = "eurlex"
    readable = HTML | {PDF, "application/octet-stream"}

    def visit(self, response: HtmlResponse) -> Output:
        hits = response.css("div.SearchResult")
        if hits:
            yield from self._results(response, hits)
        elif celex := celex_of(response):
            yield from self._act(response, celex)
        else:
            yield self.failure(response, "neither search results nor an act")

    def visit_file(self, response: Response, kind: str) -> Output:
        if not response.body.startswith(b"%PDF-"):
            yield self.failure(response, f"not text: {kind}")
            return
        celex = celex_in(response.url)
        fields = {
            "celex": celex,
            **url_fields(response.url, celex),
            **response.meta["listed"].get("fields", {}),
        }
        yield self.page(response, with_date(fields))

    def missed(self, request: Request, failure: Failure, reason: str) -> Output:
        yield from super().missed(request, failure, reason)
        listed = request.meta["listed"]
        gone = getattr(getattr(failure.value, "response", None), "status", None) in GONE
        without_pdf = not listed and "again" not in request.meta  # by the source itself, which names no PDF
        pdf = listed.get("pdf") or (pdf_url(request.url) if without_pdf else None)
        if gone and pdf and pdf not in self._known:
            yield from self._requests(pdf, request.meta["hops"], fields=listed.get("fields", {}))

    # -------------------------------------------------------------------------------------- search pages

    def _results(self, response: HtmlResponse, hits: list[Selector]) -> Output:
        self.settle(response)
        found = [output for hit in hits for output in self._hit(response, hit)]
        yield from found
        onward = (
            "//a[@rel='next' or @title='Next Page' or @title='Next page']/@href | //link[@rel='next']/@href"
        )
        base = base_of(response)
        links = [clean_url(base, href) for href in response.xpath(onward).getall()]
        yield from self.turn(response, links, fruitful=bool(found))

    def _hit(self, response: HtmlResponse, hit: Selector) -> Output:
        base = base_of(response)
        links = [(link, clean_url(base, link.attrib.get("href", ""))) for link in hit.css("a[href]")]
        allowed = [(link, plain_url(url)) for link, url in links if self.is_on_site(url)]
        pdf = next((url for link, url in allowed if _is_format(link, url, "pdf")), None)
        html = next((url for link, url in allowed if _is_format(link, url, "html")), None)
        title = next((url for link, url in allowed if "title" in link.attrib.get("class", "").split()), None)
        url = html or pdf or title
        fields = listing_fields(response.url, hit, url or "")
        if url is None:
            missing = f"{response.url}#{fields.get('celex', 'unknown')}"
            yield Page(missing, response.url, fields=fields, reason="listed without a link to its text")
        else:
            yield from self.follow(response, [url], fields=fields, pdf=pdf)
            if pdf and self.source.pdf:
                yield from self.follow(response, [pdf], fields=fields)

    # -------------------------------------------------------------------------------------- acts

    def _act(self, response: HtmlResponse, celex: str) -> Output:
        listed = response.meta["listed"]
        listed_fields = listed.get("fields", {})
        pdf = listed.get("pdf") or self._pdf_on(response) or (None if listed else pdf_url(response.url))
        notice = notice_in(response.selector.root, response.url)
        thin = not response.xpath(_ACT) and len(text_of(response.css("body"))) < THIN
        missing = bool(notice) or (thin and bool(pdf))
        if missing:
            only = ", only a PDF" if pdf else f": {notice!r}"
            yield self.failure(response, f"there is no HTML of the act{only}")
        else:
            fields = {
                "celex": celex,
                **page_fields(response),
                **url_fields(response.url, celex),
                **listed_fields,
            }
            yield self.page(response, {**with_date(fields), "encoding": response.encoding})
        if pdf and (missing or self.source.pdf):
            yield from self.follow(response, [pdf], fields={"celex": celex, **listed_fields})

    def _pdf_on(self, response: HtmlResponse) -> str | None:
        base = base_of(response)
        urls = [
            plain_url(clean_url(base, link.attrib["href"]))
            for link in response.css("a[href]")
            if _is_format(link, link.attrib["href"], "pdf") and "disabled" not in link.attrib.get("class", "")
        ]
        page_language = _LANGUAGE.search(response.url)
        spoken = [found for url in urls if (found := _LANGUAGE.search(url))]
        if page_language and spoken:
            urls = [found.string for found in spoken if found[1].upper() == page_language[1].upper()]
        return next((url for url in urls if self.is_on_site(url)), None)


def _is_format(link: Selector, url: str, form: str) -> bool:
    if "title" in link.attrib.get("class", "").split():
        return f"/{form}/" in url.lower()
    words = re.findall(r"\w+", f"{link.attrib.get('title', '')} {text_of(link)}".lower())
    path = urlsplit(url).path.lower()
    return f"/txt/{form}/" in f"{path}/" or path.endswith(f".{form}") or words[:1] == [form]


def plain_url(url: str) -> str:
    """Return an act's URL without the traces of the search that found it, so that it stays the same.

    >>> plain_url("https://eur-lex.example/legal-content/EN/TXT/?qid=17&uri=CELEX:32019L0944&rid=1")
    'https://eur-lex.example/legal-content/EN/TXT/?uri=CELEX:32019L0944'
    """
    parts = urlsplit(url)
    uri = parse_qs(parts.query).get("uri")
    if "/legal-content/" not in parts.path or not uri:
        return url
    return parts._replace(query=f"uri={quote(uri[0], safe=':()/.-')}").geturl()


def pdf_url(url: str) -> str | None:
    """Return where EUR-Lex has the PDF of an act whose HTML it has under ``url``; None for another URL.

    >>> pdf_url("https://eur-lex.example/legal-content/EN/TXT/HTML/?uri=CELEX:32019L0944")
    'https://eur-lex.example/legal-content/EN/TXT/PDF/?uri=CELEX:32019L0944'
    """
    plain = plain_url(url)
    found = _TXT.search(plain)
    return f"{plain[: found.end(1)]}/PDF{plain[found.end() :]}" if found else None


def url_fields(url: str, celex: str | None) -> dict[str, Any]:
    """Return what an act's URL and CELEX number say of it: language (ISO 639-1) and form.

    >>> url_fields("https://eur-lex.example/legal-content/DE/TXT/HTML/?uri=CELEX:32019L0944", "32019L0944")
    {'language': 'de', 'form': 'Directive'}
    """
    language = _LANGUAGE.search(url)
    form = _FORMS.get(celex[5:6]) if celex and celex[0] in "30" and not celex[6:7].isalpha() else None
    return present(language=language[1].lower() if language else None, form=form)


def celex_of(response: HtmlResponse) -> str | None:
    identifiers = meta(response.selector, "WT.z_docID", "eli:id_local", "DC.identifier", "DC.title")
    return celex_in(response.url) or next(filter(None, map(celex_in, identifiers)), None)


def page_fields(response: HtmlResponse) -> dict[str, Any]:
    page = response.selector
    titles = [text for text in meta(page, "DC.title") if not celex_in(text)]
    heading = page.xpath(
        "//*[@id='title' or @id='englishTitle']"
        " | //*[contains(@class, 'eli-main-title') or contains(@class, 'oj-doc-ti')]"
    )
    day = _day(meta(page, "eli:date_document"), meta(page, "DC.date"), meta(page, "WT.z_docDate"))
    language = first(page.xpath("/html/@lang").get(), meta(page, "DC.language", "eli:language"))
    return {
        **({"language": language[:2].lower()} if language and len(language) in {2, 5} else {}),
        "title": first(
            meta(page, "WT.z_docTitle"),
            titles,
            meta(page, "DC.description"),
            text_of(heading),
            text_of(page.css("title")),
        ),
        "document_date": day,
        "published_at": _day(meta(page, "eli:date_publication")),
    }


def _day(*candidates: Any) -> str | None:
    return first_iso(*candidates, day_first=True)  # EUR-Lex writes 24/05/2022


def with_date(fields: dict[str, Any]) -> dict[str, Any]:
    return present(**{**fields, "published_at": fields.get("published_at") or fields.get("document_date")})


def listing_fields(url: str, hit: Selector, act: str) -> dict[str, Any]:
    terms = {
        collapse_whitespace(text_of(term)).rstrip(": ").lower(): collapse_whitespace(
            text_of(term.xpath("following-sibling::dd[1]"))
        )
        for term in hit.css("dl dt")
    }
    author = terms.get("author")
    day = _day(terms.get("date of document") or terms.get("date"))
    return present(
        celex=celex_in(terms.get("celex number", "")) or celex_in(act),
        title=text_of(hit.css("a.title")) or text_of(hit.css("h2")),
        document_date=day,
        form=terms.get("form"),
        author=author,
        authors=[part.strip() for part in author.split(",")] if author else [],
        in_force=text_of(hit.css(".forceIndicator")),
        listed_at=url,
    )
