"""Reads question sets in the forms in which they come, each told by its file's name or by the study."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rag_assay.evals.question_sets.question_files import read_yaml
from rag_assay.evals.question_sets.readers.contract import Row, SetFile
from rag_assay.warehouse.arrow_files import arrow_files
from rag_assay.warehouse.errors import InputError

Form = Literal["yaml", "jsonl", "csv", "lines", "squad", "ragas", "autorag", "arrow"]
SUFFIXES = {
    **dict.fromkeys((".yaml", ".yml"), "yaml"),
    **dict.fromkeys((".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz"), "jsonl"),
    **dict.fromkeys((".csv", ".tsv", ".csv.gz", ".tsv.gz"), "csv"),
    **dict.fromkeys((".json", ".json.gz"), "json"),
    **dict.fromkeys((".txt", ".txt.gz"), "lines"),
    ".parquet": "parquet",
    ".arrow": "arrow",
}
Evidence = Literal["ground_truth", "none"]


class WrittenSet(NamedTuple):
    """A question set as a study names it.

    form: default: as its name and columns tell
    split: of the qrels of a BEIR folder, which ``file.path`` then is
    evidence: `ground_truth`: for questions without evidence, the text most like the ground truth is evidence;
        `none`: evidence that names no page is dropped; default: quotes and contexts are evidence
    """

    file: SetFile
    form: str | None = None
    split: str | None = None
    evidence: str | None = None


def suffix_of(path: Path) -> str:
    """Return the ending of a file by which its form is told, `.gz` included; empty for an unknown one."""
    name = path.name.lower()
    return next((one for one in sorted(SUFFIXES, key=len, reverse=True) if name.endswith(one)), "")


def files_of(source: WrittenSet) -> list[Path]:
    from rag_assay.evals.question_sets.readers.autorag import corpus_of

    if source.form == "autorag" or (source.form is None and suffix_of(source.file.path) == ".parquet"):
        return [one for one in (source.file.path, corpus_of(source.file.path)) if one.is_file()]
    return arrow_files(source.file.path) if source.file.path.is_dir() else [source.file.path]


def read_set(source: WrittenSet) -> list[Row]:
    rows = _read(source)
    if source.evidence == "none":
        return [_only_of_pages(row) for row in rows]
    return [_by_truth(row) for row in rows] if source.evidence == "ground_truth" else rows


def _read(source: WrittenSet) -> list[Row]:
    file, form = source.file, source.form
    if source.split is not None:
        from rag_assay.evals.question_sets.readers.beir import read_beir

        return read_beir(file.path, source.split, file.name)
    kind = "arrow" if file.path.is_dir() else SUFFIXES.get(suffix_of(file.path), "yaml")
    if form == "ragas":
        kind = kind if kind in {"csv", "json", "parquet", "arrow"} else "jsonl"
    kind = kind if form in {None, "ragas"} else str(form)
    if kind == "yaml":
        return read_yaml(file.path)
    from rag_assay.evals.question_sets.readers.forms import READERS

    return READERS[kind](file, "ragas" if form == "ragas" else None)


def _only_of_pages(row: Row) -> Row:
    kept = [item for item in row["evidence"] if item["url"] is not None and not item.get("anywhere")]
    return {**row, "evidence": kept, "gold": row["gold"] if kept else "none"}


def _by_truth(row: Row) -> Row:
    if row["evidence"] or not row["answerable"] or not row["ground_truth"]:
        return row
    return {**row, "evidence": [{"url": None, "quote": row["ground_truth"], "grade": 1, "by_truth": True}]}


def read_sets(sources: Iterable[WrittenSet]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    findings: list[str] = []
    home: dict[str, Path] = {}
    for source in sources:
        path = source.file.path
        try:
            found = read_set(source)
        except InputError as error:
            findings += error.findings
            continue
        shared = [row["question_id"] for row in found if row["question_id"] in home]
        if shared:
            other = home[shared[0]]
            findings.append(
                f"{path}: the question id {shared[0]} stands in {other} too; give one of them another id"
            )
        home |= {row["question_id"]: path for row in found}
        rows += found
    if findings:
        raise InputError(*findings)
    return rows
