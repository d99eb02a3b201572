"""How fast texts are cut, and two things that a chunking must not lose: an article's name, and an answer.

    python -m benchmarks.chunks [FOLDER]

FOLDER holds `eurlex-energy` (html/*.html.gz) and `xquad` (xquad.en.json.gz); without it, made-up text is cut.
Printed: MB of text a second for each chunker, the tokenizer fresh each time, best of three; how many of the
chunks inside an article carry it in their heading path; how many answers lie inside a chunk of each chunking
whose overlap is as long as they are.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from rag_assay.assets.chunking import CHUNKERS, Chunker, ChunkerInput, Tools
from rag_assay.assets.chunking.document_chunks import chunk_documents, material_of
from rag_assay.assets.chunking.tokens import TokenWindows
from rag_assay.assets.cleaning.eurlex.cleaner import clean_eurlex
from rag_assay.assets.engine.stage import BuildContext
from rag_assay.assets.tokenization.tokenizer import Tokenizer, load_tokenizer, read_tokenizer, tokenizer_of
from rag_assay.warehouse.inference import models
from rag_assay.warehouse.parquet import frame
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import DOCUMENTS

MODEL = "all-MiniLM-L6-v2"
SPEED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("tokens", {"size": 128, "overlap": 42}),
    ("tokens", {"size": 508, "overlap": 170}),
    ("recursive", {"size": 1000, "overlap": 100}),
    ("recursive", {"unit": "tokens", "size": 256, "overlap": 50}),
    ("sentences", {"size": 256, "overlap": 1}),
    ("structure", {"limit": 256, "prefix_heading": True}),
    ("semantic", {"limit": 256}),
    ("document", {}),
    ("sentence_window", {"neighbours": 3}),
    ("parent", {"size": 128, "overlap": 42, "parent_size": 1024}),
)
OVERLAPPING: tuple[tuple[str, dict[str, Any]], ...] = (
    ("tokens", {"size": 64, "overlap": 32}),
    ("tokens", {"size": 128, "overlap": 42}),
    ("recursive", {"size": 1000, "overlap": 100}),
    ("recursive", {"size": 300, "overlap": 200}),
    ("recursive", {"unit": "tokens", "size": 64, "overlap": 40}),
    ("structure", {"limit": 128, "overlap": 40}),
    ("sentences", {"size": 64, "overlap": 1}),
    ("sentences", {"size": 128, "overlap": 1}),
    ("parent", {"size": 64, "overlap": 32, "parent_size": 512}),
)


@dataclass(frozen=True)
class Kept:
    """Answers of a question set and one chunking.

    asked: answers no longer than the overlap (for `sentences`, whose overlap is a sentence: all of them)
    lost: those that no chunk holds
    """

    answers: int
    asked: int
    lost: tuple[str, ...]


def acts(folder: Path, every: int = 1) -> pl.DataFrame:
    """Return every so-many-th act of `eurlex-energy` as a document (schemas.DOCUMENTS)."""
    rows: list[dict[str, object]] = []
    for path in sorted((folder / "eurlex-energy" / "html").glob("*.html.gz"))[::every]:
        draft = clean_eurlex(gzip.decompress(path.read_bytes()), "text/html", "")
        rows.append(
            {
                "doc_id": path.name,
                "version": "v",
                "title": draft.title,
                "text": draft.text,
                "sections": list(draft.sections),
            }
        )
    return frame(rows, DOCUMENTS)


def carried_articles(documents: pl.DataFrame, chunks: pl.DataFrame) -> tuple[int, int]:
    """Return how many chunks lie in an article, and how many of them carry it and reach into no other."""
    inside = carrying = 0
    articles = {
        document: [s for s in sections if s["heading"].startswith("Article ")]
        for document, sections in documents.select("doc_id", "sections").iter_rows()
    }
    for document, start, end, path in chunks.select("doc_id", "start", "end", "heading_path").iter_rows():
        touched = [s for s in articles[document] if s["start"] < end and start < s["end"]]
        if touched:
            inside += 1
            (first, *others) = touched
            within = first["start"] <= start and end <= first["end"]
            carrying += not others and within and first["heading"] in path
    return inside, carrying


def kept_answers(folder: Path, chunker: Chunker, tokenizer: Tokenizer) -> Kept:
    """Cut the articles of xquad, their paragraphs joined by blank lines, and look for its answers."""
    answers = asked = 0
    lost = []
    for text, places in _articles_of_xquad(folder):
        spans = chunker.split(ChunkerInput(text), Tools(tokenizer))
        for start, end in places:
            answers += 1
            if _longer(text[start:end], chunker, tokenizer):
                continue
            asked += 1
            if not any(span.start <= start and end <= span.end for span in spans):
                lost.append(text[start:end])
    return Kept(answers, asked, tuple(lost))


def _articles_of_xquad(folder: Path) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    read = json.loads(gzip.decompress((folder / "xquad" / "xquad.en.json.gz").read_bytes()))
    for article in read["data"]:
        text, places = "", []
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                for answer in question["answers"]:
                    start = len(text) + answer["answer_start"]
                    places.append((start, start + len(answer["text"])))
            text += paragraph["context"] + "\n\n"
        yield text, places


def _longer(answer: str, chunker: Chunker, tokenizer: Tokenizer) -> bool:
    """Say whether an answer is longer than the overlap; `sentences` share a sentence, which has no length."""
    overlap = int(getattr(chunker, "overlap", 0))
    if isinstance(chunker, CHUNKERS["sentences"]):
        return False
    characters = getattr(chunker, "unit", "tokens") == "characters"
    return (len(answer) if characters else tokenizer.count([answer])[0]) > overlap


def made_up(characters: int) -> str:
    """Return paragraphs of sentences of words, some frequent and most of them rare, as words are."""
    draw = random.Random(7)  # noqa: S311 -- text, no secret
    words = ["".join(draw.choices("etaoinshrdlucmfwyp", k=draw.randint(2, 12))) for _ in range(20_000)]
    weights = [1 / (rank + 3) for rank in range(len(words))]
    parts: list[str] = []
    length = 0
    while length < characters:
        sentence = " ".join(draw.choices(words, weights, k=draw.randint(8, 30))).capitalize()
        parts.append(sentence + draw.choice((". ", ". ", ". ", ".\n\n")))
        length += len(parts[-1])
    return "".join(parts)


def given_vectors(texts: Sequence[str]) -> npt.NDArray[np.float32]:
    """Return some unit vectors at no cost: what is measured is the cutting, not the embedding."""
    angles = np.random.default_rng(7).uniform(0, np.pi, len(texts))
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def megabytes_a_second(chunker: Chunker, materials: list[ChunkerInput], folder: Path) -> tuple[float, int]:
    """Return the speed of cutting, best of three with a tokenizer that has seen nothing, and the chunks."""
    size = sum(len(material.text.encode()) for material in materials) / 1e6
    seconds, chunks = [], 0
    for _ in range(3):
        tools = Tools(read_tokenizer(folder), given_vectors)
        begin = time.perf_counter()
        chunks = sum(map(len, chunker.split_many(materials, tools)))
        seconds.append(time.perf_counter() - begin)
    return size / min(seconds), chunks


def _print_speed(documents: pl.DataFrame, folder: Path) -> None:
    materials = [material_of(row) for row in documents.iter_rows(named=True)]
    characters = sum(len(material.text) for material in materials)
    print(f"cutting {len(materials)} documents of {characters / 1e6:.1f} million characters")
    for kind, parameters in SPEED:
        rate, chunks = megabytes_a_second(CHUNKERS[kind](**parameters), materials, folder)
        note = ", its vectors given" if kind == "semantic" else ""
        print(f"  {kind:15} {rate:6.1f} MB/s  {chunks:6} chunks  {parameters}{note}")
    begin = time.perf_counter()
    windows, tools = TokenWindows(size=128, overlap=42), Tools(load_tokenizer(folder))
    chunks = len(chunk_documents(documents, windows, tools))
    rate = sum(len(m.text.encode()) for m in materials) / 1e6 / (time.perf_counter() - begin)
    print(f"  tokens, with all columns of the chunks: {rate:.1f} MB/s, {chunks} chunks")


def main() -> None:
    """Measure."""
    work = BuildContext(Home(Path(os.environ.get("ASSAY_HOME", "var"))))
    tokenizer = tokenizer_of(MODEL, work.home, print)
    model = models.fetch(MODEL, work.home)
    data = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
    if (data / "eurlex-energy").is_dir():
        documents = acts(data)
        _print_speed(documents, model)
        for parameters in ({"limit": 256}, {"limit": 256, "prefix_heading": True}):
            chunks = chunk_documents(documents, CHUNKERS["structure"](**parameters), Tools(tokenizer))
            inside, carrying = carried_articles(documents, chunks)
            print(f"structure {parameters}: {carrying} of {inside} chunks inside an article carry it")
    else:
        row: dict[str, object] = {
            "doc_id": "made-up",
            "version": "v",
            "text": made_up(5_000_000),
            "sections": [],
        }
        _print_speed(frame([row], DOCUMENTS), model)
    if (data / "xquad").is_dir():
        for kind, parameters in OVERLAPPING:
            kept = kept_answers(data, CHUNKERS[kind](**parameters), tokenizer)
            lost = f"{len(kept.lost)} of {kept.asked} answers no longer than the overlap are in no chunk"
            print(f"{kind} {parameters}: {lost} ({kept.answers} in all)")
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
