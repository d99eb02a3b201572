"""A judge in a run: what it is known by, and what it may use."""

from __future__ import annotations

from collections.abc import Sequence

from rag_assay.assets.embedding.embedder import Matrix
from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.judging.contract import JudgeContext
from rag_assay.evals.pipeline.run_resources import RunResources
from rag_assay.evals.pipeline.stage_inputs import budget_of
from rag_assay.evals.study.cells import JudgedCell
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.inference.call_tags import Purpose


def judge_digest(study: Study, name: str) -> str:
    """Return the digest of a judge and of all that its judgements of a case depend on.

    How often it judges, and how the votes are counted, is no part of it.
    """
    judge = study.judges[name]
    once = judge.model_copy(update={"replicates": 1, "vote": "mean"})
    return digest([once.identity(), *judge.dependencies(study.seed)])


def judge_context(study: Study, judged: JudgedCell, work: BuildContext) -> JudgeContext:
    """Return what the judge of a cell may use; its calls are paid from the study's budget and its own."""
    judge, cell = study.judges[judged.judge], judged.cell
    budget, limit = budget_of(study, work), judge.budget_limit
    if limit is not None:
        budget = work.budgets.of((study.whole, "judge", judged.judge), limit, within=budget)
    resources = work.resource(RunResources)
    where = f" ({cell.chunking}, {cell.retriever})" if cell.reads_ranking else ""

    def progress(label: str, done: int, of: int) -> None:
        work.progress(f"{label}{where}", done, of)

    def embed(texts: Sequence[str]) -> Matrix:
        label = "embedding for judges"
        embedder = resources.embedder(judge.embeds_with)
        return embedder.passages(list(texts), lambda done, of: progress(label, done, of)).vectors

    purpose = Purpose("judging", study.study, cell.key)
    return JudgeContext(resources.gateway(budget), embed, study.seed, progress=progress, purpose=purpose)
