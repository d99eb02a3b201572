"""The page Chat in a real Chromium: a conversation in German, its sources, what outlives what."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from markdown_it import MarkdownIt

from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.cell_selection import recommended_cell
from rag_assay.orchestration.web.languages import app_texts
from rag_assay.orchestration.web.page_process import Server
from rag_assay.warehouse.conversations import AnswerFeedback, ShownPassage, StoredInterpretation, Turn
from rag_assay.warehouse.status import Status
from tests.fakes.browser import axe_violations, tab
from tests.fakes.processes import wait_until
from tests.fakes.talked import EXTRACTIVE, MODEL, STUDY, ChatTab, Chatted, chatted

pytestmark = pytest.mark.models
TEXTS = app_texts("chat")
MARKUP = (
    "<img src='http://evil.example/a.png' onerror='window.hit=1'><script>window.hit=1</script>"
    " ![x](http://evil.example/b.png) [here](javascript:window.hit=1) $\\href{http://evil.example}{x}$ "
    ":red[no] `code` {{x}} \x1b[31m \u202e www.evil.example :smile: </div></details>"
)
FIVE = (
    "Wie ging das Kohlenbacher Heimspiel gegen die Eintracht in der Saison 2022/23 aus?",
    "Und wie viele Zuschauer waren dort?",
    "Welche Artikel erschienen im April 2024 über Hammerlohe?",
    "Wer wurde 2023 Meister?",
    "Und wer wurde Zweiter?",
)
BM25 = EXTRACTIVE.replace("narrowed", "bm25")
CLUBS = "Was geschah zwischen SV Kohlenbach 07 und Hammerlohe?"


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chatted]:
    """The page Chat of a study, of which some pipelines have steps for follow-ups and dates."""
    study = STUDY.replace("retrievers:\n", "retrievers:\n  bm25: {bm25: {k: 20}}\n")
    with chatted(tmp_path_factory.mktemp("chat"), study) as found:
        yield found


def wordy(number: int, status: Status, **more: Any) -> Turn:
    values = {"record_id": f"w{number}", "number": number, "cell": MODEL, "question": f"Frage {number}?"}
    return Turn(**{**values, "status": status, **more})


def hostile_turn(cell: str = EXTRACTIVE) -> Turn:
    passage = ShownPassage(
        number=1,
        chunk_id="c",
        doc_id="d",
        text=f"Belegt: {MARKUP}",
        title=MARKUP,
        url="javascript:window.hit=1",
        date="2024-05-31",
        section=(MARKUP, MARKUP),
        cited=True,
        evidence=((0, 20),),
    )
    known = (StoredInterpretation(kind="entities", type="club", text=MARKUP, value=MARKUP),)
    return Turn(
        record_id="hostile",
        number=1,
        cell=cell,
        question=MARKUP,
        status=Status.OK,
        answer=f"{MARKUP} [1] [9]",
        passages=(passage,),
        understood=known,
        model=MARKUP,
    )


def test_five_turns_in_german_with_sources_feedback_and_a_reload(chat: Chatted, at: ChatTab) -> None:
    at.open(chat.url(lang="de"))
    assert "Was möchten Sie wissen?" in at.page.locator(".as-welcome").inner_text()
    at.page.get_by_role("button", name="Kohlenbacher Heimspiel").click()  # the study's own question
    at.wait()
    for question in FIVE[1:]:
        at.ask(question)
    turns = chat.conversation(at.id).turns
    assert [turn.question for turn in turns] == list(FIVE)
    assert [turn.number for turn in turns] == [1, 2, 3, 4, 5]
    recommended = recommended_cell(read_study(chat.path), chat.home).key
    assert {turn.cell for turn in turns} == {recommended}
    assert recommended != read_study(chat.path).cells()[0].key
    assert all(turn.language == "de" and turn.passages for turn in turns)
    rewritten = next(one for one in turns[1].understood if one.kind == "follow_up")
    assert rewritten.value in at.page.locator(".as-note em").first.inner_text()
    frames = [one for one in turns[2].understood if one.kind == "time_frame"]
    assert [one.value for one in frames] == ["2024-04-01/2024-04-30"]
    assert all(one.date and one.date.startswith("2024-04") for one in turns[2].passages)

    at.page.locator(".as-sources li > details > summary").first.click()
    passage = at.page.locator(".as-passage").first
    first = next(one for one in turns[0].passages if one.cited)
    assert passage.inner_text().split() == first.text.split()
    assert at.page.locator(".as-passage mark").first.inner_text() == first.text[slice(*first.evidence[0])]
    link = at.page.locator(".as-where a").first.get_attribute("href")
    assert link.startswith(f"{first.url}#:~:text=")
    assert unquote(link.partition("text=")[2]).split(",")[0].split()[0] in first.text

    at.page.locator("[class*=st-key-thumbs] button").last.click()
    at.page.get_by_role("textbox", name="Was stimmt daran nicht? Ein Satz.").fill("Knapp <b>daneben</b>")
    at.page.get_by_role("button", name="Speichern").last.click()
    at.page.locator(".as-comment").wait_for()
    kept = "SELECT turn_id, thumbs, comment FROM chat_feedback"
    wanted = (turns[-1].record_id, -1, "Knapp <b>daneben</b>")
    assert wait_until(lambda: wanted in chat.selected(kept), 60)

    where = at.page.url
    at.page.reload()
    at.page.locator(".as-facts").nth(4).wait_for()
    assert at.page.url == where
    assert at.page.locator(".as-asked").all_inner_texts() == list(FIVE)


def test_a_pipeline_without_steps_for_them_reads_follow_ups_and_dates(chat: Chatted, at: ChatTab) -> None:
    at.open(chat.url(lang="de", cell=BM25))
    for question in (*FIVE[:3], "Which reports on Hammerlohe were published before March 2023?"):
        at.ask(question)
    turns = chat.conversation(at.id).turns
    assert {turn.cell for turn in turns} == {BM25}
    assert [one.kind for one in turns[1].understood] == ["follow_up"]
    assert [[one.value for one in turn.understood] for turn in turns[2:]] == [
        ["2024-04-01/2024-04-30"],
        ["../2023-02-28"],
    ]
    assert all(one.date and one.date.startswith("2024-04") for one in turns[2].passages)
    assert all(one.date and one.date < "2023-03" for one in turns[3].passages)
    assert turns[2].passages
    assert turns[3].passages
    at.page.get_by_role("button", name="Zeit: 2024").click()
    at.wait()
    without = chat.conversation(at.id).turns[-1]
    assert [one.removed for one in without.understood] == [True]
    assert any(not str(one.date).startswith("2024-04") for one in without.passages)


def test_the_page_does_not_scroll_away_under_a_press(chat: Chatted, at: ChatTab) -> None:
    at.open(chat.url(lang="de", cell=EXTRACTIVE)).ask(FIVE[3]).ask(FIVE[4])
    at.page.evaluate(PRESSED_WHILE_SCROLLING)
    at.put(FIVE[0]).page.wait_for_function("window.pressed")
    at.wait().page.wait_for_timeout(600)  # longer than a question is followed
    main = "document.querySelector('[data-testid=stMain]')"
    assert at.page.evaluate(f"[window.scrollsAfter, {main}.scrollTop]") == [0, 0]


def test_chips_are_taken_away_and_the_question_asked_without(chat: Chatted, at: ChatTab) -> None:
    at.open(chat.url(lang="de", cell=EXTRACTIVE)).ask(FIVE[2])
    at.page.get_by_role("button", name="Zeit: 2024").click()
    at.wait()
    first, second = chat.conversation(at.id).turns
    assert [one.removed for one in second.understood if one.kind == "time_frame"] == [True]
    assert second.question == first.question
    assert "ohne Zeit: 2024" in at.page.locator(".as-note:has(s)").inner_text()

    third = chat.conversation(at.ask(CLUBS).id).turns[2]
    known = {one.value: one for one in third.understood if one.kind == "entities" and one.status == "used"}
    assert len(known) >= 2, third.understood
    gone = sorted(known)[0]  # of two, alone
    chips = at.page.locator("[class*=st-key-chips-]")
    chips.last.get_by_role("button", name=gone).click()
    at.wait()
    fourth = chat.conversation(at.id).turns[3]
    assert fourth.question == CLUBS
    assert {one.value for one in fourth.understood if one.removed} == {gone}
    assert {one.value for one in fourth.understood if one.status == "used"} >= known.keys() - {gone}
    left = chips.last.inner_text().replace("\u2060", "")
    assert gone not in left
    assert all(one in left for one in known.keys() - {gone})
    assert gone in at.page.locator(".as-note s").last.inner_text()


def test_renaming_and_exports_as_markdown_and_json(chat: Chatted, at: ChatTab) -> None:
    said = AnswerFeedback(record_id="said", turn="hostile", thumbs=-1, comment=MARKUP)
    name = chat.begin(hostile_turn(), said, wordy(2, Status.TIMEOUT, reason="silence"))
    at.open(chat.url(lang="en", c=name))
    at.page.locator(".st-key-menu button").first.click()
    at.page.get_by_role("textbox", name="Name", exact=True).fill("  Derby **und** <b>mehr</b> ")
    at.page.get_by_role("button", name="Save").first.click()
    at.page.keyboard.press("Escape")
    at.page.locator(".st-key-conversations_menu button").first.click()
    listed = at.page.locator(".st-key-conversations button", has_text="Derby **und** <b>mehr</b>")
    listed.wait_for()
    at.page.keyboard.press("Escape")
    assert chat.conversation(name).title == "Derby **und** <b>mehr</b>"
    files = {}
    for kind in ("markdown", "json"):
        if not at.page.locator(f".st-key-export_{kind}").is_visible():
            at.page.locator(".st-key-menu button").first.click()
        with at.page.expect_download() as download:
            at.page.locator(f".st-key-export_{kind} button").click()
        files[kind] = Path(download.value.path()).read_text(encoding="utf-8")
    kept = chat.conversation(name)
    exported = json.loads(files["json"])
    assert [Turn.model_validate(one) for one in exported["turns"]] == list(kept.turns)
    assert [one["comment"] for one in exported["feedback"]] == [MARKUP]
    html = MarkdownIt("gfm-like", {"linkify": False}).render(files["markdown"])
    assert not re.search(r"<(img|script|a|iframe|details)\b", html), html
    assert "silence" in html
    assert html.startswith("<h1>Derby **und** &lt;b&gt;mehr")


def test_why_there_is_no_answer_and_which_model_gave_one_is_said(chat: Chatted, at: ChatTab) -> None:
    decliners = ("no_passages", "gate", "min_score", "model")
    turns = [
        wordy(n, Status.REFUSED if by != "no_passages" else Status.NO_CONTEXT, declined=by, answer="Nein.")
        for n, by in enumerate(decliners, 1)
    ]
    spent = wordy(5, Status.OVER_BUDGET, reason="1.00 of 1.00 US dollars are spent")
    other = wordy(6, Status.OK, answer="So.", model="openai/second", prompt_tokens=9, usd=0.25)
    unput = wordy(7, Status.ERROR, cell="", reason="no <b>cell</b>")
    name = chat.begin(*turns, spent, other, unput)
    for language, place in (("en", 0), ("de", 1)):
        at.open(chat.url(lang=language, c=name))
        assert at.page.locator(".as-declined > p").all_inner_texts() == [
            f"{TEXTS['declined'][place]}. {TEXTS[f'declined_{by}'][place]}" for by in decliners
        ]
        failed = at.page.locator(".as-failed").all_inner_texts()
        assert TEXTS["over_budget"][place] in failed[0]
        assert "1.00 of 1.00 US dollars" in failed[0]
        assert TEXTS["not_put"][place] in failed[1]
        assert "no <b>cell</b>" in failed[1]
        in_place = TEXTS["fallback"][place].format(model="openai/scripted")
        assert f"openai/second ({in_place})" in at.page.locator(".as-facts").nth(5).inner_text()


def test_a_model_writes_is_stopped_and_lost_in_mid_stream(chat: Chatted, at: ChatTab) -> None:
    at.open(chat.url(lang="en", cell=MODEL)).ask("Wie endete das Derby?")
    answer = at.page.locator(".as-answer").first
    assert answer.locator("strong").inner_text() == "1:3"
    assert answer.locator("li").count() == 2
    answer.locator(".as-cite").first.click()
    at.page.locator("details[open] .as-passage").first.wait_for()
    assert "scripted" in at.page.locator(".as-facts").first.inner_text()

    at.put("Ganz LANGSAM: wie endete es?")
    at.page.locator(".as-draft strong").first.wait_for()  # while the model goes on
    at.page.get_by_role("button", name="Stop").click()
    at.wait()
    at.put("Und bei ABBRUCH der Leitung?").wait()
    assert "There is no answer" in at.page.locator(".as-failed").last.inner_text()
    assert "kept" in at.page.locator(".as-failed").last.inner_text()
    ended = [turn.status for turn in chat.conversation(at.id).turns]
    assert (ended[0], ended[1]) == (Status.OK, Status.NOT_RUN)
    assert ended[2] in {Status.ERROR, Status.TIMEOUT}
    assert at.page.evaluate("window.hit") is None


def test_two_cells_side_by_side_are_blind_until_the_vote(chat: Chatted, at: ChatTab) -> None:
    at.open(chat.url(lang="en", cell=EXTRACTIVE, against=MODEL)).put("Wer gewann das Derby?")
    at.page.get_by_role("button", name="Alike").wait_for(timeout=120_000)
    assert at.shown == 0  # nothing says who gave which
    at.page.get_by_role("button", name="A is better").click()
    at.page.locator(".as-facts").nth(1).wait_for()
    conversation = chat.conversation(at.id)
    assert conversation.votes[1].preferred == "a"
    a = next(turn for turn in conversation.turns if turn.side == "a")
    assert a.cell.rpartition(".")[2] in at.page.locator(".as-facts").first.inner_text()


def test_markup_anywhere_is_text_that_fits_the_screen_and_can_be_read(chat: Chatted, at: ChatTab) -> None:
    said = AnswerFeedback(record_id="said", turn="hostile", thumbs=1, comment=MARKUP)
    name = chat.begin(hostile_turn(), said)
    at.open(chat.url(lang="de", c=name))
    at.page.locator(".as-sources summary").first.click()
    shown = MARKUP.replace("\x1b", "\ufffd").replace("\u202e", "\ufffd")
    for place in (".as-asked", ".as-comment", ".as-source b"):
        assert at.page.locator(place).first.text_content() == shown
    assert at.page.locator(".as-passage").first.text_content() == f"Belegt: {shown}"
    assert at.page.locator(".as-answer code").inner_text() == "code"
    made = at.page.locator(":is(.as-answer, .as-sources, .as-asked, .as-facts)").locator(
        "img, script, iframe"
    )
    assert made.count() == 0
    links = at.page.locator(".st-key-main a").evaluate_all("all => all.map(one => one.getAttribute('href'))")
    assert links == ["#p-hostile-1"]
    for width, scheme in ((1280, "light"), (390, "dark")):
        at.page.set_viewport_size({"width": width, "height": 844})
        at.page.emulate_media(color_scheme=scheme)
        at.page.wait_for_timeout(400)
        assert at.page.evaluate(WIDER) == [0, 0]
        assert axe_violations(at.page) == []
    assert at.page.evaluate("window.hit") is None
    at.ask(MARKUP)
    assert at.page.evaluate("window.hit") is None
    assert chat.conversation(name).turns[-1].question == MARKUP.strip()


def test_a_question_of_a_megabyte_is_refused_in_a_sentence(chat: Chatted, at: ChatTab) -> None:
    at.open(chat.url(lang="en"))
    before = len(chat.chats.stamps())
    box = at.page.locator("[data-testid=stChatInput] textarea")
    box.evaluate(
        """(box, text) => {
      Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, "value").set.call(box, text);
      box.dispatchEvent(new Event("input", { bubbles: true }));
    }""",
        "x" * 1_000_000,
    )
    box.press("Enter")
    at.page.get_by_text("1,000,000 characters, more than 8,000").wait_for()
    assert len(chat.chats.stamps()) == before


def test_two_tabs_two_people_and_deleting(chat: Chatted, browser: Any, at: ChatTab) -> None:
    at.open(chat.url(lang="en", cell=EXTRACTIVE, name="Ada")).ask(FIVE[3])
    with tab(browser) as second:
        other = ChatTab(second).open(chat.url(lang="en", cell=EXTRACTIVE, name="Ada", c=at.id))
        at.put(FIVE[0])
        other.put(FIVE[2])
        assert wait_until(lambda: len(chat.conversation(at.id).turns) == 3)
        for one in (at, other):
            one.page.reload()  # a tab shows what the other was answered when it is drawn again
            one.page.locator(".as-facts").nth(2).wait_for()
        turns = chat.conversation(at.id).turns
        assert sorted(turn.question for turn in turns) == sorted([FIVE[3], FIVE[0], FIVE[2]])
        assert sorted(turn.number for turn in turns) == [1, 2, 3]
        assert second.errors == []
    with tab(browser) as stranger:
        ben = ChatTab(stranger).open(chat.url(lang="en", name="Ben"))
        ben.page.locator(".st-key-conversations_menu button").first.click()
        ben.page.get_by_text("Nothing was asked yet.").wait_for()
        assert ben.page.locator(".st-key-conversations button").count() == 0
    name = at.id
    at.page.locator(".st-key-menu button").first.click()
    at.page.locator(".st-key-delete button").first.click()
    at.page.get_by_role("button", name="Delete for good").click()
    at.page.get_by_text("The conversation was deleted.").wait_for()
    assert chat.chats.read("liga", name) is None


def test_a_server_that_is_killed_and_started_again_has_lost_nothing_and_may_ask_for_a_password(
    chat: Chatted, browser: Any
) -> None:
    with tab(browser) as found:
        at = ChatTab(found).open(chat.url(lang="en", cell=EXTRACTIVE)).ask(FIVE[3])
        os.kill(chat.server.process_id, signal.SIGKILL)
        at.page.wait_for_timeout(500)
        locked = {**chat.site.environment, "ASSAY_UI_PASSWORD": "Hafen 'ü'"}
        with Server(replace(chat.site, environment=locked)) as again:
            again.wait_until_ready()
            found.received.clear()
            at.page.goto(at.page.url)
            at.page.locator("input[type=password]").fill("hafen")
            at.page.get_by_role("button", name="Open").click()
            at.page.get_by_text("That is not the password.").wait_for()
            assert FIVE[3].encode() not in b"".join(found.received)
            at.page.locator("input[type=password]").fill("Hafen 'ü'")
            at.page.get_by_role("button", name="Open").click()
            # No cell is open yet: the question is on disk as soon as the page shows it.
            at.page.locator(".as-asked").wait_for()
            assert at.page.locator(".as-asked").inner_text() == FIVE[3]
            at.answers = 1
            at.ask(FIVE[4])
            assert len(chat.conversation(at.id).turns) == 2
            at.open(chat.url(lang="en", cell=MODEL, c=at.id))
            at.page.locator(".as-facts").nth(1).wait_for()  # the cell is named before turns are shown
            at.answers = 2
            at.ask("Was ist TEUER?")
            at.ask("Und was kostet es?")
            dear, refused = chat.conversation(at.id).turns[2:]
            assert (dear.status, refused.status) == (Status.OK, Status.OVER_BUDGET)
            assert dear.usd is not None
            assert dear.usd > 1
            assert "The budget for model calls is spent" in at.page.locator(".as-failed").inner_text()


WIDER = """() => [document.documentElement, document.querySelector("[data-testid=stMain]")].map(
  (one) => one.scrollWidth - one.clientWidth)"""
# Presses right after the page scrolled to the third question, while its next scroll is due.
PRESSED_WHILE_SCROLLING = """() => {
  const scroll = Element.prototype.scrollTo;
  window.pressed = false;
  window.scrollsAfter = 0;
  Element.prototype.scrollTo = function (...where) {
    const timer = window.assayFollow.timer;
    queueMicrotask(() => {
      const isDue = window.assayFollow.timer !== timer;
      if (window.pressed || !isDue || document.querySelectorAll(".as-asked").length !== 3) return;
      const main = document.querySelector("[data-testid=stMain]");
      main.scrollTop = 0;
      main.querySelector("summary").dispatchEvent(new PointerEvent("pointerdown", { bubbles: true }));
      window.pressed = true;
    });
    if (window.pressed) window.scrollsAfter += 1;
    return scroll.apply(this, where);
  };
}"""
