"""Pages of scripts, logins, traps and sitemaps: real crawls of loopback sites, with a real Chromium."""

from __future__ import annotations

import base64
import calendar
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from parsel import Selector

from rag_assay.crawlers.traps import footprint, is_like
from rag_assay.warehouse.pages import read_body
from tests.fakes.crawling import Crawling, crawling
from tests.fakes.site import Reply, Site, article, serving

TEXT = "The ferry leaves the harbour at noon and carries nineteen cars to the island, in winter too."
SHELL = (
    "<!DOCTYPE html><html><head><title>App</title></head><body><noscript>You need to enable JavaScript to "
    'run this app.</noscript><div id="root"></div><script src="/app.js"></script></body></html>'
)
APP = """
fetch("/api/pages.json").then((answer) => answer.json()).then((pages) => {
  document.getElementById("root").innerHTML =
    `<main><h1>Timetable</h1><p>${pages.text}</p><ul><li>north</li></ul><a href="/other">more</a></main>`;
});
"""
needs_chromium = pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no `chromium` here")


def body_of(crawl: Crawling, url: str) -> str:
    return read_body(crawl.home, crawl.pages()[url]["sha256"]).decode()


@pytest.fixture
def app() -> Any:
    with serving() as site:
        site["/"] = Reply(SHELL, etag='"shell"')
        site["/app.js"] = Reply(APP, "text/javascript")
        site["/api/pages.json"] = Reply(f'{{"text": "{TEXT}"}}', "application/json")
        site["/other"] = Reply(SHELL)
        yield site


# -------------------------------------------------------------------------------------------- rendering


@needs_chromium
def test_a_page_of_scripts_is_rendered_and_its_links_are_followed(tmp_path: Path, app: Site) -> None:
    crawl = crawling(tmp_path, spider="site", start=[app.url("/")])
    row = crawl.run()
    assert (row["new"], row["failed"]) == (2, {})
    page = crawl.pages()[app.url("/")]
    assert page["fields"]["rendered"] is True
    assert page["etag"] is None, "the shell's, which does not change with what its scripts fetch"
    html = body_of(crawl, app.url("/"))
    assert TEXT in html
    assert "<h1>Timetable</h1>" in html
    asked = app.paths()
    assert asked.count("/") == 1, "the browser gets the page that was downloaded"
    assert asked.count("/app.js") == 1, "pages share their scripts"
    assert {one.headers["User-Agent"] for one in app.asked} == {"rag-assay/0.1"}
    app["/api/pages.json"] = Reply('{"text": "Another text, of the next day."}', "application/json")
    assert crawl.run()["changed"] == 2


def test_a_page_of_scripts_that_is_not_rendered_says_so(tmp_path: Path, app: Site) -> None:
    app["/message"] = Reply(
        "<body><script>x()</script><p>You need to enable JavaScript to run this app.</p></body>"
    )
    app["/plain"] = Reply(f"<body><script>x()</script><p>{TEXT} It needs no JavaScript.</p></body>")
    start = [app.url(path) for path in ("/", "/message", "/plain")]
    crawl = crawling(tmp_path, spider="site", start=start, render="never")
    row = crawl.run()
    assert row["failed"] == {"scripts only: `render: auto` runs them in a browser": 2}
    assert row["new"] == 1
    assert not {"/app.js", "/api/pages.json"} & set(app.paths())


