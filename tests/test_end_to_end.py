"""End-to-end tests are run where a change may break them, and all of them where git does not know."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import conftest
from tests.end_to_end import END_TO_END, EVERYWHERE, REPOSITORY, changed_since, is_affected

TEST = "tests/orchestration/web/test_chat_page.py::test_five_turns[de]"
OTHER = "tests/evals/test_scores.py::test_a"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository with two commits on `main`, the second one of `second.py`."""
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    for name in ("first.py", "second.py"):
        (tmp_path / name).write_text("1\n")
        commit(tmp_path, name)
    return tmp_path


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def commit(folder: Path, message: str) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", message)


def test_changes_are_those_of_the_branch_and_of_the_work_tree(clone: Path) -> None:
    assert changed_since("main", clone) == {"second.py"}, "on the branch itself: its last commit"
    git(clone, "checkout", "--quiet", "-b", "other")
    git(clone, "mv", "first.py", "moved ä.py")
    commit(clone, "moved")
    (clone / "second.py").write_text("2\n")
    (clone / "new.py").write_text("")
    assert changed_since("main", clone) == {"first.py", "moved ä.py", "second.py", "new.py"}


def test_where_git_does_not_know_it_is_said(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert changed_since("no-such-branch", clone) is None
    assert changed_since("main", tmp_path_factory.mktemp("plain")) is None
    shallow = tmp_path_factory.mktemp("shallow") / "clone"
    git(clone, "clone", "--quiet", "--depth", "1", f"file://{clone}", str(shallow))
    assert changed_since("origin/main", shallow) is None


@pytest.mark.parametrize("changed", [*EVERYWHERE, *END_TO_END["tests/orchestration/web/test_chat_page.py"]])
def test_a_change_of_what_it_depends_on_affects_a_test(changed: str) -> None:
    assert is_affected(TEST, {"README.md", changed})


def test_other_changes_affect_no_end_to_end_test_and_all_other_tests() -> None:
    assert not is_affected(TEST, {"README.md", "crawlers/settings.py", "tests/evals/test_scores.py"})
    assert is_affected(TEST, {"tests/orchestration/web/conftest.py"})
    assert is_affected(OTHER, set())
    assert is_affected("src/rag_assay/evals/scores.py::rag_assay.evals.scores", set())


def test_every_name_stands_for_something() -> None:
    """A file that is renamed would be left out no more, a package that is renamed always."""
    for name, packages in END_TO_END.items():
        assert (REPOSITORY / name).exists(), name
        for package in (*packages, *EVERYWHERE):
            assert (REPOSITORY / package).exists(), (name, package)


@pytest.mark.parametrize(
    ("reference", "changed", "kept"),
    [
        ("main", {"README.md"}, [OTHER]),
        ("main", {"evals/chat/turn.py"}, [TEST, OTHER]),
        ("main", None, [TEST, OTHER]),
        ("", {"README.md"}, [TEST, OTHER]),
    ],
)
def test_pytest_leaves_out_what_no_change_can_break(
    monkeypatch: pytest.MonkeyPatch, reference: str, changed: set[str] | None, kept: list[str]
) -> None:
    left: list[Any] = []

    def deselected(items: list[Any]) -> None:
        left.extend(items)

    items: list[Any] = [SimpleNamespace(nodeid=name) for name in (OTHER, TEST)]
    config: Any = SimpleNamespace(
        getoption=lambda name, _default: {"since": reference}[name],
        hook=SimpleNamespace(pytest_deselected=deselected),
    )
    monkeypatch.setattr(conftest, "changed_since", {"main": changed}.__getitem__)
    conftest.pytest_collection_modifyitems(config, items)
    assert [item.nodeid for item in items] == kept
    assert {item.nodeid for item in left} == {TEST, OTHER} - {*kept}


def test_pytest_knows_the_option_and_ci_runs_all_tests(pytestconfig: pytest.Config) -> None:
    assert isinstance(pytestconfig.getoption("since"), str)
    assert "make test SINCE= " in (REPOSITORY / ".ci" / "run").read_text()
