"""Machines of a cluster on loopback: processes with scratch folders of their own, and a home in a bucket."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import yaml

from rag_assay.warehouse.paths import Home
from tests.cluster.servers import Server, postgres_server, redis_server
from tests.fakes.faulty_proxy import Proxy, faulty_proxy
from tests.fakes.object_storage import Server as Storage
from tests.fakes.object_storage import s3_server
from tests.fakes.processes import ROOT, wait_until

BIN = Path(sys.executable).parent
VISIBLE = 12 * 3600
"""Seconds after which Redis gives a task that nobody has acknowledged to another worker."""


class Run(NamedTuple):
    """How a command ended: its exit code, what it printed, its seconds."""

    code: int
    told: str
    seconds: float


@dataclass
class Machine:
    """One machine: its scratch folder, its Dagster folder, and what runs on it."""

    folder: Path
    environment: Mapping[str, str]
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        """Start a process in a group of its own; what it says is in `NAME.log`."""
        with self.log(name).open("ab") as out:
            process = subprocess.Popen(
                command,
                cwd=self.folder,  # Celery imports from where it is
                env=dict(self.environment),
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self.processes[name] = process
        return process

    def log(self, name: str) -> Path:
        """Return the file with what a process has said."""
        return self.folder / f"{name}.log"

    def run(self, *command: str, seconds: float = 1800) -> Run:
        """Run a command to its end."""
        begin = time.monotonic()
        ended = subprocess.run(
            command,
            cwd=self.folder,
            env=dict(self.environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=seconds,
        )
        return Run(ended.returncode, ended.stdout, time.monotonic() - begin)

    def kill(self, name: str) -> None:
        """Kill a process and those that it started, as a lost machine ends."""
        process = self.processes.pop(name)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def close(self) -> None:
        """Kill all that runs on it."""
        for name in list(self.processes):
            self.kill(name)


def lone_machine(folder: Path) -> Machine:
    """Return a machine that shares nothing: its home is a folder."""
    folder.mkdir(parents=True)
    return Machine(folder, {**_environment(), "ASSAY_HOME": str(folder / "home")})


def _environment() -> dict[str, str]:
    """Return what the processes of all machines need."""
    of_home = {"ASSAY_HOME", "ASSAY_SCRATCH", "DAGSTER_HOME", "ASSAY_DAGSTER_HOME"}
    return {
        **{name: value for name, value in os.environ.items() if name not in of_home},
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
        "PYTHONUNBUFFERED": "1",
        "ASSAY_MODELS": os.environ.get("ASSAY_MODELS") or str(Home(ROOT / "var").models),
        "OPENAI_API_KEY": "scripted",
    }


class Cluster:
    """Servers and machines that share a Dagster instance and a home.

    Args:
        folder: everything that is local lies in it.
        proxy: stands before the storage.
        queued: whether runs go through Dagster's queue, which needs a daemon, and crashed ones are retried.
    """

    def __init__(
        self, folder: Path, redis: Server, postgres: Server, storage: Storage, proxy: Proxy, *, queued: bool
    ) -> None:
        self.folder = folder
        self.redis, self.postgres, self.proxy = redis, postgres, proxy
        self.queued = queued
        self.url = storage.bucket() + "/home"
        self._storage = storage._replace(address=proxy.address).environment
        self.machines: dict[str, Machine] = {}

    def machine(self, name: str, **environment: str) -> Machine:
        """Return a machine, made when it is first asked for; ``environment`` is more than all have."""
        if name not in self.machines:
            folder = self.folder / name
            (folder / "dagster").mkdir(parents=True)
            (folder / "dagster" / "dagster.yaml").write_text(yaml.safe_dump(self._instance()))
            mine = {
                **_environment(),
                **self._storage,
                "ASSAY_HOME": self.url,
                "ASSAY_SCRATCH": str(folder / "scratch"),
                "DAGSTER_HOME": str(folder / "dagster"),
            }
            self.machines[name] = Machine(folder, {**mine, **environment})
        return self.machines[name]

    def worker(self, name: str, **environment: str) -> Machine:
        """Start a Celery worker on a machine, and wait until it takes tasks."""
        machine = self.machine(name, **environment)
        config = machine.folder / "celery.yaml"
        config.write_text(yaml.safe_dump({"execution": {"config": self._celery()}}))
        options = ("--name", name, "--config-yaml", str(config), "--loglevel", "info")
        solo = ("--", "--pool", "solo", "--without-gossip", "--without-mingle")
        before = _ready(machine, "worker")
        machine.start(
            "worker",
            str(BIN / "dagster-celery"),
            "worker",
            "start",
            "-A",
            "dagster_celery.app",
            *options,
            *solo,
        )
        if not wait_until(lambda: _ready(machine, "worker") > before):
            raise RuntimeError(
                f"the worker {name} did not start: {machine.log('worker').read_text()[-2000:]}"
            )
        return machine

    def daemon(self) -> Machine:
        """Start Dagster's daemon, which launches what waits in the queue and retries what crashed."""
        machine = self.machine("services")
        machine.start(
            "daemon", str(BIN / "dagster-daemon"), "run", "-m", "rag_assay.orchestration.definitions"
        )
        return machine

    def _celery(self) -> dict[str, object]:
        options = {"broker_transport_options": {"visibility_timeout": VISIBLE}, "result_expires": VISIBLE}
        return {"broker": self.redis.url, "backend": self.redis.url, "config_source": options}

    def _instance(self) -> dict[str, object]:
        found: dict[str, object] = {
            "telemetry": {"enabled": False},
            "nux": {"enabled": False},
            "storage": {"postgres": {"postgres_url": self.postgres.url}},
            "run_launcher": {
                "module": "dagster_celery.launcher",
                "class": "CeleryRunLauncher",
                "config": self._celery(),
            },
        }
        if self.queued:
            found["run_retries"] = {
                "enabled": True,
                "max_retries": 2,
                "retry_on_asset_or_op_failure": False,
            }
        else:
            found["run_coordinator"] = {
                "module": "dagster.core.run_coordinator",
                "class": "DefaultRunCoordinator",
            }
        return found

    def close(self) -> None:
        """Kill all that runs on all machines."""
        for machine in self.machines.values():
            machine.close()


def _ready(machine: Machine, name: str) -> int:
    """Return how often a worker has said that it takes tasks."""
    log = machine.log(name)
    return log.read_text(errors="replace").count(" ready.") if log.exists() else 0


@contextmanager
def cluster(folder: Path, *, queued: bool = True) -> Iterator[Cluster]:
    """Run the servers, and whatever is started on them, for as long as the block takes."""
    with ExitStack() as stack:
        redis = stack.enter_context(redis_server())
        postgres = stack.enter_context(postgres_server())
        storage = stack.enter_context(s3_server())
        proxy = stack.enter_context(faulty_proxy(storage.address))
        found = Cluster(folder, redis, postgres, storage, proxy, queued=queued)
        try:
            yield found
        finally:
            found.close()
