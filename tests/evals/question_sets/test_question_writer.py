"""Question files that we write: whatever the text, the same rows are read back."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assay.evals.question_sets.question_files import as_yaml, is_empty, read_yaml, write_yaml
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.schemas import QUESTIONS

ANY = st.text(st.characters(exclude_categories=("Cs",)), min_size=3, max_size=80)
HARD = st.sampled_from(
    [
        "- a list",
        "? key",
        "key: value # comment",
        "{a: b}",
        "[x]",
        "'single'",
        '"double"',
        "null",
        "yes",
        "0x1F",
        "2024-01-01",
        "1e5",
        "~~~",
        "&anchor *alias",
        "!!python/object:os.system",
        "%TAG",
        "---",
        "...",
        "\n\n\n",
        " leading",
        "trailing  ",
        "tab\there",
        "a\r\nb\rc",
        "line\u2028and\u0085next",
        "\ufeffBOM",
        "\x00\x1b\x7f",
        "${HOME}",
        "$${HOME}",
        "$$${HOME} ${",
        "😀 emoji",
        "e\u0301 and é",
        "|\n  block\n",
        "> folded",
        "@at `tick`",
        "'''",
        "\\n not a line",
        "« guillemets »",
        "x" * 5_000,
        "word " * 300,
        "Replace this by me",
    ]
)
TEXT = ANY | HARD
DATE = st.dates().map(lambda day: day.isoformat())
EVIDENCE = st.fixed_dictionaries(
    {"url": TEXT, "source": st.none() | TEXT, "quote": st.none() | TEXT, "grade": st.integers(1, 10)}
)


@st.composite
def questions(draw: st.DrawFn, number: int) -> dict[str, Any]:
    answerable = draw(st.booleans())
    evidence = draw(st.lists(EVIDENCE, max_size=3)) if answerable else []
    truth = draw(TEXT if answerable else st.none() | TEXT)
    language = draw(st.sampled_from(["en", "de", "fr"]))
    refusal = {"en": "The documents do not say.", "de": "Die Dokumente sagen dazu nichts.", "fr": None}
    has_quote = any(item["quote"] for item in evidence)
    text = draw(TEXT.filter(lambda text: not (text.startswith("Replace this by") or is_empty(text))))
    truth = truth if answerable or truth else refusal[language]
    return {
        "question_id": f"{draw(st.sampled_from(['q', '1', 'no', '2024-01-01', '.']))}-{number}",
        "question_set": "set",
        "type": draw(st.sampled_from(["normal", "yes_no", "hypothetical", "complex"])),
        "language": language,
        "question": text,
        "ground_truth": "x" if truth and truth.startswith("Replace this by") else truth,
        "answerable": answerable,
        "needs": draw(st.sampled_from(["all", "any"])),
        "gold": "spans" if has_quote else "documents" if evidence else "none",
        "time_from": draw(st.none() | DATE),
        "time_to": draw(st.none() | DATE),
        "asked_at": draw(st.none() | DATE),
        "conversation": draw(st.lists(TEXT, max_size=3)),
        "evidence": evidence,
    }


SETS = st.integers(1, 4).flatmap(lambda n: st.tuples(*(questions(number) for number in range(n))))


@given(SETS)
def test_what_is_written_is_read_back(rows: tuple[dict[str, Any], ...]) -> None:
    assert {name for row in rows for name in row} == set(QUESTIONS)
    with TemporaryDirectory() as folder:
        path = write_yaml(
            rows, Path(folder) / "new" / "set.questions.yaml", "Made by hand:\n\nnot at all # x"
        )
        assert read_yaml(path) == list(rows)


def test_resolved_rows_are_written_as_they_were(tmp_path: Path) -> None:
    row = {
        "question_id": "a",
        "question_set": "s",
        "question": "Who is it?",
        "language": None,
        "evidence": [
            {"doc_id": "d", "url": "u", "quote": "me", "start": 3, "end": 5, "grade": 1, "reason": None}
        ],
    }
    text = as_yaml([{**row, "evidence": [{**row["evidence"][0], "quote": "it is me"}]}])
    assert "language: en" in text
    assert "doc_id" not in text
    (found,) = read_yaml(write_yaml([row | {"evidence": [{"url": "u"}]}], tmp_path / "s.yaml"))
    assert found["evidence"] == [{"url": "u", "source": None, "quote": None, "grade": 1}]


GOOD = {"question_id": "a", "question_set": "s", "question": "Who?", "ground_truth": "I."}


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([], "these are of 0"),
        ([GOOD, GOOD | {"question_id": "b", "question_set": "t"}], "these are of 2"),
        ([GOOD, GOOD], "two questions have the id a"),
        ([GOOD | {"question_id": "a b"}], "questions item 1.id"),
        ([GOOD | {"question": "?"}, GOOD | {"question_id": "b", "type": "odd"}], "questions item 2.type"),
        ([GOOD | {"question": "lone \ud800 half"}], "questions item 1.question"),
        ([GOOD | {"ground_truth": None}], "needs evidence or a ground_truth"),
    ],
)
def test_what_could_not_be_read_back_is_refused(
    tmp_path: Path, rows: list[dict[str, Any]], told: str
) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("kept")
    with pytest.raises(InputError) as caught:
        write_yaml(rows, path)
    assert told in str(caught.value)
    assert path.read_text() == "kept"


def test_a_file_that_would_be_too_large_to_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="larger than 10 MB"):
        write_yaml([GOOD | {"ground_truth": "x" * 10_000_001}], tmp_path / "s.yaml")
    assert not list(tmp_path.iterdir())
