"""The page Review in a real Chromium, by keyboard."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rag_assay.evals.generation.contract import Passage
from rag_assay.evals.human.item_order import showings
from rag_assay.evals.human.queue import Queue
from rag_assay.evals.judging.contract import JudgeCase
from rag_assay.evals.rubrics.items import Item
from rag_assay.evals.rubrics.points import Points
from tests.fakes.browser import UNREAD, Tab, tab
from tests.fakes.queues import item_of, queue_of
from tests.orchestration.web.conftest import Served

MARKUP = (
    "<img src='http://evil.example/a.png' onerror='window.hit=1'><script>window.hit=1</script>"
    " ![x](http://evil.example/b.png) [here](javascript:window.hit=1) $\\\\href{http://evil.example}{x}$ "
    ":red[no] `code` {{x}} ../../etc/passwd \\x1b[31m"
)
LONG = "All work and no play. " * 50_000  # 1.1 million characters


def made_up() -> Queue:
    items = [hostile(), long(), *(item_of(n) for n in range(11))]
    return queue_of(items, {"points": Points(ask=f"Good? {MARKUP}")}, repeats=0.05, twice=0.0)


@pytest.fixture(scope="module")
def served(serve: Callable[[Queue], Served]) -> Served:
    return serve(made_up())


def hostile() -> Item:
    """An item whose every text tries to be more than a text."""
    passage = Passage(
        MARKUP, title=MARKUP, section=(MARKUP, MARKUP), date="<b>2024</b>", url=MARKUP, number=1
    )
    case = JudgeCase(
        f"Hostile? {MARKUP}", "en", f"{MARKUP} [1] [9]", ground_truth=MARKUP, passages=(passage,)
    )
    return Item(case, (MARKUP,), ((0, 0, 40),), (MARKUP, MARKUP), "2024-05-31")


def long() -> Item:
    return Item(
        JudgeCase("How long?", "en", LONG, passages=(Passage(LONG, number=1),)), (), ((0, 900, 1000),)
    )


@pytest.fixture(autouse=True)
def _begin_anew(served: Served) -> None:
    served.forget()


@pytest.fixture
def at(browser: Any) -> Iterator[Tab]:
    with tab(browser) as found:
        yield found
        assert found.errors == []


def who_begins_with(question: str, name: str = "Nell {}") -> str:
    """The name of an annotator who is shown this question first."""
    queue = made_up()
    names = (name.format(number) for number in range(1000))
    return next(one for one in names if question in showings(queue, one)[0].item.case.question)


def test_ten_answers_by_keyboard_a_reload_and_on_from_there(at: Tab, served: Served) -> None:
    at.open(served.url())
    at.page.locator("input").wait_for()
    at.page.keyboard.type("Ada")
    before = at.serial
    at.page.keyboard.press("Enter")
    at.wait_for_another(before)
    assert at.page.url == served.url("Ada")
    asked = []
    for key in "5305305305":
        asked.append(at.question)
        at.press(key)
        assert len(served.rows("Ada")) == len(asked)  # on disk before the next is shown
    assert len(set(asked)) == 10
    assert [row["value"] for row in served.rows("Ada")] == [float(key) for key in "5305305305"]
    assert all(row["seconds"] > 0.2 for row in served.rows("Ada"))
    shown = at.question
    at.page.reload()
    at.page.locator(".as-question").wait_for()
    assert (at.question, at.scored()) == (shown, 10)
    assert shown not in asked


def test_undo_comment_and_a_change_of_mind(at: Tab, served: Served) -> None:
    at.open(served.url("Bea"))
    first = at.question
    at.press("5").press("3").press("u")
    assert (at.scored(), at.text(".as-notice")) == (1, "Taken back")
    at.press("ArrowLeft")
    assert at.question == first
    assert at.page.locator('.as-anchor[aria-pressed="true"]').inner_text().startswith("5")
    at.page.keyboard.press("c")
    at.page.keyboard.type("a 5? u s ../../etc <b>bold</b>")
    assert at.question == first  # a key in a field is a letter
    before = at.serial
    at.page.keyboard.press("Escape")
    at.wait_for_another(before).press("0")
    found = [(row["value"], row["status"], row["comment"]) for row in served.rows("Bea")]
    comment = "a 5? u s ../../etc <b>bold</b>"
    assert found == [
        (5.0, "ok", None),
        (3.0, "ok", None),
        (None, "withdrawn", None),
        (5.0, "ok", comment),
        (0.0, "ok", comment),
    ]


def test_a_comment_that_was_begun_outlives_a_reload_and_goes_with_the_score(at: Tab, served: Served) -> None:
    at.open(served.url("Cleo"))
    at.page.keyboard.press("c")
    at.page.keyboard.type("half a thought")
    at.page.reload()
    at.page.locator("textarea").wait_for()
    assert at.page.locator("textarea").input_value() == "half a thought"
    before = at.serial
    at.page.locator(".as-anchor").nth(1).click()
    at.wait_for_another(before)
    assert [(row["value"], row["comment"]) for row in served.rows("Cleo")] == [(3.0, "half a thought")]
    assert at.page.locator("textarea").input_value() == ""


PRESSED_UNREAD = """() => new Promise((done) => {
  const press = (key, repeat) =>
    document.dispatchEvent(new KeyboardEvent("keydown", { key, repeat, bubbles: true }));
  const look = () => {
    if (document.querySelector(".as-tally b").textContent !== "1") return requestAnimationFrame(look);
    press("3", false); // too soon for the next one to have been read
    for (let n = 0; n <= 30; n++) press("5", n > 0); // is held: all but the first are repeats
    setTimeout(() => { press("5", true); done(); }, 500);
  };
  look();
})"""
"""In the page, so that a busy machine does not press later."""


def test_a_key_that_bounces_or_repeats_scores_one_item(at: Tab, served: Served) -> None:
    at.open(served.url("Dora"))
    at.page.wait_for_timeout(UNREAD)
    for _ in range(3):
        at.page.keyboard.press("5")
    at.page.evaluate(PRESSED_UNREAD)
    at.page.wait_for_timeout(1000)
    assert len(served.rows("Dora")) == 1
    at.press("ArrowLeft").press("ArrowRight")
    at.press("s")
    assert [row["status"] for row in served.rows("Dora")] == ["ok", "skipped"]


def test_markup_in_every_text_is_text(at: Tab, served: Served) -> None:
    name = who_begins_with("Hostile?", "<b>Eve</b> ![x](y) {}")
    at.open(served.url())
    at.page.locator("input").fill(name)
    before = at.serial
    at.page.keyboard.press("Enter")
    at.wait_for_another(before)
    written = MARKUP.replace("\x1b", "\ufffd")
    assert at.page.locator(".as-question").text_content() == f"Hostile? {written}"
    assert at.page.locator(".as-truth .as-text").text_content() == written
    assert at.page.locator(".as-before p").first.text_content() == f"Question{written}"
    assert at.page.locator(".as-passage .as-text").text_content() == written
    assert at.page.locator(".as-passage mark").text_content() == written[:40]
    assert (
        at.page.locator(".as-passage .as-source").text_content()
        == f"{written}{written} › {written}<b>2024</b>"
    )
    assert at.page.locator(".as-ask-head").text_content() == f"Good? {written}"
    assert at.page.locator(".as-answer .as-text").text_content() == f"{written} 1 [9]"
    assert at.page.locator(".as-name").text_content() == name
    assert at.page.locator(".as-page :is(img, script, a, b b, iframe)").count() == 0
    assert at.page.evaluate("window.hit") is None
    at.page.locator(".as-cite").click()
    assert at.page.evaluate("document.activeElement.dataset.number") == "1"
    at.press("0")
    assert served.rows(name)[-1]["value"] == 0.0


def test_a_megabyte_is_shown_and_scored(at: Tab, served: Served) -> None:
    name = who_begins_with("How long?")
    at.open(served.url(name))
    assert len(at.page.locator(".as-answer .as-text").text_content()) < 21_000
    at.page.locator(".as-answer .as-more").click()
    assert len(at.page.locator(".as-answer .as-text").text_content()) == len(LONG)
    fold = at.page.locator(".as-passage > .as-more")
    assert fold.inner_text() == "Show all, the evidence too"
    fold.click()
    assert fold.get_attribute("aria-expanded") == "true"
    at.press("3")
    assert served.rows(name)[-1]["value"] == 3.0


def test_what_the_browser_gets_does_not_tell_a_repeat(at: Tab, served: Served) -> None:
    at.open(served.url("Gil"))
    ids = set()
    while at.page.locator(".as-question").count():
        ids.add(at.question)
        at.press("5")
    found = served.rows("Gil")
    assert [row["showing"] for row in found].count(2) == 1
    assert len(found) == len(ids) + 1
    assert at.text(".as-end h2") == "Done. Thank you."
    sent = b"".join(at.received)
    for secret in ("item_id", "score_id", "queue_version"):
        assert not [row[secret] for row in found if row[secret].encode() in sent]
    views = list(views_in(at.received))
    assert len(views) > len(found)
    assert all(view.pop("words") for view in views)
    assert set().union(*map(names_in, views)) == KNOWN
    assert "When does ferry 7 leave?" in {view["item"]["question"] for view in views if "item" in view}


KNOWN = frozenset(
    re.findall(
        r"\w+",
        "kind serial study saved annotator tags progress done of wanted undo first notice token place "
        "focus item question lang day conversation who answers label passages number title section date "
        "evidence truth "
        "pieces t m c v asks name ask anchors index key text chosen skipped answered comment draft",
    )
)
"""The names of all that the server says of an item: no id, cell, model, judgement or number of a showing."""


def views_in(frames: list[bytes]) -> Iterator[dict[str, Any]]:
    """Yield what the component of the page was sent."""
    for frame in frames:
        text = frame.decode("utf-8", "replace")
        at = text.find('{"kind": "')
        if at >= 0:
            yield json.JSONDecoder().raw_decode(text, at)[0]


def names_in(said: Any) -> set[str]:
    """The names of all fields, wherever they stand."""
    if isinstance(said, dict):
        return set(said).union(*map(names_in, said.values()))
    return set().union(*map(names_in, said)) if isinstance(said, list) else set()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_it_fits_the_screen_and_can_be_read(browser: Any, served: Served, width: int, scheme: str) -> None:
    with tab(browser, width, 844, scheme) as at:
        at.open(served.url(who_begins_with("ferry")))
        at.press("3")
        assert at.page.evaluate(WIDER) == [0, 0]
        assert at.page.evaluate(TOO_FAINT) == []
        assert at.page.evaluate(NAMELESS) == 0
        assert at.page.locator("[data-testid=stToolbar]:visible, [data-testid=stHeader]:visible").count() == 0
        paper = at.page.evaluate("getComputedStyle(document.querySelector('.as-page')).backgroundColor")
        assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(19, 23, 27)"}[scheme]
        at.page.keyboard.press("?")
        assert at.page.locator("dialog[open]").inner_text().startswith("Keys")
        at.page.keyboard.press("5")  # the help takes no score
        at.page.keyboard.press("Escape")
        assert at.page.locator("dialog[open]").count() == 0
        assert len(served.rows()) == at.scored() == 1
        assert at.errors == []


WIDER = """() => [document.documentElement, document.querySelector("[data-testid=stMain]")].map(
  (one) => one.scrollWidth - one.clientWidth)"""
NAMELESS = """() => [...document.querySelectorAll(".as-page :is(button, textarea)")].filter(
  (one) => !one.innerText.trim() && !one.getAttribute("aria-label")).length"""
TOO_FAINT = """() => {
  const linear = (s) => (s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4);
  const channel = (one) => linear(one / 255);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const colour = numbers(getComputedStyle(one).backgroundColor);
      if (colour.length < 4 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const element of document.querySelectorAll(".as-page *")) {
    const has = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    const isSpared = element.closest("dialog, :disabled, .as-notice");
    if (!has || isSpared || !element.checkVisibility()) continue;
    const [one, other] = [light(numbers(getComputedStyle(element).color)), light(behind(element))];
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (contrast < 4.5) found.push(`${element.className}: ${contrast.toFixed(2)}`);
  }
  return found;
}"""
"""Texts whose contrast is below 4.5 : 1, as WCAG 2.2 computes it."""
