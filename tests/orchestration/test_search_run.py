"""A race of real cells: nothing is paid twice, a kill loses nothing, what is left is as in the whole grid."""

from __future__ import annotations

import json
from html import unescape
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from rag_assay.evals.study.run_studies import slice_study
from rag_assay.evals.study.study import Study
from rag_assay.evals.study.study_file import read_study
from rag_assay.evals.successive_halving.records import narrow_study, stored_record
from rag_assay.orchestration.driver import Driver
from rag_assay.orchestration.search_run import search_study
from rag_assay.orchestration.settings import prepare
from rag_assay.orchestration.stages import up_to
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.connection import connect
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.paths import home as home_now
from rag_assay.warehouse.tables import rebuild
from tests.fakes.openai_server import FakeOpenAI, Received, answer, failure

pytestmark = pytest.mark.models
TOLLS = {f"Bridge {name}": f"{n + 3} pounds" for n, name in enumerate("abcdefghijklmnop")}
STUDY = """\
study: tolls
clusters: none
sources: {texts: {reader: folder, path: texts}}
corpus: {name: tolls, sources: [texts]}
chunkings: {t16: {tokens: {size: 16, overlap: 4}}}
embedders: {minilm: {model: all-MiniLM-L6-v2, max_tokens: 256}}
retrievers: {words: {bm25: {k: 5}}, meaning: {dense: {k: 5}}}
generators:
  good: {llm: {model: openai/good, api_base: API}}
  also: {llm: {model: openai/also, api_base: API}}
  bad: {llm: {model: openai/bad, api_base: API}}
questions: [{file: tolls.questions.yaml}]
metrics: [rouge_l, ndcg@10]
search: {method: successive_halving, first: 8}
"""


def write(folder: Path, api: str, changes: tuple[tuple[str, str], ...] = ()) -> Path:
    """Write a study of sixteen questions about as many bridges; return its path."""
    (folder / "texts").mkdir(exist_ok=True)
    questions = ["question_set: tolls", "questions:"]
    for at, (bridge, toll) in enumerate(TOLLS.items()):
        text = f"The toll of {bridge} is {toll}."
        (folder / "texts" / f"{at}.txt").write_text(text + " It was built of stone and has seven arches.")
        evidence = f"evidence: [{{url: {at}.txt, quote: '{text}'}}]"
        said = f"question: What is the toll of {bridge}?, ground_truth: {toll}"
        questions.append(f"  - {{id: q{at:02}, {said}, {evidence}}}")
    (folder / "tolls.questions.yaml").write_text("\n".join(questions))
    text = STUDY.replace("API", api)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "tolls.yaml"
    path.write_text(text)
    return path


def respond(request: Received) -> Any:
    """Answer as the model is called: what the question asks for, or nothing of it."""
    if request.body["model"] == "dead":
        return failure(401, "no such key")
    if request.body["model"] == "bad":
        return answer("I should rather speak of birds.")
    said = json.dumps(request.body["messages"])
    asked = next(name for name in TOLLS if f"What is the toll of {name}?" in said)
    return answer(TOLLS[asked])


class Walks:
    """Walks rungs by a driver; stops before or after some of them, as a kill would."""

    def __init__(self, home: Home, stop: str | None = None) -> None:
        self.home, self.stop, self.walked = home, stop, list[str]()

    def __call__(self, part: Study, last: str) -> object:
        if self.stop == f"before {part.study}":
            raise KeyboardInterrupt
        self.walked.append(part.study)
        report = Driver(part, self.home).run(tuple(up_to(part, [last])))
        if self.stop == f"after {part.study}":
            raise KeyboardInterrupt
        return report


def rows(home: Home, study: Study, stage: str) -> dict[str, pl.DataFrame]:
    """Rows of a stage by cell: what does not depend on the clock."""
    store = ArtifactStore(home)
    kept = {
        "answers": ["question_id", "status", "answer", "chunk_ids"],
        "scores": ["question_id", "metric", "status", "value"],
        "hits": ["question_id", "rank", "chunk_id", "score"],
    }[stage]
    found = {}
    for cell in study.cells():
        place = ("rankings", cell.ranking) if stage == "hits" else (stage, cell.key)
        artifact = store.current(*place)
        assert artifact is not None
        table = read_parquet(store.folder(place[0], artifact.identity) / f"{stage}.parquet")
        found[cell.short] = table.select(kept).sort(kept[:2])
    return found


