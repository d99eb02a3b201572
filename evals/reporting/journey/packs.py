"""Journeys of questions packed for a page: tables, blocks, scores, and the files that hold them."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from rag_assay.evals.reporting import limits
from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.journey_rows import HITS_SHOWN, JourneyRows, merged
from rag_assay.warehouse.schemas import JUDGEMENTS, Schema, Status


@dataclass(frozen=True, eq=False)
class JourneyTables:
    """Tables by name, each with `_question`, its place among the study's `count` questions.

    passages: schema PASSAGES
    """

    count: int
    frames: Mapping[str, pl.DataFrame]
    passages: pl.DataFrame

    def stretched(self, hits: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the stretches of some hits with texts, and the hits with the places of theirs."""
        own = merged(hits).with_row_index("stretch")
        whole = self.passages.rename({"start": "_start", "end": "_end"}).sort("_start")
        texts = own.sort("start").join_asof(
            whole, left_on="start", right_on="_start", by="doc_id", check_sortedness=False
        )
        held = [
            None if text is None or start >= last else text[start - first : end - first]
            for text, start, end, first, last in texts.select(
                "text", "start", "end", "_start", "_end"
            ).iter_rows()
        ]
        stretches = texts.with_columns(pl.Series("text", held, dtype=pl.String)).sort("stretch")
        within = (
            hits.with_row_index("_row")
            .sort("start")
            .join_asof(
                own.select("doc_id", "stretch", "start").sort("start"),
                on="start",
                by="doc_id",
                check_sortedness=False,
            )
            .sort("_row")
        )
        return (
            stretches.select("doc_id", "start", "text"),
            within.with_columns(pl.col("stretch").cast(pl.Int64)).drop("_row", "doc_id"),
        )


def tables_of(
    data: ReportData, rows: JourneyRows, runs: pl.DataFrame, rankings: Sequence[str]
) -> JourneyTables:
    """runs: cells and replicates in the order of their numbers; rankings: likewise"""
    asked = data.questions.select("question_id").with_row_index("_question")
    asked = asked.with_columns(pl.col("_question").cast(pl.Int64))
    named = pl.DataFrame({"ranking": list(rankings)}, schema={"ranking": pl.String})
    of_rankings = named.with_row_index("_of").with_columns(_of=pl.col("_of").cast(pl.Int64))
    places = runs.select("cell", "replicate").with_row_index("run")
    places = places.with_columns(pl.col("run").cast(pl.Int64))

    def ranked(frame: pl.DataFrame, *by: str) -> pl.DataFrame:
        found = frame.join(asked, on="question_id").join(of_rankings, on="ranking")
        kept = found.drop("question_id", "ranking").rename({"_of": "ranking"})
        return kept.sort("_question", "ranking", *by)

    def run(frame: pl.DataFrame) -> pl.DataFrame:
        found = frame.join(asked, on="question_id").join(places, on=["cell", "replicate"])
        return found.drop("question_id", "cell", "replicate")

    judged, statements = _judged(data)
    hits = rows.hits.filter(pl.col("rank") <= HITS_SHOWN)
    said = (
        pl.col("conversation").list.join("\n") if "conversation" in data.questions.columns else pl.lit(None)
    )
    names = ("question_id", "ground_truth", "answerable", "needs", "asked_at")
    frames = {
        "questions": data.questions.select(*names, conversation=said.cast(pl.String)).join(
            asked, on="question_id"
        ),
        "evidence": _evidence(data).join(asked, on="question_id").drop("question_id"),
        "hits": ranked(hits, "rank"),
        "taken": ranked(rows.taken, "rank", "order").drop("order"),
        "ended": ranked(rows.ended),
        "lost": ranked(rows.lost, "evidence"),
        "answers": run(_answers(data)),
        "citations": run(_citations(data)),
        "judgements": run(judged),
        "statements": run(statements),
        "people": run(_people(data)),
    }
    frames |= {"documents": _documents(frames["hits"], frames["evidence"], rows.documents)}
    return JourneyTables(data.questions.height, frames, rows.passages)


def _documents(hits: pl.DataFrame, evidence: pl.DataFrame, documents: pl.DataFrame) -> pl.DataFrame:
    named = pl.concat([hits.select("_question", "doc_id"), evidence.select("_question", "doc_id")])
    return named.unique(maintain_order=True).join(
        documents.unique("doc_id", keep="first"), on="doc_id", maintain_order="left"
    )


def _evidence(data: ReportData) -> pl.DataFrame:
    exploded = data.questions.select("question_id", "evidence").explode("evidence").drop_nulls("evidence")
    names = ("doc_id", "url", "quote", "start", "end", "reason")
    piece = pl.col("evidence").struct
    return exploded.select("question_id", *(piece.field(name) for name in names))


def _answers(data: ReportData) -> pl.DataFrame:
    names = (
        "status",
        "reason",
        "answer",
        "seconds",
        "prompt_tokens",
        "completion_tokens",
        "usd",
        "model",
        "confidence",
    )
    return data.answers.select("question_id", "cell", "replicate", *names)


def _citations(data: ReportData) -> pl.DataFrame:
    names = ("marker", "chunk_id", "doc_id", "start", "end", "url")
    exploded = data.answers.select("question_id", "cell", "replicate", "citations").explode("citations")
    one = pl.col("citations").struct
    found = exploded.drop_nulls("citations").select(
        "question_id", "cell", "replicate", *(one.field(name) for name in names)
    )
    return found.unique(["question_id", "cell", "replicate", "marker"], maintain_order=True)


