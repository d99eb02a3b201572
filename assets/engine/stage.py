"""A stage of the pipeline: partition keys, what each needs, and how one is built."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from rag_assay.assets.engine.layout import ProjectLayout
from rag_assay.warehouse.artifacts import Artifact, ArtifactStore
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.inference.budget import Budgets

if TYPE_CHECKING:
    from rag_assay.assets.engine.table import StageTable
    from rag_assay.warehouse.paths import Home

Progress = Callable[[str, int, int], None]


LOCAL_MODEL = "local_model"
"""The pool of stages that may load a model on this machine."""
DUCKDB = "duckdb"
"""The pool of stages that load no model and write into DuckDB."""


class PartitionRef(NamedTuple):
    """One partition of another stage that a partition is built from."""

    stage: str
    key: str


@dataclass(frozen=True)
class Check:
    """The outcome of an asset check on one partition.

    severe: an error, else a warning; blocking: nothing is built from the key while it fails
    """

    name: str
    passed: bool
    description: str
    metadata: dict[str, Any] = field(default_factory=dict)
    severe: bool = True
    blocking: bool = False

    @property
    def blocks(self) -> bool:
        return self.blocking and self.severe and not self.passed

    @property
    def sentence(self) -> str:
        """What it found, with its name.

        >>> Check("recall", False, "recall@10 is 0.4").sentence
        'the check `recall` fails: recall@10 is 0.4'
        """
        return f"the check `{self.name}` {'passes' if self.passed else 'fails'}: {self.description}"


def blocked_by(checks: Sequence[Check]) -> str | None:
    return next((check.sentence for check in checks if check.blocks), None)


@dataclass(frozen=True)
class BuildResult:
    """What a build returns once its files are written.

    data_version: digest of the content, times and latencies left out; measured: digest of those
    complete: False if rows failed in a way that the next run may fix
    machines: classes of the machines that measured
    keeps: it kept rows of an earlier, incomplete build
    """

    data_version: str
    meta: dict[str, Any] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    complete: bool = True
    measured: str = ""
    machines: tuple[str, ...] = ()
    keeps: bool = False


class Resource:
    """Shared by the partitions of a run, and closed with it: files, models, servers."""

    def __init__(self, work: BuildContext) -> None:
        self.work = work

    def close(self) -> None:
        """Release what is held; may be called twice."""


Shared = TypeVar("Shared", bound=Resource)


@dataclass
class BuildContext:
    """What a build may use.

    budgets: of the run, over all stages; dagster: the execution context, which only crawls need
    sound: (stage, identity, created_at) of artifacts verified in this run
    """

    home: Home
    progress: Progress = lambda _label, _done, _of: None
    budgets: Budgets = field(default_factory=Budgets)
    sound: set[tuple[str, str, str]] = field(default_factory=set)
    dagster: Any = None
    _resources: dict[type[Resource], Resource] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.store.refresh()

    @property
    def store(self) -> ArtifactStore:
        return ArtifactStore(self.home)

    def resource(self, kind: type[Shared]) -> Shared:
        if kind not in self._resources:
            self._resources[kind] = kind(self)
        found = self._resources[kind]
        assert isinstance(found, kind)  # noqa: S101 -- it is kept by its class
        return found

    def say(self, sentence: str) -> None:
        self.progress(sentence, 0, 0)
        if self.dagster is not None:
            self.dagster.log.warning(sentence)

    def damage(self, artifact: Artifact) -> str | None:
        """Return what is wrong with an artifact's files, or None; read once per run."""
        mark = (artifact.stage, artifact.identity, artifact.created_at)
        if mark in self.sound:
            return None
        damage = self.store.damage(artifact)
        if damage is None:
            self.sound.add(mark)
        return damage

    def close(self) -> None:
        while self._resources:
            self._resources.popitem()[1].close()


def of_key(identity: str, key: str) -> str:
    """Return the identity under which a key builds what another key of the same inputs left unfinished."""
    return digest([identity, key])


@dataclass(frozen=True)
class Headline:
    """An asset beside that of a stage, which says in a sentence what comes of each key.

    text, value: entries of an artifact's meta
    check: name of the check that fails where the value has changed
    """

    asset: str
    description: str
    text: str
    value: str
    check: str


