"""Nine languages in six scripts, from cleaning to ranking: what is kept, detected, split and found.

    python -m benchmarks.languages FOLDER [STEP]

FOLDER holds `xquad`; every STEP-th question is asked (default: 1). The table of MRR@10 has BM25 by plain
words and with the defaults, dense search by both embedders, and `hybrid` with each.
"""

from __future__ import annotations

import sys
from pathlib import Path

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
from rag_assay.warehouse.paths import home

RETRIEVERS = {
    "plain words": {"bm25": {"tokenizer": "plain", "function_words": "keep"}},
    "bm25": {"bm25": {}},
    "dense": {"dense": {}},
    **{f"hybrid .{n}": {"hybrid": {"weight": n / 10}} for n in (3, 5, 6, 7, 8)},
    "hybrid": {"hybrid": {}},
}


def texts(collection: Collection, code: str) -> str:
    """Say how many documents are kept and detected, and how they are split."""
    kept = detected = split = 0
    rows = collection.chunks["text"].to_list()
    for text in rows:
        try:
            kept += clean_text(text.encode(), "text/plain; charset=utf-8").text.split() == text.split()
        except UnusablePage:
            continue
        detected += detect(text) == code
        split += len(sentence_places(text))
    return f"{kept} of {len(rows)} kept, {detected} detected, {split / len(rows):.1f} sentences each"


def mrr(collection: Collection, recipe: EmbedderRecipe) -> dict[str, float]:
    """Return the MRR@10 of each retriever in the index of one embedder."""
    asked = opened(collection, CachedEmbedder(recipe, home()), home())
    context = RetrievalContext(dense_weight=recipe.dense_weight)
    found = {}
    for name, written in RETRIEVERS.items():
        searcher = read_retriever(written).at_depth(10).open(asked.index, context)
        values = asked.values([searcher.search(query) for query in asked.queries], Mrr(10))
        found[name] = sum(values) / len(values)
    return found


def main() -> None:
    folder, step = Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/data"), int([*sys.argv, "1"][2:][0])
    for path in sorted((folder / "xquad").glob("xquad.*.json.gz")):
        code = path.name.split(".")[1]
        whole = xquad(path, home())
        collection = Collection(whole.name, whole.language, whole.chunks, whole.questions[::step])
        print(f"{code}: {texts(collection, code)}", flush=True)
        for recipe in (MINILM, E5):
            row = "  ".join(f"{name} {value:.3f}" for name, value in mrr(collection, recipe).items())
            print(f"  {recipe.model:<22} {row}", flush=True)


if __name__ == "__main__":
    main()
