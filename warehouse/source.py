"""A source: where documents come from, as the study file says it and the crawlers read it."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from warehouse.recipe import Strict

SPIDERS = ("eurlex", "news", "blog")
READERS = ("beir", "folder")


class Limits(Strict):
    """Bounds of one crawl; a crawl that meets one ends in good order and says so."""

    pages: Annotated[int, Field(ge=1)] = 10_000
    depth: Annotated[int, Field(ge=1)] = 20
    seconds: Annotated[int, Field(ge=1)] = 4 * 3600
    page_bytes: Annotated[int, Field(ge=1024)] = 20_000_000


class Source(Strict):
    """Pages of a site (a spider and its start URLs) or of files (a reader and its path).

    mirror: answer the requests for these hosts from the sample site, served on loopback by the crawl itself
    delay: seconds between two requests to one host
    schedule: cron expression of the re-crawl, in UTC; its Dagster schedule is off until somebody starts it
    """

    spider: Literal["eurlex", "news", "blog"] | None = None
    reader: Literal["beir", "folder"] | None = None
    start: tuple[str, ...] = ()
    path: str | None = None
    mirror: Literal["sample_site"] | None = None
    language: Annotated[str, Field(pattern="^[a-z]{2}$")] | None = None
    delay: Annotated[float, Field(ge=0)] = 0.7
    contact: str | None = None
    limits: Limits = Limits()
    schedule: str = "0 5 * * 1"

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
        return self
