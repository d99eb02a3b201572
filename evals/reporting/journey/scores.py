"""Scores packed for a page: every value as it is stored, and of what has none the status and the reason.

A pack is what gzip makes of: the length of a header (4 bytes, little-endian), the header (JSON in UTF-8,
spaces behind it so that what follows begins at a multiple of 8), the values. These are 64-bit floats, for
three digits that are printed may hang on the last bit of a stored one; where there are few different ones,
they stand once, sorted, and are followed by a place among them for each score (16 bits, from 1; 0: there is
none). Scores are in the order of the runs (a cell, or a further replicate of it), and within a run in that
of the questions.
"""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl

from rag_assay.warehouse.schemas import Status

LEVEL = 6  # of gzip
_MOST = 2**16 - 2  # different values that have places
_KEYS = ["cell", "replicate", "question_id"]


def pack_scores(
    scores: pl.DataFrame, runs: pl.DataFrame, questions: Sequence[str]
) -> Iterator[tuple[str, bytes]]:
    """Yield every metric with its pack.

    scores: schema SCORES with `cell` and `replicate`
    runs: the cells and replicates in the order of a pack
    """
    asked = pl.DataFrame({"question_id": list(questions)}, schema={"question_id": pl.String}).with_row_index(
        "_question"
    )
    places = runs.select("cell", "replicate").with_row_index("_run")
    at = pl.col("_run").cast(pl.Int64) * len(questions) + pl.col("_question")
    located = scores.join(places, on=["cell", "replicate"]).join(asked, on="question_id").with_columns(_at=at)
    for (metric,), rows in located.partition_by("metric", as_dict=True).items():
        yield str(metric), _pack(rows, len(runs) * len(questions))


def _pack(rows: pl.DataFrame, n: int) -> bytes:
    good = rows.filter((pl.col("status") == Status.OK) & pl.col("value").is_not_null())
    rest = rows.join(good.select("_at"), on="_at", how="anti")
    kinds = rest.select("status", "reason").unique(maintain_order=True)
    of = rest.join(kinds.with_row_index("_kind"), on=["status", "reason"], nulls_equal=True)
    header: dict[str, Any] = {
        "n": n,
        "why": kinds.rows(),
        "missing": of["_at"].to_list(),
        "of": of["_kind"].to_list(),
    }
    at, values = good["_at"].to_numpy(), good["value"].to_numpy()
    different = np.unique(values)
    if len(different) <= _MOST:
        header["different"] = len(different)
        places = np.zeros(n, "<u2")
        places[at] = np.searchsorted(different, values) + 1
        body = different.astype("<f8").tobytes() + places.tobytes()
    else:
        every = np.full(n, np.nan, "<f8")
        every[at] = values
        body = every.tobytes()
    head = json.dumps(header, ensure_ascii=False).encode()
    head += b" " * (-(len(head) + 4) % 8)
    return gzip.compress(struct.pack("<I", len(head)) + head + body, LEVEL, mtime=0)
