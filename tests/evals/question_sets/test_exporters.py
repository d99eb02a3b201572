"""What is exported is read back by our own readers as the same questions, at the same places."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag_assay.evals.question_sets.evidence_resolution import Resolver
from rag_assay.evals.question_sets.exporters import FORMS, ExportInput, QuestionExport
from rag_assay.evals.question_sets.readers import WrittenSet, read_set
from rag_assay.evals.question_sets.readers.contract import SetFile

Row = dict[str, Any]
TEXTS = {
    "harbour.md": (
        "The harbour office opens at seven.\n"
        "A mooring costs twelve pounds a night in „summer“.\u2028 Pilots report."
    ),
    "ferry.md": "The ferry runs every forty minutes and carries nineteen cars. In a storm it stays in port.",
    "beir:7": "The library lends books for four weeks\tand films for one.",
}
DOCUMENTS = [
    {"doc_id": f"d{n}", "source": "s", "url": url, "title": url.upper(), "text": text}
    for n, (url, text) in enumerate(TEXTS.items())
]


def question(name: str, **fields: Any) -> Row:
    return {
        "question_id": name,
        "question_set": "town",
        "type": "normal",
        "language": "en",
        "question": f"What of {name}?",
        "ground_truth": f"It is {name}.",
        "answerable": True,
        "needs": "all",
        "gold": "spans",
        "time_from": None,
        "time_to": None,
        "asked_at": None,
        "conversation": [],
        "evidence": [],
        **fields,
    }


def resolved(*rows: Row) -> list[Row]:
    resolver = Resolver(DOCUMENTS, rows)
    return [resolver.resolve(row) for row in rows]


def evidence(url: str, quote: str | None = None, grade: int = 1) -> Row:
    return {"url": url, "quote": quote, "grade": grade}


WRITTEN = (
    question("a", evidence=[evidence("harbour.md", 'twelve pounds a night in "summer"')], language="de"),
    question(
        "b", evidence=[evidence("ferry.md", "nineteen cars"), evidence("ferry.md", "every forty minutes")]
    ),
    question("c", answerable=False, ground_truth="The documents do not say.", gold="none"),
    question("d", evidence=[evidence("beir:7", grade=2)], gold="documents", conversation=["And?", "Yes."]),
    question("e", evidence=[evidence("gone.md", "It went away long ago.")], ground_truth=None),
)


def written(form: str, folder: Path, rows: list[Row], train: list[Row] | None = None) -> QuestionExport:
    material = ExportInput(
        "town", {"test": rows, "train": train or []}, {row["doc_id"]: row for row in DOCUMENTS}
    )
    export = FORMS[form](material)
    for name, lines in export.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("".join(lines), encoding="utf-8", newline="\n")
    return export


def read_again(form: str, folder: Path) -> dict[str, Row]:
    """Return the questions of an export, by id, looked up in the documents again."""
    if form == "beir":
        source = WrittenSet(SetFile(folder, "town"), split="test")
    else:
        source = WrittenSet(SetFile(folder / ("town.jsonl" if form == "ragas" else "town.json"), "town"))
    rows = read_set(source)
    urls = {url.removeprefix("beir:"): url for url in TEXTS}
    if form == "beir":  # its documents are known by `beir:` and what their URL was
        for row in rows:
            row["evidence"] = [
                {**item, "url": urls[item["url"].removeprefix("beir:")]} for item in row["evidence"]
            ]
    return {row["question_id"]: row for row in resolved(*rows)}


def places(row: Mapping[str, Any]) -> set[tuple[Any, ...]]:
    return {(item["doc_id"], item["start"], item["end"]) for item in row["evidence"]}


def test_ragas_there_and_back(tmp_path: Path) -> None:
    rows = resolved(*WRITTEN)
    export = written("ragas", tmp_path, rows)
    again = read_again("ragas", tmp_path)
    for row in rows[:3]:
        assert places(again[row["question_id"]]) == places(row)
    for name in ("question", "ground_truth", "answerable", "language", "type", "needs"):
        assert [again[row["question_id"]][name] for row in rows] == [row[name] for row in rows]
    assert places(again["d"]) == {("d2", 0, len(TEXTS["beir:7"]))}, (
        "a whole document is the span of all its text"
    )
    assert again["e"]["evidence"][0]["reason"] is not None
    assert export.counts == {"test questions": 5}
    assert export.notes == [
        "1 questions follow a conversation, which a single-turn sample has no place for; it is left out: d",
        "1 questions have graded evidence, whose grades are left out: d",
    ]


def test_squad_there_and_back(tmp_path: Path) -> None:
    rows = resolved(*WRITTEN)
    export = written("squad", tmp_path, rows)
    again = read_again("squad", tmp_path)
    assert set(again) == {"a", "b", "c"}
    for row in rows[:3]:
        assert places(again[row["question_id"]]) == places(row)
        assert again[row["question_id"]]["answerable"] == row["answerable"]
    assert again["a"]["ground_truth"] == "twelve pounds a night in „summer“"
    assert export.notes == [
        "2 questions have no quote that stands in a document and are left out: d, e",
        "1 questions need all of their evidence, where SQuAD takes any one answer: b",
        "2 questions have a ground truth, in whose place SQuAD has the words of the evidence: a, b",
        "1 questions follow a conversation, which is left out: d",
    ]


def test_beir_there_and_back(tmp_path: Path) -> None:
    rows = resolved(*WRITTEN)
    export = written("beir", tmp_path, rows, train=resolved(question("t", evidence=[evidence("ferry.md")])))
    again = read_again("beir", tmp_path)
    assert {name: places(row) for name, row in again.items()} == {
        "a": {("d0", None, None)},
        "b": {("d1", None, None)},
        "d": {("d2", None, None)},
    }
    assert again["d"]["evidence"][0]["grade"] == 2
    assert export.counts == {"documents": 3, "test questions": 3, "train questions": 1}
    assert (tmp_path / "qrels" / "train.tsv").read_text().splitlines()[1:] == ["t\tferry.md\t1"]
    assert export.notes[:3] == [
        "1 questions are unanswerable and left out: c",
        "1 questions have no evidence in the documents and are left out: e",
        "2 questions have quotes for evidence, which become whole documents: a, b",
    ]


def test_beir_is_read_by_our_own_reader_of_documents(tmp_path: Path) -> None:
    from rag_assay.crawlers.readers.beir import Beir
    from rag_assay.warehouse.source import Source

    written("beir", tmp_path, resolved(*WRITTEN))
    pages = list(Beir().read(Source(reader="beir", path=str(tmp_path))))
    assert [page.url for page in pages] == ["beir:harbour.md", "beir:ferry.md", "beir:7"]
    assert all(page.reason is None for page in pages)


@pytest.mark.parametrize("form", FORMS)
def test_nothing_to_export(tmp_path: Path, form: str) -> None:
    export = written(form, tmp_path, [])
    assert export.notes == []


@given(
    text=st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=5, max_size=60).filter(str.strip),
    at=st.integers(0, 50),
    length=st.integers(3, 20),
)
@settings(
    deadline=None,
    derandomize=True,
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_span_of_any_text_comes_back_from_squad(tmp_path: Path, text: str, at: int, length: int) -> None:
    start = at % len(text)
    end = min(len(text), start + length)
    if not text[start:end].strip():
        return
    document = {"doc_id": "d", "source": "s", "url": "u", "title": None, "text": text}
    item = {
        "doc_id": "d",
        "url": "u",
        "quote": text[start:end],
        "start": start,
        "end": end,
        "grade": 1,
        "reason": None,
        "similarity": 1.0,
    }
    row = question("a", evidence=[item])
    (line,) = FORMS["squad"](ExportInput("town", {"test": [row]}, {"d": document})).files["town.json"]
    path = tmp_path / "town.json"
    path.write_text(line, encoding="utf-8", newline="\n")
    (again,) = read_set(WrittenSet(SetFile(path, "town")))
    assert (again["evidence"][0]["start"], again["evidence"][0]["end"]) == (start, end)
