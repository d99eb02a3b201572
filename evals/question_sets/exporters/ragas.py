"""A ragas data set: JSON Lines of single-turn samples (`ragas.EvaluationDataset.from_jsonl`)."""

from __future__ import annotations

from typing import Any

from rag_assay.evals.question_sets.exporters.contract import ExportInput, QuestionExport, Row, json_line


def ragas(material: ExportInput) -> QuestionExport:
    """Return `NAME.jsonl`, and `NAME-train.jsonl` of train questions, in ragas' columns; `question_id`,
    `type`, `language`, `answerable` and `needs` are further columns.
    """
    export = QuestionExport()
    for use, rows in material.questions.items():
        if rows:
            name = f"{material.name}.jsonl" if use == "test" else f"{material.name}-{use}.jsonl"
            export.files[name] = [json_line(_sample(row, material)) for row in rows]
            export.counts[f"{use} questions"] = len(rows)
    all_rows = [row for rows in material.questions.values() for row in rows]
    ids = [row["question_id"] for row in all_rows if row["conversation"]]
    export.note(ids, "follow a conversation, which a single-turn sample has no place for; it is left out")
    ids = [row["question_id"] for row in all_rows if row["time_from"] or row["time_to"]]
    export.note(ids, "have a time frame, which is left out")
    ids = [row["question_id"] for row in all_rows if any(_grades(row))]
    export.note(ids, "have graded evidence, whose grades are left out")
    return export


def _sample(row: Row, material: ExportInput) -> dict[str, Any]:
    passages = list(material.passages(row))
    sample = {
        "question_id": row["question_id"],
        "user_input": row["question"],
        "reference": row["ground_truth"],
        "reference_contexts": [text for _, text in passages] or None,
        "reference_context_ids": [url for url, _ in passages] or None,
        **{name: row[name] for name in ("type", "language", "answerable", "needs", "asked_at")},
    }
    return {key: value for key, value in sample.items() if value is not None}


def _grades(row: Row) -> list[bool]:
    return [item["grade"] != 1 for item in row["evidence"] or ()]
