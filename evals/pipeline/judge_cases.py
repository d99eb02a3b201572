"""The cases that a judge judges of a cell: its questions with their answers, and the passages of those."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rag_assay.assets.embedding.embedder import Matrix
from rag_assay.assets.engine.stage import BuildContext, PartitionRef
from rag_assay.evals.judging.contract import JudgeCase, JudgeContext, JudgedMetric
from rag_assay.evals.judging.contract import Need as Part
from rag_assay.evals.pipeline.cell_items import (
    Inputs,
    answer_needs,
    case_of,
    passage_needs,
    read_answers,
    read_passages,
    same_replicate,
    text_of,
)
from rag_assay.evals.pipeline.run_resources import RunResources
from rag_assay.evals.pipeline.stage_inputs import budget_of, read_questions
from rag_assay.evals.study.cells import NO_GENERATOR, Cell, JudgedCell
from rag_assay.evals.study.grid import Grid
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


class CellJudging(NamedTuple):
    """What is judged of a cell.

    blocked: ids of the questions whose ranking failed, so that nothing can be judged of them
    """

    cases: list[JudgeCase]
    blocked: frozenset[str]


def metrics_of(study: Study, judged: JudgedCell) -> list[JudgedMetric]:
    """Return what a judge judges a cell by: not the answer, where there is no generator."""
    found = study.judges[judged.judge].judged_metrics
    return [one for one in found if "answer" not in one.needs or judged.cell.generator != NO_GENERATOR]


def case_needs(grid: Grid, judged: JudgedCell) -> list[PartitionRef]:
    """Return what cases are made of: answers, what passages are made of, the rival's answers, questions."""
    cell, study = judged.cell, grid.studies[judged.cell.study]
    passages = passage_needs(grid, cell) if "passages" in parts_of(study, judged) else []
    rival = rival_of(study, judged)
    other = [PartitionRef("answers", rival.key)] if rival else []
    sets = [PartitionRef("questions", name) for name in grid.set_keys(cell.study)]
    return [*answer_needs(cell), *passages, *other, *sets]


def parts_of(study: Study, judged: JudgedCell) -> frozenset[Part]:
    return frozenset(part for one in metrics_of(study, judged) for part in one.needs)


def rival_of(study: Study, judged: JudgedCell) -> Cell | None:
    """Return the replicate of the cell that the judge compares with: the same one, or its last."""
    rival = study.rival(judged.judge)
    return same_replicate(study, rival, judged.cell) if rival else None


def read_cases(grid: Grid, judged: JudgedCell, inputs: Inputs, work: BuildContext) -> CellJudging:
    """Read the cases of a cell that a judge judges, in the order of the questions.

    inputs: the artifacts of `case_needs`
    """
    cell, study = judged.cell, grid.studies[judged.cell.study]
    questions = read_questions([one for need, one in inputs.items() if need.stage == "questions"], work)
    ids = study.sampled(questions["question_id"].to_list(), cell.sample)
    chosen = set(study.sampled(ids, study.judged_sample(judged.judge)))
    answers = read_answers(study, cell, inputs, work)
    if cell.imported:
        chosen &= answers.keys()  # a further replicate is of those that its sheet has rows of
    rows = [row for row in questions.iter_rows(named=True) if row["question_id"] in chosen]
    rival = rival_of(study, judged)
    others = read_answers(study, rival, inputs, work) if rival else {}
    wanted = "passages" in parts_of(study, judged)
    passages = read_passages(grid, cell, inputs, rows, answers, work) if wanted else {}
    blocked = {row["question_id"] for row in rows if row["question_id"] not in passages} if wanted else set()
    cases = [
        case_of(
            row,
            answers.get(row["question_id"]),
            passages.get(row["question_id"], ()),
            text_of(others.get(row["question_id"])),
        )
        for row in rows
    ]
    return CellJudging(cases, frozenset(blocked))
