"""The noise of asking again apart from the noise of the questions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rag_assay.evals.statistics.resampling import EQUAL, Floats


class Components(NamedTuple):
    """Standard deviations of a cell's values.

    questions: between questions: of their expected values
    replicates: between replicates of one question
    """

    questions: float
    replicates: float


def components(table: Floats) -> Components | None:
    """Split the variance of values into that between questions and that between replicates of a question.

    The one-way random effects model by the method of moments (Searle, Casella and McCulloch, Variance
    Components, 1992, ch. 3): with R replicates and k questions, the mean square within is the replicates'
    variance, and (mean square between - within) / R, at least 0, the questions'. Unequal numbers of
    replicates n(i) have R = (N - sum of n(i)^2 / N) / (k - 1). A mean over k questions has the variance
    (questions^2 + replicates^2 / R) / k: more replicates make only the second part smaller.

    Args:
        table: values, shape (questions, replicates); NaN where a replicate has none.

    Returns:
        None where there are fewer than two questions, or none has two values.

    >>> components(np.array([[1.0, 3.0], [5.0, 7.0]])).replicates ** 2  # within: ((1 - 2)^2 + …) / 2
    2.0000000000000004
    """
    there = ~np.isnan(table)
    table, there = table[there.any(axis=1)], there[there.any(axis=1)]
    n = there.sum(axis=1).astype(np.float64)
    if len(n) < 2 or n.max(initial=0) < 2:
        return None
    filled, total = np.where(there, table, 0.0), n.sum()
    means = filled.sum(axis=1) / n
    within = float((np.where(there, table - means[:, None], 0.0) ** 2).sum() / (total - len(n)))
    between = float((n * (means - filled.sum() / total) ** 2).sum() / (len(n) - 1))
    times = (total - (n**2).sum() / total) / (len(n) - 1)
    size = float((filled**2).max(initial=0.0))
    questions, replicates = (
        0.0 if one <= EQUAL * size else one for one in ((between - within) / times, within)
    )
    return Components(float(np.sqrt(questions)), float(np.sqrt(replicates)))
