"""What spiders read from a page, without a network."""

import gzip
import json
from pathlib import Path

import pytest
from scrapy.http import HtmlResponse, Request

from rag_assay.crawlers.items import Page
from rag_assay.crawlers.spiders.blog import BlogSpider
from rag_assay.crawlers.spiders.eurlex import EurlexSpider, plain_url
from rag_assay.crawlers.spiders.news import NewsSpider
from rag_assay.warehouse.eurlex_notice import celex_in
from rag_assay.warehouse.iso_dates import lenient_json
from rag_assay.warehouse.source import Source
from rag_assay.warehouse.source_kinds import READERS, SPIDERS

SERVED = Path(__file__).parents[4] / "shared" / "data" / "eurlex-served-pages"
HOST = "https://lex.example"


def test_names_are_those_of_the_study_file():
    assert {name: SPIDERS[name].name for name in SPIDERS} == {name: name for name in SPIDERS}
    assert {name: READERS[name].kind for name in READERS} == {name: name for name in READERS}


def visit(kind, html, url=f"{HOST}/", listed=None, **limits):
    """The pages and the requests that a spider makes of a page."""
    spider = kind(
        source=Source.model_validate({"spider": kind.name, "start": [f"{HOST}/"], "limits": limits})
    )
    request = Request(url, meta={"hops": 0, "barren": 0, "listed": listed or {}})
    body = html if isinstance(html, bytes) else html.encode()
    response = HtmlResponse(
        url, body=body, encoding="utf-8", request=request, headers={"Content-Type": "text/html"}
    )
    out = list(spider.received(response))
    return [one for one in out if isinstance(one, Page)], [one for one in out if isinstance(one, Request)]


def head(*parts, body=""):
    return f"<html><head>{''.join(parts)}</head><body>{body}</body></html>"


def ld(value):
    text = value if isinstance(value, str) else json.dumps(value)
    return f'<script type="application/ld+json">{text}</script>'


HIT = """
<div class="EurlexContent"><div class="SearchResult">
<h2><a class="title" href="./../legal-content/AUTO/?uri=CELEX:32019L0944&amp;qid=17&amp;rid=1">
Directive (EU) 2019/944</a></h2>
<dl><dt>CELEX number: </dt><dd>32019L0944</dd><dt>Form: </dt><dd>Directive</dd></dl>
<dl><dt>Author: </dt><dd>European Parliament, Council of the European Union</dd>
<dt>Date of document: </dt><dd>05/06/2019; Date of signature</dd></dl>
<ul class="SearchResultDoc">
<li><a title="PDF" href="./../legal-content/EN/TXT/PDF/?uri=CELEX:32019L0944&amp;qid=17"></a></li>
<li><a title="HTML" href="./../legal-content/EN/TXT/HTML/?uri=CELEX:32019L0944&amp;qid=17"></a></li></ul>
</div>{more}</div>
"""


