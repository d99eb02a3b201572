"""A BEIR folder: corpus, queries, and which documents answer them (Thakur et al. 2021, arXiv:2104.08663)."""

from __future__ import annotations

from collections.abc import Iterator

from rag_assay.evals.question_sets.exporters.contract import ExportInput, QuestionExport, Row, json_line

PREFIX = "beir:"


def beir(material: ExportInput) -> QuestionExport:
    """Return `corpus.jsonl`, `queries.jsonl`, and `qrels/test.tsv`, `qrels/train.tsv`. A document's id is its
    URL (without `beir:`); a span counts as its document, with the highest grade. Questions without a document
    are left out.
    """
    export = QuestionExport(counts={"documents": len(material.documents)})
    export.files["corpus.jsonl"] = (
        json_line({"_id": document_id(row["url"]), "title": row["title"] or "", "text": row["text"]})
        for row in material.documents.values()
    )
    asked: dict[str, str] = {}
    all_rows = [row for rows in material.questions.values() for row in rows]
    for use, rows in material.questions.items():
        graded = {row["question_id"]: _grades(row, material) for row in rows}
        kept = [row for row in rows if graded[row["question_id"]]]
        asked |= {row["question_id"]: row["question"] for row in kept}
        if kept:
            lines = [
                f"{row['question_id']}\t{document}\t{grade}\n"
                for row in kept
                for document, grade in graded[row["question_id"]].items()
            ]
            export.files[f"qrels/{use}.tsv"] = ["query-id\tcorpus-id\tscore\n", *lines]
            export.counts[f"{use} questions"] = len(kept)
    export.files["queries.jsonl"] = [json_line({"_id": name, "text": text}) for name, text in asked.items()]
    _note(export, all_rows, asked)
    return export


def _note(export: QuestionExport, rows: list[Row], asked: dict[str, str]) -> None:
    left = [row for row in rows if row["question_id"] not in asked]
    kept = [row for row in rows if row["question_id"] in asked]
    export.note([r["question_id"] for r in left if not r["answerable"]], "are unanswerable and left out")
    export.note(
        [r["question_id"] for r in left if r["answerable"]],
        "have no evidence in the documents and are left out",
    )
    spans = [r["question_id"] for r in kept if any(item["start"] is not None for item in r["evidence"])]
    export.note(spans, "have quotes for evidence, which become whole documents")
    partial = [r["question_id"] for r in kept if any(item["doc_id"] is None for item in r["evidence"])]
    export.note(partial, "have evidence that is in no document, which is left out")
    some = [r["question_id"] for r in kept if r["needs"] == "any" and len(r["evidence"]) > 1]
    export.note(some, "need any one of their documents, which BEIR counts as needing all")
    export.note(
        [r["question_id"] for r in kept if r["ground_truth"]], "have a ground truth, which is left out"
    )
    export.note(
        [r["question_id"] for r in kept if r["conversation"]], "follow a conversation, which is left out"
    )


def document_id(url: str) -> str:
    """Return the id of a document: its URL, with what would break a line of the qrels as in URLs.

    >>> document_id("beir:d1"), document_id("a\\tb.md")
    ('d1', 'a%09b.md')
    """
    plain = url.removeprefix(PREFIX)
    return plain.replace("\t", "%09").replace("\n", "%0A").replace("\r", "%0D")


def _grades(row: Row, material: ExportInput) -> dict[str, int]:
    found: dict[str, int] = {}
    for item in _placed(row, material):
        name = document_id(material.documents[item["doc_id"]]["url"])
        found[name] = max(found.get(name, 0), item["grade"])
    return found


def _placed(row: Row, material: ExportInput) -> Iterator[Row]:
    for item in row["evidence"] or ():
        if item["doc_id"] in material.documents and item["reason"] is None:
            yield item
