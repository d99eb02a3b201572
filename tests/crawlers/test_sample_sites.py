"""The three sample sites, crawled from their canonical URLs through the mirror."""

import pytest

from rag_assay.crawlers.sample_site.server import FOLDER, load
from rag_assay.crawlers.spiders.news import LINKS, NewsSpider
from tests.fakes.crawling import crawling

STARTS = {
    "energy": ("eurlex", "/search.html?scope=EURLEX&type=quick&text=energy"),
    "football": ("news", "/"),
    "blog": ("blog", "/"),
}


@pytest.fixture(scope="module", params=sorted(STARTS))
def crawl(request, tmp_path_factory):
    spider, start = STARTS[request.param]
    base = f"https://{request.param}.sample.example"
    source = crawling(
        tmp_path_factory.mktemp("crawl"),
        request.param,
        spider=spider,
        start=[base + start],
        mirror="sample_site",
    )
    row = source.run()
    return request.param, base, row, source.pages(), source


def stored(pages):
    return {url for url, page in pages.items() if page["sha256"]}


def test_all_documents_are_stored_under_their_canonical_urls(crawl):
    name, base, row, pages, _ = crawl
    routes = load(FOLDER / name)
    marks = {"energy": "uri=CELEX:", "football": "/fussball/ruhrlandliga/", "blog": "/20"}
    wanted = {
        base + path
        for path, answer in routes.items()
        if marks[name] in path
        and answer.status == 200
        and path.removeprefix("/fussball/ruhrlandliga/")[:1] not in "?"
    }
    assert stored(pages) == wanted
    assert row["new"] == len(wanted)
    assert row["outcome"] == "finished"


def test_failures_have_reasons(crawl):
    name, _, row, _, _ = crawl
    assert (
        row["failed"]
        == {
            "energy": {"status 404": 1},
            "football": {NewsSpider.unmarked: 1, LINKS: 1, "robots.txt forbids it": 1, "status 404": 1},
            "blog": {NewsSpider.unmarked: 1, LINKS: 4, "not text: image/png": 1, "status 404": 1},
        }[name]
    )


def test_fields(crawl):
    name, _, _, pages, _ = crawl
    wanted = {
        "energy": {"celex", "title", "document_date", "published_at", "form", "author", "authors",
                   "language", "listed_at"},
        "football": {"headline", "title", "teaser", "description", "news_keywords", "keywords", "authors",
                     "published_at", "modified_at", "section", "encoding"},
        "blog": {"title", "description", "authors", "published_at", "encoding"},
    }[name]  # fmt: skip
    for url in stored(pages):
        assert wanted <= pages[url]["fields"].keys(), url


def test_a_second_crawl_downloads_no_stored_page(crawl):
    _, _, first, pages, source = crawl
    second = source.run()
    assert (second["new"], second["changed"], second["unchanged"]) == (0, 0, first["new"])
    assert second["bytes"] < first["bytes"] / 2
    assert stored(source.pages()) == stored(pages)


def test_other_hosts_are_refused_where_the_mirror_is_set(tmp_path):
    source = crawling(tmp_path, spider="blog", start=["https://example.com/"], mirror="sample_site")
    process = source.start()
    _, err = process.communicate(timeout=100)
    assert process.returncode == 2
    assert err.startswith(
        "start: https://example.com/ is not on the sample site, which has blog.sample.example"
    )


def test_acts_by_their_celex_numbers(tmp_path):
    source = crawling(
        tmp_path,
        spider="eurlex",
        start=["32012L9061", "CELEX:32024R9021", "39999R0001"],
        domains=["energy.sample.example"],
        mirror="sample_site",
    )
    row = source.run()
    base = "https://energy.sample.example/legal-content/EN/TXT"
    pages = source.pages()
    act, pdf = pages[f"{base}/HTML/?uri=CELEX:32012L9061"], pages[f"{base}/PDF/?uri=CELEX:32024R9021"]
    assert (act["fields"]["celex"], act["fields"]["language"], act["fields"]["form"]) == (
        "32012L9061",
        "en",
        "Directive",
    )
    assert act["fields"]["document_date"] == "2012-06-06"
    assert (pdf["fields"]["celex"], pdf["fields"]["form"]) == ("32024R9021", "Regulation")  # it has no HTML
    assert (row["new"], row["failed"]) == (2, {"status 404": 3})
