"""Every figure of a report, counted again from the stored rows by other code, under exchanged names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from rag_assay.evals.metrics.text_overlap import rouge_tokens
from rag_assay.evals.reporting.page import json_rows, render_html
from rag_assay.evals.reporting.rows import report_data
from rag_assay.evals.reporting.stale_results import stored_result
from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.driver import Driver
from rag_assay.orchestration.settings import prepare
from rag_assay.warehouse.paths import home
from tests.fakes.recount import Recount
from tests.fakes.recounted_page import Compared, compare_page, compare_rows
from tests.orchestration.conftest import write_study

pytestmark = pytest.mark.models

METRICS = ["ndcg@10", "mrr@10", "hit_rate@5", "recall@10", "evidence_coverage@5"]
METRICS += ["semantic_similarity", "rouge_l", "abstention", "retrieval_latency", "answer_latency", "tokens"]
PARTS: dict[str, list[Any]] = {
    "chunkings": [{"tokens": {"size": 16, "overlap": 4}}, {"tokens": {"size": 8}}],
    "retrievers": [{"bm25": {"k": 1}}, {"dense": {"k": 5}}, {"bm25": {"k": 5}}],
    "generators": [
        {"extractive": {"passages": 2, "max_tokens": 40}},
        {"extractive": {"passages": 1, "max_tokens": 8, "min_score": 0.2}},
    ],
}


def study(order: int) -> dict[str, Any]:
    """Return a study whose names stand for other parts in each order, and whose parts stand elsewhere."""
    found: dict[str, Any] = {
        "study": "town",
        "sources": {"texts": {"reader": "folder", "path": "texts"}},
        "corpus": {"name": "town", "sources": ["texts"]},
        "embedders": {"minilm": {"model": "all-MiniLM-L6-v2", "max_tokens": 256}},
        "questions": [{"file": "town.questions.yaml"}],
        "metrics": METRICS[order:5] + METRICS[:order] + METRICS[5:],
    }
    for section, parts in PARTS.items():
        names = [f"{section[:-1]}-{letter}" for letter in "abc"[: len(parts)]]
        turned = parts[order:] + parts[:order]
        found[section] = dict(zip(names, turned, strict=True))
    found["restrict"] = {"generator-b": {"sample": 2, "retrievers": ["retriever-a", "retriever-b"]}}
    return found


def similarity(folder: Path) -> Callable[[list[tuple[str, str]]], list[float]]:
    """Return what says how similar pairs of texts are, by sentence-transformers alone."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu")

    def cosines(pairs: list[tuple[str, str]]) -> list[float]:
        one, other = (
            model.encode([pair[side] for pair in pairs], normalize_embeddings=True) for side in (0, 1)
        )
        return [float(value) for value in (one * other).sum(axis=1)]

    return cosines


def compared(recount: Recount, rows: str, html: str) -> Compared:
    found = compare_rows(recount, json.loads(rows))
    page = compare_page(recount, html)
    return Compared(found.n + page.n, found.wrong + page.wrong)


@dataclass(frozen=True)
class Shown:
    """What was counted of a study again, and what its leaderboard and its page show."""

    recount: Recount
    rows: str
    html: str


@pytest.fixture(scope="module")
def run(
    weights: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[int], Shown]]:
    """Run the study of an order once, all on one home."""
    folder = tmp_path_factory.mktemp("figures")
    path = write_study(folder)
    cosines = similarity(weights("all-MiniLM-L6-v2"))

    @cache
    def shown(order: int) -> Shown:
        path.write_text(yaml.safe_dump(study(order), sort_keys=False))
        read = read_study(path)
        report = Driver(read, home()).run()
        assert report.ok, report
        recount = Recount(home().root, study(order), rouge_tokens, cosines)
        return Shown(
            recount, json_rows(stored_result(read, home()).board), render_html(report_data(read, home()))
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_HOME", str(folder / "var"))
        patch.setenv("DAGSTER_HOME", "")
        prepare()
        yield shown


def test_every_figure_is_that_of_the_cell_that_it_stands_beside(run: Callable[[int], Shown]) -> None:
    for order in (0, 1):
        shown = run(order)
        found = compared(shown.recount, shown.rows, shown.html)
        assert not found.wrong
        assert found.n.total() > 1000, found.n
        assert set(found.n) == {
            *("leaderboard rows", "leaderboard", "costs", "matrix", "lost", "groups", "effects", "corpus"),
        }


def test_a_figure_beside_another_name_is_found(run: Callable[[int], Shown]) -> None:
    shown = run(0)
    of = {cell.key: cell for cell in shown.recount.cells}
    for key in [key for key in of if ".retriever-a." in key]:
        one, other = of[key], of[key.replace("retriever-a", "retriever-b")]
        for part in ("values", "answers", "ranked", "hits"):
            mine = getattr(one, part)
            setattr(one, part, getattr(other, part))
            setattr(other, part, mine)
    parts = {line.split(":")[0] for line in compared(shown.recount, shown.rows, shown.html).wrong}
    assert {"leaderboard rows", "leaderboard", "costs", "matrix", "lost"} <= parts
