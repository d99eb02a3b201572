from __future__ import annotations

import base64
import dataclasses
import hashlib
import re
from html.parser import HTMLParser

import polars as pl
import pytest

from rag_assay.evals.reporting import limits
from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.display import percent
from rag_assay.evals.reporting.page import render_html
from tests.fakes.report_data import NDCG, OVERRIDE, board_data, report_data


class Page(HTMLParser):
    """Collects every tag with its attributes, and the text of style and script."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inline: dict[str, str] = {}
        self._open: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        is_data = tag == "script" and dict(attrs).get("type") == "application/octet-stream"
        self._open.append("data" if is_data else tag)

    def handle_endtag(self, tag: str) -> None:
        names = (tag, "data") if tag == "script" else (tag,)
        while self._open and self._open.pop() not in names:
            pass

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] in ("style", "script"):
            self.inline[self._open[-1]] = data
        elif self._open and self._open[-1] == "data":
            assert re.fullmatch(r"[A-Za-z0-9+/=]+", data)  # packed, and no text of anybody's
        else:
            self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def data() -> ReportData:
    return report_data()


@pytest.fixture(scope="module")
def html(data: ReportData) -> str:
    return render_html(data)


@pytest.fixture(scope="module")
def page(html: str) -> Page:
    return Page(html)


def test_crawled_text_cannot_become_markup(page: Page, html: str) -> None:
    assert "<script>alert(1)</script>" in page.text  # it is there to be read …
    assert "onerror=alert(2)" in page.text
    assert "{{ 7*7 }}" in page.text  # … and not run by a template either
    assert [one for one in page.all("script") if one.get("type") != "application/octet-stream"] == [{}]
    assert len(page.all("style")) == 1
    assert page.all("img") == []
    assert page.all("b")  # the headline's own
    assert "<b>dense</b>" in page.text
    assert OVERRIDE not in html


def test_no_attribute_acts(page: Page) -> None:
    for tag, attributes in page.tags:
        for name in attributes:
            assert not name.startswith("on"), (tag, name)
            assert name != "style", tag


def test_links_are_web_addresses_that_learn_nothing(page: Page) -> None:
    outward = [a for a in page.all("a") if not (a["href"] or "").startswith("#")]
    assert outward
    for attributes in outward:
        assert (attributes["href"] or "").startswith("https://eur-lex.example/")
        assert attributes["rel"] == "noopener noreferrer"
    assert "javascript:alert(document.domain)" in page.text


def test_nothing_is_fetched(page: Page, html: str) -> None:
    for tag, attributes in page.tags:
        assert "src" not in attributes, tag
        assert "srcset" not in attributes, tag
        if tag == "link":
            assert attributes["href"] == "data:,"
    assert "@import" not in html
    assert "url(" not in page.inline["style"]
    assert not {"iframe", "object", "embed", "form", "base", "video"} & {tag for tag, _ in page.tags}


def test_the_policy_names_the_only_style_and_script(page: Page) -> None:
    (policy,) = [
        m["content"] or "" for m in page.all("meta") if m.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    for name in ("style", "script"):
        digest = base64.b64encode(hashlib.sha256(page.inline[name].encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy


def test_anchors_lead_somewhere_and_ids_are_unique(page: Page) -> None:
    ids = [attributes["id"] for _, attributes in page.tags if attributes.get("id")]
    assert len(ids) == len(set(ids))
    inward = {(a["href"] or "")[1:] for a in page.all("a") if (a["href"] or "").startswith("#")}
    assert {one for one in inward if not one.startswith("q=")} <= set(ids)  # that a journey's script reads


def test_the_sections_come_in_the_readers_order(page: Page) -> None:
    sections = [attributes["id"] for attributes in page.all("section") if attributes.get("id")]
    assert sections == [
        "answer",
        "leaderboard",
        "pairs",
        "intervals",
        "metrics",
        "effects",
        "full-scores",
        "matrix",
        "questions-chunkings",
        "latencies",
        "costs",
        "contexts",
        "risk",
        "groups",
        "hardest",
        "lost",
        "journey",
        "failures",
        "corpus",
        "provenance",
        "reading",
    ]


def test_a_cell_without_coverage_shows_its_worst_and_best_case(html: str) -> None:
    first_board = html[: html.index("Leaderboard on a sample of 12")]
    (row,) = re.findall(r'<tr class="unranked"[^>]*>.*?</tr>', first_board, re.S)
    assert "87.5 %" in row
    assert re.search(r"0\.\d{3}†\s*<small>worst 0\.\d{3}</small><small>best 0\.\d{3}</small>", row)
    assert "no rank: coverage below 98 %" in row


def test_what_is_tied_is_marked_at_its_rank(data: ReportData, html: str) -> None:
    first_board = html[: html.index("Leaderboard on a sample of 12")]
    ranks = re.findall(r'<td class="num rank" data-sort="(\d+)">(.*?)</td>', first_board, re.S)
    marked = {int(rank) for rank, shown in ranks if "≈" in shown}
    rows = data.leaderboard.filter((pl.col("subset") == "all") & (pl.col("metric") == NDCG.name))
    assert marked == set(rows.filter(pl.col("tied") & pl.col("p").is_not_null())["rank"])
    assert 0 < len(marked) < len(ranks) - 1
    assert "p = 0." in first_board


def test_a_sample_says_that_its_cells_are_compared_on_it_only(page: Page) -> None:
    assert "Leaderboard on a sample of 12" in page.text
    assert "Cells are compared on these 12 questions only" in page.text


def test_a_missing_value_is_a_dash_with_a_reason_and_never_0(data: ReportData) -> None:
    gone = (pl.col("cell") == "energy.articles.minilm.bm25.extractive") & (pl.col("metric") == "tokens")
    columns = [
        pl.when(gone).then(None).otherwise(pl.col(name)).alias(name)
        for name in ("value", "low", "high", "worst", "best")
    ]
    board = data.leaderboard.with_columns(
        *columns, coverage=pl.when(gone).then(0.0).otherwise(pl.col("coverage"))
    )
    scores = data.scores.with_columns(
        value=pl.when(gone).then(None).otherwise(pl.col("value")),
        status=pl.when(gone).then(pl.lit("parse_failed")).otherwise(pl.col("status")),
    )
    html = render_html(dataclasses.replace(data, leaderboard=board, scores=scores))
    assert '<span class="missing" title="no question has a value: 40 × parse_failed">–</span>' in html
    assert '<span class="missing" title="40 × parse_failed">–</span>' in html  # among the costs


def test_an_empty_study_still_makes_a_page() -> None:
    page = Page(render_html(board_data([], metric=NDCG)))
    assert "No cell was run" in page.text
    assert "Nothing failed." in page.text


def test_a_study_without_one_good_row_makes_a_page() -> None:
    page = Page(render_html(board_data([{"chunking": "a", "coverage": 0.0}], metric=NDCG)))
    assert "No pipeline is recommended: no pipeline has values and answers for 98 %" in page.text
    assert "0.000" not in page.text


def test_control_characters_and_lone_surrogates_do_no_harm() -> None:
    data = dataclasses.replace(board_data([]), notes=("a\x00b\x1b[31m\ud800",))
    html = render_html(data)
    assert html.encode("utf-8")
    assert "\x00" not in html
    assert "\x1b" not in html


def test_the_same_data_makes_the_same_page(data: ReportData, html: str) -> None:
    assert render_html(report_data()) == html


def test_a_large_grid_stays_small_and_says_what_is_left_out() -> None:
    data = report_data(n_questions=60, chunkings=4, generators=2)
    html = render_html(data)
    page = Page(html)
    assert len({*data.leaderboard["cell"]}) == 32
    assert len(html.encode()) < 1_500_000
    assert html.count('<details class="question">') == limits.HARDEST_QUESTIONS
    assert re.search(r"20 questions shown; \d+ more", page.text)
    assert "further answers left out" in page.text


def test_a_long_name_may_break_on_the_leaderboard_and_a_short_one_never(data: ReportData) -> None:
    """A name may have 60 characters; unbroken, two of them push the numbers out of a screen."""
    short, long = "tokens-508-170", "a-retriever-with-quite-a-long-name-that-says-what-it-does"
    board = data.leaderboard.with_columns(pl.lit(short).alias("chunking"), pl.lit(long).alias("retriever"))
    made = render_html(dataclasses.replace(data, leaderboard=board))
    assert f'<td class="part" data-name="{short}">{short}</td>' in made
    assert f'<td class="part long" data-name="{long}">{long.replace("-", "-<wbr>")}</td>' in made


def test_tie_groups_and_chances_stand_beside_the_difference(data: ReportData, html: str, page: Page) -> None:
    rows = data.leaderboard.filter((pl.col("subset") == "all") & (pl.col("metric") == NDCG.name))
    first_board = html[html.index('id="leaderboard"') : html.index("Leaderboard on a sample of 12")]
    assert "Tie group" in first_board
    for group in set(rows.drop_nulls("tie_group")["tie_group"]):
        assert f'<td class="num more" data-sort="{group}">{group}</td>' in first_board
    assert rows["p_best"].sum() == pytest.approx(1)
    best = rows.filter(pl.col("rank") == 1)["p_best"][0]
    assert f'data-sort="{best}">{percent(best)}</td>' in first_board
    assert re.search(r'title="A difference of .*?would be found four times out of five', first_board)
    assert "Chance of being best:" not in page.text  # the columns say it
    old = data.leaderboard.with_columns(tie_group=pl.lit(None, pl.Int64), p_best=pl.lit(None, pl.Float64))
    assert "Tie group" not in render_html(dataclasses.replace(data, leaderboard=old)).split('id="reading"')[0]
