"""Splits hypotheses into facts and tags each by what a premise says of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, NamedTuple, get_args

from pydantic import Field

from rag_assay.evals.judging.contract import Statement
from rag_assay.evals.judging.entailment.model_calls import EntailmentModel
from rag_assay.evals.judging.frames import frame_text
from rag_assay.warehouse.inference.structured import Structured, schema_only
from rag_assay.warehouse.recipe import Strict
from rag_assay.warehouse.schemas import RETRYABLE

Tag = Literal["entailed", "neutral", "contradicted"]
TAGS: tuple[Tag, ...] = get_args(Tag)
MOST_FACTS = 20
FACT_TOKENS = 2_000  # of a reply


class Fact(Strict):
    """One thing that a hypothesis claims; it is explained first, so that the tag follows."""

    fact: Annotated[str, Field(min_length=1), schema_only(maxLength=400)]
    explanation: Annotated[str, schema_only(maxLength=300)]
    tag: Tag


class FactsReply(Strict):
    """The model's reply."""

    facts: Annotated[tuple[Fact, ...], Field(min_length=1, max_length=MOST_FACTS)]


class Hypothesis(NamedTuple):
    """What is to follow, and from what.

    of: where it is from, as in `answer, sentence 3`
    premise: quoted and framed
    asked: whether the premise begins with the question
    """

    of: str
    text: str
    premise: str
    asked: bool
    question_id: str | None


Found = Structured[FactsReply]


def tag_facts(hypotheses: Sequence[Hypothesis], asking: EntailmentModel) -> list[Found]:
    """Have each hypothesis split into facts, and each fact tagged, all of them side by side."""

    def ask(one: Hypothesis) -> Found:
        return asking.ask(
            "facts",
            {"premise": one.premise, "hypothesis": frame_text(one.text, "hypothesis"), "asked": one.asked},
            FactsReply,
            max_tokens=FACT_TOKENS,
            question_id=one.question_id,
        )

    return asking.each(ask, hypotheses, "judging entailment")


def statements(hypothesis: Hypothesis, facts: FactsReply, values: Mapping[Tag, float]) -> list[Statement]:
    """Return the facts of a hypothesis as statements."""
    return [
        Statement(hypothesis.of, one.fact, one.tag, values[one.tag], one.explanation) for one in facts.facts
    ]


def score(of_hypotheses: Sequence[FactsReply], values: Mapping[Tag, float]) -> float:
    """Return the mean over hypotheses of the mean over the facts of each.

    >>> one, two = ([Fact(fact="f", explanation="", tag=tag) for tag in tags] for tags in (TAGS, TAGS[:1]))
    >>> values = {"entailed": 1, "neutral": 0.5, "contradicted": 0}
    >>> score([FactsReply(facts=one), FactsReply(facts=two)], values)
    0.75
    """
    means = [sum(values[one.tag] for one in of.facts) / len(of.facts) for of in of_hypotheses]
    return sum(means) / len(means)


def failure(found: Sequence[Found]) -> Found | None:
    """Return the reply that decides why there is no score: first one that a further run may mend; or None."""
    failed = [one for one in found if one.value is None]
    return next((one for one in failed if one.status in RETRYABLE), failed[0] if failed else None)
