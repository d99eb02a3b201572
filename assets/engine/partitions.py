"""Dagster partitions of the stages and their mappings, from the recipes."""

from __future__ import annotations

import dagster as dg

from rag_assay.assets.engine.stage import Stage


def partitions(stage: Stage) -> dg.StaticPartitionsDefinition:
    """Return the partitions of a stage; a placeholder where there are none, as Dagster wants at least one."""
    return dg.StaticPartitionsDefinition(stage.keys() or ["none"])


def mapping(stage: Stage, upstream: Stage | None) -> dg.StaticPartitionMapping:
    """Return which partitions of ``upstream`` (None: of the recipes) go into which of ``stage``."""
    downstream: dict[str, set[str]] = {}
    for key in stage.keys():
        sources = (
            [need.key for need in stage.needs(key) if need.stage == upstream.name]
            if upstream
            else list(stage.recipes(key))
        )
        for source in sources:
            downstream.setdefault(source, set()).add(key)
    return dg.StaticPartitionMapping({source: sorted(keys) for source, keys in downstream.items()})
