"""The kinds of questions that are made without a model, and what each finds in a document."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from rag_assay.evals.question_generation.candidate import QuestionCandidate, normalize
from rag_assay.evals.question_generation.dates import dates_of
from rag_assay.evals.question_generation.definitions import definitions_of
from rag_assay.evals.question_generation.drop_reasons import Drop, Tally
from rag_assay.evals.question_generation.links import PAGES, Targets, links_of
from rag_assay.evals.question_generation.sampling import Sample
from rag_assay.evals.question_generation.texts import SourceText
from rag_assay.evals.question_generation.titles import headings_of, title_of
from rag_assay.warehouse.paths import Home

KINDS = ("titles", "headings", "definitions", "dates", "links")
TITLES = 10_000  # that are compared with each other
MANY = 3  # documents: what stands in more of them tells none apart

Texts = Callable[[], Iterable[SourceText]]
"""Begins anew to read the documents each time that it is called."""


def draw_candidates(
    texts: Texts, kinds: Sequence[str], size: int, seed: int, tally: Tally, home: Home | None = None
) -> dict[str, list[QuestionCandidate]]:
    """Return a seeded sample of the candidates of each kind, those with equal words as one; count the drops.

    Args:
        texts: the documents, which are read twice.
        kinds: of KINDS.
        size: candidates of a kind that are drawn at most; of titles TITLES, for they are compared.
        seed: of the draws.
        tally: counts what is no candidate.
        home: where the pages lie, whose links are read.
    """
    targets = Targets()
    if "links" in kinds:
        for text in texts():
            targets.add(text)
    samples: dict[str, Sample[QuestionCandidate]] = {
        kind: Sample(TITLES if kind == "titles" else size, seed) for kind in KINDS if kind in kinds
    }
    for number, text in enumerate(texts()):
        for kind, sample in samples.items():
            for found in _of_kind(kind, text, targets, home if number < PAGES else None):
                if isinstance(found, Drop):
                    tally.drop(found)
                else:
                    sample.add(normalize(found.question), found)
    return {kind: list(_merged(sample, tally)) for kind, sample in samples.items()}


def _of_kind(
    kind: str, text: SourceText, targets: Targets, home: Home | None
) -> Iterator[QuestionCandidate | Drop]:
    if kind == "titles":
        yield title_of(text)
    elif kind == "headings":
        yield from headings_of(text)
    elif kind == "definitions":
        yield from definitions_of(text)
    elif kind == "dates":
        yield from dates_of(text)
    else:
        yield from links_of(text, targets, home)


def _merged(sample: Sample[QuestionCandidate], tally: Tally) -> Iterator[QuestionCandidate]:
    """Yield one candidate for each question, whose evidence is that of all documents that give it."""
    for one in sample.drawn():
        first = one.things[0]
        evidence = tuple(dict.fromkeys(quote for thing in one.things for quote in thing.evidence))
        if len({quote.doc_id for quote in evidence}) > MANY:
            tally.drop(Drop(first.kind, f"the same words in more than {MANY} documents"), one.count)
        elif len(evidence) > 1:
            yield replace(first, evidence=evidence, needs="any")
        else:
            yield first
