"""From a thumb down in Chat to a question of the study and its next run, all within the app."""

from __future__ import annotations

import pytest

from tests.fakes.browser import LONGEST
from tests.fakes.talked import EXTRACTIVE, ChatTab, Chatted

pytestmark = pytest.mark.models


def test_a_thumb_down_becomes_a_question_and_the_study_is_run(chat: Chatted, at: ChatTab) -> None:
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

    at.page.get_by_role("button", name="Run the study now").click()
    at.page.get_by_role("link", name="Follow it in Monitor").click()
    at.page.get_by_role("heading", name="Stages").wait_for()
