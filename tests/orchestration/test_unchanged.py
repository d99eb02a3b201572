"""A command is answered from the last one exactly where nothing that it has read is different."""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rag_assay.orchestration import unchanged
from rag_assay.orchestration.unchanged import Recorder, answer, workspace_state
from rag_assay.warehouse.paths import Home
from tests.fakes.commands import Done, assay, assay_process
from tests.orchestration.conftest import QUESTIONS, TEXTS, Finished, write_study

ARGUMENTS = ("run", "study.yaml")
HEAVY = ("dagster", "polars", "torch", "numpy", "pyarrow", "duckdb", "pydantic", "typer", "litellm", "scrapy")


class Place:
    """A workspace, a study beside it, its documents, and a module that it imports."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "var"
        self.study = folder / "study.yaml"
        self.named = folder / "elsewhere" / "only-looked-at.bin"
        self.absent = folder / "prompts" / "own.md"
        self.documents = folder / "docs"
        self.module = folder / "lib" / "acme_parts.py"
        self.artifact = self.root / "chunks" / "a" / "chunks.parquet"
        self.record = self.root / "studies" / "s.json"
        for path in (self.study, self.named, self.documents / "a.md", self.module, self.artifact):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("x = 1")
        self.absent.parent.mkdir()
        self.record.parent.mkdir()
        self.record.write_text('{"study": "s", "path": "study.yaml"}')
        (self.root / "run.lock").touch()

    def run(self, meanwhile: Callable[[], object] = lambda: None) -> bool:
        """Read everything as an idle run does, print, and store; return whether that was stored."""
        recorder = Recorder(ARGUMENTS)
        recorder.before = workspace_state(self.root)
        self.study.read_text()
        for name in os.listdir(self.documents):  # noqa: PTH208 -- the other event
            (self.documents / name).read_text()
        with pytest.raises(FileNotFoundError):
            self.absent.read_text()
        meanwhile()
        with recorder.printing():
            sys.stdout.write("the leaderboard\n")
            sys.stderr.write("its report\n")
        return recorder.store(self.root, self.record, [str(self.named)])


class FewModules:
    """`sys` of a process that has imported little: each look asks about every file of a module."""

    @property
    def modules(self) -> dict[str, ModuleType]:
        return {name: one for name, one in sys.modules.items() if name.startswith(("acme_parts", "json"))}

    def __getattr__(self, name: str) -> Any:
        return getattr(sys, name)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    found = Place(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASSAY_HOME", str(found.root))
    monkeypatch.delenv("ASSAY_MODELS", raising=False)
    monkeypatch.setenv("ACME_KEY", "one")
    monkeypatch.setattr(unchanged, "_recorder", None)
    monkeypatch.setattr(unchanged, "sys", FewModules())
    monkeypatch.syspath_prepend(str(found.module.parent))
    spec = importlib.util.spec_from_file_location("acme_parts", found.module)
    assert spec is not None
    monkeypatch.setitem(sys.modules, "acme_parts", importlib.util.module_from_spec(spec))
    time.sleep(0.1)  # what is younger than the run is not relied on
    return found


def in_place(path: Path) -> None:
    """Change a byte, and neither the size nor the time of the change."""
    at = path.stat()
    path.write_text("x = 2")
    os.utime(path, ns=(at.st_atime_ns, at.st_mtime_ns))


def replaced(path: Path) -> None:
    new = path.with_name("new")
    new.write_bytes(path.read_bytes())
    os.utime(new, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    new.replace(path)


CHANGES: dict[str, Callable[[Place], object]] = {
    "the study file": lambda place: in_place(place.study),
    "the study file is another one of equal contents": lambda place: replaced(place.study),
    "a document": lambda place: in_place(place.documents / "a.md"),
    "a document is added": lambda place: (place.documents / "b.md").write_text("b"),
    "a document is gone": lambda place: (place.documents / "a.md").unlink(),
    "a document has another name": lambda place: (place.documents / "a.md").rename(place.documents / "c.md"),
    "a file that is named and not opened": lambda place: in_place(place.named),
    "a file that was looked for is there": lambda place: place.absent.write_text("prompt"),
    "a file beside the study": lambda place: (place.folder / "study.questions.yaml").write_text("[]"),
    "a module": lambda place: in_place(place.module),
    "an artifact is damaged": lambda place: in_place(place.artifact),
    "an artifact is truncated": lambda place: os.truncate(place.artifact, 1),
    "an artifact is gone": lambda place: place.artifact.unlink(),
    "a rating is added": lambda place: (place.root / "people.jsonl").write_text("{}"),
    "another study of a name was run": lambda place: (place.root / "studies" / "t.json").write_text(
        '{"study": "s", "path": "other.yaml"}'
    ),
    "what was stored is torn": lambda place: [
        os.truncate(one, one.stat().st_size // 2) for one in (place.root / unchanged.FOLDER).iterdir()
    ],
    "the workspace is gone": lambda place: place.root.rename(place.folder / "moved"),
}


def test_nothing_has_changed(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    assert not answer(ARGUMENTS)
    assert place.run()
    capfd.readouterr()
    os.utime(place.record)
    (place.root / "run.lock").write_text("4711")
    for _ in range(2):
        assert answer(ARGUMENTS)
        out, err = capfd.readouterr()
        assert out == "the leaderboard\n"
        assert err.endswith(" s in all; everything was up to date\n\nits report\n")


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_leads_to_an_ordinary_run(place: Place, change: str) -> None:
    assert place.run()
    assert answer(ARGUMENTS)
    CHANGES[change](place)
    assert not answer(ARGUMENTS)


def test_another_situation_leads_to_an_ordinary_run(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    assert place.run()
    for others in (
        ("run", "other.yaml"),
        ("run", "study.yaml", "--dry-run"),
        ("run", "study.yaml", "--dry-run", "--again"),
        ("run", "--dry-run"),
        ("check", "study.yaml"),
        ("run",),
    ):
        assert not answer(others)
    with monkeypatch.context() as changed:
        changed.setenv("ACME_KEY", "two")
        assert not answer(ARGUMENTS)
    with monkeypatch.context() as changed:
        changed.chdir(place.documents)
        assert not answer(ARGUMENTS)
    with monkeypatch.context() as changed:
        changed.setattr(sys, "version", "3.99")
        assert not answer(ARGUMENTS)
    with monkeypatch.context() as changed:  # who may not read what was read
        changed.setattr(os, "geteuid", lambda: 4711)
        assert not answer(ARGUMENTS)
    with ExitStack() as stack:  # another run is under way
        lock = stack.enter_context((place.root / "run.lock").open("a"))
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not answer(ARGUMENTS)
    with monkeypatch.context() as changed:
        changed.setenv("SHLVL", "7")
        changed.setenv("MAKELEVEL", "1")
        changed.setenv("ASSAY_HOME", os.path.relpath(place.root))
        assert answer(ARGUMENTS), "no result depends on that"
    with monkeypatch.context() as changed:
        place.root.rename(moved := place.root.with_name("moved"))
        changed.setenv("ASSAY_HOME", str(moved))
        assert not answer(ARGUMENTS), "what was printed names the workspace"
        moved.rename(place.root)


@pytest.mark.parametrize("change", ["a document", "a document is gone", "a module", "a rating is added"])
def test_what_changes_while_it_is_read_is_not_relied_on(place: Place, change: str) -> None:
    assert not place.run(lambda: CHANGES[change](place))
    assert not answer(ARGUMENTS)


@pytest.mark.parametrize("change", [None, "the study file", "a document", "a document is added", "a module"])
def test_a_run_that_builds_is_relied_on_after_a_second_look(place: Place, change: str | None) -> None:
    """Whatever changes after the first look was perhaps read before, and kept in memory."""
    recorder = Recorder(ARGUMENTS)
    recorder.before = workspace_state(place.root)
    for path in (place.study, *place.documents.iterdir()):
        path.read_text()
    place.artifact.write_text("built")
    subprocess.run([sys.executable, "-c", "a crawler"], check=False, capture_output=True)
    if change:
        CHANGES[change](place)
    assert not recorder.store(place.root, place.record, []), "the workspace is another one than before"
    recorder.look_again(place.root)
    os.listdir(place.documents)  # noqa: PTH208 -- the other event
    assert recorder.store(place.root, place.record, []) is (change is None)
    assert answer(ARGUMENTS) is (change is None)


@pytest.mark.flaky(reruns=1)  # files of the checkout are inputs, and a test beside this one may write some
def test_the_first_run_after_one_that_builds_is_answered(tmp_path: Path) -> None:
    study = write_study(tmp_path)
    time.sleep(0.1)  # what is younger than the run is not relied on

    def run(command: str = "run") -> tuple[str, str]:
        done = assay_process(command, str(study), ASSAY_HOME=str(tmp_path / "var"))
        assert done.returncode == 0, done.stderr
        return done.stdout, done.stderr

    first = run()
    kept = {path: json.loads(path.read_text()) for path in (tmp_path / "var" / unchanged.FOLDER).iterdir()}
    of_verdict = next(path for path, record in kept.items() if record["study"] == "")
    of_verdict.write_text(json.dumps({**kept[of_verdict], "printed": [["stdout", "STORED"]]}))
    assert run("verdict") == ("STORED", ""), "the first one, too"
    of_verdict.unlink()
    assert [["stdout", run("verdict")[0]]] == kept[of_verdict]["printed"]
    repeated = run()
    assert "stage  1 of" in first[1]
    assert "stage  1 of" not in repeated[1]
    assert repeated[1].endswith("; everything was up to date\n\n")
    shutil.rmtree(tmp_path / "var" / unchanged.FOLDER)
    assert run()[0] == repeated[0] == first[0], "an ordinary run says the same"
    for name in TEXTS:
        (tmp_path / "texts" / name).unlink()
    emptied = assay_process("run", str(study), ASSAY_HOME=str(tmp_path / "var"))
    assert (emptied.returncode, "stage  1 of" in emptied.stderr) == (1, True), "it looks at the documents"


@pytest.mark.parametrize("is_read", [True, False])
def test_a_link_to_what_the_kernel_says_is_no_input(place: Place, *, is_read: bool) -> None:
    """As /etc/mtab is, read or beside what is read: its time is that of the look."""
    link = place.study.with_name("mtab")
    link.symlink_to("/proc/self/mounts")
    time.sleep(0.1)
    assert place.run(link.read_bytes if is_read else lambda: None)
    assert answer(ARGUMENTS)


def test_what_other_programs_and_servers_say_is_not_relied_on(place: Place) -> None:
    def call() -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname()).close()

    assert not place.run(lambda: subprocess.run(["true"], check=True))
    assert not place.run(call)
    assert place.run(platform.architecture), "PyTorch asks that of the program `file`"


def test_files_of_whole_seconds_are_relied_on_two_seconds_later() -> None:
    """A drive that tells whole seconds may hide a second edit."""
    second = 1_000_000_000
    for time_of, is_late in ((7 * second, False), (8 * second, True), (9 * second - 1, False)):
        assert unchanged._changed_since(9 * second + 1, [["study.yaml", time_of]]) is is_late


def test_weights_elsewhere_belong_to_it(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = place.folder / "models" / "m" / "model.safetensors"
    weights.parent.mkdir(parents=True)
    weights.write_text("x = 1")
    monkeypatch.setenv("ASSAY_MODELS", str(weights.parents[1]))
    time.sleep(0.1)
    assert place.run()
    assert answer(ARGUMENTS)
    in_place(weights)
    assert not answer(ARGUMENTS)


def test_nothing_heavy_is_imported_for_an_answer(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unchanged, "_situation", lambda _arguments: "one")  # else that of another process
    assert place.run()
    program = (
        "import sys; from rag_assay.orchestration import start; "
        "start.unchanged._situation = lambda _: 'one'; "
        f"assert start.unchanged.answer({ARGUMENTS}); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not set(HEAVY) & set(done.stdout.split())


def test_documents_below_the_prefix_of_python_are_watched(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in /usr/src/app, where Python is /usr/bin/python3."""
    monkeypatch.setattr(sys, "base_prefix", str(place.folder))
    assert place.run()
    assert answer(ARGUMENTS)
    (place.documents / "b.md").write_text("new")
    assert not answer(ARGUMENTS)


