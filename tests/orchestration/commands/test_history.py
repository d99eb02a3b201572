"""Which result a study had when: a line a change, whoever ran it, whatever was killed between."""

from __future__ import annotations

import csv
import io
import json

from tests.fakes.commands import assay
from tests.orchestration.conftest import Finished
from warehouse.connection import connect
from warehouse.history import history_records
from warehouse.paths import Home


def rows(home: Home) -> list[tuple[str, int, str]]:
    with connect(home.database) as connection:
        return connection.execute(
            'SELECT study, "number", leaderboard FROM history ORDER BY study, "number"'
        ).fetchall()


def test_a_line_a_change_and_none_for_an_unchanged_run(finished: Finished) -> None:
    path, home = str(finished.path), finished.home
    (first,) = history_records(home, "town")
    assert first["run"], "written by the run of Dagster that wrote the report, however that was started"
    assert first["sources"]["texts"]["documents"] == 3
    assert set(first["artifacts"]) == {"chunks", "questions", "rankings", "answers", "scores"}
    assert assay("run", path).returncode == 0
    assert history_records(home, "town") == [first]

    place = home.history("town")
    place.write_bytes(place.read_bytes()[:-40])  # killed while it wrote
    assert assay("run", path).returncode == 0
    (again,) = history_records(home, "town")
    assert {**again, "run": first["run"]} == first
    place.unlink()  # a home that was run before there were histories
    assert assay("run", path).returncode == 0
    assert [one["entry"] for one in history_records(home, "town")] == [first["entry"]]

    finished.edit("words: {bm25: {k: 5}}", "words: {bm25: {k: 1}}")
    assert assay("run", path).returncode == 0
    finished.edit("words: {bm25: {k: 1}}", "words: {bm25: {k: 5}}")
    assert assay("run", path).returncode == 0
    boards = [one["leaderboard"] for one in history_records(home, "town")]
    assert len(boards) == 3
    assert boards[0] == boards[2] != boards[1], "a result that comes back is a line of its own"
    stored = rows(home)
    assert stored == [("town", n, board) for n, board in enumerate(boards, 1)]
    home.database.unlink()
    assert assay("rebuild").returncode == 0
    assert rows(home) == stored

    found = json.loads(assay("history", path, "--format", "json").stdout)
    assert [one["back"] for one in found] == [2, 1, 0]
    assert [one["recipes_changed"] for one in found] == [{}, *[{"changed": ["retriever words"]}] * 2]
    assert all(one["documents_changed"] == one["code_changed"] == {} for one in found)
    table = list(csv.DictReader(io.StringIO(assay("history", "town", "--format", "csv").stdout)))
    assert [one["leaderboard"] for one in table] == boards
    assert json.loads(table[1]["recipes_changed"]) == {"changed": ["retriever words"]}
    shown = assay("history", "town")
    assert "town has had 3 results" in shown.stdout
    assert "words | bm25.k: 1 → 5 |" in assay("history", "town", "--format", "markdown").stdout
    page = assay("history", "town", "--format", "html").stdout.strip()
    assert page == str(home.reports / "town-history.html")
    assert '<line class="mark"' in (home.reports / "town-history.html").read_text()


def test_a_study_without_a_history_is_told_so(finished: Finished) -> None:
    finished.home.history("town").unlink()
    done = assay("history", str(finished.path))
    assert done.returncode == 2
    assert "town has no history yet; `assay run" in done.stderr
    assert "did you mean" in assay("history", "demmo").stderr
