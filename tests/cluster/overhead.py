"""What runs that a driver has submitted cost beside the work in them: `python -m tests.cluster.overhead`."""

from __future__ import annotations

from statistics import median

import dagster as dg

from rag_assay.assets.engine.submission import SUBMITTED_TAG
from rag_assay.orchestration.settings import prepare


def main() -> None:
    """Print how many runs there were, and of each the seconds before and beside its work."""
    prepare()
    with dg.DagsterInstance.get() as instance:
        records = [one for one in instance.get_run_records() if SUBMITTED_TAG in one.dagster_run.tags]
        waited, beside, built = [], [], 0
        for one in records:
            said = instance.get_records_for_run(
                one.dagster_run.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION
            ).records
            found = [entry.asset_materialization for entry in said]
            seconds = [
                float(str(each.metadata["build_seconds"].value))
                for each in found
                if each and "build_seconds" in each.metadata
            ]
            built += len(found)
            if one.start_time and one.end_time:
                waited.append(one.start_time - one.create_timestamp.timestamp())
                beside.append(one.end_time - one.start_time - sum(seconds))
    print(
        f"{len(records)} runs of {built} partitions: begun after {median(waited):.1f} s, "
        f"{median(beside):.2f} s beside the work (median; most {max(beside):.1f} s)"
    )


if __name__ == "__main__":
    main()
