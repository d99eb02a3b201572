"""Sites that mark nothing: what is stored of them, what is counted instead, and which spider fits them."""

from __future__ import annotations

import json

import pytest

from rag_assay.crawlers.spider_choice import spider_for
from rag_assay.crawlers.spiders.news import NewsSpider
from tests.fakes.crawling import crawling
from tests.fakes.site import Reply, article, index, serving

WORDS = " ".join(f"The keeper wrote line {one} of the log by the light of the lamp." for one in range(8))


def plain(title: str, *links: str, text: str = WORDS) -> str:
    anchors = "".join(f'<li><a href="{link}">{link}</a></li>' for link in links)
    return (
        f"<html><head><title>{title}</title></head><body><nav><ul>{anchors}</ul></nav>"
        f"<h1>{title}</h1><div><p>{text}</p></div></body></html>"
    )


DATED = [f"/2014/03/{day}/log/" for day in range(10, 15)]


@pytest.fixture
def log():
    with serving() as site:
        teasers = "".join(f"<h2><a href='{path}'>Log</a></h2><p>{WORDS}</p>" for path in DATED)
        site["/"] = Reply(f"<html><body>{teasers}<a href=/about>About</a><a href=/by>By</a></body></html>")
        for path in DATED:
            site[path] = Reply(plain("Log", "/", "/about"))
        site["/about"] = Reply(plain("About", "/"))
        site["/by"] = Reply(plain("Log", "/", text=f"By the keeper, 3 March 2014. {WORDS}"))
        yield site


def stored(source, site):
    return {url.removeprefix(site.base) for url, page in source.pages().items() if page["sha256"]}


def test_posts_without_marks_are_stored_and_other_pages_are_counted_with_the_way_out(log, tmp_path):
    source = crawling(tmp_path, spider="blog", start=[log.url("/")])
    row = source.run()
    assert stored(source, log) == {*DATED, "/by"}
    assert row["failed"] == {NewsSpider.unmarked: 1}
    assert source.pages()[log.url("/about")]["reason"] == NewsSpider.unmarked
    assert "`spider: site`" in NewsSpider.unmarked


def test_news_counts_each_page_that_it_reads_and_does_not_store(log, tmp_path):
    source = crawling(tmp_path, spider="news", start=[log.url("/")])
    row = source.run()
    assert stored(source, log) == set()
    assert row["failed"] == {NewsSpider.unmarked: len(DATED) + 2}, "the index is none: it lists others"
    assert "read, not stored" in row["stdout"]
    again = source.run()
    assert again["failed"] == row["failed"], "as long as it is so"


def test_what_site_is_told_not_to_store_is_counted_too(log, tmp_path):
    log["/marked"] = Reply(plain("M").replace("<div>", "<div class=log>"))
    log["/about"] = Reply(plain("About", "/marked"))
    source = crawling(tmp_path, spider="site", start=[log.url("/about")], content="div.log")
    row = source.run()
    assert stored(source, log) == {"/marked"}
    (reason,) = row["failed"]
    assert reason == "read, not stored: it has nothing that `content` selects"


# ------------------------------------------------------------------------------------------- lists


def sitemap(*urls: str, form: str = "urlset", entry: str = "url") -> Reply:
    locations = "".join(f"<{entry}><loc>{url}</loc></{entry}>" for url in urls)
    xmlns = "http://www.sitemaps.org/schemas/sitemap/0.9"
    return Reply(f'<?xml version="1.0"?><{form} xmlns="{xmlns}">{locations}</{form}>', "application/xml")


def sitemap_index(*urls: str) -> Reply:
    return sitemap(*urls, form="sitemapindex", entry="sitemap")


@pytest.fixture
def press():
    """Twelve articles, named by three sitemaps of an index that is in an index; one list has moved."""
    with serving() as site:
        names = [f"/press/{number}" for number in range(12)]
        for name in names:
            site[name] = Reply(article(name))
        urls = [site.url(name) for name in names]
        site["/maps/all.xml"] = sitemap_index(site.url("/maps/some.xml"), site.url("/maps/moved.xml"))
        site["/maps/some.xml"] = sitemap_index(site.url("/maps/1.xml"), site.url("/maps/2.xml"))
        site["/maps/1.xml"] = sitemap(*urls[:4])
        site["/maps/2.xml"] = sitemap(*urls[4:8], site.url("/other/1"))
        site["/maps/moved.xml"] = Reply(status=301, headers={"Location": "/lists/3.xml"})
        site["/lists/3.xml"] = sitemap(*urls[8:])
        site["/other/1"] = Reply(article("Other"))
        yield site, set(names)


