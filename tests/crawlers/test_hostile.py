"""A site that means harm, or knows no better: each address ends as a page or a reason, and costs no other."""

import gzip

import pytest

from tests.fakes.crawling import crawling
from tests.fakes.site import Reply, article, index, serving

ENTITIES = (
    '<?xml version="1.0"?><!DOCTYPE urlset [<!ENTITY file SYSTEM "file:///etc/hostname">'
    '<!ENTITY net SYSTEM "{0}/net"><!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>'
    "<urlset><url><loc>{0}/told?&file;&net;&b;</loc></url><url><loc>{0}/amp?a=1&amp;b=2</loc></url></urlset>"
)


@pytest.fixture(scope="module")
def crawl(tmp_path_factory):
    with serving() as site:
        base = site.base
        port = base.rpartition(":")[2]
        links = [
            "/self", "/circle-1", "/circle-2", "/port", "/user", "/file", "/script", "/nowhere", "/inside",
            "/base/", "/entities.xml", "/feed", "/map.xml.gz", "/lines.txt", "/broken.xml", "/guid.xml",
            f"http://127.0.0.1:9{port}9/", f"http://me:secret@127.0.0.1:{port}/cred", "ftp://127.0.0.1/x",
            "//10.0.0.1/x", "data:text/html,x", "javascript:alert(1)", "http://[x", "?", "#", "", "/%zz",
        ]  # fmt: skip
        site["/"] = Reply(index(*links))
        for path, to in {
            "/self": "/self",
            "/circle-1": "/circle-2",
            "/circle-2": "/circle-1",
            "/port": "http://127.0.0.1:99999/",
            "/user": f"http://me:secret@127.0.0.1:{port}/cred",
            "/file": "file:///etc/passwd",
            "/script": "javascript:alert(1)",
            "/nowhere": "",
            "/inside": "//169.254.169.254/latest/meta-data",
        }.items():
            site[path] = Reply(status=302, headers={"Location": to})
        site["/base/"] = Reply(
            '<html><head><base href="/docs/"></head><body><a href="page">x</a></body></html>'
        )
        site["/entities.xml"] = Reply(ENTITIES.format(base), "application/xml")
        rss = '<rss version="2.0"><channel><item><link>{}</link></item>'
        site["/feed"] = Reply(rss.format(f"{base}/from-feed") + "</channel></rss>", "text/html")
        site["/broken.xml"] = Reply(rss.format(f"{base}/from-broken") + "<item>A & B", "application/rss+xml")
        site["/guid.xml"] = Reply(
            f"<rss><channel><item><guid>{base}/from-guid</guid></item>"
            "<item><guid isPermaLink='false'>77</guid></item></channel></rss>",
            "application/rss+xml",
        )
        packed = gzip.compress(f"<urlset><url><loc>{base}/from-packed</loc></url></urlset>".encode())
        site["/map.xml.gz"] = Reply(packed, "application/octet-stream")
        site["/lines.txt"] = Reply(f"{base}/from-lines\n", "text/plain")
        for path in ("/docs/page", "/amp?a=1&b=2", "/from-feed", "/from-broken", "/from-guid", "/from-packed",
                     "/from-lines", "/cred"):  # fmt: skip
            site[path] = Reply(article(path))
        source = crawling(tmp_path_factory.mktemp("crawl"), spider="news", start=[f"{base}/"])
        row = source.run()
        pages = {url.removeprefix(base): page["reason"] for url, page in source.pages().items()}
        log = (source.home.crawls / "site" / "crawl.log").read_text()
        yield row, pages, site.paths(), log


def test_what_became_of_every_address(crawl):
    row, pages, _, _ = crawl
    circle = "redirects in a circle"
    (last,) = (path for path in pages if path.startswith("/circle-"))  # the one whose answer came second
    assert pages == {
        "/self": circle,
        last: circle,
        "/port": "redirects to no URL",
        "/user": "redirects to a URL with a user name",
        "/file": "redirects to what is not a web page: file",
        "/script": pages["/script"],
        "/nowhere": circle,
        "/inside": "redirects to another host: 169.254.169.254",
        "/told": "status 404",
        "/%zz": "status 404",
        **dict.fromkeys(
            ["/docs/page", "/amp?a=1&b=2", "/from-feed", "/from-broken", "/from-guid", "/from-packed",
             "/from-lines"]
        ),
    }  # fmt: skip
    assert pages["/script"].startswith("redirects to ")
    assert (row["outcome"], row["new"]) == ("finished", 7)


def test_no_entity_is_expanded_or_fetched_and_no_password_kept(crawl):
    row, pages, paths, log = crawl
    assert not {"/net", "/cred"} & set(paths)
    assert not any("aaaa" in path for path in paths)
    assert "secret" not in f"{row}{pages}"
    assert "secret" not in log
