"""What orchestrating a grid costs: seconds beside the work itself, per cell and asset, and per stage.

The work is made small on purpose (three short files, cheap retrievers, quoted answers), so that what is
left is the driver, Dagster and DuckDB. Printed per stage: keys, seconds in all, seconds inside builds, and
what is left for each key once the fixed cost of a stage is taken off; that one is what the stage with the
fewest keys pays.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

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


def main() -> None:
    """Run the grid, run it again, add one retriever, and print the seconds."""
    with tempfile.TemporaryDirectory(prefix="assay-bench-") as name:
        folder = Path(name)
        models = Path(os.environ.get("ASSAY_MODELS") or Path(os.environ.get("ASSAY_HOME", "var")) / "models")
        os.environ["ASSAY_MODELS"] = str(models.resolve())
        os.environ["ASSAY_HOME"] = str(folder / "var")
        from rag_assay.orchestration.settings import prepare

        prepare()
        from rag_assay.evals.study.study_file import read_study
        from rag_assay.orchestration.driver import Driver
        from rag_assay.warehouse.paths import home

        path = study_file(folder)
        study = read_study(path)
        cells, rankings = len(study.cells()), len(study.rankings())
        print(f"{cells} cells, {rankings} rankings, {CHUNKINGS} indexes")
        first = Driver(study, home()).run()
        failed = [reason for stage in first.stages for reason in stage.failed.values()]
        if failed:
            raise SystemExit(f"the grid failed: {failed[0]}")
        fixed = min(stage.seconds - stage.build_seconds for stage in first.stages)
        print(f"a stage costs {fixed:.2f} s beside its keys")
        print(f"{'stage':<12}{'keys':>6}{'all s':>9}{'work s':>9}{'ms beside the work, a key':>27}")
        for stage in first.stages:
            rest = 1000 * (stage.seconds - stage.build_seconds - fixed) / stage.keys
            print(
                f"{stage.stage:<12}{stage.keys:>6}{stage.seconds:>9.2f}{stage.build_seconds:>9.2f}{rest:>27.1f}"
            )
        begin = time.perf_counter()
        second = Driver(study, home()).run()
        print(f"nothing to do: {time.perf_counter() - begin:.2f} s, {second.built} computed")
        path.write_text(
            path.read_text().replace("generators:\n", "  bm25-99: {bm25: {k: 99}}\ngenerators:\n")
        )
        third = Driver(read_study(path), home()).run()
        print(f"one retriever added: {third.seconds:.2f} s, {third.built} computed")
        for stage in third.stages:
            if stage.built:
                rest = stage.seconds - stage.build_seconds
                print(f"  {stage.stage:<12}{stage.built:>4} of {stage.keys:<5}{rest:>7.2f} s beside the work")


if __name__ == "__main__":
    main()
