"""A study that never ran: every frame of a report, consistent with itself, with hostile and German text."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from statistics import fmean
from typing import Any

import polars as pl

from rag_assay.evals.metrics import get_metric
from rag_assay.evals.reporting.data import ChunkingFacts, MetricInfo, ReportData, SourceFacts
from rag_assay.evals.reporting.journey_rows import (
    DOCUMENTS,
    ENDED,
    LOST,
    OF_HITS,
    TAKEN,
    JourneyRows,
    cut,
    merged,
)
from rag_assay.evals.reporting.study_facts import Provenance, command, machine
from rag_assay.evals.statistics.comparison import compare_cells, margin_of, posterior_columns, tie_groups
from rag_assay.evals.statistics.question_clusters import ALONE
from rag_assay.evals.statistics.verdict import Verdict, VerdictInputs, labels_of, verdict_on
from rag_assay.warehouse.parquet import frame
from rag_assay.warehouse.schemas import ANSWERS, HITS, LEADERBOARD, LOSSES, QUESTIONS, SCORES, Schema

OF_CELL: Schema = {"cell": pl.String, "replicate": pl.Int64}
HOSTILE_TITLE = "<script>alert(1)</script> Förderrichtlinie"
HOSTILE_ANSWER = '"><img src=https://evil.example/x.png onerror=alert(2)> </details></style>{{ 7*7 }}'
HOSTILE_URL = "javascript:alert(document.domain)"
OVERRIDE = "\u202e"  # turns the direction of the text after it around

NDCG = MetricInfo(
    "ndcg@10",
    "nDCG@10",
    "retrieval",
    True,
    (0.0, 1.0),
    "",
    "Discounted gain of the evidence among the first ten hits over that of the ideal order: DCG / IDCG.",
)
HIT_RATE = MetricInfo(
    "hit_rate@5",
    "Hit rate@5",
    "retrieval",
    True,
    (0.0, 1.0),
    "",
    "1 when the first five hits hold any of the evidence, else 0.",
)
SIMILARITY = MetricInfo(
    "semantic_similarity",
    "Semantic similarity",
    "answer",
    True,
    (-1.0, 1.0),
    "",
    "Cosine of the embeddings of answer and ground truth.",
)
LATENCY = MetricInfo(
    "latency", "Latency", "cost", False, (0.0, None), "s", "Wall time of retrieval and answer."
)
TOKENS = MetricInfo("tokens", "Tokens", "cost", False, (0.0, None), "tokens", "Prompt and completion tokens.")
METRICS = (NDCG, HIT_RATE, SIMILARITY, LATENCY, TOKENS)

SENTENCES = (
    "Die Mitgliedstaaten stellen sicher, dass der Endenergieverbrauch bis 2030 um 11,7 % sinkt.",
    "Öffentliche Einrichtungen renovieren jährlich mindestens 3 % der Gesamtfläche ihrer Gebäude.",
    "Der Verpflichtungszeitraum beginnt am 1. Januar 2024 und endet am 31. Dezember 2030.",
    "Unternehmen mit einem Verbrauch von mehr als 85 TJ führen ein Energiemanagementsystem ein.",
    "Netzbetreiber veröffentlichen die Ergebnisse der Prüfung spätestens nach sechs Monaten.",
    "Eine Ausnahme gilt für Bauwerke unter Denkmalschutz, soweit ihr Charakter verändert würde.",
    "Die Kommission bewertet die Maßnahmen alle zwei Jahre und legt einen Bericht vor.",
    "Energy poverty means a household's lack of access to essential energy services.",
    "Zuschüsse werden nur gewährt, wenn die Rechnung innerhalb von 90 Tagen eingereicht wird.",
    "District heating is efficient when at least half of its heat is renewable or waste heat.",
)
CHUNKINGS = ("tokens-128-42", "tokens-256-84", "articles", "sentences-6")
RETRIEVERS = ("bm25", "dense", "bm25+dense", "bm25+dense+recency")
GENERATORS = ("extractive", "small", "large")
TYPES = ("fact", "multi-hop", "time frame", "definition")
GONE = 13  # the question whose evidence is in no document
CUTTING = {"tokens-128-42": 0.12, "tokens-256-84": 0.06}  # chunking -> share of the evidence that it cuts


def report_data(
    *,
    n_questions: int = 40,
    chunkings: int = 3,
    retrievers: int = 4,
    generators: int = 2,
    sample: int = 12,
    seed: int = 7,
) -> ReportData:
    """Build a study of ``chunkings`` x ``retrievers`` x ``generators`` cells.

    The second generator answered a sample only. One cell of `all` has a coverage below 98 %. The means,
    intervals and coverages of the leaderboard come from the scores.
    """
    rng = random.Random(seed)
    documents = [" ".join(rng.choice(SENTENCES) for _ in range(60)) for _ in range(12)]
    questions = [_question(index, documents) for index in range(n_questions)]
    hard = {row["question_id"]: rng.random() for row in questions}
    cells = [
        (chunking, retriever, generator)
        for chunking in CHUNKINGS[:chunkings]
        for retriever in RETRIEVERS[:retrievers]
        for generator in GENERATORS[:generators]
    ]
    scores: list[dict[str, Any]] = []
    answers: list[dict[str, Any]] = []
    hits: list[dict[str, Any]] = []
    losses: list[dict[str, Any]] = []
    for cell in cells:
        asked = questions[:sample] if cell[2] == "small" else questions
        for row in asked:
            # A ranking does not depend on the generator, so it is drawn from the other two parts.
            ranking = random.Random(f"{seed} {cell[0]} {cell[1]} {row['question_id']}")
            found = _hits(key_of(cell), row, documents, ranking, hard[row["question_id"]], cell)
            hits += found
            if cell[2] == GENERATORS[0]:
                losses += _losses(cell, row, found)
            answers.append(_stepped(_cited(_answer(key_of(cell), row, rng), found)))
            scores += _scores(cell, row, found, answers[-1], rng)
    score_frame = frame(scores, {**SCORES, **OF_CELL})
    ids = [row["question_id"] for row in questions]
    boards = _board(score_frame, [c for c in cells if c[2] != "small"], ids, "all", METRICS)
    if generators > 1:
        boards += _board(score_frame, cells, ids[:sample], f"sample of {sample}", METRICS)
    return ReportData(
        study="energy",
        description="Welche Chunk-Größe, welcher Retriever und welches Modell für unsere Richtlinien?",
        seed=seed,
        created_at=datetime(2026, 11, 21, 22, 30, tzinfo=UTC),
        metrics=METRICS,
        leaderboard=frame(boards, LEADERBOARD),
        verdict=decided("energy", frame(boards, LEADERBOARD), METRICS),
        questions=frame(questions, QUESTIONS),
        scores=score_frame,
        answers=frame(answers, {**ANSWERS, **OF_CELL}),
        hits=frame(
            hits, {**HITS, "cell": pl.String, "text": pl.String, "url": pl.String, "title": pl.String}
        ),
        losses=frame(losses, {**LOSSES, "cell": pl.String}),
        journey=_journey(hits, losses, documents, [key_of(cell) for cell in cells]),
        corpus=(
            SourceFacts(
                "directives",
                pages=612,
                documents=588,
                dropped={"too short": 14, "near duplicate": 10},
                failed={"HTTP 404": 3},
                crawled="2026-11-20T05:00:12+00:00",
                digest="ab" * 10,
            ),
            SourceFacts("memos", 41, 41, {}, {}),
        ),
        chunkings=tuple(
            ChunkingFacts(
                name, f"{name.split('-')[0]}: {{size: 128, overlap: 42}}\n", 4210, 118.4, 126.0, 128, 0
            )
            for name in CHUNKINGS[:chunkings]
        ),
        recipes={"bm25": "bm25: {variant: okapi, k: 10}\n", "<b>dense</b>": "dense: {k: 10}\n"},
        provenance=Provenance(
            "cd" * 10,
            machine(),
            {key_of(cell): command("energy", key_of(cell).partition(".")[2]) for cell in cells},
            {key_of(cell): key_of(cell)[::-1] for cell in cells},
        ),
        versions={
            "polars": "2.1.0",
            "all-MiniLM-L6-v2": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        },
        notes=(
            "The generator `small` answered a sample of the questions only.",
            "Check `evidence found`: 1 quote was not found.",
        ),
    )


def _journey(
    hits: list[dict[str, Any]], losses: list[dict[str, Any]], documents: Sequence[str], cells: Sequence[str]
) -> JourneyRows:
    """Let every cell be a ranking of its own, whose chain had one arm that found each hit a place later."""
    found = frame([{"ranking": hit["cell"], **hit} for hit in hits], OF_HITS)
    spans = merged(found)
    names = {f"doc{at}": text for at, text in enumerate(documents)}
    urls = {hit["doc_id"]: (hit["url"], hit["title"]) for hit in hits}
    taken = found.with_columns(
        step=pl.lit("bm25"), kind=pl.lit("arm"), order=pl.lit(0, pl.Int64), at=pl.col("rank") + 1
    )
    return JourneyRows(
        {cell: cell for cell in cells},
        found,
        pl.DataFrame(schema=ENDED),
        taken.select(*TAKEN),
        frame([{"ranking": one["cell"], **one} for one in losses], LOST),
        cut(pl.DataFrame({"doc_id": [*names], "text": [*names.values()]}), spans),
        frame(
            [{"doc_id": k, "source": "directives", "url": u, "title": t} for k, (u, t) in urls.items()],
            DOCUMENTS,
        ),
    )


def board_data(rows: Sequence[dict[str, Any]], metric: MetricInfo = SIMILARITY, n: int = 64) -> ReportData:
    """Build a report of a leaderboard alone: each row is a chunking's name with the values given."""
    board = [
        {
            "study": "s",
            "subset": "all",
            "cell": f"c.{row['chunking']}.e.r.g",
            "cell_id": "0",
            "embedder": "e",
            "retriever": "r",
            "generator": "g",
            "metric": metric.name,
            "n": n,
            "coverage": 1.0,
            **dict.fromkeys(("value", "low", "high", "worst", "best", "rank")),
            **row,
        }
        for row in rows
    ]
    return ReportData(
        study="s",
        description="",
        seed=1,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        metrics=(metric,),
        leaderboard=frame(board, LEADERBOARD),
        verdict=decided("s", frame(board, LEADERBOARD), (metric,)),
        questions=frame([], QUESTIONS),
        scores=frame([], {**SCORES, **OF_CELL}),
        answers=frame([], {**ANSWERS, **OF_CELL}),
        hits=frame([], {**HITS, "cell": pl.String, "text": pl.String, "url": pl.String, "title": pl.String}),
    )


