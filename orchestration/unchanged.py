"""Answers `assay run STUDY` from the last run that had nothing to do, if nothing that it read has changed;
`assay list`, `check STUDY`, `verdict STUDY` and `run STUDY --dry-run` from the last time they were called, or
`verdict` from the last run.

A run that finds everything up to date stores the state of what it has read: of the files that were opened and
the folders that were listed (both by an audit hook), of all files of the workspace, of the modules that were
imported, and the environment; and what it printed. It stores nothing if it has started a program (git) or
asked a server: what those have read is not known. A run that has built something looks a second time at its
end, and stores that if everything is up to date by then. Both store what `assay verdict STUDY` would print,
too. The next `assay run` of the same arguments compares names, sizes, times and inodes, and prints its result
again, before anything heavy is imported. It is an ordinary run where any of them differs or cannot be read. A
run stores nothing where an input changed after it began.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import stat
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rag_assay.warehouse.paths import Home

FOLDER = "unchanged"  # of the workspace
VERSION = 1
DRY_RUN = "--dry-run"
IDLE = "; everything was up to date"
_VOLATILE = (
    "_",
    "SHLVL",
    "OLDPWD",
    "PWD",
    "WINDOWID",
    "LINES",
    "ASSAY_HOME",  # the workspace itself counts, however it is named
    *("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "MAKE_TERMOUT", "MAKE_TERMERR"),
)  # variables that no result depends on
_OWN = ("run.lock", FOLDER, "studies")  # parts of the workspace that an idle run writes
_FOLDER = 2  # facts of a folder: which one, and when an entry of it changed
_SYSTEM = ("/proc/", "/sys/", "/dev/null", "/dev/urandom", "/dev/tty")
_MOST = 50_000  # files of a folder beside an input; more are not looked through
_SLACK = 50_000_000  # nanoseconds: file systems tell times in steps of some milliseconds
_COARSE = 2_000_000_000  # the step of those that tell whole seconds only (FAT, some network drives)
_BEYOND = {"subprocess.Popen", "os.posix_spawn", "os.exec", "os.system", "socket.connect"}
_OF_PYTHON = {"file", "uname"}  # programs that `platform` starts, for PyTorch
_recorder: Recorder | None = None


def answer(arguments: Sequence[str]) -> bool:
    """Print what the last idle run of these arguments did, if nothing has changed; else return False."""
    global _recorder  # noqa: PLW0603 -- an audit hook is one for a process, too
    if not _is_answered(arguments) or sys.stdout is None or sys.stderr is None:
        return False
    begin, stored = time.perf_counter(), None
    with suppress(OSError, ValueError, KeyError, TypeError):
        stored = _stored(arguments)
    if stored is None:
        _recorder = Recorder(arguments)
        return False
    with suppress(BrokenPipeError):
        is_shown = sys.stdout.isatty() or sys.stderr.isatty()
        if not is_look(arguments) and not is_shown:  # as a run does that shows no progress bars
            _write("stderr", f"{time.perf_counter() - begin:.1f} s in all{IDLE}\n\n")
        for name, text in stored:
            _write(name, text)
    return True


def _is_answered(arguments: Sequence[str]) -> bool:
    if list(arguments[:1]) == ["run"]:
        studies = [one for one in arguments[1:] if one != DRY_RUN]
        return len(studies) == 1 and len(arguments) <= 3 and not studies[0].startswith("-")
    return list(arguments) == ["list"] or list(arguments[:1]) in (["check"], ["verdict"])


def is_look(arguments: Sequence[str]) -> bool:
    return list(arguments[:1]) in (["check"], ["list"], ["verdict"]) or (
        list(arguments[:1]) == ["run"] and DRY_RUN in arguments
    )


def _write(name: str, text: str) -> None:
    stream = getattr(sys, name)
    stream.reconfigure(errors="replace")  # as every command does
    stream.write(text)
    stream.flush()


def recorder(root: Path) -> Recorder | None:
    """Return this process's recorder, which now records the workspace too; None: the command has none."""
    if _recorder is not None:
        with suppress(OSError, ValueError, KeyError, TypeError):  # then nothing is stored
            state = workspace_state(root)
            read = {os.path.abspath(one) for one in list(_recorder.opened)}  # noqa: PTH100 -- of text
            own = f"{root}/studies"
            early = [one for one in read if one.startswith(f"{root}/") and os.path.dirname(one) != own]  # noqa: PTH120
            if not _changed_since(_recorder.started, _facts(early, ())):
                _recorder.before = state
        _recorder.within, _recorder.was_complete = f"{root}/", _recorder.is_complete
    return _recorder


