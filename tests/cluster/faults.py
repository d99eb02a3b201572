"""What may happen to a cluster in the middle of a run: each is done to one, and says what was said."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from threading import Thread

from tests.cluster.machines import Cluster, Machine, Run
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.processes import ROOT, assay_command, wait_until

WORKERS = ("first", "second")
CALLS = 20  # that a budget allows


class Scene:
    """A cluster, a study, and the scripted server that is asked: what faults are done to.

    asked: how many requests came before this run
    """

    def __init__(self, cluster: Cluster, study: Path, server: FakeOpenAI) -> None:
        self.cluster, self.study, self.server = cluster, study, server
        self.asked = len(server.requests)

    @property
    def driver(self) -> Machine:
        """Return the machine from which studies are run."""
        return self.cluster.machine("driver")

    @property
    def command(self) -> list[str]:
        """Return the command that runs the study."""
        return assay_command("run", str(self.study), "--on", "dagster", "--partitions-per-run", "2")

    def start(self) -> None:
        """Start the daemon and two workers."""
        self.cluster.daemon()
        for name in WORKERS:
            self.cluster.worker(name)

    def run(self) -> Run:
        """Run the study to its end."""
        return self.driver.run(*self.command, seconds=1200)

    def run_until_asked(self, n: int, disturb: Callable[[], object]) -> Run:
        """Run the study, and do something once the server was asked so often."""
        ended: list[Run] = []
        thread = Thread(target=lambda: ended.append(self.run()))
        thread.start()
        if wait_until(lambda: len(self.server.requests) - self.asked >= n or not thread.is_alive(), 600):
            disturb()
        thread.join()
        return ended[0]


Fault = Callable[[Scene], Run]


def nothing(scene: Scene) -> Run:
    """Run undisturbed."""
    scene.start()
    return scene.run()


def worker_killed(scene: Scene) -> Run:
    """Kill the workers' machine that is asking a model: its run is lost, retried, and goes on elsewhere."""
    scene.start()
    return scene.run_until_asked(12, lambda: scene.cluster.machine(WORKERS[0]).kill("worker"))


def driver_killed(scene: Scene) -> Run:
    """Kill the driver, and run again while its runs are still under way."""
    scene.start()
    scene.driver.start("run", *scene.command)
    assert wait_until(lambda: len(scene.server.requests) - scene.asked >= 12, 600)
    scene.driver.kill("run")
    return scene.run()


def redis_gone(scene: Scene) -> Run:
    """Kill Redis while a model is asked; it comes back after the run has ended."""
    scene.start()
    ended = scene.run_until_asked(12, scene.cluster.redis.stop)
    scene.cluster.redis.start()
    return ended


def postgres_gone(scene: Scene) -> Run:
    """Kill PostgreSQL while a model is asked; it comes back after the run has ended."""
    scene.start()
    ended = scene.run_until_asked(12, scene.cluster.postgres.stop)
    scene.cluster.postgres.start()
    return ended


def storage_fails(kind: str, every: int, methods: tuple[str, ...]) -> Fault:
    """Return what lets every so-many-th request of some methods fail, or be slow."""

    def fault(scene: Scene) -> Run:
        scene.start()
        seen = count()

        def chosen(line: str) -> str:
            return kind if line.startswith(methods) and next(seen) % every == every - 1 else ""

        scene.cluster.proxy.fault = chosen
        ended = scene.run()
        scene.cluster.proxy.fault = lambda _line: ""
        return ended

    return fault


def disk_full(scene: Scene) -> Run:
    """Let the scratch folder of each worker lie on a disk of 300 kB."""
    scene.cluster.daemon()
    with _small_disks(scene.cluster.folder) as disks:
        for name in WORKERS:
            scene.cluster.worker(name, ASSAY_SCRATCH=str(disks / name))
        ended = scene.run()
        for name in WORKERS:
            scene.cluster.machine(name).kill("worker")
            del scene.cluster.machines[name]
            shutil.rmtree(scene.cluster.folder / name)
    for name in WORKERS:
        scene.cluster.worker(name)
    return ended


@contextmanager
def _small_disks(folder: Path) -> Iterator[Path]:
    disks = folder / "disks"
    disks.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", disks], check=True)
    try:
        yield disks
    finally:
        subprocess.run(["umount", "-l", disks], check=True)


def older_worker(scene: Scene) -> Run:
    """Let one worker run another version of the code, until it is replaced."""
    older = scene.cluster.folder / "older"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src" / "rag_assay", older / "rag_assay", ignore=ignored)
    shutil.copytree(ROOT / "tests", older / "tests", ignore=ignored)
    with (older / "rag_assay" / "warehouse" / "status.py").open("a") as file:
        file.write("# an older version\n")
    scene.cluster.daemon()
    scene.cluster.worker("older", PYTHONPATH=f"{older}{os.pathsep}{ROOT}")
    ended = scene.run()
    assert "another version of rag-assay" in ended.told, ended.told
    scene.cluster.machine("older").kill("worker")
    for name in WORKERS:
        scene.cluster.worker(name)
    return ended


def budget_spent(scene: Scene) -> Run:
    """Let all workers together make only so many calls for answers; the next run may make the others."""
    scene.start()
    text = scene.study.read_text()
    scene.study.write_text(f"{text}budget: {{calls: {CALLS}}}\n")
    ended = scene.run()
    scene.study.write_text(text)
    asked = [one.body["model"] for one in scene.server.requests[scene.asked :]].count("scripted")
    assert asked <= CALLS, f"{asked} calls were made, where {CALLS} were allowed"
    return ended


FAULTS: dict[str, Fault] = {
    "nothing": nothing,
    "a worker is killed": worker_killed,
    "the driver is killed": driver_killed,
    "Redis is gone": redis_gone,
    "PostgreSQL is gone": postgres_gone,
    "storage answers 503": storage_fails("503", 4, ("GET", "PUT", "POST", "HEAD", "DELETE")),
    "storage is slow": storage_fails("slow", 5, ("GET", "PUT", "POST", "HEAD", "DELETE")),
    "storage loses uploads": storage_fails("lost", 4, ("PUT", "POST")),
    "storage loses answers": storage_fails("unanswered", 6, ("PUT", "POST")),
    "a scratch disk is full": disk_full,
    "a worker is older": older_worker,
    "a budget is spent": budget_spent,
}
"""By what happens, for the table."""
