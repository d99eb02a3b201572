"""A study file, typed: the build half of `assets.recipes` and what is compared on it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, field_validator, model_validator

from assets.recipes import BuildHalf, Name, one_of, unknown
from evals.measuring import get_metric
from evals.retrieving import RetrieverRecipe
from warehouse.errors import InputError
from warehouse.identity import digest
from warehouse.recipe import Recipe, Strict

NO_GENERATOR = "none"
"""The generator's name in the cells of a study that only retrieves."""


class Extractive(Recipe):
    """Quotes the best sentences of the first passages within a token budget; needs no model but the embedder.

    passages: how many chunks of the ranking it reads
    max_tokens: budget of the answer
    min_score: below this score of the best sentence it says that the documents do not say; None: it always answers
    """

    passages: Annotated[int, Field(ge=1, le=100)] = 5
    max_tokens: Annotated[int, Field(ge=8, le=4096)] = 80
    min_score: Annotated[float, Field(ge=-1, le=2)] | None = None


class Llm(Recipe):
    """Asks a language model through LiteLLM.

    model: a LiteLLM name (`openai/gpt-4o-mini`), or `local/NAME` for a model of the registry
    api_base: address of an OpenAI-compatible server, where it is not the provider's own
    """

    model: Annotated[str, Field(min_length=3)]
    api_base: str | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    max_tokens: Annotated[int, Field(ge=8, le=32768)] = 160
    passages: Annotated[int, Field(ge=1, le=100)] = 5

    @field_validator("model")
    @classmethod
    def _is_known_when_local(cls, name: str) -> str:
        from warehouse import models

        if "/" not in name:
            raise ValueError(f"a model is written PROVIDER/NAME, as in openai/gpt-4o-mini or local/smollm2-135m-instruct, not {name!r}")
        known = [model.name for model in models.known() if model.kind == "llm"]
        if name.startswith("local/") and name.removeprefix("local/") not in known:
            raise ValueError(f"unknown local model {name!r}; known are {', '.join(f'local/{k}' for k in known)}")
        return name


Generator: Any = one_of("Generator", {"extractive": Extractive, "llm": Llm})


class BeirQuestions(Strict):
    """The queries and relevance grades of a BEIR folder.

    split: which file under `qrels/` says what is relevant; only its queries are asked
    """

    path: str
    split: str = "test"
    name: Name = "beir"


class QuestionSource(Strict):
    """Where questions come from: one of our YAML files, or a BEIR folder."""

    file: str | None = None
    beir: BeirQuestions | None = None

    @model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        if (self.file is None) == (self.beir is None):
            raise ValueError("give either `file` or `beir`")
        return self


class Restriction(Strict):
    """Where a generator is used, when not everywhere.

    chunkings, embedders, retrievers: only with these
    sample: only for so many questions, drawn by the study's seed; its cells are compared on those questions
    """

    chunkings: tuple[Name, ...] | None = None
    embedders: tuple[Name, ...] | None = None
    retrievers: tuple[Name, ...] | None = None
    sample: Annotated[int, Field(ge=1)] | None = None


class Budget(Strict):
    """What a run may spend on model calls."""

    usd: Annotated[float, Field(ge=0)]


@dataclass(frozen=True, order=True)
class Cell:
    """One combination of a study; its key is its readable name."""

    study: str
    chunking: str
    embedder: str
    retriever: str
    generator: str
    sample: int | None = None

    @property
    def ranking(self) -> str:
        """Key of the ranking that it answers from."""
        return f"{self.study}.{self.chunking}.{self.embedder}.{self.retriever}"

    @property
    def key(self) -> str:
        """Its own key."""
        return f"{self.ranking}.{self.generator}"

    @property
    def subset(self) -> str:
        """The name of the questions that it is asked."""
        return "all" if self.sample is None else f"sample of {self.sample}"