def key_of(cell: tuple[str, str, str]) -> str:
    """Write a cell's readable key."""
    return f"energy.{cell[0]}.minilm.{cell[1]}.{cell[2]}"


def _question(index: int, documents: Sequence[str]) -> dict[str, Any]:
    doc = index % len(documents)
    quote = SENTENCES[index % len(SENTENCES)]
    start = documents[doc].find(quote)
    found = start >= 0 and index != GONE
    evidence = {
        "doc_id": f"doc{doc}" if found else None,
        "url": HOSTILE_URL if index == 3 else f"https://eur-lex.example/doc/{doc}?a=1&b=2",
        "quote": quote,
        "start": start if found else None,
        "end": start + len(quote) if found else None,
        "grade": 1,
        "reason": None if found else "the quote is not in the document",
    }
    return {
        "question_id": f"q{index:03}",
        "question_set": "handmade" if index % 3 else "generated",
        "type": TYPES[index % len(TYPES)],
        "language": "de",
        "question": f"Was regelt der Text zu Punkt {index}? {'<b>fett</b>' if index % 5 == 0 else ''}",
        "ground_truth": quote,
        "answerable": True,
        "needs": "all",
        "gold": "spans",
        "time_from": None,
        "time_to": None,
        "evidence": [evidence],
    }


