"""Human ratings are kept: appended once, by many at once, through kills, and whatever a file holds."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from rag_assay.warehouse import journal
from rag_assay.warehouse.errors import AssayError, InputError, LockedError
from rag_assay.warehouse.human_scores import HumanScores, annotator_name, current_scores
from rag_assay.warehouse.parquet import frame
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import HUMAN_SCORES
from tests.fakes.forking import PROGRAM
from tests.fakes.human_scores import score
from tests.fakes.processes import PYTHONPATH


@pytest.fixture
def scores(tmp_path: Path) -> HumanScores:
    return HumanScores(Home(tmp_path))


def ids(scores: HumanScores, study: str = "tiny") -> list[str]:
    return [row["score_id"] for row in scores.read(study).rows]


def forget() -> None:
    """Be another process: know nothing of what the files hold."""
    journal._known.clear()


def test_what_is_appended_is_read_with_the_columns_of_the_schema(scores: HumanScores) -> None:
    assert scores.append([score(1, comment="Größe – 5 €\n\0", seconds=2), score(2, annotator="Bob")]) == 2
    rows = frame(list(scores.rows("tiny")), HUMAN_SCORES)
    assert list(rows.columns) == list(HUMAN_SCORES)
    assert rows["comment"].to_list() == ["Größe – 5 €\n\0", None]
    assert rows["scored_at"][0] == datetime(2026, 11, 23, 9, 0, 1, tzinfo=UTC)
    assert list(scores.rows()) == list(scores.rows("tiny"))
    assert scores.studies() == ["tiny"]
    assert scores.scores("tiny")[1] == score(2, annotator="Bob")
    assert len(list(scores.folder("tiny").iterdir())) == 2


def test_a_row_is_added_once_in_whatever_process(scores: HumanScores) -> None:
    assert scores.append([score(1), score(1), score(2)]) == 2
    assert scores.append([score(1, value=0.0), score(3)]) == 1
    forget()
    assert scores.append([score(2), score(3), score(4)]) == 1
    assert scores.append([]) == 0
    assert ids(scores) == ["id-1", "id-2", "id-3", "id-4"]
    assert scores.read("tiny").rows[0]["value"] == 5.0


def test_the_same_id_of_two_annotators_is_two_rows(scores: HumanScores) -> None:
    assert scores.append([score(1), score(1, annotator="Bob")]) == 2
    assert len(ids(scores)) == 2


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("cut", range(1, 40, 3))
def test_a_torn_line_costs_itself_alone(scores: HumanScores, cut: int, known: bool) -> None:
    scores.append([score(1), score(2, comment="}"), score(3, comment="so }")])
    path = scores.path("tiny", "Anna")
    path.write_bytes(path.read_bytes()[:-cut])
    before = scores.read("tiny")
    assert not before.faults, "the last line may be one that is being written"
    if not known:
        forget()
    whole = cut == 1  # its end alone is lacking
    assert ids(scores) == ["id-1", "id-2", *(["id-3"] if whole else [])]
    assert scores.append([score(3), score(4)]) == (1 if whole else 2)
    assert ids(scores) == ["id-1", "id-2", "id-3", "id-4"]
    faults = scores.read("tiny").faults
    assert [one.place for one in faults] == ([] if whole else [f"{path}:3"])
    assert all("JSON" in one.reason for one in faults)


STRANGE: dict[str, str] = {
    "not JSON": "I gave it five",
    "a list": "[1, 2]",
    "a number": "12",
    "nested": "[" * 100_000,
    "empty object": "{}",
    "no value": '{"value": null}',
    "text for a value": '{"value": "5"}',
    "truth for a value": '{"value": true}',
    "NaN": '{"value": NaN}',
    "infinity": '{"value": 1e999}',
    "huge": '{"value": 1%s}' % ("0" * 4000),
    "larger than any": '{"value": 1%s}' % ("0" * 6000),
    "a status of its own": '{"status": "fine"}',
    "withdrawn with a value": '{"status": "withdrawn"}',
    "no annotator": '{"annotator": ""}',
    "a number for a name": '{"annotator": 7}',
    "no time": '{"scored_at": "yesterday"}',
    "a time that is none": '{"scored_at": "0001-01-01T00:00:00+23:59"}',
    "half a showing": '{"showing": 1.5}',
    "showing 0": '{"showing": 0}',
    "a huge position": '{"position": 1%s}' % ("0" * 30),
    "an object for a comment": '{"comment": {"a": 1}}',
}


@pytest.mark.parametrize("line", STRANGE.values(), ids=STRANGE.keys())
def test_a_strange_line_is_told_and_the_others_are_read(scores: HumanScores, line: str) -> None:
    scores.append([score(1)])
    path = scores.path("tiny", "Anna")
    good = json.loads(path.read_text())
    if line.startswith("{"):
        changed = line.removeprefix("{").removesuffix("}")
        rest = {name: value for name, value in good.items() if f'"{name}"' not in changed}
        rest = {"score_id": "strange", **{n: v for n, v in rest.items() if n != "score_id"}}
        if changed:
            line = json.dumps(rest).removesuffix("}") + ", " + changed + "}"
    with path.open("a") as file:
        file.write(line + "\n\n  \n")
    forget()
    scores.append([score(2)])
    found = scores.read("tiny")
    assert [row["score_id"] for row in found.rows] == ["id-1", "id-2"]
    (fault,) = found.faults
    assert fault.place == f"{path}:2"
    assert 0 < len(fault.reason) < 200
    frame(found.rows, HUMAN_SCORES)
    assert scores.append([score(0, score_id="strange")]) == 1, "what is no score takes no id"


def test_lines_of_earlier_and_later_versions_are_read(scores: HumanScores) -> None:
    scores.append([score(1)])
    path = scores.path("tiny", "Anna")
    one = json.loads(path.read_text())
    fewer = {name: one[name] for name in ("annotator", "item_id", "rubric", "rubric_version", "value")}
    fewer |= {"score_id": "fewer", "scored_at": "2026-11-23T10:00:00"}
    more = {**one, "score_id": "more", "mood": "fine", "comment": "\ud800"}
    with path.open("a") as file:
        file.write(json.dumps(fewer, separators=(",", ":")) + "\r\n" + json.dumps(more) + "\n")
    found = scores.read("tiny")
    assert not found.faults
    assert [row["score_id"] for row in found.rows] == ["id-1", "fewer", "more"]
    assert [row["status"] for row in found.rows] == ["ok"] * 3
    assert found.rows[1]["scored_at"] == datetime(2026, 11, 23, 10, tzinfo=UTC)
    assert found.rows[2]["comment"] == "?"
    frame(found.rows, HUMAN_SCORES)
    assert scores.append([score(0, score_id="fewer")]) == 0


def test_copies_and_other_files_in_the_folder_do_no_harm(scores: HumanScores) -> None:
    scores.append([score(1), score(2)])
    path = scores.path("tiny", "Anna")
    (path.parent / "a copy.jsonl").write_bytes(path.read_bytes())
    (path.parent / "a picture.jsonl").write_bytes(bytes(range(256)) * 10)
    (path.parent / "a folder.jsonl").mkdir()
    (path.parent / "~lock.tmp").write_text("x")
    os.mkfifo(path.parent / "a pipe.jsonl")
    assert ids(scores) == ["id-1", "id-2"]
    changed = path.read_text().replace('"value": 5.0', '"value": 0.0')
    (path.parent / "z.jsonl").write_text(changed)
    found = scores.read("tiny")
    assert [row["value"] for row in found.rows] == [5.0, 5.0]
    assert [one.reason for one in found.faults][-2:] == [
        "an earlier line has its `score_id`, and says otherwise"
    ] * 2


def test_a_renamed_study_takes_its_scores_along(scores: HumanScores) -> None:
    scores.append([score(1)])
    version = scores.version("tiny")
    (scores.root / "tiny").rename(scores.root / "other")
    assert scores.studies() == ["other"]
    assert [row["study"] for row in scores.rows()] == ["other"]
    assert scores.version("other") == version
    assert ids(scores) == []


def test_the_version_hangs_on_what_was_said(scores: HumanScores) -> None:
    nothing = scores.version("tiny")
    scores.append([score(1)])
    first = scores.version("tiny")
    path = scores.path("tiny", "Anna")
    os.utime(path, (1, 1))
    assert scores.version("tiny") == first
    path.rename(path.with_name("renamed.jsonl"))
    assert scores.version("tiny") == first
    path.with_name("renamed.jsonl").rename(path)
    scores.append([score(2)])
    assert len({nothing, first, scores.version("tiny")}) == 3
    data = path.read_bytes()
    path.write_bytes(data.replace(b"5.0", b"3.0"))  # as long as before
    assert scores.version("tiny") not in {nothing, first}


def test_a_snapshot_holds_what_was_there(scores: HumanScores) -> None:
    scores.append([score(1), score(1, annotator="Bob")])
    before = scores.snapshot("tiny")
    scores.append([score(2), score(1, annotator="Eve")])
    assert {row["annotator"] for row in scores.read("tiny", before).rows} == {"Anna", "Bob"}
    assert len(scores.read("tiny", before).rows) == 2
    assert len(scores.read("tiny").rows) == 4
    assert scores.version("tiny") != before.digest


# Names -----------------------------------------------------------------------------------------------------

HOSTILE = [
    "../../etc/passwd",
    "..",
    "/",
    "a/b\\c",
    "CON",
    "~",
    "*",
    "[a]",
    "-rf",
    ".",
    "💥",
    "名前",
    "a" * 80,
]


@pytest.mark.parametrize("name", HOSTILE)
def test_any_name_has_a_file_in_the_folder(scores: HumanScores, name: str) -> None:
    scores.append([score(1, annotator=name)])
    (path,) = scores.folder("tiny").iterdir()
    assert path == scores.path("tiny", name)
    assert path.name.isascii()
    assert len(path.name) < 100
    assert [row["annotator"] for row in scores.rows("tiny")] == [name]


@pytest.mark.parametrize(
    "name", ["", " ", "\n\t", "a\0b", "a\u202eb", "a\u200bb", "\ud800", "x" * 81, "y" * 1_000_000]
)
def test_names_that_nobody_can_tell_apart_are_refused(scores: HumanScores, name: str) -> None:
    with pytest.raises(InputError) as caught:
        scores.append([score(1), score(2, annotator=name)])
    assert len(str(caught.value)) < 200
    assert not list(scores.rows()), "nothing of it is half there"


def test_twins_of_a_name_are_one_annotator_and_cases_are_two(scores: HumanScores) -> None:
    one, other = annotator_name("Zoe\u0308"), annotator_name(" Zoë\xa0")
    assert one == other == "Zoë"
    with pytest.raises(InputError, match="annotator_name"):
        scores.append([score(1, annotator="Zoe\u0308")])
    assert len({scores.path("tiny", name) for name in ("anna", "Anna", "ANNA", "an-na", "an na")}) == 5
    assert len({scores.path("tiny", name) for name in ("Анна", "Aнна")}) == 2


@pytest.mark.parametrize("study", ["..", "../x", "", "a/b", "*", "Tiny", "a" * 100, "\0"])
def test_a_study_has_the_name_of_one(scores: HumanScores, study: str) -> None:
    for use in (
        lambda: scores.append([score(1, study=study)]),
        lambda: scores.version(study),
        lambda: scores.read(study),
    ):
        with pytest.raises(InputError, match="no study can be called"):
            use()


@pytest.mark.parametrize(
    "changes",
    [
        {"value": float("nan")},
        {"value": float("inf")},
        {"value": None},
        {"value": 3.0, "status": "withdrawn"},
        {"value": 3.0, "status": "skipped"},
        {"showing": 0},
        {"score_id": ""},
        {"comment": "x" * 100_001},
    ],
)
def test_what_is_no_score_is_refused_as_a_whole(scores: HumanScores, changes: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="is not valid"):
        scores.append([score(1), score(2, **changes)])
    assert not scores.studies()


def test_a_time_is_kept_in_utc(scores: HumanScores) -> None:
    cet = timezone(timedelta(hours=1))
    scores.append([score(1, scored_at=datetime(2026, 1, 1, 0, 30, tzinfo=cet))])
    (row,) = scores.rows("tiny")
    assert row["scored_at"] == datetime(2025, 12, 31, 23, 30, tzinfo=UTC)
    assert row["scored_at"].utcoffset() == timedelta(0)


# What they come to -----------------------------------------------------------------------------------------


def test_the_last_row_counts_and_a_withdrawal_takes_it_back(scores: HumanScores) -> None:
    scores.append(
        [
            score(1, value=5.0),
            score(2, value=3.0),
            score(3, item_id="item-2"),
            score(4, item_id="item-2", value=None, status="withdrawn"),
            score(5, item_id="item-3"),
            score(6, item_id="item-3", value=None, status="withdrawn"),
            score(7, item_id="item-3", value=0.0),
            score(8, item_id="item-4", value=None, status="skipped"),
            score(9, showing=2, value=0.0),
            score(10, rubric_version="v2", value=4.0),
            score(11, criterion="brevity", value=1.0),
            score(12, cell="c", question_id="q", value=2.0),
            score(13, annotator="Bob", value=0.0),
            score(-5, annotator="Bob", value=3.0),  # by a clock that was put back: it came later
        ]
    )
    found = {row["score_id"]: row["value"] for row in current_scores(scores.rows("tiny"))}
    values = {2: 3.0, 7: 0.0, 8: None, 9: 0.0, 10: 4.0, 11: 1.0, 12: 2.0, -5: 3.0}
    assert found == {f"id-{number}": value for number, value in values.items()}


# Many, and many at once ------------------------------------------------------------------------------------

APPENDING = """
import sys
from pathlib import Path
from tests.fakes.human_scores import score
from rag_assay.warehouse.human_scores import HumanScores
from rag_assay.warehouse.paths import Home

