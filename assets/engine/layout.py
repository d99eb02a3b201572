"""How the assets of stages are placed in a Dagster project: key prefix, group, op tags and pools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

StageKind = Literal["crawl", "cpu", "gpu", "llm"]
"""What a stage mainly needs: the network, processors, an embedding or reranking model, a language model."""
STAGE_KINDS: tuple[StageKind, ...] = get_args(StageKind)
_KINDS: Mapping[str, StageKind] = {
    "pages": "crawl",
    "embeddings": "gpu",
    "rankings": "gpu",
    "enrichments": "llm",
    "answers": "llm",
    "judgements": "llm",
}


@dataclass(frozen=True)
class ProjectLayout:
    """Where a Dagster project shows the stages of its studies, and what their steps run on.

    prefix: of the asset keys, and of the names of jobs, schedules, sensors and ops
    group: of all assets. Default: the groups of the stages
    op_tags: of the steps of each kind of stage, as `{"gpu": {"dagster-k8s/config": …}}`
    pools: of the steps of each kind of stage. Default: the pools of the stages
    schedules: whether crawls and studies have schedules
    """

    prefix: tuple[str, ...] = ()
    group: str | None = None
    op_tags: Mapping[StageKind, Mapping[str, Any]] = field(default_factory=dict)
    pools: Mapping[StageKind, str] = field(default_factory=dict)
    schedules: bool = True

    def name(self, name: str) -> str:
        """Return the name of a job, schedule, sensor or op.

        >>> ProjectLayout(("docs", "search")).name("alerts")
        'docs_search_alerts'
        """
        return "_".join([*self.prefix, name])

    def tags_of(self, stage: str) -> Mapping[str, Any]:
        return self.op_tags.get(kind_of(stage), {})

    def pool_of(self, stage: str, default: str | None) -> str | None:
        return self.pools.get(kind_of(stage), default)


def kind_of(stage: str) -> StageKind:
    """Return the kind of a stage.

    >>> kind_of("embeddings"), kind_of("chunks")
    ('gpu', 'cpu')
    """
    return _KINDS.get(stage, "cpu")