def _hits(
    key: str,
    row: dict[str, Any],
    documents: Sequence[str],
    rng: random.Random,
    hardness: float,
    cell: Sequence[str],
) -> list[dict[str, Any]]:
    skill = 0.25 + 0.13 * RETRIEVERS.index(cell[1]) + 0.06 * CHUNKINGS.index(cell[0])
    size = 420 + 260 * CHUNKINGS.index(cell[0])
    evidence = row["evidence"][0]
    place = (
        1 + int(rng.random() * 4) if evidence["doc_id"] and rng.random() < skill * (1.6 - hardness) else None
    )
    hits = []
    for rank in range(1, 6):
        doc = rng.randrange(len(documents))
        start = rng.randrange(0, len(documents[doc]) - size)
        if rank == place:
            doc, start = int(evidence["doc_id"][3:]), max(0, evidence["start"] - rng.randrange(30, 300))
        end = min(len(documents[doc]), start + size)
        hits.append(
            {
                "cell": key,
                "question_id": row["question_id"],
                "rank": rank,
                "chunk_id": f"c{doc}-{start}",
                "doc_id": f"doc{doc}",
                "start": start,
                "end": end,
                "score": 1 / rank,
                "text": documents[doc][start:end],
                "url": HOSTILE_URL if doc == 5 else f"https://eur-lex.example/doc/{doc}?a=1&b=2",
                "title": HOSTILE_TITLE if doc % 4 == 0 else f"Richtlinie {doc} {OVERRIDE}über Energie",
            }
        )
    return hits


