"""`spider: site`: any site by a few lines."""

import pytest

from rag_assay.warehouse.pages import read_body
from tests.fakes.crawling import crawling
from tests.fakes.site import Reply, index, serving

PAGE = (
    "<html><head><title>{0} | Town</title><meta name='description' content='About {0}.'></head>"
    "<body><nav><a href='/'>Home</a></nav><main id=text><h1>{0}</h1><p>Words.</p></main></body></html>"
)


@pytest.fixture
def town(tmp_path):
    with serving() as site:
        site["/"] = Reply(index("/harbour", "/library", "/notes.txt", "/plan.pdf", "/false.pdf", "/login"))
        site["/harbour"] = Reply(PAGE.format("Harbour"))
        site["/library"] = Reply(PAGE.format("Library"))
        site["/notes.txt"] = Reply("Plain words.", "text/plain")
        site["/plan.pdf"] = Reply(b"%PDF-1.4 plan", "application/pdf")
        site["/false.pdf"] = Reply(b"nothing", "application/pdf")
        site["/login"] = Reply("<html><body>Log in</body></html>")
        yield (
            site,
            lambda **more: crawling(tmp_path, spider="site", start=[site.url("/")], deny=["/login"], **more),
        )


def stored(source, site):
    return {url.removeprefix(site.base): page for url, page in source.pages().items() if page["sha256"]}


def test_all_pages_are_stored(town):
    site, source = town
    one = source()
    row = one.run()
    pages = stored(one, site)
    assert set(pages) == {"/", "/harbour", "/library", "/notes.txt", "/plan.pdf"}
    assert row["failed"] == {"not text: application/pdf": 1}
    assert pages["/harbour"]["fields"]["title"] == "Harbour | Town"
    assert pages["/harbour"]["fields"]["description"] == "About Harbour."
    assert read_body(one.home, pages["/plan.pdf"]["sha256"]) == b"%PDF-1.4 plan"
    assert "/login" not in site.paths()


def test_with_a_selector_only_pages_that_have_it(town):
    site, source = town
    one = source(content="main#text")
    one.run()
    pages = stored(one, site)
    assert set(pages) == {"/harbour", "/library", "/notes.txt", "/plan.pdf"}
    assert pages["/library"]["fields"]["content"] == "main#text"
