"""Makes questions from the documents of a corpus, without a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rag_assay.evals.question_generation.candidate import QuestionCandidate
from rag_assay.evals.question_generation.drop_reasons import Tally
from rag_assay.evals.question_generation.kinds import KINDS, Texts, draw_candidates
from rag_assay.evals.question_generation.near_duplicates import UNRELATED, Matrix, chance_cosine
from rag_assay.evals.question_generation.selection import (
    EvidenceIndex,
    Near,
    chosen,
    in_turn,
    verify_questions,
)
from rag_assay.evals.question_generation.title_groups import group_titles
from rag_assay.warehouse.paths import Home

POOL = 5  # candidates that are drawn of a kind, for each question that is wanted
DEFAULT = ("titles", "headings", "definitions", "dates")


@dataclass(frozen=True)
class GenerationPlan:
    """What is to be made.

    kinds: of KINDS
    n: questions at most
    seed: of the draws
    """

    kinds: tuple[str, ...] = DEFAULT
    n: int = 100
    seed: int = 7


@dataclass(frozen=True)
class GeneratedQuestions:
    """Questions, and what was none.

    documents: that were read
    """

    questions: list[QuestionCandidate]
    tally: Tally
    documents: int


def made(
    texts: Texts, plan: GenerationPlan, embed: Callable[[Sequence[str]], Matrix], home: Home | None = None
) -> GeneratedQuestions:
    """Make questions; the same documents, plan and embedder make the same ones.

    Args:
        texts: the documents, which are read several times, one after the other.
        plan: what is to be made.
        embed: questions -> unit vectors, shape (questions, dimensions).
        home: where the pages lie, whose links are read.
    """
    tally = Tally()
    size = max(200, POOL * plan.n)
    kinds = draw_candidates(
        texts, [kind for kind in KINDS if kind in plan.kinds], size, plan.seed, tally, home
    )
    chance = chance_cosine(embed(UNRELATED))
    if titles := kinds.get("titles"):
        kinds["titles"] = list(group_titles(titles, embed([one.question for one in titles]), tally, chance))
    candidates = in_turn([one[:size] for one in kinds.values()])
    documents = sum(1 for _ in texts())
    if not candidates:
        return GeneratedQuestions([], tally, documents)
    near = Near(embed([one.question for one in candidates]), chance)
    evidence = EvidenceIndex(candidates, texts, plan.seed)
    questions = chosen(candidates, near, evidence, plan.n, documents, tally)
    return GeneratedQuestions(verify_questions(questions, texts, tally), tally, documents)
