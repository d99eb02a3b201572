"""The resources that metrics share in a run: embedders and models, opened once."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from rag_assay.warehouse.inference.call_tags import Purpose

if TYPE_CHECKING:
    from rag_assay.assets.embedding.cached_embedder import CachedEmbedder
    from rag_assay.assets.embedding.embedder import EmbedderRecipe
    from rag_assay.warehouse.inference.budget import Budget
    from rag_assay.warehouse.inference.gateway import Gateway
    from rag_assay.warehouse.paths import Home


class MetricContext:
    """Opens what a metric needs once for all metrics and cells of a run; ``budget`` None: no limit."""

    def __init__(
        self, home: Home, budget: Budget | None = None, purpose: Purpose = Purpose("metrics")
    ) -> None:
        self.home = home
        self.purpose = purpose
        self._budget = budget
        self._embedders: dict[EmbedderRecipe, CachedEmbedder] = {}

    def embedder(self, recipe: EmbedderRecipe) -> CachedEmbedder:
        from rag_assay.assets.embedding.cached_embedder import CachedEmbedder

        if recipe not in self._embedders:
            self._embedders[recipe] = CachedEmbedder(recipe, self.home)
        return self._embedders[recipe]

    @cached_property
    def gateway(self) -> Gateway:
        from rag_assay.warehouse.inference.gateway import Gateway

        return Gateway(self.home, budget=self._budget)

    def close(self) -> None:
        if "gateway" in self.__dict__:
            self.gateway.close()
