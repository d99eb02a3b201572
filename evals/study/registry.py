"""Fills the registries with the parts of this package; each is imported when it is first asked for."""

from __future__ import annotations

from typing import Annotated

from pydantic import TypeAdapter

from rag_assay.evals.generation.contract import GENERATORS, AnyGenerator, Generator
from rag_assay.evals.judging.contract import JUDGES
from rag_assay.evals.retrieval.contract import (
    QUERY_TRANSFORMS,
    RETRIEVERS,
    STEPS,
    AnyRetriever,
    Retriever,
    list_as_chain,
)
from rag_assay.evals.retrieval.powerset import Powerset
from rag_assay.evals.rubrics.rubric import RUBRICS
from rag_assay.evals.systems.contract import SYSTEMS
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
    "SYSTEMS",
    "read_generator",
    "read_retriever",
    "read_retriever_or_powerset",
]

RETRIEVERS.add_places(
    "rag_assay.evals.retrieval",
    bm25="bm25:Bm25",
    rank_bm25="rank_bm25:RankBm25",
    dense="dense:Dense",
    fulltext="lancedb_hybrid:FullText",
    metadata="metadata:Metadata",
    recency="recency:Recency",
    hybrid="hybrid:Hybrid",
    lancedb="lancedb_hybrid:LanceHybrid",
    fuse="fusion:Fuse",
    cross_encoder="cross_encoder:CrossEncoded",
    graph="graph:GraphRanked",
    nothing="powerset:Nothing",
    chain="chain:Chain",
)
STEPS.add_places(
    "rag_assay.evals.retrieval",
    cross_encoder="cross_encoder:CrossEncoder",
    graph="graph:Graph",
    top="passage_steps:Top",
    threshold="passage_steps:Threshold",
    adaptive="passage_steps:Adaptive",
    neighbours="passage_steps:Neighbours",
    deduplicate="passage_steps:Deduplicate",
    group_by_document="passage_steps:GroupByDocument",
    recent_first="passage_steps:RecentFirst",
    document_order="passage_steps:DocumentOrder",
    lost_in_the_middle="passage_steps:LostInTheMiddle",
    token_budget="passage_steps:TokenBudget",  # noqa: S106 -- a name
)
QUERY_TRANSFORMS.add_places(
    "rag_assay.evals.query_transforms",
    follow_up="follow_up:FollowUp",
    time_frame="time_frame:TimeFrame",
    keywords="keywords:Keywords",
    multi_query="multi_query:MultiQuery",
    hyde="hyde:Hyde",
    entities="entities:Entities",
    filter="filter:Filter",
)
GENERATORS.add_places(
    "rag_assay.evals.generation",
    extractive="extractive:Extractive",
    llm="llm:Llm",
    llm_binned="binned_answers:LlmBinned",
    no_context="no_context:NoContext",
    oracle_context="no_context:OracleContext",
)
JUDGES.add_places(
    "rag_assay.evals.judging",
    yes_no="yes_no:YesNo",
    criteria="criteria:CriteriaJudge",
    pairwise="pairwise:PairwiseJudge",
    similarity="similarity:Similarity",
    entailment="entailment.judge:Entailment",
    entailment_classifier="entailment_classifier:EntailmentClassifier",
    ragas="ragas.judge:Ragas",
)
SYSTEMS.add_places(
    "rag_assay.evals.systems",
    openai="http_system:OpenAi",
    http="http_system:Http",
    python="python_system:Python",
    recorded="recorded:Recorded",
)
RUBRICS.add_places(
    "rag_assay.evals.rubrics",
    points="points:Points",
    ordinal="ordinal:Ordinal",
    binary="binary:Binary",
    pairwise="pairwise:PairwiseRubric",
    criteria="criteria:CriteriaRubric",
)

POWERSETS: Registry[Powerset] = Registry("powersets", Powerset)
POWERSETS.add(Powerset)


def _powerset_or_chain(written: object) -> object:
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
    return _RETRIEVER.validate_python(written)


def read_retriever_or_powerset(written: object) -> Retriever | Powerset:
    return _EITHER.validate_python(written)


def read_generator(written: object) -> Generator:
    return _GENERATOR.validate_python(written)
