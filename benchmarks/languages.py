"""Nine languages in six scripts, from cleaning to ranking: what is kept, detected, split and found.

    python -m benchmarks.languages FOLDER [STEP]

FOLDER holds `xquad`; every STEP-th question is asked (default: 1). The table of MRR@10 has rank-bm25 by words
(`\\w+`), `bm25`, and for both embedders `dense` and `hybrid` by several weights. Its last rows are the
pipelines of the study that `assay init` writes for a folder of the paragraphs; a star marks the one that the
verdict recommends, and what could not be measured is a dash.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
from rank_bm25 import BM25Okapi

from benchmarks.defaults import E5, MINILM
from benchmarks.defaults_data import Collection, opened, xquad
from rag_assay.assets.chunking.sentence_splitter import sentence_places
from rag_assay.assets.cleaning.draft import UnusablePage
from rag_assay.assets.cleaning.language import detect
from rag_assay.assets.cleaning.text_files import clean_text
from rag_assay.assets.embedding.cached_embedder import CachedEmbedder
from rag_assay.assets.embedding.embedder import EmbedderRecipe
from rag_assay.evals.metrics.ranking_metrics import Mrr
from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.study.registry import read_retriever
from rag_assay.evals.study.sections import QuestionSource
from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.api import LoadedStudy
from rag_assay.orchestration.templates.study_files import write_study
from rag_assay.warehouse.paths import Home, home
from rag_assay.warehouse.spans import Span

WORDS = {"bm25, plain": {"bm25": {"tokenizer": "plain", "function_words": "keep"}}, "bm25": {"bm25": {}}}
VECTORS = {
    "dense": {"dense": {}},
    **{f"hybrid, weight .{n}": {"hybrid": {"weight": n / 10}} for n in (3, 4, 5, 6, 7, 8, 9)},
    "hybrid": {"hybrid": {}},
}


def texts(collection: Collection, code: str) -> str:
    """Say how many documents are kept and detected, and how they are split."""
    kept = detected = split = 0
    rows = collection.chunks["text"].to_list()
    for text in rows:
        try:
            # All but zero-width no-break spaces, which are no text.
            kept += clean_text(text.encode(), "text/plain").text.split() == text.replace("\ufeff", "").split()
        except UnusablePage:
            continue
        detected += detect(text) == code
        split += len(sentence_places(text))
    return f"{kept} of {len(rows)} kept, {detected} detected, {split / len(rows):.1f} sentences each"


def mrr(collection: Collection, recipe: EmbedderRecipe, retrievers: dict[str, object]) -> dict[str, float]:
    """Return the MRR@10 of each retriever in the index of one embedder."""
    asked = opened(collection, CachedEmbedder(recipe, home()), home())
    context = RetrievalContext(dense_weight=recipe.dense_weight)
    found = {}
    for name, written in retrievers.items():
        searcher = read_retriever(written).at_depth(10).open(asked.index, context)
        values = asked.values([searcher.search(query) for query in asked.queries], Mrr(10))
        found[name] = sum(values) / len(values)
    return found


def rank_bm25(collection: Collection) -> float:
    """Return the MRR@10 of another library's defaults, on words of title and text as most tools find them."""
    rows = collection.chunks.select("title", "text").iter_rows()
    library = BM25Okapi([re.findall(r"\w+", " ".join(row).casefold()) for row in rows])
    ids, found = collection.chunks["doc_id"].to_list(), 0.0
    for question in collection.questions:
        scores = library.get_scores(re.findall(r"\w+", question.text.casefold()))
        best = [Span(ids[at], 0, 1) for at in np.argsort(-scores, kind="stable")[:10] if scores[at] > 0]
        found += Mrr(10).value(question.gold, best)
    return found / len(collection.questions)


def new_study(path: Path, code: str, where: Home) -> dict[str, str]:
    """Run the study that `assay init` writes for the paragraphs; return the MRR@10 of each pipeline.

    It is asked the file's own questions, without generators.
    """
    folder = where.root / "bench" / "languages" / code
    paragraphs = folder / f"xquad-{code}"
    paragraphs.mkdir(parents=True, exist_ok=True)
    articles = json.loads(gzip.decompress(path.read_bytes()))["data"]
    contexts = [one["context"] for article in articles for one in article["paragraphs"]]
    for number, text in enumerate(contexts):
        (paragraphs / f"{number:03}.txt").write_text(text, "utf-8")
    written, _questions = write_study(str(paragraphs), folder / "study.yaml", force=True)
    study = read_study(written)
    study = study.model_copy(
        update={
            "generators": {},
            "questions": (QuestionSource(file=str(path.resolve()), language=code),),
            "metrics": (study.metrics[0], "mrr@10"),
        }
    )
    result = LoadedStudy(study, str(where.root)).run()
    best = result.verdict.recommended
    board = result.leaderboard.filter(metric="mrr@10", subset="all")
    return {
        f"new study: {row['chunking']}, {row['retriever']}": f"{row['value']:.3f}"
        + "*" * (best is not None and row["cell"] == best.cell)
        for row in board.sort("chunking", "retriever").iter_rows(named=True)
    }


def main() -> None:
    folder, step = Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/data"), int([*sys.argv, "1"][2:][0])
    table: dict[str, dict[str, str]] = defaultdict(dict)
    for path in sorted((folder / "xquad").glob("xquad.*.json.gz")):
        code = path.name.split(".")[1]
        whole = xquad(path, home())
        collection = Collection(whole.name, whole.language, whole.chunks, whole.questions[::step])
        print(f"{code}: {texts(collection, code)}", flush=True)
        for name, value in {"rank-bm25": rank_bm25(collection), **mrr(collection, MINILM, WORDS)}.items():
            table[name][code] = f"{value:.3f}"
        for recipe in (MINILM, E5):
            for name, value in mrr(collection, recipe, VECTORS).items():
                table[f"{name}, {recipe.model}"][code] = f"{value:.3f}"
        for name, text in new_study(path, code, home()).items():
            table[name][code] = text
        print("; ".join(f"{name} {row.get(code)}" for name, row in table.items()), flush=True)
    codes = list(next(iter(table.values())))
    print(f"\n| MRR@10 | {' | '.join(codes)} |\n|{'---|' * (len(codes) + 1)}")
    for name, row in table.items():
        print(f"| {name} | {' | '.join(row.get(code, '–') for code in codes)} |")


if __name__ == "__main__":
    from rag_assay.orchestration.settings import prepare

    prepare()
    main()
