"""Whether questions made without a model rank cells as questions do that people wrote, on the sample site.

    python -m benchmarks.made_questions

The demo's corpus and four chunkings, five retrievers, no generator: 20 cells; the questions of people and
those that `assay questions make` makes of the same documents. Printed for two metrics: Kendall's tau-b of the
cells' means with a bootstrap interval over the questions of both sets, and beside it what two halves of the
written questions agree to. Indexes are built once below ASSAY_HOME: some minutes of embedding.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import yaml

from benchmarks.rank_agreement import Values, agreement, halves
from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.question_generation.generator import DEFAULT, GeneratedQuestions, GenerationPlan, by_kind
from rag_assay.evals.question_generation.kinds import KINDS
from rag_assay.evals.question_generation.question_file import make_for, write_questions
from rag_assay.evals.study.study import Study
from rag_assay.evals.study.study_file import read_study
from rag_assay.evals.study.study_names import BUNDLED
from rag_assay.orchestration.driver import Driver
from rag_assay.warehouse.paths import Home, home

METRICS = ("evidence_coverage@5", "ndcg@10")
KEPT = ("seed", "sources", "corpus", "chunkings", "embedders")
RETRIEVERS: dict[str, Any] = {
    "bm25": {"bm25": {"k": 50}},
    "bm25-plain": {"bm25": {"k": 50, "tokenizer": "plain", "function_words": "keep", "title": 0}},
    "dense": {"dense": {"k": 50}},
    "hybrid": {"hybrid": {"k": 50}},
    "rrf": [{"fuse": {"rrf": {}, "of": [{"bm25": {"k": 100}}, {"dense": {"k": 100}}], "k": 50}}],
}
SEED = 7


def study_in(folder: Path, *made: str) -> Study:
    """Write the demo without generators, with made question sets beside those of people."""
    demo: dict[str, Any] = yaml.safe_load((BUNDLED / "demo.yaml").read_text(encoding="utf-8"))
    written = [{"file": str(BUNDLED / one["file"])} for one in demo["questions"]]
    study = {
        "study": "made-and-written",
        **{key: demo[key] for key in KEPT},
        "retrievers": RETRIEVERS,
        "questions": [*written, *({"file": str(folder / name)} for name in made)],
        "metrics": list(METRICS),
    }
    path = folder / "made-and-written.yaml"
    path.write_text(yaml.safe_dump(study, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return read_study(path)


def made_in(folder: Path, where: Home) -> GeneratedQuestions:
    """Make the questions of all kinds, and write them."""
    study = study_in(folder)
    Driver(study, where).run(("pages", "documents"))
    work = BuildContext(where)
    try:
        found = make_for(study, GenerationPlan(kinds=KINDS, n=150, seed=SEED), work)
    finally:
        work.close()
    write_questions(found, study, folder / "made.questions.yaml")
    return found


def values_of(study: Study, metric: str, where: Home) -> tuple[list[str], Values]:
    """Return the questions that a metric applies to, and its values, shape (questions, cells)."""
    store = BuildContext(where).store
    frames = []
    for cell in study.cells():
        artifact = store.current("scores", cell.key)
        if artifact is None:
            raise SystemExit(f"{cell.key} has no scores; run again")
        rows = pl.read_parquet(store.folder("scores", artifact.identity) / "scores.parquet")
        rows = rows.filter((pl.col("metric") == metric) & pl.col("value").is_not_null())
        frames.append(rows.select("question_id", pl.col("value").alias(cell.key)))
    table = frames[0]
    for other in frames[1:]:
        table = table.join(other, on="question_id")
    table = table.sort("question_id")
    return table["question_id"].to_list(), table.drop("question_id").to_numpy().astype(np.float64)


def main() -> None:
    """Print the agreement, of all made questions and of each kind."""
    where = home()
    folder = where.root / "benchmarks" / "made-questions"
    folder.mkdir(parents=True, exist_ok=True)
    made = made_in(folder, where)
    print(f"{len(made.questions)} made questions: {dict(by_kind(made.questions))}", file=sys.stderr)
    study = study_in(folder, "made.questions.yaml")
    Driver(study, where).run()
    kinds = {one.id: f"{one.kind}s" for one in made.questions}
    print(f"{len(study.cells())} cells\n")
    print("| metric | made from | questions | tau-b | 95 % |\n|---|---|---|---|---|")
    for metric in METRICS:
        ids, values = values_of(study, metric, where)
        written = values[[one not in kinds for one in ids]]
        print(
            f"| {metric} | written by people, two halves | {len(written)} | {halves(written, SEED):.2f} | |"
        )
        for name, wanted in {"the default kinds": DEFAULT, **{one: (one,) for one in KINDS}}.items():
            chosen = values[[kinds.get(one) in wanted for one in ids]]
            if len(chosen) > 1:
                found = agreement(written, chosen, SEED)
                bounds = f"{found.low:.2f} to {found.high:.2f}"
                print(f"| {metric} | {name} | {len(chosen)} | {found.tau:.2f} | {bounds} |", flush=True)


if __name__ == "__main__":
    from rag_assay.orchestration.settings import prepare

    prepare()
    main()
