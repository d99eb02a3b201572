"""The job of a study: its walk in one Dagster run, started by a person in the UI, a schedule or a command."""

from collections.abc import Callable

import dagster as dg
from dagster._core.errors import DagsterExecutionInterruptedError

from rag_assay.assets.engine.stage import LOCAL_MODEL
from rag_assay.evals.study.run_studies import note
from rag_assay.evals.study.study import Study
from rag_assay.orchestration.alerts import delivery
from rag_assay.orchestration.names import job_name
from rag_assay.orchestration.run_report import RunReport
from rag_assay.orchestration.runs.home_lock import hold_home, process_tags
from rag_assay.orchestration.runs.run import RunSelection, Walk, failure_text, stage_table
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.inference.budget import Budgets
from rag_assay.warehouse.paths import Home, home

STUDY_TAG = "assay/study"
Body = Callable[[dg.OpExecutionContext], RunReport]

_CONFIG = {
    "again": dg.Field(
        bool,
        default_value=False,
        description="Crawl the sources of the study again. Otherwise a source is crawled where it never was, "
        "or where its recipe changed.",
    ),
    "stages": dg.Field(
        [str],
        default_value=[],
        description="Names of the stages to bring up to date, as [pages, documents]; none: all of them.",
    ),
}


def study_job(study: Study, identifier: str) -> dg.JobDefinition:
    """Return the job that brings a study up to date, from its sources to its report, as `assay run` does."""

    def walk(context: dg.OpExecutionContext) -> RunReport:
        config = context.op_config
        return _walked(study, RunSelection(config["stages"] or None, again=config["again"]), context)

    plain = dg.ConfigMapping(
        config_schema=_CONFIG,
        config_fn=lambda given: {"ops": {_op_name(identifier): {"config": dict(given)}}},
    )
    return walk_job(study, identifier, walk, plain)


def _op_name(identifier: str) -> str:
    return f"walk_{identifier}"  # not that of the job: the UI loads nothing where both have one


def walk_job(
    study: Study,
    identifier: str,
    body: Body,
    config: dg.ConfigMapping | None = None,
    pool: str | None = LOCAL_MODEL,
) -> dg.JobDefinition:
    """Return a job of one op, which walks a study by ``body`` and fails if any key of it did.

    config: what a person gives the run, without a word of ops; None: as Dagster has it
    pool: the pool of the run; None where it only waits for others, which may need the pool
    """

    @dg.op(
        name=_op_name(identifier),
        config_schema=_CONFIG,
        pool=pool,
        description="Take one stage after the other, and build of each the keys that are not up to date. "
        "Each is committed by itself; one that fails leaves the others to go on.",
    )
    def walk(context: dg.OpExecutionContext) -> None:
        report = body(context)
        shown = dg.MetadataValue.md(stage_table(report))
        if not report.ok:
            why = failure_text(report.stages)
            raise dg.Failure(description=why, metadata={"stages": shown}, allow_retries=False)
        context.add_output_metadata({"stages": shown})

    @dg.job(
        name=job_name(identifier),
        description=f"Bring the study {study.study} up to date, from its sources to its report: what "
        f"changed, what is missing and what failed before, in one run. {study.description}".strip(),
        tags={STUDY_TAG: study.study},
        executor_def=dg.in_process_executor,
        config=config,  # type: ignore[arg-type]  # None is its default
    )
    def job() -> None:
        walk()

    return job


def _walked(study: Study, part: RunSelection, context: dg.OpExecutionContext) -> RunReport:
    where, instance = home(), context.instance
    instance.add_run_tags(context.run_id, process_tags())

    def tell(sentence: str, _done: int, of: int) -> None:
        if not of:
            context.log.info(sentence)

    note(study, where)
    try:
        with hold_home(where, lambda: instance, tell, context.run_id) as (_, interrupted):
            budgets = Budgets()

            def bring_up(one: Study, wanted: RunSelection) -> Walk:
                walk = Walk(one, where, instance, wanted, interrupted=interrupted)
                walk.options.budgets = budgets
                walk.begin()
                while walk.next_stale():
                    walk.build(context)
                walk.end()
                return walk

            left, part = _searched(study, part, where, bring_up, lambda text: tell(text, 0, 0))
            walk = bring_up(left, part)
        if part.only is None:
            delivery.tell(left, walk.stages, where, walk.report)
        return walk.report  # noqa: TRY300 -- what is told belongs to the walk
    except AssayError as error:
        raise dg.Failure(description=str(error), allow_retries=False) from error
    except KeyboardInterrupt:
        raise DagsterExecutionInterruptedError from None


def _searched(
    study: Study,
    part: RunSelection,
    where: Home,
    bring_up: Callable[[Study, RunSelection], object],
    say: Callable[[str], None],
) -> tuple[Study, RunSelection]:
    from rag_assay.evals.successive_halving.records import narrow_study
    from rag_assay.orchestration.search_run import search_study
    from rag_assay.orchestration.stages import up_to

    if study.search is None:
        return study, part
    if part.only is not None:
        return narrow_study(study, where), part
    if part.again:  # before the search, whose questions and documents are the current ones
        bring_up(study, RunSelection(("pages",), again=True))

    def walk(one: Study, last: str) -> object:
        return bring_up(one, RunSelection(tuple(up_to(one, [last]))))

    return search_study(study, where, walk, say), RunSelection()
