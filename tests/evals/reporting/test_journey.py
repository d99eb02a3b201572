"""Journeys are packed without a loss: what comes out of the packs is what the frames hold."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from rag_assay.evals.reporting import journey
from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.hardest import hardest
from rag_assay.evals.reporting.journey import Journeys, journeys
from rag_assay.evals.reporting.journey_rows import cut, merged, taken
from rag_assay.evals.reporting.page import folders_of, write_html
from rag_assay.warehouse.parquet import frame
from rag_assay.warehouse.schemas import SCORES
from tests.fakes.report_data import HOSTILE_ANSWER, OVERRIDE, report_data

Scores = dict[tuple[str, int, str], float | tuple[str, str | None]]
_OF_CELL = {"cell": pl.String, "replicate": pl.Int64}


@pytest.fixture(scope="module")
def data() -> ReportData:
    return report_data(n_questions=35)


def found(data: ReportData) -> Journeys:
    cells = data.leaderboard["cell"].unique(maintain_order=True).to_list()
    labels = {cell: cell for cell in cells}
    return journeys(data, labels, hardest(data, cells, labels).questions)


def unpacked(text: str) -> bytes:
    return gzip.decompress(base64.b64decode(text))


def catalogue(packed: Journeys) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(unpacked(packed.packs.inside["catalogue"]))
    return read


def scores_of(packed: Journeys, metric: str) -> Scores:
    """Read a pack as the page's script does: (cell, replicate, question) -> its value, or why it has none."""
    known = catalogue(packed)
    raw = unpacked(packed.packs.inside[known["scores"][metric]])
    (length,) = struct.unpack_from("<I", raw)
    header = json.loads(raw[4 : 4 + length])
    assert (4 + length) % 8 == 0
    if "different" in header:
        different = np.frombuffer(raw, "<f8", header["different"], 4 + length)
        places = np.frombuffer(raw, "<u2", header["n"], 4 + length + different.nbytes)
        values = [float(different[at - 1]) if at else math.nan for at in places]
    else:
        values = np.frombuffer(raw, "<f8", header["n"], 4 + length).tolist()
    why = {at: tuple(header["why"][of]) for at, of in zip(header["missing"], header["of"], strict=True)}
    count = len(known["questions"]["id"])
    read: Scores = {}
    for at, value in enumerate(values):
        cell, replicate = known["runs"][at // count]
        place = (known["cells"][cell]["key"], replicate, known["questions"]["id"][at % count])
        if not math.isnan(value):
            read[place] = value
        elif at in why:
            read[place] = why[at]
    return read


def stored(scores: pl.DataFrame, metric: str) -> Scores:
    rows = scores.filter(pl.col("metric") == metric).iter_rows(named=True)
    return {
        (row["cell"], row["replicate"], row["question_id"]): row["value"]
        if row["status"] == "ok"
        else (row["status"], row["reason"])
        for row in rows
    }


def blocks(packed: Journeys) -> list[dict[str, Any]]:
    names = [name for name in packed.packs.inside if name.startswith("block-")]
    return [json.loads(unpacked(packed.packs.inside[name])) for name in names]


def rows_of(block: Mapping[str, Any], table: str) -> list[dict[str, Any]]:
    """Return the rows of a table, its texts in place of their numbers."""
    columns = {
        name.removesuffix("_"): [None if at < 0 else block["texts"][at] for at in values]
        if name.endswith("_")
        else values
        for name, values in block[table].items()
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def test_scores_come_out_to_the_last_bit_with_what_is_missing_and_why(data: ReportData) -> None:
    several = pl.concat([data.scores, data.scores.with_columns(pl.lit(2, pl.Int64).alias("replicate"))])
    packed = found(dataclasses.replace(data, scores=several))
    for metric in data.metrics:
        assert scores_of(packed, metric.name) == stored(several, metric.name)


def test_more_different_values_than_places_are_written_whole(
    data: ReportData, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag_assay.evals.reporting.journey._MOST", 3)
    packed = found(data)
    assert scores_of(packed, "latency") == stored(data.scores, "latency")


def test_blocks_hold_every_hit_answer_and_text(data: ReportData) -> None:
    assert data.journey is not None
    packed = found(data)
    known = catalogue(packed)
    texts: dict[tuple[str, str, int], str] = {}
    answers = {}
    for block in blocks(packed):
        ids = known["questions"]["id"][block["first"] : block["first"] + block["count"]]
        stretches = rows_of(block, "stretches")
        for hit in rows_of(block, "hits"):
            of = stretches[hit["stretch"]]
            ranking = known["cells"][hit["ranking"]]["key"]
            shown = of["text"][hit["start"] - of["start"] : hit["end"] - of["start"]]
            texts[ranking, ids[hit["question"]], hit["rank"]] = shown
        for one in rows_of(block, "answers"):
            cell, _ = known["runs"][one["run"]]
            answers[known["cells"][cell]["key"], ids[one["question"]]] = one["answer"]
    asked = data.hits.select("cell", "question_id", "rank", "text").iter_rows()
    assert texts == {(cell, question, rank): text for cell, question, rank, text in asked}
    assert answers == {
        (c, q): a for c, q, a in data.answers.select("cell", "question_id", "answer").iter_rows()
    }
    assert HOSTILE_ANSWER in json.dumps(blocks(packed), ensure_ascii=False).replace("\\", "")


def test_stretches_of_hits_are_cut_from_documents_by_characters() -> None:
    hits = pl.DataFrame({"doc_id": ["a", "a", "b"], "start": [1, 3, 0], "end": [4, 6, 2]})
    documents = pl.DataFrame({"doc_id": ["a", "b"], "text": ["0ü😀3456", f"x{OVERRIDE}z"]})
    assert cut(documents, merged(hits)).rows() == [("a", 1, 6, "ü😀345"), ("b", 0, 2, f"x{OVERRIDE}")]


def test_what_each_step_made_of_a_hit_is_its_rank_there() -> None:
    traces = pl.DataFrame(
        {
            "question_id": ["q", "q"],
            "step": ["bm25", "fuse"],
            "kind": ["arm", "fuse"],
            "chunk_ids": [["x", "c"], ["c", "x"]],
        }
    )
    hits = pl.DataFrame({"ranking": ["r"], "question_id": ["q"], "rank": [1], "chunk_id": ["c"]})
    assert sorted(taken(traces, hits).select("rank", "step", "at", "order").rows()) == [
        (1, "bm25", 2, 0),
        (1, "fuse", 1, 1),
    ]


def test_a_large_study_has_a_folder_that_is_named_by_what_is_in_it(
    data: ReportData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journey, "INSIDE", 1_000)
    page = write_html(data, tmp_path / "energy.html")
    (folder,) = folders_of(page)
    html = page.read_text()
    assert "frame-src" in html
    assert 'id="pack-block-0"' not in html
    files = sorted(folder.iterdir())
    assert len(files) == 3  # 35 questions, 16 in each
    files[0].write_text("damaged")
    files[1].unlink()
    write_html(data, page)
    assert sorted(folder.iterdir()) == files
    assert "octet-stream" in files[0].read_text()
    other = data.answers.with_columns(pl.lit("another").alias("answer"))
    write_html(dataclasses.replace(data, answers=other), page)
    (renamed,) = folders_of(page)
    assert renamed != folder
    monkeypatch.undo()
    write_html(data, page)
    assert folders_of(page) == []


def test_a_study_of_one_question_without_hits_answers_or_evidence_has_a_journey(data: ReportData) -> None:
    one = data.questions.head(1).with_columns(
        pl.lit(None, data.questions.schema["evidence"]).alias("evidence")
    )
    kept = dataclasses.replace(
        data, questions=one, answers=data.answers.clear(), hits=data.hits.clear(), losses=None, journey=None
    )
    (block,) = blocks(found(kept))
    assert block["count"] == 1
    assert rows_of(block, "hits") == rows_of(block, "answers") == rows_of(block, "evidence") == []
    empty = dataclasses.replace(kept, questions=one.clear(), scores=frame([], {**SCORES, **_OF_CELL}))
    assert blocks(found(empty)) == []
