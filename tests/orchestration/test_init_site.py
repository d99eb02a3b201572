"""`assay init URL` picks the spider by looking at the site."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from rag_assay.orchestration.templates.study_files import write_study
from tests.fakes.site import Reply, index, serving

LINE = "The keeper wrote a line by the light of the lamp. "
POST = f"<html><body><h1>Log</h1><p>{LINE * 8}</p></body></html>"
NEWS = '<html><head><meta name="news_keywords" content="Tides"></head><body>x</body></html>'


@pytest.mark.parametrize(
    ("path", "page", "spider"),
    [("/2014/03/10/log/", POST, "blog"), ("/tides", NEWS, "news"), ("/about", POST, "site")],
)
def test_the_study_names_the_spider_that_fits_and_says_why(
    tmp_path: Path, path: str, page: str, spider: str
) -> None:
    with serving() as site:
        site["/"] = Reply(index(path))
        site[path] = Reply(page)
        study, _ = write_study(site.url("/"), tmp_path / "mine.yaml")
    text = study.read_text()
    (source,) = yaml.safe_load(text)["sources"].values()
    assert (source["spider"], source["start"]) == (spider, [site.url("/")])
    why = f"{site.url(path)} " if spider != "site" else "no page looked at"
    assert f"# spider: eurlex | news | blog | site; {why}" in text


def test_what_a_site_says_cannot_break_out_of_the_comment(tmp_path: Path) -> None:
    with serving() as site:
        site["/"] = Reply(status=302, headers={"Location": "http://x.example\u0085seed:/"})
        study, _ = write_study(site.url("/"), tmp_path / "mine.yaml")
    assert yaml.safe_load(study.read_text())["seed"] == 7