@needs_chromium
def test_hostile_scripts_reach_no_other_host_and_end(tmp_path: Path, app: Site) -> None:
    with serving() as other:
        other["/secret"] = Reply("private", headers={"Access-Control-Allow-Origin": "*"})
        app["/app.js"] = Reply(
            f"""
            const seen = [];
            const places = ["{other.base.replace("127.0.0.1", "localhost")}/secret", "file:///etc/passwd",
                            "/away", "http://169.254.169.254/latest"];
            Promise.allSettled(places.map((one) => fetch(one).then((found) => found.text()))).then((all) => {{
              document.getElementById("root").innerHTML = "<p>" + all.map((one) => one.status).join(" ") +
                " and the harbour is quiet tonight</p>";
            }});
            new Image().src = "{other.base.replace("127.0.0.1", "localhost")}/image";
            new WebSocket("{other.base.replace("http", "ws")}/socket");
            fetch("/form", {{method: "POST", body: "x"}}).catch(() => 0);
            navigator.sendBeacon("/beacon", "x");
            """,
            "text/javascript",
        )
        app["/away"] = Reply(
            "", status=302, headers={"Location": other.base.replace("127.0.0.1", "localhost")}
        )
        app["/endless"] = Reply('<body><div id="root"></div><script>while (true) {}</script></body>')
        app["/after"] = Reply(SHELL)
        start = [app.url(path) for path in ("/", "/endless", "/after")]
        crawl = crawling(tmp_path, spider="site", start=start)
        row = crawl.run()
        assert other.asked == []
        assert "rejected rejected rejected rejected" in body_of(crawl, app.url("/"))
        assert not {"/form", "/beacon"} & set(app.paths()), "a crawl sends nothing"
        assert row["failed"] == {"scripts only: rendering takes longer than 20 seconds": 1}
        assert row["new"] == 2


@needs_chromium
def test_what_scripts_ask_for_keeps_to_robots_and_to_the_size_of_a_page(tmp_path: Path, app: Site) -> None:
    app["/robots.txt"] = Reply("User-agent: *\nDisallow: /api/\n", "text/plain")
    app["/bomb"] = Reply(
        '<body><div id="root"></div><script>document.getElementById("root").innerHTML = '
        '"<p>bomb</p>".repeat(20000);</script></body>'
    )
    start = [app.url("/"), app.url("/bomb")]
    crawl = crawling(tmp_path, spider="site", start=start, limits={"page_bytes": 100_000})
    assert crawl.run()["failed"] == {
        "scripts only: and nothing else after they have run": 1,
        "scripts only: larger than 100000 bytes when rendered": 1,
    }
    assert "/api/pages.json" not in app.paths()


# -------------------------------------------------------------------------------------------- logins

USER, PASSWORD = "ann", "correct-horse-battery"
SECRETS = {"SITE_USER": USER, "SITE_PASSWORD": PASSWORD, "SITE_TOKEN": "token-of-test-7f3a"}


def assert_nowhere(folder: Path, *secrets: str) -> None:
    """No file below a folder holds a secret, in no form."""
    pair = base64.b64encode(f"{USER}:{PASSWORD}".encode())
    for path in folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            for secret in (*(one.encode() for one in secrets), pair):
                assert secret not in data, path


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)


def test_basic_authentication_headers_and_cookies_go_to_one_host_alone(tmp_path: Path, secrets: None) -> None:
    with serving() as site, serving() as other:
        site["/"] = Reply(article("Home", "/away", "/page", other.base + "/linked"))
        site["/page"] = Reply(article("Page"), headers={"Set-Cookie": "seen=yes; Path=/"})
        site["/away"] = Reply("", status=302, headers={"Location": other.base + "/target"})
        other["/target"] = Reply(article("Target"))
        other["/linked"] = Reply(article("Linked"))
        login = {
            "basic": {"user": "SITE_USER", "password": "SITE_PASSWORD"},
            "headers": {"X-Token": "SITE_TOKEN"},
            "cookies": {"session": "SITE_TOKEN"},
        }
        crawl = crawling(tmp_path, spider="site", start=[site.base + "/"], login=login)
        row = crawl.run()
        assert row["new"] == 4
        sent = {one.path: one.headers for one in site.asked}
        for path in ("/robots.txt", "/", "/page", "/away"):
            assert sent[path]["Authorization"].startswith("Basic "), path
            assert (sent[path]["X-Token"], "session=token-of-test-7f3a" in sent[path]["Cookie"]) == (
                SECRETS["SITE_TOKEN"],
                True,
            )
        assert {one.path for one in other.asked} >= {"/target", "/linked"}
        for one in other.asked:
            assert not {"Authorization", "X-Token", "Cookie"} & one.headers.keys(), one.path
        assert_nowhere(tmp_path, PASSWORD, SECRETS["SITE_TOKEN"])
        assert PASSWORD not in row["stdout"] + row["stderr"]


