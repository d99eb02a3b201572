"""Sections of a study file: question sets, restrictions, search, schedule, alerts, budget; powersets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self, TypeAlias

from pydantic import AfterValidator, Field, SecretStr, field_validator, model_validator

from rag_assay.assets.recipes.build_half import Name
from rag_assay.evals.judging.cards.labels import LabelFile
from rag_assay.evals.question_sets.readers import SUFFIXES, Evidence, Form, suffix_of
from rag_assay.evals.retrieval.powerset import Powerset
from rag_assay.warehouse.cron import check_cron
from rag_assay.warehouse.inference.budget import Caps
from rag_assay.warehouse.inference.redaction import know_url
from rag_assay.warehouse.recipe import Strict, error_at

if TYPE_CHECKING:
    from rag_assay.evals.retrieval.contract import Retriever

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
    """Limits of a search, by the estimates made before it starts.

    cells: number of cells
    evaluations: number of questions that cells answer
    calls, tokens, usd: of paid models, by the maximum of `assay run --dry-run` in an empty workspace
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
    """Which part of the grid is evaluated on all questions.

    method: `one_factor_at_a_time`: a base cell, and all that differ from it on one axis; `random`: cells
        drawn by the seed, as many as the budget allows; `successive_halving`: all cells on a few questions,
        the better ones on more, the last ones on all
    base: key of the base cell without the study; default: the first name of each axis
    budget: limit of the search; successive halving without one drops only significantly worse cells
    seed: default: the study's
    first: questions of the first rung
    growth: factor between the numbers of questions of two rungs
    alpha: chance, over all rungs, that a test drops a cell that is not worse
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

    path: of the folder
    name: of the question set
    split: which file under `qrels/` says what is relevant; only its queries are asked
    """

    path: str
    split: str = "test"
    name: Name = "beir"


class QuestionSource(Strict):
    """Where questions come from: a file, or a BEIR folder.

    file: path of the file, from the study's folder
    beir: a BEIR folder, in place of a file
    format: of the file; default: as its name and columns tell
    name: of the question set; default: that of the file
    language, asked_at: of questions without their own; a YAML file has its own
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


class Selection(Strict):
    """Some cells, and a sample of what they answer."""

    generators: tuple[Name, ...] | None = None
    chunkings: tuple[Name, ...] | None = None
    embedders: tuple[Name, ...] | None = None
    retrievers: tuple[Name, ...] | None = None
    sample: Annotated[int, Field(ge=1)] | None = None

    def allows(self, chunking: str, embedder: str, retriever: str, generator: str | None = None) -> bool:
        wanted = (
            (self.chunkings, chunking),
            (self.embedders, embedder),
            (self.retrievers, retriever),
            (self.generators if generator else None, generator),
        )
        return all(values is None or value in values for values, value in wanted)


class Restriction(Selection):
    """Where a generator or a judge is used; default: everywhere.

    generators: only answers of these; of a judge
    chunkings, embedders, retrievers: only with these
    sample: number of questions, drawn by the study's seed; the cells of a generator are compared on those
        questions, and a judge's metrics are measured on them
    others: of a generator: `rankings` compares the pipelines that it leaves out by their rankings alone;
        default: they are no cells
    """

    others: Literal["rankings"] | None = None


class Annotation(Selection):
    """Which answers annotators rate, and in which order.

    rubrics: default: all
    generators, chunkings, embedders, retrievers: only answers of cells with these
    cells: only answers of these, as chunking.embedder.retriever.generator
    sample: number of items, drawn by the study's seed; an item is a question with an answer and its passages
    twice: share of the items that two annotators rate
    repeats: share of an annotator's items that are shown again, to measure how consistent the ratings are
    order: `random`, or `disputed`: items that judges disagree on come first, and are drawn more often
    precision: wanted half width of the 95 % interval of a cell's mean, as a share of the rubric's scale; sets
        the number of items if there is no `sample`
    """

    rubrics: tuple[Name, ...] | None = None
    cells: tuple[Annotated[str, Field(max_length=500)], ...] | None = None
    twice: Annotated[float, Field(ge=0, le=1)] = 0.2
    repeats: Annotated[float, Field(ge=0.05, le=0.1)] = 0.05
    order: Literal["random", "disputed"] = "random"
    precision: Annotated[float | None, Field(gt=0, le=0.5)] = None


class JudgeCard(Strict):
    """How a judge is tested.

    labels: cases labelled by annotators; without labels or human ratings, the judge is uncalibrated
    mutations: number of answers that are made worse, in every applicable way; 0: none
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
    """Who is notified of a study's events.

    about: `run`: some keys failed; `check`: a check failed that makes results wrong; `best`: another cell
        leads, and the previous leader is significantly worse; `leader`: another of the tied cells leads;
        `budget`: questions were skipped because the budget was spent
    log: also write a line to the log of the process
    webhook: URL that JSON is posted to; write it as `${NAME}`, since anyone who knows it can post there
    email: addresses; the mail server and its password are set in the environment
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
    """Limits of one run for the calls of a study's retrievers, generators and judges.

    usd: US dollars; calls without a known price do not count
    tokens: read and written together; calls whose tokens the server does not count do not count
    calls: number of calls, failed ones included

    A call starts only if the budget covers it and the calls in flight, each at the cost of the most expensive
    call of its model so far. So a limit in dollars or tokens is exceeded by at most what the calls in flight
    cost beyond that; a limit of calls is exact. Cached calls and models of this process are free. `enrich`,
    `date_by` and an embedder's `api` have a `budget_usd` of their own.
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