@pytest.mark.parametrize("depth", [1, 5])
def test_allow_is_about_pages_and_not_about_the_lists_that_name_them(press, tmp_path, depth):
    site, names = press
    source = crawling(
        tmp_path, spider="news", start=[site.url("/maps/all.xml")], allow=["/press/"], limits={"depth": depth}
    )
    row = source.run()
    assert stored(source, site) == names
    assert (row["outcome"], row["failed"]) == ("finished", {})
    assert "/other/1" not in site.paths()


def test_deny_stops_a_list(press, tmp_path):
    site, _ = press
    source = crawling(tmp_path, spider="news", start=[site.url("/maps/all.xml")], deny=["/maps/some"])
    source.run()
    assert stored(source, site) == {f"/press/{number}" for number in range(8, 12)}


@pytest.mark.parametrize("kind", ["robots", "feed", "sitemap"])
@pytest.mark.parametrize("start", ["/", "/press/", "/elsewhere/"])
def test_lists_that_the_site_names_are_used_for_the_folder_that_was_asked_for(press, tmp_path, kind, start):
    site, names = press
    head = {
        "robots": "",
        "feed": '<link rel="alternate" type="application/rss+xml" href="/feed">',
        "sitemap": '<link rel="sitemap" href="/maps/all.xml">',
    }[kind]
    if kind == "robots":
        robots = f"User-agent: *\nDisallow: /no\n\nSitemap: {site.url('/maps/all.xml')}\nSitemap: http://x.example/m"
        site["/robots.txt"] = Reply(robots, "text/plain")
    items = "".join(f"<item><link>{site.url(name)}</link></item>" for name in sorted(names))
    site["/feed"] = Reply(f"<rss version='2.0'><channel>{items}</channel></rss>", "application/rss+xml")
    site[start] = Reply(f"<html><head>{head}</head><body></body></html>")
    source = crawling(tmp_path, spider="news", start=[site.url(start)], limits={"depth": 1})
    row = source.run()
    other = {"/other/1"} if kind != "feed" else set()
    assert stored(source, site) == {"/": names | other, "/press/": names, "/elsewhere/": set()}[start]
    assert row["outcome"] == "finished"


def test_a_page_that_is_served_for_a_missing_list_is_none(press, tmp_path):
    site, _ = press
    site["/robots.txt"] = Reply("Sitemap: /map.xml", "text/plain")
    site["/map.xml"] = Reply(plain("Not here"))
    site["/"] = Reply(index("/press/1"))
    source = crawling(tmp_path, spider="site", start=[site.url("/")], allow=["/press/"])
    row = source.run()
    assert stored(source, site) == {"/", "/press/1"}
    assert row["failed"] == {"no list of pages": 1}


# ------------------------------------------------------------------------------------------- which spider


def marked(kind: str) -> Reply:
    node = json.dumps({"@type": kind, "headline": "H"})
    return Reply(f'<html><head><script type="application/ld+json">{node}</script></head></html>')


@pytest.mark.parametrize(
    ("pages", "spider", "why"),
    [
        ({"/": index("/a"), "/a": marked("ReportageNewsArticle")}, "news", "/a calls itself a news article"),
        ({"/": index("/a"), "/a": marked("BlogPosting")}, "blog", "/a calls itself an article"),
        ({"/": index("/2014/03/10/log/"), "/2014/03/10/log/": plain("L")}, "blog", "reads as a dated post"),
        ({"/": index("/a", "/b"), "/a": plain("A"), "/b": plain("B")}, "site", "no page looked at"),
        ({"/": index("/gone")}, "site", "no page looked at"),
        ({"/": Reply("no", status=500)}, "site", "could not be looked at: status 500"),
        ({"/robots.txt": Reply("User-agent: *\nDisallow: /", "text/plain")}, "site", "robots.txt forbids it"),
        ({"/robots.txt": Reply(status=503)}, "site", "robots.txt: status 503"),
        (
            {"/": Reply(status=302, headers={"Location": "http://x.example/"})},
            "site",
            "another host: x.example",
        ),
        ({"/": Reply(status=302, headers={"Location": "/"})}, "site", "too many redirects"),
    ],
)
def test_the_spider_is_chosen_by_what_the_site_shows(pages, spider, why):
    with serving() as site:
        for path, reply in pages.items():
            site[path] = reply if isinstance(reply, Reply) else Reply(reply)
        look = spider_for(site.url("/"), delay=0)
    assert look.spider == spider
    assert why in look.why


def test_a_feed_leads_to_what_is_looked_at():
    with serving() as site:
        site["/feed"] = sitemap(site.url("/a"))
        site["/a"] = marked("NewsArticle")
        assert spider_for(site.url("/feed"), delay=0).spider == "news"
    assert spider_for(site.url("/"), delay=0).why.startswith(f"{site.url('/')} could not be looked at: ")
