"""What a study could have found, in words, and what the page and the terminal show of it."""

from __future__ import annotations

from typing import Any

import pytest

from rag_assay.evals.reporting.caveats import chances_sentence, power_sentence, unit_phrase
from rag_assay.evals.reporting.data import MetricInfo
from rag_assay.evals.reporting.standings import entries, main_subset
from rag_assay.evals.statistics.question_clusters import ALONE, Clustering
from tests.fakes.report_data import LATENCY, NDCG, SIMILARITY, board_data


def row(name: str, rank: int | None, **more: Any) -> dict[str, Any]:
    tests = {"p": 0.4} if rank != 1 else {}
    return {"chunking": name, "value": 0.5, "low": 0.4, "high": 0.6, "rank": rank, **tests, **more}


def settled(*needed: int | None, metric: MetricInfo = SIMILARITY, detectable: float | None = 0.0612) -> str:
    rows = [row("a", 1, tied=True)]
    rows += [
        row(f"t{number}", 2, tied=True, detectable=detectable, questions_needed=one)
        for number, one in enumerate(needed)
    ]
    rows.append(row("z", 9, tied=False, p=0.001, detectable=0.5))
    data = board_data(rows, metric)
    ranked = [one for one in entries(data, main_subset(data)) if one.rank is not None]
    return power_sentence([one for one in ranked[1:] if one.tied], 64, metric)


@pytest.mark.parametrize(
    ("needed", "text"),
    [
        ((238,), "about 240 questions would settle the rest."),
        ((100, 1_001), "about 1\u202f100 questions would settle the rest."),
        ((100, 200, 90_000), "about 200 questions would settle 2 of the 3 open comparisons."),
        ((100, None), "about 100 questions would settle 1 of the 2 open comparisons."),
        ((None,), "no number of questions within reach would settle the open comparisons."),
        ((64 * 20 + 1,), "no number of questions within reach would settle the open comparisons."),
    ],
)
def test_what_would_settle_the_rest(needed: tuple[int | None, ...], text: str) -> None:
    assert settled(*needed) == f"The smallest difference that this study can find is about 0.06; {text}"


def test_few_questions_find_nothing_and_units_are_kept() -> None:
    assert settled(20, detectable=None).startswith(
        "So few questions cannot find any difference; about 20 questions"
    )
    assert "is about 0.061 s;" in settled(20, metric=LATENCY)
    assert "is about 0.0061 s;" in settled(20, metric=LATENCY, detectable=0.0061)
    assert "is about 0.004;" in settled(20, detectable=0.0041)


def test_a_winner_has_nothing_to_settle() -> None:
    assert settled() == ""


def test_the_chances_of_being_the_best() -> None:
    shares = {"a": 0.751, "b": 0.2, "c": 0.047, "d": 0.002, "e": 0.0}
    rows = [row(name, rank, p_best=share) for rank, (name, share) in enumerate(shares.items(), 1)]
    data = board_data(rows)
    assert chances_sentence(entries(data, main_subset(data))) == (
        "Chance of being best: a 75 %, b 20 % and c 5 %."
    )
    many = board_data([row(str(n), n, p_best=0.0025) for n in range(1, 401)])
    assert chances_sentence(entries(many, main_subset(many))) == (
        "No pipeline of 400 has a notable chance of being best."
    )
    alone = board_data(rows[:1])
    assert chances_sentence(entries(alone, main_subset(alone))) is None


def test_cells_of_one_ranking_share_their_chance() -> None:
    shared = {"chunking": "a", "value": 0.5, "rank": 1, "p_best": 0.4}
    rows = [{**shared, "cell": "1", "generator": "g"}, {**shared, "cell": "2", "generator": "h"}]
    data = board_data([*rows, row("b", 3, p_best=0.2)], NDCG)
    assert [entry.p_best for entry in entries(data, main_subset(data))] == [0.8, 0.2]


def test_what_is_drawn_again() -> None:
    assert unit_phrase(ALONE) == "the questions"
    assert (
        unit_phrase(Clustering("documents", {}, 25, 14.0))
        == "clusters of questions that share documents (25)"
    )
    assert unit_phrase(Clustering("ids", {}, 3, 3.0)) == "clusters of questions by their ids (3)"