def test_study_files_in_the_workspace_are_watched(place: Place) -> None:
    study = place.root / "studies" / "mine.yaml"
    study.write_text("study: mine")
    time.sleep(0.1)
    assert place.run()
    assert answer(ARGUMENTS)
    study.write_text("study: mine too")
    assert not answer(ARGUMENTS)


def test_a_study_file_that_comes_back_is_noticed(place: Place) -> None:
    away = place.folder / "drive" / "own.yaml"
    away.parent.mkdir()
    (place.root / "studies" / "own.json").write_text(json.dumps({"study": "own", "path": str(away)}))
    time.sleep(0.1)
    assert place.run()
    assert answer(ARGUMENTS)
    away.write_text("study: own")
    assert not answer(ARGUMENTS)


def test_a_workspace_that_cannot_be_read_stops_no_run(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unchanged, "_recorder", Recorder(ARGUMENTS))
    monkeypatch.setenv("ASSAY_MODELS", str(place.folder / "not there yet"))
    (place.root / "dangling").symlink_to("nowhere")
    found = unchanged.recorder(place.root)
    assert found is not None
    assert found.before is None
    assert not found.store(place.root, place.record, [])


@pytest.mark.parametrize("was_run", [True, False])
def test_a_look_writes_only_to_a_workspace(
    place: Place, monkeypatch: pytest.MonkeyPatch, was_run: bool
) -> None:
    monkeypatch.setattr(unchanged, "_recorder", Recorder(["list"]))
    if not was_run:
        (place.root / "run.lock").unlink()
    time.sleep(0.1)
    with unchanged.remembered(Home(place.root), {place.study}):
        sys.stdout.write("studies\n")
    assert (place.root / unchanged.FOLDER).is_dir() is was_run