home, annotator, name, count = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
scores = HumanScores(Home(home))
print("ready", flush=True)
sys.stdin.readline()
for number in range(count):
    scores.append([score(number, score_id=f"{name}-{number}", annotator=annotator, comment="so } " * 20)])
    print(number, flush=True)
"""


def appending(home: Path, annotator: str, name: str, count: int) -> subprocess.Popen[str]:
    running = subprocess.Popen(
        [sys.executable, "-m", PROGRAM, APPENDING, str(home), annotator, name, str(count)],
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "ready\n"
    return running


def begin(*processes: subprocess.Popen[str]) -> None:
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()


@pytest.mark.parametrize("annotators", [("Anna", "Anna"), ("Anna", "Bob")], ids=["one", "two"])
def test_two_processes_at_once_lose_nothing_and_double_nothing(
    scores: HumanScores, tmp_path: Path, annotators: tuple[str, str]
) -> None:
    processes = [appending(tmp_path, who, f"p{at}", 200) for at, who in enumerate(annotators)]
    begin(*processes)
    for process in processes:
        process.communicate(timeout=120)
        assert process.returncode == 0
    found = scores.read("tiny")
    assert not found.faults
    assert Counter(row["score_id"] for row in found.rows) == Counter(
        f"p{at}-{number}" for at in (0, 1) for number in range(200)
    )


def test_what_was_acknowledged_survives_any_kill(scores: HumanScores, tmp_path: Path) -> None:
    """Killed again and again in mid-write, with another writer beside it."""
    said: set[str] = set()
    for trial in range(4):
        killed = appending(tmp_path, "Anna", f"k{trial}", 10_000)
        other = appending(tmp_path, "Anna", f"o{trial}", 30)
        begin(killed, other)
        time.sleep(0.15 + 0.1 * trial)
        os.kill(killed.pid, signal.SIGKILL)
        said |= {f"k{trial}-{line}" for line in killed.communicate()[0].split()}
        said |= {f"o{trial}-{line}" for line in other.communicate(timeout=120)[0].split()}
    there = Counter(ids(scores))
    assert said <= there.keys()
    assert set(there.values()) == {1}
    assert len(there) - len(said) <= 4, "at most one of each kill was written, and not told"


def test_thousands_of_rows_are_added_once_and_one_more_reads_none_of_them(
    scores: HumanScores, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = [score(number, comment="as the ground truth says") for number in range(5_000)]
    assert scores.append(many) == 5_000
    read: list[str] = []
    whole = Path.read_bytes

    def noted(path: Path) -> bytes:
        read.append(path.name)
        return whole(path)

    monkeypatch.setattr(Path, "read_bytes", noted)
    for number in range(20):
        scores.append([score(5_000 + number)])
    assert scores.append(many) == 0
    assert read == [], "what this process wrote itself it knows"
    forget()
    assert scores.append([score(5), score(5_020)]) == 1
    assert len(read) == 1
    assert len(ids(scores)) == 5_021


def test_threads_of_one_process_take_turns(scores: HumanScores) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: scores.append([score(number % 50)]), range(200)))
    assert sorted(ids(scores)) == sorted(f"id-{number}" for number in range(50))


def test_a_file_that_an_editor_has_replaced_is_read_again(scores: HumanScores) -> None:
    scores.append([score(1), score(2)])
    path = scores.path("tiny", "Anna")
    path.with_suffix(".new").write_text(path.read_text().splitlines()[0] + "\n")
    path.with_suffix(".new").replace(path)
    assert scores.append([score(1), score(2)]) == 1
    assert ids(scores) == ["id-1", "id-2"]


def test_where_there_are_no_locks_rows_are_added_all_the_same(
    scores: HumanScores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "try_lock", lambda _handle: None)
    assert scores.append([score(1)]) == 1
    assert scores.append([score(1), score(2)]) == 1
    assert ids(scores) == ["id-1", "id-2"]


def test_who_holds_a_file_for_ever_is_not_waited_for(
    scores: HumanScores, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    monkeypatch.setattr(journal, "WAIT", 0.05)
    scores.append([score(1)])
    with scores.path("tiny", "Anna").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(LockedError, match="end that one"):
            scores.append([score(2)])
        assert scores.append([score(1, annotator="Bob")]) == 1, "others go on"
        assert len(ids(scores)) == 2, "and reading waits for nobody"
    assert scores.append([score(2)]) == 1


def test_a_full_disk_leaves_nothing_half_written(
    scores: HumanScores, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores.append([score(1)])
    path = scores.path("tiny", "Anna")
    before = path.read_bytes()
    write = os.write

    def full(handle: int, data: Any) -> int:
        if len(data) > 100:
            return write(handle, data[:100])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(AssayError, match=r"No space left.*nothing was added"):
        scores.append([score(2), score(3)])
    monkeypatch.setattr(os, "write", write)
    assert path.read_bytes() == before
    assert scores.append([score(2), score(3)]) == 2


def test_a_home_that_cannot_be_written_is_said(scores: HumanScores) -> None:
    scores.root.parent.mkdir(exist_ok=True)
    scores.root.write_text("a file where the folder should be")
    with pytest.raises(AssayError, match="cannot be written"):
        scores.append([score(1)])