@contextmanager
def remembered(home: Home, named: set[Path]) -> Iterator[None]:
    """Keep a read-only command's output while the files that it adds to ``named`` do not change."""
    from rag_assay.warehouse.remote import mirror_of

    was_run = (home.root / "run.lock").is_file()  # else it may be any folder, such as the user's own
    recording = recorder(home.root) if was_run and mirror_of(home) is None else None
    if recording is None:
        yield
        return
    with recording.printing():
        yield
    if named:
        with suppress(OSError, ValueError, KeyError, TypeError):  # the next one is an ordinary one then
            recording.store(home.root, None, map(str, named))


def _changed_since(moment: int, facts: Iterable[Sequence[Any]]) -> bool:
    latest = (max(times) for _, *times in facts if times[0] is not None)
    return any(one + (0 if one % 1_000_000_000 else _COARSE) >= moment for one in latest)


def _stored(arguments: Sequence[str]) -> list[tuple[str, str]] | None:
    root = _root()
    record = json.loads(_path(root, arguments).read_text(encoding="utf-8"))
    if record["version"] != VERSION or record["situation"] != _situation(arguments):
        return None
    with (root / "run.lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)  # else another run is under way
        inputs = record["files"], record["folders"]
        if _digest(_facts(*inputs)) != record["inputs"] or workspace_state(root) != record["workspace"]:
            return None
    if record["study"]:
        Path(record["study"]).touch()  # the study that was run last
    return [(name, text) for name, text in record["printed"] if name in {"stdout", "stderr"}]


class Recorder:
    """Hears which files this process opens and which folders it lists."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self.arguments = list(arguments)
        self.situation = _situation(arguments)
        self.verdict = ["verdict", *arguments[1:2]]
        self.situation_of_verdict = _situation(self.verdict)  # before this process changes its environment
        self.started = time.time_ns() - _SLACK
        self.opened: set[str] = set()
        self.listed: set[str] = set()
        self.is_complete = True  # nothing was read that is not heard
        self.was_complete = True  # before anything was built
        self.printed: list[tuple[str, str]] = []
        self.looked = self.started  # when the run began to look what is to be done, the last time
        self.before: str | None = None  # the state of the workspace then
        self.within: str | None = None  # the workspace, once its state is known: its files are not heard
        sys.addaudithook(self._hear)

    def _hear(self, event: str, given: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(given[0], str | bytes):
            mode, flags = given[1], given[2]
            reads = not set(mode) & set("wax+") if isinstance(mode, str) else not (flags or 0) & os.O_ACCMODE
            path = os.fsdecode(given[0])
            if reads and not (self.within and path.startswith(self.within)):
                self.opened.add(path)
        elif event in {"os.scandir", "os.listdir"} and isinstance(given[0], str | bytes | os.PathLike):
            self.listed.add(os.fsdecode(given[0]))
        elif event in _BEYOND and not (event == "subprocess.Popen" and given[0] in _OF_PYTHON):
            self.is_complete = False

    def look_again(self, root: Path) -> None:
        """Begin a second look, by a run that has built something: which wrote to the workspace, and may have
        started crawlers and called models, whose results are there.
        """
        self.looked, self.is_complete = time.time_ns() - _SLACK, self.was_complete
        self.before = None if self.before is None else workspace_state(root)

    @contextmanager
    def printing(self) -> Iterator[None]:
        with (
            redirect_stdout(_Tee(sys.stdout, "stdout", self.printed)),
            redirect_stderr(_Tee(sys.stderr, "stderr", self.printed)),
        ):
            yield

    def store(
        self, root: Path, study: Path | None, named: Iterable[str], verdict: Sequence[str] | None = None
    ) -> bool:
        """Store what was heard and printed; return whether that can be relied on.

        study: the record of the study in the workspace, if that was run
        named: files that the study names, opened or not
        verdict: its lines; they are stored too, for the command that prints them
        """
        from rag_assay.warehouse.atomic_write import atomic_write

        if not self.is_complete or self.before is None or (after := workspace_state(root)) != self.before:
            return False
        files, folders = self._inputs(root, named)
        facts = _facts(files, folders)
        # Of files, what was read first may be kept in memory; folders are listed again at each look.
        listed, read = ([one for one in facts if (len(one) == _FOLDER) is is_one] for is_one in (True, False))
        if _changed_since(self.started, read) or _changed_since(self.looked, listed):
            return False
        record = {
            "version": VERSION,
            "situation": self.situation,
            "files": files,
            "folders": folders,
            "inputs": _digest(facts),
            "workspace": after,
            "study": str(study or ""),
            "printed": self.printed,
        }
        records = {_path(root, self.arguments): record}
        if verdict is not None:
            printed = [("stdout", "".join(f"{line}\n" for line in verdict))]
            of_verdict = {"situation": self.situation_of_verdict, "study": "", "printed": printed}
            records[_path(root, self.verdict)] = record | of_verdict
        for path, stored in records.items():
            with atomic_write(path) as new:
                new.write_text(json.dumps(stored), encoding="utf-8")
        return True

    def _inputs(self, root: Path, named: Iterable[str]) -> tuple[list[str], list[str]]:
        here, python = f"{root}/", _libraries()
        scratch = {"/dev", str(root), tempfile.gettempdir(), os.path.realpath(tempfile.gettempdir())}
        modules = {file for one in list(sys.modules.values()) if (file := getattr(one, "__file__", None))}
        files = {os.path.abspath(one) for one in {*self.opened, *named}}  # noqa: PTH100 -- of text
        files = {one for one in files if not f"{one}/".startswith(here) and not one.endswith(".pyc")}
        files = {one for one in files if not _is_of_system(one)}
        # Temporary files are gone; elsewhere one that is not there is looked for again.
        files = {one for one in files if os.path.dirname(one) not in scratch or os.path.exists(one)}  # noqa: PTH110, PTH120
        folders = {os.path.dirname(one) for one in files} | set(map(os.path.abspath, self.listed))  # noqa: PTH120
        folders = {one for one in folders if not f"{one}/".startswith((here, *python, *_SYSTEM))}
        packages = {one for one in sys.path if f"{one}/".startswith(python)}
        # A study file that is gone may come back.
        files |= {str(json.loads(one)["path"]) for one in _study_records(root)}
        files |= {os.path.abspath(one) for one in self.arguments[1:]}  # noqa: PTH100 -- a name may become a path
        return sorted(files | modules), sorted(folders - scratch | packages)


class _Tee(io.TextIOBase):
    """Writes to a stream and keeps what is written."""

    def __init__(self, stream: TextIO, name: str, kept: list[tuple[str, str]]) -> None:
        self._stream, self._name, self._kept = stream, name, kept

    def write(self, text: str) -> int:
        self._kept.append((self._name, text))
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding


def _libraries() -> tuple[str, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return tuple(f"{sysconfig.get_path(name)}/" for name in names)


def _root() -> Path:
    from rag_assay.warehouse.paths import workspace_place

    return Path(workspace_place()).expanduser().resolve()  # one at a URL is no folder that holds a record


def _path(root: Path, arguments: Sequence[str]) -> Path:
    return root / FOLDER / f"{_digest([str(Path.cwd()), *arguments])[:20]}.json"


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def _situation(arguments: Sequence[str]) -> str:
    """Digest all that a run depends on beside files: it holds secrets of the environment."""
    environment = sorted(one for one in os.environ.items() if one[0] not in _VOLATILE)
    streams = [(one.isatty(), one.encoding) for one in (sys.stdout, sys.stderr)]
    size = os.get_terminal_size(1).columns if streams[0][0] else 0
    root = ""
    with suppress(OSError, ValueError, RuntimeError):  # no path, or of no user: told by the command
        root = str(_root())
    process = [sys.version, sys.executable, str(Path.cwd()), os.geteuid()]
    return _digest([root, *process, *arguments, environment, streams, size])


def _facts(files: Iterable[str], folders: Iterable[str]) -> list[list[Any]]:
    facts: list[list[Any]] = [_of_file(path) for path in files]
    for folder in folders:
        facts.append(_of_file(folder, is_folder=True))
        with suppress(OSError), os.scandir(folder) as entries:
            found = sorted(entries, key=lambda one: one.name)
            if len(found) > _MOST:
                raise ValueError(f"{folder} holds too many files")
            found = [one for one in found if not one.is_dir()]
            facts += [
                _of_file(one.path) for one in found if not (one.is_symlink() and _is_of_system(one.path))
            ]
    return facts


def _is_of_system(path: str) -> bool:
    """Return whether a file is the kernel's or links to one, as /etc/mtab: its time is that of the look."""
    return f"{os.path.realpath(path)}/".startswith(_SYSTEM)


def _of_file(path: str, *, is_folder: bool = False) -> list[Any]:
    try:
        at = Path(path).stat() if is_folder else os.stat(path)  # noqa: PTH116 -- of two thousand
    except OSError:
        return [path, None]
    if is_folder or stat.S_ISDIR(at.st_mode):
        return [f"{path}\0{at.st_ino}", at.st_mtime_ns]
    return [f"{path}\0{at.st_size}\0{at.st_ino}", at.st_mtime_ns, at.st_ctime_ns]


def workspace_state(root: Path) -> str:
    """Digest the name, size and times of every file of the workspace, and the studies that were run in it."""
    found = hashlib.sha256()
    for part in sorted(one for one in os.listdir(root) if one not in _OWN):  # noqa: PTH208 -- a million files
        _walk(found, str(root / part), part)
    studies = root / "studies"  # whose records are read below; it may hold study files, too
    for part in sorted(one.name for one in studies.glob("[!.]*") if one.suffix != ".json"):
        _walk(found, str(studies / part), f"studies/{part}")
    if (models := os.environ.get("ASSAY_MODELS")) and Path(models).expanduser().is_dir():
        _walk(found, str(Path(models).expanduser()), "models")
    # Of files with one name, the one that was run last is meant by it.
    texts = sorted(_study_records(root), key=lambda one: str(json.loads(one)["study"]))
    found.update(json.dumps(texts).encode())
    return found.hexdigest()


def _study_records(root: Path) -> list[str]:
    records = sorted((root / "studies").glob("*.json"), key=lambda one: one.stat().st_mtime_ns)
    return [one.read_text(encoding="utf-8") for one in records]


def _walk(found: Any, path: str, name: str) -> None:
    at = os.stat(path)  # noqa: PTH116
    if not stat.S_ISDIR(at.st_mode):
        found.update(f"{name}\0{at.st_size}\0{at.st_mtime_ns}\0{at.st_ctime_ns}\0{at.st_ino}\n".encode())
        return
    found.update(f"{name}/\n".encode())
    for one in sorted(os.listdir(path)):  # noqa: PTH208
        _walk(found, f"{path}/{one}", one)