FORM = (
    '<form action="/enter" method="post"><input type="hidden" name="token" value="h1"><input name="user">'
    '<input type="password" name="password"></form>'
)
WHOLE_FORM = FORM.replace(
    "</form>",
    '<select name="realm"><option>guests<option selected>staff</select>'
    '<input type="checkbox" name="stay" checked><input type="checkbox" name="other">'
    '<button name="enter" value="1">Enter</button></form>',
)
ENTERED = {"realm": ["staff"], "stay": ["on"], "enter": ["1"]}


def test_a_form_is_sent_once_and_its_session_shows_the_pages(
    tmp_path: Path, secrets: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving() as site:
        site["/login"] = Reply(f"<body>{WHOLE_FORM}</body>")
        site.forms["/enter"] = lambda form: (
            Reply("", status=302, headers={"Location": "/", "Set-Cookie": "sid=s3ss10n; HttpOnly"})
            if parse_qs(form) == {"token": ["h1"], "user": [USER], "password": [PASSWORD], **ENTERED}
            else Reply(f"<body>Wrong. {FORM}</body>")
        )
        site["/"] = Reply(article("Home", "/page"), needs_cookie="sid=s3ss10n")
        site["/page"] = Reply(article("Page", text=TEXT), needs_cookie="sid=s3ss10n")
        form = {"url": site.url("/login"), "fields": {"user": "SITE_USER", "password": "SITE_PASSWORD"}}
        crawl = crawling(tmp_path, spider="site", start=[site.url("/")], login={"form": form})
        row = crawl.run()
        assert (row["new"], row["failed"]) == (2, {})
        assert site.paths().count("/enter") == 1
        assert_nowhere(tmp_path, PASSWORD, "s3ss10n")

        monkeypatch.setenv("SITE_PASSWORD", "wrong-password")
        site.forget()
        wrong = crawling(tmp_path, "wrong", spider="site", start=[site.url("/")], login={"form": form})
        process = wrong.start()
        _, err = process.communicate(timeout=120)
        assert process.returncode == 1
        assert "asks for the password again: are the values of the variables right?" in err
        assert "wrong-password" not in err
        assert "/" not in site.paths(), "nothing is crawled as a stranger"


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("<body>no form</body>", "has no form with a password"),
        ('<form method="post" action="https://evil.example/"><input type="password" name="password">'
         '<input name="user"></form>', "sends to evil.example, not to its own host"),
        (FORM.replace('method="post"', ""), "would put the password into an address (method GET)"),
        (FORM.replace('name="user"', 'name="mail"'), "has no field user; it has token, mail, password"),
    ],
)  # fmt: skip
def test_a_form_that_cannot_be_sent_ends_the_crawl(
    tmp_path: Path, secrets: None, page: str, words: str
) -> None:
    with serving() as site:
        site["/login"] = Reply(page)
        form = {"url": site.url("/login"), "fields": {"user": "SITE_USER", "password": "SITE_PASSWORD"}}
        crawl = crawling(tmp_path, spider="site", start=[site.url("/")], login={"form": form})
        process = crawl.start()
        _, err = process.communicate(timeout=120)
        assert process.returncode == 1
        assert words in err
        assert "/enter" not in site.paths()


def test_a_form_whose_answer_sends_the_body_on_to_another_port_ends_the_crawl(
    tmp_path: Path, secrets: None
) -> None:
    with serving() as site, serving() as other:
        got: list[str] = []
        site["/login"] = Reply(f"<body>{FORM}</body>")
        site.forms["/enter"] = lambda _: Reply("", status=307, headers={"Location": other.url("/stolen")})
        other.forms["/stolen"] = lambda form: got.append(form) or Reply("thanks")
        form = {"url": site.url("/login"), "fields": {"user": "SITE_USER", "password": "SITE_PASSWORD"}}
        crawl = crawling(tmp_path, spider="site", start=[site.url("/")], login={"form": form})
        process = crawl.start()
        _, err = process.communicate(timeout=120)
        assert got == []
        assert process.returncode == 1
        assert "would send the password on to" in err


def test_a_login_whose_variable_is_not_set_is_wrong_input(tmp_path: Path) -> None:
    login = {"headers": {"X-Token": "NO_SUCH_VARIABLE_HERE"}}
    crawl = crawling(tmp_path, spider="site", start=["http://127.0.0.1:9/"], login=login)
    process = crawl.start()
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "login: the environment variable NO_SUCH_VARIABLE_HERE is not set" in err


