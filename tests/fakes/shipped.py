"""A study of fifty questions, run once for the tests of what is exported and served."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from rag_assay.evals.export.revisions import ExpectedResult, answer_record
from rag_assay.evals.retrieval import query_vectors
from rag_assay.evals.study.cells import Cell
from rag_assay.warehouse.connection import connect
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.tables import sync
from tests.fakes.openai_server import FakeOpenAI, Received, Scripted, answer
from tests.fakes.tiny import Bench, write_study

RETRIEVERS = """  chain:
    - follow_up: {}
    - time_frame: {}
    - fuse: {rrf: {}, of: [{bm25: {k: 20}}, {dense: {k: 20}}], weights: tuned, k: 4}
    - neighbours: {n: 1}
  hybrid: {hybrid: {k: 5}}
"""
GENERATORS = """  extractive: {extractive: {passages: 2, max_tokens: 40}}
  gated: {extractive: {passages: 2, gate: {threshold: tuned}}}
  model:
    llm: {model: openai/scripted, passages: 2, price: {read: 1000, written: 1000}, prompt: {file: own.j2}}
"""
RESTRICT = """restrict:
  extractive: {retrievers: [chain]}
  gated: {retrievers: [hybrid]}
  model: {retrievers: [hybrid]}
"""
OWN = "{% block user %}${HOME} {{ history }} {{ question }} {{ context }}{% endblock %}"
N = 50
CARGO = ("bricks", "herring", "salt", "timber", "wool")
STAGES = ("chunks", "enrichments", "embeddings", "indexes", "questions", "rankings", "answers")
SETS = "  - file: ferry.questions.yaml\n"


def texts() -> dict[str, str]:
    """Twenty-five documents of two sentences each."""
    return {
        f"boat-{n}": (
            f"The boat {n} leaves pier {n} at {n % 12 + 1} o'clock. "
            f"It carries {CARGO[n % 5]} to the island of {CARGO[(n + 2) % 5]} {n}."
        )
        for n in range(1, 26)
    }


def questions(numbers: range, name: str) -> str:
    """Two questions a boat: the second one goes on from the first in a conversation."""
    rows = []
    for n in numbers:
        boat = n % 25 + 1
        evidence = [{"url": f"https://x.example/boat-{boat}", "quote": f"The boat {boat} leaves pier {boat}"}]
        row = {
            "id": f"{name}-{n}",
            "question": f"When does the boat {boat} leave its pier?",
            "evidence": evidence,
        }
        if n >= 25:
            said = [f"Is there a boat {boat}?", f"Yes, the boat {boat} leaves every day."]
            row |= {"question": f"And what does it carry, boat {boat}?", "conversation": said}
        rows.append(row)
    return yaml.safe_dump({"question_set": name, "language": "en", "questions": rows}, sort_keys=False)


def reply(got: Received) -> Scripted:
    """An answer that is another one for each prompt."""
    prompt = got.body["messages"][-1]["content"]
    if "captain" in prompt:
        return answer("The documents do not say.")
    return answer(f"It leaves soon [1]. {len(prompt)} letters were read [2]. So it is.")


@dataclass
class Shipped:
    """The study as it was run, and its model's server."""

    bench: Bench
    server: FakeOpenAI

    def set_environment(self, patch: pytest.MonkeyPatch) -> None:
        """Let the environment lead to them."""
        patch.setenv("ASSAY_HOME", str(self.bench.home.root))
        patch.setenv("OPENAI_API_KEY", "sk-test")
        patch.setenv("OPENAI_BASE_URL", self.server.api_base)

    def cell(self, retriever: str, generator: str) -> Cell:
        """One of its cells."""
        wanted = (retriever, generator)
        return next(one for one in self.bench.study.cells() if (one.retriever, one.generator) == wanted)


@contextmanager
def shipped_study(folder: Path) -> Iterator[Shipped]:
    """Run the study; its model's server answers as long as the block."""
    with FakeOpenAI(respond=reply) as server:
        changes = {
            "  bm25: {bm25: {k: 5}}\n  dense: {dense: {k: 5}}\n": RETRIEVERS,
            "  extractive: {extractive: {passages: 2, max_tokens: 40}}\n": GENERATORS,
            SETS: f"{SETS}  - {{file: train.questions.yaml, use: train}}\n",
            "metrics: [": f"{RESTRICT}metrics: [",
        }
        (folder / "study").mkdir()
        (folder / "study" / "train.questions.yaml").write_text(
            questions(range(3), "train").replace("leave its pier", "sail away")
        )
        (folder / "study" / "own.j2").write_text(OWN)
        path = write_study(folder / "study", changes, questions(range(N), "ferry"))
        shipped = Shipped(Bench(path, Home(folder / "home")), server)
        with pytest.MonkeyPatch.context() as patch:
            shipped.set_environment(patch)
            patch.setattr(query_vectors, "SAMPLE", 2)  # latencies are nothing to these tests
            shipped.bench.give(texts())
            shipped.bench.build(*STAGES)
        yield shipped


def stored(bench: Bench, cell: Cell) -> list[ExpectedResult]:
    """What DuckDB holds of a cell, question by question."""
    by_id: dict[str, ExpectedResult] = {}
    with connect(bench.home.database) as connection:
        for stage in ("questions", "rankings", "answers"):
            sync(connection, bench.store, stage, bench.stages[stage].keys())
        asked = connection.sql(
            "SELECT question_id, question, language, asked_at, conversation FROM questions"
        ).pl()
        wanted = 'SELECT question_id, chunk_id, start, "end", score FROM current_hits'
        hits = connection.sql(f"{wanted} WHERE ranking = ? ORDER BY rank", params=[cell.ranking]).pl()
        answers = connection.sql("SELECT * FROM current_answers WHERE cell = ?", params=[cell.name]).pl()
    rows = {row["question_id"]: row for row in answers.iter_rows(named=True)}
    for row in asked.iter_rows(named=True):
        if row["question_id"] in rows:
            found = hits.filter(hits["question_id"] == row["question_id"]).drop("question_id").to_dicts()
            answered = answer_record(rows[row["question_id"]])
            by_id[row["question_id"]] = ExpectedResult(row, "ok", tuple(found), answered)
    return list(by_id.values())
