"""The driver: nothing twice, nothing lost, the rest goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest

from rag_assay.evals.reporting.rows import report_data
from rag_assay.evals.reporting.stale_results import stored_result
from rag_assay.evals.study.study import Study
from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.driver import Driver
from rag_assay.orchestration.run_report import RunReport
from rag_assay.warehouse.connection import connect
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.inference import call_failures
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.study_records import read_study_record
from tests.fakes.forking import PROGRAM
from tests.fakes.openai_server import FakeOpenAI, answer, failure
from tests.fakes.processes import ROOT
from tests.orchestration.conftest import Finished

pytestmark = pytest.mark.models


def built(report: RunReport) -> dict[str, int]:
    return {stage.stage: stage.built for stage in report.stages if stage.built}


def rows(home: Home, sql: str) -> list[tuple[object, ...]]:
    with connect(home.database) as connection:
        return connection.execute(sql).fetchall()


def test_second_walk_computes_nothing(finished: Finished) -> None:
    assert finished.report.ok, finished.report
    assert built(finished.report) == {
        "pages": 1,
        "documents": 1,
        "chunks": 1,
        "embeddings": 1,
        "indexes": 1,
        "questions": 1,
        "rankings": 2,
        "answers": 2,
        "scores": 2,
        "leaderboard": 1,
        "report": 1,
    }
    with dg.DagsterInstance.get() as instance:
        assert {run.status for run in instance.get_runs()} == {dg.DagsterRunStatus.SUCCESS}
    second = Driver(read_study(finished.path), finished.home).run()
    assert second.ok
    assert built(second) == {}
    assert all(stage.fresh == stage.keys for stage in second.stages)


def test_edited_document_goes_through_and_taken_back_costs_nothing(
    assay_home: Home, study_path: Path
) -> None:
    study = read_study(study_path)
    assert not Driver(study, assay_home).is_up_to_date()
    Driver(study, assay_home).run()
    assert Driver(study, assay_home).is_up_to_date()
    ferry = study_path.parent / "texts" / "ferry.txt"
    before, stat = ferry.read_text(), ferry.stat()
    ferry.write_text(before.replace("nineteen", "twenty"))
    for _ in range(2):
        assert not Driver(study, assay_home).is_up_to_date(), "looking builds nothing"
    report = Driver(study, assay_home).run()
    assert built(report)["embeddings"] == 1
    ((value,),) = rows(
        assay_home, "SELECT count(*) FROM current_scores WHERE metric = 'evidence_coverage@5' AND value < 1"
    )
    assert value == 2, "the quote is gone from the corpus, so both cells miss it"
    ferry.write_text(before)
    os.utime(ferry, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    back = Driver(study, assay_home).run()
    assert back.ok
    # The text of before is a new version of its document; what is made of it was made of it before.
    assert set(built(back)) <= {"pages", "documents", "report"}, "a report has one place"
    assert rows(assay_home, "SELECT min(value) FROM current_scores WHERE metric = 'evidence_coverage@5'") == [
        (1.0,)
    ]


def test_what_a_check_blocks_is_left_out_with_the_sentence_of_the_check(finished: Finished) -> None:
    """Gold that no document holds: no retriever is measured by it, and the page of before stays."""
    (finished.path.parent / "other.questions.yaml").write_text(
        "question_set: other\nquestions:\n  - id: q1\n    question: What does a mooring cost?\n"
        "    ground_truth: Twelve pounds.\n    evidence: [{url: gone.txt, quote: Twelve pounds}]\n"
    )
    study = finished.edit("town.questions.yaml", "other.questions.yaml")
    for _ in range(2):  # the second run finds it as it was, and says the same
        report = Driver(study, finished.home).run()
        stages = {stage.stage: stage for stage in report.stages}
        (why,) = stages["questions"].failed.values()
        assert "the check `gold_resolvable` fails: 0 of 1 pieces of evidence stand in the corpus" in why
        left_out = stages["rankings"].left_out
        assert set(left_out.values()) == {f"questions of town.other: {why}"}
        assert len(left_out) == stages["rankings"].keys == 2
        assert not stages["indexes"].failed, "what does not hang on it goes on"
        assert not stages["leaderboard"].built
    back = Driver(finished.edit("other.questions.yaml", "town.questions.yaml"), finished.home).run()
    assert back.ok
    assert set(built(back)) <= {"report"}


def test_failing_model_is_recorded_and_only_its_failures_are_asked_again(
    finished: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_failures, "fault_of", lambda _error: call_failures.CallFailure(is_passing=False))
    good = answer("Twelve pounds.")
    with FakeOpenAI(good, failure(500, "broken"), good, good) as server:
        model = f"{{model: openai/fake, api_base: {server.api_base}}}"
        study = finished.edit(
            "generators:\n",
            f"restrict: {{asked: {{retrievers: [meaning]}}}}\ngenerators:\n  asked: {{llm: {model}}}\n",
        )
        first = Driver(study, finished.home).run()
        assert not first.ok
        failed = {stage.stage: list(stage.failed) for stage in first.stages if stage.failed}
        assert failed == {"answers": ["town.t16.minilm.meaning.asked"]}
        assert rows(
            finished.home,
            "SELECT status, count(*) FROM current_answers WHERE cell = 'town.t16.minilm.meaning.asked' "
            "GROUP BY 1 ORDER BY 1",
        ) == [("error", 1), ("ok", 2)]
        missing = rows(
            finished.home,
            "SELECT value, reason FROM current_scores WHERE cell = 'town.t16.minilm.meaning.asked' "
            "AND metric = 'rouge_l' AND status = 'error'",
        )
        assert len(missing) == 1
        assert missing[0][0] is None
        assert missing[0][1]
        assert len(server.requests) == 3
        second = Driver(study, finished.home).run()
        assert second.ok
        assert len(server.requests) == 4, "only the failed question is asked again"
        assert built(second) == {"answers": 1, "scores": 1, "leaderboard": 1, "report": 1}


def test_failed_source_leaves_the_rest_out_with_the_root_cause(assay_home: Home, study_path: Path) -> None:
    for path in (study_path.parent / "texts").iterdir():
        path.unlink()
    (study_path.parent / "texts" / "one.txt").write_text("word")
    report = Driver(read_study(study_path), assay_home).run()
    stages = {stage.stage: stage for stage in report.stages}
    assert not report.ok
    why = stages["documents"].failed["texts"]
    assert why.startswith("the check `has_documents` fails: 0 documents of 1 page; 1 x "), why
    assert stages["answers"].left_out["town.t16.minilm.words.quote"] == f"documents of texts: {why}"
    assert stages["leaderboard"].built == stages["report"].built == 0
    assert not report.is_there("report")


def test_empty_source_is_a_sentence(assay_home: Home, study_path: Path) -> None:
    for path in (study_path.parent / "texts").iterdir():
        path.unlink()
    report = Driver(read_study(study_path), assay_home).run()
    reason = report.stages[0].failed["texts"]
    assert "texts" in reason
    assert "Traceback" not in reason


def test_torn_parquet_is_made_again(assay_home: Home, study_path: Path) -> None:
    study = read_study(study_path)
    Driver(study, assay_home).run(("pages", "documents"))
    (path,) = (assay_home.root / "documents").rglob("documents.parquet")
    path.write_bytes(path.read_bytes()[:100])
    report = Driver(study, assay_home).run(("pages", "documents", "chunks"))
    assert report.ok
    assert built(report) == {"documents": 1, "chunks": 1}


def flip(path: Path) -> None:
    """Change a byte in the middle of a file; its size stays."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_what_is_damaged_is_built_again_before_it_is_read(assay_home: Home, study_path: Path) -> None:
    study = read_study(study_path)
    Driver(study, assay_home).run(("pages", "documents", "chunks"))
    for name in ("documents", "chunks"):
        (path,) = (assay_home.root / name).rglob(f"{name}.parquet")
        flip(path)
    told: list[str] = []
    report = Driver(study, assay_home, lambda label, _done, of: told.append(label) if not of else None).run()
    assert report.ok
    reports = {stage.stage: stage for stage in report.stages}
    assert (reports["chunks"].built, reports["chunks"].fresh, reports["embeddings"].built) == (1, 0, 1)
    assert (reports["documents"].built, reports["documents"].fresh) == (1, 0), "chunks need them"
    assert not reports["embeddings"].failed
    for name in ("documents of texts", "chunks of town.t16"):
        why = f"{name} is damaged ({name.split()[0]}.parquet has other bytes than were written)"
        assert f"{why} and is built again" in told
    assert Driver(study, assay_home).run().unchanged