def prepared(root: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("ASSAY_HOME", str(root))
    monkeypatch.setenv("DAGSTER_HOME", "")
    prepare()
    return home_now()


def test_a_race_killed_at_every_rung(tmp_path: Path, weights: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    weights("all-MiniLM-L6-v2")
    with FakeOpenAI(respond=respond) as server:
        path = write(tmp_path, server.api_base)
        study, home = read_study(path), prepared(tmp_path / "var", monkeypatch)
        for stop in ("before tolls~rung1", "after tolls~rung1"):
            with pytest.raises(KeyboardInterrupt):
                search_study(study, home, Walks(home, stop))
        n_calls = len(server.requests)
        assert n_calls == 6 * 8
        walks, said = Walks(home), list[str]()
        found = search_study(study, home, walks, said.append)
        assert walks.walked == [], "a rung that was run is not run again"
        assert len(server.requests) == n_calls
        assert {cell.generator for cell in found.cells()} == {"good", "also"}
        assert "2 dropped as significantly worse" in said[0]
        report = Driver(found, home).run()
        assert report.ok, [one.failed for one in report.stages]
        assert len(server.requests) == n_calls + 4 * 8, (
            "the rest of the questions, in the cells that are left"
        )
        idle = Walks(home)
        assert search_study(study, home, idle).cells() == found.cells()
        assert idle.walked == []
        assert Driver(found, home).run().unchanged
        assert narrow_study(study, home).cells() == found.cells()

        page = unescape(home.report("tolls").read_text())
        assert "What the search left out" in page
        assert "meaning · bad" in page
        assert "2 cells significantly worse than a rung's leader" in page
        left = [one for one in json.loads(home.report_rows("tolls").read_text()) if "left_out_by" in one]
        assert {one["cell"] for one in left} == {
            f"tolls.t16.minilm.{name}.bad" for name in ("words", "meaning")
        }
        assert all(one["asked"] == 8 and one["p"] < one["level"] for one in left)
        assert all(one["behind_winner_high"] < 0 and one["chance_of_better"] < 0.01 for one in left)
        before = _searches(home)
        assert len(before) == 6
        rebuild(home)
        assert _searches(home) == before
        record = stored_record(study, home)
        assert record is not None
        assert (record.spared.evaluations, record.spared.of_evaluations) == (4 * 16 + 2 * 8, 6 * 16)

        other = prepared(tmp_path / "other", monkeypatch)
        whole = read_study(write(tmp_path, server.api_base, ((STUDY.splitlines()[-1] + "\n", ""),)))
        words = slice_study(whole, ["*.words.*"])
        assert Driver(words, other).run(tuple(up_to(words, ["scores"]))).ok
        for stage in ("hits", "answers", "scores"):
            mine, of_whole = rows(home, found, stage), rows(other, words, stage)
            both = sorted({*mine} & {*of_whole})
            assert both == ["t16.minilm.words.also", "t16.minilm.words.good"]
            assert all(mine[cell].equals(of_whole[cell]) for cell in both), stage


def _searches(home: Home) -> list[tuple[object, ...]]:
    with connect(home.database) as connection:
        return connection.execute("SELECT * FROM current_searches ORDER BY cell").fetchall()


def test_a_dead_model_is_named_and_not_dropped(
    tmp_path: Path, weights: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights("all-MiniLM-L6-v2")
    with FakeOpenAI(respond=respond) as server:
        changes = (
            ("openai/also", "openai/dead"),
            (
                "retrievers: {words: {bm25: {k: 5}}, meaning: {dense: {k: 5}}}",
                "retrievers: {words: {bm25: {}}}",
            ),
        )
        study, home = read_study(write(tmp_path, server.api_base, changes)), prepared(tmp_path, monkeypatch)
        said: list[str] = []
        found = search_study(study, home, Walks(home), said.append)
    assert {cell.generator for cell in found.cells()} == {"good", "also"}
    assert "Lacking values, and not dropped for that: 1, first t16.minilm.words.also" in said[-1]


@pytest.mark.parametrize(
    ("search", "kept"),
    [
        ("{method: one_factor_at_a_time, base: t16.minilm.words.also}", 4),
        ("{method: random, budget: {cells: 3}}", 3),
        ("{method: random, budget: {evaluations: 40}}", 2),
        ("{method: random, budget: {calls: 17}, seed: 3}", 1),
        ("{method: random, budget: {usd: 0}}", 6),  # models without a price cost nothing that is known
    ],
)
def test_searches_that_look_at_nothing(tmp_path: Path, search: str, kept: int) -> None:
    path = write(tmp_path, "http://127.0.0.1:9/v1", (("{method: successive_halving, first: 8}", search),))
    study, home = read_study(path), Home(tmp_path / "var")
    home.root.mkdir()
    found = search_study(study, home, Walks(home))
    assert len(found.cells()) == kept
    assert (
        search_study(study, home, Walks(home)).cells() == narrow_study(study, home).cells() == found.cells()
    )
    record = stored_record(study, home)
    assert record is not None
    assert record.spared.of_evaluations == 6 * 16
    assert record.spared.calls == pytest.approx((6 - kept) * 16)


@pytest.mark.parametrize(
    ("search", "said"),
    [
        ("{method: halving}", "tolls.yaml:14"),
        ("{method: random}", "a random search needs a `budget`"),
        ("{method: random, budget: {}}", "say how much may be asked"),
        ("{method: random, budget: {cells: 2}, first: 9}", "`first` is of successive_halving, not of random"),
        ("{method: successive_halving, base: x}", "`base` is of one_factor_at_a_time"),
        (
            "{method: one_factor_at_a_time, base: t16.minilm.words.god}",
            "did you mean `t16.minilm.words.good`",
        ),
        ("{method: successive_halving, growth: 1}", "tolls.yaml:14: search.growth: must be at least 1.25"),
    ],
)
def test_mistakes_have_their_line(tmp_path: Path, search: str, said: str) -> None:
    path = write(tmp_path, "http://127.0.0.1:9/v1", (("{method: successive_halving, first: 8}", search),))
    with pytest.raises(InputError) as caught:
        read_study(path)
    assert said in str(caught.value)
    assert "tolls.yaml:14" in str(caught.value)
