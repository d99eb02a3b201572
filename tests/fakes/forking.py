"""`python -m MODULE` and scripts as tests start them: forked from a process that has imported it all.

A command imports Dagster, polars and torch for two to eight seconds of a processor before it does anything.
A fork has its own signals, streams, environment and exit code all the same. Where the start of an interpreter
is what is tested, give it an option: `python -X utf8 -m MODULE` is no fork.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import inspect
import multiprocessing.util
import os
import pickle
import runpy
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module, invalidate_caches
from multiprocessing import popen_spawn_posix
from pathlib import Path
from typing import Any, NamedTuple, NoReturn
from unittest.mock import patch

ROOT = Path(__file__).parents[2]
PROGRAM = "tests.fakes.program"
"""`python -m PROGRAM CODE` is `python -c CODE` in a fork."""
OWN = ("twisted.internet.reactor", "tests", "dagster_celery", *("assets", "evals"))
"""What begins so is imported by each fork: a reactor belongs to one process, Celery's app to one folder, and
packages of these names to the project of a user; here, they are folders of the repository.
"""
FIRST = {
    "rag_assay.orchestration": ("rag_assay.orchestration.cli", "rag_assay.orchestration.driver"),
    "rag_assay.crawlers": (
        "scrapy.crawler",
        "scrapy.core.downloader.handlers.http11",
        "aiohttp",
        "tldextract",
    ),
}
"""What a module begins with -> what it imports anyway: imported once, and not by the first fork too."""
_LENGTH = 4  # bytes of a number
_HIGH = 500  # no descriptor that a fork is given has such a number
_PARAMETERS = list(inspect.signature(subprocess.Popen._execute_child).parameters)[1:]  # type: ignore[attr-defined]
_DEFAULTS = {"executable": None, "shell": False, "umask": -1}  # what a fork cannot do otherwise
LONGEST_FOLDER = 90  # characters: the address of a socket has at most 107
_address: list[str] = []  # of the server, once it is started
_starting = threading.Lock()


class Request(NamedTuple):
    """What a fork becomes.

    targets: its descriptors, in the order in which they are sent
    """

    arguments: list[str]
    environment: dict[str, str]
    folder: str
    targets: list[int]
    new_session: bool
    before: Callable[[], object] | None


class Forked(subprocess.Popen[Any]):
    """`subprocess.Popen` in tests: any other command is started as usual."""

    def _execute_child(self, *given: Any) -> None:
        call = dict(zip(_PARAMETERS, given, strict=True))
        arguments = call["args"]
        environment = dict(os.environ if call["env"] is None else call["env"])
        is_default = all(call[name] == value for name, value in _DEFAULTS.items())
        forked = _forkable(arguments, environment) if is_default else []
        if not forked:
            super()._execute_child(*given)  # type: ignore[misc]
            return
        pipes = [call[name] for name in ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")]
        streams = [own if given == -1 else given for own, given in enumerate((pipes[0], pipes[3], pipes[5]))]
        request = Request(
            forked,
            environment,
            str(call["cwd"] or Path.cwd()),
            [0, 1, 2, *call["pass_fds"]],
            call["start_new_session"],
            call["preexec_fn"],
        )
        try:
            self._line = socket.socket(socket.AF_UNIX)
            self._line.connect(server())
            said = pickle.dumps(request)
            socket.send_fds(self._line, [len(said).to_bytes(_LENGTH, "big")], [*streams, *call["pass_fds"]])
            self._line.sendall(said)
            self.pid = int.from_bytes(self._line.recv(_LENGTH), "big")
        finally:
            self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]
        self._child_created = True

    def _internal_poll(self, *given: Any, **more: Any) -> int | None:
        if not hasattr(self, "_line"):
            return super()._internal_poll(*given, **more)  # type: ignore[misc,no-any-return]
        return self._ended(0)

    def _wait(self, timeout: float | None) -> int:
        if not hasattr(self, "_line"):
            return super()._wait(timeout)  # type: ignore[misc,no-any-return]
        code = self._ended(timeout)
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return code

    def _ended(self, seconds: float | None) -> int | None:
        """Return the exit code once it has ended; None where it has not after so many seconds."""
        seconds = None if seconds is None else max(0.0, seconds)
        lock: threading.Lock = self._waitpid_lock  # type: ignore[attr-defined]
        if not lock.acquire(timeout=-1 if seconds is None else seconds):
            return self.returncode
        try:
            if self.returncode is None:
                self._line.settimeout(seconds)
                code = self._line.recv(_LENGTH)
                self.returncode = int.from_bytes(code, "big", signed=True) if code else -signal.SIGKILL
                self._line.close()
        except (TimeoutError, BlockingIOError):
            return None
        finally:
            lock.release()
        return self.returncode


def install() -> None:
    """Let this process start others so."""
    subprocess.Popen = Forked  # type: ignore[misc]
    popen_spawn_posix.Popen.poll = _poll  # type: ignore[method-assign]
    multiprocessing.util.spawnv_passfds = _spawn  # type: ignore[attr-defined]


_spawned: dict[int, Forked] = {}


def _spawn(path: bytes, arguments: list[str], descriptors: Sequence[int]) -> int:
    """Start `python OPTIONS -c CODE MORE`, as `multiprocessing` does; return its process id."""
    if "--multiprocessing-fork" not in arguments:
        return _SPAWNV(path, arguments, descriptors)
    code = arguments.index("-c") + 1
    command = [os.fsdecode(path), "-m", PROGRAM, *arguments[code:]]
    process = Forked(command, pass_fds=sorted(descriptors))
    _spawned[process.pid] = process
    return process.pid


def _poll(self: popen_spawn_posix.Popen, flag: int = os.WNOHANG) -> int | None:
    if self.pid not in _spawned:
        return _POLL(self, flag)
    process = _spawned[self.pid]
    self.returncode = process.poll() if flag else process.wait()
    return self.returncode


_POLL, _SPAWNV = popen_spawn_posix.Popen.poll, multiprocessing.util.spawnv_passfds


def _forkable(arguments: object, environment: Mapping[str, str]) -> list[str]:
    """Return what a fork is to run, `-m MODULE ...` or `SCRIPT ...`; nothing: it cannot be forked.

    A script is one that pip has installed. A `sitecustomize` would have to run before it.
    """
    if not isinstance(arguments, list) or not arguments:
        return []
    name, *others = map(str, arguments)
    if name != sys.executable:
        script = shutil.which(name, path=environment.get("PATH"))
        others = [script, *others] if script and _is_python(Path(script)) else []
    elif others[:1] != ["-m"]:
        return []
    folders = environment.get("PYTHONPATH", "").split(os.pathsep)
    return [] if any(Path(one, "sitecustomize.py").exists() for one in folders) else others


def _is_python(script: Path) -> bool:
    if script.resolve().parent != Path(sys.executable).parent.resolve():
        return False
    with script.open("rb") as file:
        return b"python" in file.readline()


def forks_of_home(home: Path) -> dict[int, str]:
    """Return the command line of each fork that runs with this ASSAY_HOME: the system tells the server's."""
    found = {}
    for address in _address:
        for path in Path(address).parent.glob("[0-9]*"):
            with suppress(FileNotFoundError):  # it has just ended
                of, command = path.read_text().split("\n", 1)
                if of == str(home):
                    found[int(path.name)] = command
    return found


