"""Measures how evidence is found by likeness: changed quotes, quotes that are not there, ground truths.

`python -m benchmarks.evidence FOLDER`; FOLDER holds any of `blog-18f`, `scifact`, `xquad` and `beir-small/*`.
The tables of docs/proof.md are made of what it prints.
"""

from __future__ import annotations

import gzip
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rag_assay.evals.question_sets.alignment import SIMILAR, WordedText, find_quote, most_similar, places_of
from rag_assay.evals.question_sets.evidence_resolution import Lookup

LENGTHS = (5, 8, 12, 20, 40)  # words of a quote, about
PUT_IN = [
    "of",
    "the",
    "and",
    "under",
    "12",
    "which",
    "system",
    "report",
    "data",
    "new",
    "harbour",
    "energy",
    "quickly",
]
Change = Callable[[random.Random, str], str]


def _by_words(change: Callable[[random.Random, str], list[str]]) -> Change:
    """One word in ten is changed."""
    return lambda rng, quote: " ".join(
        part for word in quote.split() for part in (change(rng, word) if rng.random() < 0.1 else [word])
    )


def _misread(share: float) -> Change:
    return lambda rng, quote: "".join(
        rng.choice(["", "rn", "1", "e", sign * 2]) if sign.isalpha() and rng.random() < share else sign
        for sign in quote
    )


CHANGES: dict[str, Change] = {
    "a word in ten left out": _by_words(lambda _, __: []),
    "a word in ten put in": _by_words(lambda rng, word: [word, rng.choice(PUT_IN)]),
    "a word in ten replaced": _by_words(lambda rng, _: [rng.choice(PUT_IN)]),
    "a letter in twenty misread": _misread(0.05),
    "a letter in ten misread": _misread(0.1),
}


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    packed = path.with_name(path.name + ".gz")
    with (
        gzip.open(packed, "rt", encoding="utf-8") if packed.exists() else path.open(encoding="utf-8") as file
    ):
        yield from map(json.loads, file)


def collections(folder: Path) -> dict[str, dict[str, str]]:
    """Return the documents of each collection that is there, by their ids."""
    found = {}
    for corpus in sorted(folder.glob("**/corpus.jsonl*")):
        rows = _lines(corpus.with_name("corpus.jsonl"))
        found[corpus.parent.name] = {str(row["_id"]): f"{row['title']}. {row['text']}" for row in rows}
    if (folder / "blog-18f" / "posts.jsonl.gz").exists():
        rows = _lines(folder / "blog-18f" / "posts.jsonl")
        found["blog-18f"] = {str(row["id"]): row["body_markdown"] for row in rows}
    if (folder / "xquad" / "xquad.en.json.gz").exists():
        data = json.loads(gzip.decompress((folder / "xquad" / "xquad.en.json.gz").read_bytes()))["data"]
        texts = [paragraph["context"] for article in data for paragraph in article["paragraphs"]]
        found["xquad"] = {str(number): text for number, text in enumerate(texts)}
    return found


def quotes(documents: dict[str, str], n: int, rng: random.Random) -> Iterator[tuple[str, str]]:
    """Yield (document, quote) of stretches of words drawn at random."""
    long = [name for name, text in documents.items() if len(text) > 600]
    while n:
        name = rng.choice(long)
        text = documents[name]
        size = rng.choice(LENGTHS) * 7
        at = rng.randrange(max(1, len(text) - size))
        quote = " ".join(text[at : at + size].split()[1:-1])
        if len(quote) >= 20 and find_quote(text, quote):
            yield name, quote
            n -= 1


def without(text: str, quote: str) -> str:
    """Return a text without any place of a quote."""
    for start, end in reversed(list(places_of(text, quote))):
        text = text[:start] + text[end:]
    return text


