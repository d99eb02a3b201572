"""Schedules: every source is crawled again by its own cron expression, once somebody switches it on."""

from __future__ import annotations

import dagster as dg

from assets.recipes.merging import Build
from warehouse.identity import digest


def crawl_schedules(build: Build) -> list[dg.ScheduleDefinition]:
    """Return a schedule for each source, off by default, in UTC."""
    found: dict[str, dg.ScheduleDefinition] = {}
    for source, recipe in sorted(build.sources.items()):
        name = _identifier(source)
        if name in found:  # `my-news` and `my_news`: Dagster takes neither hyphens nor a second one of a name
            name = f"{name}_{digest(source)[:6]}"
        found[name] = _schedule(name, source, recipe.schedule)
    return list(found.values())


def _schedule(name: str, source: str, cron: str) -> dg.ScheduleDefinition:
    job = dg.define_asset_job(
        f"crawl_{name}",
        selection=dg.AssetSelection.assets("pages", "documents"),
        description=f"Crawl {source} again and clean what changed.",
    )

    @dg.schedule(
        name=f"crawl_{name}_schedule",
        job=job,
        cron_schedule=cron,
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description=f"Re-crawl of {source} ({cron} UTC); switched off until you start it.",
    )
    def crawl() -> dg.RunRequest:
        return dg.RunRequest(partition_key=source)

    return crawl


def _identifier(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name)
