"""The newest pages come first, so that a limit cuts off the oldest."""

from tests.fakes.crawling import crawling
from tests.fakes.site import Reply, article, index, serving

DATE = {
    "lastmod": "<lastmod>{}</lastmod>",
    "news": '<news:news xmlns:news="http://www.google.com/schemas/sitemap-news/0.9">'
    "<news:publication_date>{}</news:publication_date></news:news>",
}


def urlset(site, *pages):
    entries = (f"<url><loc>{site.url(path)}</loc>{DATE[kind].format(day)}</url>" for path, kind, day in pages)
    return Reply(f"<urlset>{''.join(entries)}</urlset>", "application/xml")


def test_across_all_sitemaps_and_before_pages_without_a_date(tmp_path):
    with serving() as site:
        lists = "".join(
            f"<sitemap><loc>{site.url(path)}</loc></sitemap>" for path in ("/old.xml", "/new.xml")
        )
        site["/index.xml"] = Reply(f"<sitemapindex>{lists}</sitemapindex>", "application/xml")
        site["/old.xml"] = urlset(
            site, ("/2019", "lastmod", "2019-03-01"), ("/2024", "lastmod", "2024-03-01")
        )
        site["/new.xml"] = urlset(
            site,
            ("/2026-05", "lastmod", "2026-05-01"),
            ("/morning", "news", "2026-06-01T09:30:00Z"),
            ("/dawn", "news", "2026-06-01T10:00:00+02:00"),
        )
        site["/section"] = Reply(index("/related"))
        for path in ("/2019", "/2024", "/2026-05", "/morning", "/dawn", "/related"):
            site[path] = Reply(article(path, "/related"))
        start = [site.url("/index.xml"), site.url("/section")]
        crawling(tmp_path, spider="news", start=start, delay=0.01).run()
        asked = [path for path in site.paths() if path not in {"/index.xml", "/section"}]
    assert asked[:2] == ["/old.xml", "/new.xml"]
    asked.remove("/2024")  # may be taken up while the last list is still read
    assert asked[2:] == ["/morning", "/dawn", "/2026-05", "/2019", "/related"]


def test_feeds_are_sorted_too(tmp_path):
    with serving() as site:
        rss = "".join(
            f"<item><link>{site.url(path)}</link><pubDate>{day}</pubDate></item>"
            for path, day in (
                ("/a", "Mon, 02 Jan 2023 10:00:00 GMT"),
                ("/b", "Tue, 03 Jan 2023 10:00:00 +0100"),
            )
        )
        atom = "".join(
            f'<entry><link href="{path}"/><updated>{day}</updated></entry>'
            for path, day in (("/c", "2021-01-01T00:00:00Z"), ("/d", "2024-01-01T00:00:00Z"), ("/e", "soon"))
        )
        site["/rss"] = Reply(f"<rss><channel>{rss}</channel></rss>", "application/rss+xml")
        site["/atom"] = Reply(
            f'<feed xmlns="http://www.w3.org/2005/Atom">{atom}</feed>', "application/atom+xml"
        )
        for path in "abcde":
            site[f"/{path}"] = Reply(article(path))
        start = [site.url("/rss"), site.url("/atom")]
        crawling(tmp_path, spider="blog", start=start, delay=0.01).run()
        asked = [path for path in site.paths() if len(path) == 2]
    assert asked.index("/b") < asked.index("/a")
    assert asked.index("/d") < asked.index("/c") < asked.index("/e")
