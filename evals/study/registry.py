"""Fills the registries with the parts of this package."""

from __future__ import annotations

from typing import Annotated

from pydantic import TypeAdapter

from evals.annotating.binary import Binary
from evals.annotating.criteria import Criteria as ScoredCriteria
from evals.annotating.ordinal import Ordinal
from evals.annotating.pairwise import Pairwise as ScoredPairwise
from evals.annotating.points import Points
from evals.annotating.rubric import RUBRICS
from evals.generating.binned import LlmBinned
from evals.generating.contract import GENERATORS, AnyGenerator, Generator
from evals.generating.extractive import Extractive
from evals.generating.llm import Llm
from evals.generating.no_context import NoContext
from evals.generating.oracle_context import OracleContext
from evals.judging.contract import JUDGES
from evals.judging.criteria import Criteria
from evals.judging.entailment.judge import Entailment
from evals.judging.entailment_classifier import EntailmentClassifier
from evals.judging.pairwise import Pairwise
from evals.judging.ragas.judge import Ragas
from evals.judging.similarity import Similarity
from evals.judging.yes_no import YesNo
from evals.retrieving.bm25 import Bm25
from evals.retrieving.chain import Chain
from evals.retrieving.contract import Retriever
from evals.retrieving.cross_encoder import CrossEncoded, CrossEncoder
from evals.retrieving.cutting import Adaptive, Threshold, Top
from evals.retrieving.delivering import Deduplicate, Neighbours, TokenBudget
from evals.retrieving.dense import Dense
from evals.retrieving.fulltext import FullText
from evals.retrieving.fusing import Fuse
from evals.retrieving.graph import Graph, GraphRanked
from evals.retrieving.hybrid import Hybrid
from evals.retrieving.kinds import QUERY_TRANSFORMS, RETRIEVERS, STEPS, AnyRetriever, list_as_chain
from evals.retrieving.lancedb_hybrid import LanceHybrid
from evals.retrieving.metadata import Metadata
from evals.retrieving.nothing import Nothing
from evals.retrieving.ordering import DocumentOrder, GroupByDocument, LostInTheMiddle, RecentFirst
from evals.retrieving.powerset import Powerset
from evals.retrieving.rank_bm25 import RankBm25
from evals.retrieving.recency import Recency
from evals.understanding.entities import Entities
from evals.understanding.filter import Filter
from evals.understanding.follow_up import FollowUp
from evals.understanding.hyde import Hyde
from evals.understanding.keywords import Keywords
from evals.understanding.multi_query import MultiQuery
from evals.understanding.time_frame import TimeFrame
from warehouse.parts import OneOf
from warehouse.registry import Registry

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
    Criteria,
    Pairwise,
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
