"""The kinds of retrievers, steps and query transforms, and the fields that hold one. `evals.study.registry`
fills the registries, so that a chain or a fusion imports no other algorithm.
"""

from __future__ import annotations

from typing import Annotated

from rag_assay.evals.retrieval.contract import QueryTransform, Retriever, Step
from rag_assay.warehouse.components import OneOf
from rag_assay.warehouse.registry import Registry

RETRIEVERS: Registry[Retriever] = Registry("retrievers", Retriever)
STEPS: Registry[Step] = Registry("steps", Step)
QUERY_TRANSFORMS: Registry[QueryTransform] = Registry("query_transforms", QueryTransform)


def list_as_chain(written: object) -> object:
    return {"chain": {"steps": written}} if isinstance(written, list) else written


AnyRetriever = Annotated[Retriever, OneOf(RETRIEVERS, shorthand=list_as_chain)]
"""A retriever as a study writes it: `{kind: {its parameters}}`, or a list: a chain."""

AnyLink = Annotated[
    QueryTransform | Retriever | Step, OneOf(QUERY_TRANSFORMS, RETRIEVERS, STEPS, shorthand=list_as_chain)
]
"""What a chain is made of."""
