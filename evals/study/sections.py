"""Sections of a study file: question sets, restrictions, search, schedule, alerts, budget; powersets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import AfterValidator, Field, SecretStr, field_validator, model_validator

from rag_assay.assets.recipes.build_half import Name
from rag_assay.evals.judging.cards.labels import LabelFile
from rag_assay.evals.question_sets.readers import SUFFIXES, Evidence, Form, suffix_of
from rag_assay.evals.retrieval.contract import Retriever
from rag_assay.evals.retrieval.powerset import Powerset
from rag_assay.warehouse.cron import check_cron
from rag_assay.warehouse.inference.budget import Caps
from rag_assay.warehouse.inference.redaction import know_url
from rag_assay.warehouse.recipe import Strict, error_at

Method = Literal["one_factor_at_a_time", "random", "successive_halving"]
_OF: dict[str, tuple[Method, ...]] = {
    "base": ("one_factor_at_a_time",),
    "budget": ("random", "successive_halving"),
    "first": ("successive_halving",),
    "growth": ("successive_halving",),
    "alpha": ("successive_halving",),
}
"""Key -> the methods that read it."""


class SearchBudget(Strict):
    """What a search may ask for at most, as it is estimated before anything is asked.

    evaluations: how many times a cell is asked a question
    calls, tokens, usd: of the models that the study's budget pays for, by the most that `assay run --dry-run`
        estimates
    """

    cells: Annotated[int, Field(ge=1)] | None = None
    evaluations: Annotated[int, Field(ge=1)] | None = None
    calls: Annotated[int, Field(ge=0)] | None = None
    tokens: Annotated[int, Field(ge=0)] | None = None
    usd: Annotated[float, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _caps_something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("say how much may be asked: `cells`, `evaluations`, `calls`, `tokens` or `usd`")
        return self


class Search(Strict):
    """Which part of the grid is run.

    method: `one_factor_at_a_time`: a base cell, and those that differ from it on one axis; `random`: cells
        drawn by the seed, as many as the budget allows; `successive_halving`: all cells on a few questions,
        those that are left on more, and so on: what falls behind is dropped on the way
    base: the base cell by its key without the study; default: the first name of each axis
    budget: what may be asked at most; a race without one drops only what is significantly worse
    growth: how many times as many questions the next rung has
    alpha: chance, over all rungs together, that a cell is dropped by a test although none of the others is
        better
    """

    method: Method
    base: Annotated[str, Field(max_length=500)] | None = None
    budget: SearchBudget | None = None
    seed: Annotated[int, Field(ge=0)] | None = None
    first: Annotated[int, Field(ge=4)] = 24
    growth: Annotated[float, Field(ge=1.25, le=8)] = 2.0
    alpha: Annotated[float, Field(gt=0, le=0.2)] = 0.05

    @model_validator(mode="after")
    def _fits_its_method(self) -> Self:
        foreign = [
            key for key, methods in _OF.items() if key in self.model_fields_set and self.method not in methods
        ]
        if foreign:
            methods = " or ".join(_OF[foreign[0]])
            raise ValueError(f"`{foreign[0]}` is of {methods}, not of {self.method}")
        if self.method == "random" and self.budget is None:
            raise ValueError("a random search needs a `budget`, such as {cells: 12}")
        return self


def expand_powersets(retrievers: Mapping[str, Retriever | Powerset]) -> dict[str, Retriever]:
    """Put the combinations of every powerset in its place; each name once."""
    found: dict[str, Retriever] = {}
    for name, one in retrievers.items():
        try:
            members = one.retrievers(name) if isinstance(one, Powerset) else {name: one}
        except ValueError as error:
            raise error_at((name,), str(error)) from error
        taken = [key for key in members if key in found or (key != name and key in retrievers)]
        if taken:
            raise error_at((name,), f"there is another retriever `{min(taken)}`; rename one of them")
        found |= members
    return found


MOST_MUTATED = 1_000  # answers that a judge is tried with


class BeirQuestions(Strict):
    """The queries and relevance grades of a BEIR folder.

    split: which file under `qrels/` says what is relevant; only its queries are asked
    """

    path: str
    split: str = "test"
    name: Name = "beir"


class QuestionSource(Strict):
    """Where questions come from: a file, or a BEIR folder.

    evidence: `ground_truth`: of questions without evidence, what is most like their ground truth is evidence;
        `none`: quotes and contexts that name no page are not looked for; default: both are
    use: what they are for: `test` questions are asked and measured; on `train` questions, what a retriever
        says is `tuned` is chosen, and nothing is reported of them
    """

    file: str | None = None
    beir: BeirQuestions | None = None
    format: Form | None = None
    name: Name | None = None
    language: Annotated[str | None, Field(pattern="^[a-z]{2}$")] = None
    asked_at: date | None = None
    evidence: Evidence | None = None
    use: Literal["test", "train"] = "test"

    @model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        if (self.file is None) == (self.beir is None):
            raise ValueError("give either `file` or `beir`")
        if self.beir is not None and (self.format, self.name, self.language, self.asked_at) != (None,) * 4:
            raise ValueError("`format`, `name`, `language` and `asked_at` are of a `file`, not of `beir`")
        if self.is_yaml and (self.language or self.asked_at):
            raise ValueError("a YAML file says `language` and `asked_at` itself")
        return self

    @property
    def is_yaml(self) -> bool:
        suffix = suffix_of(Path(self.file or ""))
        return self.format == "yaml" or (self.format is None and SUFFIXES.get(suffix, "yaml") == "yaml")


class Restriction(Strict):
    """Where a generator or a judge is used, when not everywhere.

    sample: only for so many questions, drawn by the study's seed; the cells of a generator are compared on
        those questions, and a judge's metrics are measured on them
    others: of a generator: `rankings` compares the pipelines that it leaves out by their rankings alone;
        default: they are no cells
    """

    generators: tuple[Name, ...] | None = None
    chunkings: tuple[Name, ...] | None = None
    embedders: tuple[Name, ...] | None = None
    retrievers: tuple[Name, ...] | None = None
    sample: Annotated[int, Field(ge=1)] | None = None
    others: Literal["rankings"] | None = None

    def allows(self, chunking: str, embedder: str, retriever: str, generator: str | None = None) -> bool:
        wanted = (
            (self.chunkings, chunking),
            (self.embedders, embedder),
            (self.retrievers, retriever),
            (self.generators if generator else None, generator),
        )
        return all(values is None or value in values for values, value in wanted)


class Annotation(Restriction):
    """What people score of a study, and in which order.

    generators, chunkings, embedders, retrievers: only answers of cells with these
    sample: only so many items, drawn by the study's seed; an item is an answer to a question, with its
        passages, whatever cells it stands in
    twice: share of the items that two annotators score
    repeats: share of an annotator's items that are shown once more, to tell how steady the scores are
    order: `random`, or `disputed`: the sooner, and the likelier in a sample, the less judges agree on an item
    precision: wanted half width of the 95 % interval of a cell's mean, as a share of the rubric's scale;
        without a `sample`, so many items are drawn as it needs
    """

    rubrics: tuple[Name, ...] | None = None
    cells: tuple[Annotated[str, Field(max_length=500)], ...] | None = None
    twice: Annotated[float, Field(ge=0, le=1)] = 0.2
    repeats: Annotated[float, Field(ge=0.05, le=0.1)] = 0.05
    order: Literal["random", "disputed"] = "random"
    precision: Annotated[float | None, Field(gt=0, le=0.5)] = None


class JudgeCard(Strict):
    """What a judge is tried with, for its card.

    labels: cases that people have labelled; without them, the judge is uncalibrated
    mutations: how many answers of the study are made worse on purpose, in every way that there is
    """

    labels: LabelFile | None = None
    mutations: Annotated[int, Field(ge=0, le=MOST_MUTATED)] = 8


def _says_clusters(text: str) -> str:
    if text in ("documents", "none"):
        return text
    if not text.startswith(CLUSTERS_BY_IDS) or text == CLUSTERS_BY_IDS:
        raise ValueError("must be documents, none or ids:REGULAR_EXPRESSION")
    try:
        re.compile(text.removeprefix(CLUSTERS_BY_IDS))
    except re.error as error:
        raise ValueError(f"what follows ids: must be a regular expression: {error}") from error
    return text


CLUSTERS_BY_IDS = "ids:"
ClustersBy: TypeAlias = Annotated[str, AfterValidator(_says_clusters)]
"""Which questions are a cluster. `documents`: those that share gold documents; `ids:REGEX`: those in whose
ids its first match is the same; `none`: each by itself, so that results hold for these documents only."""
Prefer: TypeAlias = Literal["quality", "cost", "latency", "simplicity"]
"""What decides between cells that lose little against the leader; `quality`: always the leader."""


class Schedule(Strict):
    """When a study is crawled and run by itself; in a file, the cron expression alone will do.

    cron: in UTC
    active: whether Dagster starts it without being told to; its daemon must run
    """

    cron: str
    active: bool = False

    @model_validator(mode="before")
    @classmethod
    def _may_be_short(cls, value: object) -> object:
        return {"cron": value} if isinstance(value, str) else value

    @field_validator("cron")
    @classmethod
    def _is_cron(cls, cron: str) -> str:
        return check_cron(cron)


EmailAddress = Annotated[str, Field(pattern=r"^[^@\s,/:]+@[^@\s,/:]+$")]
AlertKind = Literal["run", "check", "best", "leader", "budget"]


class Alerts(Strict):
    """Who is told what happens to a study.

    about: `run`: some of its keys failed; `check`: a check failed that makes results wrong; `best`: another
        cell leads, and the one before is significantly worse; `leader`: another of the cells that tie
        leads; `budget`: something was left unasked for want of budget
    webhook: URL that JSON is posted to; write it as `${NAME}`, since anyone who knows it can post there
    email: addresses; the server and its password stand in the environment
    """

    about: tuple[AlertKind, ...] = ("run", "check", "best", "budget")
    log: bool = True
    webhook: SecretStr | None = None
    email: tuple[EmailAddress, ...] = ()

    @field_validator("webhook")
    @classmethod
    def _is_a_secret(cls, webhook: SecretStr | None) -> SecretStr | None:
        if webhook:
            know_url(webhook.get_secret_value(), is_webhook=True)
        return webhook


class StudyBudget(Strict):
    """What a run may spend on the calls of a study's retrievers, generators and judges: money, tokens, calls.

    usd: US dollars; calls whose price is not known do not count
    tokens: read and written together; those that a server does not count do not count

    A call is begun only while the budget covers it and those under way, each taken to cost as much as the
    dearest call of its model so far. So a cap in dollars or tokens is passed by at most the calls in flight,
    and those only by what they cost more; a cap in calls is never passed. Calls that the cache holds, and
    those to a model of this process, count nothing. `enrich`, `date_by` and an embedder's `api` have a
    `budget_usd` of their own.
    """

    usd: Annotated[float, Field(ge=0)] | None = None
    tokens: Annotated[int, Field(ge=0)] | None = None
    calls: Annotated[int, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _caps_something(self) -> Self:
        if self.caps == Caps():
            raise ValueError("say how much may be spent: `usd`, `tokens` or `calls`")
        return self

    @property
    def caps(self) -> Caps:
        return Caps(self.usd, self.tokens, self.calls)
