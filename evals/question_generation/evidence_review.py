"""Evidence found for ground truths, as a review file: accepted places, and the nearest ones to decide on."""

from __future__ import annotations

from typing import Any

from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.question_generation.llm.candidates import corpus_frame
from rag_assay.evals.question_generation.review import ReviewedQuestion, ReviewFile
from rag_assay.evals.question_sets.evidence import in_words
from rag_assay.evals.question_sets.evidence_resolution import Resolver
from rag_assay.evals.question_sets.question_files import EvidenceQuote
from rag_assay.evals.study.grid import Grid, written_questions
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.errors import InputError

HEADING = """\
Evidence that was found in the documents for ground truths, to be read by a person. `reason` says how similar
it is. `accept`: it was similar enough to count; `open`: it was not, and is the nearest place there is.
  accept  the evidence holds the ground truth
  mend    you have changed it here (evidence: url and quote, ground_truth, answerable: false …)
  drop    do not ask this question
Then: assay questions review {file}
and name the question file that it writes in the study, in place of the set with `evidence: ground_truth`."""


def evidence_review(study: Study, set_name: str | None, named: str, work: BuildContext) -> ReviewFile:
    """Return the questions whose evidence is looked for by ground truth; set_name: None: the only set"""
    grid = Grid([study])
    sets = {grid.sets[key].name: written_questions(grid, key) for key in sorted(grid.sets)}
    by_truth = {name: rows for name, rows in sets.items() if any(map(_is_by_truth, rows))}
    if set_name is None and len(by_truth) > 1:
        raise InputError(f"the study has several such sets; choose one by --set: {', '.join(by_truth)}")
    chosen = set_name or next(iter(by_truth), None)
    if chosen not in by_truth:
        which = f"set {chosen}" if chosen else "study"
        raise InputError(
            f"the {which} has no question whose evidence is looked for: give the entry of its file the key "
            "`evidence: ground_truth`" + (f"; sets that have it: {', '.join(by_truth)}" if by_truth else "")
        )
    rows = by_truth[chosen]
    documents = corpus_frame(study, work).select("doc_id", "source", "url", "text").to_dicts()
    resolver = Resolver(documents, rows)
    several = len(study.corpus.sources) > 1
    sources = {one["doc_id"]: one["source"] if several else None for one in documents}
    questions = tuple(_reviewed(row, resolver, sources) for row in rows)
    return ReviewFile(
        question_set=f"{chosen}-evidence",
        language=rows[0]["language"] or "en",
        study=named,
        questions=questions,
    )


def _is_by_truth(row: dict[str, Any]) -> bool:
    return any(item.get("by_truth") for item in row["evidence"])


def _reviewed(row: dict[str, Any], resolver: Resolver, sources: dict[str, str | None]) -> ReviewedQuestion:
    resolved = resolver.resolve(row)
    found = [item for item in resolved["evidence"] if not item["reason"]]
    nearest = [] if found or not _is_by_truth(row) else resolver.nearest(row)
    is_certain = bool(found) or not row["answerable"]
    places = found or nearest
    reason = f"similarity {', '.join(in_words(item['similarity']) for item in places)}" if places else None
    return ReviewedQuestion.model_validate(
        {
            **{name: row[name] for name in ("type", "question", "ground_truth", "answerable", "asked_at")},
            **{
                "id": row["question_id"],
                "language": row["language"],
                "conversation": row["conversation"] or (),
            },
            "needs": resolved["needs"] if found else "any",
            "review": "accept" if is_certain else "open",
            "reason": reason or (None if is_certain else "no place is similar"),
            "evidence": [
                EvidenceQuote(
                    url=item["url"], source=sources[item["doc_id"]], quote=item["quote"], grade=item["grade"]
                )
                for item in places
            ],
        }
    )
