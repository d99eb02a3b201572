"""Contexts for judges, without a study."""

from __future__ import annotations

from typing import Any

import numpy as np

from evals.judging.contract import JudgeContext
from tests.fakes.indexing import vector_of
from warehouse.inference.gateway import Gateway


def judge_context(gateway: Gateway, **more: Any) -> JudgeContext:
    """A context whose vectors are made of the texts alone."""
    return JudgeContext(
        gateway, lambda texts: np.stack([vector_of(text) for text in texts]), **{"seed": 7, **more}
    )
