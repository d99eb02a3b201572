"""The study file, typed: the build half of `assets.recipes.build_half`, and what is compared on it."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from pydantic import AfterValidator, Field, PrivateAttr, field_validator, model_validator

from rag_assay.assets.recipes.build_half import BuildHalf, Name, absolute
from rag_assay.evals.generation.contract import AnyGenerator, Reads
from rag_assay.evals.judging.contract import AnyJudge
from rag_assay.evals.judging.judge_metrics import JudgedScores
from rag_assay.evals.metrics import get_metric
from rag_assay.evals.metrics.contract import Metric, RetrievalMetric
from rag_assay.evals.retrieval.contract import Retriever
from rag_assay.evals.rubrics.human_rating_metrics import PeopleScores, people_metrics
from rag_assay.evals.rubrics.rubric import AnyRubric, Rubric
from rag_assay.evals.study import sections
from rag_assay.evals.study.cells import NO_GENERATOR, UNREAD, Cell, Slice
from rag_assay.evals.study.consistency import is_judged, judged_metrics, misfits
from rag_assay.evals.study.registry import RETRIEVER_OR_POWERSET
from rag_assay.evals.systems.contract import AnySystem
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.inference.chat_model import ChatModel
from rag_assay.warehouse.validation_errors import display_place

if TYPE_CHECKING:
    from rag_assay.evals.retrieval.powerset import Powerset


def _is_metric(name: str) -> str:
    if is_judged(name):
        return name  # whether there are such a judge and metric, `misfits` says
    try:
        get_metric(name)
    except InputError as error:
        raise ValueError(str(error)) from error
    return name


MetricName = Annotated[str, AfterValidator(_is_metric)]
MOST_REPLICATES = 50


class Study(BuildHalf):
    """One study file.

    study: its name
    description: one line for the report
    seed: of samples, bootstrap intervals and models
    retrievers: how passages are found; a powerset stands for all of its combinations, each by its own name
    generators: what answers from the passages; default: none, which compares rankings only
    questions: files of questions, or BEIR folders
    restrict: where a generator or judge is used, by its name; default: everywhere
    budget: the most that the calls of one run may cost
    systems: RAG applications of your own, each one cell beside the grid
    questions_by: the model that `assay questions make` calls
    judges: what rates answers and passages; names differ from those of generators, metrics are `JUDGE.METRIC`
    judge_cards: how judges are calibrated; judges without one are tried with mutated answers only
    rubrics: scales of human ratings, which are measured as `people.RUBRIC`
    annotation: which answers annotators rate, and in which order; default: all
    metrics: what is measured; the first one ranks the cells. All metrics of the judges are measured too
    replicates: how often each cell answers whose generator can vary
    clusters: which questions depend on each other: `documents` (they share reference documents), `ids:REGEX`
        (the first match in their ids is the same) or `none`
    margin: a loss that does not matter, in the unit of the first metric; default: 0.02 of its range
    prefer: what decides between cells within half of the margin; `quality`: always the leader
    schedule: when Dagster crawls the sources and runs the study; default: Mondays at 06:00 UTC, switched off
    search: which subset of the grid is run; default: all of it
    alerts: who is notified of events; default: as the environment says
    trace: candidates of each retrieval step that are stored, to show where evidence was lost
    path: where it was read from; question files are looked for beside it
    """

    judged_alone: ClassVar[bool] = False  # questions need neither ground truth nor evidence

    study: Name
    description: str = ""
    seed: Annotated[int, Field(ge=0)] = 7
    retrievers: Annotated[dict[Name, Annotated[Retriever, RETRIEVER_OR_POWERSET]], Field(min_length=1)]
    generators: dict[Name, AnyGenerator] = Field(default_factory=dict)
    systems: dict[Name, AnySystem] = Field(default_factory=dict)
    judges: dict[Name, AnyJudge] = Field(default_factory=dict)
    judge_cards: dict[Name, sections.JudgeCard] = Field(default_factory=dict)
    rubrics: dict[Name, AnyRubric] = Field(default_factory=dict)
    annotation: sections.Annotation = sections.Annotation()
    questions: Annotated[tuple[sections.QuestionSource, ...], Field(min_length=1)]
    questions_by: ChatModel | None = None
    metrics: Annotated[tuple[MetricName, ...], Field(min_length=1)]
    restrict: dict[Name, sections.Restriction] = Field(default_factory=dict)
    replicates: Annotated[int, Field(ge=1, le=MOST_REPLICATES)] = 1
    budget: sections.StudyBudget | None = None
    schedule: sections.Schedule | None = None
    alerts: sections.Alerts | None = None
    clusters: sections.ClustersBy = "documents"
    margin: Annotated[float | None, Field(gt=0)] = None
    prefer: sections.Prefer = "cost"
    trace: Annotated[int, Field(ge=1, le=10_000)] = 100
    search: sections.Search | None = None
    path: Path = Path()
    _slice: Slice | None = PrivateAttr(default=None)
    _kept: frozenset[str] | None = PrivateAttr(default=None)

    @field_validator("retrievers", mode="after")
    @classmethod
    def _powersets_are_all_their_combinations(
        cls, value: dict[str, Retriever | Powerset]
    ) -> dict[str, Retriever]:
        return sections.expand_powersets(value)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        found = [f"{display_place(place)}: {text}" for place, _code, text in misfits(self.written())]
        if found:
            raise ValueError("; ".join(found))
        return self

    @model_validator(mode="after")
    def _systems_answer_as_generators_do(self) -> Self:
        for one in self.systems.values():
            one.in_folder(self.base)
        self.__dict__["generators"] = {**self.generators, **self.systems}
        return self

    def __copy__(self) -> Self:
        found = super().__copy__()
        found.__dict__.pop("every_cell", None)  # a copy may have another name or other components
        return found

    def written(self) -> dict[str, object]:
        unsaid = {"annotation"} if self.annotation == sections.Annotation() else None
        return self.model_dump(exclude=unsaid)

    @property
    def slice(self) -> Slice | None:
        return self._slice

    @property
    def whole(self) -> str:
        return self.study if self._slice is None else self._slice.whole

    def sliced(self, name: str, part: Slice) -> Self:
        found = self.model_copy(update={"study": name})
        found._slice = part
        return found

    def cells(self) -> list[Cell]:
        chosen = [one for one in (self._slice.cells if self._slice else None, self._kept) if one is not None]
        return [cell for cell in self.every_cell if all(cell.short in names for names in chosen)]

    @property
    def is_narrowed(self) -> bool:
        return self._kept is not None

    def narrowed(self, kept: Collection[str] | None) -> Self:
        """Return the study with some cells, by name without the study's; None: all that it had."""
        found = self.model_copy()
        found._kept = None if kept is None else frozenset(kept)
        return found

    @cached_property
    def every_cell(self) -> tuple[Cell, ...]:
        reading = [name for name in self.generators if self.reads(name) == "ranking"]
        samples = {name: self._restriction(name).sample for name in (*reading, NO_GENERATOR)}
        grid = [
            Cell(self.study, *place, generator, samples[generator])
            for place in product(self.chunkings, self.embedders, self.retrievers)
            for generator in self._generators_of(place, reading)
        ]
        others = [
            Cell(
                self.study,
                *(UNREAD,) * 3,
                name,
                self._restriction(name).sample,
                is_system=name in self.systems,
            )
            for name in self.generators
            if name not in samples
        ]
        return (*grid, *others)

    def _generators_of(self, place: tuple[str, str, str], reading: list[str]) -> list[str]:
        """Return the generators of a ranking, last `none` for its rankings alone."""
        allowed = [name for name in reading if self._restriction(name).allows(*place)]
        by_rankings = any(self._restriction(one).others == "rankings" for one in {*reading} - {*allowed})
        is_alone = by_rankings or self.systems.keys() >= self.generators.keys()
        return [*allowed, *([NO_GENERATOR] if is_alone else [])]

    def reads(self, generator: str) -> Reads:
        found = self.generators.get(generator)
        return "ranking" if found is None else found.reads

    def runs(self) -> list[Cell]:
        return [one for cell in self.cells() for one in cell.replicates(self.times(cell))]

    def times(self, cell: Cell) -> int:
        found = self.generators.get(cell.generator)
        return 1 if found is None or not found.varies else self.replicates

    @property
    def tuning_metrics(self) -> tuple[RetrievalMetric, ...]:
        """Weights are chosen by the first of these that applies to a train question."""
        names = dict.fromkeys((*self.metrics, "ndcg@10"))
        found = (get_metric(name) for name in names if not is_judged(name))
        return tuple(metric for metric in found if isinstance(metric, RetrievalMetric))

    @property
    def _owned(self) -> dict[str, JudgedScores | PeopleScores]:
        return {**judged_metrics(self.judges), **people_metrics(self.rubrics)}

    @property
    def measured(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.metrics, *self._owned)))

    def metric(self, name: str) -> Metric:
        return self._owned.get(name) or get_metric(name)

    def judged_by(self, cell: Cell) -> list[str]:
        return [name for name in self.judges if self._judges(name, cell)]

    def _judges(self, name: str, cell: Cell) -> bool:
        has_answers = cell.generator != NO_GENERATOR
        applies = has_answers or any("answer" not in one.needs for one in self.judges[name].judged_metrics)
        return applies and self._restriction(name).allows(*cell.axes)

    def people_score(self, cell: Cell) -> bool:
        said = self.annotation
        is_named = said.cells is None or cell.short in said.cells
        return cell.generator != NO_GENERATOR and is_named and said.allows(*cell.axes)

    @property
    def scored_by(self) -> dict[str, Rubric]:
        chosen = self.annotation.rubrics
        return {name: one for name, one in self.rubrics.items() if chosen is None or name in chosen}

    def card_of(self, judge: str) -> sections.JudgeCard:
        return self.judge_cards.get(judge, sections.JudgeCard())

    def metrics_of(self, cell: Cell) -> list[Metric]:
        judges = self.judged_by(cell)
        found = (
            metric
            for metric in map(self.metric, self.measured)
            if not isinstance(metric, JudgedScores) or metric.judge in judges
        )
        return [one for one in found if one.kind != "answer" or cell.generator != NO_GENERATOR]

    def judged_sample(self, judge: str) -> int | None:
        rival = self.cell_named(self.judges[judge].against)
        sizes = (self._restriction(judge).sample, rival.sample if rival else None)
        return min((size for size in sizes if size is not None), default=None)

    def scored_sample(self, rubric: str) -> int | None:
        rival = self.cell_named(self.rubrics[rubric].against)
        return rival.sample if rival else None

    def cell_named(self, name: str | None) -> Cell | None:
        key = f"{self.study}.{name}"
        return next((cell for cell in self.cells() if cell.key == key), None) if name else None

    def rankings(self) -> list[str]:
        return list(dict.fromkeys(cell.ranking for cell in self._ranked()))

    def indexes(self) -> list[str]:
        return list(dict.fromkeys(f"{self.corpus.name}.{c.chunking}.{c.embedder}" for c in self._ranked()))

    def chunk_sets(self) -> list[str]:
        return list(dict.fromkeys(f"{self.corpus.name}.{c.chunking}" for c in self._ranked()))

    def _ranked(self) -> list[Cell]:
        return [cell for cell in self.cells() if cell.reads_ranking]

    def _restriction(self, part: str) -> sections.Restriction:
        return self.restrict.get(part, sections.Restriction())

    def sampled(self, question_ids: list[str], size: int | None) -> list[str]:
        """Draw ``size`` questions by the seed, in order; one more question moves at most one."""
        if size is None or size >= len(question_ids):
            return question_ids
        drawn = set(sorted(question_ids, key=lambda question_id: digest([self.seed, question_id]))[:size])
        return [question_id for question_id in question_ids if question_id in drawn]

    @cached_property
    def base(self) -> Path:
        return self.path.parent

    def resolve(self, path: str) -> Path:
        return absolute(path, self.base)
