"""Makes questions from the documents of a corpus, without a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evals.making.candidate import Candidate
from evals.making.choosing import Evidence, Near, chosen, in_turn, verified
from evals.making.drops import Tally
from evals.making.kinds import KINDS, Texts, drawn
from evals.making.near_duplicates import UNRELATED, Matrix, chance_cosine
from evals.making.title_groups import grouped
from warehouse.paths import Home

POOL = 5  # candidates that are drawn of a kind, for each question that is wanted
DEFAULT = ("titles", "headings", "definitions", "dates")


@dataclass(frozen=True)
class Plan:
    """What is to be made.

    kinds: of KINDS
    n: questions at most
    seed: of the draws
    """

    kinds: tuple[str, ...] = DEFAULT
    n: int = 100
    seed: int = 7


@dataclass(frozen=True)
class Made:
    """Questions, and what was none.

    documents: that were read
    """

    questions: list[Candidate]
    tally: Tally
    documents: int


def made(
    texts: Texts, plan: Plan, embed: Callable[[Sequence[str]], Matrix], home: Home | None = None
) -> Made:
    """Make questions; the same documents, plan and embedder make the same ones.

    Args:
        texts: the documents, which are read several times, one after the other.
        plan: what is to be made.
        embed: questions -> unit vectors, shape (questions, dimensions).
        home: where the pages lie, whose links are read.
    """
    tally = Tally()
    size = max(200, POOL * plan.n)
    kinds = drawn(texts, [kind for kind in KINDS if kind in plan.kinds], size, plan.seed, tally, home)
    chance = chance_cosine(embed(UNRELATED))
    if titles := kinds.get("titles"):
        kinds["titles"] = list(grouped(titles, embed([one.question for one in titles]), tally, chance))
    candidates = in_turn([one[:size] for one in kinds.values()])
    documents = sum(1 for _ in texts())
    if not candidates:
        return Made([], tally, documents)
    near = Near(embed([one.question for one in candidates]), chance)
    evidence = Evidence(candidates, texts, plan.seed)
    questions = chosen(candidates, near, evidence, plan.n, documents, tally)
    return Made(verified(questions, texts, tally), tally, documents)
