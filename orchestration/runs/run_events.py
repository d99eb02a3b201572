"""What the run of a walk writes into Dagster's event log beside the keys that were built."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Sequence

import dagster as dg
from dagster._core.events import AssetMaterializationPlannedData, DagsterEvent, DagsterEventBatchMetadata

from rag_assay.orchestration.run_report import RunReport, StageReport, by_reason

FIRST = 20  # failed keys of a stage that the text of a failed run names


def log_planned(context: dg.OpExecutionContext, stage: str, keys: Sequence[str]) -> None:
    """Note which partitions of an asset a run is about to bring up to date.

    Dagster does so for the assets of a job that it knows to be one of assets. A partition that was planned,
    and has no materialization when its run has failed, is shown as failed.
    """
    batch = uuid.uuid4().hex
    for number, key in enumerate(keys, start=1):
        planned = DagsterEvent.build_asset_materialization_planned_event(
            context.job_name,
            context.get_step_execution_context().step.key,
            AssetMaterializationPlannedData(dg.AssetKey(stage), partition=key),
        )
        context.instance.report_dagster_event(
            planned,
            context.run_id,
            logging.DEBUG,
            batch_metadata=DagsterEventBatchMetadata(batch, is_end=number == len(keys)),
        )


def log_stage(context: dg.OpExecutionContext, report: StageReport) -> None:
    """Write down in a line, and in its sentences, what came of a stage."""
    counts = {
        "computed": report.built,
        "found again": report.reused,
        "up to date": report.fresh,
        "failed": len(report.failed),
        "left out": len(report.left_out),
    }
    told = ", ".join(f"{number} {name}" for name, number in counts.items() if number)
    context.log.info("\n".join([f"{report.stage}: {told}, in {report.seconds:.1f} s", *report.sentences]))


def failure_text(stages: Iterable[StageReport]) -> str:
    """Return which keys of a walk failed and why, stage by stage, for the text of its failed run.

    >>> print(failure_text([StageReport("scores", 3, failed={"a": "no key"}, left_out={"b": "", "c": ""})]))
    1 of 3 scores failed:
    - a: no key
    2 of 3 scores were left out: what they need failed
    """
    lines: list[str] = []
    for stage in stages:
        if stage.failed:
            lines.append(f"{len(stage.failed)} of {stage.keys} {stage.stage} failed:")
            for reason, keys in by_reason(stage.failed).items():
                more = f" and {len(keys) - FIRST} more" if len(keys) > FIRST else ""
                lines.append(f"- {', '.join(keys[:FIRST])}{more}: {reason}")
        if stage.left_out:
            lines.append(
                f"{len(stage.left_out)} of {stage.keys} {stage.stage} were left out: what they need failed"
            )
    return "\n".join(lines)


def stage_table(report: RunReport) -> str:
    """Return a walk as a table in Markdown, a row a stage.

    >>> print(stage_table(RunReport([StageReport("chunks", 4, fresh=3, built=1, seconds=0.26)])))
    | stage | keys | up to date | computed | found again | failed | left out | seconds |
    |---|--:|--:|--:|--:|--:|--:|--:|
    | chunks | 4 | 3 | 1 | 0 | 0 | 0 | 0.3 |
    """
    rows = [
        "| stage | keys | up to date | computed | found again | failed | left out | seconds |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    rows += [
        f"| {one.stage} | {one.keys} | {one.fresh} | {one.built} | {one.reused} | {len(one.failed)} "
        f"| {len(one.left_out)} | {one.seconds:.1f} |"
        for one in report.stages
    ]
    return "\n".join(rows)
