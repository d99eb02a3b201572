"""questions: question sets with their evidence found in the documents, one partition a corpus and set."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from assets.cleaning.corpus import corpus_documents, corpus_duplicates
from assets.engine.stage import Built, Check, Need, Stage, Work
from evals.gold.evidence import in_first_copies, places_of, resolve
from evals.study.grid import Grid
from evals.study.written_questions import source_of_set, written_questions
from warehouse.files import fingerprint
from warehouse.identity import digest, sha256_file
from warehouse.parquet import frame, write_parquet
from warehouse.schemas import QUESTIONS


class Questions(Stage):
    """Reads question sets and finds their evidence in the documents as they are now."""

    name = "questions"
    group = "questions"
    description = (
        "Questions with ground truth, and their evidence as spans (or graded documents) of the corpus' "
        "documents, so that every chunking is measured against the same gold. Evidence that is nowhere in "
        "the corpus is kept, and counts as missed by all."
    )
    code_version = "6"
    upstream = ("documents",)
    checks: ClassVar[dict[str, str]] = {
        "evidence_found": "Every piece of evidence stands in a document of the corpus.",
        "evidence_unique": "Every quote stands in its document once: it is plain which place is meant.",
    }

    def __init__(self, grid: Grid) -> None:
        self.grid = grid

    def keys(self) -> list[str]:
        """Return `corpus.set` keys."""
        return sorted(self.grid.sets)

    def needs(self, key: str) -> list[Need]:
        """Return the documents of the corpus."""
        corpus = self.grid.build.corpora[self.grid.sets[key].corpus]
        return [Need("documents", source) for source in corpus.sources]

    def recipes(self, key: str) -> dict[str, str]:
        """Return the digests of the question file, or the BEIR folder's files, and of the corpus."""
        question_set = self.grid.sets[key]
        corpus = self.grid.build.corpora[question_set.corpus].recipes()
        if question_set.beir is None:
            return {f"questions.{key}": sha256_file(question_set.path), **corpus}
        facts = [
            question_set.beir.model_dump(exclude={"path"}),
            fingerprint(question_set.path),
            source_of_set(self.grid, key),
        ]
        return {f"questions.{key}": digest(facts), **corpus}

    def build(self, key: str, folder: Path, work: Work) -> Built:
        """Read the set and resolve its evidence."""
        inputs = self.inputs(key, work.store)
        documents = corpus_documents(inputs, work)
        texts = {
            row["doc_id"]: row
            for row in documents.select("doc_id", "source", "url", "text").iter_rows(named=True)
        }
        by_url: dict[str, list[dict[str, Any]]] = {}
        for row in texts.values():
            by_url.setdefault(row["url"], []).append(row)
        threshold = self.grid.build.corpora[self.grid.sets[key].corpus].near_duplicates
        copies: dict[str, dict[str, Any]] = {}
        if threshold is not None:
            links = corpus_duplicates(inputs, documents, threshold, work)
            copies = {doc: texts[first] for doc, first in links.select("doc_id", "duplicate_of").iter_rows()}
        rows = [
            {**row, "evidence": in_first_copies([resolve(item, by_url) for item in row["evidence"]], copies)}
            for row in written_questions(self.grid, key)
        ]
        questions = frame(rows, QUESTIONS)
        write_parquet(questions, folder / "questions.parquet")
        checks = _checks(rows, texts)
        meta = {
            "questions": len(questions),
            "by_type": dict(Counter(questions["type"].to_list())),
            "unanswerable": int((~questions["answerable"]).sum()),
            "without_evidence": int((questions["gold"] == "none").sum()),
            "evidence": sum(len(row["evidence"]) for row in rows),
            **{f"evidence_{what}": check.metadata["count"] for what, check in checks.items()},
        }
        return Built(digest(rows), meta, tuple(checks.values()))


def _checks(rows: list[dict[str, Any]], texts: dict[str, dict[str, Any]]) -> dict[str, Check]:
    """Return the checks of resolved questions, by what they look for.

    texts: doc_id -> the document's text, among others
    """
    evidence = [(row["question_id"], item) for row in rows for item in row["evidence"]]
    lost = [f"{question}: {item['reason']}: {item['url']}" for question, item in evidence if item["reason"]]
    repeated = [
        f"{question}: {item['quote']!r:.80}: {item['url']}"
        for question, item in evidence
        if item["start"] is not None and _is_repeated(item["quote"], texts[item["doc_id"]]["text"])
    ]
    of = f"of {len(evidence)} pieces of evidence"
    again = "stand in their document more than once (the first place counts; a longer quote says which)"
    return {
        "lost": _check("evidence_found", lost, f"{of} are not in the corpus"),
        "repeated": _check("evidence_unique", repeated, f"{of} {again}"),
    }


def _is_repeated(quote: str, text: str) -> bool:
    return len(list(islice(places_of(text, quote), 2))) > 1


def _check(name: str, found: list[str], what: str) -> Check:
    first = f", first {found[0]}" if found else ""
    metadata = {"count": len(found), "found": found[:50]}
    return Check(name, not found, f"{len(found)} {what}{first}", metadata, severe=False)
