"""Question files and BEIR folders: what is read, and every mistake with its line."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from rag_assay.evals.question_sets.question_files import read_yaml, short_questions, write_yaml
from rag_assay.evals.question_sets.readers import WrittenSet, read_sets
from rag_assay.evals.question_sets.readers.beir import read_beir
from rag_assay.evals.question_sets.readers.contract import SetFile
from rag_assay.evals.study.grid import read_questions_of
from rag_assay.evals.study.study_file import read_study
from rag_assay.warehouse.errors import InputError, Mistake
from tests.fakes.tiny import QUESTIONS, write_study

HEAD = "question_set: set\nlanguage: de\nquestions:\n"


def written(folder: Path, questions: str, head: str = HEAD) -> Path:
    path = folder / "set.questions.yaml"
    path.write_text(head + questions, encoding="utf-8")
    return path


def findings(path: Path) -> list[str]:
    with pytest.raises(InputError) as caught:
        read_yaml(path)
    return [finding.replace(f"{path.parent}/", "") for finding in caught.value.findings]


def test_a_question_with_all_of_its_parts(tmp_path: Path) -> None:
    (row,) = read_yaml(
        written(
            tmp_path,
            "- id: a.1\n  type: yes_no\n  question: Fährt sie?\n  ground_truth: Ja.\n  needs: any\n"
            "  time_frame: {from: 2024-01-01, to: 2024-12-31}\n"
            "  asked_at: 2024-06-01\n  conversation: ['Which one?', The ferry.]\n"
            "  evidence:\n  - {url: 'https://x', quote: um zwölf, grade: 3}\n  - {url: 'https://y'}\n",
        )
    )
    assert row == {
        "question_id": "a.1",
        "question_set": "set",
        "type": "yes_no",
        "language": "de",
        "question": "Fährt sie?",
        "ground_truth": "Ja.",
        "answerable": True,
        "needs": "any",
        "gold": "spans",
        "time_from": "2024-01-01",
        "time_to": "2024-12-31",
        "asked_at": "2024-06-01",
        "conversation": ["Which one?", "The ferry."],
        "evidence": [
            {"url": "https://x", "source": None, "quote": "um zwölf", "grade": 3},
            {"url": "https://y", "source": None, "quote": None, "grade": 1},
        ],
    }


def test_a_file_says_when_its_questions_are_asked_unless_they_do(tmp_path: Path) -> None:
    head = HEAD.replace("questions:", "asked_at: 2024-06-01\nquestions:")
    questions = (
        "- {id: a, question: Was, ground_truth: x}\n"
        "- {id: b, question: Was, ground_truth: x, asked_at: 2023-12-31}\n"
    )
    rows = read_yaml(written(tmp_path, questions, head))
    assert [row["asked_at"] for row in rows] == ["2024-06-01", "2023-12-31"]
    (bare,) = read_yaml(written(tmp_path, "- {id: a, question: Was, ground_truth: x}\n"))
    assert (bare["asked_at"], bare["conversation"]) == (None, [])


def test_an_unanswerable_question_has_the_refusal_as_its_truth(tmp_path: Path) -> None:
    (row,) = read_yaml(written(tmp_path, "- {id: a, question: Wer war es, answerable: false}\n"))
    assert (row["answerable"], row["gold"], row["evidence"]) == (False, "none", [])
    assert row["ground_truth"] == "Die Dokumente sagen dazu nichts."


def test_evidence_without_a_quote_is_a_gold_of_documents(tmp_path: Path) -> None:
    (row,) = read_yaml(written(tmp_path, "- {id: a, question: Was ist es, evidence: [{url: 'https://x'}]}\n"))
    assert row["gold"] == "documents"


ASKED = ["q0", "何?", "W", "เขา", "🦆", "ما؟", "5", "a" * 10_000, "何" * 10_000]
EMPTY = [" ", "?", "…!?", "\u200b", "\u00ad \ufeff", "\u3164", "\u2800", "\u0301", "¿?"]


@pytest.mark.parametrize("question", ASKED, ids=lambda text: text[:5])
def test_a_question_may_be_as_short_or_long_as_it_is(tmp_path: Path, question: str) -> None:
    (row,) = read_yaml(written(tmp_path, f"- {{id: a, question: '{question}', ground_truth: x}}\n"))
    assert row["question"] == question
    (again,) = read_yaml(write_yaml([row], tmp_path / "again.yaml"))
    assert again == row


@pytest.mark.parametrize("question", EMPTY, ids=ascii)
def test_a_question_without_letter_digit_or_symbol_is_refused(tmp_path: Path, question: str) -> None:
    text = json.dumps(question)  # YAML reads JSON's escapes
    (told,) = findings(written(tmp_path, f"- {{id: a, question: {text}, ground_truth: x}}\n"))
    assert "set.questions.yaml:4" in told
    assert "a question needs a letter, digit or symbol" in told


def test_an_empty_query_of_a_beir_folder_is_refused_where_it_is_asked(tmp_path: Path) -> None:
    queries = [{"_id": "q1", "text": "?"}, {"_id": "q2", "text": "q0"}]
    assert [row["question"] for row in read_beir(beir(tmp_path, "q2\td1\t1\n", queries), "test", "s")] == [
        "q0"
    ]
    with pytest.raises(InputError, match=r"query q1 in queries\.jsonl: a question needs a letter"):
        read_beir(beir(tmp_path, "q1\td1\t1\n", queries), "test", "s")


def test_short_questions_are_told_in_one_sentence() -> None:
    assert short_questions([("a", "Why?"), ("b", "何?"), ("c", "뭐?"), ("d", "ما؟")]) is None
    assert short_questions([("a", "q0"), ("b", "Why?")]) == (
        "1 question has fewer than 3 letters or digits, check for lost text: 'q0' (a)"
    )
    many = short_questions([(f"line {n}", f"q{n}") for n in range(9)])
    assert many is not None
    assert many.startswith("9 questions have fewer")
    assert many.endswith("'q4' (line 4) and 4 more")


MISTAKES = [
    ("- {id: a b, question: Was, ground_truth: x}", 4, "string_pattern_mismatch"),
    ("- {question: Was, ground_truth: x}", 4, "missing"),
    ("- {id: a, question: Was, ground_thruth: x}", 4, "unknown_key"),
    ("- {id: a, question: '', ground_truth: x}", 4, "string_too_short"),
    ("- {id: a, question: '?', ground_truth: x}", 4, "value_error"),
    ("- {id: a, question: Was}", 4, "value_error"),
    ("- {id: a, question: Was, answerable: false, evidence: [{url: u}]}", 4, "value_error"),
    ("- id: a\n  question: Was?\n  evidence:\n  - grade: 2\n", 7, "value_error"),
    ("- id: a\n  question: Was?\n  evidence:\n  - {url: u, start: 3}\n", 7, "value_error"),
    ("- id: a\n  question: Was?\n  evidence:\n  - {url: u, start: 3, end: 3}\n", 7, "value_error"),
    ("- id: a\n  question: Was?\n  evidence:\n  - {quote: abc, start: 3, end: 9}\n", 7, "value_error"),
    ("- id: a\n  question: Was?\n  evidence:\n  - {url: u, start: -3, end: 9}\n", 7, "greater_than_equal"),
    ("- id: a\n  question: Was?\n  evidence:\n  - url: u\n    grade: 0\n", 8, "greater_than_equal"),
    ("- id: a\n  question: Was?\n  evidence:\n  - url: u\n    qoute: abc\n", 8, "unknown_key"),
    ("- {id: a, question: Was, ground_truth: x, asked_at: gestern}", 4, "date_from_datetime_parsing"),
    ("- {id: a, question: Was, ground_truth: x, conversation: Hallo}", 4, "tuple_type"),
    ("- {id: a, question: Was, ground_truth: x, type: hard}", 4, "literal_error"),
    ("- {id: a, question: Was, ground_truth: x, needs: some}", 4, "literal_error"),
    (
        "- id: a\n  question: Was?\n  ground_truth: x\n  time_frame: {from: 2024-13-01}",
        7,
        "date_from_datetime_parsing",
    ),
    ("- id: a\n  question: Was?\n  ground_truth: x\n  time_frame: {form: 2024-01-01}", 7, "unknown_key"),
    ("  []", 3, "too_short"),
    ("  Was?", 3, "tuple_type"),
]


@pytest.mark.parametrize(("text", "line", "code"), MISTAKES, ids=lambda value: str(value)[:40])
def test_a_mistake_is_known_by_its_line_and_code(tmp_path: Path, text: str, line: int, code: str) -> None:
    """Its text stands in the golden file of `tests/evals/study/test_mistakes.py`."""
    with pytest.raises(InputError) as caught:
        read_yaml(written(tmp_path, text))
    (found,) = caught.value.findings
    assert isinstance(found, Mistake)
    assert (found.path.name, found.line, found.code) == ("set.questions.yaml", line, code)


def test_all_mistakes_of_a_file_are_told(tmp_path: Path) -> None:
    found = findings(written(tmp_path, "- {id: a, question: Was}\n- {id: b, quest: Was}\n- {id: c d}\n"))
    assert [finding.split(": ")[0] for finding in found] == [
        f"set.questions.yaml:{line}" for line in (4, 5, 5, 6, 6)
    ]


def test_doubled_ids_are_told_all_at_once(tmp_path: Path) -> None:
    one = "- {{id: {}, question: Was, ground_truth: x}}\n"
    found = findings(written(tmp_path, "".join(one.format(name) for name in "abaab")))
    assert found == [
        "set.questions.yaml:6: a second question with the id a",
        "set.questions.yaml:7: a second question with the id a",
        "set.questions.yaml:8: a second question with the id b",
    ]


@pytest.mark.parametrize("text", ["", "- a\n", "plain\n"])
def test_what_is_no_question_file(tmp_path: Path, text: str) -> None:
    (found,) = findings(written(tmp_path, "", text))
    assert found.startswith("set.questions.yaml:1: a question file is a mapping with the keys question_set")


def test_one_id_in_two_sets_of_a_study_is_refused(tmp_path: Path) -> None:
    second = "- file: ferry.questions.yaml\n  - file: more.questions.yaml"
    path = write_study(tmp_path, {"- file: ferry.questions.yaml": second})
    (tmp_path / "more.questions.yaml").write_text(QUESTIONS.replace("id: noon", "id: night"))
    with pytest.raises(InputError) as caught:
        read_questions_of(read_study(path))
    assert "the question id tickets stands in" in str(caught.value)
    (tmp_path / "more.questions.yaml").write_text(HEAD + "- {id: z, question: Was, ground_truth: x}\n")
    assert len(read_questions_of(read_study(path))) == 4


def test_the_mistakes_of_several_files_are_told_together(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.yaml").write_text("question_set: s\nquestions: []\n")
    with pytest.raises(InputError) as caught:
        read_sets(
            [
                WrittenSet(SetFile(tmp_path / "a.yaml", "a")),
                WrittenSet(SetFile(tmp_path / "b.yaml", "b")),
                WrittenSet(SetFile(tmp_path, "c"), split="test"),
            ]
        )
    assert len(caught.value.findings) == 3


# --- BEIR ---------------------------------------------------------------------------------------------


def beir(folder: Path, qrels: str, queries: list[Any] | None = None) -> Path:
    (folder / "qrels").mkdir(exist_ok=True)
    (folder / "qrels" / "test.tsv").write_text(qrels, encoding="utf-8")
    rows = [{"_id": "q1", "text": "Eins?"}, {"_id": "q2", "text": "Zwei?"}] if queries is None else queries
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    (folder / "queries.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


GOOD = {
    "with a header": "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t1\nq2\td9\t0\n",
    "without a header": "q1\td1\t2\nq1\td2\t1\nq2\td9\t0\n",
    "trec": "q1\t0\td1\t2\nq1\t0\td2\t1\nq2\t0\td9\t0\n",
    "trec with a header": "query\titer\tdoc\trel\nq1\t0\td1\t2\nq1\t0\td2\t1\nq2\t0\td9\t0\n",
    "with blank lines and CRLF": "query-id\tcorpus-id\tscore\r\nq1\td1\t2\r\n\r\nq1\td2\t1\r\nq2\td9\t0\r\n",
    "with negative grades": "q1\td1\t2\nq1\td2\t1\nq2\td9\t-2\n",
}


@pytest.mark.parametrize("qrels", GOOD.values(), ids=GOOD)
def test_qrels(tmp_path: Path, qrels: str) -> None:
    (row,) = read_beir(beir(tmp_path, qrels), "test", "small")
    assert (row["question_id"], row["question_set"], row["question"]) == ("q1", "small", "Eins?")
    assert (row["gold"], row["needs"], row["answerable"]) == ("documents", "all", True)
    assert row["evidence"] == [{"url": "beir:d1", "grade": 2}, {"url": "beir:d2", "grade": 1}]


def test_queries_may_be_packed_and_hold_line_separators(tmp_path: Path) -> None:
    folder = beir(tmp_path, "q1\td1\t1\n", [{"_id": "q1", "text": "Eins\u2028und\u0085zwei?"}])
    plain = folder / "queries.jsonl"
    (folder / "queries.jsonl.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    (row,) = read_beir(folder, "test", "small")
    assert row["question"] == "Eins\u2028und\u0085zwei?"


@pytest.mark.parametrize(
    ("qrels", "queries", "told"),
    [
        ("q1\td1\n", None, "test.tsv: no document is graded above 0"),
        ("q1\td1\t1\nq1\t1\n", None, "test.tsv:2: expected query, document and grade"),
        ("q1\td1\t1\nq1 d2 1\n", None, "test.tsv:2: expected query, document and grade"),
        ("q1\td1\t1\nq1\td2\tgood\n", None, "test.tsv:2: expected query, document and grade"),
        ("q3\td1\t1\nq4\td1\t1\n", None, "the query q3 (and 1 others) is not in the folder's queries.jsonl"),
        ("q1\td1\t0\n", None, "no document is graded above 0, so there is nothing to ask"),
        ("q1\td1\t1\n", [{"_id": "q1", "text": "x"}, "{broken"], "queries.jsonl:2: expected a JSON object"),
        ("q1\td1\t1\n", [{"id": "q1", "text": "x"}], "queries.jsonl:1: expected a JSON object with"),
        ("q1\td1\t1\n", ["[1, 2]"], "queries.jsonl:1: expected a JSON object with"),
        ("q1\td1\t1\n", [{"_id": "q1", "text": None}], "queries.jsonl:1: expected a JSON object with"),
        ("q1\td1\t1\n", ["[" * 100_000], "queries.jsonl:1: expected a JSON object with"),
        ("q1\td1\t1\nq1\td2\t--5\n", None, "test.tsv:2: expected query, document and grade"),
        ("q1\td1\t1\nq1\td2\t" + "9" * 5_000, None, "test.tsv:2: expected query, document and grade"),
    ],
)
def test_a_mistake_in_a_beir_folder(tmp_path: Path, qrels: str, queries: list[Any] | None, told: str) -> None:
    with pytest.raises(InputError) as caught:
        read_beir(beir(tmp_path, qrels, queries), "test", "small")
    assert told in str(caught.value)


def test_what_a_beir_folder_lacks(tmp_path: Path) -> None:
    folder = beir(tmp_path, "q1\td1\t1\n")
    with pytest.raises(InputError, match=r"dev\.tsv: there is no such split; there are: test"):
        read_beir(folder, "dev", "small")
    (folder / "queries.jsonl").unlink()
    with pytest.raises(InputError, match=r"there is no queries\.jsonl"):
        read_beir(folder, "test", "small")
    (folder / "queries.jsonl.gz").write_bytes(b"\x1f\x8b torn")
    with pytest.raises(InputError, match=r"queries\.jsonl\.gz: not a whole gzip file"):
        read_beir(folder, "test", "small")
    (folder / "queries.jsonl").write_bytes(b'{"_id": "1", "text": "a"}\n\xff\xfe{}')
    with pytest.raises(InputError, match=r"queries\.jsonl:2: not UTF-8 text"):
        read_beir(folder, "test", "small")


@pytest.mark.parametrize("name", ["queries.jsonl", "queries.jsonl.gz", "qrels/test.tsv"])
def test_a_beir_file_that_never_ends_is_refused(tmp_path: Path, name: str) -> None:
    folder = beir(tmp_path, "q1\td1\t1\n")
    (folder / "queries.jsonl").rename(folder / "kept.jsonl") if name.endswith(".gz") else None
    path = folder / name
    path.unlink(missing_ok=True)
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(bytes(5_000_000)))  # one line that would be gigabytes as easily
        told = "longer than"
    else:
        os.mkfifo(path)
        told = "no such split|no regular file|there is no queries"
    with pytest.raises(InputError, match=told):
        read_beir(folder, "test", "small")
