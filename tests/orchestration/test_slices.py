"""A slice leaves what the whole study has alone, computes nothing twice, and says what it is."""

from __future__ import annotations

import json
from html import unescape

import pytest

from rag_assay.evals.study.run_studies import slice_study
from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.driver import Driver
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.connection import connect
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.tables import rebuild
from tests.fakes.commands import assay
from tests.fakes.openai_server import FakeOpenAI, answer
from tests.orchestration.conftest import Finished

pytestmark = pytest.mark.models


def of_whole(home: Home) -> dict[str, bytes]:
    """Pointers and reports of what is no slice, with what stands in them."""
    paths = [*(home.root / "pointers").glob("*/*.json"), *home.reports.glob("*")]
    return {str(path): path.read_bytes() for path in paths if "~" not in path.name}


def test_a_slice_beside_its_study(finished: Finished) -> None:
    home, path = finished.home, str(finished.path)
    before = of_whole(home)
    part = slice_study(read_study(finished.path), ["*.words.*"])
    done = assay("run", path, "--cells", "*.words.*")
    assert done.returncode == 0, done.stderr
    sentence = "A slice of town: 1 of 2 cells, 3 of 3 questions; not the study's result."
    assert sentence in done.stderr
    assert sentence in " ".join(done.stdout.split())
    assert "computed" not in "".join(
        line
        for line in done.stderr.splitlines()
        if line.startswith("stage") and "leaderboard" not in line and "report" not in line
    ), "all that it needs is there already"
    assert of_whole(home) == before
    assert sentence in unescape(home.report(part.study).read_text())
    assert "A slice of town" not in home.report("town").read_text()
    store = ArtifactStore(home)
    for stage, end in (("rankings", ""), ("answers", ".quote"), ("scores", ".quote")):
        names = (part.study, "town")
        mine, whole = (store.current(stage, f"{name}.t16.minilm.words{end}") for name in names)
        assert mine is not None
        assert whole is not None
        assert mine.identity == whole.identity

    small = assay("run", path, "--cells", "*.words.*", "--questions", "q1", "--only", "rankings")
    assert small.returncode == 0
    assert "Built as far as rankings" in small.stderr
    assert "answers " not in small.stderr
    assert of_whole(home) == before
    assert Driver(read_study(finished.path), home).run().unchanged
    again = assay("run", path, "--cells", "*.words.*")
    assert "everything was up to date" in again.stderr

    listed = assay("list", ASSAY_STUDIES=str(finished.path.parent)).stdout
    assert f"{part.study}" in listed
    assert "1 of 2" in listed
    assert assay("report", part.study, "--open", BROWSER="true").stdout.strip() == str(
        home.report(part.study)
    )
    assert assay("report", part.study, "--format", "json").returncode == 0
    assert (
        "belongs to the whole: give town"
        in assay("ratings", "queue", part.study, "x.csv", "--annotator", "Anna").stderr
    )
    rebuild(home)
    with connect(home.database) as connection:
        cells = connection.execute("SELECT DISTINCT cell FROM current_scores ORDER BY 1").fetchall()
    assert [name for (name,) in cells] == sorted(
        [*(f"town.t16.minilm.{name}.quote" for name in ("meaning", "words")), part.cells()[0].key]
    )
    assert assay("workspace", "forget", part.study).returncode == 0
    assert part.study not in assay("list", ASSAY_STUDIES=str(finished.path.parent)).stdout
    assert assay("report", part.study, "--open").returncode == 2
    with connect(home.database) as connection:
        left = connection.execute("SELECT count(*) FROM pointers WHERE starts_with(key, ?)", [part.study])
        assert left.fetchone() == (0,)
    assert of_whole(home) == before


def test_calls_of_a_slice_are_not_paid_again(finished: Finished) -> None:
    with FakeOpenAI(respond=lambda _: answer("Twelve pounds.")) as server:
        model = f"{{model: openai/fake, api_base: {server.api_base}}}"
        study = finished.edit(
            "  quote: {extractive: {passages: 2, max_tokens: 40}}\n", f"  asked: {{llm: {model}}}\n"
        )
        first = Driver(slice_study(study, ["*.words.*"], "q1,q2"), finished.home).run()
        assert first.ok
        assert len(server.requests) == 2
        whole = Driver(study, finished.home).run()
        assert whole.ok
        asked = [json.dumps(one.body, sort_keys=True) for one in server.requests]
        assert len(asked) == len(set(asked)) > 2, "nothing that was asked is asked again"
        later = Driver(slice_study(study, (), "2"), finished.home).run()
        assert later.ok
        assert len(server.requests) == len(asked)
        assert Driver(study, finished.home).run().unchanged


def test_stages_are_walked_with_what_they_need(assay_home: Home, study_path: object) -> None:
    done = assay("run", str(study_path), "--only", "questions,chunks")
    assert done.returncode == 0, done.stderr
    walked = [line.split()[4] for line in done.stderr.splitlines() if line.startswith("stage")]
    assert walked == ["pages", "documents", "chunks", "questions"]
    wrong = assay("run", str(study_path), "--only", "chunk")
    assert wrong.returncode == 2
    assert "unknown stage 'chunk'; did you mean `chunks`?" in wrong.stderr
