"""How far a walk goes: a stage, and all that it is built from."""

from __future__ import annotations

from collections.abc import Collection

from rag_assay.assets.engine.stage import Stage
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study import Study
from rag_assay.orchestration.stages import stages_of


def up_to(study: Study, last: Collection[str]) -> dict[str, Stage]:
    """Return some stages of a study and those that they are built from, in their order."""
    stages = stages_of(Grid([study]))
    wanted = set(last)
    for name in reversed(stages):  # each stands after those that it needs
        if name in wanted:
            wanted |= set(stages[name].upstream)
    return {name: stage for name, stage in stages.items() if name in wanted}
