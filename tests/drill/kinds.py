"""The kinds of trials: kills, damage, full disks, bad servers, two at once; the same for the same seed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tests.drill.journals import begin_line
from tests.drill.stages import STAGES, before, killed, killed_within
from tests.drill.town import Replies, reply
from tests.drill.trial import (
    Step,
    Trial,
    forked,
    impatient_models,
    key_of,
    killed_at,
    limited,
    rebuild,
    torn_append,
    torn_at,
    unreadable,
    unreadable_by_libraries,
    walk,
)
from tests.fakes.openai_server import (
    Received,
    Scripted,
    failure,
    hang,
    invalid_json,
    rate_limited,
)

if TYPE_CHECKING:  # what it imports starts threads, which a fork would lose
    from rag_assay.assets.engine.stage import Stage

COMMITS = ("documents", "chunks", "embeddings", "indexes", "rankings", "answers", "scores", "pointers")
"""Folders in which a process is killed as it names files: a build's folder, its record, its pointer."""

FILES = {
    "page manifest": "pages/*/manifest.parquet",
    "page body": "bodies/**/*.*",
    "record": "*/*/artifact.json",
    "pointer": "pointers/*/*.json",
    "documents": "documents/*/*/documents.parquet",
    "chunks": "chunks/*/*/chunks.parquet",
    "embeddings": "embeddings/*/*/embeddings.parquet",
    "index facts": "indexes/*/*/facts.json",
    "index rows": "indexes/*/*/lancedb/**/data/*.lance",
    "index manifest": "indexes/*/*/lancedb/**/*.manifest",
    "index words": "indexes/*/*/lexical/*",
    "index columns": "indexes/*/*/lancedb/**/_indices/**/*.*",
    "questions": "questions/*/*/questions.parquet",
    "ranking": "rankings/*/*/*.parquet",
    "enrichments": "enrichments/*/*/enrichments.parquet",
    "answers": "answers/*/*/answers.parquet",
    "annotations": "annotations/*/*/annotations.parquet",
    "judgements": "judgements/*/*/judgements.parquet",
    "judge card": "judge_cards/*/*/*.parquet",
    "scores": "scores/*/*/scores.parquet",
    "estimates": "human_estimates/*/*/*.parquet",
    "report": "reports/*.html",
    "report rows": "reports/*.json",
    "leaderboard": "leaderboard/*/*/leaderboard.parquet",
    "vectors": "cache/vectors/*/*.vectors",
    "model call": "cache/calls/*.jsonl",
    "duplicates": "cache/duplicates/*",
    "crawl record": "crawls/*/*.json",
    "database": "assay.duckdb",
    "Dagster's log": "dagster/**/*.db",
}
UNREADABLE = ("record", "pointer", "index facts", "index words", "vectors", "model call", "report rows")
"""Files in whose middle a read fails."""
UNREADABLE_BY_LIBRARIES = (
    *("page manifest", "documents", "chunks", "index rows", "questions", "ranking", "answers", "scores"),
    *("leaderboard", "database", "Dagster's log"),
)
"""Files that polars, DuckDB, LanceDB or SQLite read, of which no read succeeds."""
HALF = {
    "chunks": "chunks",
    "documents": "documents",
    "cache/vectors": "embeddings",
    "indexes": "indexes",
    "rankings": "rankings",
    "pointers": "scores",
    "reports": "report",
}
"""Folder in which a file is torn as it is written -> the stage that writes it."""
APPENDED = {"cache/calls": "answers", "paid": "answers"}
"""Folder in which a line is torn as it is appended -> the stage that appends it."""
IMPATIENT = ("silence", "too many")  # what a run would wait for
TORN = ("record", "pointer", "documents", "index rows", "ranking", "vectors", "model call", "database")


def kills(study: Path, number: int, seed: int, total: int) -> Iterator[Trial]:
    """Kill a first run at points over its whole length, at each kind of commit, alone, and a rebuild.

    total: how many files an undisturbed run gives their final names
    """
    points = sorted(random.Random(seed).sample(range(total), min(number, total)))
    for point in points:
        yield Trial(
            "kill", f"at rename {point} of {total}", "empty", killed(walk(study), killed_at(point)), study
        )
    for place in COMMITS:
        trap = killed_at(1, f"/{place}/")
        begins = before(place) if place in STAGES else "empty"
        yield Trial("kill", f"2. rename in {place}", begins, killed(walk(study), trap), study)
    yield Trial("kill", "the parent of a crawler alone", "empty", lambda home: orphan(home, study), study)
    rebuilding = killed(rebuild, killed_at(0, "/assay.duckdb"))
    yield Trial("kill", "a rebuild", "done", rebuilding, study)