def test_killed_run_goes_on_and_its_dagster_run_is_closed(finished: Finished) -> None:
    """Two retrievers are new, and the run is killed between their answers."""
    script = (
        "import os, signal, sys\n"
        "from rag_assay.evals.study.study_file import read_study, study_path\n"
        "from rag_assay.orchestration.driver import Driver\n"
        "from rag_assay.warehouse.paths import home\n"
        "def kill(label, done, of):\n"
        "    if label == 'answers' and done == 1:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "Driver(read_study(study_path(sys.argv[1])), home(), kill).run()\n"
    )
    study = finished.edit("  words:", "  two: {bm25: {k: 2}}\n  three: {bm25: {k: 3}}\n  words:")
    process = subprocess.run(
        [sys.executable, "-m", PROGRAM, script, str(study.path)], cwd=ROOT, check=False, capture_output=True
    )
    assert process.returncode == -signal.SIGKILL, process.stderr.decode()
    with dg.DagsterInstance.get() as instance:
        started = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
        assert len(started) == 1
    report = Driver(study, finished.home).run()
    assert report.ok
    assert built(report) == {"answers": 1, "scores": 2, "leaderboard": 1, "report": 1}, (
        "the first answer cell was committed"
    )
    with dg.DagsterInstance.get() as instance:
        assert not instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
        assert instance.get_run_by_id(started[0].run_id).status is dg.DagsterRunStatus.FAILURE  # type: ignore[union-attr]
    cells = "SELECT count(DISTINCT cell) FROM current_answers"
    assert rows(finished.home, cells) == [(len(study.cells()),)]


