"""Reuses stored scores, metric by metric, by the digest of what they were computed from (`identity_of`): from
sound artifacts, or from what a killed build has left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import polars as pl

from rag_assay.evals.metrics.contract import Metric, Reading
from rag_assay.warehouse.artifacts import Artifact, ArtifactStore
from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.parquet import read_parquet

METRICS = "metrics"
"""Where the meta of an artifact of scores says what it holds: metric name -> identity of its scores."""
NOT_JUDGED = "not_judged"
"""Where the meta of scores says which judgements could not be made: their keys."""
NOT_ANNOTATED = "not_annotated"
"""Where the meta of scores says that what people say could not be joined to its cell."""
FILE = "scores.parquet"
WAITING = ".metrics"
"""The folder of what was computed by a build that is not committed yet, in its own."""


def identity_of(metric: Metric, questions: str, inputs: Mapping[Reading, str]) -> str:
    read = [[name, inputs[name]] for name in sorted(metric.reads)]
    return digest(["scores", metric.name, metric.all_versions(), questions, read])


class StoredScores:
    """Finds the scores of metrics in the artifacts of a home; ``is_sound`` is called once for each."""

    def __init__(self, store: ArtifactStore, is_sound: Callable[[Artifact], bool]) -> None:
        self._store = store
        self._is_sound = is_sound
        self._holders: dict[str, list[str]] | None = None  # identity of a metric's scores -> artifacts

    def of_keys(self, wanted: Mapping[str, str], keys: Iterable[str]) -> dict[str, pl.DataFrame]:
        found: dict[str, pl.DataFrame] = {}
        for key in keys:
            if len(found) == len(wanted):
                break
            self._take(self._store.current("scores", key), wanted, found)
        return found

    def anywhere(self, wanted: Mapping[str, str]) -> dict[str, pl.DataFrame]:
        """Return the rows of those of the wanted metrics that any artifact of the home held."""
        found: dict[str, pl.DataFrame] = {}
        if not wanted:
            return found
        if self._holders is None:
            self._holders = {}
            for artifact in self._store.all("scores"):
                for identity in artifact.meta.get(METRICS, {}).values():
                    self._holders.setdefault(identity, []).append(artifact.identity)
        for name, identity in wanted.items():
            for holder in self._holders.get(identity, ()):
                if name not in found:
                    self._take(self._store.find("scores", holder), wanted, found)
        return found

    def _take(
        self, artifact: Artifact | None, wanted: Mapping[str, str], found: dict[str, pl.DataFrame]
    ) -> None:
        if artifact is None:
            return
        held = artifact.meta.get(METRICS, {})
        names = [
            name for name, identity in wanted.items() if name not in found and held.get(name) == identity
        ]
        if not names or not self._is_sound(artifact):
            return
        try:
            rows = read_parquet(self._store.files_of(artifact) / FILE)
        except CorruptFileError:
            return  # gone since it was looked at
        for name in names:
            found[name] = rows.filter(pl.col("metric") == name)
