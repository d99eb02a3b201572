"""No crawl reaches a private address, however it is written, named or redirected to."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest
from scrapy.resolver import dnscache
from twisted.internet.address import IPv4Address, IPv6Address

from rag_assay.crawlers.download_handlers import GuardedResolver, is_public
from tests.fakes.crawling import ROOT, crawling
from tests.fakes.site import Reply, article, index, serving

PRIVATE = [
    "127.0.0.1", "127.8.9.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
    "0.0.0.0",  # noqa: S104 (nothing is bound to it)
    "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255", "192.0.2.1", "198.18.0.1",
    "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12::1", "fec0::1", "ff02::1", "ff0e::1",
    "2001:db8::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::127.0.0.1", "2002:7f00:1::",
    "2002:a00:1::",
    "not an address",
]  # fmt: skip
PUBLIC = ["93.184.215.14", "1.1.1.1", "2606:4700:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"]


@pytest.mark.parametrize("address", PRIVATE)
def test_what_is_not_public(address):
    assert not is_public(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_what_is(address):
    assert is_public(address)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "127.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
    ],
)
def test_a_start_url_on_loopback_is_refused_in_any_form(tmp_path, host):
    with serving() as site:
        port = site.base.rpartition(":")[2]
        url = f"http://{host}:{port}/"
        site["/"] = Reply(article("Private"))
        source = crawling(tmp_path, spider="news", start=[url], allow_private=False)
        row = source.run()
        (reason,) = row["failed"]
        assert site.asked == []  # robots.txt neither
    assert reason.startswith("not a public address: ")
    assert reason.endswith("(`allow_private` allows it)")
    assert row["failed"][reason] == 1
    assert source.pages()[url]["reason"] == reason


def test_loopback_is_crawled_where_the_source_allows_it(tmp_path):
    with serving() as site:
        site["/"] = Reply(article("Private"))
        row = crawling(tmp_path, spider="news", start=[site.url("/")]).run()
    assert row["new"] == 1


def test_no_proxy_of_the_environment_goes_around_the_check(tmp_path, monkeypatch):
    with serving() as proxy:
        monkeypatch.setenv("http_proxy", proxy.base)
        row = crawling(tmp_path, spider="news", start=["http://localhost:9/"], allow_private=False).run()
        assert proxy.asked == []
    (reason,) = row["failed"]
    assert reason.startswith("not a public address: ")
    assert "The proxy of the environment is not used" in row["stderr"]


# A name server for a child process: each name has its addresses, the last of which stays.
NAMES = """
import os, socket
real = socket.getaddrinfo
def fake(host, port, *args, **options):
    if host == "outside.example":
        host = "127.0.0.1"
    return real(host, port, *args, **options)
socket.getaddrinfo = fake
import rag_assay.crawlers.download_handlers as addresses
checked = addresses.is_public
addresses.is_public = lambda address: address == "127.0.0.1" or checked(address)
"""


@pytest.fixture
def one_address_is_public(tmp_path, monkeypatch):
    """In the crawling process 127.0.0.1 counts as public, and 127.0.0.2 does not."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(NAMES)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), str(ROOT / "src"), str(ROOT)]))


def test_redirects_and_links_to_private_addresses_are_refused(tmp_path, one_address_is_public):
    with serving() as site:
        port = site.base.rpartition(":")[2]
        site["/"] = Reply(index("/moved", f"http://127.0.0.2:{port}/linked"))
        site["/moved"] = Reply(status=302, headers={"Location": f"http://127.0.0.2:{port}/secret"})
        for path in ("/secret", "/linked"):
            site[path] = Reply(article("Secret"))
        source = crawling(
            tmp_path,
            spider="news",
            start=[f"http://outside.example:{port}/"],
            domains=["outside.example", "127.0.0.2"],
            allow_private=False,
        )
        row = source.run()
        paths = site.paths()
    assert sorted(paths) == ["/", "/moved"]
    assert row["failed"] == {"not a public address: 127.0.0.2 (`allow_private` allows it)": 2}
    assert {one["reason"] for one in source.pages().values()} == set(row["failed"])


def test_a_redirect_of_robots_txt_to_a_private_address_is_not_followed(tmp_path, one_address_is_public):
    with serving() as site:
        port = site.base.rpartition(":")[2]
        site["/robots.txt"] = Reply(status=302, headers={"Location": f"http://127.0.0.2:{port}/robots-there"})
        site["/"] = Reply(article("A"))
        crawling(
            tmp_path,
            spider="news",
            start=[f"http://outside.example:{port}/"],
            domains=["outside.example", "127.0.0.2"],
            allow_private=False,
        ).run()
        assert "/robots-there" not in site.paths()


class _Names:
    """A name server whose answers are scripted, as Twisted's resolver."""

    def __init__(self, *answers):
        self.answers = list(answers)

    def resolveHostName(self, receiver, host, port=0, *_):  # noqa: N802
        receiver.resolutionBegan(None)
        for address in self.answers.pop(0):
            kind = IPv6Address if ":" in address else IPv4Address
            receiver.addressResolved(kind("TCP", address, port))
        receiver.resolutionComplete()


class _Heard:
    def __init__(self):
        self.addresses = []
        self.done = False

    def resolutionBegan(self, _):  # noqa: N802
        pass

    def addressResolved(self, address):  # noqa: N802
        self.addresses.append(address.host)

    def resolutionComplete(self):  # noqa: N802
        self.done = True


def look_up(resolver, host="x.example"):
    heard = _Heard()
    resolver.resolveHostName(heard, host, 80)
    assert heard.done
    return heard.addresses


@pytest.mark.parametrize("cached", [0, 100])
def test_a_name_that_turns_to_a_private_address_gives_none(cached):
    dnscache.clear()
    names = _Names(["1.1.1.1"], ["127.0.0.1"])
    resolver = GuardedResolver(SimpleNamespace(nameResolver=names), cached, allow_private=False)
    assert look_up(resolver) == ["1.1.1.1"]
    assert look_up(resolver) == (["1.1.1.1"] if cached else [])  # the cache has the checked one only
    dnscache.clear()


def test_of_several_addresses_the_public_ones_are_given():
    dnscache.clear()
    names = _Names(["10.0.0.1", "1.1.1.1", "fe80::1"], ["::1"], ["::1"])
    resolver = GuardedResolver(SimpleNamespace(nameResolver=names), 0, allow_private=False)
    assert look_up(resolver) == ["1.1.1.1"]
    assert look_up(resolver, "y.example") == []
    assert resolver.refused["y.example"] == "::1"
    private = GuardedResolver(SimpleNamespace(nameResolver=names), 0, allow_private=True)
    assert look_up(private, "z.example") == ["::1"]
    dnscache.clear()