def server(modules: Sequence[str] = ()) -> str:
    """Start the server unless that is done; return the address of its socket. It ends with this process.

    modules: it imports them before the first fork
    """
    with _starting:
        if not _address:
            _address.append(_start(modules))
    return _address[0]


def command(*arguments: str) -> list[str]:
    """Return a command that becomes a fork, whoever starts it: a shell or asyncio, which know no `Popen`."""
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from tests.fakes import forking; forking.ask()"
    return [sys.executable, "-c", code, str(ROOT), server(), *arguments]


def ask() -> NoReturn:
    """Let the server whose address is the first argument fork the rest; end with its exit code."""
    _address.append(sys.argv[1])
    sys.exit(Forked([sys.executable, *sys.argv[2:]]).wait() % 256)


def _start(modules: Sequence[str]) -> str:
    folder, owner = tempfile.mkdtemp(prefix="assay-forks-"), os.getpid()
    if len(folder) > LONGEST_FOLDER:
        Path(folder).rmdir()
        folder = tempfile.mkdtemp(prefix="assay-forks-", dir="/tmp")
    address = str(Path(folder) / "socket")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen(100)
    ours = {name: text for name, text in os.environ.items() if not name.startswith(("ASSAY_", "DAGSTER_"))}
    # NumPy starts as many threads when it is imported; LiteLLM would ask the internet.
    ours |= {"OMP_NUM_THREADS": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    code = f"from tests.fakes.forking import serve; serve({listening.fileno()}, {address!r}, {modules!r})"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=ours,
        stdin=subprocess.PIPE,
        pass_fds=[listening.fileno()],
        start_new_session=True,
    )
    listening.close()

    def end() -> None:
        if os.getpid() == owner:  # forks of this process have this function, too
            process.communicate()
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    return address


def serve(listening: int, address: str, modules: Sequence[str]) -> None:
    """Be the server, until standard input is closed."""
    _address.append(address)
    with socket.socket(fileno=listening) as asked:
        _Server(asked).serve(modules)