def _judged(data: ReportData) -> tuple[pl.DataFrame, pl.DataFrame]:
    known = data.judgements if data.judgements is not None else pl.DataFrame(schema=_JUDGED)
    of: list[str | pl.Expr] = ["question_id", "cell", pl.col("cell_replicate").alias("replicate")]
    names = [
        pl.concat_str("judge", "metric", separator=".").alias("metric"),
        pl.col("replicate").alias("again"),
    ]
    numbered = known.with_row_index("number").with_columns(pl.col("number").cast(pl.Int64))
    judged = numbered.select(*of, *names, "number", "status", "value", "reason", "uncalibrated", "model")
    said = pl.col("statements")
    exploded = numbered.filter(said.list.len() > 0).with_columns(said.list.head(limits.STATEMENTS))
    exploded = exploded.select(*of, "number", "statements").explode("statements")
    parts = ("of", "text", "verdict", "value", "reason")
    return judged, exploded.select(
        "question_id", "cell", "replicate", "number", *(said.struct.field(name) for name in parts)
    )


_JUDGED: Schema = {
    **JUDGEMENTS,
    "cell": pl.String,
    "cell_replicate": pl.Int64,
    "judge": pl.String,
    "uncalibrated": pl.Boolean,
}


def _people(data: ReportData) -> pl.DataFrame:
    if data.people is None:
        return pl.DataFrame(schema=_SAID)
    on = ["item_id", "rubric", "criterion"]
    given = data.people.scores.select(
        *on, "annotator", "value", "status", "comment", of="cell", asked="question_id"
    )
    items = data.people.values.select(*on, "question_id", key="cell")
    found = given.join(items, on=on, nulls_equal=True).filter(
        pl.col("of").is_null()
        | ((pl.col("of") == pl.col("key")) & (pl.col("asked") == pl.col("question_id")))
    )
    return found.join(data.people.cells.select("key", "cell", "replicate"), on="key").select(*_SAID)


_SAID: Schema = {
    "question_id": pl.String,
    "cell": pl.String,
    "replicate": pl.Int64,
    "annotator": pl.String,
    "rubric": pl.String,
    "criterion": pl.String,
    "value": pl.Float64,
    "status": pl.String,
    "comment": pl.String,
}


QUESTIONS_A_BLOCK = 16
BLOCK_LEVEL = 4  # of gzip: hardly larger than 6, in half the time


@dataclass
class _Texts:
    """Distinct texts and their places; None has the place -1."""

    places: dict[str, int] = field(default_factory=dict)

    def of(self, texts: Sequence[str | None]) -> list[int]:
        found, add = self.places, self.places.setdefault
        return [-1 if text is None else add(text, len(found)) for text in texts]


def pack_blocks(tables: JourneyTables) -> Iterator[bytes]:
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
            waiting.append(pool.submit(gzip.compress, _block(own, tables, begin, end), BLOCK_LEVEL, mtime=0))
            if len(waiting) > 3:  # what is packed is small, what is to be packed is not
                yield waiting.pop(0).result()
        yield from (one.result() for one in waiting)


def one_block(tables: JourneyTables) -> bytes:
    """Return all questions of a study as one block of plain JSON."""
    frames = {name: frame.sort("_question", maintain_order=True) for name, frame in tables.frames.items()}
    return _block(frames, tables, 0, tables.count)


def _ends(frame: pl.DataFrame, count: int) -> list[int]:
    """Return where the rows of each question begin, and the last ones end."""
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


SCORE_LEVEL = 6  # of gzip
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
    return gzip.compress(struct.pack("<I", len(head)) + head + body, SCORE_LEVEL, mtime=0)


INSIDE = 8_000_000  # characters of packed journeys that a page may hold
_HAND_OVER = 'parent.postMessage(document.getElementById("pack").textContent, "*");'


@dataclass(frozen=True)
class ReportPacks:
    """Packs as text.

    inside: name -> content on the page
    files: name of a file -> content; folder: end of their folder's name; "" without files
    """

    inside: Mapping[str, str]
    files: Mapping[str, str]
    folder: str = ""


def packs(
    catalogue: Mapping[str, Any], scores: Iterable[tuple[str, bytes]], blocks: Iterable[bytes]
) -> ReportPacks:
    inside: dict[str, str] = {}
    measured = {}
    for at, (metric, pack) in enumerate(scores):
        inside[f"scores-{at}"] = _text(pack)
        measured[metric] = f"scores-{at}"
    texts = [_text(pack) for pack in blocks]
    sums = [hashlib.sha256(text.encode()).hexdigest() for text in texts]
    files: dict[str, str] = {}
    folder = ""
    if sum(map(len, texts)) <= INSIDE:
        inside |= {f"block-{at}": text for at, text in enumerate(texts)}
    else:
        folder = hashlib.sha256(" ".join(sums).encode()).hexdigest()[:12]
        files = {f"block-{at}.html": _page(text) for at, text in enumerate(texts)}
    whole = {
        **catalogue,
        "scores": measured,
        "blocks": sums,
        "perBlock": QUESTIONS_A_BLOCK,
        "inside": not files,
    }
    text = json.dumps(whole, ensure_ascii=False, separators=(",", ":"))
    return ReportPacks({"catalogue": _text(gzip.compress(text.encode(), mtime=0)), **inside}, files, folder)


def _text(pack: bytes) -> str:
    return base64.b64encode(pack).decode()


def _page(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(_HAND_OVER.encode()).digest()).decode()
    return (
        '<!doctype html>\n<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="'
        f"default-src 'none'; script-src 'sha256-{digest}'\">\n<title>Data of a report</title>\n"
        '<p>This file is read by the report beside this folder.</p>\n<script type="application/octet-stream" '
        f'id="pack">{text}</script>\n<script>{_HAND_OVER}</script>\n'
    )
