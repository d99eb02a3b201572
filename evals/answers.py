"""answers: what each generator says to each question, one partition a cell."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl

from assets.engine.stage import Built, Need, Stage, Work
from evals.generating.extractive import extract_many
from evals.generating.prompts import PROMPT_DIGEST, answer_messages, is_refusal
from evals.generating.recipes import Extractive, Llm
from evals.gold.question_files import UNANSWERED
from evals.pipeline.run_resources import RunResources
from evals.rankings import budget_of, read_questions
from evals.study.cells import Cell
from evals.study.grid import Grid
from evals.study.study import Study
from warehouse.artifacts import Artifact
from warehouse.errors import CorruptFileError
from warehouse.identity import digest
from warehouse.inference.replies import Reply
from warehouse.parquet import frame, read_parquet, write_parquet
from warehouse.schemas import ANSWERS, RETRYABLE, Status


class Answers(Stage):
    """Lets every generator answer from every ranking."""

    name = "answers"
    group = "grid"
    description = (
        "One answer a question and cell, with status, tokens, seconds and cost. Every model call goes "
        "through a cache by content, so that a killed or repeated run pays nothing twice; a failed one is a "
        "row with its reason, and is tried again by the next run."
    )
    code_version = "2"
    upstream = ("rankings", "indexes", "questions")

    def __init__(self, grid: Grid) -> None:
        self.grid = grid

    def keys(self) -> list[str]:
        """Return the keys of the cells that have a generator."""
        return sorted(self.grid.answered())

    def needs(self, key: str) -> list[Need]:
        """Return the ranking, the index that holds its texts, and the questions."""
        cell = self.grid.cells[key]
        sets = [Need("questions", name) for name in self.grid.set_keys(cell.study)]
        return [Need("rankings", cell.ranking), Need("indexes", self.grid.index_key(cell)), *sets]

    def recipes(self, key: str) -> dict[str, str]:
        """Return the digests of the generator (prompt and weights included), of the sample, and of the cell.

        Cells whose passages happen to be equal answer each for itself: their seconds are their own. A model's
        call is found in the cache of calls, and says so.
        """
        cell = self.grid.cells[key]
        study = self.grid.studies[cell.study]
        generator = study.generators[cell.generator]
        parts: list[Any] = [generator.identity()]
        if isinstance(generator, Llm):
            parts += [PROMPT_DIGEST, study.seed]  # the seed goes to the model
            served = generator.served_by()
            parts += [served] if served else []
        else:
            parts.append(study.embedders[cell.embedder].revision())
        sample = [cell.sample, study.seed] if cell.sample is not None else None
        return {
            f"chunking.{cell.study}.{cell.chunking}": study.chunkings[cell.chunking].identity(),
            f"embedder.{cell.study}.{cell.embedder}": study.embedders[cell.embedder].passage_revision(),
            f"retriever.{cell.study}.{cell.retriever}": study.retrievers[cell.retriever].identity(),
            f"generator.{cell.study}.{cell.generator}": digest(parts),
            f"sample.{cell.study}.{cell.generator}": digest(sample),
        }

    def build(self, key: str, folder: Path, work: Work) -> Built:
        """Answer the questions of one cell; those that an earlier run answered well are kept."""
        cell = self.grid.cells[key]
        study = self.grid.studies[cell.study]
        ranking, index_artifact, *set_artifacts = self.inputs(key, work.store)
        questions = sampled_questions(study, cell, read_questions(set_artifacts, work))
        done = _kept(folder)
        asked = [q for q in questions.iter_rows(named=True) if q["question_id"] not in done]
        passages = _passages(ranking, index_artifact, study.generators[cell.generator].passages, work)
        for row in _answer(study, cell, asked, passages, work):
            done[row["question_id"]] = row
        rows = [done[question_id] for question_id in questions["question_id"]]
        write_parquet(frame(rows, ANSWERS), folder / "answers.parquet")
        return _built(rows)


def sampled_questions(study: Study, cell: Cell, questions: pl.DataFrame) -> pl.DataFrame:
    """Return the questions that a cell is asked."""
    chosen = study.sampled(questions["question_id"].to_list(), cell.sample)
    return questions.filter(questions["question_id"].is_in(chosen))


def _kept(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the rows of an earlier, incomplete run that need no other try."""
    path = folder / "answers.parquet"
    if not path.exists():
        return {}
    try:
        rows = read_parquet(path)
    except CorruptFileError:
        return {}
    return {r["question_id"]: r for r in rows.iter_rows(named=True) if r["status"] not in RETRYABLE}


