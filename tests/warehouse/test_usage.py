"""What is shown of use: the views, by hand, and against a count of the conversations' files."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest

from rag_assay.warehouse.connection import connect
from rag_assay.warehouse.conversation_tables import write_conversations
from rag_assay.warehouse.conversations import Begun, Conversations
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.usage import PANELS, UsageFilter, panel, usage
from tests.fakes.used import SCRIPT, used_home


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return used_home(tmp_path_factory.mktemp("used"))


@pytest.fixture
def connection(home: Home) -> Iterator[duckdb.DuckDBPyConnection]:
    with connect(home.database) as opened:
        write_conversations(opened, home)
        yield opened


def turns(home: Home, study: str | None = None, place: str = "chat") -> list[tuple[str, dict[str, Any]]]:
    """The turns of the files, read by nothing of ours: (conversation, line)."""
    found = []
    for path in sorted(home.chats.glob("*/*.jsonl")):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        if study in {None, path.parent.name} and lines[0]["place"] == place:
            found += [(f"{path.parent.name}/{path.stem}", line) for line in lines if line["kind"] == "turn"]
    return found


def test_the_last_vote_of_each_question_counts_once_and_from_the_side_of_the_cell_that_is_chosen(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    plain, other = "town.plain.e.r.g", f"town.{SCRIPT}.e.r.g"
    asked = panel(connection, "votes", UsageFilter()).select("study", "cell", "rival", "won", "lost", "ties")
    assert sorted(asked.rows()) == [
        ("town", other, plain, 3, 0, 0),  # each of three conversations: a, then b, then a again
        ("village", other, plain, 0, 0, 3),
    ]
    (row,) = panel(connection, "votes", UsageFilter("town", plain)).iter_rows(named=True)
    assert (row["cell"], row["rival"], row["won"], row["lost"], row["share"]) == (plain, other, 0, 3, 0.0)
    assert row["low"] == 0.0 < row["high"] < 1.0
    (row,) = panel(connection, "votes", UsageFilter("village")).iter_rows(named=True)
    assert (row["share"], row["low"], row["ties"]) == (None, None, 3)
    assert panel(connection, "votes", UsageFilter(demo=True)).is_empty()


def day(line: dict[str, Any]) -> date:
    return datetime.fromisoformat(line["at"]).astimezone(UTC).date()


@pytest.mark.parametrize("study", [None, "town"])
def test_the_panels_are_what_the_files_say(
    home: Home, connection: duckdb.DuckDBPyConnection, study: str | None
) -> None:
    found = usage(connection, UsageFilter(study), most=None).panels
    lines = turns(home, study)
    said = Counter(line["status"] for _, line in lines)
    assert found["totals"].to_dicts() == [
        {
            "questions": len({(of, line["number"]) for of, line in lines}),
            "answers": len(lines),
            "answered": said["ok"],
            "declined": said["refused"] + said["no_context"],
            "failed": said["timeout"],
            "conversations": 3 if study else 6,
            "people": 1,
            "nameless": 1 if study else 2,
        }
    ]
    assert dict(found["questions"].select("day", "answered").iter_rows()) == {
        one: sum(day(line) == one and line["status"] == "ok" for _, line in lines)
        for one in {day(line) for _, line in lines}
    }
    waited = [line["seconds"] for _, line in lines if line["seconds"] is not None]
    whole = {row["stage"]: row for row in found["latency"].iter_rows(named=True)}["whole"]
    assert whole["n"] == len(waited) < len(lines)
    assert whole["p50"] == pytest.approx(median(waited))
    assert whole["p95"] == pytest.approx(float(np.quantile(waited, 0.95)))
    cited = Counter(
        document
        for _, line in lines
        for document in {one["doc_id"] for one in line["passages"] if one["cited"]}
    )
    rows = found["documents"].group_by("doc_id").agg(pl.col("cited").sum())
    assert {doc: n for doc, n in rows.iter_rows() if n} == dict(cited)
    tops = [
        (day(line), line["cell"], max(one["score"] for one in line["passages"]))
        for _, line in lines
        if line["passages"]
    ]
    for row in found["scores"].filter(found["scores"]["top_score"].is_not_null()).iter_rows(named=True):
        mine = [score for on, cell, score in tops if (on, cell) == (row["day"], row["cell"])]
        assert row["top_score"] == pytest.approx(median(mine)) if study else mine
    bad = [line for _, line in lines if line["status"] != "ok"]
    assert Counter(found["unanswered"]["why"])["failed"] == said["timeout"]
    assert len(found["unanswered"]) == len(bad) + sum(
        line["record_id"] == "t2" and line["status"] == "ok" for _, line in lines
    )
    assert found["hours"]["questions"].sum() >= found["totals"]["questions"][0]


def test_money_that_is_not_known_is_in_no_sum_and_is_counted(
    home: Home, connection: duckdb.DuckDBPyConnection
) -> None:
    rows = {
        row["model"]: row for row in panel(connection, "models", UsageFilter("town")).iter_rows(named=True)
    }
    lines = [line for _, line in turns(home, "town")]
    large = [line for line in lines if line["model"]]
    paid = [0.0 if line["cached"] else line["usd"] for line in large]
    assert rows["acme/large"]["usd"] == pytest.approx(sum(usd for usd in paid if usd is not None))
    assert rows["acme/large"]["unpriced"] == paid.count(None) > 0
    assert rows["acme/large"]["cached"] == sum(line["cached"] for line in large) > 0
    nobody = panel(connection, "models", UsageFilter("town", cell="no such cell"))
    assert nobody.is_empty()
    only = connection.execute("SELECT sum(usd) FROM usage_models WHERE usd IS NULL").fetchone()
    assert only == (None,)  # and not 0


def test_feedback_is_what_stands_now_with_wilsons_interval(
    home: Home, connection: duckdb.DuckDBPyConnection
) -> None:
    whole = panel(connection, "feedback", UsageFilter("town")).row(0, named=True)
    assert (whole["up"], whole["down"], whole["sentences"]) == (3, 3, 6)
    low, high = whole["low"], whole["high"]
    z, n, p = 1.959963984540054, 6, 0.5
    centre, half = (
        (p + z * z / 2 / n) / (1 + z * z / n),
        z * np.sqrt(p * (1 - p) / n + z * z / 4 / n / n) / (1 + z * z / n),
    )
    assert (low, high) == (pytest.approx(centre - half), pytest.approx(centre + half))
    ends = connection.execute("SELECT wilson_low(0, 5), wilson_high(5, 5), wilson_low(0, 0)").fetchone()
    assert ends == (0.0, 1.0, None)
    words = panel(connection, "sentences", UsageFilter("town"))
    assert Counter(words["thumb"]) == {"down": 3, None: 3}
    assert SCRIPT in set(words["comment"])


def test_a_filter_is_a_value_and_never_sql(connection: duckdb.DuckDBPyConnection) -> None:
    hostile = f"town.{SCRIPT}.e.r.g"
    mine = panel(connection, "totals", UsageFilter(cell=hostile))["answers"][0]
    rest = panel(connection, "totals", UsageFilter(cell="town.plain.e.r.g"))["answers"][0]
    assert min(mine, rest) > 0
    assert mine + rest == panel(connection, "totals", UsageFilter())["answers"][0]
    assert panel(connection, "totals", UsageFilter(study="x' OR 1=1 --"))["answers"][0] == 0
    with pytest.raises(InputError, match=r"unknown time zone .*DROP"):
        panel(connection, "totals", UsageFilter(time_zone="UTC'; DROP TABLE chat_turns; --"))


def test_a_day_is_that_of_the_time_zone(connection: duckdb.DuckDBPyConnection) -> None:
    days = {
        zone: panel(connection, "questions", UsageFilter(time_zone=zone))["day"].min()
        for zone in ("UTC", "Pacific/Auckland")
    }
    assert days == {"UTC": date(2026, 3, 29), "Pacific/Auckland": date(2026, 3, 29)}
    one = UsageFilter(since=date(2026, 3, 29), until=date(2026, 3, 29))
    utc = panel(connection, "totals", one)["answers"][0]
    there = panel(
        connection, "totals", UsageFilter(since=one.since, until=one.until, time_zone="Pacific/Auckland")
    )
    assert there["answers"][0] != utc
    hours = panel(connection, "hours", UsageFilter("town", time_zone="Europe/Berlin"))
    assert (7, 7) in set(
        hours.select("weekday", "hour").iter_rows()
    )  # 05:30 UTC on the Sunday of summer time


def test_demo_data_is_never_counted_with_what_people_did(
    home: Home, connection: duckdb.DuckDBPyConnection
) -> None:
    wanted = usage(connection, UsageFilter(demo=True))
    assert wanted.panels["totals"]["answers"][0] == 1
    assert wanted.choices.demo_questions == 1
    assert wanted.choices.questions == len({(of, line["number"]) for of, line in turns(home)})
    there = Conversations(home)
    there.append("town", "demo-0001", [Begun(record_id="renamed", place="chat", title="Mine")])
    write_conversations(connection, home)
    assert (
        panel(connection, "totals", UsageFilter(demo=True))["answers"][0] == 1
    )  # another title makes nothing real


def test_an_empty_home_has_empty_panels(tmp_path: Path) -> None:
    with connect(Home(tmp_path).database) as opened:
        found = usage(opened, UsageFilter())
    assert found.choices.questions == 0
    assert {name: len(rows) for name, rows in found.panels.items() if len(rows)} == {
        "totals": 1,
        "feedback": 1,
    }
    assert found.panels["feedback"]["share"][0] is None


def test_every_panel_reads_one_view_that_other_tools_can_read(connection: duckdb.DuckDBPyConnection) -> None:
    there = {
        name
        for (name,) in connection.execute(
            "SELECT view_name FROM duckdb_views() WHERE NOT internal"
        ).fetchall()
    }
    for name, one in PANELS.items():
        assert one.view in there, name
        assert f"FROM {one.view}" in one.sql, name


def test_the_examples_of_the_page_of_docs_run(connection: duckdb.DuckDBPyConnection) -> None:
    text = (Path(__file__).parents[2] / "docs/app.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```sql\n(.*?)```", text, re.DOTALL)
    for query in block.split(";\n"):
        connection.execute(query)


def test_a_leader_is_tied_with_what_is_not_within_the_margin(connection: duckdb.DuckDBPyConnection) -> None:
    near = zip("abcd", (True, True, True, False), (None, False, True, False), strict=True)
    cells = [{"cell": f"h.{n}.e.r.g", "tied": tied, "within_margin": within} for n, tied, within in near]
    for number, (tied, standing) in enumerate(((3, cells), (0, [])), 1):  # last: no cell has a rank
        connection.execute(
            'INSERT INTO history (study, entry, "number", since, tied, details) '
            "VALUES (?, ?, ?, now(), ?, ?)",
            ["harbour", str(number), number, tied, json.dumps({"standing": standing})],
        )
    found = panel(connection, "leaders", UsageFilter("harbour"))
    connection.execute("DELETE FROM history WHERE study = 'harbour'")
    assert found.select("number", "tied", "within_the_margin").rows() == [(1, 1, 1), (2, 0, 0)]