def test_scheduled_crawl_is_a_row_and_its_documents_are_made(assay_home: Home, study_path: Path) -> None:
    """What a schedule of the UI starts, without the driver: pages and documents of one source."""
    from rag_assay.orchestration.study_definitions import definitions_of

    definitions = definitions_of([read_study(study_path)])
    with dg.DagsterInstance.get() as instance:
        done = definitions.resolve_job_def("crawl_texts").execute_in_process(
            instance=instance, partition_key="texts"
        )
        assert done.success
        for stage in ("pages", "documents"):
            assert instance.get_materialized_partitions(dg.AssetKey(stage)) == {"texts"}
    assert rows(assay_home, "SELECT source, new FROM crawls") == [("texts", 3)]


def test_second_driver_waits_for_the_first(assay_home: Home, study_path: Path) -> None:
    holder = (
        "import fcntl, os, sys, time\n"
        "file = open(sys.argv[1], 'a+')\n"
        "fcntl.flock(file, fcntl.LOCK_EX)\n"
        "file.truncate(0); file.write(str(os.getpid())); file.flush()\n"
        "print('held', flush=True)\n"
        "time.sleep(1.5)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", holder, str(assay_home.root / "run.lock")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    told: list[str] = []
    begin = time.monotonic()
    Driver(read_study(study_path), assay_home, lambda label, done, of: told.append(label)).run(("pages",))
    assert time.monotonic() - begin > 0.5
    assert any(f"process {process.pid}" in label for label in told)
    process.wait()


def test_a_budget_is_what_all_stages_of_a_run_spend_together(finished: Finished) -> None:
    # Each call costs 0.15 USD, so that two of them spend the budget; the cells would make six.
    with FakeOpenAI(
        respond=lambda _: answer("Words.", prompt_tokens=1_000_000, completion_tokens=0)
    ) as server:
        model = f"model: openai/gpt-4o-mini, api_base: {server.api_base}"
        finished.edit("quote: {extractive: {passages: 2, max_tokens: 40}}", f"words: {{llm: {{{model}}}}}")
        finished.edit("study: town", "study: town\nbudget: {usd: 0.3}")
        study = finished.edit(
            "words: {bm25: {k: 5}}", f"words: [{{hyde: {{by: llm, {model}}}}}, {{bm25: {{k: 5}}}}]"
        )
        report = Driver(study, finished.home).run()
        assert not report.ok
        assert len(server.requests) == 2
        spent = rows(finished.home, "SELECT sum(usd) FROM llm_calls")
    assert spent == [(pytest.approx(0.3),)]


def test_credentials_in_an_address_are_in_no_file_of_the_workspace(finished: Finished) -> None:
    with FakeOpenAI(respond=lambda _: answer("Words.")) as server:
        address = f"{server.api_base}?token=t0ken-one".replace("://", "://robot-one:pa55-word@")
        model = f"{{llm: {{model: openai/x, api_base: '{address}'}}}}"
        study = finished.edit("quote: {extractive: {passages: 2, max_tokens: 40}}", f"words: {model}")
        assert Driver(study, finished.home).run().ok
        assert server.requests
    record = read_study_record(finished.home, "town")
    assert record is not None
    assert record.finished is not None
    assert f"api_base: '{server.api_base}'" in record.finished.text
    kept = [path.read_bytes() for path in finished.home.root.rglob("*") if path.is_file()]
    for secret in (b"robot-one", b"pa55-word", b"t0ken-one"):
        assert not any(secret in data for data in kept)
    finished.edit("k: 5", "k: 6")
    shown = report_data(read_study(study.path), finished.home)
    assert any("the study file changed since this run" in note for note in shown.notes)


def test_a_result_of_other_sources_than_were_read_is_refused_or_shown_as_it_was_run(
    assay_home: Home, study_path: Path, edit: Callable[[str, str], Study]
) -> None:
    (study_path.parent / "more").mkdir()
    (study_path.parent / "more" / "inn.txt").write_text("The inn has nine beds.")
    whole = study_path.read_text()
    assert Driver(read_study(study_path), assay_home).run().ok
    before = report_data(read_study(study_path), assay_home)
    assert not any("study file changed" in note for note in before.notes)
    source = "{reader: folder, path: texts}"
    changes = {
        source: ["{reader: folder, path: more}"],
        "path: texts": ["path: texts, limits: {pages: 2}"],
        "sources: [texts]}": ["sources: [texts, more]}"],
    }
    for old, others in changes.items():
        for other in others:
            edit(source, f"{source}\n  more: {{reader: folder, path: more}}")
            changed = edit(old, other)
            with pytest.raises(InputError, match=r"^the (source texts|corpus town) in .* is no longer what"):
                stored_result(changed, assay_home)
            shown = report_data(changed, assay_home)  # nothing of the edited file, and it says so
            assert [note for note in shown.notes if note.startswith("the study file changed since this run")]
            assert shown.leaderboard.equals(before.leaderboard)
            assert (shown.corpus, shown.recipes) == (before.corpus, before.recipes)
            assert shown.scores.equals(before.scores)
            study_path.write_text(whole)
    (study_path.parent / "texts" / "new.txt").write_text("The bakery sells rolls.")
    moved = study_path.parent.rename(study_path.parent.with_name("elsewhere")) / study_path.name
    stored = Home(moved.parent / assay_home.root.name)
    assert len(report_data(read_study(moved), stored).scores), "the same study, moved with its home"
