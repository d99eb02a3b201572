"""Makes questions for a study and writes them as a question file, which a person can read and edit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from rag_assay.assets.cleaning.corpus import corpus_documents, corpus_duplicates
from rag_assay.assets.embedding.cached_embedder import CachedEmbedder
from rag_assay.assets.embedding.embedder import EmbedderRecipe
from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.question_generation.generator import (
    GeneratedQuestions,
    GenerationPlan,
    Matrix,
    by_kind,
    made,
)
from rag_assay.evals.question_generation.texts import QuestionCandidate, Quote, SourceText, texts_in
from rag_assay.evals.question_sets.question_files import write_yaml
from rag_assay.evals.study.grid import set_name
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.errors import AssayError, InputError

HEADING = """\
Questions made from the documents, without a model: {counts}.
Each can be edited, and deleted; results are kept by the id. They tell less than questions that people ask:
docs/documents.md, "Generating questions without a model"."""


def make_for(
    study: Study,
    plan: GenerationPlan,
    work: BuildContext,
    turn: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> GeneratedQuestions:
    """Make questions from the documents of a study; ``turn`` is entered while questions are embedded."""
    embed_alone = embed_for(study, work)

    def embed(questions: Sequence[str]) -> Matrix:
        with turn():
            return embed_alone(questions)

    made_questions = made(_texts(study, work), plan, embed, work.home)
    if not made_questions.questions:
        reasons = "; ".join(made_questions.tally.lines()[:8])
        raise InputError(
            f"no question could be made of the {made_questions.documents} documents of {study.path}"
            + (f": {reasons}" if reasons else ", which have no title, heading or definition")
            + "; write some by hand (docs/documents.md)"
        )
    return made_questions


def write_questions(questions: GeneratedQuestions, study: Study, path: Path) -> Path:
    several = len(study.corpus.sources) > 1
    name = set_name(path)
    ordered = sorted(questions.questions, key=lambda one: one.id)
    rows = [_row(one, name, with_source=several) for one in ordered]
    return write_yaml(rows, path, HEADING.format(counts=counts(questions)))


def counts(questions: GeneratedQuestions) -> str:
    found = by_kind(questions.questions)
    return ", ".join(f"{n} {kind}{'' if n == 1 else 's'}" for kind, n in sorted(found.items()))


def _texts(study: Study, work: BuildContext) -> Callable[[], Iterable[SourceText]]:
    found = [work.store.current("documents", source) for source in study.corpus.sources]
    artifacts = [artifact for artifact in found if artifact is not None]
    if len(artifacts) < len(found):
        raise AssayError(f"the documents of {study.study} are not there yet; `assay run {study.path}`")
    files = [work.store.folder(one.stage, one.identity) / "documents.parquet" for one in artifacts]
    copies: frozenset[str] = frozenset()
    threshold = study.corpus.near_duplicates
    if threshold is not None:
        documents = corpus_documents(artifacts, work)
        copies = frozenset(corpus_duplicates(artifacts, documents, threshold, work)["doc_id"])
    return lambda: (text for text in texts_in(files) if text.doc_id not in copies)


def local_embedder(study: Study) -> EmbedderRecipe:
    own = (one for one in study.embedders.values() if one.api is None)
    return next(own, EmbedderRecipe(model="all-MiniLM-L6-v2"))


def embed_for(study: Study, work: BuildContext) -> Callable[[Sequence[str]], Matrix]:
    cut = local_embedder(study).model_copy(update={"overflow": "truncate", "similarities": False})
    embedder = CachedEmbedder(cut, work.home, lambda sentence: work.progress(sentence, 0, 0))
    return lambda questions: embedder.queries(questions).vectors


def _row(question: QuestionCandidate, name: str, *, with_source: bool) -> dict[str, Any]:
    return {
        "question_id": question.id,
        "question_set": name,
        **{field: getattr(question, field) for field in ("language", "question", "ground_truth", "needs")},
        "evidence": [_evidence(quote, with_source=with_source) for quote in question.evidence],
    }


def _evidence(quote: Quote, *, with_source: bool) -> dict[str, str]:
    found = {"url": quote.url}
    if with_source:
        found["source"] = quote.source
    return found | ({"quote": quote.quote} if quote.quote else {})
