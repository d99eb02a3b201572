"""Brings one partition key of a stage up to date: reuses a stored artifact, or builds and commits one."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path

from rag_assay.assets.engine.stage import (
    BuildContext,
    BuildResult,
    Check,
    KeyOutcome,
    PartitionRef,
    Stage,
    blocked_by,
    of_key,
)
from rag_assay.warehouse.artifacts import Artifact, ArtifactStore
from rag_assay.warehouse.attempts import attempt, seed, turn
from rag_assay.warehouse.cooperative_scheduler import run_cooperatively
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.full_disk import is_full, sentence_of
from rag_assay.warehouse.inference.throttle import AT_ONCE

ROOM = 2 * AT_ONCE  # calls that keys are waiting for, below which a further key begins

log = logging.getLogger(__name__)


class _DamagedError(AssayError):
    def __init__(self, message: str, needs: tuple[PartitionRef, ...]) -> None:
        super().__init__(message)
        self.needs = needs


def build_key(stage: Stage, key: str, work: BuildContext, *, again: bool = False) -> KeyOutcome:
    """Bring one key up to date; failures inside a build are returned, not raised. One process at a time
    builds a key. ``again``: build it even if nothing changed.
    """
    begin = time.perf_counter()
    store = work.store
    needs: tuple[PartitionRef, ...] = ()
    try:
        identity = stage.identity(key, store)
        waiting = f"waiting for another process that builds {stage.name} of {key} …"
        with turn(store.place(stage.name, identity), lambda: work.say(waiting)) as alone:
            return _build(stage, key, identity, work, begin, again=again, alone=alone)
    except AssayError as error:
        reason = str(error)
        needs = error.needs if isinstance(error, _DamagedError) else ()
    except Exception as error:  # a failure is data: the other keys go on
        log.debug("%s of %s failed\n%s", stage.name, key, traceback.format_exc())
        root = work.home.root
        reason = sentence_of(error, root) if is_full(error, root) else f"{type(error).__name__}: {error}"
    seconds = time.perf_counter() - begin
    return KeyOutcome(key, store.current(stage.name, key), error=reason, damaged=needs, seconds=seconds)


def _build(
    stage: Stage, key: str, identity: str, work: BuildContext, begin: float, *, again: bool, alone: bool
) -> KeyOutcome:
    store = work.store
    store.find(stage.name, identity, now=True)  # another machine may have built it meanwhile
    found = None if again else _built_before(stage, key, identity, store)
    if found:
        store.point(stage.name, key, found.identity)
        checks = checks_of(found)
        return KeyOutcome(key, replace(found, key=key), checks, blocked_by(checks))
    _refuse_blocked(stage, key, store)
    _refuse_damaged(stage, key, work)
    other = store.find(stage.name, identity)
    mine = of_key(identity, key) if other and other.key != key else identity
    with attempt(store.place(stage.name, mine), resumes=stage.resumes, alone=alone) as folder:
        known, left = _earlier(stage, key, mine, folder, work)
        built = stage.build(key, folder, work)
        if not stage.crawls and not stage.is_still(key, identity, store):
            raise AssayError(
                f"{stage.name} of {key}: another process changed what it is built from meanwhile; "
                "it is built again by the next run"
            )
        earlier = left.meta.get("machines", ()) if left and built.keeps else ()
        built = replace(built, machines=tuple(sorted({*built.machines, *earlier})))
        whole = _artifact(stage, key, mine, built, store)
        artifact = store.commit_once(whole, folder, known, always=stage.crawls)
    work.sound.add((stage.name, mine, artifact.created_at))
    checks = checks_of(artifact)
    error = None if artifact.complete else str(artifact.meta.get("incomplete", "some rows failed"))
    seconds = time.perf_counter() - begin
    return KeyOutcome(key, artifact, checks, blocked_by(checks) or error, computed=True, seconds=seconds)


def _refuse_blocked(stage: Stage, key: str, store: ArtifactStore) -> None:
    for need, artifact in zip(stage.needs(key), stage.inputs(key, store), strict=True):
        why = blocked_by(checks_of(artifact))
        if why:
            raise AssayError(f"{need.stage} of {need.key}: {why}")


def _refuse_damaged(stage: Stage, key: str, work: BuildContext) -> None:
    store = work.store
    damaged: dict[PartitionRef, str] = {}
    for need, artifact in zip(stage.needs(key), stage.inputs(key, store), strict=True):
        found = work.damage(artifact)
        if found:
            store.set_aside(artifact)
            damaged[need] = f"{need.stage} of {need.key} is damaged ({found})"
    for sentence in damaged.values():
        work.say(f"{sentence} and is built again")
    if damaged:
        sentences = "; ".join(damaged.values())
        raise _DamagedError(
            f"{stage.name} of {key}: {sentences}; it is built again by the next run", tuple(damaged)
        )


def _earlier(
    stage: Stage, key: str, identity: str, folder: Path, work: BuildContext
) -> tuple[Artifact | None, Artifact | None]:
    """Return the artifact that is built again, and the one whose good files the build begins with."""
    store = work.store
    before = store.current(stage.name, key)
    found = work.damage(before) if before else None
    if before and found:
        store.set_aside(before)
        work.say(f"{stage.name} of {key} is damaged ({found}) and is built again")
    known = store.find(stage.name, identity)
    broken = store.broken(stage.name, identity) if known is None else None
    if broken and not found:
        work.say(f"{stage.name} of {key} is damaged ({broken[1]}) and is built again")
    left = known if known and not known.complete else broken[0] if broken else None
    if left and not stage.crawls:
        seed(folder, store.files_of(left), left)
    return known, left


def _built_before(stage: Stage, key: str, identity: str, store: ArtifactStore) -> Artifact | None:
    found = (store.find(stage.name, name) for name in (identity, of_key(identity, key)))
    return next((a for a in found if a and a.complete and _is_still_there(a, stage, key, store)), None)


def _artifact(stage: Stage, key: str, identity: str, built: BuildResult, store: ArtifactStore) -> Artifact:
    meta = {
        **built.meta,
        "checks": [{**one.__dict__, "blocking": one.name in stage.blocking} for one in built.checks],
        "recipes": list(stage.recipes(key).values()),
        "made_of": stage.made_of(key, store),
    }
    if built.machines:
        meta["machines"] = list(built.machines)
    return Artifact(
        stage.name, key, identity, built.data_version, built.complete, meta, measured=built.measured
    )


def _is_still_there(known: Artifact, stage: Stage, key: str, store: ArtifactStore) -> bool:
    """Return whether an artifact still stands for what would be read now; crawls change pages in place."""
    current = stage.fresh(key, store) if stage.in_place else known
    return current is not None and current.identity == known.identity


def checks_of(artifact: Artifact) -> tuple[Check, ...]:
    try:
        return tuple(Check(**check) for check in artifact.meta.get("checks", ()))
    except TypeError:  # the record of an earlier version, which has no seal, was damaged
        return ()


def build_keys(
    stage: Stage, keys: Sequence[str], work: BuildContext, *, again: bool = False
) -> Generator[KeyOutcome, None, None]:
    """Bring keys up to date, each committed by itself; yield outcomes as they come.

    again: crawl sources even if nothing changed
    """

    def build(key: str) -> KeyOutcome:
        return build_key(stage, key, work, again=again and stage.crawls)

    work.progress(stage.name, 0, len(keys))
    outcomes = run_cooperatively(build, keys, stage.waits_for_servers, ROOM)
    for number, outcome in enumerate(outcomes, 1):
        yield outcome
        work.progress(stage.name, number, len(keys))
