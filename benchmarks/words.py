"""How fast BM25 builds and searches, beside bm25s where it is installed.

    python -m benchmarks.words [DATA] [CHUNKS …]        ../shared/data 5000 100000

Chunks are the abstracts of `scifact`; more than those are three of its sentences each, drawn by chance. Both
search the same words. Seconds are of one processor, so that other load disturbs them little.
"""

from __future__ import annotations

import gzip
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rag_assay.assets.indexing.lexical import Lexical, invert, open_lexical
from rag_assay.evals.retrieval.analyzer import merge_forms, question_tokens
from rag_assay.evals.retrieval.bm25 import Bm25
from rag_assay.evals.retrieval.rank_bm25 import tokens_of_chunks
from rag_assay.evals.retrieval.terms import Bm25Scores

SIZES = (5_000, 100_000)
ASKED = 300
DEPTHS = (10, 100)


def chunks_of(folder: Path, count: int) -> list[str]:
    """Return so many texts."""
    with gzip.open(folder / "corpus.jsonl.gz", "rt", encoding="utf-8") as file:
        texts = [f"{one['title']} {one['text']}" for one in map(json.loads, file)]
    if count <= len(texts):
        return texts[:count]
    chance = random.Random(7)  # noqa: S311 -- no secret
    sentences = [sentence for text in texts for sentence in text.split(". ")]
    return [". ".join(chance.sample(sentences, 3)) for _ in range(count)]


def milliseconds(search: Callable[[list[str]], object], questions: list[list[str]]) -> float:
    """Return what a question takes of a processor, when all were asked once before."""
    for words in questions:
        search(words)
    begin = time.process_time()
    for words in questions:
        search(words)
    return 1000 * (time.process_time() - begin) / len(questions)


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return what something takes of a processor, and what it gives."""
    begin = time.process_time()
    found = work()
    return time.process_time() - begin, found


def figures(built: float, search: Callable[[list[str], int], object], questions: list[list[str]]) -> str:
    """Return what an index took, and a question of each depth."""
    times = [(k, milliseconds(lambda words, k=k: search(words, k), questions)) for k in DEPTHS]  # type: ignore[misc]
    return f"index {built:.2f} s, " + ", ".join(f"best {k}: {taken:.3f} ms" for k, taken in times)


def ours(texts: list[str], recipe: Bm25, questions: list[list[str]]) -> tuple[str, Lexical]:
    """Build from texts and search; return the figures, and the words that were searched."""
    with tempfile.TemporaryDirectory() as place:
        built, _ = seconds(lambda: invert(texts, Path(place)))
        lexical = merge_forms(open_lexical(Path(place)), recipe.analyzer_of("english"))
    opened, model = seconds(lambda: Bm25Scores.of(lexical, recipe.parameters))
    return figures(built + opened, lambda words, k: model.best(Counter(words), k), questions), lexical


def theirs(lexical: Lexical, questions: list[list[str]], backend: str) -> str:
    """Search the same words by bm25s, which is given them counted."""
    try:
        import bm25s
    except ImportError:
        return "not installed"
    model = bm25s.BM25(k1=1.5, b=0.75, backend=backend)
    tokens = tokens_of_chunks(lexical)
    built, _ = seconds(lambda: model.index(tokens, show_progress=False))
    return figures(built, lambda words, k: model.retrieve([words], k=k, show_progress=False), questions)


def main() -> None:
    """Measure each size."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/data") / "scifact"
    recipe = Bm25()
    lines = (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()[:ASKED]
    asked = [
        recipe.analyzer_of("english").counted(question_tokens(json.loads(line)["text"])) for line in lines
    ]
    for count in [int(one) for one in sys.argv[2:]] or SIZES:
        found, lexical = ours(chunks_of(folder, count), recipe, asked)
        print(f"{count:,} chunks, {len(lexical.rows):,} postings; a question is the mean of {len(asked)}:")
        print(f"  bm25         {found}")
        for backend in ("numpy", "numba"):
            print(f"  bm25s {backend}  {theirs(lexical, asked, backend)}", flush=True)


if __name__ == "__main__":
    main()
