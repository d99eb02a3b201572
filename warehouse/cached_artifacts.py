"""The artifacts of a home while nothing is built: each is looked up once, however many others need it."""

from __future__ import annotations

from rag_assay.warehouse.artifacts import Artifact, ArtifactStore
from rag_assay.warehouse.paths import Home


class StillArtifacts(ArtifactStore):
    """A store that answers for each key what it found at the first question, until it is refreshed.

    A look at 1,000 cells asks 15 times for each artifact: their files are read once. What another store or
    process commits meanwhile is not seen; whoever builds between two looks refreshes it.
    """

    def __init__(self, home: Home) -> None:
        super().__init__(home)
        self._found: dict[tuple[str, str], Artifact | None] = {}

    def refresh(self) -> None:
        """Look anew for every key, and for what other machines have committed."""
        super().refresh()
        self._found.clear()

    def current(self, stage: str, key: str) -> Artifact | None:
        """Return the artifact that ``key`` meant when it was first asked for, or None when there was none."""
        place = (stage, key)
        if place not in self._found:
            self._found[place] = super().current(stage, key)
        return self._found[place]

    def point(self, stage: str, key: str, identity: str) -> None:
        """Let a key mean an artifact, and forget what it meant."""
        super().point(stage, key, identity)
        self._found.pop((stage, key), None)

    def set_aside(self, artifact: Artifact) -> None:
        """Let a damaged artifact not count any longer, and forget which keys meant it."""
        super().set_aside(artifact)
        same = (artifact.stage, artifact.identity)
        self._found = {
            place: one
            for place, one in self._found.items()
            if one is None or (one.stage, one.identity) != same
        }
