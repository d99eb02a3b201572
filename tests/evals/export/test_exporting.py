"""An export answers as its cell, in another home and without its study; what was changed in it is refused."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.export.checksums import SUMS, seal, verify_checksums
from rag_assay.evals.export.loader import open_export, open_exported, read_export
from rag_assay.evals.export.revisions import (
    ExpectedResult,
    answer_record,
    measured,
    read_expected,
    unlike,
)
from rag_assay.evals.export.writer import ExportOptions, export
from rag_assay.evals.pipeline.pipeline import Pipeline
from rag_assay.evals.study.cells import Cell
from rag_assay.warehouse.errors import AssayError, InputError
from rag_assay.warehouse.paths import Home
from tests.fakes.forking import PROGRAM
from tests.fakes.openai_server import FakeOpenAI, answer
from tests.fakes.shipped import OWN, N, Shipped
from tests.fakes.tiny import Bench

pytestmark = pytest.mark.models
KEY = "sk-never-in-a-folder-0123456789"


@pytest.fixture
def bench(shipped: Shipped) -> Bench:
    return shipped.bench


@pytest.fixture
def work(bench: Bench) -> Iterator[BuildContext]:
    held = BuildContext(bench.home)
    yield held
    held.close()


@pytest.fixture
def elsewhere(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], BuildContext]]:
    """Makes the work of another home, while all of the first one is gone."""
    folder = bench.home.root.parent
    away = tmp_path / "away"
    work = BuildContext(Home(tmp_path / "other"))

    def make() -> BuildContext:
        folder.rename(away)
        monkeypatch.setenv("ASSAY_HOME", str(work.home.root))
        return work

    yield make
    work.close()
    away.rename(folder)


def cell_of(bench: Bench, retriever: str, generator: str) -> Cell:
    return next(
        one for one in bench.study.cells() if (one.retriever, one.generator) == (retriever, generator)
    )


def asked_again(pipeline: Pipeline, expected: ExpectedResult) -> ExpectedResult:
    question = {**expected.question, "evidence": []}
    result = pipeline.ask_row(question)
    passages = tuple(
        {"chunk_id": one.chunk, "start": one.start, "end": one.end, "score": one.score}
        for one in result.passages
    )
    found = result.answer
    assert found is not None
    read = result.passages[: result.read] if found.passages is None else found.passages
    row = {
        "status": found.status,
        "answer": found.text,
        "chunk_ids": [one.chunk for one in read],
        "citations": [
            {**vars(one), "chunk_id": one.chunk, "doc_id": one.document} for one in found.citations
        ],
    }
    return ExpectedResult(question, str(result.found.status), passages, answer_record(row))


def test_every_cell_answers_elsewhere_as_it_was_measured(
    bench: Bench, work: BuildContext, tmp_path: Path, elsewhere: Callable[[], BuildContext]
) -> None:
    cells = bench.study.cells()
    assert {one.retriever for one in cells} == {"chain", "hybrid"}
    stored = {}
    for cell in cells:
        written = export(bench.study, cell, tmp_path / "out" / cell.key, work)
        stored[cell.key] = measured(bench.study, cell, work)
        assert written.questions == len(stored[cell.key]) == N
    (tmp_path / "out").rename(tmp_path / "moved")
    other = elsewhere()
    for cell in cells:
        folder = tmp_path / "moved" / cell.key
        assert read_expected(folder) == stored[cell.key]
        with open_exported(folder, other) as pipeline:
            for one in stored[cell.key][::10]:
                assert unlike(one, asked_again(pipeline, one)) is None, (cell.key, one.question)
    folder = tmp_path / "moved" / "tiny.t16.minilm.chain.extractive"
    assert printed_by_example(folder, other.home)[0].startswith("The documents do not say.")
    recipe = yaml.safe_load((folder / "recipe.yaml").read_text())
    assert "tuned" not in json.dumps(recipe)


def printed_by_example(folder: Path, home: Home) -> list[str]:
    """Run the script of an export in a process of its own; return its lines: the answer, then passages."""
    script = "import runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"
    example = [str(folder / "example.py"), "Who is the mayor of Atlantis?"]
    command = [sys.executable, "-m", PROGRAM, script, *example]
    environment = {**os.environ, "ASSAY_HOME": str(home.root)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[1].startswith("[1] ")
    return lines


def test_what_is_another_answer_is_told(bench: Bench, work: BuildContext) -> None:
    (noon, *_) = measured(bench.study, cell_of(bench, "hybrid", "gated"), work)
    assert unlike(noon, noon) is None
    first, *rest = noon.passages
    assert noon.answer is not None
    changed = {
        "passage 1 is another one": replace(noon, passages=({**first, "start": first["start"] + 1}, *rest)),
        "0 passages, and not": replace(noon, passages=()),
        "passage 1 scores": replace(noon, passages=({**first, "score": first["score"] + 0.01}, *rest)),
        "its search ended as error": replace(noon, status="error"),
        "the answer's text is": replace(noon, answer={**noon.answer, "text": "At one."}),
        "the answer's citations is": replace(noon, answer={**noon.answer, "citations": []}),
        "it has no answer": replace(noon, answer=None),
    }
    for sentence, other in changed.items():
        assert sentence in (unlike(noon, other) or ""), sentence


def test_nothing_of_this_machine_and_no_secret_is_in_it(
    bench: Bench, work: BuildContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    folder = tmp_path / "out"
    export(bench.study, cell_of(bench, "hybrid", "model"), folder, work)
    assert (folder / "prompts" / "own.j2").read_text() == OWN
    for path in folder.rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        assert KEY.encode() not in data
        assert str(bench.home.root.parent).encode() not in data, path
        assert b"openai/scripted" in data or path.name != "recipe.yaml"
    prompt = bench.study.path.parent / "own.j2"
    prompt.write_text(f"{OWN}{{# {KEY} #}}")
    with pytest.raises(InputError, match="OPENAI_API_KEY; an export holds no secret"):
        export(
            Bench(bench.study.path, bench.home).study,
            cell_of(bench, "hybrid", "model"),
            tmp_path / "o2",
            work,
        )
    prompt.write_text(OWN)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith((".", "o2"))] == []


def test_a_damaged_missing_or_added_file_is_a_sentence(
    bench: Bench, work: BuildContext, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    export(bench.study, cell_of(bench, "hybrid", "gated"), folder, work)

    def refused(change: Callable[[Path], object], sentence: str, *, sealed: bool = False) -> None:
        copy = tmp_path / "copy"
        shutil.copytree(folder, copy, symlinks=True)
        change(copy)
        if sealed:
            seal(copy)
        with pytest.raises(AssayError, match=sentence):
            open_exported(copy, work)
        shutil.rmtree(copy)

    for path in [path for path in folder.rglob("*") if path.is_file() and path.name != SUMS]:
        before = path.read_bytes()
        path.write_bytes(before[:-1] + bytes([before[-1] ^ 1]) if before else b"?")
        with pytest.raises(InputError, match=f"{re.escape(path.name)}: has other bytes"):
            verify_checksums(folder)
        path.unlink()
        with pytest.raises(InputError, match=f"{re.escape(path.name)}: is missing"):
            verify_checksums(folder)
        path.write_bytes(before)
    refused(lambda copy: (copy / "index" / "more.py").write_text(""), "more.py: was added")
    refused(lambda copy: (copy / "link").symlink_to("/etc/passwd"), "link: is a link")
    refused(lambda copy: os.mkfifo(copy / "pipe"), "pipe: is a link or no regular file")
    refused(lambda copy: (copy / SUMS).unlink(), "is not an exported folder")
    refused(lambda copy: (copy / SUMS).write_text(f"{'0' * 64}  ../../etc/passwd\n"), "SUMS:1: is not a line")
    recipe = yaml.safe_load((folder / "recipe.yaml").read_text())

    def rewritten(**parts: object) -> Callable[[Path], object]:
        return lambda copy: (copy / "recipe.yaml").write_text(yaml.safe_dump({**recipe, **parts}))

    model = {"llm": {"model": "openai/x", "prompt": {"file": "../../../etc/passwd"}}}
    far = {"llm": {"model": "openai/x", "api_base": "https://thief.example/v1"}}
    weights = {**recipe["embedder"], "model": "models/mine"}
    refused(rewritten(generator=model), "which is not in its prompts/", sealed=True)
    refused(rewritten(generator=far), "key of its provider to https://thief.example/v1", sealed=True)
    refused(rewritten(embedder=weights), "the weights mine are neither in", sealed=True)
    refused(rewritten(embedder={**weights, "model": "../mine"}), "not in its models/", sealed=True)
    refused(rewritten(description="${OPENAI_API_KEY}"), "names a variable of the environment", sealed=True)
    refused(rewritten(form=2), "is of a form that this version cannot read", sealed=True)
    refused(rewritten(surprise=1), "surprise", sealed=True)
    refused(rewritten(retriever={"bm26": {}}), "bm26", sealed=True)
    refused(lambda copy: (copy / "recipe.yaml").write_text("[" * 100_000), "recipe.yaml", sealed=True)
    refused(lambda copy: (copy / "revisions.json").write_text("[" * 100_000), "cannot be read", sealed=True)
    refused(lambda copy: (copy / "revisions.json").write_text("[]"), "not a record of an export", sealed=True)
    refused(
        lambda copy: (copy / "questions.jsonl").write_text("{}\n"), r"jsonl:1: is not a question", sealed=True
    )


def test_an_export_asks_no_server_that_its_reader_does_not_trust(
    bench: Bench, work: BuildContext, tmp_path: Path
) -> None:
    """Whatever part names the model, and however: by an address, in a name, as a fallback."""
    folder = tmp_path / "out"
    export(bench.study, cell_of(bench, "hybrid", "gated"), folder, work)
    recipe = yaml.safe_load((folder / "recipe.yaml").read_text())

    def resealed(**parts: object) -> Path:
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy)
        (copy / "recipe.yaml").write_text(yaml.safe_dump({**recipe, **parts}))
        seal(copy)
        return copy

    with FakeOpenAI(respond=lambda _: answer("stolen")) as thief:
        host = thief.api_base.split("/")[2]
        far = {"model": "openai/x", "api_base": "https://thief.example/v1"}
        named = [
            {"model": f"oobabooga/http://{host}"},
            {"model": f"huggingface/http://{host}/v1"},
            {"model": f"ollama/{host}"},
            {"model": f"oobabooga/http://{host}@{'0' * 40}"},
            {"model": "petals/x"},
            {"model": "custom/x"},
            {"model": "openai/x", "fallback": [f"oobabooga/http://{host}"]},
            {"model": "openai/x", "fallback": ["triton/x"]},
            {"model": "openai/x", "fallback": [far]},
            {"model": "openai/x", "api_base": "http://127.0.0.1@thief.example/"},
            {"model": "openai/x", "api_base": "http://user:secret-0815@127.0.0.1:1/v1"},
            {"model": "openai/x", "api_base": "http://127.0.0.1\\@thief.example/"},
            far,
        ]
        parts: list[dict[str, object]] = [{"generator": {"llm": one}} for one in named]
        parts += [{"retriever": [{"hyde": {"by": "llm", **one}}, {"bm25": {}}]} for one in named]
        parts += [{"embedder": {"model": f"oobabooga/http://{host}", "api": {}}}]
        parts += [{"embedder": {"model": "triton/x", "api": {}}}]
        parts += [{"embedder": {"model": "openai/x", "api": {"base": "https://thief.example"}}}]
        for one in parts:
            with pytest.raises(InputError) as refused:
                read_export(resealed(**one), work)
            assert re.search(r"api_base|--trust|credentials|address", str(refused.value)), one
            assert "secret-0815" not in str(refused.value)
        copy = resealed(generator={"llm": far})
        for trusted in ("https://thief.example:443", "https://thief.example/v1"):
            assert read_export(copy, work, [trusted], anyway=True).recipe.generator is not None
        for other in ("http://thief.example/v1", "https://thief.example:8443", "https://other.example"):
            with pytest.raises(InputError, match=r"--trust https://thief\.example/v1"):
                read_export(copy, work, [other], anyway=True)
        with pytest.raises(InputError, match="--trust: an address begins"):
            read_export(copy, work, ["thief.example"])
        assert thief.requests == []


def test_other_code_is_told_before_it_answers(bench: Bench, work: BuildContext, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    export(bench.study, cell_of(bench, "hybrid", "gated"), folder, work, ExportOptions(questions=1))
    path = folder / "revisions.json"
    record = json.loads(path.read_text())
    record["results_hang_on"]["retriever"] = ["of yesterday"]
    record["libraries"]["lancedb"] = "0.1"
    path.write_text(json.dumps(record))
    seal(folder)
    with pytest.raises(InputError, match="the retriever is another one here than in the export"):
        open_exported(folder, work)
    found = read_export(folder, work, anyway=True)
    assert len(found.differences) == 1
    assert "(measured with 0.1)" in found.libraries[0]
    with open_export(found, work) as pipeline:
        assert pipeline.ask("When does the ferry leave?").answer is not None


def test_nothing_of_others_is_replaced(bench: Bench, work: BuildContext, tmp_path: Path) -> None:
    cell, folder = cell_of(bench, "hybrid", "gated"), tmp_path / "out"
    folder.mkdir()
    first = export(bench.study, cell, folder, work, ExportOptions(questions=0))
    assert not (folder / "questions.jsonl").exists(), "an empty folder is as good as none"
    with pytest.raises(InputError, match="holds an export; --force replaces it"):
        export(bench.study, cell, folder, work)
    assert export(bench.study, cell, folder, work, ExportOptions(force=True)).digest != first.digest
    (folder / "mine.txt").write_text("notes")
    with pytest.raises(InputError, match=r"no part of the export \(mine.txt\)"):
        export(bench.study, cell, folder, work, ExportOptions(force=True))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("mine")
    with pytest.raises(InputError, match="exists and is not an export"):
        export(bench.study, cell, tmp_path / "notes", work, ExportOptions(force=True))


def test_weights_travel_with_it(
    bench: Bench,
    work: BuildContext,
    tmp_path: Path,
    elsewhere: Callable[[], BuildContext],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "out"
    export(bench.study, cell_of(bench, "hybrid", "gated"), folder, work, ExportOptions(with_models=True))
    assert (folder / "models" / "all-MiniLM-L6-v2" / "config.json").is_file()
    other = elsewhere()
    monkeypatch.setenv("ASSAY_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/none")
    with open_exported(folder, other) as pipeline:
        assert pipeline.ask("When does the ferry leave?").passages
