"""The sample sites over real loopback HTTP: every route of every site, and what is no route."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest

from rag_assay.crawlers.sample_site.server import FOLDER, SITES, as_sent, load, serve

ROUTES: dict[str, dict[str, Any]] = {
    host: json.loads((FOLDER / folder / "routes.json").read_text(encoding="utf-8"))
    for host, folder in SITES.items()
}
ALL = [(host, path) for host, routes in ROUTES.items() for path in routes]
PAGES = [
    (host, path) for host, path in ALL if ROUTES[host][path].get("content_type", "").startswith("text/html")
]
BLOG = "blog.sample.example"


@dataclass(frozen=True)
class Reply:
    """What came back: header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


def ask(base: str, target: str, method: str = "GET", headers: dict[str, str] | None = None) -> Reply:
    """Send one request with the target exactly as it is given, and follow nothing."""
    connection = HTTPConnection(urlsplit(base).netloc, timeout=10)
    try:
        return exchange(connection, target, method, headers)
    finally:
        connection.close()


def exchange(
    connection: HTTPConnection, target: str, method: str = "GET", headers: dict[str, str] | None = None
) -> Reply:
    connection.request(method, target, headers=headers or {})
    response = connection.getresponse()
    body = response.read()
    return Reply(response.status, {name.lower(): value for name, value in response.getheaders()}, body)


def at(host: str, path: str) -> str:
    return f"/{host}{as_sent(path)}"


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with serve() as url:
        yield url


