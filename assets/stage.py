"""A stage of the pipeline: partition keys, what each needs, and how one is built.

Everything that makes results survive a kill and cost nothing twice stands here once: a key is up to date when
the artifact that it points at was built from the recipe, code version and upstream data versions of now; each
key is committed by itself; a key that fails is recorded with its reason while the others go on.
"""

from __future__ import annotations

import logging
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from warehouse.artifacts import Artifact, ArtifactStore
from warehouse.attempts import attempt, seed, turn
from warehouse.errors import AssayError
from warehouse.identity import digest
from warehouse.paths import Home
from warehouse.spending import Purses

Progress = Callable[[str, int, int], None]
log = logging.getLogger(__name__)


class Need(NamedTuple):
    """One partition of another stage that a partition is built from."""

    stage: str
    key: str


@dataclass(frozen=True)
class Check:
    """The outcome of an asset check on one partition."""

    name: str
    passed: bool
    description: str
    metadata: dict[str, Any] = field(default_factory=dict)
    severe: bool = True  # False: a warning


@dataclass(frozen=True)
class Built:
    """What a build gives back, once its files are written.

    data_version: digest of the content (times and latencies left out)
    complete: False when rows failed in a way that another run may mend
    meta: numbers and short texts for people and for later stages
    measured: digest of what the data version leaves out: seconds, costs, reasons of failures
    """

    data_version: str
    meta: dict[str, Any] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    complete: bool = True
    measured: str = ""


@dataclass
class Work:
    """What a build may use.

    shared: things made once for many keys of a stage (opened indexes, a loaded model)
    purses: what the run may spend, over all of its stages
    sound: (stage, identity, created_at) of the artifacts whose files were read and found good in this run
    dagster: the execution context of the Dagster run around it, which only the crawl needs
    """

    home: Home
    progress: Progress = lambda _label, _done, _of: None
    shared: dict[Any, Any] = field(default_factory=dict)
    purses: Purses = field(default_factory=Purses)
    sound: set[tuple[str, str, str]] = field(default_factory=set)
    dagster: Any = None

    @property
    def store(self) -> ArtifactStore:
        """The artifacts under the home folder."""
        return ArtifactStore(self.home)

    def once(self, key: object, make: Callable[[], Any]) -> Any:
        """Return what ``make`` makes, made once for each key in this run."""
        if key not in self.shared:
            self.shared[key] = make()
        return self.shared[key]

    def say(self, sentence: str) -> None:
        """Tell a person something in a sentence: on the terminal, and in the log of the Dagster run."""
        self.progress(sentence, 0, 0)
        if self.dagster is not None:
            self.dagster.log.warning(sentence)

    def damage(self, artifact: Artifact) -> str | None:
        """Say what is wrong with an artifact's files, which are read once in this run; None: nothing."""
        mark = (artifact.stage, artifact.identity, artifact.created_at)
        if mark in self.sound:
            return None
        wrong = self.store.damage(artifact)
        if wrong is None:
            self.sound.add(mark)
        return wrong

    def close(self) -> None:
        """Close what was made for this run and can be closed (a model server, say)."""
        for thing in self.shared.values():
            if hasattr(thing, "close"):
                thing.close()
        self.shared.clear()