def torn_writes(study: Path) -> Iterator[Trial]:
    """Kill a first run in the middle of writing a file, before it has its final name, and after."""
    for place, stage in HALF.items():
        for renamed in (False, True):
            trap = torn_at(f"/{place}/", renamed=renamed)
            name = f"half a file in {place}{', with its final name' if renamed else ''}"
            yield Trial("torn write", name, before(stage), killed(walk(study), trap), study)
    for place, stage in APPENDED.items():
        trap = torn_append(f"/{place}/")
        yield Trial("torn write", f"half a line in {place}", before(stage), killed(walk(study), trap), study)


def bad_sectors(study: Path) -> Iterator[Trial]:
    """Let a read fail in the middle of a file of each kind, or every read where a library reads it."""
    traps = dict.fromkeys(UNREADABLE, unreadable)
    if shutil.which("strace"):
        traps |= dict.fromkeys(UNREADABLE_BY_LIBRARIES, unreadable_by_libraries)
    for kind, trap in traps.items():
        yield Trial("bad sector", kind, "done", partial(_read_badly, study, FILES[kind], trap), study)


def _read_badly(study: Path, pattern: str, disturb: Callable[[Path], Step], home: Path) -> None:
    files = sorted(path for path in home.glob(pattern) if path.stat().st_size)
    assert files, f"no file is called {pattern}"
    trap = disturb(files[0])
    for act in (walk(study), rebuild):
        ended = forked(home, act, trap)()
        assert "Traceback" not in ended.told, ended.told[-700:]


def orphan(home: Path, study: Path) -> None:
    """Kill a run while its crawler works, and see that the crawler ends too."""
    killed = killed_at(0, "/pages/")  # its pointer, or the first file that follows the crawl

    def trap() -> None:
        from rag_assay.assets import pages
        from rag_assay.assets.engine import crawl_process

        started = crawl_process.run_crawler

        def die(*given: object, **named: object) -> object:
            import threading

            threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
            return started(*given, **named)  # type: ignore[arg-type]

        pages.run_crawler = die  # type: ignore[assignment]
        killed()

    forked(home, walk(study), trap)()
    deadline = time.monotonic() + 20
    while left := _processes_of(home):
        assert time.monotonic() < deadline, f"processes are left: {left}"
        time.sleep(0.2)


def _processes_of(home: Path) -> list[str]:
    """Return the command lines of the processes that work on a home."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes()
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if f"ASSAY_HOME={home}\0".encode() in environment + b"\0" and b"crawlers" in command:
            found.append(command.replace(b"\0", b" ").decode(errors="replace"))
    return found


def damage(study: Path, seed: int, each: int) -> Iterator[Trial]:
    """Flip a bit in a file of each kind, tear some, then run a study that reads most of it again."""
    for kind, pattern in FILES.items():
        for n in range(each):
            for how in (flip, tear) if n == 0 and kind in TORN else (flip,):
                name = f"{how.__name__} {kind} {n + 1}"
                spoil = _spoiler(pattern, how, f"{seed} {kind} {n}")
                yield Trial("damage", name, "done", spoil, study, rebuilds=True)


def _spoiler(pattern: str, how: Callable[[Path, random.Random], None], seed: str) -> Callable[[Path], None]:
    def spoil(home: Path) -> None:
        chance = random.Random(seed)
        files = sorted(path for path in home.glob(pattern) if path.is_file() and path.stat().st_size)
        assert files, f"no file is called {pattern}"
        how(chance.choice(files), chance)

    return spoil


def flip(path: Path, chance: random.Random) -> None:
    """Change a bit, in a file of its own: others may be linked to it."""
    data = bytearray(path.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    _replace(path, bytes(data))


def tear(path: Path, chance: random.Random) -> None:
    """Cut a file off."""
    data = path.read_bytes()
    _replace(path, data[: chance.randrange(len(data))])


def _replace(path: Path, data: bytes) -> None:
    path.unlink()
    path.write_bytes(data)


def disks(study: Path, scratch: Path) -> Iterator[Trial]:
    """Let files grow no further than some bytes, and fill a small disk where one may be mounted."""
    for size in (0, 20_000, 200_000):
        yield Trial("disk", f"no file beyond {size} bytes", "empty", partial(_limited, study, size), study)
    for size in ("1m", "3m"):
        yield Trial("disk", f"full at {size}", "empty", partial(_full, study, size, scratch), study)


def _limited(study: Path, size: int, home: Path) -> None:
    assert forked(home, walk(study), limited(size))().code, "nothing was cut off"


def _full(study: Path, size: str, scratch: Path, home: Path) -> None:
    """Run on a small disk until it is full, and go on with what it holds on a larger one."""
    disk = scratch / f"disk-{size}"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        return _limited(study, 50_000, home)
    try:
        ended = forked(disk / "var", walk(study))()
        assert ended.code, "the disk was not full"
        shutil.copytree(disk / "var", home, dirs_exist_ok=True)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def servers(study: Path, replies: Replies) -> Iterator[Trial]:
    """Let the model's server be silent, refuse, or answer garbage during a first run."""
    bodies = {
        "garbage": Scripted(b"\x00\xff<html>" * 50),
        "torn JSON": invalid_json(),
        "another shape": Scripted(b'{"choices": {"0": null}, "usage": []}'),
        "an error": failure(500, "out of memory"),
        "no key": failure(401, "Incorrect API key provided"),
        "too many": rate_limited(0),
        "silence": hang(3.0),
    }
    before = "chunks"  # the last stage that calls no model
    for name, body in bodies.items():
        disturb = partial(_ill, study, replies, body, "", 1.0 if name in IMPATIENT else 30.0)
        yield Trial("server", name, before, disturb, study)
    for name in ("garbage", "silence"):
        disturb = partial(_ill, study, replies, bodies[name], "judge", 1.0 if name in IMPATIENT else 30.0)
        yield Trial("server", f"{name} of the judge alone", "annotations", disturb, study)
    for model in ("scripted", "writer"):
        disturb = partial(_ill, study, replies, bodies["an error"], model, 30.0)
        yield Trial("server", f"an error of the model {model} alone", before, disturb, study)

    def now_and_then(home: Path) -> None:
        chance = random.Random(3)

        def some(received: Received) -> Scripted:
            return failure(503, "busy") if chance.random() < 0.5 else reply(received)

        with _answered(replies, home, some):
            forked(home, walk(study))()

    yield Trial("server", "an error now and then", before, now_and_then, study)


