"""The review file: what a person says of each question is read back, with a line for every mistake."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from rag_assay.evals.question_generation.llm.candidates import (
    Document,
    DocumentPiece,
    GenerationTask,
    QuestionDraft,
    Reason,
    RejectedQuestion,
    TaskOutcome,
)
from rag_assay.evals.question_generation.llm.study_questions import review_of
from rag_assay.evals.question_generation.review import read_review, with_earlier_reviews, write_review
from rag_assay.evals.question_sets.question_files import read_yaml, write_yaml
from rag_assay.warehouse.errors import InputError
from tests.fakes.question_model import SUBJECTS, documents

ODD = "${HOME}: - {a} # no comment\u2028\u202e 'quoted' \"twice\" \\ end"


def outcome(
    name: str,
    number: int,
    dropped: RejectedQuestion | None = None,
    draft: QuestionDraft | None = None,
    **task: object,
) -> TaskOutcome:
    document = documents((name,))[0]
    subject = SUBJECTS[name]
    made = draft or QuestionDraft(subject.question, subject.answer, (subject.quote,))
    piece = DocumentPiece(document, 0, len(document.text))
    return TaskOutcome(GenerationTask(number, "normal", (piece,))._replace(**task), made, dropped)


OUTCOMES = (
    outcome("ferry", 0),
    outcome("library", 1, RejectedQuestion(Reason.NEAR_DUPLICATE, "it asks what another asks")),
    TaskOutcome(outcome("pool", 2).task, None, RejectedQuestion(Reason.TRUNCATED, "The answer was cut")),
    outcome("museum", 3, draft=QuestionDraft("Who paid for the museum?"), kind="unanswerable"),
    outcome(
        "market",
        4,
        draft=QuestionDraft(
            "And geese?", "No.", (SUBJECTS["market"].quote,), ("Who sells?", "All."), "Are geese sold?"
        ),
        kind="follow_up",
    ),
    outcome("school", 5, draft=QuestionDraft(ODD + "?", ODD, (SUBJECTS["school"].quote,))),
)


def texts_of(url: str, source: str | None) -> Sequence[str]:
    return [one.text for one in documents() if one.url == url and source in (None, one.source)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "town.review.yaml"
    write_review(path, review_of(OUTCOMES, documents(), "town").model_copy(update={"study": "town"}))
    return path


def decide(path: Path, *reviews: str) -> None:
    """Set the reviews of the questions, in the order of the file."""
    head, *rest = path.read_text(encoding="utf-8").split("  review: ")
    changed = [f"{review}\n{part.partition(chr(10))[2]}" for review, part in zip(reviews, rest, strict=False)]
    path.write_text("  review: ".join([head, *changed, *rest[len(changed) :]]), encoding="utf-8")


def findings(path: Path, **options: bool) -> list[str]:
    with pytest.raises(InputError) as caught:
        read_review(path, texts_of, **options)
    return [one.partition(f"{path}:")[2] for one in caught.value.findings]


def line_of(path: Path, text: str) -> int:
    lines = path.read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_what_is_kept_comes_first_and_what_was_dropped_says_why(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("review: open") == 4
    assert text.count("review: drop") == 1
    assert text.index("review: drop") > text.rindex("review: open")
    assert "  fault: near_duplicate\n  reason: it asks what another asks\n" in text
    assert "faults:\n  near_duplicate: 1\n  truncated: 1\n" in text
    assert "without_question:\n- made_as: normal\n  fault: truncated\n" in text


def test_accepted_and_open_questions_are_read_back_as_they_were_written(path: Path, tmp_path: Path) -> None:
    decide(path, "accept", "accept")
    read = read_review(path, texts_of, accept_open=True)
    assert dict(read.counts) == {"accept": 2, "open": 2, "drop": 1}
    write_yaml(read.rows, tmp_path / "town.questions.yaml")
    rows = read_yaml(tmp_path / "town.questions.yaml")
    assert rows == read.rows
    assert [row["question"] for row in rows] == [
        SUBJECTS["ferry"].question,
        "Who paid for the museum?",
        "And geese?",
        ODD + "?",
    ]
    assert [row["answerable"] for row in rows] == [True, False, True, True]
    assert rows[2]["conversation"] == ["Who sells?", "All."]
    assert rows[3]["ground_truth"] == ODD
    assert [item["quote"] for row in rows for item in row["evidence"]] == [
        SUBJECTS[name].quote for name in ("ferry", "market", "school")
    ]


def test_open_questions_are_left_out_unless_they_are_asked_for(path: Path) -> None:
    decide(path, "accept", "open", "drop", "mend")
    read = read_review(path, texts_of)
    assert [row["question"] for row in read.rows] == [SUBJECTS["ferry"].question, ODD + "?"]
    assert dict(read.counts) == {"accept": 1, "open": 1, "drop": 2, "mend": 1}


def test_a_dropped_question_can_be_taken_after_all(path: Path) -> None:
    decide(path, "drop", "drop", "drop", "drop", "accept")
    read = read_review(path, texts_of)
    assert [row["question"] for row in read.rows] == [SUBJECTS["library"].question]


def test_a_quote_that_was_mended_wrongly_is_a_mistake_with_its_line(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(SUBJECTS["ferry"].quote, "Above ten Beaufort it sails"), encoding="utf-8")
    decide(path, "mend")
    (finding,) = findings(path)
    assert finding.startswith(f"{line_of(path, 'Above ten Beaufort')}: the document does not hold this quote")


def test_an_address_that_was_mended_wrongly_is_a_mistake_with_its_line(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("url: ferry.md", "url: fery.md", 1), encoding="utf-8")
    decide(path, "mend")
    (finding,) = findings(path)
    assert finding.startswith(f"{line_of(path, 'fery.md')}: no document has the URL fery.md")


def test_what_is_wrong_with_an_open_question_is_no_mistake_yet(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(SUBJECTS["ferry"].quote, "Nowhere to be found"), encoding="utf-8")
    decide(path, "open", "accept")
    assert len(read_review(path, texts_of).rows) == 1
    assert len(findings(path, accept_open=True)) == 1


@pytest.mark.parametrize(
    ("old", "new", "at", "expected"),
    [
        ("review: open", "review: maybe", "review: maybe", "must be 'open', 'accept', 'mend' or 'drop'"),
        ("  ground_truth: From", "  groundtruth: From", "groundtruth", "unknown key"),
        ("question_set: town\n", "", "study: town", "`question_set` is missing"),
        ("- id: ", "- id: a b", "- id: a b", "id"),
    ],
)
def test_a_mistake_in_the_file_has_its_line(path: Path, old: str, new: str, at: str, expected: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    (finding,) = findings(path)
    assert expected in finding
    if old != "question_set: town\n":
        assert finding.startswith(f"{line_of(path, at)}: ")


def test_two_questions_of_one_id_are_a_mistake(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    first, second = [line for line in text.splitlines() if line.startswith("- id: ")][:2]
    path.write_text(text.replace(second, first), encoding="utf-8")
    (finding,) = findings(path, accept_open=True)
    assert "a second question with the id" in finding


@pytest.mark.parametrize(
    ("reviews", "expected"),
    [((), "none of 5 questions is accepted or edited, 4 are open"), (("drop",) * 5, "all of 5 questions")],
)
def test_a_file_without_an_accepted_question_says_so(
    path: Path, reviews: tuple[str, ...], expected: str
) -> None:
    decide(path, *reviews)
    (finding,) = findings(path)
    assert expected in finding


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "just words\n"])
def test_another_file_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(InputError, match="a review file is a mapping"):
        read_review(tmp_path / "x.yaml", texts_of)


def test_making_again_keeps_what_a_person_has_said(path: Path) -> None:
    decide(path, "mend", "drop", "open", "open", "accept")
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(SUBJECTS["ferry"].answer, "From ten Beaufort on."), encoding="utf-8")
    again = review_of([OUTCOMES[0], OUTCOMES[5], outcome("bakery", 6)], documents(), "town")
    merged = with_earlier_reviews(again, path)
    assert {one.question: one.review for one in merged.questions} == {
        "Who paid for the museum?": "drop",
        SUBJECTS["library"].question: "accept",
        SUBJECTS["ferry"].question: "mend",
        ODD + "?": "open",
        SUBJECTS["bakery"].question: "open",
    }
    mended = next(one for one in merged.questions if one.review == "mend")
    assert mended.ground_truth == "From ten Beaufort on."


def test_the_reviews_of_another_set_are_not_replaced(path: Path) -> None:
    with pytest.raises(InputError, match="this file is of the set town, not of village"):
        with_earlier_reviews(review_of(OUTCOMES, documents(), "village"), path)


def test_the_same_words_made_twice_have_two_ids() -> None:
    twice = [outcome("ferry", 0), outcome("ferry", 1, RejectedQuestion(Reason.NEAR_DUPLICATE, "it repeats"))]
    ids = [one.id for one in review_of(twice, documents(), "town").questions]
    assert ids[1] == f"{ids[0]}-2"


def test_a_url_of_two_documents_is_named_with_its_source() -> None:
    one = documents(("ferry",))[0]
    both = [one, Document("other", "village", one.url, None, "en", "Another text at this address.")]
    (question,) = review_of([outcome("ferry", 0)], both, "town").questions
    assert [item.source for item in question.evidence] == ["town"]


def test_a_question_in_a_language_of_its_own_says_so() -> None:
    german = documents(("pool",), "de")[0]
    other = TaskOutcome(
        GenerationTask(1, "normal", (DocumentPiece(german, 0, len(german.text)),)),
        QuestionDraft("Wie warm ist das Wasser?", "26 Grad.", (SUBJECTS["pool"].quote,)),
    )
    file = review_of([outcome("ferry", 0), outcome("museum", 2), other], documents(), "town")
    assert file.language == "en"
    assert [one.language for one in file.questions] == [None, None, "de"]


def test_a_reply_that_no_file_could_hold_is_kept_with_its_reason() -> None:
    short = outcome(
        "ferry",
        0,
        RejectedQuestion(Reason.NO_QUESTION, "'?' is not a question"),
        QuestionDraft("?", "a", ("b",)),
    )
    file = review_of([short], documents(), "town")
    assert file.questions == ()
    assert [one.fault for one in file.without_question] == ["no_question"]
