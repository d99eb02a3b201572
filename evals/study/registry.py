"""Fills the registries with the parts of this package."""

from __future__ import annotations

from typing import Annotated

from pydantic import TypeAdapter

from rag_assay.evals.generation.binned_answers import LlmBinned
from rag_assay.evals.generation.contract import GENERATORS, AnyGenerator, Generator
from rag_assay.evals.generation.extractive import Extractive
from rag_assay.evals.generation.llm import Llm
from rag_assay.evals.generation.no_context import NoContext, OracleContext
from rag_assay.evals.judging.contract import JUDGES
from rag_assay.evals.judging.criteria import CriteriaJudge
from rag_assay.evals.judging.entailment.judge import Entailment
from rag_assay.evals.judging.entailment_classifier import EntailmentClassifier
from rag_assay.evals.judging.pairwise import PairwiseJudge
from rag_assay.evals.judging.ragas.judge import Ragas
from rag_assay.evals.judging.similarity import Similarity
from rag_assay.evals.judging.yes_no import YesNo
from rag_assay.evals.query_transforms.entities import Entities
from rag_assay.evals.query_transforms.filter import Filter
from rag_assay.evals.query_transforms.follow_up import FollowUp
from rag_assay.evals.query_transforms.hyde import Hyde
from rag_assay.evals.query_transforms.keywords import Keywords
from rag_assay.evals.query_transforms.multi_query import MultiQuery
from rag_assay.evals.query_transforms.time_frame import TimeFrame
from rag_assay.evals.retrieval.bm25 import Bm25
from rag_assay.evals.retrieval.chain import Chain
from rag_assay.evals.retrieval.component_kinds import (
    QUERY_TRANSFORMS,
    RETRIEVERS,
    STEPS,
    AnyRetriever,
    list_as_chain,
)
from rag_assay.evals.retrieval.contract import Retriever
from rag_assay.evals.retrieval.cross_encoder import CrossEncoded, CrossEncoder
from rag_assay.evals.retrieval.dense import Dense
from rag_assay.evals.retrieval.fusion import Fuse
from rag_assay.evals.retrieval.graph import Graph, GraphRanked
from rag_assay.evals.retrieval.hybrid import Hybrid
from rag_assay.evals.retrieval.lancedb_hybrid import FullText, LanceHybrid
from rag_assay.evals.retrieval.metadata import Metadata
from rag_assay.evals.retrieval.passage_steps import (
    Adaptive,
    Deduplicate,
    DocumentOrder,
    GroupByDocument,
    LostInTheMiddle,
    Neighbours,
    RecentFirst,
    Threshold,
    TokenBudget,
    Top,
)
from rag_assay.evals.retrieval.powerset import Nothing, Powerset
from rag_assay.evals.retrieval.rank_bm25 import RankBm25
from rag_assay.evals.retrieval.recency import Recency
from rag_assay.evals.rubrics.binary import Binary
from rag_assay.evals.rubrics.criteria import CriteriaRubric as ScoredCriteria
from rag_assay.evals.rubrics.ordinal import Ordinal
from rag_assay.evals.rubrics.pairwise import PairwiseRubric as ScoredPairwise
from rag_assay.evals.rubrics.points import Points
from rag_assay.evals.rubrics.rubric import RUBRICS
from rag_assay.warehouse.components import OneOf
from rag_assay.warehouse.registry import Registry

__all__ = [
    "GENERATORS",
    "JUDGES",
    "QUERY_TRANSFORMS",
    "RETRIEVERS",
    "RETRIEVER_OR_POWERSET",
    "RUBRICS",
    "STEPS",
    "read_generator",
    "read_retriever",
    "read_retriever_or_powerset",
]

RETRIEVERS.add(
    Bm25,
    RankBm25,
    Dense,
    FullText,
    Metadata,
    Recency,
    Hybrid,
    LanceHybrid,
    Fuse,
    CrossEncoded,
    GraphRanked,
    Nothing,
    Chain,
)
STEPS.add(
    CrossEncoder,
    Graph,
    Top,
    Threshold,
    Adaptive,
    Neighbours,
    Deduplicate,
    GroupByDocument,
    RecentFirst,
    DocumentOrder,
    LostInTheMiddle,
    TokenBudget,
)
QUERY_TRANSFORMS.add(
    FollowUp,
    TimeFrame,
    Keywords,
    MultiQuery,
    Hyde,
    Entities,
    Filter,
)
GENERATORS.add(
    Extractive,
    Llm,
    LlmBinned,
    NoContext,
    OracleContext,
)
JUDGES.add(
    YesNo,
    CriteriaJudge,
    PairwiseJudge,
    Similarity,
    Entailment,
    EntailmentClassifier,
    Ragas,
)
RUBRICS.add(
    Points,
    Ordinal,
    Binary,
    ScoredPairwise,
    ScoredCriteria,
)

POWERSETS: Registry[Powerset] = Registry("powersets", Powerset)
POWERSETS.add(Powerset)


def _powerset_or_chain(written: object) -> object:
    """Write out `{powerset: [...], fuse: ...}`, and a list as a chain."""
    if not isinstance(written, dict) or not isinstance(written.get("powerset"), list):
        return list_as_chain(written)
    rest = {key: value for key, value in written.items() if key != "powerset"}
    return {"powerset": {"of": written["powerset"], **rest}}


RETRIEVER_OR_POWERSET = OneOf(RETRIEVERS, POWERSETS, shorthand=_powerset_or_chain)
"""A retriever of a study, or a powerset, which the study makes several retrievers of."""

_RETRIEVER: TypeAdapter[Retriever] = TypeAdapter(AnyRetriever)
_GENERATOR: TypeAdapter[Generator] = TypeAdapter(AnyGenerator)
_EITHER: TypeAdapter[Retriever | Powerset] = TypeAdapter(
    Annotated[Retriever | Powerset, RETRIEVER_OR_POWERSET]
)


def read_retriever(written: object) -> Retriever:
    """Return the retriever that was written as a study would write it.

    Raises:
        ValidationError: every mistake, with its place.
    """
    return _RETRIEVER.validate_python(written)


def read_retriever_or_powerset(written: object) -> Retriever | Powerset:
    """Return the retriever or powerset that was written as a study would write it.

    Raises:
        ValidationError: every mistake, with its place.
    """
    return _EITHER.validate_python(written)


def read_generator(written: object) -> Generator:
    """Return the generator that was written as a study would write it.

    Raises:
        ValidationError: every mistake, with its place.
    """
    return _GENERATOR.validate_python(written)
