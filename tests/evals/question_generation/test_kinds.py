"""Candidates of each kind, in English and German, and what is none."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from rag_assay.evals.question_generation.definitions import definitions_of
from rag_assay.evals.question_generation.definitions import question_of as defined
from rag_assay.evals.question_generation.kinds import (
    KINDS,
    MANY,
    Targets,
    dates_of,
    draw_candidates,
    headings_of,
    links_of,
    title_of,
)
from rag_assay.evals.question_generation.kinds import question_of as dated
from rag_assay.evals.question_generation.texts import Drop, QuestionCandidate, SourceText, Tally
from rag_assay.evals.question_sets.alignment import find_quote
from tests.evals.question_generation.texts import PILOTS, text

TITLE = "The pilots of Port Ellery"


def made(found: Iterable[QuestionCandidate | Drop]) -> dict[str, str | None]:
    return {one.question: one.evidence[0].quote for one in found if isinstance(one, QuestionCandidate)}


def test_a_title_is_answered_by_the_text_below_it_and_not_by_itself() -> None:
    found = title_of(text(PILOTS, TITLE))
    assert isinstance(found, QuestionCandidate)
    assert (found.question, found.language) == (TITLE, "en")
    quote = found.evidence[0].quote
    assert quote is not None
    assert quote.startswith("Fourteen pilots")
    assert TITLE not in quote


@pytest.mark.parametrize(
    "body",
    [
        "The pilots of Port Ellery\n{}",
        "The pilots of Port Ellery. {}",
        "# **The pilots** of Port Ellery\n\n![A pilot](pilot.png)\n\n{}",
        "{}",
    ],
)
def test_a_title_that_the_text_repeats_is_no_evidence(body: str) -> None:
    lead = "Fourteen pilots work here, and eleven of them told us how they board ships beyond the buoy."
    found = title_of(text(body.format(lead), TITLE))
    assert isinstance(found, QuestionCandidate)
    assert found.evidence[0].quote == lead


@pytest.mark.parametrize(
    ("title", "reason"),
    [
        ("", "has none"),
        ("Introduction", "generic"),
        ("Artikel 12", "generic"),
        ("report-final.pdf", "name of a file"),
        ("{{ page.title }}", "markup"),
        ("Harbour", "single word"),
        ("word " * 30, "longer than"),
        ("the and of", "no word"),
        ("2019", "no word"),
    ],
)
def test_titles_that_ask_nothing_are_dropped_with_the_reason(title: str, reason: str) -> None:
    found = title_of(text(PILOTS, title))
    assert isinstance(found, Drop)
    assert reason in found.reason


def test_headings_are_asked_with_the_title_where_they_are_short_and_generic_ones_not_at_all() -> None:
    found = made(headings_of(text(PILOTS, TITLE)))
    assert list(found) == ["Night passages of large ships", f"{TITLE}: Rotas"]
    quote = found["Night passages of large ships"]
    assert quote is not None
    assert quote.startswith("Nobody passes")
    assert quote.endswith("tide board.")


def test_sections_of_the_cleaner_go_before_those_of_markdown() -> None:
    body = (
        "Article 5\nDuties of the harbour master\nThe harbour master keeps a list of all berths and moorings."
    )
    heading = "Article 5 – Duties of the harbour master"
    sections = [{"heading": heading, "level": 1, "start": 0, "end": len(body)}]
    act = SourceText("d", "s", "u", "The harbour act", body, "en", sections)
    found = made(headings_of(act))
    assert found == {
        "The harbour act: Duties of the harbour master": (
            "The harbour master keeps a list of all berths and moorings."
        )
    }


@pytest.mark.parametrize(
    ("sentence", "language", "question"),
    [
        ("A CDN is a set of servers that keep copies.", "en", "What is a CDN?"),
        ("OpenFEC is the newest interface of the commission.", "en", "What is OpenFEC?"),
        (
            "(3) ‘average climate’ means the temperatures of the year.",
            "en",
            "What does ‘average climate’ mean?",
        ),
        ("Harbour dues are paid by everybody.", "en", None),
        ("Today is a good day to start.", "en", None),
        ("This is a test of the rule.", "en", None),
        ("There is a pilot on board.", "en", None),
        ("The reason is the storm of May.", "en", None),
        ("Our boat is the oldest one.", "en", None),
        ("“Malte is the best player of all, he said.", "en", None),
        ("Eine Schleuse ist ein Bauwerk zwischen zwei Wasserständen.", "de", "Was ist eine Schleuse?"),
        ("„Grubenlampe“ bezeichnet den Pokal der Liga.", "de", "Was bezeichnet ‘Grubenlampe’?"),
        ("Unter Hochwasser versteht man einen hohen Stand.", "de", "Was versteht man unter Hochwasser?"),
        ("Das ist ein Test der Regel.", "de", None),
        ("Der Grund ist der Sturm vom Mai.", "de", None),
        ("Angedacht ist das Rückspiel im April.", "de", None),
    ],
)
def test_what_defines_and_what_does_not(sentence: str, language: str, question: str | None) -> None:
    assert defined(sentence, "en" if language == "en" else "de") == question


@pytest.mark.parametrize(
    ("sentence", "language", "question"),
    [
        ("The station was built in 1987.", "en", "When was the station built?"),
        ("In March 2021, the council adopted a new rule.", "en", "When did the council adopt a new rule?"),
        ("Jacob Harris joined 18F in May of 2015 after nine years.", "en", "When did Jacob Harris join 18F?"),
        ("They opened it in 2019.", "en", None),
        ("The station was built in 1987 and closed in 1999.", "en", None),
        ("The station was built last year.", "en", None),
        ("The station was open in 1987.", "en", None),
        (
            "Der Verein wurde 1907 in Zechenau gegründet.",
            "de",
            "Wann wurde der Verein in Zechenau gegründet?",
        ),
        ("Am 3. Mai 2019 stieg der Verein in die Liga auf.", "de", "Wann stieg der Verein in die Liga auf?"),
        ("Sie wurde 1907 gegründet.", "de", None),
        ("Der Verein, der 1907 kam, wurde aufgelöst.", "de", None),
    ],
)
def test_what_dates_and_what_does_not(sentence: str, language: str, question: str | None) -> None:
    assert dated(sentence, "en" if language == "en" else "de") == question


def test_the_sentence_is_quote_and_ground_truth() -> None:
    body = "Ships wait.\n\nA fairway is the deep\nchannel in the [middle](a.md) of the **harbour**.\n"
    (found,) = definitions_of(text(body, language="en"))
    assert found.ground_truth == "A fairway is the deep channel in the middle of the harbour."
    assert found.evidence[0].quote == body.split("\n\n")[1].strip()
    (date,) = dates_of(text(PILOTS, language="en"))
    assert date.question == "When was the pilot station opened?"


def test_a_text_in_another_language_gives_nothing() -> None:
    french = text(
        "# Le port\n\nUn chenal est un passage profond au milieu du port de la ville.", "Le port de mer"
    )
    other = SourceText("d", "s", "u", "Le port de mer", french.text, "fr")
    found = [title_of(other), *headings_of(other), *definitions_of(other), *dates_of(other)]
    assert all(isinstance(one, Drop) for one in found)


def links(*texts: SourceText) -> list[tuple[str, str]]:
    targets = Targets()
    for one in texts:
        targets.add(one)
    found = (candidate for one in texts for candidate in links_of(one, targets))
    return [(one.question, one.evidence[0].url) for one in found if isinstance(one, QuestionCandidate)]


@pytest.mark.parametrize(
    "href", ["b.md", "./b.md", "b.md#rotas", '<b.md> "The pilots"', "../docs/b.md", '{{ "b.md" | url }}']
)
def test_links_ask_about_what_they_lead_to(href: str) -> None:
    one = text(f"Read [how the pilots board ships]({href}) first.", name="docs/a.md", language="en")
    other = text(PILOTS, TITLE, "docs/b.md", "en")
    assert links(one, other) == [("how the pilots board ships", "docs/b.md")]


@pytest.mark.parametrize(
    "link",
    [
        "[here](b.md)",
        "[mehr lesen](b.md)",
        "[the pilots of the harbour](c.md)",
        "[the pilots of the harbour](http://[broken)",
        "![the pilots of the harbour](b.md)",
        "[the pilots of the harbour](a.md)",
        "[the pilots of the harbour]()",
        "[the pilots of the harbour](mailto:b.md)",
    ],
)
def test_links_that_ask_nothing_or_lead_nowhere(link: str) -> None:
    assert links(text(link, name="a.md", language="en"), text(PILOTS, TITLE, "b.md", "en")) == []


def test_inline_html_and_web_addresses() -> None:
    body = 'See <a class="x" href="https://www.a.example/pilots/#x"><b>how pilots</b> board ships</a>.'
    one = text(body, name="http://a.example/", language="en")
    other = text(PILOTS, TITLE, "http://a.example/pilots", "en")
    assert links(one, other) == [("how pilots board ships", "http://a.example/pilots")]


def test_equal_questions_are_one_that_any_of_them_answers_and_many_are_none() -> None:
    definition = "A fairway is the deep channel in the middle of the harbour."
    few = [text(f"Number {n} of the lists. {definition}", name=f"{n}.md", language="en") for n in range(MANY)]
    tally = Tally()
    (found,) = draw_candidates(lambda: few, ["definitions"], 10, 7, tally)["definitions"]
    assert (len(found.evidence), found.needs) == (MANY, "any")
    many = [*few, text(definition, name="last.md", language="en")]
    assert draw_candidates(lambda: many, ["definitions"], 10, 7, tally) == {"definitions": []}
    assert tally.lines() == [f"4 definitions: the same words in more than {MANY} documents"]


HOSTILE = (
    "# [[[[((((" * 50,
    "\u202e# \u0000 ‘a’ means " * 200,
    "[" * 5_000,
    "](" * 5_000,
    "<a href='" * 2_000,
    "A " * 20_000 + "is a b.",
    "#" * 10_000,
    "* _ ** " * 3_000,
    "\n# a\n" * 3_000,
    "On 3 May 2019 " * 1_000,
    '{{ "' * 3_000,
)


@pytest.mark.parametrize("body", HOSTILE)
def test_hostile_texts_raise_nothing_and_evidence_stands_in_them(body: str) -> None:
    one = text(body, body[:400], language="en")
    found = draw_candidates(lambda: [one], KINDS, 100, 7, Tally())
    for candidate in (candidate for kind in found.values() for candidate in kind):
        quote = candidate.evidence[0].quote
        assert quote is None or find_quote(one.text, quote) is not None