class _Server:
    """Forks, and imports what forks import: the next one shall find it there."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self._events = selectors.DefaultSelector()
        self._told, telling = os.pipe()
        self._telling = fcntl.fcntl(telling, fcntl.F_DUPFD_CLOEXEC, _HIGH)
        os.set_blocking(self._telling, False)
        self._rest = ""

    def serve(self, modules: Sequence[str]) -> None:
        """Fork whatever is asked for until standard input is closed."""
        gc.disable()
        self._import(modules)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])  # `multiprocessing` may have blocked some meanwhile
        self._events.register(0, selectors.EVENT_READ)
        self._events.register(self._listening, selectors.EVENT_READ, self._fork)
        self._events.register(self._told, selectors.EVENT_READ, self._learn)
        while True:
            for key, _ in self._events.select():
                if key.data is None:
                    return
                key.data()

    def find_spec(self, name: str, *_where: object) -> None:
        """Tell the server, as a finder of a fork, what that imports."""
        with suppress(OSError):  # the pipe is full, or the server gone
            os.write(self._telling, f"{name}\n".encode())

    def _learn(self) -> None:
        *names, self._rest = (self._rest + os.read(self._told, 1 << 16).decode()).split("\n")
        self._import(name for name in names if not name.startswith(OWN) and not name.endswith("__main__"))

    def _import(self, names: Iterable[str]) -> None:
        sys.modules["twisted.internet.reactor"] = None  # type: ignore[assignment]
        with patch.object(warnings, "showwarning", lambda *_, **__: None):  # filters that are set stay
            for name in names:
                if name not in sys.modules:
                    with suppress(Exception):  # made by others as they are imported, or not to be shared
                        _import_lancedb() if name.startswith("lance") else import_module(name)
        if "rag_assay.orchestration.event_log" in sys.modules:
            from tests.fakes.migrations import read_migrations

            read_migrations()
        if language := sys.modules.get("rag_assay.assets.cleaning.language"):
            language._identifier()  # unpacks a model
        del sys.modules["twisted.internet.reactor"]

    def _fork(self) -> None:
        line, _ = self._listening.accept()
        length, descriptors, *_ = socket.recv_fds(line, _LENGTH, 20)
        said = b""
        while len(said) < int.from_bytes(length, "big"):
            said += line.recv(1 << 16)
        request: Request = pickle.loads(said)  # noqa: S301 -- our own
        for package, names in FIRST.items():
            if request.arguments[1:] and request.arguments[1].startswith(package):
                self._import(names)
        process = os.fork()
        if process == 0:
            sys.meta_path.insert(0, self)  # type: ignore[arg-type]
            _become(request, descriptors)
        for one in descriptors:
            os.close(one)
        seen = Path(_address[0]).with_name(str(process))
        written = seen.with_name(f".{process}")  # renamed: `forks_of_home` reads all of it or nothing
        written.write_text(f"{request.environment.get('ASSAY_HOME')}\n{' '.join(request.arguments)}")
        written.rename(seen)
        line.sendall(process.to_bytes(_LENGTH, "big"))
        ended = os.pidfd_open(process)

        def tell() -> None:
            self._events.unregister(ended)
            os.close(ended)
            code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            with line, suppress(OSError):  # no one waits for it
                seen.unlink(missing_ok=True)
                line.sendall(code.to_bytes(_LENGTH, "big", signed=True))

        self._events.register(ended, selectors.EVENT_READ, tell)


def _import_lancedb() -> None:
    """Import LanceDB: its library starts its threads again in each fork, `_become` that of its loop."""
    from rag_assay.assets.indexing.index_table import lancedb

    lancedb()
    from lancedb import background_loop

    background_loop._FORK_WARNED = True  # nothing is under way in this process
    vars(background_loop.LOOP)["_start"] = lambda: None  # its descriptors would be closed


def _become(request: Request, descriptors: list[int]) -> NoReturn:
    """Become a command: its descriptors, environment, folder and session; end with its exit code."""
    code = 1
    try:
        high = [fcntl.fcntl(one, fcntl.F_DUPFD, _HIGH) for one in descriptors]
        os.closerange(3, _HIGH)
        if loop := sys.modules.get("lancedb.background_loop"):
            vars(loop.LOOP).pop("_start", None)  # none, if `_import_lancedb` did not import it
        for one, target in zip(high, request.targets, strict=True):
            os.dup2(one, target)
            os.close(one)
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            errors = "backslashreplace" if name == "stderr" else "strict"
            buffering = 1 if name == "stderr" or os.isatty(number) else -1
            stream = open(number, "rw"[number > 0], buffering, "utf-8", errors, closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)
        os.environ.clear()
        os.environ.update(request.environment)
        os.chdir(request.folder)
        added = request.environment.get("PYTHONPATH", "").split(os.pathsep)
        sys.path[:0] = [request.folder, *(one for one in added if one and one not in sys.path)]
        invalidate_caches()
        install()
        if loop:
            loop.LOOP._start()
        if request.new_session:
            os.setsid()
        if request.before:
            request.before()
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # as an interpreter begins
            signal.signal(signal.SIGINT, signal.default_int_handler)
        gc.freeze()
        gc.enable()
        code = _code_of(request.arguments)
        threading._shutdown()  # type: ignore[attr-defined] -- as an interpreter ends
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _code_of(arguments: list[str]) -> int:
    is_module = arguments[0] == "-m"
    sys.argv = arguments[is_module:]
    module = sys.argv[0]
    for name in (module, f"{module}.__main__"):  # it is to be `__main__`
        if not hasattr(sys.modules.get(name), "__path__"):
            sys.modules.pop(name, None)
    try:
        if is_module:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(module, run_name="__main__")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        sys.stderr.write(f"{end.code}\n")
        return 1
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0
