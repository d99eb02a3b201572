"""What judges are given of a cell: passages as its generator had them, hits without one, rivals' answers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal

import polars as pl
import pytest

from rag_assay.evals.judging.contract import Judge, JudgeCase, JudgeContext, JudgedMetric, Judgement
from rag_assay.evals.judging.contract import Need as Part
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.schemas import Status
from tests.fakes.forking import PROGRAM
from tests.fakes.judges import CountingJudge, in_the_registry
from tests.fakes.openai_server import FakeOpenAI, answer, failure
from tests.fakes.processes import PYTHONPATH
from tests.fakes.town import PLAIN, Town, Variant

pytestmark = pytest.mark.models
BM25 = "tiny.t16.minilm.bm25"
EVERYONE = {"noon", "tickets", "lamp", "captain"}


class Noting(Judge):
    """Notes its cases; its value is how many passages there are, as a share of ten."""

    kind: ClassVar[str] = "noting"
    varies: ClassVar[bool] = False
    seen: ClassVar[list[JudgeCase]] = []

    needs: tuple[Part, ...] = ("answer", "passages")
    rival: str | None = None
    breaks: Literal["never", "on noon"] = "never"

    @property
    def against(self) -> str | None:
        return self.rival

    @property
    def judged_metrics(self) -> tuple[JudgedMetric, ...]:
        return (JudgedMetric("noted", frozenset(self.needs)),)

    def verdicts(self, cases: Sequence[JudgeCase], context: JudgeContext) -> list[dict[str, Judgement]]:
        if self.breaks == "on noon" and any(case.question_id == "noon" for case in cases):
            raise RuntimeError("a bug of the judge")
        Noting.seen += cases
        return [{"noted": Judgement(Status.OK, len(case.passages) / 10)} for case in cases]

    def dependencies(self, seed: int) -> list[str | int]:
        return []


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    with in_the_registry(CountingJudge, Noting):
        Noting.seen.clear()
        yield


def seen() -> dict[str | None, JudgeCase]:
    found = {case.question_id: case for case in Noting.seen}
    assert len(found) == len(Noting.seen)
    return found


def study(judges: dict[str, Any], **changes: Any) -> Variant:
    cards = {name: {"mutations": 0} for name in judges}
    return {**PLAIN, "judges": judges, "judge_cards": cards, **changes}


def judged(town: Town, key: str) -> pl.DataFrame:
    return read_parquet(town.bench.folder("judgements", key) / "judgements.parquet")


def test_without_a_generator_the_first_hits_are_judged(town: Town) -> None:
    """And a judge of answers has nothing to judge there."""
    variant = study({"found": {"noting": {"needs": ["passages"]}}}, metrics=["found.noted", "ndcg@10"])
    del variant["generators"]
    variant["retrievers"] = {"bm25": {"bm25": {"k": 9}}}
    data = town.run(variant, "home")
    hits = read_parquet(town.bench.folder("rankings", BM25) / "hits.parquet").sort("rank")
    for question, case in seen().items():
        of_question = hits.filter(question_id=question)
        assert [one.chunk for one in case.passages] == of_question["chunk_id"].head(5).to_list()
        assert case.answer is None
        assert all(one.text and one.url and one.title for one in case.passages)
    (found,) = data.leaderboard.filter(metric="found.noted").iter_rows(named=True)
    assert (found["rank"], found["n"], found["coverage"]) == (1, 4, 1.0)
    with pytest.raises(InputError, match="judges answers, but the study has no `generators`"):
        town.bench_of(
            {**variant, "judges": {"words": {"counting": {}}}, "judge_cards": {}, "metrics": ["ndcg@10"]},
            "home",
        )


def test_evidence_and_nothing_are_judged_as_they_were_read(town: Town) -> None:
    with FakeOpenAI(respond=lambda _received: answer("At noon.")) as server:
        model = {"model": "openai/fake", "api_base": server.api_base}
        generators = {"gold": {"oracle_context": model}, "closed": {"no_context": model}}
        variant = study({"noted": {"noting": {}}}, generators=generators, metrics=["ndcg@10", "noted.noted"])
        town.build(variant, "home")
    gold = judged(town, "tiny.-.-.-.gold.by.noted")
    by_question = {case.question_id: [one.text for one in case.passages] for case in Noting.seen}
    assert by_question["noon"] == ["The ferry leaves the harbour at noon. "] or by_question["noon"][
        0
    ].startswith("The ferry leaves the harbour at noon.")
    assert set(gold.filter(status="ok")["question_id"]) == set(by_question)
    closed = judged(town, "tiny.-.-.-.closed.by.noted")
    assert set(closed["status"]) == {Status.NO_CONTEXT}
    assert closed["value"].null_count() == len(closed) == len(EVERYONE)


def test_a_rival_is_the_same_question_of_another_cell(town: Town) -> None:
    generators = {**PLAIN["generators"], "short": {"extractive": {"passages": 1, "max_tokens": 12}}}
    variant = study(
        {"pair": {"noting": {"needs": ["answer", "rival"], "rival": "t16.minilm.bm25.quote"}}},
        generators=generators,
        restrict={"pair": {"generators": ["short"]}},
    )
    town.build(variant, "home")
    rows = read_parquet(town.bench.folder("answers", f"{BM25}.quote") / "answers.parquet")
    rival = dict(rows.select("question_id", "answer").iter_rows())
    assert {question: case.rival for question, case in seen().items()} == rival
    assert all(case.passages == () for case in Noting.seen), "what no metric needs is not read"
    variant["judge_cards"] = {}
    variant["judges"] = {"pair": {"noting": {"needs": ["answer", "rival"], "rival": "t16.minilm.bm52.quote"}}}
    with pytest.raises(InputError, match="compares with the cell") as caught:
        town.bench_of(variant, "home")
    assert "did you mean `t16.minilm.bm25.quote`" in str(caught.value)


def test_what_was_cut_off_was_not_given(town: Town) -> None:
    with FakeOpenAI(respond=lambda _received: answer("At noon.")) as server:
        model = {"model": "openai/fake", "api_base": server.api_base, "window": 330, "max_tokens": 20}
        prompt = town.folder / "short.j2"
        prompt.write_text("{% block user %}{{ context }} {{ question }}{% endblock %}")
        llm = {**model, "passages": 5, "prompt": {"file": "short.j2"}}
        chunkings = {"whole": {"document": {}}}
        town.build(
            study({"noted": {"noting": {}}}, generators={"asked": {"llm": llm}}, chunkings=chunkings),
            "home",
            docs={"ferry": "The ferry leaves the harbour at noon. " * 20, "other": "A ferry. " * 30},
        )
    rows = read_parquet(town.bench.folder("answers", "tiny.whole.minilm.bm25.asked") / "answers.parquet")
    cut = {row["question_id"]: row["cuts"] for row in rows.iter_rows(named=True) if row["cuts"]}
    assert cut, "the window was to be too small"
    for question, case in seen().items():
        kept = {one["chunk_id"]: one["kept"] for one in cut.get(str(question), ())}
        assert all(len(one.text) <= kept.get(one.chunk, 10_000) for one in case.passages)
        assert not {one.chunk for one in case.passages} & {chunk for chunk, n in kept.items() if not n}


def test_what_the_budget_of_context_cuts_is_not_judged(town: Town) -> None:
    generators = {"quote": {"extractive": {"context_tokens": 64}}}
    town.build(
        study({"noted": {"noting": {}}}, generators=generators, chunkings={"t16": {"document": {}}}),
        "home",
        docs={"ferry": "The ferry leaves the harbour at noon. " * 20, "other": "A ferry. " * 30},
    )
    rows = read_parquet(town.bench.folder("answers", f"{BM25}.quote") / "answers.parquet")
    given = {row["question_id"]: row for row in rows.iter_rows(named=True)}
    assert any(row["cuts"] for row in given.values())
    for question, case in seen().items():
        row = given[str(question)]
        assert [one.chunk for one in case.passages] == row["chunk_ids"]
        assert sum(len(one.text) for one in case.passages) <= 256
        for one in row["cuts"]:
            assert len(case.passages[-1].text) == one["kept"]


def test_an_answer_that_failed_is_no_fault_of_the_judge(town: Town) -> None:
    with FakeOpenAI(respond=lambda _received: failure(400, "not now")) as server:
        generators = {"asked": {"llm": {"model": "openai/fake", "api_base": server.api_base}}}
        judges = {"noted": {"noting": {}}, "found": {"noting": {"needs": ["passages"]}}}
        town.build(study(judges, generators=generators), "home", whole=False)
    of_answers = judged(town, f"{BM25}.asked.by.noted")
    assert of_answers["value"].null_count() == len(of_answers)
    assert set(of_answers["status"]) <= {Status.ERROR, Status.NOT_RUN}
    assert all(of_answers["reason"])
    assert all(one.ok for one in town.outcomes["judgements"]), "the answers are tried again, not the judge"
    assert set(judged(town, f"{BM25}.asked.by.found")["status"]) == {"ok"}, "whatever became of the answer"


def test_a_judge_that_breaks_on_a_case_judges_the_others(town: Town) -> None:
    town.build(study({"noted": {"noting": {"breaks": "on noon"}}}), "home", whole=False)
    rows = {row["question_id"]: row for row in judged(town, f"{BM25}.quote.by.noted").iter_rows(named=True)}
    assert rows["noon"]["status"] == Status.ERROR
    assert "a bug of the judge" in rows["noon"]["reason"]
    assert {row["status"] for name, row in rows.items() if name != "noon"} == {"ok"}
    assert [case.question_id for case in Noting.seen if case.question_id == "noon"] == []


KILLED = """
import os, signal, sys
from pathlib import Path
from rag_assay.evals.judging import judge_runner
from tests.fakes import judges
from tests.fakes.judges import AskingJudge, CountingJudge, in_the_registry
from tests.fakes.tiny import Bench
from rag_assay.warehouse.inference.gateway import Gateway
from rag_assay.warehouse.paths import Home