def measure(documents: dict[str, str], n: int) -> Iterator[str]:
    """Yield a line for each change of ``n`` quotes, and for quotes that are not there."""
    rng = random.Random(3)  # noqa: S311 -- a sample
    drawn = list(quotes(documents, n, rng))
    for what, change in CHANGES.items():
        found, right = [], []
        for name, quote in drawn:
            changed = change(rng, quote)
            place = most_similar(WordedText(documents[name]), changed, 0.0) if changed != quote else None
            if place is None:
                continue
            start, end = find_quote(documents[name], quote) or (0, 0)
            shared = min(end, place.end) - max(start, place.start)
            found.append(place.similarity >= SIMILAR)
            right.append(shared > 0.5 * (max(end, place.end) - min(start, place.start)))
        yield f"  {what}: found {np.mean(found):.0%}, at the right place {np.mean(right):.0%} of {len(found)}"
    gone = [most_similar(WordedText(without(documents[name], quote)), quote) for name, quote in drawn]
    yield f"  taken out of the text: {np.mean([place is not None for place in gone]):.1%} found in the rest"
    other = [most_similar(WordedText(documents[rng.choice(list(documents))]), quote) for _, quote in drawn]
    yield f"  in another document: {np.mean([place is not None for place in other]):.1%} found"


def measure_claims(folder: Path, documents: dict[str, str], n: int) -> Iterator[str]:
    """Yield how many of ``n`` SciFact claims find a place, and how often in an abstract that is evidence."""
    claims = [row for row in _lines(folder / "scifact" / "claims_labelled.jsonl") if row["evidence"]]
    random.Random(1).shuffle(claims)  # noqa: S311 -- a sample
    claims = claims[:n]
    gold = [{str(one["doc_id"]) for one in row["evidence"]} for row in claims]
    begin = time.perf_counter()
    names, lookup = list(documents), Lookup(list(documents.values()), [row["claim"] for row in claims])
    built = time.perf_counter()
    found = [lookup.ground_truth(row["claim"], "") for row in claims]
    seconds = time.perf_counter() - built
    right = [
        any(names[one.document] in of for one in places)
        for places, of in zip(found, gold, strict=True)
        if places
    ]
    yield f"  {len(right)} of {len(claims)} claims found, {np.mean(right):.0%} in an abstract that is gold"
    yield f"  index of {len(names)} documents {built - begin:.1f} s, {len(claims)} lookups {seconds:.1f} s"
    rest = [name for name in names if name not in set().union(*gold)]
    other = Lookup([documents[name] for name in rest], [row["claim"] for row in claims])
    still = [bool(other.ground_truth(row["claim"], "")) for row in claims]
    yield f"  without those abstracts {np.mean(still):.0%} still found one"


def measure_answers(folder: Path) -> Iterator[str]:
    """Yield how many XQuAD answers find a place, and how often in their paragraph."""
    data = json.loads(gzip.decompress((folder / "xquad" / "xquad.en.json.gz").read_bytes()))["data"]
    paragraphs = [paragraph for article in data for paragraph in article["paragraphs"]]
    asked = [
        (one["answers"][0]["text"], one["question"], number)
        for number, paragraph in enumerate(paragraphs)
        for one in paragraph["qas"]
    ]
    lookup = Lookup([one["context"] for one in paragraphs], [text for one in asked for text in one[:2]])
    found = [(lookup.ground_truth(truth, question), number) for truth, question, number in asked]
    right = [any(one.document == number for one in places) for places, number in found if places]
    yield f"  {len(right)} of {len(asked)} answers found, {sum(right)} in their paragraph"


def main(folder: Path) -> None:
    """Print the figures for the collections below ``folder``."""
    found = collections(folder)
    for name, documents in found.items():
        print(f"{name}: {len(documents)} documents", *measure(documents, 150), sep="\n")
    if "scifact" in found and (folder / "scifact" / "claims_labelled.jsonl").exists():
        print("Ground truths: SciFact", *measure_claims(folder, found["scifact"], 300), sep="\n")
    if "xquad" in found:
        print("Ground truths: XQuAD", *measure_answers(folder), sep="\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} FOLDER")
    main(Path(sys.argv[1]))
