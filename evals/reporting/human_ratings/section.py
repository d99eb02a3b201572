"""The section on scores of people, criterion by criterion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from rag_assay.evals.reporting import limits
from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.human_ratings.annotators import (
    Annotator,
    AnnotatorPair,
    Comment,
    Disputed,
    annotators_of,
    comments,
    disputed_items,
    pairs_of,
)
from rag_assay.evals.reporting.human_ratings.axes import AxisSaid, axes_said
from rag_assay.evals.reporting.human_ratings.maps import HeatMap, QuestionSaid, heat_maps, questions_said
from rag_assay.evals.reporting.human_ratings.sentences import (
    agreement_words,
    differences_words,
    scored_words,
    short_words,
)
from rag_assay.evals.reporting.rating_scores import ScoredAnswers, ScoresOfPeople, written


@dataclass(frozen=True)
class CriterionSection:
    """What people said by one criterion.

    anchors: value and what it means, the best first
    generators: of which questions have means of their own; none where there is one alone, or there are many
    links: question id -> where on the page it is
    """

    title: str
    ask: str
    anchors: tuple[tuple[str, str], ...]
    sentences: tuple[str, ...]
    differences: str
    axes: tuple[AxisSaid, ...]
    maps: tuple[HeatMap, ...]
    questions: tuple[QuestionSaid, ...]
    questions_left_out: int
    between: bool
    generators: tuple[str, ...]
    annotators: tuple[Annotator, ...]
    annotators_left_out: int
    pairs: tuple[AnnotatorPair, ...]
    pairs_left_out: int
    disputed: tuple[Disputed, ...]
    differ: int
    comments: tuple[Comment, ...]
    comments_left_out: int
    links: Mapping[str, str]


@dataclass(frozen=True)
class People:
    """The section: what was said, and a sentence for each criterion that nobody has scored by."""

    said: tuple[CriterionSection, ...]
    nobody: tuple[str, ...]


@lru_cache(maxsize=2)  # the page and the terminal show it
def people_section(data: ReportData) -> People | None:
    """Return what people said; None where the study has no rubrics."""
    people = data.people
    if people is None or not people.rubrics:
        return None
    said, nobody = [], []
    for at, answers in enumerate(people.criteria(), 1):
        if len(answers.rows):
            said.append(_said(people, answers, data, at))
        else:
            nobody.append(nobody_words(people, answers))
    return People(tuple(said), tuple(nobody))


def people_sentences(data: ReportData) -> list[str]:
    """Return, for the terminal, a line for each criterion."""
    people = data.people
    if people is None:
        return []
    return [
        short_words(answers) if len(answers.rows) else nobody_words(people, answers)
        for answers in people.criteria()
    ]


def nobody_words(people: ScoresOfPeople, answers: ScoredAnswers) -> str:
    """Say that nobody has scored by a criterion, and how one begins."""
    return f"Nobody has scored by {answers.title} yet: `{people.command}` shows people the answers to score."


def _said(people: ScoresOfPeople, answers: ScoredAnswers, data: ReportData, at: int) -> CriterionSection:
    axes = axes_said(people, answers, data, limits.PEOPLE_LEVELS)
    names = answers.levels("generator")
    generators = tuple(names) if 1 < len(names) <= limits.PEOPLE_GENERATORS else ()
    questions = questions_said(answers, data, generators, f"said-{at}-question")
    shown = questions[: limits.PEOPLE_QUESTIONS]
    annotators, pairs = annotators_of(answers), pairs_of(answers)
    differing, differ = disputed_items(people, answers, data, limits.PEOPLE_DISPUTED)
    wrote, written_at_all = comments(people, answers, limits.PEOPLE_COMMENTS)
    return CriterionSection(
        answers.title,
        answers.criterion.ask,
        tuple((written(value), answers.criterion.anchors[value]) for value in answers.anchors),
        (scored_words(answers), agreement_words(answers)),
        differences_words(axes) if axes else "",
        tuple(axes),
        tuple(heat_maps(answers, limits.PEOPLE_HEAT)),
        tuple(shown),
        len(questions) - len(shown),
        any(one.between for one in questions),
        generators,
        tuple(annotators[: limits.PEOPLE_ANNOTATORS]),
        max(0, len(annotators) - limits.PEOPLE_ANNOTATORS),
        tuple(pairs[: limits.PEOPLE_PAIRS]),
        max(0, len(pairs) - limits.PEOPLE_PAIRS),
        tuple(differing),
        differ,
        tuple(wrote),
        written_at_all - len(wrote),
        {one.question_id: f"#{one.anchor}" for one in shown},
    )