class Study(BuildHalf):
    """One study file.

    path: where it was read from; question files are looked for beside it
    """

    study: Name
    description: str = ""
    seed: int = 7
    retrievers: Annotated[dict[Name, RetrieverRecipe], Field(min_length=1)]
    generators: dict[Name, Generator] = {}
    questions: Annotated[tuple[QuestionSource, ...], Field(min_length=1)]
    metrics: Annotated[tuple[str, ...], Field(min_length=1)]
    restrict: dict[Name, Restriction] = {}
    budget: Budget | None = None
    path: Path = Path()

    @field_validator("metrics")
    @classmethod
    def _are_known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            try:
                get_metric(name)
            except InputError as error:
                raise ValueError(str(error)) from error
        if len(set(names)) < len(names):
            raise ValueError("a metric is named twice")
        return names

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        axes = {"chunkings": self.chunkings, "embedders": self.embedders, "retrievers": self.retrievers}
        if NO_GENERATOR in self.generators:
            raise ValueError(f"generators: the name `{NO_GENERATOR}` is kept for cells without a generator")
        for name, restriction in self.restrict.items():
            if name not in self.generators:
                raise ValueError(unknown("generator", name, self.generators, "restrict"))
            for axis, values in axes.items():
                for value in getattr(restriction, axis) or ():
                    if value not in values:
                        raise ValueError(unknown(axis[:-1], value, values, f"restrict.{name}.{axis}"))
        if not self.generators and any(get_metric(name).kind == "answer" for name in self.metrics):
            named = next(name for name in self.metrics if get_metric(name).kind == "answer")
            raise ValueError(f"metrics: {named} measures answers, but the study has no `generators`")
        if not self.cells():
            raise ValueError("restrict: the axes leave no cell at all; loosen a restriction")
        return self

    def cells(self) -> list[Cell]:
        """Return every cell of the grid, in the order of the file."""
        return [
            Cell(self.study, chunking, embedder, retriever, generator, self._sample(generator))
            for chunking in self.chunkings
            for embedder in self.embedders
            for retriever in self.retrievers
            for generator in self.generators or (NO_GENERATOR,)
            if self._allowed(generator, chunking, embedder, retriever)
        ]

    def rankings(self) -> list[str]:
        """Return the keys of the rankings that the cells need, each once."""
        return list(dict.fromkeys(cell.ranking for cell in self.cells()))

    def indexes(self) -> list[str]:
        """Return the keys of the indexes that the cells need, each once."""
        return list(dict.fromkeys(f"{self.corpus.name}.{c.chunking}.{c.embedder}" for c in self.cells()))

    def chunk_sets(self) -> list[str]:
        """Return the keys of the sets of chunks that the cells need, each once."""
        return list(dict.fromkeys(f"{self.corpus.name}.{c.chunking}" for c in self.cells()))

    def _sample(self, generator: str) -> int | None:
        restriction = self.restrict.get(generator)
        return restriction.sample if restriction else None

    def _allowed(self, generator: str, chunking: str, embedder: str, retriever: str) -> bool:
        restriction = self.restrict.get(generator)
        if restriction is None:
            return True
        wanted = (
            (restriction.chunkings, chunking),
            (restriction.embedders, embedder),
            (restriction.retrievers, retriever),
        )
        return all(values is None or value in values for values, value in wanted)

    def sampled(self, question_ids: list[str], size: int | None) -> list[str]:
        """Draw ``size`` questions by the seed, in the given order; another question in the set moves few of them.

        >>> Study.sampled(Study.model_construct(seed=7), ["a", "b", "c"], None)
        ['a', 'b', 'c']
        """
        if size is None or size >= len(question_ids):
            return question_ids
        drawn = set(sorted(question_ids, key=lambda question_id: digest([self.seed, question_id]))[:size])
        return [question_id for question_id in question_ids if question_id in drawn]

    @cached_property
    def base(self) -> Path:
        """The folder that relative paths in the study start from."""
        return self.path.parent

    def resolve(self, path: str) -> Path:
        """Return a path of the study as an absolute one: `~` and paths relative to the working folder or the file.

        Question files stand beside the study; what comes from an environment variable is meant from where
        the command was typed. So the working folder is tried first where the path exists there.
        """
        given = Path(path).expanduser()
        if given.is_absolute():
            return given
        beside = (self.base / given).resolve()
        return given.resolve() if given.exists() and not beside.exists() else beside