class TestEurlex:
    def test_a_hit_leads_to_its_html_without_the_traces_of_the_search(self):
        pages, requests = visit(EurlexSpider, head(body=HIT.format(more="")), f"{HOST}/search.html?qid=17")
        assert pages == []
        assert [one.url for one in requests] == [f"{HOST}/legal-content/EN/TXT/HTML/?uri=CELEX:32019L0944"]
        assert requests[0].meta["listed"] == {
            "pdf": f"{HOST}/legal-content/EN/TXT/PDF/?uri=CELEX:32019L0944",
            "fields": {
                "celex": "32019L0944",
                "title": "Directive (EU) 2019/944",
                "document_date": "2019-06-05",
                "form": "Directive",
                "author": "European Parliament, Council of the European Union",
                "authors": ["European Parliament", "Council of the European Union"],
                "listed_at": f"{HOST}/search.html?qid=17",
            },
        }

    @pytest.mark.parametrize("asked", [False, True])
    def test_the_pdf_is_fetched_beside_the_html_where_it_is_asked_for(self, asked):
        spider = EurlexSpider(source=Source(spider="eurlex", start=(f"{HOST}/search.html",), pdf=asked))
        request = Request(f"{HOST}/search.html", meta={"hops": 0, "barren": 0, "listed": {}})
        body = head(body=HIT.format(more="")).encode()
        page = HtmlResponse(request.url, body=body, request=request, headers={"Content-Type": "text/html"})
        forms = [one.url.split("/")[-2] for one in spider.received(page)]
        assert forms == (["HTML", "PDF"] if asked else ["HTML"])

    def test_a_hit_without_a_link_is_a_failed_page(self):
        html = head(
            body='<div class="SearchResult"><h2>Old act</h2>'
            "<dl><dt>CELEX number:</dt><dd>31958R0001</dd></dl></div>"
        )
        pages, requests = visit(EurlexSpider, html, f"{HOST}/search.html")
        assert [(one.url, one.reason) for one in pages] == [
            (f"{HOST}/search.html#31958R0001", "listed without a link to its text")
        ]
        assert requests == []

    def test_the_next_page_of_results_is_asked_for(self):
        more = '<a title="Next Page" href="./search.html?page=2"><i class="fa"></i></a>'
        _, requests = visit(EurlexSpider, head(body=HIT.format(more=more)), f"{HOST}/search.html")
        assert [one.url for one in requests][1:] == [f"{HOST}/search.html?page=2"]
        assert requests[1].meta["hops"] == 0

    def test_an_act_that_exists_as_pdf_only(self):
        url = f"{HOST}/legal-content/EN/TXT/HTML/?uri=CELEX:31970L0001"
        notice = '<p>The HTML format is unavailable.</p><a href="../PDF/?uri=CELEX:31970L0001">pdf</a>'
        pages, requests = visit(EurlexSpider, head(body=notice), url)
        assert [one.reason for one in pages] == ["there is no HTML of the act, only a PDF"]
        assert [one.url for one in requests] == [f"{HOST}/legal-content/EN/TXT/PDF/?uri=CELEX:31970L0001"]
        assert requests[0].meta["listed"]["fields"] == {"celex": "31970L0001"}

    @pytest.mark.parametrize("language", ["EN", "DE"])
    def test_a_notice_among_long_menus_leads_to_the_pdf_in_its_language(self, language):
        menu = '<div class="norm-menu eli-links">' + "<li>A part of the site</li>" * 100 + "</div>"
        pdfs = "".join(
            f'<a {extra} href="../../../{code}/TXT/PDF/?uri=CELEX:31970L0001" title="PDF {code}">{code}</a>'
            for code, extra in [("BG", 'class="disabled"'), ("DA", ""), ("DE", ""), ("EN", "")]
        )
        alert = '<div class="alert alert-warning">The HTML format is unavailable</div>'
        url = f"{HOST}/legal-content/{language}/TXT/HTML/?uri=CELEX:31970L0001"
        pages, requests = visit(EurlexSpider, head(body=menu + pdfs + alert), url)
        assert [one.reason for one in pages] == ["there is no HTML of the act, only a PDF"]
        assert [one.url for one in requests] == [
            f"{HOST}/legal-content/{language}/TXT/PDF/?uri=CELEX:31970L0001"
        ]

    def test_a_notice_without_a_pdf_is_a_failed_page(self):
        body = '<div class="alert">Text is not available.</div>'
        pages, requests = visit(
            EurlexSpider,
            head('<meta name="DC.identifier" content="31970L0001">', body),
            f"{HOST}/legal-content/x",
        )
        assert [one.reason for one in pages] == ["there is no HTML of the act: 'Text is not available.'"]
        assert requests == []

    def test_neither_search_nor_act(self):
        pages, requests = visit(EurlexSpider, head(body="<p>Welcome</p><a href='/x'>x</a>"))
        assert [one.reason for one in pages] == ["neither search results nor an act"]
        assert requests == []

    @pytest.mark.parametrize(
        ("url", "celex"),
        [
            (f"{HOST}/legal-content/EN/TXT/?uri=CELEX%3A32016R0679", "32016R0679"),
            (f"{HOST}/legal-content/EN/TXT/?uri=CELEX:32016R0679R(02)", "32016R0679R(02)"),
            (f"{HOST}/legal-content/DE/TXT/HTML/?uri=CELEX:02010L0031-20210101", "02010L0031-20210101"),
            (f"{HOST}/legal-content/EN/TXT/?uri=CELEX:52021PC0802", "52021PC0802"),
            (f"{HOST}/eli/reg/2017/2403/oj", None),
            (f"{HOST}/legal-content/EN/TXT/?uri=OJ:L:2017:347:TOC", None),
        ],
    )
    def test_celex_numbers(self, url, celex):
        assert celex_in(url) == celex
        assert celex_in(plain_url(url)) == celex

    @pytest.mark.skipif(not SERVED.is_dir(), reason="the served pages are not part of the project")
    @pytest.mark.parametrize(
        ("file", "url", "wanted"),
        [
            (
                "CELEX-32017R2403-EN-TXT.html.gz",
                "/eli/reg/2017/2403/oj",
                ("32017R2403", "2017-12-12", "2017-12-28"),
            ),
            ("lexparency/old_1_raw.html.gz", "/x?uri=CELEX:32002R0006:EN:HTML", ("32002R0006", None, None)),
        ],
    )
    def test_pages_as_eurlex_serves_them(self, file, url, wanted):
        (page,), requests = visit(EurlexSpider, gzip.decompress((SERVED / file).read_bytes()), HOST + url)
        fields = page.fields
        assert (fields["celex"], fields.get("document_date"), fields.get("published_at")) == wanted
        assert "Regulation" in fields["title"]
        assert requests == []


