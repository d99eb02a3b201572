"""Questions are embedded once, a sample one by one; what that took is kept, unless the machine was busy."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from rag_assay.evals.retrieval.clock import Clock, Spent
from rag_assay.evals.retrieval.query_vectors import BATCH, SAMPLE, embed_queries
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.paths import Home
from tests.fakes.indexing import vector_of


@dataclass
class CountingEmbedder:
    """Stands for a CachedEmbedder: writes down what it is asked, and moves the clock.

    seconds: of each call; waited: how many of them without a processor; refuses: a text that is too long
    """

    home: Home
    query_prefix: str = ""
    revision: str = "r1"
    asked: list[list[str]] = field(default_factory=list)
    seconds: float = 0.25
    waited: float = 0.0
    refuses: str | None = None
    now: list[float] = field(default_factory=lambda: [0.0, 0.0])

    @property
    def recipe(self) -> Any:
        return SimpleNamespace(query_revision=lambda: f"{self.revision} {self.query_prefix}")

    @property
    def embedder(self) -> Any:
        def embed(texts: list[str]) -> np.ndarray:
            self.asked.append(texts)
            self.now[0] += self.seconds
            self.now[1] += self.waited
            if self.refuses is not None and any(self.refuses in text for text in texts):
                raise InputError("too long: 300 tokens")
            return np.stack([vector_of(text) for text in texts])

        return SimpleNamespace(embed=embed)


@pytest.fixture
def embedder(tmp_path: Path) -> CountingEmbedder:
    return CountingEmbedder(Home(tmp_path), query_prefix="query: ")


def embed(questions: list[str], embedder: CountingEmbedder) -> dict[str, Any]:
    clock = Clock(wall=lambda: embedder.now[0], waited=lambda: embedder.now[1])
    return embed_queries(questions, embedder, clock=clock)  # type: ignore[arg-type]


def test_each_distinct_question_is_embedded_by_itself(embedder: CountingEmbedder) -> None:
    found = embed(["when?", "where?", "when?"], embedder)
    assert embedder.asked == [["warm up"], ["query: when?"], ["query: where?"]]
    assert set(found) == {"when?", "where?"}
    assert np.array_equal(found["when?"].vector, vector_of("query: when?"))
    assert found["when?"].spent == Spent(0.25)


def test_a_second_run_computes_nothing_and_keeps_the_seconds(embedder: CountingEmbedder) -> None:
    first = embed(["when?", "where?"], embedder)
    embedder.asked.clear()
    second = embed(["where?", "when?"], embedder)
    assert embedder.asked == []
    assert {text: q.spent for text, q in second.items()} == {text: q.spent for text, q in first.items()}
    assert all(np.array_equal(second[text].vector, first[text].vector) for text in first)
    assert second["when?"].vector.dtype == np.float32


def test_a_new_question_embeds_no_other_again(embedder: CountingEmbedder) -> None:
    embed(["when?", "where?"], embedder)
    embedder.asked.clear()
    found = embed(["when?", "who?"], embedder)
    assert embedder.asked == [["warm up"], ["query: who?"]]
    assert set(found) == {"when?", "who?"}
    embedder.asked.clear()
    embed(["where?"], embedder)
    assert embedder.asked == [], "what this list lacked is kept as well"


def test_what_a_busy_machine_made_slow_is_measured_again(embedder: CountingEmbedder) -> None:
    embed(["when?"], embedder)
    embedder.seconds, embedder.waited = 2.0, 1.5
    slow = embed(["when?", "where?"], embedder)
    assert slow["when?"].spent == Spent(0.25), "measured in quiet: not again"
    assert slow["where?"].spent == Spent(2.0, 1.5)
    assert slow["where?"].spent.busy

    embedder.seconds, embedder.waited = 3.0, 2.5
    assert embed(["where?"], embedder)["where?"].spent == Spent(2.0, 1.5), "no better: the shorter one stays"

    embedder.seconds, embedder.waited = 0.25, 0.0
    embedder.asked.clear()
    assert embed(["when?", "where?"], embedder)["where?"].spent == Spent(0.25)
    assert embedder.asked == [["warm up"], ["query: where?"]]
    embedder.asked.clear()
    embed(["when?", "where?"], embedder)
    assert embedder.asked == []


def test_a_question_that_the_embedder_refuses_stops_no_other(embedder: CountingEmbedder) -> None:
    embedder.refuses = "endless"
    found = embed(["endless?", "when?"], embedder)
    assert found["endless?"].vector is None
    assert found["endless?"].refused == "too long: 300 tokens"
    assert np.array_equal(found["when?"].vector, vector_of("query: when?"))
    embedder.refuses = None
    assert embed(["endless?"], embedder)["endless?"].vector is not None, "a refusal is not kept"


def test_of_many_questions_a_sample_is_timed_and_the_others_are_embedded_together(
    embedder: CountingEmbedder,
) -> None:
    many = [f"question {number}?" for number in range(SAMPLE + 2 * BATCH + 1)]
    found = embed(many, embedder)
    sizes = [len(texts) for texts in embedder.asked]
    assert sizes == [1] + [1] * SAMPLE + [BATCH, BATCH, 1]
    assert all(np.array_equal(found[text].vector, vector_of(f"query: {text}")) for text in many)
    assert {found[text].spent for text in many} == {Spent(0.25)}
    embedder.asked.clear()
    again = embed(many, embedder)
    assert embedder.asked == []
    assert {text: one.spent for text, one in again.items()} == {
        text: one.spent for text, one in found.items()
    }


def test_those_that_are_not_timed_count_the_median_of_the_sample(embedder: CountingEmbedder) -> None:
    many = [f"question {number}?" for number in range(SAMPLE + 3)]
    embed(many[:10], embedder)
    embedder.seconds = 0.75
    found = embed(many, embedder)
    timed = [spent.seconds for text, spent in ((text, found[text].spent) for text in many)]
    assert sorted(set(timed)) == [0.25, 0.75]
    assert timed.count(0.25) == 10, "what was timed before keeps its time"


def test_on_a_busy_machine_the_sample_alone_is_timed_again(embedder: CountingEmbedder) -> None:
    many = [f"question {number}?" for number in range(SAMPLE + BATCH)]
    embedder.seconds, embedder.waited = 2.0, 1.5
    assert all(one.spent.busy for one in embed(many, embedder).values())
    embedder.asked.clear()
    embedder.seconds, embedder.waited = 0.25, 0.0
    assert not any(one.spent.busy for one in embed(many, embedder).values())
    assert len(embedder.asked) == 1 + SAMPLE


def test_one_that_is_refused_in_a_batch_stops_no_other(embedder: CountingEmbedder) -> None:
    many = [f"question {number}?" for number in range(SAMPLE + 5)]
    outside = next(text for text, one in embed(many, embedder).items() if one.vector is not None)
    embedder.refuses = "endless"
    more = [f"endless {number}?" for number in range(3)]
    found = embed([*many, *more], embedder)
    assert [found[text].refused for text in more] == ["too long: 300 tokens"] * 3
    assert found[outside].vector is not None


@pytest.mark.parametrize("change", [{"prefix": "q: "}, {"revision": "r2"}])
def test_another_revision_or_prefix_is_embedded_again(
    embedder: CountingEmbedder, change: dict[str, str]
) -> None:
    embed(["when?"], embedder)
    other = CountingEmbedder(embedder.home, change.get("prefix", "query: "), change.get("revision", "r1"))
    embed(["when?"], other)
    assert len(other.asked) == 2


@pytest.mark.parametrize("keep", [0, 4, 200])
def test_a_torn_file_is_made_again(embedder: CountingEmbedder, keep: int) -> None:
    first = embed(["when?"], embedder)
    (path,) = embedder.home.cache("queries").rglob("*.parquet")
    path.write_bytes(path.read_bytes()[:keep])
    embedder.asked.clear()
    again = embed(["when?"], embedder)
    assert embedder.asked == [["warm up"], ["query: when?"]]
    assert np.array_equal(again["when?"].vector, first["when?"].vector)


def test_a_file_of_another_form_is_made_again(embedder: CountingEmbedder) -> None:
    embed(["when?"], embedder)
    (path,) = embedder.home.cache("queries").rglob("*.parquet")
    pl.DataFrame({"question": ["when?"], "seconds": [1.0]}).write_parquet(path)
    assert embed(["when?"], embedder)["when?"].spent == Spent(0.25)


def test_no_question_needs_no_model(embedder: CountingEmbedder) -> None:
    assert embed([], embedder) == {}
    assert embedder.asked == []


def test_what_was_embedded_before_a_kill_is_not_embedded_again(embedder: CountingEmbedder) -> None:
    questions = [f"question {number}" for number in range(SAMPLE + 3 * BATCH)]

    def killed(done: int, of: int) -> None:
        if done == SAMPLE + 2 * BATCH:
            raise KeyboardInterrupt

    clock = Clock(wall=lambda: embedder.now[0], waited=lambda: embedder.now[1])
    with pytest.raises(KeyboardInterrupt):
        embed_queries(questions, embedder, killed, clock)  # type: ignore[arg-type]
    embedder.asked.clear()
    found = embed(questions, embedder)
    assert sum(len(texts) for texts in embedder.asked[1:]) == BATCH, "beside the first text, which warms up"
    assert all(found[text].vector is not None for text in questions)
    folder = embedder.home.cache("queries") / embedder.recipe.query_revision()
    assert [file.name for file in folder.iterdir()] == ["questions.parquet"]