class Stage(ABC):
    """One stage; its name is that of the asset, of its folder, and in SQL of its artifacts."""

    name: ClassVar[str]
    group: ClassVar[str]
    description: ClassVar[str]
    upstream: ClassVar[tuple[str, ...]] = ()
    code_version: ClassVar[str] = "1"
    checks: ClassVar[dict[str, str]] = {}
    by_source: ClassVar[bool] = False  # the UI gives each partition a run of its own, as schedules do
    crawls: ClassVar[bool] = False  # fetches from outside: runs again when asked, recipe changed or not
    resumes: ClassVar[bool] = False  # goes on with what a killed build has left in its folder

    # What a stage that goes on with gaps must do without in this walk: the driver sets it.
    tolerates_gaps: ClassVar[bool] = False
    without: frozenset[Need] = frozenset()

    @abstractmethod
    def keys(self) -> list[str]:
        """Return all partition keys."""

    @abstractmethod
    def needs(self, key: str) -> list[Need]:
        """Return what a key is built from, in a fixed order."""

    @abstractmethod
    def recipes(self, key: str) -> dict[str, str]:
        """Return the digests of the recipes that a key hangs on, by name (`chunking.tokens-128-42`)."""

    @abstractmethod
    def build(self, key: str, folder: Path, work: Work) -> Built:
        """Build one key: write its files into ``folder``, which nobody else reads or writes.

        It is empty, but for the good files of an incomplete or damaged artifact of the same identity and,
        where the stage `resumes`, for what a killed build of it has left.
        """

    def inputs(self, key: str, store: ArtifactStore) -> list[Artifact]:
        """Return the artifacts that a key needs, in the order of `needs`.

        Raises:
            AssayError: one of them is not there yet.
        """
        found = []
        for need in self.needs(key):
            artifact = store.current(need.stage, need.key)
            if artifact is None:
                raise AssayError(
                    f"{self.name} of {key} needs {need.stage} of {need.key}, which is not there yet"
                )
            found.append(artifact)
        return found

    def identity(self, key: str, store: ArtifactStore) -> str:
        """Return the digest of all that goes into a key: recipes, code, upstream contents; no names."""
        inputs = [self.regarded(artifact) for artifact in self.inputs(key, store)]
        return digest([self.name, self.code_version, list(self.recipes(key).values()), inputs])

    def made_of(self, key: str, store: ArtifactStore) -> str:
        """Return the digest of the contents that a key is built from, by whatever recipe.

        Raises:
            AssayError: one of them is not there yet.
        """
        return digest([[artifact.stage, artifact.data_version] for artifact in self.inputs(key, store)])

    def regarded(self, artifact: Artifact) -> list[str]:
        """Return what of an input makes this stage's result another one: its content, however it was made.

        A stage that stores or passes on measurements regards more, for equal contents may have taken
        different times.
        """
        return [artifact.stage, artifact.data_version]

    def fresh(self, key: str, store: ArtifactStore) -> Artifact | None:
        """Return the artifact of a key if it is whole and built from what is there now, else None."""
        try:
            identity = self.identity(key, store)
        except AssayError:
            return None
        artifact = store.current(self.name, key)
        mine = {identity, of_key(identity, key)}
        return artifact if artifact and artifact.identity in mine and artifact.complete else None


