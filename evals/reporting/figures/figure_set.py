"""All charts of a report, by the section that they stand in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rag_assay.evals.reporting.charts.bars import BarTable
from rag_assay.evals.reporting.charts.heat import HeatTable
from rag_assay.evals.reporting.charts.planes import Plane
from rag_assay.evals.reporting.contexts import Front
from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.effects import Effects
from rag_assay.evals.reporting.figures.effect_bars import EffectBars, effect_bars
from rag_assay.evals.reporting.figures.fronts import front_figure
from rag_assay.evals.reporting.figures.full_scores import full_scores_figure
from rag_assay.evals.reporting.figures.latencies import latencies_figure
from rag_assay.evals.reporting.figures.metrics import metrics_figure
from rag_assay.evals.reporting.figures.pairs import pair_figures
from rag_assay.evals.reporting.figures.questions import questions_figure
from rag_assay.evals.reporting.figures.roc import roc_figure
from rag_assay.evals.reporting.figures.stages import stages_figure
from rag_assay.evals.reporting.standings import Subset


@dataclass(frozen=True)
class Figures:
    """The charts of a report; None, or none of them: what they would show is not there.

    effects: of each axis
    fronts: each with the table of its front
    """

    metrics: BarTable | None
    full_scores: BarTable | None
    questions: HeatTable | None
    effects: Mapping[str, tuple[EffectBars, ...]]
    pairs: tuple[HeatTable, ...]
    latencies: BarTable | None
    fronts: tuple[tuple[Plane, Front], ...]
    roc: Plane | None
    stages: BarTable | None


def figures(
    data: ReportData,
    subset: Subset,
    labels: Mapping[str, str],
    effects: Effects,
    fronts: tuple[Front, ...],
) -> Figures:
    """Return the charts of a report.

    subset: the questions that the headline speaks of
    labels: cell -> its name
    """
    return Figures(
        metrics_figure(data, subset, labels),
        full_scores_figure(data, subset),
        questions_figure(data, subset),
        {table.axis: effect_bars(table) for table in effects.axes},
        pair_figures(effects),
        latencies_figure(data),
        tuple((front_figure(front, at), front) for at, front in enumerate(fronts, 1)),
        roc_figure(data),
        stages_figure(data),
    )
