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
            samples = [json_line(_sample(row, material)) for row in rows]
            export.files[material.file_name(use, ".jsonl")] = samples
            export.counts[f"{use} questions"] = len(rows)
    turns = (row for row in material.rows if row["conversation"])
    export.note(turns, "follow a conversation, which a single-turn sample has no place for; it is left out")
    framed = (row for row in material.rows if row["time_from"] or row["time_to"])
    export.note(framed, "have a time frame, which is left out")
    graded = (row for row in material.rows if any(item["grade"] != 1 for item in row["evidence"] or ()))
    export.note(graded, "have graded evidence, whose grades are left out")
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
