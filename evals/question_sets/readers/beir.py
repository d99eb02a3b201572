"""The queries and relevance grades of a BEIR folder (Thakur et al. 2021, arXiv:2104.08663)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from rag_assay.evals.question_sets.question_files import EMPTY, is_empty
from rag_assay.evals.question_sets.readers.contract import lines_of_file
from rag_assay.warehouse.errors import InputError

_WHOLE = re.compile(r"-?[0-9]{1,9}")


def read_beir(folder: Path, split: str, name: str) -> list[dict[str, Any]]:
    qrels = folder / "qrels" / f"{split}.tsv"
    if not qrels.is_file():
        there = ", ".join(sorted(p.stem for p in (folder / "qrels").glob("*.tsv"))) or "none"
        raise InputError(f"{qrels}: there is no such split; there are: {there}")
    texts = _queries(folder)
    evidence = _graded(qrels)
    missing = [query for query in evidence if query not in texts]
    if missing:
        others = f" (and {len(missing) - 1} others)" if len(missing) > 1 else ""
        raise InputError(f"{qrels}: the query {missing[0]}{others} is not in the folder's queries.jsonl")
    if empty := [query for query in evidence if is_empty(texts[query])]:
        raise InputError(*(f"{folder}: query {query} in queries.jsonl: {EMPTY}" for query in empty))
    if not evidence:
        raise InputError(f"{qrels}: no document is graded above 0, so there is nothing to ask")
    return [
        {
            **dict.fromkeys(("language", "ground_truth", "time_from", "time_to", "asked_at")),
            **{"question_id": query, "question_set": name, "question": texts[query], "type": "normal"},
            **{"answerable": True, "needs": "all", "gold": "documents", "conversation": []},
            "evidence": found,
        }
        for query, found in evidence.items()
    ]


def _graded(qrels: Path) -> dict[str, list[dict[str, Any]]]:
    evidence: dict[str, list[dict[str, Any]]] = {}
    for number, line in lines_of_file(qrels):
        row = line.split("\t")
        text = row[-1]
        grade = int(text) if _WHOLE.fullmatch(text.strip()) else None
        if not line.strip() or (number == 1 and grade is None):
            continue  # the header
        if len(row) not in {3, 4} or grade is None:
            raise InputError(f"{qrels}:{number}: expected query, document and grade, separated by tabs")
        query, document = row[0], row[-2]
        if grade > 0:
            evidence.setdefault(query, []).append({"url": f"beir:{document}", "grade": grade})
    return evidence


def _queries(folder: Path) -> dict[str, str]:
    path = next((p for p in (folder / "queries.jsonl", folder / "queries.jsonl.gz") if p.is_file()), None)
    if path is None:
        raise InputError(f"{folder}: there is no queries.jsonl (nor queries.jsonl.gz): not a BEIR folder?")
    texts: dict[str, str] = {}
    for number, line in lines_of_file(path):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            query, text = str(row["_id"]), row["text"]
            if not isinstance(text, str):
                raise TypeError(f"its text is of type {type(text).__name__}")  # noqa: TRY301 -- told below
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            expected = 'expected a JSON object with "_id" and "text"'
            raise InputError(f"{path}:{number}: {expected} ({type(error).__name__}: {error})") from error
        texts[query] = text
    return texts