judge_runner.BATCH = 1
seen = []
kept, count = CountingJudge.of, Gateway._kept
def dies(judge, case):
    seen.append(case.question_id)
    if len(seen) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return kept(judge, case)
def dies_too(gateway, call, *rest):
    found = count(gateway, call, *rest)
    seen.append(call)
    if len(seen) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return found
CountingJudge.of = dies
Gateway._kept = dies_too
with in_the_registry(AskingJudge, CountingJudge):
    Bench(Path(sys.argv[1]), Home(Path(sys.argv[2]))).build("judgements")
"""


@pytest.mark.parametrize("kind", ["counting", "asking"])
def test_after_a_kill_judging_goes_on_behind_the_last_case(
    town: Town, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With calls and without: what was judged is not judged again."""
    from rag_assay.evals.judging import judge_runner
    from tests.fakes.judges import AskingJudge

    verdict = answer('{"support": 0.5, "agreement": 1, "reason": "so"}')
    limits = {"at_once": 1}
    with FakeOpenAI(respond=lambda _received: verdict) as server, in_the_registry(AskingJudge):
        options = {"model": "openai/judge", "api_base": server.api_base, "limits": limits}
        variant = study({"judge": {kind: options if kind == "asking" else {}}})
        town.bench = town.bench_of(variant, "home")
        town.bench.give(_texts())
        town.bench.build("chunks", "embeddings", "indexes", "questions", "rankings", "answers")
        arguments = [
            sys.executable,
            "-m",
            PROGRAM,
            KILLED,
            str(town.bench.study.path),
            str(town.bench.home.root),
        ]
        environment = {**os.environ, "PYTHONPATH": PYTHONPATH}
        killed = subprocess.run(arguments, env=environment, check=False)
        assert killed.returncode == -signal.SIGKILL
        asked = len(server.requests)
        again: list[str | None] = []
        of = CountingJudge.of

        def counted(judge: CountingJudge, case: JudgeCase) -> dict[str, Judgement]:
            again.append(case.question_id)
            return of(judge, case)

        monkeypatch.setattr(CountingJudge, "of", counted)
        monkeypatch.setattr(judge_runner, "BATCH", 1)
        (outcome,) = town.bench.build("judgements")["judgements"]
        assert outcome.ok
        assert len(judged(town, f"{BM25}.quote.by.judge")) == 2 * len(EVERYONE)
        if kind == "counting":
            assert len(again) == len(EVERYONE) - 2
        else:
            assert (asked, len(server.requests)) == (3, len(EVERYONE))
    place = town.bench.folder("judgements", f"{BM25}.quote.by.judge")
    assert [path.name for path in place.iterdir()] == ["judgements.parquet"]


def _texts() -> dict[str, str]:
    from tests.fakes.tiny import TEXTS

    return TEXTS


def test_cells_are_judged_side_by_side(town: Town) -> None:
    """A judge on a server waits in several cells at once."""
    from tests.fakes.judges import AskingJudge

    verdict = answer('{"support": 0.5, "agreement": 1, "reason": "so"}')
    with FakeOpenAI(respond=lambda _received: verdict) as server, in_the_registry(AskingJudge):
        judge = {"asking": {"model": "openai/judge", "api_base": server.api_base}}
        retrievers = {f"r{k}": {"bm25": {"k": k}} for k in (1, 2, 3)}
        town.build(study({"judge": judge}, retrievers=retrievers), "home")
        stage = town.bench.stages["judgements"]
        assert all(map(stage.waits_for_servers, stage.keys()))
        equal = len(server.requests)
        assert 4 <= equal < 3 * len(EVERYONE), "equal cases of several cells are one call"
        town.build(study({"words": {"counting": {}}}), "other")
        assert not any(map(town.bench.stages["judgements"].waits_for_servers, stage.keys()[:0]))
        words = town.bench.stages["judgements"]
        assert not any(map(words.waits_for_servers, words.keys()))
