"""Where a crawl may go, and how much it takes: domains, patterns, bombs, bytes."""

import gzip
import os
import subprocess
import sys
import zlib

import brotli
import pytest
import zstandard

from tests.fakes.crawling import ROOT, crawling
from tests.fakes.site import Reply, article, index, serving

LIMIT = 1_000_000
BOMB = 60_000_000
UNPACKED = f"larger than {LIMIT} bytes when unpacked"


def bombs():
    """60 MB of zeros in about 10 kB or less, or gzip's best of a thousandth, as each encoding packs them."""
    block = bytes(1 << 20)
    zstd = zstandard.ZstdCompressor(level=3).compressobj()
    deflate, plain = zlib.compressobj(9, wbits=31), zlib.compressobj(9)
    br = brotli.Compressor(quality=5)
    out = {"zstd": b"", "gzip": b"", "deflate": b"", "br": b""}
    for _ in range(BOMB // len(block)):
        out["zstd"] += zstd.compress(block)
        out["gzip"] += deflate.compress(block)
        out["deflate"] += plain.compress(block)
        out["br"] += br.process(block)
    out["zstd"] += zstd.flush()
    out["gzip"] += deflate.flush()
    out["deflate"] += plain.flush()
    out["br"] += br.finish()
    out["gzip, gzip"] = gzip.compress(out["gzip"])
    return out


def peak(source):
    """Crawl, and return the most memory that the process had, in MB."""
    process = subprocess.Popen(
        [sys.executable, "-X", "utf8", *source.command[1:]],  # not a fork of a warm process
        cwd=ROOT,
        env={**os.environ, "ASSAY_HOME": str(source.home.root)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return used.ru_maxrss / 1000


def test_decompression_bombs_are_failed_pages_and_take_no_memory(tmp_path):
    with serving() as site:
        kinds = bombs()
        names = [f"/bomb-{number}" for number in range(len(kinds))]
        site["/"] = Reply(index(*names, "/good", "/map.gz"))
        for name, (encoding, body) in zip(names, kinds.items(), strict=True):
            assert len(body) < 110_000
            site[name] = Reply(body, headers={"Content-Encoding": encoding})
        site["/map.gz"] = Reply(kinds["gzip"], "application/gzip")
        site["/good"] = Reply(gzip.compress(article("Good").encode()), headers={"Content-Encoding": "gzip"})
        site["/alone"] = Reply(article("Alone"))
        usual = peak(crawling(tmp_path, "usual", spider="news", start=[site.url("/alone")]))
        source = crawling(tmp_path, spider="news", start=[site.url("/")], limits={"page_bytes": LIMIT})
        most = peak(source)
        pages = {url.removeprefix(site.base): page["reason"] for url, page in source.pages().items()}
    assert len(kinds["gzip, gzip"]) < 10_000
    assert pages == {**dict.fromkeys([*names, "/map.gz"], UNPACKED), "/good": None}
    assert most - usual < 40


def test_links_and_redirects_keep_to_domains_and_patterns(tmp_path):
    with serving() as site:
        port = site.base.rpartition(":")[2]
        here, there = f"http://localhost:{port}", f"http://127.0.0.1:{port}"
        links = [
            "/docs/a",
            "/docs/old/b",
            "/shop/c",
            "/docs/moved",
            "/docs/away",
            "/docs/out",
            f"{there}/docs/d",
        ]
        site["/"] = Reply(status=302, headers={"Location": "/welcome"})  # a start URL need not match `allow`
        site["/welcome"] = Reply(index(*links))
        for path in ("/docs/a", "/docs/old/b", "/shop/c", "/docs/d", "/docs/old/e", "/shop/f"):
            site[path] = Reply(article(path))
        site["/docs/moved"] = Reply(status=301, headers={"Location": "/docs/old/e"})
        site["/docs/away"] = Reply(status=301, headers={"Location": "/shop/f"})
        site["/docs/out"] = Reply(status=301, headers={"Location": f"{there}/docs/d"})
        source = crawling(
            tmp_path,
            spider="news",
            start=[f"{here}/"],
            domains=["localhost"],
            allow=["/docs/"],
            deny=["/old/"],
        )
        source.run()
        paths = site.paths()
    assert sorted(paths) == ["/", "/docs/a", "/docs/away", "/docs/moved", "/docs/out", "/welcome"]
    assert {url.removeprefix(here): page["reason"] for url, page in source.pages().items()} == {
        "/docs/a": None,
        "/docs/moved": "redirects to what `deny` forbids",
        "/docs/away": "redirects to what `allow` does not name",
        "/docs/out": "redirects to another host: 127.0.0.1",
    }


@pytest.mark.parametrize("unsized", [False, True])
def test_the_limit_of_bytes_counts_bodies_that_are_refused_too(tmp_path, unsized):
    with serving() as site:
        site["/"] = Reply(index(*(f"/{number}" for number in range(40))))
        for number in range(40):
            site[f"/{number}"] = Reply(article(str(number), text="x" * 20_000), unsized=unsized)
        limits = {"bytes": 100_000, "page_bytes": 15_000 if unsized else 50_000}
        source = crawling(tmp_path, spider="news", start=[site.url("/")], delay=0.001, limits=limits)
        row = source.run()
        asked = len(site.paths())
    assert row["outcome"] == "limit: 100000 bytes"
    assert 5 <= asked < 20


def test_a_head_without_end_is_given_up_and_many_small_ones_are_not(tmp_path):
    with serving() as site:
        site["/"] = Reply(index("/endless", *(f"/{number}" for number in range(40))))
        site["/endless"] = Reply(article("A"), headers={f"X-{n}": "x" * 10_000 for n in range(300)})
        for number in range(40):  # on one connection, together more than the limit
            site[f"/{number}"] = Reply(
                article(str(number)), headers={f"X-{n}": "x" * 10_000 for n in range(4)}
            )
        row = crawling(tmp_path, spider="news", start=[site.url("/")], delay=0.001).run()
    assert (row["new"], row["failed"]) == (40, {"connection lost": 1})
