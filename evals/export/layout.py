"""Where things lie in an exported folder."""

from __future__ import annotations

import polars as pl

from rag_assay.warehouse.schemas import Schema

INDEX = "index"
"""The folder of the LanceDB table and the lexical files beside it."""

VERDICT = "verdict.json"
"""The verdict of the study, as it was when the cell was exported."""

HEADINGS = "headings.parquet"
"""The headings above each chunk; there where the generator is told of them."""

HEADINGS_SCHEMA: Schema = {"chunk_id": pl.String, "heading_path": pl.List(pl.String)}
