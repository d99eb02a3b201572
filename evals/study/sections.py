"""Sections of a study file: question sets, restrictions, the budget."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import AfterValidator, Field, SecretStr, field_validator, model_validator

from rag_assay.assets.recipes.build_half import Name
from rag_assay.evals.judging.cards.labels import LabelFile
from rag_assay.evals.question_sets.readers import SUFFIXES, Evidence, Form, suffix_of
from rag_assay.warehouse.cron import check_cron
from rag_assay.warehouse.inference.budget import Caps
from rag_assay.warehouse.inference.redaction import know_url
from rag_assay.warehouse.recipe import Strict

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

    format: what the file holds, where its name does not tell
    name: of the question set; that of the file unless said
    language, asked_at: of the questions, where a file that is not YAML does not say it of one
    evidence: `ground_truth`: of questions without evidence, what is most like their ground truth is evidence;
        `none`: quotes and contexts that name no page are not looked for; both are unless said
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
        """Whether the file is one of our own."""
        suffix = suffix_of(Path(self.file or ""))
        return self.format == "yaml" or (self.format is None and SUFFIXES.get(suffix, "yaml") == "yaml")


class Restriction(Strict):
    """Where a generator or a judge is used, when not everywhere.

    generators: only the answers of these are judged; of a judge alone
    chunkings, embedders, retrievers: only with these
    sample: only for so many questions, drawn by the study's seed; the cells of a generator are compared on
        those questions, and a judge's metrics are measured on them
    """

    generators: tuple[Name, ...] | None = None
    chunkings: tuple[Name, ...] | None = None
    embedders: tuple[Name, ...] | None = None
    retrievers: tuple[Name, ...] | None = None
    sample: Annotated[int, Field(ge=1)] | None = None

    def allows(self, chunking: str, embedder: str, retriever: str, generator: str | None = None) -> bool:
        """Return whether a cell is among those that it leaves; without a generator, all of them are."""
        wanted = (
            (self.chunkings, chunking),
            (self.embedders, embedder),
            (self.retrievers, retriever),
            (self.generators if generator else None, generator),
        )
        return all(values is None or value in values for values, value in wanted)


class Annotation(Restriction):
    """What people score of a study, and in which order.

    rubrics: by which of the study's rubrics; by all unless said
    generators, chunkings, embedders, retrievers: only answers of cells with these
    cells: only answers of these cells, each by its key without the study
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
    log: into the log of the process
    webhook: URL that JSON is posted to; write it as `${NAME}`, for whoever knows it can post there
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
    calls: that are made, whatever comes of them

    A call is begun only while there is room for it and for those under way, each taken to cost as much as the
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
        """The caps as budgets take them."""
        return Caps(self.usd, self.tokens, self.calls)
