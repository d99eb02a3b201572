"""The GitHub action: its steps as a runner's shell runs them, and the comment on the pull request."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from rag_assay.orchestration.commands.ci import PullRequest
from tests.fakes import forking
from tests.fakes.commands import assay
from tests.fakes.processes import ROOT
from tests.fakes.receivers import pull_request_thread
from tests.orchestration.conftest import Finished

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
MARK = "<!-- rag-assay: town -->"


def _step(name: str) -> dict[str, Any]:
    return next(step for step in STEPS if step.get("name") == name)


def _shell(script: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script as runners do for `shell: bash`, with programs of `folder/bin` before others."""
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(
        command,
        env={**os.environ, **environment, "PATH": path},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def _program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def _event(folder: Path, **content: object) -> str:
    path = folder / "event.json"
    path.write_text(json.dumps(content))
    return str(path)


@pytest.fixture
def github(tmp_path: Path) -> dict[str, str]:
    """The environment of a run of GitHub Actions for a pull request."""
    return {
        "GITHUB_REPOSITORY": "acme/docs",
        "GITHUB_EVENT_PATH": _event(tmp_path, pull_request={"number": 7}),
        "GITHUB_TOKEN": "t0ken-of-the-job",
    }


def test_the_action_comments_the_diff_and_fails_under_a_gate(
    finished: Finished, tmp_path: Path, github: dict[str, str]
) -> None:
    _program(
        tmp_path / "bin" / "assay",
        f'#!/bin/sh\nexec {shlex.join(forking.command("-m", "rag_assay.orchestration.start"))} "$@"\n',
    )
    text = finished.path.read_text()
    cut = re.sub(r"t16: .*", lambda found: found[0].replace("16", "24").replace("t24", "t16", 1), text)
    assert cut != text
    finished.path.write_text(cut)
    outputs, step = tmp_path / "outputs", tmp_path / "summary.md"
    inputs = {
        "STUDY": str(finished.path),
        "GATES": "ndcg@10=0\n\nrouge_l=0.999\n",
        "COMMENT": "true",
        "WORKSPACE": str(finished.home.root),
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_OUTPUT": str(outputs),
        "GITHUB_STEP_SUMMARY": str(step),
    }
    assert inputs.keys() - {"RUNNER_TEMP", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"} == (
        _step("Run")["env"].keys() - {"GITHUB_TOKEN"}
    )
    with pull_request_thread() as thread:
        person = {"body": f"{MARK}\nmine", "user": {"type": "User"}}
        thread.comments = [{**person, "id": number} for number in range(98)]
        thread.comments += [{"id": 98, "body": None, "user": None}, {**person, "id": 99, "user": None}]
        environment = {**github, "GITHUB_API_URL": thread.url}
        done = _shell(_step("Run")["run"], tmp_path, **environment, **inputs)
        assert done.returncode == 3, done.stderr
        assert "gate failed: rouge_l of the leader is at least 0.999" in done.stderr
        assert len(thread.comments) == 101
        body = thread.comments[-1]["body"]
        assert body.startswith(f"{MARK}\n## town\n")
        assert "| FAILED | rouge\\_l of the leader is at least 0.999 |" in body
        assert "town – what changed" in body, "the workspace had a result before"
        assert "t16" in body.partition("what changed")[2]
        assert body.partition("\n")[2].startswith(step.read_text())
        written = dict(line.split("=") for line in outputs.read_text().splitlines())
        assert Path(written["junit"]).is_file()
        assert Path(written["reports"], "town.html").is_file()

        done = assay("run", str(finished.path), "--comment", **environment)
        assert done.returncode == 0, done.stderr
        assert len(thread.comments) == 101, "one comment, kept up to date, and those of people are theirs"
        assert "No differences: both are the same result." in thread.comments[-1]["body"]
        assert "FAILED" not in thread.comments[-1]["body"]
        assert thread.tokens == {"Bearer t0ken-of-the-job"}

        thread.status = 403
        done = assay("run", str(finished.path), "--comment", **environment)
        assert done.returncode == 0, "the result counts, not the comment"
        assert "GitHub answered 403; the job needs `permissions: {pull-requests: write}`" in done.stderr
    done = assay("run", str(finished.path), "--comment", **environment)
    assert done.returncode == 0
    assert "warning: no comment on pull request 7: ConnectError" in done.stderr
    done = assay(
        "run",
        str(finished.path),
        "--comment",
        **{**github, "GITHUB_EVENT_PATH": _event(tmp_path, ref="main")},
    )
    assert done.returncode == 0
    assert "This run belongs to no pull request" in done.stderr


def test_a_reply_that_is_none_of_github_is_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    odd: list[object] = [{"message": "moved"}, [5], [{}], [{"body": 5, "user": None}], "text"]
    with pull_request_thread() as thread:
        for thread.odd in odd:
            PullRequest(thread.url, "acme/docs", 7, "t0ken-of-the-job").comment(MARK, "## town")
            assert "warning: no comment on pull request 7: " in capsys.readouterr().err, thread.odd
        assert thread.comments == []


def test_what_cannot_be_commented_on_stops_before_it_begins(
    finished: Finished, tmp_path: Path, github: dict[str, str]
) -> None:
    (tmp_path / "broken.json").write_text("[")
    for changed, expected in (
        ({"GITHUB_REPOSITORY": ""}, "--comment works in GitHub Actions, but GITHUB_REPOSITORY is not set"),
        ({"GITHUB_TOKEN": ""}, "GITHUB_TOKEN is not set; give the step `env: {GITHUB_TOKEN:"),
        ({"GITHUB_EVENT_PATH": str(tmp_path / "broken.json")}, "is not a GitHub event"),
        ({"GITHUB_EVENT_PATH": str(tmp_path / "none.json")}, "is not a GitHub event"),
        ({"GITHUB_EVENT_PATH": _event(tmp_path, pull_request={"number": None})}, "is not a GitHub event"),
    ):
        done = assay("run", str(finished.path), "--comment", **{**github, **changed})
        assert done.returncode == 2, changed
        assert expected in done.stderr
        assert "stage" not in done.stderr


def test_the_action_installs_by_the_locks(tmp_path: Path) -> None:
    """pip and uv are stand-ins that note their arguments: a real installation takes minutes."""
    called = tmp_path / "called"
    noting = f'#!/bin/sh\necho "$(basename "$0") $*" >> {called}\n'
    _program(tmp_path / "bin" / "python", noting)
    for name in ("python", "uv"):
        _program(tmp_path / "rag-assay" / "bin" / name, noting)
    paths = tmp_path / "paths"
    places = {"ACTION": str(ROOT), "RUNNER_TEMP": str(tmp_path), "GITHUB_PATH": str(paths)}
    done = _shell(_step("Install")["run"], tmp_path, **places, EXTRAS="formats,local")
    assert done.returncode == 0, done.stderr
    lines = called.read_text().splitlines()
    assert len(lines) == 4
    assert f"--constraints {ROOT}/requirements.lock {ROOT}[formats,local]" in lines[-1]
    assert f"-r {ROOT}/torch.lock" in lines[-2]
    assert (tmp_path / "uv.lock").read_text().startswith("uv==")
    assert paths.read_text() == f"{tmp_path}/rag-assay/bin\n"


def test_no_text_of_others_is_read_as_shell_and_other_actions_are_pinned() -> None:
    assert [step.get("name") for step in STEPS if "${{" in step.get("run", "")] == []
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", step["uses"]) for step in STEPS if "uses" in step)
    used = set(re.findall(r"inputs\.(\w+)", (ROOT / "action.yml").read_text()))
    assert used == ACTION["inputs"].keys()
    save, restore = (
        next(one for one in STEPS if part in one.get("uses", "")) for part in ("save", "restore")
    )
    assert save["with"] == {key: restore["with"][key] for key in ("path", "key")}
    assert "always()" in save["if"], "a failed gate does not cost the next run its results"
