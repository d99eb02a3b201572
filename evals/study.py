"""A study file, typed: the build half of `assets.recipes` and what is compared on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, field_validator, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from assets.recipes import BuildHalf, Name, one_of
from evals.findings import Finding, instead, shown
from evals.measuring import get_metric
from evals.measuring.contract import RetrievalMetric
from evals.retrieving import StudyRetriever
from warehouse.errors import InputError
from warehouse.identity import digest
from warehouse.marked_yaml import Place
from warehouse.recipe import Recipe, Strict

NO_GENERATOR = "none"
"""The generator's name in the cells of a study that only retrieves."""


class Extractive(Recipe):
    """Quotes the best sentences of the first passages within a token budget; needs no model but the embedder.

    passages: how many chunks of the ranking it reads
    max_tokens: budget of the answer, by the tokenizer of the embedder
    min_score: below this score of the best sentence it says that the documents do not say; None: never
    """

    code_version: ClassVar[str] = "2"
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

        if "/" not in name.strip("/"):
            example = "openai/gpt-4o-mini or local/smollm2-135m-instruct"
            raise ValueError(f"a model is written PROVIDER/NAME, as in {example}, not {name!r}")
        known = [f"local/{model.name}" for model in models.known() if model.kind == "llm"]
        if name.startswith("local/") and name not in known:
            raise ValueError(f"unknown local model {name!r}; {instead(name, known)}")
        return name

    @field_validator("api_base")
    @classmethod
    def _is_an_address(cls, address: str | None) -> str | None:
        if address is not None and not address.startswith(("http://", "https://")):
            raise ValueError(
                f"an address begins with http:// or https://, as in http://127.0.0.1:8000/v1, not {address!r}"
            )
        return address


Generator: Any = one_of("Generator", {"extractive": Extractive, "llm": Llm})


class BeirQuestions(Strict):
    """The queries and relevance grades of a BEIR folder.

    split: which file under `qrels/` says what is relevant; only its queries are asked
    """

    path: str
    split: str = "test"
    name: Name = "beir"


class QuestionSource(Strict):
    """Where questions come from: one of our YAML files, or a BEIR folder.

    use: what they are for: `test` questions are asked and measured; on `train` questions, what a retriever
        says is `tuned` is chosen, and nothing is reported of them
    """

    file: str | None = None
    beir: BeirQuestions | None = None
    use: Literal["test", "train"] = "test"

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
    """What a run may spend on the calls of a study's retrievers and generators, in US dollars.

    A call is begun only while there is room for it and for those under way, each taken to cost as much as the
    dearest call of its model so far. So it is passed by at most the calls in flight, and those only by what
    they cost more; calls whose price is not known do not count.
    `enrich`, `date_by` and an embedder's `api` have a `budget_usd` of their own.
    """

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


def _is_metric(name: str) -> str:
    try:
        get_metric(name)
    except InputError as error:
        raise ValueError(str(error)) from error
    return name


MetricName = Annotated[str, AfterValidator(_is_metric)]


