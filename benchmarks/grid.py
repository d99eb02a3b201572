"""What orchestrating a grid costs: CPU seconds beside the work itself, per cell and asset, and per stage.

The work is made small on purpose (three short files, cheap retrievers, quoted answers), so that what is
left is the driver, Dagster and DuckDB. Printed per stage: keys, CPU seconds of this process in all, those
inside builds, and what is left for each key once the fixed cost of a stage is taken off; that one is what the
cheapest stage pays.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rag_assay.evals.study.study import Study
    from rag_assay.orchestration.run_report import RunReport, StageReport

TEXTS = {
    "harbour": "The harbour office opens at seven. Pilots report by radio before they pass the outer buoy. "
    "A mooring costs twelve pounds a night in summer and eight in winter. ",
    "ferry": "The ferry to the island runs every forty minutes. It carries nineteen cars. "
    "In a storm above nine Beaufort it stays in port, and tickets are paid back within a week. ",
    "library": "The library lends books for four weeks and films for one. Fines stop at five pounds. "
    "Members under sixteen pay nothing at all, and may borrow ten items at a time. ",
}
CHUNKINGS, RETRIEVERS, GENERATORS = 12, 4, 2


def study_file(
    folder: Path, n_chunkings: int = CHUNKINGS, n_retrievers: int = RETRIEVERS, n_generators: int = GENERATORS
) -> Path:
    """Write the sources, questions and study of the benchmark; return the study's path."""
    (folder / "texts").mkdir()
    for name, text in TEXTS.items():
        (folder / "texts" / f"{name}.txt").write_text(text * 4)
    (folder / "bench.questions.yaml").write_text(
        "question_set: bench\nquestions:\n"
        "  - id: q1\n    question: What does a mooring cost in summer?\n"
        "    ground_truth: Twelve pounds a night.\n"
        "    evidence: [{url: harbour.txt, quote: A mooring costs twelve pounds a night}]\n"
        "  - id: q2\n    question: How many cars fit on the ferry?\n    ground_truth: Nineteen.\n"
        "    evidence: [{url: ferry.txt, quote: It carries nineteen cars}]\n"
    )
    chunkings = "".join(
        f"  t{n}: {{tokens: {{size: {16 + 4 * n}, overlap: 4}}}}\n" for n in range(n_chunkings)
    )
    retrievers = "".join(f"  bm25-{k}: {{bm25: {{k: {k}}}}}\n" for k in range(10, 10 + n_retrievers))
    generators = "".join(
        f"  quote-{n}: {{extractive: {{passages: 2, max_tokens: {n}}}}}\n"
        for n in range(40, 40 + n_generators)
    )
    path = folder / "bench.yaml"
    path.write_text(
        "study: bench\nsources:\n  texts: {reader: folder, path: texts}\n"
        "corpus: {name: bench, sources: [texts]}\n"
        f"chunkings:\n{chunkings}embedders:\n  minilm: {{model: all-MiniLM-L6-v2, max_tokens: 256}}\n"
        f"retrievers:\n{retrievers}generators:\n{generators}"
        "questions: [{file: bench.questions.yaml}]\nmetrics: [ndcg@10, evidence_coverage@5, tokens]\n"
    )
    return path


class Meter:
    """Measures the CPU seconds of each stage of a run, and those inside its builds."""

    def __init__(self) -> None:
        self.all: dict[str, float] = {}
        self.work: dict[str, float] = {}
        self._begin = 0.0

    def begin(self, _stage: str, _number: int, _of: int) -> None:
        self._begin = time.process_time()

    def end(self, report: StageReport) -> None:
        self.all[report.stage] = time.process_time() - self._begin

    def measured(self, stage: str, build: Callable[..., Any]) -> Callable[..., Any]:
        def measured(*arguments: Any) -> Any:
            begin = time.process_time()
            try:
                return build(*arguments)
            finally:
                self.work[stage] = self.work.get(stage, 0.0) + time.process_time() - begin

        return measured

    def run(self, study: Study) -> RunReport:
        """Run a study, and print what its stages took."""
        from rag_assay.evals.study.grid import Grid
        from rag_assay.orchestration.driver import Driver
        from rag_assay.orchestration.stages import stages_of
        from rag_assay.warehouse.paths import home

        kinds = {stage.name: type(stage) for stage in stages_of(Grid([study])).values()}
        before = {name: kind.build for name, kind in kinds.items()}
        begin = time.process_time()
        try:
            for name, kind in kinds.items():
                kind.build = self.measured(name, before[name])  # type: ignore[method-assign]
            report = Driver(study, home(), watch=self).run()
        finally:
            for name, kind in kinds.items():
                kind.build = before[name]  # type: ignore[method-assign]
        print(f"{time.process_time() - begin:.2f} CPU s, {report.built} computed")
        built = [stage for stage in report.stages if stage.built]
        rest = {one.stage: self.all[one.stage] - self.work.get(one.stage, 0.0) for one in built}
        fixed = min(rest.values(), default=0.0)
        for one in built:
            cost = 1000 * (rest[one.stage] - fixed) / one.built
            print(
                f"{one.stage:<12}{one.built:>5} of {one.keys:<5}{self.all[one.stage]:>8.2f}"
                f"{self.work.get(one.stage, 0.0):>8.2f}{cost:>24.1f}"
            )
        if built:
            keys = sum(one.built for one in built)
            print(f"{1000 * sum(rest.values()) / keys:.1f} ms of CPU a key beside the work, all stages")
        return report


def main() -> None:
    """Run the grid, run it again, add one retriever, and print CPU seconds."""
    with tempfile.TemporaryDirectory(prefix="assay-bench-") as name:
        folder = Path(name)
        models = Path(os.environ.get("ASSAY_MODELS") or Path(os.environ.get("ASSAY_HOME", "var")) / "models")
        os.environ["ASSAY_MODELS"] = str(models.resolve())
        os.environ["ASSAY_HOME"] = str(folder / "var")
        from rag_assay.orchestration.settings import prepare

        prepare()
        from rag_assay.evals.study.study_file import read_study

        path = study_file(folder)
        study = read_study(path)
        cells, rankings = len(study.cells()), len(study.rankings())
        print(f"{cells} cells, {rankings} rankings, {CHUNKINGS} indexes")
        print("stage         keys            CPU s    work  ms beside the work, a key")
        first = Meter().run(study)
        failed = [reason for stage in first.stages for reason in stage.failed.values()]
        if failed:
            raise SystemExit(f"the grid failed: {failed[0]}")
        print("nothing to do:")
        Meter().run(study)
        path.write_text(
            path.read_text().replace("generators:\n", "  bm25-99: {bm25: {k: 99}}\ngenerators:\n")
        )
        print("one retriever added:")
        Meter().run(read_study(path))


if __name__ == "__main__":
    main()
