"""Judges judge the cells of a study: once each, kept through kills and changes, every outcome typed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rich.console import Console

from rag_assay.assets.engine.stage import PartitionRef
from rag_assay.evals.reporting.page import json_rows, render_html
from rag_assay.evals.reporting.question_rows import question_rows
from rag_assay.evals.reporting.stale_results import stored_result
from rag_assay.evals.reporting.terminal import leaderboard_table
from rag_assay.evals.study.cost_estimate import estimates
from rag_assay.evals.study.run_plan import plan
from rag_assay.warehouse.connection import connect
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.schemas import JUDGEMENTS, Status
from tests.fakes.judges import AskingJudge, CountingJudge, in_the_registry
from tests.fakes.named import named
from tests.fakes.openai_server import FakeOpenAI, Received, Scripted, answer, failure
from tests.fakes.town import PLAIN, QUESTIONS, Town, Variant

pytestmark = pytest.mark.models
CELL = "tiny.t16.minilm.bm25.quote"
WITH_TRUTH = {"noon", "tickets", "lamp", "captain"}
ALL = {*WITH_TRUTH, "crane"}
CRANE = """\
  - id: crane
    question: Which old machine stands on the quay?
    evidence:
      - {url: "https://x.example/history", quote: "The old crane stands there"}
"""


def verdict(support: object = 0.5, agreement: object = 1.0, reason: str = "it says so") -> Scripted:
    return answer(json.dumps({"support": support, "agreement": agreement, "reason": reason}))


@pytest.fixture(autouse=True)
def registered(tmp_path: Path) -> Iterator[None]:
    (tmp_path / "ferry.questions.yaml").write_text(QUESTIONS + CRANE)
    with in_the_registry(CountingJudge, AskingJudge):
        yield


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI(respond=lambda _received: verdict()) as running:
        yield running


def asking(server: FakeOpenAI, **parameters: Any) -> dict[str, Any]:
    return {"asking": {"model": "openai/judge", "api_base": server.api_base, **parameters}}


def study(judges: dict[str, Any] | None = None, **changes: Any) -> Variant:
    found = {"counting": {"counting": {}}} if judges is None else judges
    cards = {name: {"mutations": 0} for name in found}
    return {**PLAIN, "judges": found, "judge_cards": cards, **changes}


def judged(town: Town, judge: str, cell: str = CELL) -> pl.DataFrame:
    return read_parquet(town.bench.folder("judgements", f"{cell}.by.{judge}") / "judgements.parquet")


def scores(town: Town, metric: str, cell: str = CELL) -> dict[str, tuple[str, float | None, str | None]]:
    rows = read_parquet(town.bench.folder("scores", cell) / "scores.parquet").filter(metric=metric)
    return {question: tuple(rest) for question, _, *rest in rows.iter_rows()}  # type: ignore[misc]


def test_a_judge_gives_rows_and_they_are_metrics_of_the_study(town: Town) -> None:
    data = town.run(study(metrics=["counting.agreement", "ndcg@10"]), "home")
    rows = judged(town, "counting")
    assert rows.schema == pl.Schema(JUDGEMENTS)
    assert set(rows.filter(metric="support")["question_id"]) == ALL
    assert set(rows.filter(metric="agreement")["question_id"]) == WITH_TRUTH, "what has no truth is not asked"
    assert [one.name for one in data.metrics] == ["counting.agreement", "ndcg@10", "counting.support"]
    board = data.leaderboard
    assert set(board["metric"]) == {one.name for one in data.metrics}
    (first,) = board.filter(metric="counting.agreement").iter_rows(named=True)
    assert (first["rank"], first["n"], first["coverage"]) == (1, len(WITH_TRUTH), 1.0)
    values = dict(rows.filter(metric="agreement").select("question_id", "value").iter_rows())
    assert {name: value for name, (_, value, _) in scores(town, "counting.agreement").items()} == values
    assert first["value"] == pytest.approx(sum(values.values()) / len(values))


def test_the_passages_are_those_that_the_answer_was_made_of(town: Town, server: FakeOpenAI) -> None:
    town.build(study({"judge": asking(server)}), "home")
    answers = read_parquet(town.bench.folder("answers", CELL) / "answers.parquet")
    chunks = read_parquet(town.bench.folder("chunks", "ferries.t16") / "chunks.parquet")
    texts = dict(chunks.select("chunk_id", "text").iter_rows())
    by_answer = {row["answer"]: row["chunk_ids"] for row in answers.iter_rows(named=True)}
    for received in server.requests:
        prompt = received.body["messages"][-1]["content"]
        given = prompt.partition("<answer>\n")[2].partition("\n</answer>")[0]
        passages = prompt.partition("<passages>\n")[2].partition("\n</passages>")[0]
        ids = by_answer[given]
        assert len(ids) <= 2
        assert passages == "\n".join(texts[one] for one in ids)


def test_a_second_run_asks_nothing_and_a_further_judge_alone_is_asked(town: Town, server: FakeOpenAI) -> None:
    one = {"first": asking(server)}
    town.build(study(one), "home")
    assert len(server.requests) == len(ALL)
    town.build(study(one), "home")
    assert len(server.requests) == len(ALL)
    assert not town.built
    before = town.bench.artifact("judgements", f"{CELL}.by.first")
    town.build(study({**one, "counting": {"counting": {}}}), "home")
    assert len(server.requests) == len(ALL)
    assert town.built == {"judgements", "judge_cards", "scores", "leaderboard"}
    assert [found.computed for found in town.outcomes["judgements"]] == [True, False]
    assert town.bench.artifact("judgements", f"{CELL}.by.first") == before
    computed = town.bench.artifact("scores", CELL).meta["metrics_computed"]
    assert computed == ["counting.support", "counting.agreement"]
    town.build(study(one), "home")
    assert town.built <= {"scores", "leaderboard"}, "without it, all is as it was"


def test_a_judge_by_another_name_is_the_same_judge(town: Town, server: FakeOpenAI) -> None:
    town.build(study({"first": asking(server)}), "home")
    identity = town.bench.artifact("judgements", f"{CELL}.by.first").identity
    town.build(study({"other": asking(server)}), "home")
    assert "judgements" not in town.built
    assert town.bench.artifact("judgements", f"{CELL}.by.other").identity == identity
    assert set(scores(town, "other.support")) == ALL
    assert not scores(town, "first.support")


def test_further_replicates_ask_for_themselves_alone(town: Town, server: FakeOpenAI) -> None:
    town.build(study({"judge": asking(server)}), "home")
    before = judged(town, "judge")
    server.requests.clear()
    town.build(study({"judge": asking(server, replicates=3)}), "home")
    assert Counter(one.body["seed"] for one in server.requests) == {8: len(ALL), 9: len(ALL)}
    after = judged(town, "judge")
    assert after.filter(replicate=1).equals(before)
    assert Counter(after["replicate"]) == dict.fromkeys((1, 2, 3), len(ALL) + len(WITH_TRUTH))
    server.requests.clear()
    town.build(study({"judge": asking(server, replicates=3, vote="majority")}), "home")
    assert not server.requests
    assert "judgements" not in town.built, "how votes are counted is a matter of the scores"


VOTES: list[tuple[str, dict[int, object], tuple[Any, ...]]] = [
    ("mean", {7: 0.0, 8: 1.0, 9: 1.0}, (Status.OK, pytest.approx(2 / 3), None)),
    ("majority", {7: 0.0, 8: 1.0, 9: 1.0}, (Status.OK, 1.0, None)),
    ("majority", {7: 0.1, 8: 0.2, 9: 0.3}, (Status.PARSE_FAILED, None, "no majority")),
    ("mean", {7: 0.4, 8: "x", 9: 0.2}, (Status.OK, pytest.approx(0.3), "1 of 3 judgements has no value")),
    ("majority", {7: 1.0, 8: "x", 9: 1.0}, (Status.OK, 1.0, "1 of 3 judgements has no value")),
    ("mean", {7: "x", 8: "x", 9: "x"}, (Status.PARSE_FAILED, None, "")),
]


def test_replicates_vote(town: Town, server: FakeOpenAI) -> None:
    server.respond = lambda received: verdict(VOTES[int(received.body["model"])][1][received.body["seed"]])
    judges = {
        f"judge{n}": asking(server, model=f"openai/{n}", replicates=3, vote=vote)
        for n, (vote, _, _) in enumerate(VOTES)
    }
    town.build(study(judges), "home")
    for name, (vote, values, expected) in zip(judges, VOTES, strict=True):
        with named(f"{vote} of {values}"):
            found = scores(town, f"{name}.support")
            assert set(found) == ALL
            for status, value, reason in found.values():
                assert (status, value) == expected[:2]
                assert (reason or "").startswith(expected[2] or "")
                assert (reason is None) == (expected[2] is None)


HOSTILE: dict[str, Scripted] = {
    "nan": answer('{"support": NaN, "agreement": NaN, "reason": "x"}'),
    "huge": verdict(1e9, -1e9),
    "prose": answer("I would say that this answer is quite good, 9 out of 10."),
    "other_language": answer("Die Antwort ist richtig: volle Punktzahl."),
    "long_reason": verdict(reason="because " * 130_000),
    "empty": answer(""),
    "truncated": answer('{"support": 0.5, "agre', finish_reason="length"),
}


def test_what_is_no_verdict_is_typed_and_counted_and_no_number(town: Town, server: FakeOpenAI) -> None:
    server.respond = lambda received: HOSTILE[received.body["model"]]
    judges = {said: asking(server, model=f"openai/{said}") for said in HOSTILE}
    data = town.run(study(judges), "home")
    for said in HOSTILE:
        with named(said):
            rows = judged(town, said)
            assert len(rows) == len(ALL) + len(WITH_TRUTH)
            assert rows["value"].null_count() == len(rows)
            assert set(rows["status"]) == {Status.TRUNCATED if said == "truncated" else Status.PARSE_FAILED}
            assert all(reason and len(reason) <= 1_000 for reason in rows["reason"])
            assert all(raw is None or len(raw) <= 20_000 for raw in rows["raw"])
            (found,) = data.leaderboard.filter(metric=f"{said}.support").iter_rows(named=True)
            assert (found["value"], found["n"], found["coverage"]) == (None, len(ALL), 0.0)
    asked = len(server.requests)
    assert asked >= len(HOSTILE) * len(ALL)
    town.build(study(judges), "home")
    assert len(server.requests) == asked, "what the model said is no failure of the call: it is final"


def test_what_failed_is_tried_again_and_nothing_else(town: Town, server: FakeOpenAI) -> None:
    def sometimes(received: Received) -> Scripted:
        return failure(400, "not now") if "glows" in json.dumps(received.body) else verdict()

    server.respond = sometimes
    town.build(study({"judge": asking(server)}), "home", whole=False)
    rows = judged(town, "judge")
    bad = rows.filter(pl.col("value").is_null())
    assert set(bad["question_id"]) == {"lamp"}
    assert set(bad["status"]) == {Status.ERROR}
    (outcome,) = town.outcomes["judgements"]
    assert outcome.error is not None
    assert f"2 of {len(ALL) + len(WITH_TRUTH)} judgements failed" in outcome.error
    assert scores(town, "judge.support")["lamp"][:2] == (Status.ERROR, None)
    assert scores(town, "ndcg@10"), "the others are measured"
    server.requests.clear()
    server.respond = lambda _received: verdict()
    town.build(study({"judge": asking(server)}), "home")
    assert len(server.requests) == 1
    assert judged(town, "judge")["value"].null_count() == 0


def test_a_sample_and_a_restriction_of_a_judge(town: Town) -> None:
    changes = {
        "retrievers": {"bm25": {"bm25": {"k": 5}}, "dense": {"dense": {"k": 5}}},
        "generators": {**PLAIN["generators"], "short": {"extractive": {"passages": 1, "max_tokens": 20}}},
        "judges": {"all": {"counting": {}}, "few": {"counting": {}}, "some": {"counting": {}}},
        "restrict": {"few": {"sample": 2}, "some": {"generators": ["short"], "retrievers": ["dense"]}},
    }
    data = town.run({**PLAIN, **changes}, "home")
    keys = town.bench.stages["judgements"].keys()
    assert Counter(key.rpartition(".")[2] for key in keys) == {"all": 4, "few": 4, "some": 1}
    assert "tiny.t16.minilm.dense.short.by.some" in keys
    board = data.leaderboard.filter(subset="all")
    few = board.filter(metric="few.support")
    assert (set(few["n"]), set(few["coverage"]), len(few)) == ({2}, {1.0}, 4)
    assert set(board.filter(metric="all.support")["n"]) == {len(ALL)}
    assert board.filter(metric="some.support")["cell"].to_list() == ["tiny.t16.minilm.dense.short"]
    assert set(board.filter(metric="ndcg@10")["n"]) == {4}
    sampled = town.bench.study.sampled(sorted(ALL), 2)
    assert {question for key in keys if key.endswith(".few") for question in judged_of(town, key)} == {
        *sampled
    }


def judged_of(town: Town, key: str) -> set[str]:
    return set(read_parquet(town.bench.folder("judgements", key) / "judgements.parquet")["question_id"])


def test_a_larger_sample_judges_the_further_questions(town: Town, server: FakeOpenAI) -> None:
    one = {"judge": asking(server)}
    town.build(study(one, restrict={"judge": {"sample": 2}}), "home")
    assert len(server.requests) == 2
    town.build(study(one, restrict={"judge": {"sample": 3}}), "home")
    assert len(server.requests) == 3
    town.build(study(one), "home")
    assert len(server.requests) == len(ALL)


def test_the_rows_are_in_the_database_by_cell_replicate_and_judge(town: Town, server: FakeOpenAI) -> None:
    generators = {"asked": {"llm": {"model": "openai/fake", "api_base": server.api_base}}}
    server.respond = lambda received: (
        verdict() if received.body["model"] == "judge" else answer(f"At {received.body['seed']}.")
    )
    judges = {"by": asking(server, replicates=2), "2": {"counting": {}}}
    town.run(study(judges, generators=generators, replicates=2), "home")
    with connect(town.bench.home.database) as connection:
        found = connection.execute(
            "SELECT cell, cell_replicate, judge, replicate, count(*) FROM current_judgements GROUP BY ALL"
        ).fetchall()
        purposes = connection.execute(
            "SELECT purpose, study, cell, question FROM llm_calls WHERE model = 'openai/judge'"
        ).fetchall()
    cell, n = "tiny.t16.minilm.bm25.asked", len(ALL) + len(WITH_TRUTH)
    by = {(cell, again, "by", replicate, n) for again in (1, 2) for replicate in (1, 2)}
    assert set(found) == by | {(cell, again, "2", 1, n) for again in (1, 2)}
    assert {(purpose, name) for purpose, name, _, _ in purposes} <= {("judging", "tiny")}


def test_judgements_that_cannot_be_made_cost_the_cell_nothing_else(town: Town) -> None:
    town.build(study(metrics=["ndcg@10", "counting.support"]), "home")
    stage = town.bench.stages["scores"]
    gone = PartitionRef("judgements", f"{CELL}.by.counting")
    stage.without = frozenset({gone})
    assert gone not in stage.needs(CELL)
    (outcome,) = town.bench.build("scores")["scores"]
    assert outcome.ok
    assert {status for status, _, _ in scores(town, "counting.support").values()} == {Status.NOT_RUN}
    assert {status for status, _, _ in scores(town, "ndcg@10").values()} == {Status.OK}
    stage.without = frozenset()
    town.bench.build("scores")
    assert {status for status, _, _ in scores(town, "counting.support").values()} == {Status.OK}


def test_a_change_of_an_answer_has_that_answer_judged(town: Town, tmp_path: Path) -> None:
    """A judge without calls, too: what it read of the other questions is what it was."""
    town.build(study(), "home")
    before = judged(town, "counting").filter(pl.col("question_id") != "noon")
    asked: list[str | None] = []
    of = CountingJudge.of

    def counted(judge: CountingJudge, case: Any) -> Any:
        asked.append(case.question_id)
        return of(judge, case)

    artifact = town.bench.artifact("answers", CELL)
    path = town.bench.folder("answers", CELL) / "answers.parquet"
    rows = read_parquet(path)
    changed = pl.when(pl.col("question_id") == "noon").then(pl.lit("At dusk.")).otherwise(pl.col("answer"))
    town.bench.edit("answers", CELL, "answers.parquet", lambda found: found.with_columns(answer=changed))
    town.bench.store.commit(_with_version(town.bench.artifact("answers", CELL)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CountingJudge, "of", counted)
        (outcome,) = town.bench.build("judgements")["judgements"]
    assert outcome.computed
    assert asked == ["noon"]
    assert judged(town, "counting").filter(pl.col("question_id") != "noon").equals(before)
    assert artifact.data_version != town.bench.artifact("answers", CELL).data_version
    assert len(rows) == len(ALL)


def _with_version(artifact: Any) -> Any:
    from dataclasses import replace

    return replace(artifact, data_version=f"{artifact.data_version}x")


def test_what_was_said_is_shown_and_told(town: Town, server: FakeOpenAI) -> None:
    server.respond = lambda received: verdict(0.25, reason=f"because of {received.body['seed']}")
    data = town.run(study({"judge": asking(server, replicates=2)}), "home")
    said = question_rows(town.bench.study, "noon", town.bench.home).found[0].cells[0].judgements
    assert [(row["judge"], row["metric"], row["replicate"]) for row in said] == [
        ("judge", metric, replicate) for metric in ("support", "agreement") for replicate in (1, 2)
    ]
    assert {row["reason"] for row in said} == {"because of 7", "because of 8"}
    assert data.judgements is not None
    assert set(data.judgements["question_id"]) == ALL
    page = render_html(data)
    assert "judge.support (replicate 2)" in page
    assert "because of 8" in page
    assert {row["metric"] for row in json.loads(json_rows(data.leaderboard))} >= {"judge.support"}
    assert "judge" in (data.recipes or {})


def test_a_report_tells_that_a_judge_is_another_one_now(town: Town, server: FakeOpenAI) -> None:
    town.run(study({"judge": asking(server)}), "home")
    changed = town.bench_of(study({"judge": asking(server, temperature=0.5)}), "home")
    with pytest.raises(InputError, match=r"judgements of tiny\.t16.*is no longer what was run"):
        stored_result(changed.study, changed.home)
    more = town.bench_of(study({"judge": asking(server), "words": {"counting": {}}}), "home")
    with pytest.raises(InputError, match="is no longer what was run"):
        stored_result(more.study, more.home)


def planned(town: Town, variant: Variant) -> dict[str, Any]:
    bench = town.bench_of(variant, "home")
    found = plan(bench.study, bench.stages, bench.home)
    return {row.what: row for row in estimates(bench.study, found, bench.stages, bench.home)}


def test_the_plan_counts_what_judges_would_ask(town: Town, server: FakeOpenAI) -> None:
    judges = {"judge": asking(server, replicates=2), "few": asking(server), "words": {"counting": {}}}
    variant = study(judges, restrict={"few": {"sample": 2}})
    town.build(study({"words": {"counting": {}}}), "home")
    before = planned(town, variant)
    assert before["judging by judge"].calls == (2 * len(ALL), 4 * len(ALL))
    assert before["judging by few"].calls == (2, 4)
    assert before["judging by judge"].of_study
    assert "judging by words" not in before
    town.build(variant, "home")
    assert not {name for name in planned(town, variant) if name.startswith("judging")}


def test_the_budget_holds_for_judges(town: Town, server: FakeOpenAI) -> None:
    one = {"judge": asking(server)}
    town.build(study(one, budget={"calls": 2}), "home", whole=False)
    assert len(server.requests) == 2
    by_status = Counter(status for status, _, _ in scores(town, "judge.support").values())
    assert by_status == {Status.OK: 2, Status.OVER_BUDGET: len(ALL) - 2}
    assert planned(town, study(one))["judging by judge"].calls.most == 2 * (len(ALL) - 2)
    town.build(study(one), "home")
    assert len(server.requests) == len(ALL), "the next run goes on"


def test_a_judge_of_few_cells_may_rank_and_everything_is_shown(town: Town) -> None:
    """Cells that it does not judge have no value of it, and no rank where it ranks."""
    expected = {"tiny.t16.minilm.dense.quote"}
    for first in ("some.support", "few.agreement", "ndcg@10"):
        with named(first):
            changes = {
                "retrievers": {"bm25": {"bm25": {"k": 5}}, "dense": {"dense": {"k": 5}}},
                "judges": {"few": {"counting": {}}, "some": {"counting": {}}},
                "restrict": {"few": {"sample": 2}, "some": {"retrievers": ["dense"]}},
                "metrics": list(dict.fromkeys([first, "ndcg@10", "rouge_l"])),
            }
            data = town.run({**PLAIN, **changes}, "home")
            ranked = data.leaderboard.filter(pl.col("rank").is_not_null() & (pl.col("metric") == "ndcg@10"))
            assert set(ranked["cell"]) == (expected if first == "some.support" else {CELL, *expected})
            assert "Support by some" in render_html(data)
            board = stored_result(town.bench.study, town.bench.home).board
            assert set(board.filter(metric="some.support")["cell"]) == expected
            Console(file=StringIO(), width=200).print(leaderboard_table(data, 200))
