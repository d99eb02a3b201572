"""Questions x chunkings: where another chunk size would have found, or answered, what this one does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rag_assay.evals.reporting import limits
from rag_assay.evals.reporting.charts.heat import HeatRow, HeatSquare, HeatTable, heat
from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.reporting.display import interval, number, several, truncate
from rag_assay.evals.reporting.figures.captions import left_out
from rag_assay.evals.reporting.journey.section import link_of
from rag_assay.evals.reporting.matrix import natural
from rag_assay.evals.reporting.standings import Subset
from rag_assay.evals.reporting.values import values_of
from rag_assay.evals.statistics.bootstrap import intervals
from rag_assay.evals.statistics.effects import over_contexts
from rag_assay.evals.statistics.full_crossing import find_crossing
from rag_assay.evals.statistics.resampling import Floats

TEXT = 120  # characters of a question
_ALIKE = 1e-9


def questions_figure(data: ReportData, subset: Subset) -> HeatTable | None:
    """Return the first metric of each question and chunking, the mean over equal contexts.

    None where no two chunkings stand in equal contexts. Of many questions those are shown on which chunkings
    differ most.
    """
    metric = data.primary
    values = values_of(data, subset, metric)
    at = values.axes.index("chunking") if values and "chunking" in values.axes else None
    crossed = find_crossing(values.places, [at]) if values and at is not None else None
    if values is None or at is None or crossed is None:
        return None
    table = over_contexts(values.crossed(crossed, [at]))
    known = np.flatnonzero(~np.isnan(table).any(axis=1))
    if not len(known):
        return None
    order = sorted(range(len(crossed.levels[0])), key=lambda level: natural(crossed.levels[0][level]))
    table, names = table[known][:, order], [crossed.levels[0][level] for level in order]
    questions = [values.questions[one] for one in known]
    columns = names[: limits.QUESTION_COLUMNS]
    sign = 1.0 if metric.higher_is_better else -1.0
    spread, means = np.ptp(table, axis=1), table.mean(axis=1)
    widest = np.lexsort((np.arange(len(known)), -spread))[: limits.QUESTION_ROWS]
    chosen = sorted(widest.tolist(), key=lambda one: (sign * means[one], questions[one]))
    shown = table[chosen][:, : len(columns)]
    ends = (float(shown.min()), float(shown.max()))
    texts = {row["question_id"]: row for row in data.questions.iter_rows(named=True)}
    rows = tuple(
        _row(questions[one], texts, table[one, : len(columns)], means[one], metric, ends) for one in chosen
    )
    found = intervals(table, data.seed, data.clusters.codes(questions), metric.bounds)
    foot = [HeatSquare(number(one.mean), small=interval(one.low, one.high)) for one in found if one]
    last = f"All {len(known)} questions" if len(known) > len(rows) else "Mean"
    return HeatTable(
        "chart-questions",
        f"Questions and chunkings: {metric.title}",
        _about(table, names, metric, len(crossed.contexts)),
        "Question",
        tuple(columns),
        rows,
        (HeatRow(last, tuple(foot[: len(columns)])),),
        "Mean",
        left_out(
            "chunkings differ less on them",
            question=len(known) - len(rows),
            chunking=len(names) - len(columns),
        ),
        texts=True,
    )


def _row(
    question_id: str,
    texts: Mapping[str, Mapping[str, Any]],
    values: Floats,
    mean: float,
    metric: MetricInfo,
    ends: tuple[float, float],
) -> HeatRow:
    question = texts.get(question_id, {"question": question_id, "language": None})
    whole = f"{question_id}: {question['question']}"
    squares = [
        HeatSquare(number(one), heat(one, *ends, higher_is_better=metric.higher_is_better))
        for one in values.tolist()
    ]
    text = truncate(question["question"], TEXT)
    return HeatRow(
        text, tuple(squares), HeatSquare(number(mean)), whole, question["language"], link_of(question_id)
    )


def _about(table: Floats, names: Sequence[str], metric: MetricInfo, contexts: int) -> str:
    """Count the questions on which chunkings differ, and those that one of them alone is best on."""
    sign = 1.0 if metric.higher_is_better else -1.0
    alike = int((np.ptp(table, axis=1) < _ALIKE).sum())
    best = (sign * table).max(axis=1, keepdims=True)
    alone = (np.abs(sign * table - best) < _ALIKE).sum(axis=1) == 1
    firsts = np.argmax(sign * table, axis=1)
    counts = [int((alone & (firsts == at)).sum()) for at in range(len(names))]
    over = f"; each value is a mean over {several(contexts, 'cell')} of the chunking" if contexts > 1 else ""
    words = (
        f"The hardest questions first, the darker the better{over}. "
        f"{alike} of {several(len(table), 'question')} get the same from every chunking"
    )
    most = max(counts)
    if counts.count(most) == 1:
        words += f"; {names[counts.index(most)]} alone is the best on {most}, more than any other"
    return f"{words}."