@dataclass(frozen=True)
class Outcome:
    """How one key ended.

    artifact: what there is now, None when nothing could be stored
    error: one sentence when the build failed
    damaged: what it needs and is damaged: built again, it may be built too
    """

    key: str
    artifact: Artifact | None
    checks: tuple[Check, ...] = ()
    error: str | None = None
    damaged: tuple[Need, ...] = ()
    computed: bool = False
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether the key is whole."""
        return self.error is None and self.artifact is not None and self.artifact.complete


class _DamagedError(AssayError):
    """What a key is built from is damaged, and was set aside."""

    def __init__(self, message: str, needs: tuple[Need, ...]) -> None:
        super().__init__(message)
        self.needs = needs


def of_key(identity: str, key: str) -> str:
    """Return the identity under which a key builds what another key of the same inputs has not finished.

    What failed there, and why, stays with the other key.
    """
    return digest([identity, key])


def build_key(stage: Stage, key: str, work: Work, *, again: bool = False) -> Outcome:
    """Bring one key up to date; never raises for what goes wrong inside a build.

    What the key is built from is read and checked before, once a run. One process at a time builds a key.

    Args:
        again: build it although nothing changed.
    """
    begin = time.perf_counter()
    store = work.store
    needs: tuple[Need, ...] = ()
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
        reason = f"{type(error).__name__}: {error}"
    seconds = time.perf_counter() - begin
    return Outcome(key, store.current(stage.name, key), error=reason, damaged=needs, seconds=seconds)


def _build(
    stage: Stage, key: str, identity: str, work: Work, begin: float, *, again: bool, alone: bool
) -> Outcome:
    """Bring one key up to date while nobody else builds it."""
    store = work.store
    found = None if again else _built_before(stage, key, identity, store)
    if found:
        store.point(stage.name, key, found.identity)
        return Outcome(key, replace(found, key=key), checks_of(found))
    _refuse_damaged(stage, key, work)
    other = store.find(stage.name, identity)
    mine = of_key(identity, key) if other and other.key != key else identity
    with attempt(store.place(stage.name, mine), resumes=stage.resumes, alone=alone) as folder:
        known = _earlier(stage, key, mine, folder, work)
        built = stage.build(key, folder, work)
        if not stage.crawls and stage.identity(key, store) != identity:
            raise AssayError(
                f"{stage.name} of {key}: another process changed what it is built from meanwhile; "
                "it is built again by the next run"
            )
        whole = _artifact(stage, key, mine, built, store)
        artifact = store.commit_once(whole, folder, known, always=stage.crawls)
    work.sound.add((stage.name, mine, artifact.created_at))
    error = None if artifact.complete else str(artifact.meta.get("incomplete", "some rows failed"))
    seconds = time.perf_counter() - begin
    return Outcome(key, artifact, checks_of(artifact), error, computed=True, seconds=seconds)


def _refuse_damaged(stage: Stage, key: str, work: Work) -> None:
    """Read what a key is built from; what is damaged is set aside, so that it is built again.

    Raises:
        AssayError: something was damaged.
    """
    store = work.store
    wrong: dict[Need, str] = {}
    for need, artifact in zip(stage.needs(key), stage.inputs(key, store), strict=True):
        found = work.damage(artifact)
        if found:
            store.set_aside(artifact)
            wrong[need] = f"{need.stage} of {need.key} is damaged ({found})"
    for sentence in wrong.values():
        work.say(f"{sentence} and is built again")
    if wrong:
        told = "; ".join(wrong.values())
        raise _DamagedError(f"{stage.name} of {key}: {told}; it is built again by the next run", tuple(wrong))


def _earlier(stage: Stage, key: str, identity: str, folder: Path, work: Work) -> Artifact | None:
    """Look at what there is already of a key and of an identity; return the artifact that is built again.

    A damaged one is set aside, so that no build begins with it. The good files of an incomplete or damaged
    one are copied into the new folder: what was paid for is not paid again.
    """
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
        seed(folder, store.place(stage.name, identity), left)
    return known


def _built_before(stage: Stage, key: str, identity: str, store: ArtifactStore) -> Artifact | None:
    """Return what was built before, perhaps under another key or before a change that was taken back."""
    found = (store.find(stage.name, name) for name in (identity, of_key(identity, key)))
    return next((a for a in found if a and a.complete and _is_still_there(a, stage, key, store)), None)


def _artifact(stage: Stage, key: str, identity: str, built: Built, store: ArtifactStore) -> Artifact:
    meta = {
        **built.meta,
        "checks": [check.__dict__ for check in built.checks],
        "recipes": list(stage.recipes(key).values()),
        "made_of": stage.made_of(key, store),
    }
    return Artifact(
        stage.name, key, identity, built.data_version, built.complete, meta, measured=built.measured
    )


def _is_still_there(known: Artifact, stage: Stage, key: str, store: ArtifactStore) -> bool:
    """Say whether what an artifact stands for is what would be read now.

    The pages of a source lie in one place, which each crawl changes. So an earlier crawl cannot be gone back
    to: after another one, by another recipe or of other files, the source is crawled again.
    """
    current = stage.fresh(key, store) if stage.crawls else known
    return current is not None and current.identity == known.identity


def checks_of(artifact: Artifact) -> tuple[Check, ...]:
    """Return the checks that were stored with an artifact."""
    try:
        return tuple(Check(**check) for check in artifact.meta.get("checks", ()))
    except TypeError:  # the record of an earlier version, which has no seal, was damaged
        return ()


def build_keys(stage: Stage, keys: Sequence[str], work: Work) -> Iterable[Outcome]:
    """Bring keys up to date one by one, each committed before the next begins."""
    for number, key in enumerate(keys):
        work.progress(stage.name, number, len(keys))
        yield build_key(stage, key, work)
    work.progress(stage.name, len(keys), len(keys))
