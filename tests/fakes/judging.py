"""Contexts for judges, without a study."""

from __future__ import annotations

from typing import Any

import numpy as np

from rag_assay.evals.judging.contract import JudgeContext
from rag_assay.warehouse.inference.gateway import Gateway
from tests.fakes.indexing import vector_of


def judge_context(gateway: Gateway, **more: Any) -> JudgeContext:
    """A context whose vectors are made of the texts alone."""
    return JudgeContext(
        gateway, lambda texts: np.stack([vector_of(text) for text in texts]), **{"seed": 7, **more}
    )