ARTICLE = {
    "@type": "NewsArticle",
    "headline": "Ein Tor genügt",
    "description": "Wie es dazu kam.",
    "author": [{"@type": "Person", "name": "Eva Beispiel"}, "Jo Muster", {"name": "Eva Beispiel"}],
    "datePublished": "2023-04-01T20:15:00+02:00",
    "dateModified": "2023-04-02",
    "keywords": "Derby, Köln",
    "articleSection": ["Fußball"],
}


class TestNews:
    def test_fields_of_an_article(self):
        html = head(
            "<title>Ein Tor genügt | Blatt</title>",
            '<meta name="news_keywords" content="Derby; Köln,derby">',
            '<meta name="keywords" content="Liga">',
            ld({"@context": "https://schema.org", "@graph": [{"@type": "WebPage"}, ARTICLE]}),
            body='<div class="Teaser-box"><a href="/other">Ein ganz anderer Artikel, der hier lockt</a></div>'
            '<article><p class="article__Teaser">Der Vorspann dieses Artikels steht hier.</p></article>',
        )
        (page,), requests = visit(NewsSpider, html)
        assert page.fields == {
            "headline": "Ein Tor genügt",
            "title": "Ein Tor genügt | Blatt",
            "teaser": "Der Vorspann dieses Artikels steht hier.",
            "description": "Wie es dazu kam.",
            "news_keywords": ["Derby", "Köln"],
            "keywords": ["Derby", "Köln", "Liga"],
            "authors": ["Eva Beispiel", "Jo Muster"],
            "published_at": "2023-04-01T20:15:00+02:00",
            "modified_at": "2023-04-02",
            "section": "Fußball",
            "encoding": "utf-8",
        }
        assert [one.url for one in requests] == [f"{HOST}/other"]

    def test_without_a_teaser_the_description_stands_in(self):
        (page,), _ = visit(NewsSpider, head(ld(ARTICLE)))
        assert page.fields["teaser"] == "Wie es dazu kam."

    @pytest.mark.parametrize(
        "html",
        [
            head(ld([ARTICLE, {**ARTICLE, "headline": "Noch eins"}])),  # a list of articles is a section
            head(ld('{"@type": "NewsArticle", broken')),
            head(ld({"@type": "ItemList", "itemListElement": [ARTICLE]})),
            head('<meta property="og:type" content="website">'),
        ],
    )
    def test_sections_are_not_stored(self, html):
        assert visit(NewsSpider, html)[0] == []

    @pytest.mark.parametrize(
        "html",
        [
            head('<meta property="og:type" content="article">'),
            head(ld({"@type": ["ReportageNewsArticle", "Thing"]})),
            head(ld("\n" + json.dumps(ARTICLE).replace("kam.", "kam.\n") + ";")),  # raw newline, semicolon
        ],
    )
    def test_articles_are(self, html):
        assert [one.reason for one in visit(NewsSpider, html)[0]] == [None]

    @pytest.mark.parametrize(
        ("canonical", "stored"),
        [
            ("/story", f"{HOST}/story"),
            (f"{HOST}/story#x", f"{HOST}/story"),
            ("https://other.example/story", f"{HOST}/story?print=1"),  # another host
            ("http://lex.example/story?print=1", f"{HOST}/story?print=1"),  # only the scheme differs
            (f"{HOST}/", f"{HOST}/story?print=1"),  # the home page for every page
            ("", f"{HOST}/story?print=1"),
        ],
    )
    def test_canonical(self, canonical, stored):
        (page,), _ = visit(
            NewsSpider,
            head(ld(ARTICLE), f'<link rel="canonical" href="{canonical}">'),
            f"{HOST}/story?print=1",
        )
        assert (page.url, page.alias) == (stored, stored != f"{HOST}/story?print=1")

    def test_validators_of_another_url_are_not_kept_under_the_canonical_one(self):
        spider = NewsSpider(source=Source(spider="news", start=(f"{HOST}/",)))
        for url, kept in ((f"{HOST}/story", '"e"'), (f"{HOST}/story?print=1", None)):
            request = Request(url, meta={"hops": 0, "barren": 0, "listed": {}})
            headers = {"Content-Type": "text/html", "ETag": '"e"'}
            body = head(ld(ARTICLE), '<link rel="canonical" href="/story">').encode()
            (page,) = spider.received(HtmlResponse(url, body=body, request=request, headers=headers))
            assert (page.url, page.etag) == (f"{HOST}/story", kept)

    def test_a_link_that_is_no_url_costs_its_page_nothing(self):
        html = head(ld(ARTICLE), body="<a href='http://lex.example:99999/'>x</a><a href='/next'>y</a>")
        pages, requests = visit(NewsSpider, html)
        assert [one.reason for one in pages] == [None]
        assert [one.url for one in requests] == [f"{HOST}/next"]

    def test_a_page_that_breaks_the_spider_is_a_failed_page(self, monkeypatch):
        monkeypatch.setattr(NewsSpider, "fields", lambda *_: 1 / 0)
        pages, _ = visit(NewsSpider, head(ld(ARTICLE)))
        assert [one.reason for one in pages] == ["cannot be read: ZeroDivisionError"]