class Links(HTMLParser):
    """Collects what a page links to or embeds."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if name in {"href", "src"} and value is not None]


def text(host: str, path: str) -> str:
    """Return a file as text; a page may lie about its charset, as some do, but URLs are ASCII."""
    file = FOLDER / SITES[host] / ROUTES[host][path]["file"]
    return file.read_text(encoding="utf-8", errors="replace")


def internal_links(host: str, path: str) -> set[tuple[str, str]]:
    """Return the links of a page that stay within the sample sites, as host and path with query."""
    links = Links()
    links.feed(text(host, path))
    split = [urlsplit(urljoin(f"https://{host}{path}", link)) for link in links.found]
    return {
        (url.netloc, (url.path or "/") + (f"?{url.query}" if url.query else ""))
        for url in split
        if url.netloc in SITES
    }


@pytest.mark.parametrize("host", SITES)
def test_every_route_is_answered_as_it_says_by_each_form_of_request(base: str, host: str) -> None:
    for path, route in ROUTES[host].items():
        where = f"{host}{path}"
        reply = ask(base, at(host, path))
        assert int(reply.headers["content-length"]) == len(reply.body), where
        if "file" in route:
            assert reply.status == 200, where
            assert reply.headers["content-type"] == route["content_type"], where
            assert reply.body == (FOLDER / SITES[host] / route["file"]).read_bytes(), where
        elif "redirect" in route:
            assert (reply.status, reply.headers["location"]) == (301, as_sent(route["redirect"])), where
            assert reply.headers["location"].startswith("/"), where
            assert route["redirect"] in ROUTES[host], where
        else:
            assert reply.status == route["status"], where
        head = ask(base, at(host, path), "HEAD")
        assert head.body == b"", where
        assert (head.status, head.headers | {"date": ""}) == (reply.status, reply.headers | {"date": ""}), (
            where
        )
        by_header = ask(base, as_sent(path), headers={"Host": f"{host}:80"})
        assert (by_header.status, by_header.body) == (reply.status, reply.body), where


def test_every_internal_link_has_a_route() -> None:
    unknown = {
        page: links
        for page in PAGES
        if (links := {link for link in internal_links(*page) if link[1] not in ROUTES[link[0]]})
    }
    assert unknown == {}


@pytest.mark.parametrize("host", SITES)
def test_a_site_has_at_most_one_dead_link(host: str) -> None:
    links = {link for of, path in PAGES if of == host for link in internal_links(of, path)}
    assert len([link for link in links if ROUTES[link[0]][link[1]].get("status") == 404]) <= 1


@pytest.mark.parametrize("host", SITES)
def test_a_site_has_robots_and_a_sitemap_of_its_own_pages(host: str) -> None:
    robots, sitemap = text(host, "/robots.txt"), text(host, "/sitemap.xml")
    assert f"https://{host}/sitemap.xml" in robots
    listed = [loc.replace("&amp;", "&") for loc in re.findall(r"<loc>\s*(.*?)\s*</loc>", sitemap)]
    assert listed
    assert [loc for loc in listed if loc.removeprefix(f"https://{host}") not in ROUTES[host]] == []


@pytest.mark.parametrize("form", ["{}", "W/{}", '"other", {}', "*"])
def test_a_client_that_holds_the_page_gets_304(base: str, form: str) -> None:
    etag = ask(base, f"/{BLOG}/").headers["etag"]
    reply = ask(base, f"/{BLOG}/", headers={"If-None-Match": form.format(etag)})
    assert (reply.status, reply.headers["etag"], reply.body) == (304, etag, b"")


def test_a_client_that_holds_another_version_gets_the_page(base: str) -> None:
    reply = ask(base, f"/{BLOG}/", headers={"If-None-Match": '"0123456789abcdef"'})
    assert reply.status == 200
    assert reply.body


def test_pages_that_differ_have_etags_that_differ(base: str) -> None:
    bodies = {(reply := ask(base, at(*page))).headers["etag"]: reply.body for page in PAGES}
    assert len(bodies) == len(set(bodies.values())) == len({ask(base, at(*page)).body for page in PAGES})


def test_only_a_page_has_an_etag(base: str) -> None:
    reply = ask(base, f"/{BLOG}/no/such/page", headers={"If-None-Match": "*"})
    assert reply.status == 404
    assert "etag" not in reply.headers


@pytest.mark.parametrize(
    "target",
    [
        f"/{BLOG}/no/such/page",
        f"/{BLOG}/?page=99",
        f"/{BLOG}/routes.json",
        f"/{BLOG}/pages/index.html",
        f"/{BLOG}/../server.py",
        f"/{BLOG}/../../server.py",
        f"/{BLOG}/%2e%2e/server.py",
        f"/{BLOG}/%2e%2e%2fserver.py",
        f"/{BLOG}/..%5cserver.py",
        f"/{BLOG}//etc/passwd",
        f"/{BLOG}/../energy/routes.json",
        "/../server.py",
        "/server.py",
        "/nobody.sample.example/",
        "/page/2/",
    ],
)
def test_what_is_no_route_is_not_found(base: str, target: str) -> None:
    reply = ask(base, target)
    assert reply.status == 404
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    assert b"404 Not Found" in reply.body
    assert len(reply.body) < 500


def test_the_prefix_counts_before_the_host_header(base: str) -> None:
    reply = ask(base, f"/{BLOG}/page/2/", headers={"Host": "energy.sample.example"})
    assert reply.body == ask(base, f"/{BLOG}/page/2/").body


def test_a_host_that_is_none_of_ours_selects_no_site(base: str) -> None:
    assert ask(base, "/page/2/", headers={"Host": "elsewhere.example"}).status == 404


def test_the_base_lists_the_sites(base: str) -> None:
    reply = ask(base, "/")
    assert reply.status == 200
    for host in SITES:
        assert f'href="/{host}/"'.encode() in reply.body
        assert ask(base, f"/{host}/").body == ask(base, f"/{host}").body


def test_one_connection_carries_many_requests(base: str) -> None:
    connection = HTTPConnection(urlsplit(base).netloc, timeout=10)
    etag = exchange(connection, f"/{BLOG}/").headers["etag"]
    socket = connection.sock
    assert exchange(connection, f"/{BLOG}/", "HEAD").status == 200
    assert exchange(connection, f"/{BLOG}/", headers={"If-None-Match": etag}).status == 304
    assert exchange(connection, f"/{BLOG}/no/such/page").status == 404
    assert exchange(connection, f"/{BLOG}/page/2/").status == 200
    assert connection.sock is socket
    connection.close()


def test_other_methods_are_refused(base: str) -> None:
    assert ask(base, f"/{BLOG}/", "POST").status == 501


def test_the_server_ends_with_its_context() -> None:
    with serve() as url:
        assert ask(url, "/").status == 200
    with pytest.raises(ConnectionError):
        ask(url, "/")


def test_two_servers_run_side_by_side(base: str) -> None:
    with serve() as other:
        assert other != base
        assert ask(other, f"/{BLOG}/").body == ask(base, f"/{BLOG}/").body


def test_nothing_is_logged(capfd: pytest.CaptureFixture[str]) -> None:
    with serve() as url:
        ask(url, f"/{BLOG}/")
        ask(url, f"/{BLOG}/no/such/page")
        ask(url, f"/{BLOG}/", "POST")
    assert capfd.readouterr() == ("", "")


def test_a_route_to_a_file_outside_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    site = tmp_path / "site"
    site.mkdir()
    route = {"file": "../secret.txt", "content_type": "text/plain"}
    (site / "routes.json").write_text(json.dumps({"/": route}))
    with pytest.raises(ValueError, match="outside the site's folder"):
        load(site)


def test_a_path_that_is_not_ascii_is_answered_as_it_is_sent(tmp_path: Path) -> None:
    (tmp_path / "routes.json").write_text(json.dumps({"/prüfung/?q=ä": {"status": 410}}), encoding="utf-8")
    assert list(load(tmp_path)) == ["/pr%C3%BCfung/?q=%C3%A4"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_until_it_is_interrupted(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "rag_assay.crawlers.sample_site.server", "--port", "0"]
    root = Path(__file__).parents[3]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=root, stdout=pipe, stderr=pipe, text=True) as child:
        assert child.stdout is not None
        url = child.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", url)
        assert ask(url, f"/{BLOG}/").status == 200
        child.send_signal(number)
        rest, errors = child.communicate(timeout=20)
    assert (child.returncode, rest, errors) == (0, "", "")
