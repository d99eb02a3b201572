"""questions: question sets with their evidence found in the documents, one partition a corpus and set."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import polars as pl

from rag_assay.assets.engine.row_checks import FIRST
from rag_assay.assets.engine.stage import BuildContext, BuildResult, Check, PartitionRef
from rag_assay.assets.engine.table import Plot, StageTable, bars
from rag_assay.evals.pipeline.stage_inputs import GridStage
from rag_assay.evals.question_sets.readers import files_of
from rag_assay.evals.study.grid import source_of_set, written_questions
from rag_assay.warehouse.files import fingerprint
from rag_assay.warehouse.identity import digest, sha256_file
from rag_assay.warehouse.parquet import frame, write_parquet
from rag_assay.warehouse.schemas import QUESTIONS


def _types(rows: pl.DataFrame) -> str | None:
    return bars(dict(rows["type"].value_counts(sort=True).rows()))


class Questions(GridStage):
    """Reads question sets and finds their evidence in the documents as they are now."""

    name = "questions"
    group = "questions"
    description = (
        "Questions with ground truth, and their evidence as spans (or graded documents) of the corpus' "
        "documents, so that every chunking is measured against the same gold. Evidence that is nowhere in "
        "the corpus is kept, and counts as missed by all."
    )
    table = StageTable(
        "questions.parquet",
        QUESTIONS,
        ("question_id", "type", "question", "ground_truth"),
        (Plot("questions by type", ("type",), _types),),
    )
    code_version = "8"
    upstream = ("documents",)
    family = "question_sets"
    blocking: ClassVar[frozenset[str]] = frozenset({"gold_resolvable"})
    checks: ClassVar[dict[str, str]] = {
        "gold_resolvable": "Some piece of evidence is in a document of the corpus: else every retriever "
        "would be measured by evidence that none can find.",
        "evidence_found": "Every piece of evidence is in a document of the corpus.",
        "evidence_unique": "Every quote occurs in its document once, so that its place is clear.",
        "evidence_exact": "Every quote occurs in its document word for word.",
    }

    def keys(self) -> list[str]:
        return sorted(self.grid.sets)

    def needs(self, key: str) -> list[PartitionRef]:
        corpus = self.grid.build.corpora[self.grid.sets[key].corpus]
        return [PartitionRef("documents", source) for source in corpus.sources]

    def recipes(self, key: str) -> dict[str, str]:
        question_set = self.grid.sets[key]
        corpus = self.grid.build.corpora[question_set.corpus].recipes()
        meaning = question_set.meaning
        only = [] if question_set.only is None else [sorted(question_set.only)]
        if question_set.beir is None:
            files = [sha256_file(path) for path in files_of(question_set.source)]
            is_plain = len(files) == 1 and not meaning and not only
            said = files[0] if is_plain else digest([files, *meaning, *only])
            return {f"questions.{key}": said, **corpus}
        facts = [
            meaning[0],
            fingerprint(question_set.path),
            source_of_set(self.grid, key),
            *meaning[1:],
            *only,
        ]
        return {f"questions.{key}": digest(facts), **corpus}

    def build(self, key: str, folder: Path, work: BuildContext) -> BuildResult:
        from rag_assay.assets.cleaning.corpus import corpus_documents, corpus_duplicates
        from rag_assay.evals.question_sets.evidence import in_first_copies, without_place
        from rag_assay.evals.question_sets.evidence_resolution import Resolver

        inputs = self.inputs(key, work.store)
        documents = corpus_documents(inputs, work)
        texts = {
            row["doc_id"]: row
            for row in documents.select("doc_id", "source", "url", "text").iter_rows(named=True)
        }
        threshold = self.grid.build.corpora[self.grid.sets[key].corpus].near_duplicates
        copies: dict[str, dict[str, Any]] = {}
        if threshold is not None:
            links = corpus_duplicates(inputs, documents, threshold, work)
            copies = {doc: texts[first] for doc, first in links.select("doc_id", "duplicate_of").iter_rows()}
        written = written_questions(self.grid, key)
        resolver = Resolver(list(texts.values()), written)
        found = [resolver.resolve(row) for row in written]
        rows = [{**row, "evidence": in_first_copies(row["evidence"], copies)} for row in found]
        questions = frame(rows, QUESTIONS)
        write_parquet(questions, folder / "questions.parquet")
        checks = _checks(rows, texts, without_place(written, rows)) if texts else _checks([], {}, [])
        meta = {
            "questions": len(questions),
            "by_type": dict(Counter(questions["type"].to_list())),
            "unanswerable": int((~questions["answerable"]).sum()),
            "without_evidence": int((questions["gold"] == "none").sum()),
            "evidence": sum(len(row["evidence"]) for row in rows),
            **{f"evidence_{what}": check.metadata["count"] for what, check in checks.items()},
        }
        return BuildResult(
            digest([{**row, "evidence": [_unlike(item) for item in row["evidence"]]} for row in rows]),
            meta,
            (_resolvable(rows) if texts else _NO_DOCUMENTS, *checks.values()),
        )


_NO_DOCUMENTS = Check("gold_resolvable", True, "the study has no documents that evidence could be in", {})


def _resolvable(rows: list[dict[str, Any]]) -> Check:
    """Return the check that not all evidence is nowhere in the corpus; of a set without any, nothing is."""
    evidence = [(row["question_id"], item) for row in rows for item in row["evidence"]]
    lost = [f"{question}: {item['reason']}: {item['url']}" for question, item in evidence if item["reason"]]
    found = len(evidence) - len(lost)
    text = f"{found} of {len(evidence)} pieces of evidence stand in the corpus"
    if evidence and not found:
        text += f", first {lost[0]}; see that questions name pages of sources that the corpus has"
    numbers = {"found": found, "of": len(evidence), "first": lost[:FIRST]}
    return Check("gold_resolvable", not evidence or found > 0, text, numbers)


def _unlike(item: dict[str, Any]) -> dict[str, Any]:
    is_exact = item["similarity"] in (None, 1.0)
    return {name: value for name, value in item.items() if name != "similarity" or not is_exact}


def _checks(
    rows: list[dict[str, Any]], texts: dict[str, dict[str, Any]], placeless: list[str]
) -> dict[str, Check]:
    from rag_assay.evals.question_sets.alignment import places_of
    from rag_assay.evals.question_sets.evidence import ground_truths_without_place, similar_evidence

    evidence = [(row["question_id"], item) for row in rows for item in row["evidence"]]
    lost = [f"{question}: {item['reason']}: {item['url']}" for question, item in evidence if item["reason"]]
    repeated = [
        f"{question}: {item['quote']!r:.80}: {item['url']}"
        for question, item in evidence
        if item["similarity"] == 1.0
        and (len(list(islice(places_of(texts[item["doc_id"]]["text"], item["quote"]), 2))) > 1)
    ]
    of = f"of {len(evidence)} pieces of evidence"
    again = "stand in their document more than once (the first place counts; a longer quote says which)"
    nowhere = f"; {ground_truths_without_place(placeless)}" if placeless else ""
    return {
        "lost": _check("evidence_found", lost + placeless, f"{of} are not in the corpus", len(lost), nowhere),
        "repeated": _check("evidence_unique", repeated, f"{of} {again}"),
        "similar": _check(
            "evidence_exact", similar_evidence(rows), f"{of} are not there word for word: similarity"
        ),
    }


def _check(name: str, found: list[str], what: str, count: int | None = None, more: str = "") -> Check:
    number = len(found) if count is None else count
    first = f", first {found[0]}" if number else ""
    metadata = {"count": number, "found": found[:50]}
    return Check(name, not found, f"{number} {what}{first}{more}", metadata, severe=False)