def kept_look(root: Path, command: Callable[[], Done]) -> Path:
    """Return what a command has stored.

    It is called again where nothing is stored: in a new checkout, Python writes `__pycache__` into watched
    folders, and other tests write `.hypothesis`.
    """
    for _ in range(5):
        time.sleep(0.1)
        done = command()
        assert done.returncode == 0, done.stderr
        if found := list((root / unchanged.FOLDER).glob("*.json")):
            break
    (kept,) = found
    return kept


@pytest.mark.models
def test_a_look_is_answered_until_what_it_shows_is_different(finished: Finished, tmp_path: Path) -> None:
    absent, broken = tmp_path / "docs", tmp_path / "broken.yaml"
    broken.write_text(finished.path.read_text().replace("path: texts", "path: ${NAMED}"))
    (own := tmp_path / "own").mkdir()
    study = str(write_study(own))
    environment = {"ASSAY_STUDIES": str(tmp_path), "NAMED": str(absent)}
    looks: list[tuple[list[str], Callable[[], object]]] = [
        (["list"], absent.mkdir),
        (["verdict", str(finished.path)], lambda: finished.edit("path: texts", "path:  texts")),
        (["check", study], lambda: (own / "texts" / "quay.txt").write_text("The quay is long.")),
        (["run", "--dry-run", study], lambda: (own / "town.questions.yaml").write_text(QUESTIONS + "\n")),
    ]
    for command, change in looks:
        kept = kept_look(finished.home.root, partial(assay_process, *command, **environment))
        kept.write_text(json.dumps({**json.loads(kept.read_text()), "printed": [["stdout", "STORED"]]}))
        assert assay_process(*command, **environment).stdout.startswith("STORED")
        change()
        assert not assay_process(*command, **environment).stdout.startswith("STORED")
        kept.unlink()


