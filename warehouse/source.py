"""A source as a study file defines it: where documents come from, and limits of its crawl."""

from __future__ import annotations

import re
from operator import not_
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    Field,
    JsonValue,
    ValidationInfo,
    create_model,
    field_validator,
    model_validator,
)

from rag_assay.warehouse.cron import check_cron
from rag_assay.warehouse.eurlex_notice import EURLEX, act_url
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.inference.chat_model import ChatModel
from rag_assay.warehouse.recipe import Strict, error_at
from rag_assay.warehouse.registry import BrokenComponentError
from rag_assay.warehouse.source_kinds import READERS, SPIDERS

Column = Literal["text", "title", "url", "id", "date"]

# What of a source makes it another one, `start` and `path` aside.
_ORIGIN = {
    *("spider", "reader", "options", "mirror", "content", "pdf", "lines", "columns"),
    *(f"{column}_column" for column in get_args(Column)),
}

_OF_SPIDERS = ("domains", "allow", "deny", "allow_private", "sitemap_only", "login")


# What only some sources know, by the spiders and readers that do.
_BELONGS: dict[str, tuple[str, ...]] = {
    "content": ("site",),
    "pdf": ("eurlex",),
    "lines": ("text",),
    "columns": ("folder", "jsonl", "table"),
    **dict.fromkeys((f"{column}_column" for column in get_args(Column)), ("table",)),
}


UNLIMITED = 2**53 - 1  # what no folder holds, and every JSON parser reads as it is


class CrawlLimits(Strict):
    """Bounds of one crawl; a crawl that meets one ends in good order and says so.

    The defaults are those of a spider. A reader reads all that its path holds: of it, `pages`, `seconds` and
    `bytes` are unlimited by default; `depth` has no effect.

    pages: stored or failed; ten times as many, and never under 1,000, may be followed only (sections, lists)
    depth: links from a start URL; the next page of the same list is no deeper
    seconds: from the first request on; an answer that is under way is waited for
    bytes: of all bodies together, as sent or read
    page_bytes: of one body, as sent and unpacked
    """

    pages: Annotated[int, Field(ge=1)] = 10_000
    depth: Annotated[int, Field(ge=1)] = 20
    seconds: Annotated[int, Field(ge=1)] = 4 * 3600
    bytes: Annotated[int, Field(ge=1024)] = 50_000_000_000
    page_bytes: Annotated[int, Field(ge=1024)] = 20_000_000


class DateBy(ChatModel):
    """The language model that is called for the date of a document if nothing else gives one."""


_Secret = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="an environment variable")]


class FormLogin(Strict):
    """A form that is sent once before the crawl.

    url: the page with the form
    fields: names of its fields, and of the environment variables with their values; other fields are sent as
        the page has them
    """

    url: str
    fields: Annotated[dict[str, _Secret], Field(min_length=1)]


class Login(Strict):
    """How the crawler logs in to a site. Each value is the name of an environment variable: the
    secret itself is read by the crawler alone, and sent to `host` alone.

    host: where it is sent to, by scheme and port of a start URL there; default: the host of all start URLs
    basic: user and password of HTTP Basic authentication, as `{user: NAME, password: NAME}`
    headers, cookies: names, with the variables of their values
    form: a login form
    """

    host: str | None = None
    basic: dict[Literal["user", "password"], _Secret] | None = None
    headers: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9-]+$")], _Secret] = Field(default_factory=dict)
    cookies: dict[Annotated[str, Field(pattern=r"^[\w.-]+$")], _Secret] = Field(default_factory=dict)
    form: FormLogin | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not (self.basic or self.headers or self.cookies or self.form):
            raise ValueError("a login has `basic`, `headers`, `cookies` or a `form`")
        if self.basic is not None and len(self.basic) < 2:
            raise ValueError("`basic` needs the variables of both `user` and `password`")
        return self

    def variables(self) -> list[str]:
        form = self.form.fields if self.form else {}
        groups: tuple[dict[Any, str], ...] = (self.basic or {}, self.headers, self.cookies, form)
        return [name for group in groups for name in group.values()]