def test_a_block_of_blanks_is_read_in_no_time():
    blanks = " " * 300_000
    for text in (f'{{"a": 1}}-->{blanks}x', f'{{"a": 1}} //{blanks}x', f"/*{blanks}x"):  # minutes, once
        assert lenient_json(text) is None
    for marks in ("<!-- {} -->", "/* <![CDATA[ */ {} /* ]]> */", "//<![CDATA[\n{}\n//]]>;", "<![CDATA[{}]]>"):
        assert lenient_json(marks.replace("{}", '{"a": 1}')) == {"a": 1}


POST = (
    '<article><h1>A post</h1><time datetime="2022-10-04">4 October</time>'
    '<a rel="tag" href="/t/x">Boats</a></article>'
)
TEASERS = '<article><h2><a href="/{0}">P</a></h2><time datetime="2022-10-04">x</time></article>'


class TestBlog:
    def test_one_article_with_a_time_is_a_post(self):
        (page,), requests = visit(
            BlogSpider, head('<meta name="description" content="Of boats.">', body=POST)
        )
        assert page.fields == {
            "title": "A post",
            "description": "Of boats.",
            "tags": ["Boats"],
            "published_at": "2022-10-04",
            "encoding": "utf-8",
        }
        assert [one.url for one in requests] == [f"{HOST}/t/x"]

    def test_related_posts_below_do_not_hide_it(self):
        html = head(body=POST + TEASERS.format("a") + TEASERS.format("b"))
        assert [one.fields["title"] for one in visit(BlogSpider, html)[0]] == ["A post"]

    @pytest.mark.parametrize("number", [1, 3])
    def test_an_index_is_none_even_with_one_post(self, number):
        pages, requests = visit(BlogSpider, head(body="".join(TEASERS.format(one) for one in range(number))))
        assert pages == []
        assert len(requests) == number


FEEDS = {
    "urlset": '<?xml version="1.0" encoding="iso-8859-1"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
    "<url><loc> https://lex.example/a </loc></url><url><loc>https://lex.example/b</loc></url></urlset>",
    "sitemapindex": '<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
    "<sitemap><loc>https://lex.example/a</loc></sitemap><sitemap><loc>https://lex.example/b</loc></sitemap></sitemapindex>",
    "rss": "<rss version='2.0'><channel><link>https://lex.example/</link><item><link>https://lex.example/a</link></item>"
    "<item><link>https://lex.example/b</link></item></channel></rss>",
    "atom": '<feed xmlns="http://www.w3.org/2005/Atom"><link href="/"/><entry><link rel="self" href="/no"/>'
    '<link href="/a"/></entry><entry><link rel="alternate" href="b"/></entry></feed>',
}


@pytest.mark.parametrize("name", FEEDS)
@pytest.mark.parametrize("packed", [False, True])
def test_sitemaps_and_feeds_are_followed(name, packed):
    spider = NewsSpider(source=Source(spider="news", start=(f"{HOST}/x.xml",)))
    body = gzip.compress(FEEDS[name].encode()) if packed else FEEDS[name].encode()
    request = Request(f"{HOST}/x.xml", meta={"hops": 0, "barren": 0, "listed": {}})
    kind = "application/gzip" if packed else "application/xml"
    response = HtmlResponse(request.url, body=body, request=request, headers={"Content-Type": kind})
    assert [one.url for one in spider.received(response)] == [f"{HOST}/a", f"{HOST}/b"]


def test_xml_that_lists_nothing_is_a_failed_page():
    spider = NewsSpider(source=Source(spider="news", start=(f"{HOST}/x.xml",)))
    request = Request(f"{HOST}/x.xml", meta={"hops": 0, "barren": 0, "listed": {}})
    response = HtmlResponse(request.url, body=b"<a/>", request=request, headers={"Content-Type": "text/xml"})
    assert [one.reason for one in spider.received(response)] == ["neither a page nor a list of pages"]
