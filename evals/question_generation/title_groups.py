"""Titles that say the same form a group: as a question, any of its documents answers it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from rag_assay.evals.question_generation.candidate import QuestionCandidate
from rag_assay.evals.question_generation.drop_reasons import Drop, Tally
from rag_assay.evals.question_generation.near_duplicates import Matrix, beyond_chance

ALIKE = 0.8  # cosine above which titles form a group
MOST = 10  # documents of a group; of more, the titles tell none apart


def group_titles(
    titles: Sequence[QuestionCandidate], vectors: Matrix, tally: Tally, chance: float = 0.0
) -> Iterator[QuestionCandidate]:
    """Yield the first title of each group, with the evidence of the whole group.

    The group of a title are all whose cosine with it is above ALIKE (beyond chance, for models whose vectors
    all lie close together), and that no earlier title's group has taken.

    Args:
        titles: as questions, each with the evidence of its documents.
        vectors: of the titles, unit length, shape (titles, dimensions).
        tally: counts what is left out.
        chance: `chance_cosine` of the embedder.
    """
    free = np.ones(len(titles), np.bool_)
    for number, title in enumerate(titles):
        if not free[number]:
            continue
        near = beyond_chance(vectors @ vectors[number], chance) > ALIKE
        near[number] = True
        group = [titles[at] for at in np.flatnonzero(near & free).tolist()]
        free &= ~near
        evidence = tuple(dict.fromkeys(quote for one in (title, *group) for quote in one.evidence))
        if len(group) > 1:
            tally.drop(Drop("title", "in a group with another title"), len(group) - 1)
        if len({quote.doc_id for quote in evidence}) > MOST:
            tally.drop(Drop("title", f"more than {MOST} documents have one like it"))
        elif len(evidence) > 1:
            yield replace(title, evidence=evidence, needs="any")
        else:
            yield title