class Source(Strict):
    """Pages of a site (a spider and its start URLs) or of files (a reader and its path).

    spider: what crawls the site
    reader: what reads the files
    path: of a file or folder, from the study's folder; a URL for `git` and `bucket`
    language: of the documents, two letters; default: detected in each
    contact: goes into the user agent
    limits: of one crawl or reading
    options: parameters of a spider or reader that has some of its own (`assay components` lists them)
    start: URLs; for the spider `eurlex` CELEX numbers too, whose acts are fetched in `language` (default:
        English) at EUR-Lex, or at the first of `domains`
    pdf: ask for the PDF of an act too, and not only where it has no HTML; for the spider `eurlex`
    domains: hosts that are crawled, those below them included; default: the hosts of the start URLs
    allow: regular expressions; where there are any, a link is followed only if one is found in its URL
    deny: regular expressions; a link is not followed if one is found in its URL
    allow_private: connect to private, loopback and other addresses that are not public, and use the proxy of
        the environment, whose address hides where it connects to
    content: CSS selector of a page's text, for the spider `site`: pages without it are followed only. For
        several hosts, `{host: selector}`; a host that has none is read whole
    sitemap_only: store only pages that a sitemap or feed lists; links of pages are not followed
    render: `auto` runs pages that hold nothing but scripts in Chromium (extra `render`), `always` all pages;
        with `never`, such pages fail with that reason
    login: how the crawler logs in; values are names of environment variables (docs/documents.md)
    mirror: answer the requests for these hosts from the sample site, served on loopback by the crawl itself
    delay: seconds between two requests to one host
    lines: a passage a line, for the reader `text`
    columns: what the passages of `jsonl`, `table` and `folder` call text, title, url, id and date
    text_column, title_column, url_column, id_column, date_column: the same of one each, for `table`
    links: with `keep`, links of web pages are written as Markdown: `[text](address)`
    ocr: languages by which Tesseract reads scanned pages of PDFs: `eng`, `deu+eng`; default: they are not
    date_by: the language model that is called for a publication date if nothing else gives one; default: none
    schedule: cron expression of the re-crawl, in UTC; its Dagster schedule is off until somebody starts it
    """

    spider: str | None = None
    reader: str | None = None
    # An empty one changes no identity
    options: dict[str, JsonValue] = Field(default_factory=dict, exclude_if=not_)
    start: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    allow_private: bool = False
    content: str | dict[str, str] | None = None
    sitemap_only: Annotated[bool, Field(exclude_if=not_)] = False
    render: Annotated[
        Literal["auto", "always", "never"], Field(exclude_if=lambda render: render == "auto")
    ] = "auto"
    login: Annotated[Login | None, Field(exclude_if=not_)] = None
    pdf: bool = False
    path: str | None = None
    lines: bool = False
    columns: dict[Column, str] = Field(default_factory=dict)
    text_column: str | None = None
    title_column: str | None = None
    url_column: str | None = None
    id_column: str | None = None
    date_column: str | None = None
    mirror: Literal["sample_site"] | None = None
    language: Annotated[str, Field(pattern="^[a-z]{2}$")] | None = None
    links: Annotated[Literal["drop", "keep"], Field(exclude_if=lambda links: links == "drop")] = "drop"
    ocr: Annotated[str | None, Field(pattern=r"^\w+(\+\w+)*$", exclude_if=not_)] = None
    date_by: DateBy | None = None
    delay: Annotated[float, Field(ge=0)] = 0.7
    contact: str | None = None
    limits: CrawlLimits = CrawlLimits()
    schedule: Annotated[str, AfterValidator(check_cron)] = "0 5 * * 1"

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(sorted(set(self.domains or (urlsplit(url).hostname or "" for url in self.start))))

    @property
    def origin(self) -> str:
        """Digest of what the source is; scope (`domains`, `allow`, `deny`) and limits do not count."""
        settings = self.model_dump(mode="json", include=_ORIGIN)
        is_local = self.path and not is_url(self.path)
        root = Path(self.path or "").expanduser().resolve() if is_local else self.path
        return digest([settings, sorted(self.start), str(root)])

    def content_of(self, url: str) -> str | None:
        if not isinstance(self.content, dict):
            return self.content
        host = urlsplit(url).hostname or ""
        fits = [known for known in self.content if host == known or host.endswith(f".{known}")]
        return self.content[max(fits, key=len)] if fits else None

    def column(self, name: Column) -> str:
        return str(getattr(self, f"{name}_column") or self.columns.get(name) or name)

    def state(self) -> str | None:
        """Return a digest that changes when the files of a reader do; None where only a crawl can tell."""
        if self.reader is None:
            return None
        state: str | None = READERS[self.reader].model_validate(self.options).state(self)
        return state

    def versions(self) -> list[str]:
        registry, name = (SPIDERS, self.spider) if self.spider else (READERS, self.reader or "")
        if name in registry.built_in:
            return []
        kind = registry[name]
        return [kind.code_version, kind.package]

    @field_validator("spider", "reader", mode="before")
    @classmethod
    def _is_known(cls, name: Any, info: ValidationInfo) -> Any:
        registry = SPIDERS if info.field_name == "spider" else READERS
        if name is None or (isinstance(name, str) and name in registry):
            return name
        names = [repr(one) for one in registry]
        raise ValueError(f"must be {', '.join(names[:-1])} or {names[-1]}")

    @field_validator("allow", "deny")
    @classmethod
    def _are_patterns(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error
        return patterns

    @field_validator("domains")
    @classmethod
    def _are_hosts(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        bad = [host for host in hosts if not host or re.search(r"[\s/@*]", host)]
        if bad:
            raise ValueError(f"domains are host names, such as example.org, not {bad[0]!r}")
        return tuple(host.lower() for host in hosts)

    @field_validator("content")
    @classmethod
    def _is_selector(cls, content: str | dict[str, str] | None) -> str | dict[str, str] | None:
        from cssselect import SelectorError
        from parsel.csstranslator import HTMLTranslator

        for selector in content.values() if isinstance(content, dict) else (content or "*",):
            try:
                HTMLTranslator().css_to_xpath(selector)
            except SelectorError as error:
                raise ValueError(f"{selector!r} is not a CSS selector: {error}") from error
        return content

    @model_validator(mode="before")
    @classmethod
    def _are_acts(cls, value: Any) -> Any:
        if not isinstance(value, dict) or value.get("spider") != "eurlex":
            return value
        start, domains, language = value.get("start"), value.get("domains"), value.get("language") or "en"
        if not isinstance(start, list | tuple) or not isinstance(language, str):
            return value
        host = domains[0] if isinstance(domains, list | tuple) and domains else EURLEX
        return {**value, "start": [act_url(one, str(host), language) for one in start]}

    @model_validator(mode="before")
    @classmethod
    def _reads_to_the_end(cls, value: Any) -> Any:
        if not isinstance(value, dict) or value.get("reader") is None:
            return value
        limits = value.get("limits", {})
        if isinstance(limits, CrawlLimits):
            limits = limits.model_dump(exclude_unset=True)
        if not isinstance(limits, dict):
            return value
        return {**value, "limits": {**dict.fromkeys(("pages", "seconds", "bytes"), UNLIMITED), **limits}}

    @model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        if (self.spider is None) == (self.reader is None):
            raise ValueError("a source has either a spider (with start URLs) or a reader (with a path)")
        if self.spider and not self.start:
            raise ValueError("a spider needs at least one URL in `start`")
        if self.reader and not self.path:
            raise ValueError("a reader needs a `path`")
        bad = [url for url in self.start if not url.startswith(("http://", "https://"))]
        if bad:
            raise ValueError(f"start URLs begin with http:// or https://, not {bad[0]!r}")
        for url in self.start:
            _check_url(url)
        return self

    @model_validator(mode="after")
    def _has_what_it_knows(self) -> Self:
        kind = self.spider or self.reader
        spiders = dict.fromkeys(_OF_SPIDERS, tuple(SPIDERS))
        for name, kinds in (*spiders.items(), *_BELONGS.items()):
            if getattr(self, name) and kind not in kinds:
                raise ValueError(f"`{name}` is for {', '.join(kinds)} only, not for {kind}")
        for url in self.start:
            host = urlsplit(url).hostname or ""
            if not any(host == known or host.endswith(f".{known}") for known in self.hosts):
                raise ValueError(f"the start URL {url} is not on one of the `domains`")
        if self.reader and self.render != "auto":
            raise ValueError(f"`render` is for spiders only, not for {kind}")
        return self

    @model_validator(mode="after")
    def _logs_in_at_one_host(self) -> Self:
        if self.login is None:
            return self
        hosts = {urlsplit(url).hostname or "" for url in self.start}
        if self.login.host is None and len(hosts) > 1:
            raise ValueError(f"`login` needs a `host`: the start URLs are on {', '.join(sorted(hosts))}")
        if self.login.host is not None and self.login.host not in hosts:
            raise ValueError(f"`login.host`: no start URL is on {self.login.host}")
        form = self.login.form
        if form is not None and origin_of(form.url) != self.login_origin:
            raise ValueError(f"`login.form.url` is not on {self.login_origin}, which the login is for")
        return self

    @property
    def login_origin(self) -> str | None:
        if self.login is None:
            return None
        named = [url for url in self.start if self.login.host in {None, urlsplit(url).hostname}]
        return origin_of(named[0])

    @model_validator(mode="after")
    def _has_options_of_its_kind(self) -> Self:
        registry, name = (SPIDERS, self.spider) if self.spider else (READERS, self.reader or "")
        if name in registry.built_in and not self.options:
            return self  # which need not be imported
        try:
            kind = registry[name]
        except BrokenComponentError as error:
            raise error_at(("spider" if self.spider else "reader",), str(error)) from error
        options = kind.Options if self.spider else kind
        create_model("Source", options=(options, ...)).model_validate({"options": self.options})
        return self


def is_url(path: str) -> bool:
    """Return whether a source's path is an address rather than a file or folder.

    >>> is_url("s3://bucket/docs"), is_url("docs"), is_url("C:/docs")
    (True, False, False)
    """
    return re.match(r"[a-z][a-z0-9+.-]+://", path) is not None


def origin_of(url: str) -> str:
    """Return scheme, host and port of a URL.

    >>> origin_of("https://A.example/x"), origin_of("http://a.example:80/")
    ('https://a.example:443', 'http://a.example:80')
    """
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    return f"{parts.scheme}://{parts.hostname or ''}:{port}"


def keys_of(kind: str, *, is_spider: bool) -> tuple[str, ...]:
    """Return the keys of a source that belong to this spider or reader and not to all sources.

    >>> keys_of("text", is_spider=False), keys_of("site", is_spider=True)
    (('lines',), ('domains', 'allow', 'deny', 'allow_private', 'sitemap_only', 'login', 'render', 'content'))
    """
    shared = tuple(name for name, kinds in _BELONGS.items() if kind in kinds)
    return (*_OF_SPIDERS, "render", *shared) if is_spider else shared


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"{url!r} is not a URL: {error}") from error
    if "@" in parts.netloc:
        raise ValueError(
            f"the start URL of {host} holds a user name; a crawl sends none, and stores its URLs"
        )
    if not host:
        raise ValueError(f"{url!r} names no host")
