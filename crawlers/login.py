"""Logs in to a site: sends secrets to one origin only, and keeps the cookies of the session."""

from __future__ import annotations

import os
from base64 import b64encode
from http.cookies import CookieError, SimpleCookie
from typing import Self
from urllib.parse import urlencode, urljoin, urlsplit

from parsel import Selector
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import HtmlResponse, Response

from rag_assay.crawlers.markup import content_type_of
from rag_assay.warehouse.errors import AssayError, InputError
from rag_assay.warehouse.pages import decode
from rag_assay.warehouse.source import Source, origin_of

_LOCKED_INPUT = ".//input[translate(@type, 'PASWORD', 'pasword') = 'password']"


class Credentials:
    """Headers, cookies and form values of a source's login. Raises InputError: a variable is unset."""

    def __init__(self, source: Source) -> None:
        login, self.origin = source.login, source.login_origin
        self.form: dict[str, str] = {}
        self._cookies: dict[str, str] = {}
        self._headers: dict[str, str] = {}
        if login is None:
            return
        if missing := sorted({name for name in login.variables() if not os.environ.get(name)}):
            raise InputError(f"login: the environment variable {', '.join(missing)} is not set")
        if login.basic is not None:
            pair = ":".join(os.environ[login.basic[part]] for part in ("user", "password"))
            self._headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        self._headers |= {name: os.environ[variable] for name, variable in login.headers.items()}
        self._cookies = {name: os.environ[variable] for name, variable in login.cookies.items()}
        if login.form is not None:
            self.form = {name: os.environ[variable] for name, variable in login.form.fields.items()}
        values = [*self._headers.values(), *self._cookies.values()]
        if not all(map(str.isprintable, values)) or any(";" in value for value in self._cookies.values()):
            raise InputError("login: a header or cookie holds a line break, control character or semicolon")

    @property
    def names(self) -> list[str]:
        return [*self._headers, "Cookie"]

    def apply(self, request: Request) -> None:
        for name in self.names:
            request.headers.pop(name, None)
        if origin_of(request.url) == self.origin:
            for name, value in self._headers.items():
                request.headers[name] = value
            if self._cookies:
                request.headers["Cookie"] = "; ".join(map("=".join, self._cookies.items()))

    def keep(self, response: Response) -> None:
        if origin_of(response.url) != self.origin:
            return
        for line in response.headers.getlist("Set-Cookie"):
            cookies: SimpleCookie = SimpleCookie()
            try:
                cookies.load(line.decode("latin-1"))
            except CookieError:
                continue
            for name, cookie in cookies.items():
                if cookie.value and cookie["max-age"] != "0":
                    self._cookies[name] = cookie.value
                else:
                    self._cookies.pop(name, None)


class OfCrawler:
    """What Scrapy makes once for a crawl: a middleware, an extension or a pipeline."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)


class LoginMiddleware(OfCrawler):
    """The last middleware before the network, so that no other middleware sees the secrets."""

    def process_request(self, request: Request) -> None:
        if (credentials := self._credentials()) is None:
            return
        if request.meta.get("login") and request.body and origin_of(request.url) != credentials.origin:
            # A redirect of status 307 or 308 sends the body again.
            raise IgnoreRequest(f"the answer to the form would send the password on to {request.url}")
        credentials.apply(request)

    def process_response(self, request: Request, response: Response) -> Response:
        if (credentials := self._credentials()) is not None:
            credentials.keep(response)
            for name in credentials.names:
                request.headers.pop(name, None)
        return response

    def _credentials(self) -> Credentials | None:
        found = getattr(self.crawler.spider, "credentials", None)
        return found if isinstance(found, Credentials) and found.origin else None


async def sign_in(crawler: Crawler, url: str, credentials: Credentials) -> None:
    """Raises AssayError: no such form, another origin, an error, or asked again."""
    page = await _fetched(crawler, Request(url, meta=_META, dont_filter=True))
    form = next(iter(page.selector.xpath(f"//form[{_LOCKED_INPUT}]")), None)
    if form is None:
        raise AssayError(f"login: {url} has no form with a password")
    fields = form.root  # lxml's
    action = urljoin(page.url, fields.get("action") or page.url)
    if origin_of(action) != credentials.origin:
        raise AssayError(
            f"login: the form of {url} sends to {urlsplit(action).hostname}, not to its own host"
        )
    known = list(dict.fromkeys(fields.fields.keys()))
    if absent := sorted(credentials.form.keys() - set(known)):
        raise AssayError(
            f"login: the form of {url} has no field {', '.join(absent)}; it has {', '.join(known)}"
        )
    if fields.method != "POST":
        raise AssayError(f"login: the form of {url} would put the password into an address (method GET)")
    others = [(name, value) for name, value in fields.form_values() if name not in credentials.form]
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    body = urlencode([*others, *_pressed(form), *credentials.form.items()])
    sent = Request(action, method="POST", body=body, headers=headers, meta=_META, dont_filter=True)
    answer = await _fetched(crawler, sent)
    if answer.selector.xpath(_LOCKED_INPUT):
        raise AssayError(f"login: {url} asks for the password again: are the values of the variables right?")


def _pressed(form: Selector) -> list[tuple[str, str]]:
    """Return name and value of the button that the key Enter presses (HTML, "Implicit submission")."""
    buttons = form.xpath(".//input[@type='submit'] | .//button[not(@type) or @type='submit']")[:1]
    return [(one.attrib["name"], one.attrib.get("value", "")) for one in buttons if "name" in one.attrib]


_META = {"login": True, "unconditional": True}


async def _fetched(crawler: Crawler, request: Request) -> HtmlResponse:
    assert crawler.engine is not None  # noqa: S101 (it runs)
    try:
        response = await crawler.engine.download_async(request.replace(meta=dict(request.meta)))
    except Exception as error:
        raise AssayError(
            f"login: {request.url} cannot be reached ({type(error).__name__}: {error})"
        ) from error
    if response.status != 200:
        raise AssayError(f"login: {request.url} answers with status {response.status}")
    text = decode(response.body, content_type_of(response.headers))[0]
    return HtmlResponse(response.url, body=text.encode(), encoding="utf-8")
