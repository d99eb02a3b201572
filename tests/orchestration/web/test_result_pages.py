"""Verdict, Questions and Compare in a real Chromium: what they show is what the report shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from rag_assay.evals.human.queue_builder import prepare_queue
from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.display import interval, number
from rag_assay.evals.reporting.page import render_html
from rag_assay.evals.reporting.pair_comparison import compare_pair
from rag_assay.evals.reporting.question_matrix import MatrixFilter, QuestionMatrix
from rag_assay.evals.study.run_studies import note
from rag_assay.orchestration.alerts.journal import AlertEvent, Journal
from rag_assay.orchestration.web import app
from rag_assay.orchestration.web.annotation.annotation_session import AnnotationSession
from rag_assay.orchestration.web.components.result_views import result_styles
from rag_assay.orchestration.web.page_context import UiOptions
from rag_assay.orchestration.web.page_process import Server, Site
from rag_assay.orchestration.web.pages import verdict
from rag_assay.warehouse.conversations import AnswerFeedback, Begun, Conversations
from rag_assay.warehouse.failure_tags import FailureTags
from rag_assay.warehouse.human_scores import HumanScores
from rag_assay.warehouse.paths import Home
from tests.fakes.browser import OF_COLOURS, Tab, axe_violations, tab
from tests.fakes.tiny import TEXTS
from tests.fakes.town import PLAIN, QUESTIONS, Town
from tests.orchestration.web.conftest import own_port
from tests.orchestration.web.test_chat_page import MARKUP, hostile_turn
from tests.orchestration.web.test_languages import differing

HOSTILE = "<img src=x onerror=\"document.title='gone'\"> **bold** </script> $x$ ?"
RETRIEVERS = {"bm25": {"bm25": {"k": 5}}, "dense": {"dense": {"k": 5}}, "few": {"bm25": {"k": 1}}}
STUDY = {
    **PLAIN,
    "retrievers": RETRIEVERS,
    "metrics": ["evidence_coverage@2000tokens", "ndcg@10", "retrieval_latency"],
    "rubrics": {"points": {"points": {}}},
}
WAYS: dict[tuple[int, str], tuple[str, ...]] = {
    (1280, "light"): (),
    (1280, "dark"): OF_COLOURS,
    (390, "dark"): (),
    (390, "light"): OF_COLOURS,
}
"""Width and colour scheme -> rules of axe; none: all, checked once at each width and in each scheme."""

pytestmark = pytest.mark.models


@dataclass
class Result:
    """The study that was run, and where the app shows it."""

    home: Home
    data: ReportData
    matrix: QuestionMatrix
    site: Site

    def url(self, page: str, query: str = "") -> str:
        return f"{self.site.url}{page}?study=tiny{query}"


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Result]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_STUDIES", str(tmp_path_factory.mktemp("none")))
        town = Town(tmp_path_factory.mktemp("town"), patch)
        asked = HOSTILE.replace("'", "''")
        hostile = f"  - id: hostile\n    answerable: false\n    question: '{asked}'\n"
        (town.folder / "ferry.questions.yaml").write_text(QUESTIONS + hostile)
        data = town.run(STUDY, "home", docs={**TEXTS, "hostile": f"A hostile page about the sea. {HOSTILE}"})
        note(town.bench.study, town.bench.home)
        options = UiOptions(study="tiny", reference=str(town.folder / "tiny.yaml"))
        environment = {"ASSAY_HOME": str(town.bench.home.root), "ASSAY_STUDIES": str(town.folder)}
        site = Site(options.to_argument(), "127.0.0.1", own_port(), environment)
        with Server(site) as server:
            server.wait_until_ready()
            matrix = QuestionMatrix(town.bench.study, town.bench.home)
            yield Result(town.bench.home, data, matrix, site)


@pytest.fixture
def opened(browser: Any) -> Iterator[Tab]:
    with tab(browser) as found:
        yield found
        assert found.errors == []
        assert "gone" not in found.page.title()


def text_of(opened: Tab, selector: str) -> str:
    return opened.text(selector).replace("\u2060", "")


def query_of(opened: Tab) -> dict[str, list[str]]:
    return parse_qs(urlsplit(opened.page.url).query)


def waits(opened: Tab, script: str, *arguments: object) -> None:
    opened.page.wait_for_function(script, arg=list(arguments))


def shows(opened: Tab, question: str) -> None:
    """Wait until the journey of a question is open; empty: until none is."""
    opened.page.wait_for_selector(f".as-questions[data-shown={quoted(question)}]")


def quoted(text: str) -> str:
    return '"' + text.replace('"', '\\"') + '"'


def test_the_verdict_is_the_stored_one_with_the_intervals_of_the_leaderboard(
    opened: Tab, result: Result
) -> None:
    verdict = result.data.verdict
    opened.page.goto(result.url("verdict"))
    opened.page.wait_for_selector(".as-sections .trust li")
    text = text_of(opened, "[data-testid=stMain]")
    for sentence in verdict.sentences:
        assert sentence in text
    first = opened.page.locator("#chart tbody tr").first.inner_text()
    assert verdict.leader is not None
    assert number(verdict.leader.value) in first
    assert interval(verdict.leader.low, verdict.leader.high) in first
    opened.page.get_by_text("Equal number of passages").click()
    title = next(one.title for one in result.data.metrics if one.name == "ndcg@10")
    opened.page.wait_for_selector(f"#chart h2:has-text('{title}')")
    assert query_of(opened)["basis"] == ["passages"]
    rows = [row.inner_text() for row in opened.page.locator("#chart tbody tr").all()]
    board = result.data.leaderboard.filter(metric="ndcg@10", cell=verdict.leader.cell)
    assert any(number(board["value"][0]) in row for row in rows)


def test_the_verdict_leads_to_everything_else(opened: Tab, result: Result) -> None:
    opened.page.goto(result.url("verdict"))
    opened.page.wait_for_selector(".as-sections .trust li")
    opened.page.get_by_role("button", name="Ship it").click()
    opened.page.wait_for_selector("code:has-text('assay export')")
    opened.page.keyboard.press("Escape")
    opened.page.locator(".st-key-next a", has_text="Compare").click()
    opened.page.wait_for_selector("#pair table, #pair p")
    assert query_of(opened)["a"] == [result.data.verdict.recommended.cell]  # type: ignore[union-attr]


def test_the_matrix_holds_the_scores_of_the_report(opened: Tab, result: Result) -> None:
    matrix = result.matrix
    opened.page.goto(result.url("questions"))
    opened.page.wait_for_selector("table.questions")
    wanted = MatrixFilter(result.data.primary.name, tuple(matrix.labels))
    ids = matrix.matching(wanted)
    rows = opened.page.locator("table.questions tbody tr")
    assert [row.get_attribute("data-question") for row in rows.all()] == ids
    for row, known in zip(rows.all(), matrix.rows(wanted, ids), strict=True):
        shown = [one.inner_text() for one in row.locator("td b").all()]
        assert [one.lstrip("✓✗ ") for one in shown] == [number(cell.value) for cell in known.cells]
        assert known.question in row.locator("th").inner_text()
    assert opened.page.locator("table.questions img").count() == 0


def test_a_question_opens_beside_the_matrix_and_its_address_leads_back(opened: Tab, result: Result) -> None:
    first, second = list(result.matrix.labels)[:2]
    opened.page.goto(result.url("questions"))
    opened.page.locator("tr[data-question=noon] td a").nth(1).click()
    shows(opened, "noon")
    assert query_of(opened)["show"] == [second]
    assert opened.page.locator(".panel mark").first.inner_text()
    letters = opened.page.locator(".panel .side h4")
    assert letters.first.inner_text().startswith("B:")  # the second column of the matrix
    chosen, beside = opened.page.locator(".panel select").all()
    assert chosen.input_value() == second
    beside.select_option(first)
    opened.page.wait_for_selector(".panel .pair.two")
    assert [one.partition(":")[0] for one in letters.all_inner_texts()] == ["B", "A"]
    opened.page.reload()
    shows(opened, "noon")
    opened.page.wait_for_selector(".panel .pair.two")
    opened.page.keyboard.press("j")
    ids = result.matrix.questions["question_id"].to_list()
    following = ids[ids.index("noon") + 1]
    shows(opened, following)
    opened.page.keyboard.press("k")
    shows(opened, "noon")
    opened.page.keyboard.press("Escape")
    shows(opened, "")
    assert "question" not in query_of(opened)


def test_arrows_move_between_the_places_of_the_matrix(opened: Tab, result: Result) -> None:
    opened.page.goto(result.url("questions"))
    opened.page.locator("table.questions tbody tr").first.locator("th a").focus()
    opened.page.keyboard.press("ArrowRight")
    opened.page.keyboard.press("ArrowDown")
    opened.page.keyboard.press("Enter")
    second = result.matrix.questions["question_id"][1]
    shows(opened, second)
    assert query_of(opened)["show"] == [next(iter(result.matrix.labels))]


def test_filters_are_in_the_address(opened: Tab, result: Result) -> None:
    few = next(one for one in result.matrix.labels if ".few." in one)
    wanted = MatrixFilter("ndcg@10", (few, next(iter(result.matrix.labels))), is_regression=True)
    ids = result.matrix.matching(wanted)
    pipelines = "".join(f"&pipelines={one}" for one in wanted.pipelines)
    opened.page.goto(result.url("questions", f"{pipelines}&metric=ndcg@10&order=regressions"))
    opened.page.wait_for_selector(".matrix-box .where")
    rows = opened.page.locator("table.questions tbody tr")
    assert [row.get_attribute("data-question") for row in rows.all()] == ids
    opened.page.goto(result.url("questions"))
    opened.page.get_by_label("Search").fill("ferry")
    opened.page.keyboard.press("Enter")
    waits(opened, "() => location.search.includes('search=ferry')")
    found = result.matrix.matching(MatrixFilter("ndcg@10", wanted.pipelines, search="ferry"))
    opened.page.wait_for_selector(f".where:has-text('of {len(found)},')")


def test_hostile_texts_stay_texts(opened: Tab, result: Result) -> None:
    opened.page.goto(result.url("questions", "&question=hostile"))
    opened.page.wait_for_selector(".panel h3")
    assert opened.page.locator(".panel h3").inner_text() == HOSTILE
    assert opened.page.locator(".panel img, .panel script").count() == 0
    opened.page.goto(result.url("questions", "&question=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E"))
    opened.page.wait_for_selector(".panel .warn")
    assert opened.page.locator(".panel img").count() == 0


def test_a_comparison_is_that_of_the_leaderboard_and_leads_to_its_questions(
    opened: Tab, result: Result
) -> None:
    data, matrix = result.data, result.matrix
    leader = data.verdict.leader.cell  # type: ignore[union-attr]
    other = next(one for one in matrix.labels if ".few." in one)
    opened.page.goto(result.url("compare", f"&a={other}&b={leader}&basis=passages"))
    opened.page.wait_for_selector("#pair")
    values = matrix.values("ndcg@10", (other, leader))
    asked = matrix.questions["question_id"].to_list()
    found = compare_pair(data, matrix.metrics["ndcg@10"], (other, leader), values, asked)
    text = text_of(opened, "#pair")
    for sentence in found.sentences:
        assert sentence in text
    row = data.leaderboard.filter(cell=other, metric="ndcg@10").row(0, named=True)
    if row["p"] is not None:
        assert (found.difference, found.p) == (row["difference"], row["p"])
        assert (found.standing == "worse", found.standing == "within") == (
            not row["tied"],
            row["within_margin"],
        )
    link = opened.page.locator("#pair tbody a").first
    link.click()
    opened.page.wait_for_selector(".panel .pair.two")
    assert query_of(opened)["show"] == [other]
    assert query_of(opened)["beside"] == [leader]


@pytest.mark.parametrize("view", ["axes", "costs"])
def test_axes_and_costs_are_the_sections_of_the_report(opened: Tab, result: Result, view: str) -> None:
    opened.page.goto(result.url("compare", f"&view={view}"))
    opened.page.wait_for_selector(".as-sections section table")
    page = render_html(result.data)
    for title in opened.page.locator(".as-sections section > h2").all_inner_texts():
        assert title in page


PAGES = {  # address -> what is there once the page is shown
    "verdict": ".as-sections .trust li",
    "questions?question=noon": ".panel h3",
    "compare": "#pair",
    "compare?view=axes": ".as-sections section",
    "compare?view=costs": ".as-sections section",
    "documents": "#listed tbody tr",
    "review": ".as-page[data-serial]",
    "review?view=users": ".stAlert",
    "review?view=tags": ".stAlert",
    "review?view=agreement": ".as-sections section",
    "chat": ".as-welcome",
    "monitor": ".st-key-panel_alerts",
    "monitor?view=changes": ".stAlert",
    "monitor?view=usage": ".st-key-figures",
}
WRITTEN = """() => {
  // Some sections of the report are in English, and so are Streamlit's own texts.
  const found = new Set();
  const OTHERS = ".as-sections[lang=en], style, script, svg";
  const NAMES = ["aria-label", "title", "placeholder", "alt"];
  const look = (root) => {
    for (const one of root.querySelectorAll("*")) {
      if (one.closest(OTHERS)) continue;
      for (const name of NAMES) found.add(one.getAttribute(name)?.trim());
      for (const child of one.childNodes) if (child.nodeType === 3) found.add(child.data.trim());
      if (one.shadowRoot) look(one.shadowRoot);
    }
  };
  look(document.body);
  return [...found];
}"""


def test_pages_are_accessible_and_in_german(browser: Any, result: Result) -> None:
    """Each page is opened once; light and dark, wide and narrow are ways to look at the same one."""
    left = set[tuple[str, str]]()
    english = set(differing()) - {"Open", "error"}  # of Streamlit: how its lists are opened, and an icon
    with tab(browser) as shown:
        page = shown.page
        for address, there in PAGES.items():
            path, _, query = address.partition("?")
            page.set_viewport_size({"width": 1280, "height": 860})
            page.goto(result.url(path, f"&lang=de&{query}"))
            page.wait_for_selector(there)
            for (width, scheme), rules in WAYS.items():
                page.set_viewport_size({"width": width, "height": 860})
                page.emulate_media(color_scheme=scheme)
                page.wait_for_timeout(400)
                assert axe_violations(page, rules) == [], (address, width, scheme)
                assert page.evaluate("document.documentElement.scrollWidth") <= width, (address, scheme)
            left |= {(address, one) for one in set(page.evaluate(WRITTEN)) & english}
        assert (left, shown.errors) == (set(), [])


def test_german_reasons_name_the_metric_in_german(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdict, "language_here", lambda: "de")
    decided = replace(result.data.verdict, title="Evidence coverage in 2,000 tokens", by="Hit rate @ 5")
    said = " ".join(verdict._sentences(replace(result.data, verdict=decided)))
    assert "Abdeckung der Belege in 2\u202f000 Tokens" in said
    assert "Evidence coverage" not in said


def test_every_colour_of_the_report_is_there_in_the_app() -> None:
    """Sections are in a shadow root: what the report says of `:root` does not count there."""
    styles, look = result_styles(), (Path(app.__file__).parent / "look.css").read_text(encoding="utf-8")
    known = "".join(re.findall(r":host\s*{([^}]*)}", styles)) + look
    assert ":root" not in styles
    assert set(re.findall(r"var\((--[\w-]+)", styles)) - set(re.findall(r"(--[\w-]+):", known)) == set()


NAME = "<img src=x onerror='window.hit=1'>"
PLANTED = {  # address -> what is there, and holds a hostile text
    "verdict": ".as-sections .trust li",
    "questions?search=%3Cimg": "table.questions",
    "questions?question=hostile": ".panel h3",
    "questions?question=" + NAME: ".panel .warn",
    "compare": "#pair",
    "compare?view=" + NAME: "#pair",
    "review": ".as-known",
    "review?name=" + NAME: ".as-name",
    "review?view=users": "[class*=st-key-user-] .as-comment",
    "review?view=tags": ".stDataFrame",
    "review?view=agreement": ".as-sections section",
    "chat?c=CHAT": ".as-sources summary",
    "chat?c=" + NAME: ".as-welcome, .stAlert",
    "monitor": ".st-key-panel_alerts li",
    "monitor?view=usage": ".st-key-panel_unanswered",
    "verdict?study=" + NAME: ".stAlert",
}
MADE = """() => {
  // Elements, attributes and addresses that texts would make if they were markup.
  const LEADS = /evil\\.example|^\\s*javascript:/i;
  const found = [];
  const look = (root) => {
    for (const one of root.querySelectorAll("*")) {
      for (const { name, value } of one.attributes) {
        const leads = ["src", "href", "action"].includes(name) && LEADS.test(value);
        if (name.startsWith("on") || leads) found.push(one.outerHTML.slice(0, 200));
      }
      if (one.shadowRoot) look(one.shadowRoot);
    }
  };
  look(document);
  return [...found, ...(window.hit ? ["it ran"] : [])];
}"""


def test_nothing_of_users_annotators_and_documents_is_markup(browser: Any, result: Result) -> None:
    """Names, tags, comments, questions, answers, titles and addresses of pages, and alerts, on every page."""
    chats, event = Conversations(result.home), AlertEvent("1", "check", "tiny", MARKUP, MARKUP, MARKUP)
    said = AnswerFeedback(record_id="said", turn="hostile", thumbs=-1, comment=MARKUP)
    cell = next(iter(result.matrix.labels))
    name = chats.begin("tiny", Begun(record_id="begun", person=""))
    chats.append("tiny", name, [hostile_turn(cell), said])
    Journal(result.home, "tiny").note([event])
    scores = HumanScores(result.home)
    queue = prepare_queue(result.matrix.study, result.home)
    desk = AnnotationSession(queue, NAME, scores, FailureTags(result.home, "tiny"))
    for kind, more in (("tag", {"tag": NAME}), ("score", {"index": 0, "seconds": 1, "comment": MARKUP})):
        desk.take({"kind": kind, **more, "token": desk.token, "press": kind})
        assert "NOT SAVED" not in desk.notice
    with tab(browser) as shown:
        for address, there in PLANTED.items():
            path, _, query = address.replace("CHAT", name).partition("?")
            named = dict(one.partition("=")[::2] for one in query.split("&") if one)
            whole = urlencode({"study": "tiny", "lang": "en", **named}, safe="%")
            shown.page.goto(f"{result.site.url}{path}?{whole}")
            shown.page.wait_for_selector(there)
            shown.page.wait_for_timeout(300)
            assert shown.page.evaluate(MADE) == [], address
        assert shown.errors == []
