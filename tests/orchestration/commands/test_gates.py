"""`assay run` for a server of continuous integration: gates, their exit code, JUnit XML, GitHub's output."""

from __future__ import annotations

from pathlib import Path

from lxml import etree

from tests.fakes.commands import assay
from tests.orchestration.conftest import Finished


def test_gates_decide_the_exit_code_and_what_a_server_reads(finished: Finished, tmp_path: Path) -> None:
    junit, step = tmp_path / "junit.xml", tmp_path / "summary.md"
    step.write_text("before\n")
    passing = ("--fail-under", "ndcg@10=0.1", "--fail-under", "evidence_coverage@5@t16.minilm.words.quote=0")
    done = assay("run", str(finished.path), *passing, "--junit", str(junit))
    assert done.returncode == 0, done.stderr
    assert "gate passed: ndcg@10 of the leader is at least 0.100" in done.stderr
    root = etree.fromstring(junit.read_bytes())
    suites = {suite.get("name"): suite for suite in root}
    assert {"pages", "answers", "report", "checks", "gates"} <= suites.keys()
    cells = {"town.t16.minilm.words.quote", "town.t16.minilm.meaning.quote"}
    assert {case.get("name") for case in suites["answers"]} == cells
    assert (root.get("failures"), root.get("errors"), suites["gates"].get("tests")) == ("0", "0", "2")

    failing = ("--fail-under", "rouge_l=0.999", "--fail-under", "ndcg@10:low=0")
    environment = {"GITHUB_STEP_SUMMARY": str(step), "GITHUB_WORKSPACE": str(finished.path.parent)}
    done = assay("run", str(finished.path), *failing, "--junit", str(junit), "--github", **environment)
    assert done.returncode == 3
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("::error")]
    assert line.startswith("::error file=town.yaml,line=")
    assert "gate failed: rouge_l of the leader is at least 0.999" in line
    written = step.read_text()
    assert written.startswith("before\n## town\n"), "other steps have written there, too"
    assert "| FAILED | rouge\\_l of the leader is at least 0.999 |" in written
    gates = etree.fromstring(junit.read_bytes())[-1]
    assert [case.find("failure") is None for case in gates] == [False, True]


def test_a_gate_that_cannot_be_read_stops_a_run_before_it_begins(finished: Finished, tmp_path: Path) -> None:
    for option, expected in (
        (("--fail-under", "ndgc@10=0.5"), "did you mean `ndcg@10`?"),
        (("--fail-under", "ndcg@10@t16.minilm.word.quote=0.5"), "did you mean `t16.minilm.words.quote`?"),
        (("--junit", str(tmp_path / "no" / "such.xml")), "there is no folder"),
    ):
        done = assay("run", str(finished.path), *option)
        assert done.returncode == 2
        assert expected in done.stderr
        assert "stage" not in done.stderr


def test_what_failed_is_an_error_with_its_line_and_its_reason(finished: Finished, tmp_path: Path) -> None:
    finished.edit(
        "generators:\n", "generators:\n  gone: {llm: {model: openai/x, api_base: 'http://127.0.0.1:9/v1'}}\n"
    )
    junit = tmp_path / "junit.xml"
    gate = ("--fail-under", "rouge_l@t16.minilm.words.gone=0")
    done = assay("run", str(finished.path), "--junit", str(junit), "--github", GITHUB_WORKSPACE=str(tmp_path))
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if line.startswith("::error")]
    number = finished.path.read_text().splitlines().index("generators:") + 2
    assert any(f"file={finished.path},line={number},title=answers failed::" in line for line in lines), lines
    answers = next(one for one in etree.fromstring(junit.read_bytes()) if one.get("name") == "answers")
    errors = {case.get("name"): case.find("error") for case in answers}
    error = errors["town.t16.minilm.words.gone"]
    assert error is not None
    assert "connection refused" in str(error.text)
    assert errors["town.t16.minilm.words.quote"] is None

    done = assay("run", str(finished.path), *gate)
    assert done.returncode == 3, "a gate without a value has failed, and that is more than a failed cell"
    assert "town.t16.minilm.words.gone has no value" in done.stderr
