"""What a study's results are exported as: TREC run files, and the leaderboard as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from evals.grid import Grid
from evals.report import leaderboard_rows
from evals.study import Study
from warehouse.connection import connect
from warehouse.errors import InputError
from warehouse.paths import Home


class TrecRuns(NamedTuple):
    """The run files that were written, and the rankings without one: they have not been run."""

    written: list[Path]
    missing: list[str]


def trec_runs(study: Study, home: Home, folder: Path) -> TrecRuns:
    """Write a TREC run file a ranking (`query Q0 document rank score tag`), documents at their best chunk.

    A ranking that found nothing for any question is an empty file.

    Raises:
        InputError: none of the study's rankings has been run.
    """
    grid = Grid([study])
    runs = TrecRuns([], [])
    with connect(home.database) as connection:
        known = connection.execute("SELECT key FROM pointers WHERE stage = 'rankings'").fetchall()
        run = {key for (key,) in known}
        for ranking in study.rankings():
            if ranking not in run:
                runs.missing.append(ranking)
                continue
            rows = connection.execute(
                "SELECT question_id, doc_id, max(score) AS score, min(rank) AS best "
                "FROM current_hits WHERE ranking = ? "
                "GROUP BY question_id, doc_id ORDER BY question_id, best",
                [ranking],
            ).fetchall()
            path = folder / f"{ranking}.trec"
            folder.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(_trec_lines(rows, grid.rankings[ranking].retriever)))
            runs.written.append(path)
    if not runs.written:
        raise InputError(f"the study {study.study} has no rankings yet; run `assay run {study.path}` first")
    return runs


def _trec_lines(rows: list[tuple[str, str, float, int]], tag: str) -> list[str]:
    lines, rank, before = [], 0, None
    for question, doc, score, _best in rows:
        rank = rank + 1 if question == before else 1
        before = question
        lines.append(f"{question} Q0 {doc} {rank} {score:.6f} {tag}\n")
    return lines


def json_rows(study: Study, home: Home) -> str:
    """Return the leaderboard as JSON, a list of objects."""
    columns = [
        "subset",
        "cell",
        "cell_id",
        "chunking",
        "embedder",
        "retriever",
        "generator",
        "metric",
        "value",
        "n",
        "coverage",
        "low",
        "high",
        "worst",
        "best",
        "rank",
    ]
    return json.dumps(leaderboard_rows(study, home).select(columns).to_dicts(), indent=1)
