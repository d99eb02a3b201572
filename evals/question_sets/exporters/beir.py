"""A BEIR folder: corpus, queries, and which documents answer them (Thakur et al. 2021, arXiv:2104.08663)."""

from __future__ import annotations

from collections.abc import Callable

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
    graded = {row["question_id"]: _grades(row, material) for row in material.rows}
    for use, rows in material.questions.items():
        kept = [row for row in rows if graded[row["question_id"]]]
        if kept:
            lines = [
                f"{row['question_id']}\t{document}\t{grade}\n"
                for row in kept
                for document, grade in graded[row["question_id"]].items()
            ]
            export.files[f"qrels/{use}.tsv"] = ["query-id\tcorpus-id\tscore\n", *lines]
            export.counts[f"{use} questions"] = len(kept)
    kept = [row for row in material.rows if graded[row["question_id"]]]
    left = [row for row in material.rows if not graded[row["question_id"]]]
    export.files["queries.jsonl"] = [
        json_line({"_id": name, "text": text})
        for name, text in {row["question_id"]: row["question"] for row in kept}.items()
    ]
    _note(export, left, kept)
    return export


def _note(export: QuestionExport, left: list[Row], kept: list[Row]) -> None:
    def having(test: Callable[[Row], bool]) -> list[Row]:
        return [row for row in kept if any(test(item) for item in row["evidence"])]

    export.note((row for row in left if not row["answerable"]), "are unanswerable and left out")
    unheld = (row for row in left if row["answerable"])
    export.note(unheld, "have no evidence in the documents and are left out")
    spans = having(lambda item: item["start"] is not None)
    export.note(spans, "have quotes for evidence, which become whole documents")
    partial = having(lambda item: item["doc_id"] is None)
    export.note(partial, "have evidence that is in no document, which is left out")
    some = (row for row in kept if row["needs"] == "any" and len(row["evidence"]) > 1)
    export.note(some, "need any one of their documents, which BEIR counts as needing all")
    export.note((row for row in kept if row["ground_truth"]), "have a ground truth, which is left out")
    export.note((row for row in kept if row["conversation"]), "follow a conversation, which is left out")


def document_id(url: str) -> str:
    """Return the id of a document: its URL, with what would break a line of the qrels as in URLs.

    >>> document_id("beir:d1"), document_id("a\\tb.md")
    ('d1', 'a%09b.md')
    """
    plain = url.removeprefix(PREFIX)
    return plain.replace("\t", "%09").replace("\n", "%0A").replace("\r", "%0D")


def _grades(row: Row, material: ExportInput) -> dict[str, int]:
    found: dict[str, int] = {}
    for item in row["evidence"] or ():
        if item["doc_id"] in material.documents and item["reason"] is None:
            name = document_id(material.documents[item["doc_id"]]["url"])
            found[name] = max(found.get(name, 0), item["grade"])
    return found
