"""The demo by stage: seconds of the processor and by the clock, from an empty workspace.

    python -m benchmarks.demo [STUDY]

On a machine with other work the seconds of the processor count.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from unittest.mock import patch

from rag_assay.evals.reporting.rows import report_data
from rag_assay.orchestration.commands.study_arguments import home_of, study_as_written
from rag_assay.orchestration.driver import Driver
from rag_assay.orchestration.run_report import StageReport


def used() -> float:
    """Return the seconds of the processor that this process and its ended children have used."""
    return sum(os.times()[:4])


class Watch:
    """Prints what each stage took."""

    def begin(self, stage: str, number: int, of: int) -> None:
        """Start the clocks."""
        self._begun = used(), time.monotonic()

    def end(self, report: StageReport) -> None:
        """Print a line."""
        processor, clock = used() - self._begun[0], time.monotonic() - self._begun[1]
        line(report.stage, processor, clock)


def line(what: str, processor: float, clock: float) -> None:
    """Print the seconds of something."""
    print(f"{what:<16} {processor:7.1f} {clock:7.1f}", flush=True)


def main() -> None:
    """Run the study, and show its verdict."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("study", nargs="?", default="demo")
    name = parser.parse_args().study
    begin = time.monotonic()
    print(f"{'':<16} {'cpu':>7} {'wall':>7}")
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, ASSAY_HOME=folder):
        study = study_as_written(name)
        where = home_of(study)
        line("imports", used(), time.monotonic() - begin)
        Driver(study, where, watch=Watch()).run()
        line("in all", used(), time.monotonic() - begin)
        print("\n".join(report_data(study, where, with_hits=False).verdict.sentences))


if __name__ == "__main__":
    main()
