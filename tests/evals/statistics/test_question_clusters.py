"""Which questions are a cluster, as a study says it or as they themselves show."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from rag_assay.evals.leaderboard import Leaderboard
from rag_assay.evals.scores import Scores
from rag_assay.evals.statistics.question_clusters import clustering
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.sections import ClustersBy
from rag_assay.evals.study.study_file import read_study
from rag_assay.warehouse.parquet import frame
from rag_assay.warehouse.recipe import Strict
from rag_assay.warehouse.schemas import QUESTIONS
from tests.fakes.tiny import write_study


class Recipe(Strict):
    clusters: ClustersBy


def asked(documents: dict[str, list[str | None]]) -> pl.DataFrame:
    rows = [
        {"question_id": name, "evidence": [{"doc_id": one, "url": "u"} for one in held]}
        for name, held in documents.items()
    ]
    filled = [{**dict.fromkeys(QUESTIONS), **row} for row in rows]
    full = dict.fromkeys(("doc_id", "url", "quote", "start", "end", "grade", "reason", "similarity"))
    for row in filled:
        row["evidence"] = [{**full, **one} for one in row["evidence"]]  # type: ignore[attr-defined]
    return frame(filled, QUESTIONS)


MANY = {f"q{number:02}": [f"d{number // 2}"] for number in range(40)}
FEW = {f"q{number:02}": [f"d{number % 3}"] for number in range(40)}


def test_questions_that_share_documents_are_a_cluster_however_few_documents_there_are() -> None:
    many, few = clustering(asked(MANY), "documents"), clustering(asked(FEW), "documents")
    assert (many.by, many.found, many.effective) == ("documents", 20, 20)
    assert many.codes(["q01", "q02", "q00"]).tolist() == [0, 1, 0]  # type: ignore[union-attr]
    assert (few.by, few.found) == ("documents", 3)
    assert clustering(asked(MANY), "none").codes([*MANY]) is None


def test_one_large_cluster_among_small_ones_counts_for_little() -> None:
    hub: dict[str, list[str | None]] = {f"h{number}": ["hub"] for number in range(60)}
    hub |= {f"q{number}": [f"d{number}"] for number in range(20)}
    found = clustering(asked(hub), "documents")
    assert (found.by, found.found) == ("documents", 21)
    assert found.effective < 2


def test_questions_without_documents_stand_alone_and_do_not_count() -> None:
    found = clustering(asked(MANY | {f"x{number}": [] for number in range(9)}), "documents")
    assert found.found == 20
    assert found.codes(["x1", "q01", "x2", "q00"]).tolist() == [0, 1, 2, 1]  # type: ignore[union-attr]


def test_documents_that_are_not_in_the_corpus_are_known_by_their_address() -> None:
    found = clustering(asked({"a": [None], "b": [None], "c": ["d"]}), "documents")
    assert found.codes(["a", "b", "c"]).tolist() == [0, 0, 1]  # type: ignore[union-attr]


def test_by_ids() -> None:
    names = {"law-1": [], "law-2": [], "sport-1": [], "plain": [], "other": []}
    found = clustering(asked(names), "ids:^[a-z]+-")  # type: ignore[arg-type]
    assert (found.by, found.found) == ("ids", 4)
    assert found.codes([*names]).tolist() == [0, 0, 1, 2, 3]  # type: ignore[union-attr]


def test_no_questions() -> None:
    assert clustering(frame([], QUESTIONS), "documents").codes([]) is None


@pytest.mark.parametrize("wrong", ["docs", "ids:", "ids:(", "", "auto"])
def test_what_a_study_cannot_say(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"must be (documents|a regular)"):
        Recipe(clusters=wrong)


def test_other_clusters_are_another_leaderboard_and_nothing_else(tmp_path: Path) -> None:
    before = read_study(write_study(tmp_path / "a", {}))
    after = read_study(write_study(tmp_path / "b", {"seed: 7": "seed: 7\nclusters: none"}))
    (one, other) = (Leaderboard(Grid([study])).recipes("tiny") for study in (before, after))
    assert {name for name in one if one[name] != other[name]} == {"comparison.tiny"}
    (one, other) = (Scores(Grid([study])).recipes(study.cells()[0].key) for study in (before, after))
    assert one == other
