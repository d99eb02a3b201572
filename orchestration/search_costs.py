"""What cells would cost at most: by the plan of a study on an empty home, so that it is always alike."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from rag_assay.evals.study.cells import Cell, Slice
from rag_assay.evals.study.cost_estimate import estimates
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.run_plan import plan
from rag_assay.evals.study.sections import SearchBudget
from rag_assay.evals.study.study import Study
from rag_assay.orchestration.stages import stages_of
from rag_assay.warehouse.inference.model_servers import LOCAL
from rag_assay.warehouse.paths import Home

UNITS = ("evaluations", "calls", "tokens", "usd")


class Most(NamedTuple):
    """The most that some cells would ask of models that the study's budget pays for."""

    calls: float
    tokens: float
    usd: float


class Costs:
    """The costs of a study's cells, each looked up once.

    n_questions: that the study asks
    """

    def __init__(self, study: Study, n_questions: int) -> None:
        self._study = study
        self._n = n_questions
        self._known: dict[tuple[str, ...], Most] = {}

    def most(self, cells: Sequence[Cell]) -> Most:
        """Return the most that cells would ask for; what nothing bounds, or has no price, is not in it."""
        key = tuple(cell.short for cell in cells)
        if not key or not any(cell.generator in self._study.generators for cell in cells):
            return Most(0, 0, 0)
        if key not in self._known:
            self._known[key] = self._estimated(key)
        return self._known[key]

    def _estimated(self, names: Sequence[str]) -> Most:
        part = Slice(self._study.whole, frozenset(names), None, len(names), len(names), self._n, self._n)
        study = self._study.sliced(self._study.study, part)
        with TemporaryDirectory() as folder:
            home = Home(Path(folder) / "empty")
            stages = stages_of(Grid([study]))
            rows = estimates(study, plan(study, stages, home), stages, home)
        paid = [row for row in rows if row.of_study and not row.model.startswith(LOCAL)]
        return Most(
            sum(row.calls.most or 0 for row in paid),
            sum((row.read.most or 0) + (row.written.most or 0) for row in paid),
            sum(row.usd.most or 0 for row in paid if row.usd),
        )

    def of(self, cell: Cell, unit: str) -> float:
        """Return what one question costs in a cell, in evaluations, calls, tokens or US dollars."""
        if unit == "evaluations":
            return 1.0
        found: float = getattr(self.most([cell]), unit)
        return found / max(self._n, 1)

    def caps(self, budget: SearchBudget) -> list[tuple[str, float]]:
        """Return the caps of a budget that grow with the questions."""
        return [(unit, cap) for unit in UNITS if (cap := getattr(budget, unit)) is not None]

    def fits(self, cells: Sequence[Cell], budget: SearchBudget) -> bool:
        """Return whether cells, asked all of their questions, are within every cap of a budget."""
        if budget.cells is not None and len(cells) > budget.cells:
            return False
        asked = sum(self._n if cell.sample is None else min(cell.sample, self._n) for cell in cells)
        if budget.evaluations is not None and asked > budget.evaluations:
            return False
        wanted = [(unit, cap) for unit, cap in self.caps(budget) if unit != "evaluations"]
        most = self.most(cells) if wanted else None
        return all(getattr(most, unit) <= cap for unit, cap in wanted)