Passages = dict[str, tuple[list[str], list[str]]]
"""question id -> (chunk ids, texts), best first; a question whose ranking failed is absent."""


def _passages(ranking: Artifact, index_artifact: Artifact, count: int, work: Work) -> Passages:
    folder = work.store.folder("rankings", ranking.identity)
    hits = read_parquet(folder / "hits.parquet").filter(pl.col("rank") <= count).sort("question_id", "rank")
    ranked = read_parquet(folder / "ranked.parquet").filter(pl.col("status") == Status.OK)
    index = work.resource(RunResources).index(index_artifact)
    found: Passages = {question: ([], []) for question in ranked["question_id"]}
    columns = ("question_id", "chunk_id", "doc_id", "start", "end")
    for question, chunk, doc, start, end in hits.select(columns).iter_rows():
        found[question][0].append(chunk)
        found[question][1].append(index.passage(doc, start, end))
    return found


def _answer(
    study: Study, cell: Cell, questions: list[dict[str, Any]], passages: Passages, work: Work
) -> list[dict[str, Any]]:
    rows = []
    ready = []
    for question in questions:
        found = passages.get(question["question_id"])
        if found is None:
            rows.append(_row(question, [], Status.NOT_RUN, "its ranking failed"))
        elif not found[1]:
            rows.append(_row(question, [], Status.NO_CONTEXT, "the retriever found no passage"))
        else:
            ready.append((question, *found))
    recipe = study.generators[cell.generator]
    if isinstance(recipe, Extractive):
        return rows + _extract(study, cell, recipe, ready, work)
    assert isinstance(recipe, Llm)  # noqa: S101 -- the other kind
    return rows + _ask(study, cell, recipe, ready, work)


Ready = list[tuple[dict[str, Any], list[str], list[str]]]


def _extract(study: Study, cell: Cell, recipe: Extractive, ready: Ready, work: Work) -> list[dict[str, Any]]:
    # A sentence may be longer than what the model reads; here its windows are averaged, whatever holds for
    # chunks.
    own = study.embedders[cell.embedder].model_copy(update={"overflow": "average"})
    embedder = work.resource(RunResources).embedder(own)
    texts = _sentences(ready)
    embedded = embedder.passages(
        texts, lambda done, of: work.progress(f"embedding sentences for {cell.key}", done, of)
    )
    rows_of = {text: row for row, text in enumerate(texts)}
    # Where an API has no tokenizer, the one that its chunks were counted by.
    named = study.chunkings[cell.chunking].tokenizer
    tokenizer = embedder.tokenizer or work.resource(RunResources).tokenizer(named)
    rows = []
    for question, chunk_ids, passages in ready:
        begin = time.perf_counter()
        (answer,) = extract_many(
            [(question["question"], passages)],
            lambda wanted: embedded.vectors[[rows_of[text] for text in wanted]],
            recipe.max_tokens,
            lambda text: tokenizer.count([text])[0],
            recipe.min_score,
        )
        seconds = time.perf_counter() - begin
        read, written = sum(tokenizer.count(passages)), tokenizer.count([answer])[0]
        text = answer or UNANSWERED.get(question["language"] or "en", UNANSWERED["en"])
        status = Status.OK if answer else Status.REFUSED
        reason = None if answer else "no sentence reaches the generator's min_score"
        rows.append(
            {
                **_row(question, chunk_ids, status, reason),
                "answer": text,
                "raw": answer,
                "seconds": seconds,
                "prompt_tokens": read,
                "completion_tokens": written,
                "usd": 0.0,
                "cached": False,
            }
        )
    return rows


