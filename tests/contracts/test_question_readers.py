"""Every form of question set: what is read, ids that stay, and all mistakes at once, in sentences."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag_assay.evals.question_sets.readers import WrittenSet, files_of, read_set
from rag_assay.evals.question_sets.readers.contract import SetFile
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.parquet import frame
from rag_assay.warehouse.schemas import QUESTIONS

Rows = list[dict[str, Any]]
Data = bytes | Callable[[], bytes]


def read(path: Path, form: str | None = None, **said: Any) -> Rows:
    evidence = said.pop("evidence", None)
    return read_set(WrittenSet(SetFile(path, "set", **said), form, evidence=evidence))


def told(path: Path, form: str | None = None) -> list[str]:
    with pytest.raises(InputError) as caught:
        read(path, form)
    return [finding.replace(f"{path.parent}/", "") for finding in caught.value.findings]


def as_jsonl(rows: Rows) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def as_csv(rows: Rows) -> bytes:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    flat = [{name: _cell(row.get(name)) for name in columns} for row in rows]
    return pl.DataFrame(flat, schema=dict.fromkeys(columns, pl.String)).write_csv().encode()


def _cell(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def as_parquet(rows: Rows) -> bytes:
    from io import BytesIO

    out = BytesIO()
    pl.DataFrame(rows, infer_schema_length=None).write_parquet(out)
    return out.getvalue()


def made(data: Data) -> bytes:
    """Return data that is given, or made in the test: polars' threads must not start at import."""
    return data if isinstance(data, bytes) else data()