def _answer(key: str, row: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    fails = key.endswith("articles.minilm.dense.extractive") or ".small" in key
    failed = fails and rng.random() < 0.12
    hostile = rng.random() < 0.05
    return {
        "cell": key,
        "replicate": 1,
        "question_id": row["question_id"],
        "status": "timeout" if failed else "ok",
        "reason": "no answer within 60 s <gateway>" if failed else None,
        "answer": None if failed else HOSTILE_ANSWER if hostile else row["ground_truth"],
        "raw": None if failed else row["ground_truth"],
        "chunk_ids": [],
        "seconds": None if failed else rng.lognormvariate(-1, 0.5),
        "prompt_tokens": None if failed else rng.randrange(700, 1600),
        "completion_tokens": None if failed else rng.randrange(10, 90),
        "usd": None if failed or ".small" not in key else 0.00031,
        "cached": False,
        "confidence": None if failed else 1 / (1 + len(row["question"]) % 7),
    }


def _stepped(answer: dict[str, Any]) -> dict[str, Any]:
    """Let some cells answer in bins, and look for passages twice; all that is said is hostile."""
    if ".articles" not in answer["cell"]:
        return {**answer, "bins": [], "attempts": [], "turns_left_out": 0}
    chunks = answer["chunk_ids"]
    bins = [
        {
            "text": HOSTILE_TITLE,
            "chunk_ids": chunks[:1],
            "status": status,
            "reason": HOSTILE_ANSWER if status != "ok" else None,
            "answer": HOSTILE_ANSWER if status == "ok" else None,
        }
        for status in ["ok", "refused", "truncated"] * 5
    ]
    attempts = [
        {"query": HOSTILE_TITLE, "chunk_ids": chunks, "sufficient": verdict, "reason": HOSTILE_ANSWER}
        for verdict in (False, None)
    ]
    return {**answer, "bins": bins, "attempts": attempts, "turns_left_out": 3}


def _cited(answer: dict[str, Any], hits: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Let an answer cite its first passages, one that no reader may follow, and one that was not given."""
    if answer["answer"] is None:
        return {**answer, "citations": []}
    found = [_citation(number, hit) for number, hit in enumerate(hits[:2], start=1)]
    if found:
        found[-1]["url"] = HOSTILE_URL
    numbers = "".join(f"[{number}]" for number in (*(one["marker"] for one in found), 9))
    nowhere = {"marker": 9, "sentence": 0}
    chunks = [hit["chunk_id"] for hit in hits[:2]]
    if "tokens-128" in answer["cell"]:
        return {**answer, "chunk_ids": chunks, "citations": found}
    return {
        **answer,
        "answer": f"{answer['answer']} {numbers}",
        "chunk_ids": chunks,
        "citations": [*found, nowhere],
    }


def _citation(number: int, hit: dict[str, Any]) -> dict[str, Any]:
    place = {name: hit[name] for name in ("chunk_id", "doc_id", "start", "end", "url")}
    return {"marker": number, "sentence": 0, "section": [HOSTILE_TITLE], **place}


def _scores(
    cell: tuple[str, str, str],
    row: dict[str, Any],
    hits: list[dict[str, Any]],
    answer: dict[str, Any],
    rng: random.Random,
) -> list[dict[str, Any]]:
    ranks = _ranks(row["evidence"][0], hits)
    values: dict[str, float | None] = {
        NDCG.name: 1 / min(ranks) if ranks else 0.0,
        HIT_RATE.name: 1.0 if ranks else 0.0,
    }
    ok = answer["status"] == "ok"
    values[SIMILARITY.name] = rng.uniform(0.4, 0.95) if ok else None
    values[LATENCY.name] = answer["seconds"]
    values[TOKENS.name] = answer["prompt_tokens"] + answer["completion_tokens"] if ok else None
    lost = _failed(cell, row)
    if lost:
        values[NDCG.name] = values[HIT_RATE.name] = None
    return [
        {
            "cell": key_of(cell),
            "replicate": 1,
            "question_id": row["question_id"],
            "metric": name,
            "status": "ok" if value is not None else ("error" if lost and "@" in name else answer["status"]),
            "value": value,
            "reason": None
            if value is not None
            else "index not found"
            if lost and "@" in name
            else answer["reason"],
        }
        for name, value in values.items()
    ]


def _ranks(evidence: dict[str, Any], hits: list[dict[str, Any]]) -> list[int]:
    """Return the ranks of the hits that hold any of the evidence."""
    return [
        hit["rank"]
        for hit in hits
        if hit["doc_id"] == evidence["doc_id"]
        and hit["start"] < evidence["end"]
        and hit["end"] > evidence["start"]
    ]


def _failed(cell: tuple[str, str, str], row: dict[str, Any]) -> bool:
    """Say whether a ranking failed: one retriever lost its index for some questions."""
    return cell[:2] == ("articles", "dense") and int(row["question_id"][1:]) % 9 == 0


def _losses(
    cell: tuple[str, str, str], row: dict[str, Any], hits: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    if _failed(cell, row):
        return []
    evidence = row["evidence"][0]
    ranks = _ranks(evidence, hits)
    lost_at = step = None
    if evidence["reason"]:
        lost_at = "corpus"
    elif not ranks:
        lost_at, step = _loss(cell, row["question_id"])
    return [
        {
            "cell": key_of(cell),
            "question_id": row["question_id"],
            "evidence": 0,
            "url": evidence["url"],
            "lost_at": lost_at,
            "step": step,
            "found_at": min(ranks, default=None),
        }
    ]


def _loss(cell: tuple[str, str, str], question_id: str) -> tuple[str, str | None]:
    if random.Random(f"{cell[0]} {question_id}").random() < CUTTING.get(cell[0], 0):
        return "chunking", None
    kinds: list[tuple[str, str | None]] = [("candidates", None), ("cut", "top")]
    kinds += [("fusion", "fuse")] if "+" in cell[1] else []
    kinds += [("budget", "token_budget")] if "recency" in cell[1] else []
    return random.Random(f"{cell} {question_id}").choice(kinds)


def _board(
    scores: pl.DataFrame,
    cells: Sequence[tuple[str, str, str]],
    ids: Sequence[str],
    subset: str,
    metrics: Sequence[MetricInfo],
) -> list[dict[str, Any]]:
    rows = []
    values: dict[str, dict[str, float]] = {}
    for cell in cells:
        for metric in metrics:
            mine = scores.filter(
                (pl.col("cell") == key_of(cell))
                & (pl.col("metric") == metric.name)
                & pl.col("question_id").is_in(ids)
            )
            rows.append(_row(cell, metric, mine["value"].to_list(), subset))
            if metric is metrics[0]:
                values[key_of(cell)] = dict(
                    mine.drop_nulls("value").select("question_id", "value").iter_rows()
                )
    first = [row for row in rows if row["metric"] == metrics[0].name]
    _rank(first)
    ranked = {row["cell"]: row["rank"] for row in first if row["rank"]}
    pairs = [({**row, "answered": None}, values[row["cell"]]) for row in first]
    found = compare_cells(pairs, min(ranked, key=ranked.__getitem__), set(ranked), 7)
    groups, told = tie_groups(found, pairs, 7), {row["cell"]: row for row in found}
    primary = get_metric(metrics[0].name)
    odds = posterior_columns(pairs, set(ranked), primary, margin_of(primary, None, primary), 7)
    return [
        (told[row["cell"]] | odds.get(row["cell"], {}) if row["metric"] == metrics[0].name else row)
        | {"tie_group": groups.get(row["cell"]), "p_best": odds.get(row["cell"], {}).get("p_best")}
        for row in rows
    ]


def decided(study: str, board: pl.DataFrame, metrics: Sequence[MetricInfo]) -> Verdict:
    """Decide by a leaderboard of which no costs are known."""
    rows = board.to_dicts()
    return verdict_on(study, rows, metrics, VerdictInputs(labels_of(rows), {}, {}, ALONE))


def _row(
    cell: tuple[str, str, str], metric: MetricInfo, given: list[float | None], subset: str
) -> dict[str, Any]:
    values = [value for value in given if value is not None]
    draws = random.Random(1)
    means = sorted(fmean(draws.choices(values, k=len(values))) for _ in range(60)) if values else []
    bounded = None not in metric.bounds

    def filled(bound: float | None) -> float | None:
        return fmean(bound if v is None else v for v in given) if bounded and bound is not None else None

    return {
        "study": "energy",
        "subset": subset,
        "cell": key_of(cell),
        "cell_id": key_of(cell)[::-1],
        "chunking": cell[0],
        "embedder": "minilm",
        "retriever": cell[1],
        "generator": cell[2],
        "metric": metric.name,
        "value": fmean(values) if values else None,
        "n": len(given),
        "coverage": len(values) / len(given),
        "low": means[1] if means else None,
        "high": means[-2] if means else None,
        "worst": filled(metric.worst),
        "best": filled(metric.ideal),
        "rank": None,
    }


def _rank(rows: list[dict[str, Any]]) -> None:
    good = [row for row in rows if row["coverage"] >= 0.98]
    for rank, row in enumerate(sorted(good, key=lambda row: (-row["value"], row["cell"])), start=1):
        row["rank"] = rank