# -------------------------------------------------------------------------------------------- traps, sitemaps


def test_an_endless_calendar_gives_three_documents_at_most(tmp_path: Path) -> None:
    months = list(calendar.month_name)[1:]

    def page(number: int) -> str:
        year, month = divmod(number, 12)
        days = " ".join(map(str, range(1, 29)))
        title = f"{months[month]} {year}"
        return (
            f"<html><head><title>{title}</title></head><body><h1>Events in {title}</h1>"
            f"<p>There are no events in this month. Ask the harbour office for more.</p><p>{days}</p>"
            f'<a href="/calendar?m={number - 1}&view=month">before</a>'
            f'<a href="/calendar?m={number + 1}&view=month">after</a></body></html>'
        )

    with serving() as site:
        site["/"] = Reply(article("Home", "/calendar", *(f"/berths/{n}" for n in range(1, 7)), text=TEXT))
        site["/calendar"] = Reply(page(24_000))
        for number in range(23_900, 24_100):
            site[f"/calendar?m={number}&view=month"] = Reply(page(number))
        for n in range(1, 7):  # alike, but a list names them: no trap
            site[f"/berths/{n}"] = Reply(
                article(f"Berth {n}", text=f"Berth {n} costs {n * 7} pounds a week.")
            )
        crawl = crawling(tmp_path, spider="site", start=[site.url("/")])
        row = crawl.run()
        stored = {url: row for url, row in crawl.pages().items() if row["sha256"]}
        assert len([url for url in stored if "/calendar" in url]) <= 3
        assert len([url for url in stored if "/berths/" in url]) == 6
        assert all(reason.startswith("trap: it differs from ") for reason in row["failed"])
        assert len(site.paths()) < 15


def test_pages_of_products_under_a_large_menu_are_no_trap() -> None:
    menu = " ".join(f"{chr(97 + i % 26)}{chr(97 + i // 26)}entry" for i in range(600))
    texts = (
        "The red kettle boils a litre of water in three minutes and is made of steel.",
        "Our blue lamp lights a desk for readers and is sold with a bulb of glass.",
        "Our blue lamp lights a desk for readers and is sold with 2 bulbs of glass.",
    )
    kettle, lamp, again = (
        footprint(Selector(text=f"<body><div>{menu}</div><p>{text}</p></body>"), f"https://a.example/p/{n}")
        for n, text in enumerate(texts)
    )
    assert not is_like(lamp, kettle)
    assert is_like(again, lamp)


def test_sitemap_only_stores_what_lists_name_and_nothing_else(tmp_path: Path) -> None:
    with serving() as site:
        urls = "".join(f"<url><loc>{site.url(f'/listed/{n}')}</loc></url>" for n in range(3))
        space = "http://www.sitemaps.org/schemas/sitemap/0.9"
        site["/"] = Reply(article("Home", "/linked", "/listed/0"))
        site["/sitemap.xml"] = Reply(f'<urlset xmlns="{space}">{urls}</urlset>', "application/xml")
        for n in range(3):
            site[f"/listed/{n}"] = Reply(article(f"Listed {n}", "/linked", text=f"{TEXT} {n}"))
        site["/linked"] = Reply(article("Linked"))
        crawl = crawling(tmp_path, spider="site", start=[site.url("/")], sitemap_only=True)
        crawl.run()
        assert set(crawl.pages()) == {site.url("/"), *(site.url(f"/listed/{n}") for n in range(3))}
        assert "/linked" not in site.paths()


def test_each_host_may_have_a_selector_of_its_own(tmp_path: Path) -> None:
    with serving() as site:
        port = site.base.rpartition(":")[2]
        here, there = f"http://127.0.0.1:{port}/a", f"http://localhost:{port}/a"
        site["/a"] = Reply(f'<body><div class="one">{TEXT}</div></body>')
        content = {"127.0.0.1": "div.one", "localhost": "div.two"}
        crawl = crawling(tmp_path, spider="site", start=[here, there], content=content)
        crawl.run()
        fields = {url: row["fields"].get("content") for url, row in crawl.pages().items() if row["sha256"]}
        assert fields == {here: "div.one"}
