"""Follow-ups are told from questions that stand alone, and are rewritten, in German and English."""

from __future__ import annotations

import pytest

from rag_assay.evals.query_transforms.follow_up import standalone
from rag_assay.evals.query_transforms.rules.follow_up_cues import depends
from tests.evals.query_transforms.conversations import SEEN, UNSEEN, Said

LEAST = 0.9  # precision and recall


@pytest.mark.parametrize("cases", [SEEN, UNSEEN], ids=["seen", "unseen"])
def test_precision_and_recall_on_conversations(cases: tuple[tuple[str, Said, bool], ...]) -> None:
    taken = [(text, leans) for text, _, leans in cases if depends(text)]
    right = sum(leans for _, leans in taken)
    wrong = [text for text, _, leans in cases if depends(text) != leans]
    assert right / len(taken) >= LEAST, wrong
    assert right / sum(leans for *_, leans in cases) >= LEAST, wrong


WAGE = ("Wie hoch ist der Mindestlohn in Sachsen?", "12,41 Euro.")
TOWER = ("How high is the lighthouse of Port Ellen?", "It is 54 metres high.")
STORE = ("Was regelt die Gasspeicherverordnung?", "Füllstände, die bis November zu erreichen sind.")
COACH = ("Wer trainiert Rot-Weiß Zechenau?", "Ralf Dünnwald.")


@pytest.mark.parametrize(
    ("text", "before", "wanted"),
    [
        ("Und in Bayern?", WAGE, "Wie hoch ist der Mindestlohn in Bayern?"),
        ("How about the one in Norderney?", TOWER, "How high is the lighthouse of Norderney?"),
        ("Und der Co-Trainer?", COACH, "Und der Co-Trainer? (Rot-Weiß Zechenau, Ralf Dünnwald)"),
        ("Aber warum November?", STORE, "Aber warum November? (Gasspeicherverordnung, Füllstände)"),
        ("Fährt um 21:40 Uhr eine?", COACH, "Fährt um 21:40 Uhr eine?"),
    ],
)
def test_what_is_swapped_keeps_the_rest_of_the_question_before(text: str, before: Said, wanted: str) -> None:
    assert standalone(text, before) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "Wie viele Tore schoss Terhorst diese Saison?",
        "Können Sie mir sagen, wann das Waldstadion gebaut wurde?",
        "Which laws changed in Ireland this year?",
        "The one-child policy was successful in China.",
        "What is inflation?",
    ],
)
def test_words_that_stand_for_nothing_make_no_follow_up(text: str) -> None:
    assert not depends(text)
