"""Packed bodies that end early: half a page is not a page, whatever it is packed with."""

import gzip
import zlib

import brotli
import pytest
import zstandard

from rag_assay.crawlers.spiders.base import TRUNCATED, ends_early
from tests.fakes.crawling import crawling
from tests.fakes.site import Reply, article, index, serving

PAGE = article(
    "Story", text="".join(f"Sentence {n} of a long story about harbours. " for n in range(4000))
).encode()


def raw_deflate(data):
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


PACKERS = {
    "gzip": gzip.compress,
    "x-gzip": lambda data: gzip.compress(data[:5000]) + gzip.compress(data[5000:]),
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.compress,
}


@pytest.mark.parametrize(
    ("encoding", "pack"), [*PACKERS.items(), ("deflate", raw_deflate)], ids=[*PACKERS, "raw deflate"]
)
def test_only_a_cut_body_ends_early(encoding, pack):
    whole = pack(PAGE)
    assert not ends_early(whole, encoding)
    for cut in (len(whole) // 3, len(whole) - 1 - (4 if encoding == "deflate" else 0)):
        assert ends_early(whole[:cut], encoding), cut


def test_what_servers_get_wrong_is_not_minded():
    whole = gzip.compress(PAGE)
    assert not ends_early(whole + b"\0\0\0", "gzip")
    assert not ends_early(whole[:-8] + bytes(8), "gzip")  # its sum
    assert not ends_early(b"plain", "gzip")
    assert not ends_early(PAGE, "identity")


@pytest.fixture
def site():
    with serving() as site:
        site["/"] = Reply(index(*(f"/{name}" for name in PACKERS)))
        yield site


def test_a_page_that_was_cut_is_asked_for_again_and_then_failed(tmp_path, site):
    for encoding, pack in PACKERS.items():
        whole = pack(PAGE.replace(b"Story", encoding.encode()))
        site[f"/{encoding}"] = Reply(whole[: len(whole) // 2], headers={"Content-Encoding": encoding})
    source = crawling(tmp_path, spider="news", start=[site.url("/")])
    row = source.run()
    assert (row["new"], row["failed"]) == (0, {TRUNCATED: len(PACKERS)})
    assert site.paths().count("/br") == 3
    for encoding, pack in PACKERS.items():
        whole = pack(PAGE.replace(b"Story", encoding.encode()))
        reply = Reply(whole, headers={"Content-Encoding": encoding})
        site[f"/{encoding}"] = reply
        site.once[f"/{encoding}"] = Reply(whole[: len(whole) // 2], headers={"Content-Encoding": encoding})
    row = source.run()
    assert (row["new"], row["failed"]) == (len(PACKERS), {}), "a passing fault of the line"
    whole = {len(PAGE.replace(b"Story", encoding.encode())) for encoding in PACKERS}
    assert {page["size"] for page in source.pages().values()} == whole


def test_a_page_that_was_cut_replaces_no_whole_one_and_one_that_is_gone_is_gone(tmp_path, site):
    site["/"] = Reply(index("/a", "/b"))
    for path in ("/a", "/b"):
        site[path] = Reply(gzip.compress(PAGE), headers={"Content-Encoding": "gzip"})
    source = crawling(tmp_path, spider="news", start=[site.url("/")])
    source.run()
    cut = gzip.compress(PAGE)[:900]
    site["/a"] = Reply(cut, headers={"Content-Encoding": "gzip"})
    site["/b"] = Reply(cut, status=410, headers={"Content-Encoding": "gzip"})
    row = source.run()
    assert (row["failed"], row["gone"]) == ({TRUNCATED: 1}, 1)
    assert [page["size"] for page in source.pages().values()] == [len(PAGE)]


def test_a_packed_sitemap_that_was_cut_says_so(tmp_path, site):
    urls = "".join(f"<url><loc>{site.url(f'/{n}')}</loc></url>" for n in range(500))
    packed = gzip.compress(f'<?xml version="1.0"?><urlset>{urls}</urlset>'.encode())
    site["/map.xml.gz"] = Reply(packed[: len(packed) // 2], "application/gzip")
    source = crawling(tmp_path, spider="news", start=[site.url("/map.xml.gz")], limits={"pages": 5})
    assert source.run()["failed"][TRUNCATED] == 1
