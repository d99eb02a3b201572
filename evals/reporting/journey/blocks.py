"""What was found, answered and judged of some questions at a time, packed for a page.

A block is gzip of JSON: tables as columns, whose texts are places in one list (`texts`), which holds each
once. Passages are spans of stretches of documents (`stretches`), so that chunks that overlap cost nothing
twice. Numbers are written as Python writes them, with as many digits as they have.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from rag_assay.evals.reporting.journey.tables import JourneyTables

QUESTIONS_A_BLOCK = 16
LEVEL = 4  # of gzip: hardly larger than 6, in half the time


@dataclass
class _Texts:
    """Texts and their places, each once; None has the place -1."""

    places: dict[str, int] = field(default_factory=dict)

    def of(self, texts: Sequence[str | None]) -> list[int]:
        found, add = self.places, self.places.setdefault
        return [-1 if text is None else add(text, len(found)) for text in texts]


def pack_blocks(tables: JourneyTables) -> Iterator[bytes]:
    """Yield the blocks of all questions, in their order."""
    count = tables.count
    frames = {name: frame.sort("_question", maintain_order=True) for name, frame in tables.frames.items()}
    ends = {name: _ends(frame, count) for name, frame in frames.items()}
    with ThreadPoolExecutor(2) as pool:
        waiting = []
        for begin in range(0, count, QUESTIONS_A_BLOCK):
            end = min(begin + QUESTIONS_A_BLOCK, count)
            own = {
                name: frame.slice(ends[name][begin], ends[name][end] - ends[name][begin])
                for name, frame in frames.items()
            }
            waiting.append(pool.submit(gzip.compress, _block(own, tables, begin, end), LEVEL, mtime=0))
            if len(waiting) > 3:  # what is packed is small, what is to be packed is not
                yield waiting.pop(0).result()
        yield from (one.result() for one in waiting)


def _ends(frame: pl.DataFrame, count: int) -> list[int]:
    """Return where the rows of each question begin, and where the last ones end."""
    sizes = frame.group_by("_question").len()
    of = dict(sizes.iter_rows())
    ends = [0]
    for question in range(count):
        ends.append(ends[-1] + of.get(question, 0))
    return ends


def _block(own: Mapping[str, pl.DataFrame], tables: JourneyTables, begin: int, end: int) -> bytes:
    texts = _Texts()
    stretches, hits = tables.stretched(own["hits"])
    found: dict[str, Any] = {"first": begin, "count": end - begin}
    for name, frame in {**own, "hits": hits, "stretches": stretches}.items():
        found[name] = _columns(frame, texts, begin)
    found["texts"] = list(texts.places)
    return json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()


def _columns(frame: pl.DataFrame, texts: _Texts, begin: int) -> dict[str, Any]:
    """Return a table as columns; those of texts end in `_`."""
    found: dict[str, Any] = {}
    for name, kind in frame.schema.items():
        values = frame[name]
        if name == "_question":
            found["question"] = (values - begin).to_list()
        elif kind == pl.String:
            found[f"{name}_"] = texts.of(values.to_list())
        else:
            found[name] = values.to_list()
    return found
