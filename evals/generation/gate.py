"""Abstention by what was found: a question whose passages are unlikely to answer it is refused unanswered.

A model answers what its passages do not say, however it is asked; how the first passages score, and how well
their best sentence fits, says beforehand whether there is an answer. Such a feature is compared with a
threshold, given or fitted on train questions. Selective classification: Geifman and El-Yaniv, NeurIPS 2017;
in question answering: Kamath, Jia and Liang, ACL 2020.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, NamedTuple, Protocol, Self

import numpy as np
from pydantic import Field, model_validator

from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.recipe import Recipe

if TYPE_CHECKING:
    from rag_assay.evals.generation.quotation import Embed, QuotablePassage

    class FoundPassage(QuotablePassage, Protocol):
        """What is read of a passage."""

        @property
        def score(self) -> float: ...

    class GatedRequest(Protocol):
        """What is read of a request."""

        @property
        def question(self) -> str: ...
        @property
        def own_words(self) -> str | None: ...
        @property
        def conversation(self) -> Sequence[str]: ...
        @property
        def passages(self) -> Sequence[FoundPassage]: ...


ScoreFeature = Literal["top", "margin"]
Feature = Literal[ScoreFeature, "quote"]
DEFAULT: ScoreFeature = "top"


class Gate(Recipe):
    """Refuses a question whose passages are unlikely to answer it, without calling a model.

    feature: top (the best score) | margin (the best less the second), in the retriever's own scale; or quote,
        the probability that the best sentence of the passages answers, as `extractive` computes it
    threshold: a number; `tuned`: fitted on the train questions of the study, for each cell
    wrong_refusals: of `tuned`: share of the answerable train questions that may be refused; default: the
        threshold with the highest mean of the shares that are rightly answered and refused
    """

    code_version: ClassVar[str] = "1"

    feature: Feature = DEFAULT
    threshold: float | Literal["tuned"]
    wrong_refusals: Annotated[float | None, Field(gt=0, lt=1, exclude_if=lambda share: share is None)] = None

    @model_validator(mode="after")
    def _fits_what_it_limits(self) -> Self:
        if self.wrong_refusals is not None and not self.needs_tuning:
            raise ValueError("`wrong_refusals` limits a threshold that is fitted: write `threshold: tuned`")
        return self

    def versions(self) -> list[str]:
        if self.feature != "quote":
            return super().versions()
        from rag_assay.evals.generation.quotation import CODE_VERSION, weights_revision

        return [*super().versions(), CODE_VERSION, weights_revision()]

    @property
    def needs_tuning(self) -> bool:
        return self.threshold == "tuned"

    def at(self, threshold: float) -> Gate:
        return self.model_copy(update={"threshold": threshold})

    def refusal(self, value: float | None) -> str | None:
        """Return why a question whose feature has a value is refused; None where it passes.

        >>> Gate(threshold=0.42).refusal(0.31)
        "retrieval score 0.31 below the gate's 0.42"
        """
        if isinstance(self.threshold, str):
            raise InputError("the gate's threshold is `tuned`, and was not fitted on train questions")
        if value is None or value >= self.threshold:
            return None
        return f"{_NAMES[self.feature]} {_shown(value)} below the gate's {_shown(self.threshold)}"


_NAMES: dict[Feature, str] = {
    "top": "retrieval score",
    "margin": "retrieval score's margin",
    "quote": "probability of the best sentence",
}


def feature_values(feature: Feature, requests: Sequence[GatedRequest], embed: Embed) -> list[float | None]:
    """Return the feature of each request; None where nothing was found."""
    if feature != "quote":
        return [feature_of([one.score for one in request.passages], feature) for request in requests]
    from rag_assay.evals.generation.quotation import Draft, embedded

    drafts = [
        Draft.of(request.question, request.passages, request.own_words, request.conversation)
        for request in requests
    ]
    vectors = embedded(drafts, embed)
    return [
        draft.confidence(vectors) if request.passages else None
        for draft, request in zip(drafts, requests, strict=True)
    ]


def feature_of(scores: Sequence[float], feature: ScoreFeature) -> float | None:
    """Return a feature of the scores of a ranking; None for one without any.

    The scores may be in any order, for steps of a chain may set one for reading.

    >>> feature_of([3.0, 9.0, 5.0], "top"), feature_of([3.0, 9.0, 5.0], "margin")
    (9.0, 4.0)
    >>> feature_of([9.0], "margin"), feature_of([], "top")
    (9.0, None)
    """
    if not len(scores):
        return None
    best, *others = sorted(map(float, scores), reverse=True)
    return best - others[0] if feature == "margin" and others else best


def _shown(value: float) -> str:
    return f"{value:.4g}"


# Fitting ---------------------------------------------------------------------------------------------------


class FittedThreshold(NamedTuple):
    """A threshold as it was fitted: what is told of it.

    value: balanced accuracy on the train questions: mean of the shares that are rightly answered and refused
    """

    feature: Feature
    threshold: float
    value: float
    answerable: int
    unanswerable: int


def fit_threshold(
    feature: Feature,
    answerable: Sequence[float],
    unanswerable: Sequence[float],
    wrong_refusals: float | None = None,
) -> FittedThreshold:
    """Choose the threshold with the highest balanced accuracy, in the middle of two values of the feature.

    Both kinds count alike, however many there are of either (Youden's index: Cancer 3, 1950): how many
    questions will have no answer is not known. Of equally good ones the middle of the longest run is taken.

    wrong_refusals: choose among those that refuse at most this share of the answerable questions

    >>> fit_threshold("top", [5.0, 7.0, 9.0], [1.0, 3.0, 6.0])
    FittedThreshold(feature='top', threshold=4.0, value=0.8333333333333333, answerable=3, unanswerable=3)
    >>> fit_threshold("top", [5.0, 7.0, 9.0], [6.0, 6.5, 8.0]).threshold
    6.75
    >>> fit_threshold("top", [5.0, 7.0, 9.0], [6.0, 6.5, 8.0], wrong_refusals=0.1).threshold
    5.0
    """
    if not len(answerable) or not len(unanswerable):
        missing = "answerable" if not len(answerable) else "unanswerable"
        raise InputError(f"a gate cannot be fitted: no train question with passages is {missing}")
    yes, no = np.sort(np.asarray(answerable, np.float64)), np.sort(np.asarray(unanswerable, np.float64))
    values = np.unique(np.concatenate([yes, no]))
    # Below the smallest value nothing is refused; above the largest everything.
    tried = np.concatenate([[values[0]], (values[:-1] + values[1:]) / 2, [np.nextafter(values[-1], np.inf)]])
    passing = 1 - np.searchsorted(yes, tried, side="left") / len(yes)
    refused = np.searchsorted(no, tried, side="left") / len(no)
    accuracy = (passing + refused) / 2
    allowed = np.ones(len(tried), bool) if wrong_refusals is None else 1 - passing <= wrong_refusals + 1e-12
    best = np.flatnonzero(allowed & (accuracy >= accuracy[allowed].max() - 1e-12))
    run = max(np.split(best, np.flatnonzero(np.diff(best) > 1) + 1), key=len)
    at = run[(len(run) - 1) // 2]
    return FittedThreshold(feature, float(tried[at]), float(accuracy[at]), len(yes), len(no))
