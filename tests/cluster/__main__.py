"""`make cluster`: run studies on two workers, disturbed in every known way; exit code 1 on a difference."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.comparing import rows
from tests.cluster.faults import FAULTS, WORKERS, Fault, Scene
from tests.cluster.machines import Machine, cluster, lone_machine
from tests.cluster.servers import lacking
from tests.drill import town
from tests.drill.trial import differences
from tests.fakes.openai_server import FakeOpenAI, Received, Scripted
from tests.fakes.processes import assay_command

LOST = 130.0  # seconds after which what nobody works on is closed
AGAIN = 3  # runs that may be needed after a fault
ANSWER = 0.15  # seconds that the scripted models think, so that a fault finds them at it


def main() -> int:
    """Run what was asked for; return 0 when all rows are equal."""
    options = _options()
    if why := lacking():
        print(f"no cluster: {why}")
        return 1
    wrong = 0
    if "demo" in options.what:
        for partitions in options.partitions:
            wrong += _demo(partitions)
    if "faults" in options.what:
        wrong += _faults(options.only)
    print("all rows equal" if not wrong else f"{wrong} differ")
    return 1 if wrong else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make cluster", description=__doc__)
    parser.add_argument("what", nargs="*", default=["demo", "faults"], help="demo, faults")
    parser.add_argument("--partitions", type=int, nargs="*", default=[5], help="a run, of the demo")
    parser.add_argument("--only", default="", help="parts of the names of faults, with commas between")
    return parser.parse_args()


def _demo(partitions: int) -> int:
    """Run the demo on two workers and on one machine; return 1 where their rows differ."""
    with _scratch() as folder, cluster(folder) as found:
        found.daemon()
        for name in WORKERS:
            found.worker(name)
        here, alone = found.machine("driver"), lone_machine(folder / "alone")
        spread = ("--on", "dagster", "--partitions-per-run", str(partitions))
        away = here.run(*assay_command("run", "demo", *spread), seconds=3600)
        again = here.run(*assay_command("run", "demo", *spread), seconds=3600)
        one = alone.run(*assay_command("run", "demo"), seconds=3600)
        print(
            f"demo, {partitions} partitions a run: on two workers {away.seconds:.0f} s, nothing to do "
            f"{again.seconds:.1f} s; in one process {one.seconds:.0f} s",
            flush=True,
        )
        for ended in (away, again, one):
            if ended.code:
                return _said([f"it ends with {ended.code}: {ended.told[-3000:]}"])
        _print_overhead(here)
        return _said(differences(rows(here.environment), rows(alone.environment)))


def _print_overhead(driver: Machine) -> None:
    said = driver.run(sys.executable, "-m", "tests.cluster.overhead")
    print("\n".join(f"        {line}" for line in said.told.splitlines()[-2:]), flush=True)


def _faults(only: str) -> int:
    """Do each fault to a cluster of its own; return after how many the rows differ."""
    wrong = 0
    with _scratch() as folder, FakeOpenAI(respond=_think) as server:
        study = town.write(folder / "town", server.api_base).one
        wanted = _wanted(folder, study)
        distinct = len(server.requests)
        for name, fault in FAULTS.items():
            if any(part in name for part in only.split(",")):
                with cluster(folder / name.replace(" ", "-")) as found:
                    wrong += _trial(name, fault, Scene(found, study, server), wanted, distinct)
    return wrong


def _trial(name: str, fault: Fault, scene: Scene, wanted: dict[str, list[str]], distinct: int) -> int:
    """Do one fault, then run until all is there; return 1 where the rows differ."""
    begin = time.monotonic()
    first = ended = fault(scene)
    runs = 1
    while ended.code and runs <= AGAIN:
        ended, runs = scene.run(), runs + 1
    if runs > 1:  # a run of the first may have lost its database: it counts as lost only later
        time.sleep(max(0.0, LOST - ended.seconds))
        ended = scene.run()
    if ended.code:
        unequal = [f"it ends with {ended.code}: {ended.told[-1500:]}"]
    else:
        unequal = differences(rows(scene.driver.environment), wanted)
    asked = [str(one.body) for one in scene.server.requests[scene.asked :]]
    print(
        f"{'DIFFERS' if unequal else 'equal':<8}{time.monotonic() - begin:>6.0f} s  {name}: {runs} runs, "
        f"the first ends with {first.code}; "
        f"{len(asked)} calls, {len(asked) - len(set(asked))} twice, for {distinct}",
        flush=True,
    )
    for line in _sentences(first.told) if first.code else ():
        print(f"          | {line[:200]}", flush=True)
    return _said(unequal)


def _think(received: Received) -> Scripted:
    time.sleep(ANSWER)
    return town.reply(received)


def _wanted(folder: Path, study: Path) -> dict[str, list[str]]:
    """Return the rows of one process on one machine."""
    alone = lone_machine(folder / "alone")
    ended = alone.run(*assay_command("run", str(study)))
    if ended.code:
        raise SystemExit(f"the undisturbed run failed: {ended.told}")
    return rows(alone.environment)


def _sentences(told: str) -> list[str]:
    """Return what a run has said of failures, each once."""
    lines = [line.strip() for line in told.splitlines() if "failed" in line or "error" in line.lower()]
    return list(dict.fromkeys(lines))[:6]


def _said(unequal: list[str]) -> int:
    for sentence in unequal:
        print(f"        {' '.join(sentence.split())[:2000]}", flush=True)
    return 1 if unequal else 0


@contextmanager
def _scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="assay-cluster-") as name:
        yield Path(name)


if __name__ == "__main__":
    sys.exit(main())