TABLES: dict[str, Callable[[Rows], bytes]] = {
    "set.jsonl": as_jsonl,
    "set.jsonl.gz": lambda rows: gzip.compress(as_jsonl(rows)),
    "set.json": lambda rows: json.dumps(rows).encode(),
    "set.csv": as_csv,
    "set.csv.gz": lambda rows: gzip.compress(as_csv(rows)),
    "set.parquet": as_parquet,
}
OURS: Rows = [
    {
        "id": "a",
        "question": "Fährt sie, „immer“?\n- und = wann?",
        "ground_truth": '=HYPERLINK("x")',
        "type": "yes_no",
        "answerable": True,
        "language": "de",
        "asked_at": "2024-06-01",
        "time_from": "2024-01-01",
        "url": "a.md",
        "quote": "um zwölf",
        "grade": 3,
        "conversation": ["Which one?", "The ferry."],
    },
    {"id": "a", "question": "Fährt sie, „immer“?\n- und = wann?", "url": "b.md"},
    {"id": "7", "question": "Who is it?", "answerable": False},
]


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_questions(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(TABLES[name](OURS))
    first, second = read(path)
    assert frame([first, second], {k: v for k, v in QUESTIONS.items() if k != "evidence"}) is not None
    assert {**first, "evidence": None} == {
        "question_id": "a",
        "question_set": "set",
        "type": "yes_no",
        "language": "de",
        "question": "Fährt sie, „immer“?\n- und = wann?",
        "ground_truth": '=HYPERLINK("x")',
        "answerable": True,
        "needs": "all",
        "gold": "spans",
        "time_from": "2024-01-01",
        "time_to": None,
        "asked_at": "2024-06-01",
        "conversation": ["Which one?", "The ferry."],
        "evidence": None,
    }
    assert first["evidence"] == [
        {"url": "a.md", "source": None, "quote": "um zwölf", "grade": 3},
        {"url": "b.md", "source": None, "quote": None, "grade": 1},
    ]
    assert (second["question_id"], second["answerable"], second["gold"]) == ("7", False, "none")


RAGAS_NOW: Rows = [
    {
        "user_input": "What does a mooring cost?",
        "reference": "Twelve pounds.",
        "reference_contexts": ["A mooring costs twelve pounds."],
        "reference_context_ids": ["a.md"],
        "response": "12",
        "retrieved_contexts": ["nothing"],
        "synthesizer_name": "single_hop",
    },
    {"user_input": "Who is the mayor?", "reference": "Nobody.", "synthesizer_name": "single_hop"},
]
RAGAS_OLD: Rows = [
    {
        "question": "What does a mooring cost?",
        "ground_truth": "Twelve pounds.",
        "evolution_type": "simple",
        "contexts": ["A mooring costs twelve pounds."],
        "episode_done": True,
    }
]
RAGAS_OLDEST: Rows = [
    {
        "question": "What does a mooring cost?",
        "ground_truths": ["Twelve pounds."],
        "contexts": ["nothing"],
        "answer": "12",
    }
]


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize(
    ("rows", "quotes"),
    [
        (RAGAS_NOW, ["A mooring costs twelve pounds."]),
        (RAGAS_OLD, ["A mooring costs twelve pounds."]),
        (RAGAS_OLDEST, []),
    ],
)
def test_a_ragas_data_set_of_any_version(tmp_path: Path, name: str, rows: Rows, quotes: list[str]) -> None:
    path = tmp_path / name
    path.write_bytes(TABLES[name](rows))
    first = read(path, language="en", asked_at="2024-01-01")[0]
    assert (first["question"], first["ground_truth"]) == ("What does a mooring cost?", "Twelve pounds.")
    assert [item["quote"] for item in first["evidence"]] == quotes
    assert (first["language"], first["asked_at"]) == ("en", "2024-01-01")
    assert read(path, "ragas")[0]["question_id"] == first["question_id"] == read(path)[0]["question_id"]
    if rows is RAGAS_NOW:
        assert (first["evidence"][0]["url"], first["evidence"][0]["anywhere"]) == ("a.md", True)
    (bare, *_) = read(path, evidence="none")
    assert (bare["evidence"], bare["gold"]) == ([], "none")
    truths = [row["evidence"][0].get("by_truth") for row in read(path, evidence="ground_truth")]
    assert truths == [None if row["question"] == first["question"] and quotes else True for row in read(path)]


def test_what_pandas_writes_of_lists_into_a_csv_file(tmp_path: Path) -> None:
    path = tmp_path / "set.csv"
    path.write_text('user_input,reference,reference_contexts\nWho?,I.,"[\'it is me\', ""it\'s you""]"\n')
    assert [item["quote"] for item in read(path)[0]["evidence"]] == ["it is me", "it's you"]
    path.write_text("user_input,reference,reference_contexts\nWho?,I.,\"['it is me'\"\n")
    assert told(path) == ['set.csv:2: contexts: must be a list, as in ["a", "b"]']


def test_lines(tmp_path: Path) -> None:
    path = tmp_path / "questions.txt"
    path.write_bytes(b"\xef\xbb\xbfWho? = I = me.\r\n\r\nWhat is it?=b\n")
    rows = read(path, language="en")
    assert [(row["question"], row["ground_truth"]) for row in rows] == [
        ("Who?", "I = me."),
        ("What is it?", "b"),
    ]
    assert rows[0]["evidence"] == []
    (item,) = read(path, evidence="ground_truth")[0]["evidence"]
    assert item == {"url": None, "quote": "I = me.", "grade": 1, "by_truth": True}
    path.write_bytes(b"Who? = I\nno answer\n=b\nWhat?=\nWho?=you\n")
    assert [finding[:16] for finding in told(path)] == [f"questions.txt:{n}:" for n in (2, 3, 4, 5)]
    shuffled = b"What is it?=b\nWho? = I = me.\n"
    path.write_bytes(shuffled)
    assert {row["question_id"] for row in read(path)} == {row["question_id"] for row in rows}, "ids stay"


CONTEXT = "A mooring costs twelve pounds a night. A berth costs four pounds."


def squad(*questions: dict[str, Any], context: Any = CONTEXT) -> bytes:
    return json.dumps(
        {"data": [{"title": "t", "paragraphs": [{"context": context, "qas": list(questions)}]}]}
    ).encode()


def asked(start: int, text: str, **more: Any) -> dict[str, Any]:
    return {"id": "q1", "question": "How much?", "answers": [{"text": text, "answer_start": start}], **more}


def test_squad(tmp_path: Path) -> None:
    path = tmp_path / "set.json"
    twice = asked(16, "twelve pounds", id="q2")
    twice["answers"] += [{"text": "twelve", "answer_start": 16}, *twice["answers"]]
    impossible = {"id": "q3", "question": "Who pays?", "answers": [], "is_impossible": True}
    path.write_bytes(squad(asked(58, "pounds", id=5), twice, impossible))
    one, two, three = read(path, language="en")
    assert one["evidence"] == [
        {"url": None, "context": CONTEXT, "quote": "pounds", "grade": 1, "start": 58, "end": 64}
    ]
    assert (one["question_id"], one["ground_truth"], one["gold"], one["needs"]) == (
        "5",
        "pounds",
        "spans",
        "all",
    )
    assert ([item["quote"] for item in two["evidence"]], two["needs"]) == (["twelve pounds", "twelve"], "any")
    assert (three["answerable"], three["ground_truth"]) == (False, "The documents do not say.")
    moved = tmp_path / "moved.json"
    moved.write_bytes(squad(asked(57, "pounds")))
    assert read(moved)[0]["evidence"][0]["start"] == 58, (
        "the nearest place of an answer whose offset is wrong"
    )


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            squad(asked(60, "four pounds.")),
            "data[0].paragraphs[0].qas[0]: the answer at 60 ends beyond its context",
        ),
        (squad(asked(-1, "A")), "the answer at -1 ends beyond"),
        (squad(asked(3, "guilders")), "the answer 'guilders' is not in its context; at 3 stands"),
        (squad(asked(0, "")), "an answer needs a `text`"),
        (squad({"id": "a", "question": "How much?", "answers": [3]}), "an answer needs a `text`"),
        (squad(asked(True, "A")), "the number `answer_start`"),
        (squad({"id": "a", "question": "How much?"}), "an answerable question needs `answers`"),
        (squad(asked(0, "A", question=None)), "question"),
        (squad(asked(0, "A", id=float("nan"))), "nan is not an id"),
        (squad(asked(0, "A"), asked(0, "A")), "qas[1]: a second question with the id q1"),
        (squad(asked(0, "A", is_impossible="no")), "`is_impossible` must be true or false"),
        (squad(context=None), "`context` is missing"),
        (squad(), "there is no question in it"),
        (b'{"data": 3}', "data: expected a list"),
        (b'{"data": [3]}', "data[0]: expected an object"),
        (b'{"data": [{"paragraphs": [{"context": "x", "qas": {}}]}]}', "qas: expected a list"),
        (b'{"version": "v2.0"}', "expected a SQuAD file"),
        (b"[[[" * 50_000, "nested too deeply"),
        (b'{"data":\n [}', "set.json:2: not valid JSON"),
        (b"\xff\xfe", "not UTF-8 text"),
        (b"", "set.json:1: not valid JSON"),
        (b"9" * 10_000, "cannot be read"),
    ],
)
def test_a_mistake_in_squad(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "set.json"
    path.write_bytes(data)
    (finding,) = told(path)
    assert said in finding
    assert finding.startswith("set.json")


def autorag(folder: Path, questions: Rows, passages: Rows | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    pl.DataFrame(questions, strict=False).write_parquet(folder / "qa.parquet")
    if passages is not None:
        pl.DataFrame(passages).write_parquet(folder / "corpus.parquet")
    return folder / "qa.parquet"


PASSAGES: Rows = [{"doc_id": name, "contents": f"This is passage {name}."} for name in "abc"]


def test_autorag(tmp_path: Path) -> None:
    rows: Rows = [
        {
            "qid": "1",
            "query": "How much?",
            "retrieval_gt": [["a"], ["b", "c"]],
            "generation_gt": ["Four.", "4"],
        },
        {"qid": "2", "query": "How much is it?", "retrieval_gt": [["b", "c"]], "generation_gt": ["Five."]},
    ]
    path = autorag(tmp_path, rows, PASSAGES)
    one, two = read(path)
    assert (one["ground_truth"], one["needs"]) == ("Four.", "all")
    assert [(item["url"], item["quote"]) for item in one["evidence"]] == [
        ("corpus.parquet#a", "This is passage a."),
        ("corpus.parquet#b", "This is passage b."),
    ]
    assert (two["needs"], len(two["evidence"])) == ("any", 2)
    assert files_of(WrittenSet(SetFile(path, "set"))) == [path, tmp_path / "corpus.parquet"]
    broken = autorag(tmp_path / "b", [{**rows[0], "retrieval_gt": [["a", "x"]]}], PASSAGES)
    assert told(broken) == ["qa.parquet: row 1: retrieval_gt: corpus.parquet has no passage 'x'"]
    assert "there is no such file" in told(autorag(tmp_path / "c", rows))[0]
    alone = tmp_path / "odd.parquet"
    pl.DataFrame({"qid": ["1"]}).write_parquet(alone)
    assert told(alone, "autorag") == [
        "odd.parquet: no column 'query': not the questions of an AutoRAG data set?"
    ]


WRONG: dict[str, tuple[str, Data, str]] = {
    "wrong columns": ("s.csv", b"id,quest\na,Who?\n", "s.csv:1: unknown column 'quest'; did you mean"),
    "no columns": ("s.csv", b"\xff\xfe\x00", "not UTF-8 text"),
    "empty": ("s.csv", b"", "s.csv: there is no question in it"),
    "a header alone": ("s.csv", b"id,question\n", "s.csv: there is no question in it"),
    "a doubled header": (
        "s.csv",
        b"id,question,question\na,Who?,x\n",
        "s.csv:1: more than one column 'question'",
    ),
    "too many cells": ("s.csv", b"id,question,ground_truth\na,Who?,x,y\n", "s.csv:2: 4 cells for 3 columns"),
    "an open quotation": ("s.csv", b'id,question\na,"Who?\nb,What?\n', "s.csv:2: not a row of a table"),
    "a NaN id": ("s.csv", b"id,question,ground_truth\nNaN,Who?,x\n", "s.csv:2: id: 'NaN' is not an id"),
    "invalid UTF-8": ("s.csv", b"id,question,ground_truth\na,Who\xe4?,x\n", "s.csv:2: not UTF-8 text"),
    "a huge cell": ("s.csv", b"question\n" + b"x" * 1_000_001, "s.csv:2: this line is longer than 1,000,000"),
    "a doubled question": ("s.csv", b"question,ground_truth\nWho?,I\nWho?,you\n", "stands at 2 already"),
    "a doubled id": (
        "s.csv",
        b"id,question,ground_truth\na,Who?,I\na,What?,x\n",
        "a second question with the id a",
    ),
    "a wrong number": (
        "s.csv",
        b"question,url,grade\nWho?,u,many\n",
        "s.csv:2: grade: must be a whole number",
    ),
    "a wrong truth value": (
        "s.csv",
        b"question,answerable\nWho?,perhaps\n",
        "answerable: must be true or false",
    ),
    "a wrong day": ("s.csv", b"question,ground_truth,asked_at\nWho?,I,soon\n", "must be a date"),
    "a wrong type": ("s.csv", b"question,ground_truth,type\nWho?,I,hard\n", "s.csv:2: type: must be"),
    "no answer": ("s.csv", b"question\nWho?\n", "needs evidence or a ground_truth"),
    "no object": (
        "s.jsonl",
        b'{"question": "Who?", "ground_truth": "I"}\n[1]\n',
        "s.jsonl:2: expected a JSON object",
    ),
    "torn JSON": ("s.jsonl", b'{"question": "Who?"\n', "s.jsonl:1: expected a JSON object with a question"),
    "deep JSON": ("s.jsonl", b"[" * 100_000, "s.jsonl:1: expected a JSON object"),
    "a doubled key": ("s.jsonl", b'{"question": "Who?", "question": "x"}', "a key stands twice in it"),
    "an id that is a list": (
        "s.jsonl",
        b'{"id": [1], "question": "Who?", "ground_truth": "I"}',
        "id: must be text",
    ),
    "an id that is NaN": (
        "s.jsonl",
        b'{"id": NaN, "question": "Who?", "ground_truth": "I"}',
        "id: nan is not an id",
    ),
    "a question that is none": (
        "s.jsonl",
        b'{"question": {"a": 1}, "ground_truth": "I"}',
        "question: must be text",
    ),
    "evidence that is none": ("s.jsonl", b'{"question": "Who?", "evidence": [3]}', "evidence"),
    "nested garbage": ("s.jsonl", b'{"question": "Who?", "evidence": [{"url": {"a": [1]}}]}', "evidence"),
    "half a gzip file": ("s.jsonl.gz", gzip.compress(b"x" * 1000)[:20], "not a whole gzip file"),
    "no Parquet": ("s.parquet", b"PAR1 this is none PAR1", "s.parquet: not a Parquet file that can be read"),
    "half a Parquet file": ("s.parquet", lambda: as_parquet(OURS)[:-40], "s.parquet: not a Parquet file"),
    "a number for JSON": ("s.json", b"3", "expected a SQuAD file"),
    "an empty list": ("s.json", b"[]", "there is no question in it"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_input_is_a_sentence_with_its_file_and_row(tmp_path: Path, what: str) -> None:
    name, data, said = WRONG[what]
    path = tmp_path / name
    path.write_bytes(made(data))
    findings = told(path)
    assert any(said in finding for finding in findings), findings
    assert all(finding.startswith(name) for finding in findings)


def test_all_mistakes_of_a_file_are_told_up_to_a_hundred(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text("id,question,ground_truth\n" + "".join(f"{n},?,x\n" for n in range(300)))
    findings = told(path)
    assert findings[:2] == [
        f"s.csv:{n}: question: a question needs a letter, digit or symbol, not '?'" for n in (2, 3)
    ]
    assert len(findings) == 101
    assert "and more mistakes" in findings[-1]


def test_one_more_than_the_most_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_assay.evals.question_sets.readers.records.MAX_ROWS", 3)
    monkeypatch.setattr("rag_assay.evals.question_sets.readers.table.MAX_ROWS", 3)
    for n, refused in ((3, False), (4, True)):
        rows: Rows = [{"id": str(k), "question": f"Who is {k}?", "ground_truth": "I"} for k in range(n)]
        for name, write in TABLES.items():
            path = tmp_path / name
            path.write_bytes(write(rows))
            if refused:
                assert "more than 3 questions" in told(path)[0] or "3 are the most" in told(path)[0]
            else:
                assert len(read(path)) == 3


def test_a_parquet_file_that_unpacks_beyond_measure_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bomb.parquet"
    table = pl.DataFrame({"question": ["x" * 30_000_000], "ground_truth": ["y"]})
    table.write_parquet(path, compression="zstd")
    assert path.stat().st_size < 100_000
    monkeypatch.setattr("rag_assay.evals.question_sets.readers.table.MAX_TABLE", 10_000_000)
    assert "MB unpacked" in told(path)[0]
    many = tmp_path / "many.parquet"
    pl.DataFrame({"question": pl.repeat("Who?", 3_000_000, eager=True)}).write_parquet(many)
    assert many.stat().st_size < 100_000
    assert "3,000,000 rows; 200,000 are the most" in told(many)[0]


def read_or_told(path: Path, form: str | None) -> tuple[Rows, tuple[str, ...]]:
    try:
        return read(path, form), ()
    except InputError as error:
        return [], error.findings


SUFFIXES = ("s.jsonl", "s.csv", "s.json", "s.txt", "s.parquet", "s.jsonl.gz", "s.questions.yaml")
GOOD: dict[str, Data] = {
    "s.jsonl": as_jsonl(OURS),
    "s.csv": lambda: as_csv(OURS),
    "s.json": squad(asked(0, "A")),
    "s.txt": b"Who?=I\nWhat?=x\n",
    "s.parquet": lambda: as_parquet(OURS),
    "s.jsonl.gz": gzip.compress(as_jsonl(OURS)),
    "s.questions.yaml": b"question_set: s\nquestions:\n- {id: a, question: Who?, ground_truth: x}\n",
}


@pytest.mark.parametrize("name", SUFFIXES)
@given(seed=st.integers(0, 100_000))
@settings(
    deadline=None,
    derandomize=True,
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_damaged_files_are_read_or_refused_in_a_sentence(tmp_path: Path, name: str, seed: int) -> None:
    rng = random.Random(seed)
    data = bytearray(made(GOOD[name]))
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data))
        change = rng.choice(["flip", "cut", "copy", "put"])
        if change == "flip":
            data[at] ^= 1 << rng.randrange(8)
        elif change == "cut" and len(data) > 2:
            del data[at : at + rng.randint(1, 20)]
        elif change == "copy":
            data[at:at] = data[max(0, at - 30) : at]
        else:
            data[at:at] = rng.choice([b"\x00", b"\xff", b'"', b"{", b"\n", b"\xef\xbb\xbf", b"${HOME}x"])
        data = data or bytearray(b"x")
    path = tmp_path / name
    path.write_bytes(bytes(data))
    for form in (None, "ragas"):
        rows, findings = read_or_told(path, form)
        assert bool(rows) != bool(findings)
        assert len({row["question_id"] for row in rows}) == len(rows)
        assert all(str(path) in finding for finding in findings)
