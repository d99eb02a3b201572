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
from rag_assay.evals.reporting.contexts import ranking_labels
from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.display import link_of, number, several, truncate
from rag_assay.evals.reporting.hardest import HardQuestion
from rag_assay.evals.reporting.journey_rows import HITS_SHOWN, JourneyRows, merged, no_journeys
from rag_assay.evals.reporting.rating_scores import ScoresOfPeople
from rag_assay.evals.reporting.retrieval_funnel import REMEDIES, depth, fates_of, legend_of
from rag_assay.evals.reporting.standings import group_of
from rag_assay.warehouse.schemas import HUMAN_SCORES, JUDGEMENTS, Schema, Status


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
        found = texts.select("text", "start", "end", "_start", "_end").iter_rows()
        held = [
            None if text is None or start >= last else text[start - first : end - first]
            for text, start, end, first, last in found
        ]
        stretches = texts.with_columns(pl.Series("text", held, dtype=pl.String)).sort("stretch")
        places = own.select("doc_id", pl.col("stretch").cast(pl.Int64), "start").sort("start")
        ordered = hits.with_row_index("_row").sort("start")
        within = ordered.join_asof(places, on="start", by="doc_id", check_sortedness=False).sort("_row")
        return stretches.select("doc_id", "start", "text"), within.drop("_row", "doc_id")


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
    named = pl.concat([frames[name].select("_question", "doc_id") for name in ("hits", "evidence")])
    known = rows.documents.unique("doc_id", keep="first")
    frames["documents"] = named.unique(maintain_order=True).join(known, on="doc_id", maintain_order="left")
    return JourneyTables(data.questions.height, frames, rows.passages)


def _evidence(data: ReportData) -> pl.DataFrame:
    exploded = data.questions.select("question_id", "evidence").explode("evidence").drop_nulls("evidence")
    names = ("doc_id", "url", "quote", "start", "end", "reason")
    piece = pl.col("evidence").struct
    return exploded.select("question_id", *(piece.field(name) for name in names))


def _answers(data: ReportData) -> pl.DataFrame:
    names = ("status", "reason", "answer", "seconds", "prompt_tokens", "completion_tokens", "usd", "model")
    return data.answers.select("question_id", "cell", "replicate", *names, "confidence")


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
    name = pl.concat_str("judge", "metric", separator=".").alias("metric")
    names = [name, pl.col("replicate").alias("again")]
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


