"""From a thumb down in Chat to a question of the study, its next run and what changed, all within the app."""

from __future__ import annotations

import re

import pytest

from rag_assay.warehouse.artifacts import ArtifactStore
from tests.fakes.browser import LONGEST
from tests.fakes.processes import wait_until
from tests.fakes.talked import EXTRACTIVE, ChatTab, Chatted

pytestmark = pytest.mark.models


def test_a_thumb_down_becomes_a_question_that_the_next_run_measures(chat: Chatted, at: ChatTab) -> None:
    asked = "Wer war 2021 Platzwart in Hammerlohe?"
    at.open(chat.url(lang="en", cell=EXTRACTIVE)).ask(asked)
    at.page.locator("[data-testid=stFeedback] button").nth(1).click()
    at.page.get_by_role("textbox", name="What is wrong with it? One sentence.").fill("Davon steht nichts da.")
    at.page.get_by_role("button", name="Save").click()
    at.page.get_by_role("link", name="Review it").click()

    at.page.get_by_text("1 to decide on").wait_for(timeout=4 * LONGEST)
    assert at.page.locator(".as-comment").inner_text() == "Davon steht nichts da."
    at.page.get_by_role("button", name="Accept").click()
    at.page.get_by_text("needs evidence or a ground_truth").wait_for()
    at.page.get_by_text("The documents do not say").click()
    at.page.get_by_role("button", name="Accept").click()
    at.page.get_by_text("1 questions are accepted.").wait_for(timeout=4 * LONGEST)
    at.page.get_by_role("button", name="Add to the study's questions").click()
    at.page.get_by_text("1 questions of users are questions of liga now.").wait_for(timeout=4 * LONGEST)
    assert "liga-asked.questions.yaml" in chat.path.read_text(encoding="utf-8")

    before = ArtifactStore(chat.home).pointed_at("leaderboard", "liga")
    at.page.get_by_role("button", name="Run the study now").click()
    at.page.get_by_role("link", name="Follow it in Monitor").click()
    at.page.get_by_role("heading", name="Stages").wait_for()
    assert wait_until(lambda: ArtifactStore(chat.home).pointed_at("leaderboard", "liga") != before, 240)
    at.page.get_by_text("Up to date.").wait_for(timeout=8 * LONGEST)
    at.page.get_by_text("What changed").click()
    text = chat.path.with_name("liga-asked.questions.yaml").read_text(encoding="utf-8")
    assert asked in text
    (new,) = re.findall("asked-[0-9a-f]{10}", text)
    at.page.locator(".as-sections").get_by_text(new).first.wait_for(timeout=4 * LONGEST)
