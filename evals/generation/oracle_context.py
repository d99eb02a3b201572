"""Answers by a language model from the gold evidence: the most that any retriever could give it."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from rag_assay.evals.generation.contract import Reads
from rag_assay.evals.generation.llm import Llm


class OracleContext(Llm):
    """Asks a language model with the gold evidence as its passages: the ceiling of any retriever.

    passages: how many pieces of evidence it reads
    sufficiency: there is nothing to be searched for
    """

    kind: ClassVar[str] = "oracle_context"
    reads: ClassVar[Reads] = "evidence"

    passages: Annotated[int, Field(ge=1, le=100)] = 20
    sufficiency: None = None
