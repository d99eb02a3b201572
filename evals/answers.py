"""answers: what each generator says to each question, one partition a cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from rag_assay.assets.engine.row_checks import WITHIN_BUDGET, at_most, within_budget
from rag_assay.assets.engine.stage import LOCAL_MODEL, BuildContext, BuildResult, Check, PartitionRef
from rag_assay.assets.engine.table import StageTable, distribution
from rag_assay.assets.recipes.build_half import may_cost
from rag_assay.evals.generation.context_budget import Cut
from rag_assay.evals.generation.contract import Answer, Passage
from rag_assay.evals.pipeline.passages import (
    AnswerWithContexts,
    cell_recipes,
    headings_of,
    imported_answers,
    read_needs,
    read_passages,
    write_contexts,
)
from rag_assay.evals.pipeline.retrieval import (
    FitInputs,
    LateRetrieval,
    OpenRetrieval,
    RetrievalInputs,
    generation_context,
    open_retrieval,
    parts_of,
    record_of_gate,
    search_recipes,
    with_fitted_gate,
)
from rag_assay.evals.pipeline.stage_inputs import GridStage, read_questions, sampled_questions
from rag_assay.evals.study.cells import Cell
from rag_assay.evals.systems.contract import NOT_RECORDED, ONLY_PASSAGES
from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.parquet import frame, read_parquet, write_parquet
from rag_assay.warehouse.processes import machine_class
from rag_assay.warehouse.schemas import ANSWERS, MIN_COVERAGE, RETRYABLE, Status

CUT_AT_MOST = 0.1  # of the answers, without a warning
_ENDED = (ONLY_PASSAGES, NOT_RECORDED)  # no further run changes it
SAID = frozenset({Status.OK, Status.REFUSED, Status.NO_CONTEXT})


class Answers(GridStage):
    """Lets every generator answer: from every ranking, from the reference passages, or from nothing."""

    name = "answers"
    description = (
        "One answer a question and cell, with status, tokens, seconds and cost. Every model call goes "
        "through a cache by content, so that a killed or repeated run pays nothing twice; a failed one is a "
        "row with its reason, and is tried again by the next run."
    )
    table = StageTable(
        "answers.parquet",
        ANSWERS,
        ("question_id", "status", "answer", "reason"),
        (distribution("seconds of an answer", "seconds"),),
    )
    kinds: ClassVar[frozenset[str]] = frozenset({"python", "llm", "duckdb", "parquet"})
    code_version = "2"
    upstream = ("rankings", "indexes", "chunks", "documents", "questions")
    family = "generators"
    lineage = ("rankings", "indexes")
    checks: ClassVar[dict[str, str]] = {
        "answered": f"At least {MIN_COVERAGE:.0%} of the questions were answered, refused, or had no passage "
        "to answer from; below that the cell has no rank.",
        "whole": f"At most {CUT_AT_MOST:.0%} of the answers end at the limit of tokens, or were written from "
        "passages that were cut to fit the model.",
        "within_budget": WITHIN_BUDGET,
    }

    def keys(self) -> list[str]:
        return sorted(self.grid.answered())

    def needs(self, key: str) -> list[PartitionRef]:
        """Train sets are needed to fit the generator, or to search by a tuned retriever."""
        cell = self.grid.cells[key]
        sets = [*self.grid.set_keys(cell.study), *self._train_keys(cell)]
        questions = [PartitionRef("questions", name) for name in sets]
        return [*read_needs(self.grid, cell), *questions]

    def _train_keys(self, cell: Cell) -> list[str]:
        study = self.grid.studies[cell.study]
        if not cell.reads_ranking:
            return []
        generator = study.generators[cell.generator]
        again = generator.retrieves and study.retrievers[cell.retriever].needs_tuning
        return self.grid.train_keys(cell.study) if again or generator.tunes else []

    def recipes(self, key: str) -> dict[str, str]:
        """Cells with equal passages answer each for itself: their seconds are their own. Where the generator
        may search again, or is fitted on train questions, how the retriever embeds and weighs another query
        counts, too.
        """
        cell = self.grid.cells[key]
        study = self.grid.studies[cell.study]
        if cell.imported:
            return cell_recipes(study, cell)
        generator = study.generators[cell.generator]
        used = generator.dependencies(study.seed, parts_of(study, cell)[1])
        again = [cell.replicate] if cell.replicate > 1 else []
        sample = [cell.sample, study.seed] if cell.sample is not None else None
        return {
            **(self._ranked_by(cell) if cell.reads_ranking else {}),
            f"generator.{cell.study}.{cell.generator}": digest([generator.identity(), *used]),
            f"sample.{cell.study}.{cell.generator}": digest(sample),
            **{f"replicate.{cell.study}.{number}": digest(number) for number in again},
            **(search_recipes(study, cell) if generator.retrieves or generator.tunes else {}),
        }

    def _ranked_by(self, cell: Cell) -> dict[str, str]:
        study = self.grid.studies[cell.study]
        return {
            f"chunking.{cell.study}.{cell.chunking}": study.chunkings[cell.chunking].identity(),
            f"embedder.{cell.study}.{cell.embedder}": study.embedders[cell.embedder].passage_revision(),
            f"retriever.{cell.study}.{cell.retriever}": study.retrievers[cell.retriever].identity(),
        }

    def pool(self) -> str:
        return LOCAL_MODEL

    def spends(self, key: str) -> bool:
        cell = self.grid.cells[key]
        study = self.grid.studies[cell.study]
        if cell.has_contexts:
            return cell.is_system
        generator = study.generators[cell.generator]
        searches = cell.reads_ranking and (generator.retrieves or generator.tunes)
        again = (study.retrievers[cell.retriever], study.embedders[cell.embedder]) if searches else ()
        return may_cost(generator, *again)

    def waits_for_servers(self, key: str) -> bool:
        cell = self.grid.cells[key]
        if cell.is_system:
            return True
        chat = self.grid.studies[cell.study].generators[cell.generator].chat
        return chat is not None and not chat.is_local

    def build(self, key: str, folder: Path, work: BuildContext) -> BuildResult:
        from rag_assay.evals.pipeline.system_answers import call_system, request_of

        cell = self.grid.cells[key]
        study = self.grid.studies[cell.study]
        inputs = self.inputs(key, work.store)
        sets = [one for one in inputs if one.stage == "questions"]
        n_test = len(sets) - len(self._train_keys(cell))
        questions = sampled_questions(study, cell, read_questions(sets[:n_test], work))
        if cell.imported:
            return _imported(imported_answers(study, cell, questions["question_id"].to_list()), folder)
        if cell.is_system:
            requests = [request_of(row, []) for row in questions.iter_rows(named=True)]
            return _of_system(call_system(study, cell, requests, inputs, work), folder)
        done = _kept(folder)
        keeps = bool(done)
        passages = read_passages(self.grid, cell, inputs, questions, work)
        waiting = [row for row in questions.iter_rows(named=True) if row["question_id"] not in done]
        ranked = [row for row in waiting if row["question_id"] in passages]
        requests = [request_of(row, passages[row["question_id"]]) for row in ranked]

        def reopened() -> OpenRetrieval:
            by_stage = {one.stage: one for one in inputs}
            again = RetrievalInputs(by_stage["indexes"], sets[:n_test], sets[n_test:])
            opened = open_retrieval(study, cell, again, work)
            chunks = by_stage.get("chunks")
            return replace(opened, headings=headings_of(chunks, work) if chunks else None)

        with LateRetrieval(reopened) as late:
            search = late.retrieve if cell.reads_ranking else None
            train = FitInputs(sets[:n_test], sets[n_test:], lambda: late.opened)
            generator, gate = with_fitted_gate(study, cell, train, work)
            answers = generator.answer(requests, generation_context(study, cell, work, search))
        found = {row["question_id"]: answer for row, answer in zip(ranked, answers, strict=True)}
        for question_id in (row["question_id"] for row in waiting):
            answer = found.get(question_id, Answer(Status.NOT_RUN, "its ranking failed"))
            done[question_id] = _row(question_id, passages.get(question_id, []), answer)
        asked = {row["question_id"]: row for row in questions.iter_rows(named=True)}
        rows = [done[question_id] for question_id in asked]
        write_parquet(frame(rows, ANSWERS), folder / "answers.parquet")
        budget = generator.context_tokens
        meant = {
            name: request_of(row, passages.get(name, [])).within(budget).cut for name, row in asked.items()
        }
        built = _built(rows, meant)
        machines = (machine_class(),) if waiting and not self.waits_for_servers(key) else ()
        meta = {**built.meta, **record_of_gate(gate)}
        return replace(built, meta=meta, machines=machines, keeps=keeps)


def _imported(found: dict[str, AnswerWithContexts], folder: Path) -> BuildResult:
    """Write the answers that a sheet has of a cell, and its passages; no further run mends what it lacks."""
    built = _with_contexts(found, folder)
    unknown = {"incomplete", "usd", "prompt_tokens", "completion_tokens", "from_cache"}
    meta = {name: value for name, value in built.meta.items() if name not in unknown}
    return replace(built, meta=meta, complete=True)


def _of_system(found: dict[str, AnswerWithContexts], folder: Path) -> BuildResult:
    from rag_assay.evals.pipeline.system_answers import alignment_counts

    built = _with_contexts(found, folder)
    return replace(built, meta={**built.meta, "passages": alignment_counts(found)})


def _with_contexts(found: dict[str, AnswerWithContexts], folder: Path) -> BuildResult:
    rows = []
    for question_id, one in found.items():
        row = {**_row(question_id, list(one.passages), one.answer), "citations": None}
        tells = one.passages or one.answer.passages is not None
        rows.append(row if tells else {**row, "chunk_ids": None})
    write_parquet(frame(rows, ANSWERS), folder / "answers.parquet")
    contexts = write_contexts(found, folder)
    built = _built(rows)
    return replace(built, data_version=digest([built.data_version, contexts]))


def _kept(folder: Path) -> dict[str, dict[str, Any]]:
    path = folder / "answers.parquet"
    if not path.exists():
        return {}
    try:
        rows = read_parquet(path)
    except CorruptFileError:
        return {}
    return {r["question_id"]: r for r in rows.iter_rows(named=True) if r["status"] not in RETRYABLE}


def _row(question_id: str, passages: list[Passage], answer: Answer) -> dict[str, Any]:
    return {
        **{name: value for name, value in vars(answer).items() if name in ANSWERS},
        "question_id": question_id,
        "answer": answer.text,
        "chunk_ids": [one.chunk for one in (passages if answer.passages is None else answer.passages)],
        **_traced(answer),
    }


def _traced(answer: Answer) -> dict[str, Any]:
    """Return how an answer came about: what it cites, what was cut, its parts, its looks for passages."""
    return {
        "citations": [
            {
                **{name: getattr(one, name) for name in ("marker", "sentence", "url", "start", "end")},
                "chunk_id": one.chunk,
                "doc_id": one.document,
                "section": None if one.section is None else list(one.section),
            }
            for one in answer.citations
        ],
        "cuts": [{"chunk_id": one.chunk, "kept": one.kept} for one in answer.cuts],
        "bins": [
            {
                **{name: getattr(one, name) for name in ("text", "status", "reason", "answer")},
                "chunk_ids": list(one.chunks),
            }
            for one in answer.bins
        ],
        "attempts": [
            {
                "query": one.query,
                "chunk_ids": list(one.chunks),
                "sufficient": one.sufficient,
                "reason": one.reason,
            }
            for one in answer.attempts
        ],
    }


def _built(rows: list[dict[str, Any]], meant: Mapping[str, Cut | None] | None = None) -> BuildResult:
    """Return what was built; ``meant``: question id -> the passage that the budget of context cuts."""
    statuses = Counter(str(row["status"]) for row in rows)
    again = [row for row in rows if row["status"] in RETRYABLE and row["reason"] not in _ENDED]
    costs = [row["usd"] for row in rows if row["usd"] is not None]
    meta: dict[str, Any] = {
        "questions": len(rows),
        "by_status": dict(statuses),
        "usd": round(sum(costs), 6),
        "prompt_tokens": sum(row["prompt_tokens"] or 0 for row in rows),
        "completion_tokens": sum(row["completion_tokens"] or 0 for row in rows),
        "from_cache": sum(bool(row["cached"]) for row in rows),
    }
    cuts = [[row["question_id"], row["cuts"]] for row in rows if row["cuts"]]
    if cuts:
        meta["cut"] = digest(cuts)  # what judges read of the passages
    if again:
        # What was not asked is told by the failure that stopped it.
        first = next((row for row in again if row["status"] != Status.NOT_RUN), again[0])
        meta["incomplete"] = (
            f"{len(again)} of {len(rows)} answers failed, first: {first['status']}: {first['reason']}"
        )
    named = ("question_id", "status", "answer", "chunk_ids", "citations", "confidence")
    content = [[row[column] for column in named] for row in rows]
    columns = ("reason", "seconds", "prompt_tokens", "completion_tokens", "usd", "cached")
    measured = digest([[row[column] for column in columns] for row in rows])
    return BuildResult(
        digest(content), meta, _checks(rows, meant or {}), complete=not again, measured=measured
    )


def _checks(rows: list[dict[str, Any]], meant: Mapping[str, Cut | None]) -> tuple[Check, ...]:
    unsaid = [
        f"{row['question_id']}: {row['status']}: {row['reason']}"
        for row in rows
        if row["status"] not in SAID and row["reason"] != ONLY_PASSAGES
    ]
    cut = [
        row["question_id"]
        for row in rows
        if row["status"] == Status.TRUNCATED or _is_cut(row["cuts"], meant.get(row["question_id"]))
    ]
    numbers = {"by_status": dict(Counter(str(row["status"]) for row in rows))}
    missing = round(1 - MIN_COVERAGE, 6)
    return (
        at_most("answered", missing, unsaid, len(rows), "questions have no answer", numbers=numbers),
        at_most("whole", CUT_AT_MOST, cut, len(rows), "answers, or what they were written from, were cut"),
        within_budget((row["question_id"], row["status"]) for row in rows),
    )


def _is_cut(cuts: list[dict[str, Any]] | None, meant: Cut | None) -> bool:
    return bool(cuts) and cuts != [{"chunk_id": meant.chunk, "kept": meant.kept} if meant else None]
