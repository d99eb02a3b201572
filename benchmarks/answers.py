"""Measures the extractive generator: 1,000 questions over given rankings, with nothing embedded and with all.

`python -m benchmarks.answers FOLDER`; FOLDER holds `xquad` (xquad.en.json.gz). The rankings are the first
five of its 240 paragraphs by BM25; they are made before the clock starts, and the model is loaded.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
import time
from pathlib import Path

from rank_bm25 import BM25Okapi

from rag_assay.assets.embedding.cached_embedder import CachedEmbedder
from rag_assay.assets.embedding.embedder import EmbedderRecipe
from rag_assay.assets.tokenization.tokenizer import tokenizer_of
from rag_assay.evals.generation.contract import GenerationContext, Passage, Request
from rag_assay.evals.generation.extractive import Extractive
from rag_assay.warehouse.inference.gateway import Gateway
from rag_assay.warehouse.paths import Home

QUESTIONS = 1_000
MODEL = "all-MiniLM-L6-v2"


def requests_of(folder: Path) -> list[Request]:
    """Return questions with the paragraphs that BM25 finds for them."""
    read = json.loads(gzip.decompress((folder / "xquad" / "xquad.en.json.gz").read_bytes()))
    paragraphs = [paragraph for article in read["data"] for paragraph in article["paragraphs"]]
    texts = [paragraph["context"] for paragraph in paragraphs]
    index = BM25Okapi([text.lower().split() for text in texts])
    questions = [one["question"] for paragraph in paragraphs for one in paragraph["qas"]][:QUESTIONS]
    return [
        Request(question, "en", passages=tuple(map(Passage, found)))
        for question in questions
        for found in [index.get_top_n(question.lower().split(), texts, n=5)]
    ]


def main(data: Path) -> None:
    """Print the seconds of a first time and of a second one, whose sentences are in the cache of vectors."""
    requests = requests_of(data)
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder))
        embedder = CachedEmbedder(EmbedderRecipe(model=MODEL, overflow="average"), home)
        embedder.embedder.embed(["warm up"])
        tokenizer = tokenizer_of(MODEL, home, lambda _text: None)
        embedded = 0

        def embed(texts: list[str]) -> object:
            nonlocal embedded
            found = embedder.passages(texts)
            embedded += found.computed
            return found.vectors

        with Gateway(home) as gateway:
            context = GenerationContext(gateway, embed, tokenizer.count)  # type: ignore[arg-type]
            for label in ("nothing embedded before", "all embedded before"):
                begin, cpu, embedded = time.perf_counter(), time.process_time(), 0
                Extractive().answer(requests, context)
                wall, cpu = time.perf_counter() - begin, time.process_time() - cpu
                print(
                    f"{len(requests)} questions, {label}: {wall:.1f} s, {cpu:.1f} s of CPU; "
                    f"{embedded} texts embedded"
                )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