@contextmanager
def _answered(replies: Replies, home: Path, by: Callable[[Received], Scripted]) -> Iterator[None]:
    """Let the calls of one home be answered otherwise."""
    replies.other[key_of(home)] = by
    try:
        yield
    finally:
        del replies.other[key_of(home)]


def _ill(study: Path, replies: Replies, body: Scripted, model: str, silence: float, home: Path) -> None:
    """Let a model (empty: all) be answered by ``body`` for a run."""
    with _answered(
        replies, home, lambda received: body if model in received.body["model"] else reply(received)
    ):
        ended = forked(home, walk(study, silence=silence))()
    assert ended.code == 1, f"the failure was not told: {ended.told[-300:]}"


def together(study: Path) -> Iterator[Trial]:
    """Let Dagster's own runs work beside `assay run` on one home."""

    def both(home: Path) -> None:
        # Of two processes that make Dagster's own tables in the same moment, Dagster lets one fail.
        assert forked(home, _make_tables)().code == 0
        waits = [forked(home, walk(study)), forked(home, by_dagster(study))]
        ended = [wait() for wait in waits]
        assert [one.code for one in ended] == [0, 0], "\n".join(one.told[-600:] for one in ended)

    yield Trial("two at once", "dagster beside assay", "empty", both, study)


def _make_tables() -> int:
    import dagster as dg

    with dg.DagsterInstance.get() as instance:
        instance.get_runs_count()
    return 0


def by_dagster(study: Path) -> Callable[[], int]:
    """Return what materializes all assets of a study as Dagster does, without the driver and its lock."""

    def act() -> int:
        import dagster as dg

        from rag_assay.evals.study.grid import Grid
        from rag_assay.evals.study.study_file import read_study
        from rag_assay.orchestration.stages import stages_of
        from rag_assay.orchestration.study_definitions import definitions_of

        impatient_models()
        found = read_study(study)
        job = definitions_of([found]).resolve_implicit_global_asset_job_def()
        with dg.DagsterInstance.get() as instance:
            for name, stage in stages_of(Grid([found])).items():
                for tags in _ranges(stage):
                    job.execute_in_process(instance=instance, asset_selection=[dg.AssetKey(name)], tags=tags)
        return 0

    return act


def _ranges(stage: Stage) -> list[dict[str, str]]:
    """Return the tags of the runs that cover all partitions of a stage."""
    keys = stage.keys()
    if stage.by_source:
        return [{"dagster/partition": key} for key in keys]
    begin, end = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"
    return [{begin: keys[0], end: keys[-1]}] if keys else []


def slice_of_all(study: Path, seed: int) -> Trial:
    """Return one trial with several disturbances, for the test suite: a kill, and damage to what it left."""

    def both(home: Path) -> None:
        killed(walk(study), killed_within("judgements"))(home)
        _spoiler(FILES["chunks"], flip, f"{seed}")(home)
        begin_line(home, "people/*/scores/*.jsonl")
        (home / "assay.duckdb").write_bytes(b"")

    return Trial("all", "a kill among judgements, then damage", "empty", both, study)
