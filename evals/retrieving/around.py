"""Retrievers that do something with what another retriever found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from evals.measuring.contract import RetrievalMetric
from evals.retrieving.contract import Depth, Retriever, TrainCase, Tuning
from evals.retrieving.index import OpenIndex
from evals.retrieving.kinds import AnyRetriever


class Around(Retriever):
    """A retriever around another one.

    of: the retriever
    """

    of: AnyRetriever
    k: Depth = 10

    def versions(self) -> list[str]:
        """Return its own version and those of the retriever."""
        return [self.code_version, *self.of.all_versions()]

    @property
    def needs_vector(self) -> bool:
        """When the retriever does."""
        return self.of.needs_vector

    @property
    def widens(self) -> bool:
        """When its retriever does."""
        return self.of.widens

    @property
    def needs_tuning(self) -> bool:
        """When the retriever does."""
        return self.of.needs_tuning

    def tuned(self, cases: Sequence[TrainCase], index: OpenIndex, metric: RetrievalMetric) -> Tuning[Self]:
        """Tune the retriever, by its own ranking."""
        found = self.of.tuned([case._replace(finish=()) for case in cases], index, metric)
        return Tuning(self.model_copy(update={"of": found.tuned}), found.chosen)
