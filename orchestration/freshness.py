"""How old pages may be before the UI warns: as old as the schedules of their sources let them become."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

import dagster as dg

from rag_assay.evals.study.grid import Grid
from rag_assay.warehouse.cron import longest_gap

PAGES = dg.AssetKey("pages")
SLACK = timedelta(hours=1)  # that a crawl may take


def with_freshness(assets: Sequence[dg.AssetsDefinition], grid: Grid) -> list[dg.AssetsDefinition]:
    """Return the assets, `pages` with a policy where a file says when its sources are crawled.

    Dagster holds a policy for an asset, not for its partitions, so that it is of the source that is crawled
    most often: a crawl missed is a warning, a second one a failure. What is made of pages has no policy:
    where a crawl finds nothing new, it is rightly left as it is.
    """
    gaps = [longest_gap(cron) for cron in _schedules(grid)]
    if not gaps:
        return list(assets)
    policy = dg.FreshnessPolicy.time_window(fail_window=2 * min(gaps) + SLACK, warn_window=min(gaps) + SLACK)

    def timed(spec: dg.AssetSpec) -> dg.AssetSpec:
        return spec.replace_attributes(freshness_policy=policy) if spec.key == PAGES else spec

    return [one.map_asset_specs(timed) for one in assets]


def _schedules(grid: Grid) -> Iterator[str]:
    """Yield the cron expressions that the files say, of sources and studies; not the defaults."""
    for source in grid.build.sources.values():
        if "schedule" in source.model_fields_set:
            yield source.schedule
    for study in grid.studies.values():
        if study.schedule is not None:
            yield study.schedule.cron