class Stage(ABC):
    """One stage; its name is that of the asset, of its folder, and in SQL of its artifacts."""

    name: ClassVar[str]
    group: ClassVar[str]
    description: ClassVar[str]
    upstream: ClassVar[tuple[str, ...]] = ()
    lineage: ClassVar[tuple[str, ...] | None] = None  # the upstream that the graph shows. Default: all of it
    family: ClassVar[str] = ""  # the asset of its recipes. Default: `chunks_recipes` of `chunks`
    headline: ClassVar[Headline | None] = None
    code_version: ClassVar[str] = "1"
    kinds: ClassVar[frozenset[str]] = frozenset({"python"})  # what it works with; the UI shows an icon each
    table: ClassVar[StageTable | None] = None  # the rows of a key that the UI shows some of
    counted: ClassVar[str] = ""  # which number of the meta says how many rows there are, where no table does
    checks: ClassVar[dict[str, str]] = {}
    blocking: ClassVar[frozenset[str]] = frozenset()  # the checks whose error makes what follows wrong
    by_source: ClassVar[bool] = False  # the UI gives each partition a run of its own, as schedules do
    crawls: ClassVar[bool] = False  # fetches from outside: runs again when asked, recipe changed or not
    in_place: ClassVar[bool] = False  # writes to one place a key, outside of its artifacts' folders
    resumes: ClassVar[bool] = False  # goes on with what a killed build has left in its folder

    layout: ProjectLayout = ProjectLayout()  # of the Dagster project that shows the stage

    # What a stage that goes on with gaps must do without in this run, and why: the driver sets it.
    tolerates_gaps: ClassVar[bool] = False
    without: frozenset[PartitionRef] = frozenset()
    failures: tuple[str, ...] = ()

    @abstractmethod
    def keys(self) -> list[str]:
        """Return all partition keys."""

    @abstractmethod
    def needs(self, key: str) -> list[PartitionRef]:
        """Return what a key is built from, in a fixed order."""

    @abstractmethod
    def recipes(self, key: str) -> dict[str, str]:
        """Return the digests of the recipes that a key depends on, by name (`chunking.tokens-128-42`)."""

    @abstractmethod
    def build(self, key: str, folder: Path, work: BuildContext) -> BuildResult:
        """Build one key: write its files into ``folder``, which no other process uses. It is empty but for
        undamaged files of an incomplete artifact of the same identity and, if the stage `resumes`, what a
        killed build left.
        """

    def spends(self, key: str) -> bool:
        """Return whether building a key may cost money."""
        return False

    def table_path(self, artifact: Artifact, store: ArtifactStore) -> Path:
        if self.table is None:
            raise ValueError(f"{self.name} stores no table")
        return store.folder(self.name, artifact.identity) / self.table.file

    def links(self, key: str, home: Home) -> dict[str, Path]:
        return {}

    def pool(self) -> str | None:
        """Return the pool whose runs exclude each other; None: runs may overlap."""
        return None

    def waits_for_servers(self, key: str) -> bool:
        """Return whether building a key is mostly waiting for servers: others are built meanwhile."""
        return False

    def inputs(self, key: str, store: ArtifactStore) -> list[Artifact]:
        """Return the artifacts that a key needs, in the order of `needs`; `AssayError` if one is missing."""
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
        inputs = [self.cache_key_of(self.project_input(key, one)) for one in self.inputs(key, store)]
        return digest([self.name, self.code_version, list(self.recipes(key).values()), inputs])

    def made_of(self, key: str, store: ArtifactStore) -> str:
        """Return the digest of the contents that a key is built from, by whatever recipe."""
        taken = [self.project_input(key, artifact) for artifact in self.inputs(key, store)]
        return digest([[artifact.stage, artifact.data_version] for artifact in taken])

    def is_still(self, key: str, identity: str, store: ArtifactStore) -> bool:
        return self.identity(key, store) == identity

    def project_input(self, key: str, artifact: Artifact) -> Artifact:
        """Return the input with the digest of only the part that this stage reads."""
        return artifact

    def cache_key_of(self, artifact: Artifact) -> list[str]:
        """Return the part of an input's identity that this stage depends on. Default: its content."""
        return [artifact.stage, artifact.data_version]

    def on_committed(self, keys: Sequence[str], work: BuildContext) -> None:  # noqa: B027 -- most stages note nothing
        """Hook after the rows of keys were stored. Idempotent: it is called again after a crash."""

    def on_computed(self, keys: Sequence[str], work: BuildContext) -> None:  # noqa: B027
        """Hook after keys were computed (not only found) and their rows stored."""

    def fresh(self, key: str, store: ArtifactStore) -> Artifact | None:
        """Return the artifact of a key if it is complete and built from the current inputs, else None."""
        try:
            identity = self.identity(key, store)
        except AssayError:
            return None
        artifact = store.current(self.name, key)
        mine = {identity, of_key(identity, key)}
        return artifact if artifact and artifact.identity in mine and artifact.complete else None


@dataclass(frozen=True)
class KeyOutcome:
    """How one key ended. ``artifact``: the current one; ``damaged``: inputs to be built again first."""

    key: str
    artifact: Artifact | None
    checks: tuple[Check, ...] = ()
    error: str | None = None
    damaged: tuple[PartitionRef, ...] = ()
    computed: bool = False
    seconds: float = 0.0

    @property
    def blocked(self) -> str | None:
        return blocked_by(self.checks)

    @property
    def ok(self) -> bool:
        return self.error is None and self.artifact is not None and self.artifact.complete


def is_of_now(stage: Stage, key: str, store: ArtifactStore) -> bool:
    """Return whether a key was built by its current recipes from current inputs, or nothing is stored."""
    return is_by_recipe_of_now(stage, key, store) and is_of_contents_of_now(stage, key, store)


def is_by_recipe_of_now(stage: Stage, key: str, store: ArtifactStore) -> bool:
    """Return whether the recipes of a key are those that it was built by; True where they are not known."""
    artifact = store.current(stage.name, key)
    known = artifact.meta.get("recipes") if artifact else None
    if known is None:
        return True
    now = list(stage.recipes(key).values())
    return bool(known[: len(now)] == now)  # those of a leaderboard go on with the cells that were not run


def is_of_contents_of_now(stage: Stage, key: str, store: ArtifactStore) -> bool:
    """Return whether a key was built from the current contents of its inputs; True if unknown."""
    artifact = store.current(stage.name, key)
    known = artifact.meta.get("made_of") if artifact else None
    try:
        return known is None or known == stage.made_of(key, store)
    except AssayError:  # what it needs now was never built
        return False