class Study(BuildHalf):
    """One study file.

    retrievers: a powerset among them stands for all of its combinations, each by a name of its own
    trace: how many candidates of each step of a retriever are kept, to tell where a question was lost
    path: where it was read from; question files are looked for beside it
    """

    study: Name
    description: str = ""
    seed: Annotated[int, Field(ge=0)] = 7
    retrievers: Annotated[dict[Name, StudyRetriever], Field(min_length=1)]
    generators: dict[Name, Generator] = Field(default_factory=dict)
    questions: Annotated[tuple[QuestionSource, ...], Field(min_length=1)]
    metrics: Annotated[tuple[MetricName, ...], Field(min_length=1)]
    restrict: dict[Name, Restriction] = Field(default_factory=dict)
    budget: Budget | None = None
    trace: Annotated[int, Field(ge=1, le=10_000)] = 100
    path: Path = Path()

    @field_validator("retrievers", mode="after")
    @classmethod
    def _powersets_are_all_their_combinations(cls, given: dict[str, Any]) -> dict[str, Any]:
        return expanded(given)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        wrong = misfits(self.model_dump())
        if wrong:
            raise ValueError("; ".join(f"{shown(place)}: {text}" for place, text in wrong))
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

    @property
    def tuning_metrics(self) -> tuple[RetrievalMetric, ...]:
        """By what weights are chosen: the first of these that applies to any train question.

        They are the study's own that measure rankings, in their order, and nDCG@10.
        """
        found = (get_metric(name) for name in dict.fromkeys((*self.metrics, "ndcg@10")))
        return tuple(metric for metric in found if isinstance(metric, RetrievalMetric))

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
        """Draw ``size`` questions by the seed, in their order; a question more in the set moves one at most.

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
        """Return a path of the study as an absolute one."""
        return absolute(path, self.base)


def expanded(retrievers: Mapping[str, Any]) -> dict[str, Any]:
    """Put the combinations of every powerset in its place; each name once.

    Raises:
        ValidationError: at a powerset one of whose combinations has a name that is too long or taken.
    """
    found: dict[str, Any] = {}
    for name, recipe in retrievers.items():
        own = {name: recipe}
        if recipe.kind == "powerset":
            try:
                written = recipe.recipe.retrievers(name)
            except ValueError as error:
                raise _wrong(name, str(error)) from error
            own = {key: StudyRetriever.model_validate(value) for key, value in written.items()}
        taken = [key for key in own if key in found or (key != name and key in retrievers)]
        if taken:
            raise _wrong(name, f"there is another retriever `{min(taken)}`; rename one of them")
        found |= own
    return found


def _wrong(name: str, told: str) -> ValidationError:
    detail = InitErrorDetails(
        type=PydanticCustomError("powerset", "{told}", {"told": told}), loc=(name,), input={}
    )
    return ValidationError.from_exception_data("Study", [detail])


def absolute(path: str, base: Path) -> Path:
    """Return a path of a study as an absolute one: from `~`, the study's folder or the working folder.

    Question files stand beside the study; what comes from an environment variable is meant from where
    the command was typed. So a path that is only there is taken from there.

    Raises:
        InputError: it can be no path: a NUL in it, too long, or the home of a user that there is not.
    """
    try:
        given = Path(path).expanduser()
        if given.is_absolute():
            given.exists()  # which raises for what can be no path
            return given
        beside = (base / given).resolve()
        return given.resolve() if given.exists() and not beside.exists() else beside
    except (OSError, RuntimeError, ValueError) as error:  # too long, `~nobody`, a NUL in it
        why = getattr(error, "strerror", None) or error
        raise InputError(f"{path[:80]!r} cannot be used as a path: {why}") from error


def set_name(path: Path) -> str:
    """Return the name of a file's question set: that of the file.

    >>> set_name(Path("demo/Energy.questions.yaml"))
    'energy'
    """
    return path.name.removesuffix(".yaml").removesuffix(".questions").lower().replace(".", "-")


def misfits(data: Mapping[str, Any]) -> list[Finding]:
    """Return where the parts of a study do not fit each other: unknown names, and what cannot be asked.

    Args:
        data: a study as its file says it; parts that are wrong in themselves are passed over.
    """
    found: list[Finding] = []
    known = {part: _names(data.get(part)) for part in ("sources", "chunkings", "embedders")}
    known["retrievers"] = _retriever_names(data.get("retrievers"))
    generators = _names(data.get("generators", {}))
    corpus = data.get("corpus")
    for number, name in enumerate(_strings(corpus.get("sources")) if isinstance(corpus, dict) else ()):
        found += _unknown("source", name, known["sources"], ("corpus", "sources", number))
    if NO_GENERATOR in (generators or ()):
        found.append(
            (("generators", NO_GENERATOR), f"the name `{NO_GENERATOR}` is kept for cells without a generator")
        )
    restrict = data.get("restrict", {})
    for name, restriction in restrict.items() if isinstance(restrict, dict) else ():
        found += _unknown("generator", name, generators, ("restrict", name))
        if isinstance(restriction, dict):
            found += _restricted(name, restriction, known)
    found += _unfit_questions(data.get("questions"), data.get("retrievers"))
    return found + _unfit_metrics(_strings(data.get("metrics")), generators)


def _restricted(name: str, restriction: dict[str, Any], known: dict[str, list[str] | None]) -> list[Finding]:
    found: list[Finding] = []
    for axis in ("chunkings", "embedders", "retrievers"):
        place: Place = ("restrict", name, axis)
        values = restriction.get(axis)
        if isinstance(values, list | tuple) and not values:
            found.append(
                (place, f"an empty list leaves `{name}` no cell; name some {axis}, or delete the line")
            )
        for number, value in enumerate(_strings(values)):
            found += _unknown(axis[:-1], value, known[axis], (*place, number))
    return found


def _unfit_questions(sources: Any, retrievers: Any) -> list[Finding]:
    """Say where train questions are lacking, or questions to ask."""
    if not isinstance(sources, list | tuple):
        return []
    uses = [one.get("use", "test") for one in sources if isinstance(one, dict)]
    if uses and "test" not in uses:
        return [(("questions", 0), "all questions are for training; a study asks at least one set of others")]
    tuned = [name for name, one in retrievers.items() if _is_tuned(one)] if _names(retrievers) else []
    if tuned and "train" not in uses:
        told = "`weights: tuned` needs train questions: add a set with `use: train` to `questions`"
        return [(("retrievers", tuned[0]), told)]
    return []


def _is_tuned(part: Any) -> bool:
    """Say whether a retriever, as it is written, has something that is to be tuned."""
    if isinstance(part, dict):
        return part.get("weights") == "tuned" or any(_is_tuned(one) for one in part.values())
    return isinstance(part, list | tuple) and any(_is_tuned(one) for one in part)


def _unfit_metrics(metrics: list[str], generators: list[str] | None) -> list[Finding]:
    found: list[Finding] = []
    for number, name in enumerate(metrics):
        if name in metrics[:number]:
            found.append((("metrics", number), f"the metric {name} is named twice"))
        elif generators == [] and _measures_answers(name):
            found.append((("metrics", number), f"{name} measures answers, but the study has no `generators`"))
    return found


def _measures_answers(name: str) -> bool:
    try:
        return get_metric(name).kind == "answer"
    except InputError:
        return False  # an unknown one is told of elsewhere


def _unknown(what: str, name: str, known: list[str] | None, place: Place) -> list[Finding]:
    if known is None or name in known:
        return []
    return [(place, f"unknown {what} `{name}`; {instead(name, known)}")]


def _names(part: Any) -> list[str] | None:
    return list(part) if isinstance(part, dict) else None


def _retriever_names(part: Any) -> list[str] | None:
    """Return the names of the retrievers, those of combinations too; None while one cannot be read."""
    names = _names(part)
    if names is None or not any(isinstance(one, dict) and "powerset" in one for one in part.values()):
        return names
    try:
        return list(expanded({name: StudyRetriever.model_validate(one) for name, one in part.items()}))
    except ValidationError:
        return None


def _strings(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list | tuple) else []