def test_the_plan_of_a_git_repository_is_not_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, root = write_study(tmp_path), tmp_path / "var"
    study.write_text(study.read_text().replace("reader: folder", "reader: git"))
    author = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for command in (["init", "-q"], ["add", "."], [*author, "commit", "-qm", "First"]):
        subprocess.run(["git", *command], cwd=tmp_path / "texts", check=True)
    (root / "studies").mkdir(parents=True)
    (root / "run.lock").touch()
    time.sleep(0.1)
    monkeypatch.setenv("ASSAY_HOME", str(root))
    monkeypatch.setenv("DAGSTER_HOME", "")
    look = ["run", str(study), "--dry-run"]
    monkeypatch.setattr(unchanged, "_recorder", Recorder(look))
    done = assay(*look)
    assert done.returncode == 0, done.stderr
    assert not list(root.glob(f"{unchanged.FOLDER}/*.json")), "a commit changes no file that Python opened"


def test_all_that_a_look_asks_the_system_about_is_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python tells an audit hook which files are opened, and not which are asked about."""
    study, root, here, asked = write_study(tmp_path), tmp_path / "var", tmp_path / "here", set[str]()
    of_system = os.stat
    here.mkdir()
    (root / "studies").mkdir(parents=True)
    (root / "run.lock").touch()

    def stat(path: Any, *given: Any, **named: Any) -> os.stat_result:
        if not isinstance(path, int):
            asked.add(os.path.abspath(os.fsdecode(path)))  # noqa: PTH100 -- of text
        return of_system(path, *given, **named)

    monkeypatch.setattr(os, "stat", stat)
    monkeypatch.setenv("ASSAY_HOME", str(root))
    monkeypatch.setenv("DAGSTER_HOME", "")
    for look in (["check", study.stem], ["run", study.stem, "--dry-run"], ["list"]):

        def command(look: list[str] = look) -> Done:
            asked.clear()
            monkeypatch.setattr(unchanged, "_recorder", Recorder(look))
            return assay(*look, folder=here, ASSAY_STUDIES=str(tmp_path))

        kept = kept_look(root, command)
        record = json.loads(kept.read_text())
        kept.unlink()
        seen = {one for one in asked if one.startswith(f"{tmp_path}/") and not one.startswith(str(root))}
        assert str(study) in seen
        watched = {*record["files"], *record["folders"]}
        assert str(tmp_path.parent) not in record["folders"], "an empty text names no file beside the folder"
        assert not {one for one in seen - watched if str(Path(one).parent) not in record["folders"]}
        if study.stem in look:
            assert str(here / study.stem) in record["files"], "a file of that name would be the study"