_OF_SCORE = ("annotator", "rubric", "criterion", "value", "status", "comment")
_SAID: Schema = {
    "question_id": pl.String,
    "cell": pl.String,
    "replicate": pl.Int64,
    **{name: HUMAN_SCORES[name] for name in _OF_SCORE},
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
    # Where the rows of each question begin, and the last ones end.
    bounds = np.arange(count + 1)
    ends = {name: np.searchsorted(frame["_question"], bounds).tolist() for name, frame in frames.items()}
    with ThreadPoolExecutor(2) as pool:
        waiting = []
        for begin in range(0, count, QUESTIONS_A_BLOCK):
            end = min(begin + QUESTIONS_A_BLOCK, count)
            parts = {name: (at[begin], at[end] - at[begin]) for name, at in ends.items()}
            own = {name: frame.slice(*parts[name]) for name, frame in frames.items()}
            waiting.append(pool.submit(gzip.compress, _block(own, tables, begin, end), BLOCK_LEVEL, mtime=0))
            if len(waiting) > 3:  # what is packed is small, what is to be packed is not
                yield waiting.pop(0).result()
        yield from (one.result() for one in waiting)


def one_block(tables: JourneyTables) -> bytes:
    """Return all questions of a study as one block of plain JSON."""
    frames = {name: frame.sort("_question", maintain_order=True) for name, frame in tables.frames.items()}
    return _block(frames, tables, 0, tables.count)


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
    header: dict[str, Any] = {"n": n, "why": kinds.rows()}
    header |= {"missing": of["_at"].to_list(), "of": of["_kind"].to_list()}
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
    own = {"scores": measured, "blocks": sums, "perBlock": QUESTIONS_A_BLOCK, "inside": not files}
    whole = {**catalogue, **own}
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


BETWEEN_CELLS, AGAINST_JUDGES, AMONG_PEOPLE = (
    "between cells",
    "judges against people",
    "people among themselves",
)
MEASURES: Mapping[str, str] = {
    BETWEEN_CELLS: (
        "twice the standard deviation of the first metric between the cells, as a share of its range: 1 "
        "where half of the cells have its best value and half its worst"
    ),
    AGAINST_JUDGES: (
        "how far judges and people lie apart on the same answer, both as shares of their scales: the mean "
        "over the answers that have both"
    ),
    AMONG_PEOPLE: (
        "how far the highest and the lowest score of an answer lie apart, as a share of the scale: the mean "
        "over the answers that several people scored"
    ),
}
"""What disputes are measured by, each from 0 to 1."""


@dataclass(frozen=True)
class Dispute:
    """The largest of the measures of one question."""

    measure: str
    value: float

    @property
    def words(self) -> str:
        return f"{self.measure}: {number(self.value)}"


def disputes(data: ReportData) -> dict[str, Dispute]:
    found: dict[str, Dispute] = {}
    for measure, rows in (
        (BETWEEN_CELLS, _between_cells(data)),
        (AGAINST_JUDGES, _against_judges(data)),
        (AMONG_PEOPLE, _among_people(data.people)),
    ):
        for question, value in rows.iter_rows():
            if question not in found or value > found[question].value:
                found[question] = Dispute(measure, value)
    return found


_NONE = pl.DataFrame(schema={"question_id": pl.String, "value": pl.Float64})


def _between_cells(data: ReportData) -> pl.DataFrame:
    metric, value = data.primary, pl.col("value")
    rows = data.values.filter((pl.col("metric") == metric.name) & value.is_not_null())
    low, high = metric.bounds
    seen = rows.select(low=value.min(), high=value.max()).row(0)
    span = (seen[1] if high is None else high) - (seen[0] if low is None else low) if rows.height else 0.0
    if not span:
        return _NONE
    spread = (2 * value.std(ddof=0) / span).clip(0.0, 1.0)
    found = rows.group_by("question_id").agg(spread.alias("value"), pl.len())
    return found.filter(pl.col("len") > 1).drop("len")


def _among_people(people: ScoresOfPeople | None) -> pl.DataFrame:
    several, apart = pl.col("annotators") > 1, pl.col("high") - pl.col("low")
    scored = [(rows.filter(several), span) for rows, _, span in _by_criterion(people)]
    return _means([rows.select("question_id", value=apart / span) for rows, span in scored])


def _against_judges(data: ReportData) -> pl.DataFrame:
    if data.people is None or data.judgements is None or not data.judgements.height:
        return _NONE
    bounds = {one.name: one.bounds for one in data.metrics}
    place = ("question_id", "cell", pl.col("cell_replicate").alias("replicate"))
    good = data.judgements.filter(pl.col("value").is_not_null(), status="ok")
    judged = good.select(*place, "value", metric=pl.concat_str("judge", "metric", separator="."))
    apart = []
    for (metric,), own in judged.partition_by("metric", as_dict=True).items():
        low, high = bounds.get(str(metric), (None, None))
        if low is None or high is None or low == high:
            continue
        of = ["question_id", "cell", "replicate"]
        share = own.group_by(of).agg(judge=(pl.col("value").mean() - low) / (high - low))
        for rows, least, span in _by_criterion(data.people):
            both = rows.join(share, on=of)
            said = (pl.col("value") - least) / span
            apart.append(both.select("question_id", value=(said - pl.col("judge")).abs()))
    return _means(apart)


def _by_criterion(people: ScoresOfPeople | None) -> list[tuple[pl.DataFrame, float, float]]:
    found = []
    for one in people.criteria() if people else ():
        low, high = one.criterion.bounds
        if high > low:
            found.append((one.rows, low, high - low))
    return found


def _means(apart: list[pl.DataFrame]) -> pl.DataFrame:
    rows = pl.concat([_NONE, *apart])
    return rows.group_by("question_id").agg(pl.col("value").mean().clip(0.0, 1.0))


def runs_of(data: ReportData, cells: Sequence[str]) -> pl.DataFrame:
    of = ["cell", "replicate"]
    order = pl.DataFrame({"cell": list(cells)}, schema={"cell": pl.String}).with_row_index("_order")
    known = pl.concat([data.scores.select(of), data.answers.select(of)]).unique()
    return known.join(order, on="cell").sort("_order", "replicate").select(of)


def rankings_of(rows: JourneyRows, cells: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(rows.rankings[cell] for cell in cells if cell in rows.rankings))


def catalogue(
    data: ReportData,
    rows: JourneyRows,
    labels: Mapping[str, str],
    runs: pl.DataFrame,
    disputes: Mapping[str, Dispute],
) -> dict[str, Any]:
    """Return the catalogue for JSON; numbers are places in its lists."""
    cells = list(labels)
    rankings = rankings_of(rows, cells)
    names = ranking_labels(data)
    of_ranking = {ranking: cell for cell, ranking in [*rows.rankings.items()][::-1]}
    place = {ranking: at for at, ranking in enumerate(rankings)}
    at_cell = {cell: at for at, cell in enumerate(cells)}
    deep = depth(data.primary)
    return {
        "study": data.study,
        "metrics": [
            {
                **{name: getattr(one, name) for name in ("name", "title", "kind", "unit", "worst", "ideal")},
                "higher": one.higher_is_better,
                "ofRankings": one.of_rankings,
            }
            for one in data.metrics
        ],
        "cells": [
            {"key": cell, "label": labels[cell], "ranking": place.get(rows.rankings.get(cell, ""), -1)}
            for cell in cells
        ],
        "runs": [[at_cell[cell], replicate] for cell, replicate in runs.iter_rows()],
        "rankings": [names.get(of_ranking[one], of_ranking[one]) for one in rankings],
        "questions": _questions(data, rows, disputes),
        "lost": _lost(data, rows, place),
        "steps": [
            {"name": str(loss), "label": loss.label, "means": legend_of(loss, deep), "try": words}
            for loss, words in REMEDIES.items()
        ],
    }


def _questions(data: ReportData, rows: JourneyRows, disputes: Mapping[str, Dispute]) -> dict[str, Any]:
    asked = data.questions
    ids = asked["question_id"].to_list()
    sources = dict(sources_of(asked, rows.documents.select("doc_id", "source").unique("doc_id")).iter_rows())
    return {
        "id": ids,
        "text": asked["question"].to_list(),
        "language": asked["language"].to_list(),
        "type": asked.select(group_of("type")).to_series().to_list(),
        "set": asked["question_set"].to_list(),
        "sources": [sources.get(one, []) for one in ids],
        "dispute": [disputes[one].value if one in disputes else None for one in ids],
    }


def sources_of(questions: pl.DataFrame, documents: pl.DataFrame) -> pl.DataFrame:
    """Return question_id and `sources`, of its evidence; documents: doc_id and source"""
    of_pieces = pl.col("evidence").list.eval(pl.element().struct.field("doc_id"))
    held = questions.select("question_id", doc_id=of_pieces).explode("doc_id").join(documents, on="doc_id")
    return held.group_by("question_id").agg(sources=pl.col("source").unique().sort())


def _lost(data: ReportData, rows: JourneyRows, place: Mapping[str, int]) -> list[str]:
    """Return for each ranking a string with a sign a question.

    `a` is the first step of `REMEDIES`, and so on; `.`: found; a space: unknown
    """
    order = {str(loss): chr(ord("a") + at) for at, loss in enumerate(REMEDIES)}
    signs = {ranking: [" "] * data.questions.height for ranking in place}
    at_question = {one: at for at, one in enumerate(data.questions["question_id"])}
    for cell, question, loss in fates_of(data.losses, data.questions, depth(data.primary)).iter_rows():
        ranking = rows.rankings.get(cell)
        if ranking in signs and question in at_question:
            signs[ranking][at_question[question]] = order[loss] if loss else "."
    return ["".join(signs[ranking]) for ranking in place]


@dataclass(frozen=True, eq=False)
class Journeys:
    """worst: questions that most cells miss; disputed: those that are most disputed, by `measures`

    Of each question: link, text, language, and why it is in the list.
    """

    packs: ReportPacks
    questions: int
    worst: tuple[Mapping[str, Any], ...]
    disputed: tuple[Mapping[str, Any], ...]
    measures: tuple[tuple[str, str], ...]


def journeys(data: ReportData, labels: Mapping[str, str], hardest: Sequence[HardQuestion]) -> Journeys:
    """labels: of the cells in the order of the leaderboard; hardest: questions, the hardest first"""
    rows = data.journey or no_journeys()
    cells = list(labels)
    found, runs = disputes(data), runs_of(data, cells)
    tables = tables_of(data, rows, runs, rankings_of(rows, cells))
    asked = {row["question_id"]: row for row in data.questions.select(_SHOWN).iter_rows(named=True)}
    known = [(one, found[one]) for one in asked if one in found and found[one].value > 0]
    most = sorted(known, key=lambda pair: (-pair[1].value, pair[0]))[: limits.DISPUTED]
    return Journeys(
        packs(
            catalogue(data, rows, labels, runs, found),
            pack_scores(data.scores, runs, data.questions["question_id"].to_list()),
            pack_blocks(tables),
        ),
        data.questions.height,
        tuple(_worst(one, data) for one in hardest[: limits.WORST]),
        tuple(_listed(asked[one], dispute.words) for one, dispute in most),
        tuple((name, words) for name, words in MEASURES.items() if name in {d.measure for _, d in most}),
    )


_SHOWN = pl.col("question_id", "question", "language")


def _worst(one: HardQuestion, data: ReportData) -> dict[str, Any]:
    missed = f"missed by {one.missed} of {several(one.cells, 'cell')}"
    mean = f"mean {data.primary.title} {one.mean:.3f}".replace("-", "−")
    return _listed(one.question, f"{missed}, {mean}" if data.primary.worst is not None else mean)


def _listed(question: Mapping[str, Any], why: str) -> dict[str, Any]:
    text = truncate(question["question"], limits.UNFOUND_CHARACTERS)
    found = {"link": link_of(question["question_id"]), "text": text}
    return found | {"language": question["language"], "why": why}
