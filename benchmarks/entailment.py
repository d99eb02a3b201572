"""How well judges tell what a text entails: claims of SciFact against the abstracts that they cite.

    python -m benchmarks.entailment FOLDER [--sample N] [--facts N] [--models NAME …] [--classifier FOLDER]

FOLDER holds `scifact` (claims_labelled.jsonl, corpus.jsonl.gz). Each pair of a claim of the dev split and an
abstract that it cites is supported, contradicted, or neither. The judge is shown the claim as an answer and
the abstract as its passage; the area under the ROC curve is the chance that it gives a supported claim the
higher value. Replies are kept under the home: a run that was stopped goes on, a second one asks nothing.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rag_assay.assets.chunking.sentence_splitter import sentences
from rag_assay.assets.embedding.cached_embedder import CachedEmbedder
from rag_assay.assets.embedding.embedder import Embedder, EmbedderRecipe, Matrix
from rag_assay.evals.generation.contract import Passage
from rag_assay.evals.judging.contract import Judge, JudgeCase, JudgeContext
from rag_assay.evals.judging.entailment.judge import Entailment
from rag_assay.evals.judging.entailment_classifier import EntailmentClassifier
from rag_assay.evals.judging.yes_no import YesNo
from rag_assay.evals.statistics.raters import roc_auc
from rag_assay.warehouse.inference.gateway import Gateway
from rag_assay.warehouse.paths import Home, home

SUPPORT, CONTRADICT, NEITHER = "SUPPORT", "CONTRADICT", "NEITHER"
MODELS = ("local/smollm2-135m-instruct", "local/qwen2.5-coder-0.5b-instruct")
MINILM = EmbedderRecipe(model="all-MiniLM-L6-v2", max_tokens=256, overflow="truncate")
SPLIT, SEED = "dev", 7


class Pair(NamedTuple):
    """A claim, an abstract that it cites, and what the one says of the other."""

    claim: str
    title: str
    abstract: str
    label: str

    def case(self) -> JudgeCase:
        """Return the claim as an answer that is made of the abstract."""
        question = f"What does the study “{self.title}” find?"
        return JudgeCase(question, "en", self.claim, passages=(Passage(self.abstract, title=self.title),))


class Measured(NamedTuple):
    """The value of each pair, None where there is none; and what they took.

    seconds: of a processor, a pair, which other programs change little; None where all replies were kept
    wrong: why there are values missing
    """

    values: list[float | None]
    seconds: float | None
    wrong: str = ""


def pairs_of(folder: Path) -> list[Pair]:
    """Return the pairs of a split, in their order."""
    with gzip.open(folder / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        documents = {row["_id"]: row for row in map(json.loads, lines)}
    found = []
    for line in (folder / "claims_labelled.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        labels = {one["doc_id"]: one["label"] for one in row["evidence"]}
        if row["split"] == SPLIT:
            for doc_id in row["cited_doc_ids"]:
                of = documents[str(doc_id)]
                found.append(Pair(row["claim"], of["title"], of["text"], labels.get(doc_id, NEITHER)))
    return found


def cosines(pairs: Sequence[Pair], embedder: Embedder, *, best_sentence: bool) -> Measured:
    """Return the cosine of claim and abstract, or of the claim and the nearest sentence of it."""
    embedder.embed(["warm up"])
    begin = time.process_time()
    texts = [
        (sentences(one.abstract) if best_sentence else []) or [f"{one.title} {one.abstract}"] for one in pairs
    ]
    claims: Matrix = embedder.embed([one.claim for one in pairs])
    vectors: Matrix = embedder.embed([text for some in texts for text in some])
    ends = np.cumsum([0, *map(len, texts)])
    values: list[float | None] = [
        float((vectors[ends[n] : ends[n + 1]] @ claims[n]).max()) for n in range(len(pairs))
    ]
    return Measured(values, (time.process_time() - begin) / len(pairs))


def by_judge(pairs: Sequence[Pair], judge: Judge, where: Home) -> Measured:
    """Return what a judge says, by its one metric."""
    [metric] = judge.judged_metrics
    begin = time.process_time()
    with Gateway(where) as gateway:
        context = JudgeContext(gateway, lambda texts: np.zeros((len(texts), 1), np.float32), SEED)
        found = [one[metric.name] for one in judge.judge([one.case() for one in pairs], context)]
    wrong = sorted({f"{one.status}: {one.reason}"[:160] for one in found if one.value is None})
    computed = sum(not one.cached for one in found)
    seconds = (time.process_time() - begin) / computed if computed else None
    return Measured([one.value for one in found], seconds, "; ".join(wrong[:3]))


def line(name: str, pairs: Sequence[Pair], measured: Measured) -> str:
    """Return a row of the table: areas with their intervals, over the pairs that have a value."""
    known = [
        (one.label, value) for one, value in zip(pairs, measured.values, strict=True) if value is not None
    ]
    cells = [f"{len(known)} of {len(pairs)}"]
    for others in ((CONTRADICT, NEITHER), (CONTRADICT,), (NEITHER,)):
        some = [(label == SUPPORT, value) for label, value in known if label in {SUPPORT, *others}]
        area = roc_auc(
            np.array([is_one for is_one, _ in some], bool), np.array([value for _, value in some], float)
        )
        cells.append(
            f"{area.value:.3f} ({area.low:.3f}–{area.high:.3f})"
            if area.low is not None
            else area.reason or ""
        )
    cost = "" if measured.seconds is None else f"{measured.seconds:.3f}"
    return f"| {name} | {' | '.join(cells)} | {cost} |"


def main() -> None:
    """Print the table, a row a judge."""
    read = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    read.add_argument("folder", type=Path)
    read.add_argument("--sample", type=int, default=0, help="so many pairs, drawn by a seed; 0: all")
    read.add_argument(
        "--facts", type=int, default=0, help="the first so many of them are judged fact by fact"
    )
    read.add_argument("--models", nargs="*", default=MODELS)
    read.add_argument("--classifier", help="a folder with a cross-encoder of three labels")
    asked = read.parse_args()
    pairs = pairs_of(asked.folder / "scifact")
    random.Random(SEED).shuffle(pairs)  # noqa: S311 - nothing secret
    pairs = pairs[: asked.sample or len(pairs)]
    where = Home(home().root / "bench" / "entailment")
    print("| judge | pairs | supported or not | or contradicted | or neither | CPU s a pair |")
    print("|---|---|---|---|---|---|")
    embedder = CachedEmbedder(MINILM, where).embedder
    for name, best in (("cosine with the abstract", False), ("cosine with its nearest sentence", True)):
        print(line(name, pairs, cosines(pairs, embedder, best_sentence=best)), flush=True)
    arms: list[tuple[str, Sequence[Pair], Judge]] = [
        (f"`yes_no`, {model}", pairs, YesNo(model=model, metrics=("supported",))) for model in asked.models
    ]
    few = pairs[: asked.facts]
    for model in asked.models if few else ():
        entailment = Entailment(model=model, metrics=("faithfulness",), pronouns=False)
        arms.append((f"`entailment`, {model}", few, entailment))
    if asked.classifier:
        classifier = EntailmentClassifier(model=asked.classifier, metrics=("faithfulness",))
        arms.append(("`entailment_classifier`", pairs, classifier))
    for name, some, judge in arms:
        measured = by_judge(some, judge, where)
        print(line(name, some, measured), flush=True)
        if measured.wrong:
            print(f"<!-- {measured.wrong} -->", flush=True)


if __name__ == "__main__":
    main()