def _ask(study: Study, cell: Cell, recipe: Llm, ready: Ready, work: Work) -> list[dict[str, Any]]:
    budget = budget_of(study, work)
    if recipe.budget_usd is not None:
        budget = work.budgets.of((study.study, cell.generator), recipe.budget_usd, within=budget)
    gateway = work.resource(RunResources).gateway(budget)

    def ask(one: tuple[dict[str, Any], list[str], list[str]]) -> Reply:
        question, _, texts = one
        messages = answer_messages(question["question"], texts, question["language"])
        return gateway.ask(recipe, messages, seed=study.seed)

    rows = []
    replies = gateway.map(ask, ready, recipe)
    for number, ((question, chunk_ids, _), reply) in enumerate(zip(ready, replies, strict=True), 1):
        rows.append({**_row(question, chunk_ids, reply.status, reply.reason), **_of_reply(reply)})
        work.progress(f"asking {recipe.model} ({cell.chunking}, {cell.retriever})", number, len(ready))
    return rows


def _of_reply(reply: Reply) -> dict[str, Any]:
    refused = reply.status is Status.OK and is_refusal(reply.text)
    found: dict[str, Any] = {
        "answer": reply.text or None,
        "raw": reply.raw,
        "seconds": reply.seconds if reply.status not in RETRYABLE else None,
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.completion_tokens,
        "usd": reply.usd,
        "cached": reply.cached,
    }
    if refused:
        found |= {"status": Status.REFUSED, "reason": "the model says that the documents do not say"}
    return found


def _row(
    question: dict[str, Any], chunk_ids: list[str], status: Status, reason: str | None
) -> dict[str, Any]:
    empty = dict.fromkeys(ANSWERS)
    return {
        **empty,
        "question_id": question["question_id"],
        "chunk_ids": chunk_ids,
        "status": status,
        "reason": reason,
    }


def _sentences(ready: Ready) -> list[str]:
    """Return all that the extraction will embed, so that it is embedded in large batches."""
    found: list[list[str]] = []

    def note(texts: list[str]) -> Any:
        found.append(texts)
        return _zeros(len(texts))

    extract_many([(question["question"], texts) for question, _, texts in ready], note, 1, len)
    return found[0] if found else []


def _zeros(rows: int) -> Any:
    import numpy as np

    return np.zeros((rows, 1), np.float32)


def _built(rows: list[dict[str, Any]]) -> Built:
    statuses = Counter(str(row["status"]) for row in rows)
    again = [row for row in rows if row["status"] in RETRYABLE]
    costs = [row["usd"] for row in rows if row["usd"] is not None]
    meta: dict[str, Any] = {
        "questions": len(rows),
        "by_status": dict(statuses),
        "usd": round(sum(costs), 6),
        "prompt_tokens": sum(row["prompt_tokens"] or 0 for row in rows),
        "completion_tokens": sum(row["completion_tokens"] or 0 for row in rows),
        "from_cache": sum(bool(row["cached"]) for row in rows),
    }
    if again:
        # What was not asked is told by the failure that stopped it.
        first = next((row for row in again if row["status"] != Status.NOT_RUN), again[0])
        meta["incomplete"] = (
            f"{len(again)} of {len(rows)} answers failed, first: {first['status']}: {first['reason']}"
        )
    content = [[row["question_id"], row["status"], row["answer"], row["chunk_ids"]] for row in rows]
    columns = ("reason", "seconds", "prompt_tokens", "completion_tokens", "usd", "cached")
    measured = digest([[row[column] for column in columns] for row in rows])
    return Built(digest(content), meta, complete=not again, measured=measured)
