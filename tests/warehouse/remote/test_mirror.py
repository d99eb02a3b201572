"""Pages, caches and journals of a home at a URL, as several machines write and read them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from rag_assay.evals.study.run_studies import note, recorded_studies
from rag_assay.evals.study.study_file import read_study
from rag_assay.warehouse.call_cache import CallCache
from rag_assay.warehouse.conversations import Begun, Conversations
from rag_assay.warehouse.history import add_record, history_records
from rag_assay.warehouse.identity import sha256_bytes, sha256_text
from rag_assay.warehouse.packs import PackWriter
from rag_assay.warehouse.pages import (
    bring_bodies,
    bring_pages,
    read_body,
    read_crawls,
    read_manifest,
    share_pages,
    write_body,
    write_manifest,
)
from rag_assay.warehouse.paths import Home, home
from rag_assay.warehouse.remote import mirror_of
from rag_assay.warehouse.remote.mirror import Mirror
from rag_assay.warehouse.schemas import PAGES
from rag_assay.warehouse.vectors import VectorCache
from tests.fakes.object_storage import Server
from tests.fakes.tiny import write_study

Machine = Callable[[str], Home]


@pytest.fixture
def machine(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Give the home at a URL as a machine of some name has it; it is this one until the next call."""
    monkeypatch.setenv("ASSAY_REMOTE", "")
    monkeypatch.setenv("ASSAY_HOME", f"{server.bucket()}/home")

    def of(name: str) -> Home:
        monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path / name))
        return home()

    return of


def mirror(home: Home) -> Mirror:
    found = mirror_of(home)
    assert found
    return found


def record(entry: str) -> dict[str, str]:
    return {"study": "s", "entry": entry, "since": "2026-01-01T00:00:00+00:00", "leaderboard": "l"}


def manifest(*sha256: str) -> pl.DataFrame:
    rows = [{"url": f"https://a/{n}", "sha256": one, "fields": "{}"} for n, one in enumerate(sha256)]
    return pl.DataFrame([{name: row.get(name) for name in PAGES} for row in rows], schema=PAGES)


def test_what_one_machine_has_crawled_another_reads(machine: Machine) -> None:
    one = machine("one")
    large, small = write_body(one, b"large"), b"small"
    pack = PackWriter(one.packs / "first.pack")
    sha256 = sha256_bytes(small)
    pack.add(sha256, small)
    pack.close()
    write_manifest(one, "site", manifest(large, sha256), "origin")
    share_pages(one, "site")
    two = machine("two")
    assert len(read_manifest(two, "site")) == 0
    bring_pages(two, "site")
    assert read_manifest(two, "site").equals(read_manifest(one, "site"))
    assert read_body(two, large) == b"large", "one by one"
    three = machine("three")
    bring_pages(three, "site")
    bring_bodies(three, read_manifest(three, "site"))
    assert three.body(large).exists()
    assert read_body(three, sha256) == small
    write_manifest(three, "site", manifest(large), "origin")
    share_pages(three, "site")
    two = machine("two")
    bring_pages(two, "site")
    assert len(read_manifest(two, "site")) == 1, "the crawl of another machine replaces it"
    assert len(read_crawls(two, "site")) == 0


def test_a_call_is_paid_once(machine: Machine) -> None:
    one = CallCache(machine("one"))
    assert one.get("abc") is None
    one.put("abc", {"reply": "first"})
    two = CallCache(machine("two"))
    assert two.get("abc") == {"reply": "first", "call_id": "abc"}
    two.put("abd", {"reply": "second"})
    three = CallCache(machine("three"))
    assert [row["call_id"] for row in three.rows()] == ["abc", "abd"]


def test_a_text_is_embedded_once(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = np.eye(3, dtype=np.float32)
    a, b, c = (sha256_text(text) for text in "abc")
    one = VectorCache(machine("one"), "model")
    with one.claim([a, b]) as mine:
        assert mine.all()
        one.put([a, b], vectors[:2])
    two = VectorCache(machine("two"), "model")
    with two.claim([c]):
        assert two.has([a, b, c]).tolist() == [True, True, False]
        two.put([c], vectors[2:])
        monkeypatch.setattr("rag_assay.warehouse.vectors.MANY", 2)
        assert two.compact() == 2
    machine("one")
    with one.claim([c, a]):
        assert np.array_equal(one.take([c, a]).vectors, vectors[[2, 0]])
    three = machine("three")
    with VectorCache(three, "model").claim([a]):
        assert len(list(three.cache("vectors").glob("*/*.vectors"))) == 1, (
            "what was joined is not there twice"
        )


def test_two_machines_that_write_one_journal_lose_nothing(machine: Machine) -> None:
    homes = [machine("one"), machine("two")]
    mirrors = [mirror(machine("one")), mirror(machine("two"))]
    machine("local")

    def write(at: int) -> None:
        path = homes[at].history("s")
        for number in range(15):
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a") as file:
                file.write(f'{{"entry": "{at}-{number}", "study": "s", "since": "x", "leaderboard": "l"}}\n')
            mirrors[at].merge(path)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, range(2)))
    for at in range(2):
        mirrors[at].merge(homes[at].history("s"))
    found = [{one["entry"] for one in history_records(home, "s")} for home in homes]
    assert found[0] == found[1] == {f"{at}-{number}" for at in range(2) for number in range(15)}


def test_records_of_all_machines_are_brought(machine: Machine) -> None:
    one = machine("one")
    assert add_record(one, record("first"))
    (one.people / "s").mkdir(parents=True)
    (one.people / "s" / "queue.json").write_text("{}")
    mirror(one).bring_journals()
    two = machine("two")
    mirror(two).bring_journals()
    assert add_record(two, record("second"))
    assert not add_record(two, record("first"))
    assert (two.people / "s" / "queue.json").exists()
    one = machine("one")
    mirror(one).bring_journals()
    assert [found["entry"] for found in history_records(one, "s")] == ["first", "second"]


def test_a_conversation_that_was_deleted_stays_so(machine: Machine) -> None:
    one = Conversations(machine("one"))
    begun = Begun(record_id="b", at=datetime(2026, 1, 1, tzinfo=UTC))
    name = one.begin("s", begun)
    two_home = machine("two")
    mirror(two_home).bring_journals()
    two = Conversations(two_home)
    assert two.read("s", name)
    machine("one")
    assert one.delete("s", name)
    mirror(machine("two")).bring_journals()
    assert two.read("s", name) is None
    mirror(machine("one")).bring_journals()
    assert one.read("s", name) is None


def test_a_worker_learns_which_studies_were_run_at_another_machine(machine: Machine, tmp_path: Path) -> None:
    studies = [read_study(write_study(tmp_path / name, name=name)) for name in ("first", "second")]
    note(studies[0], machine("desk"))
    worker = machine("worker")
    assert recorded_studies(worker) == [studies[0].path]
    note(studies[1], machine("desk"))
    assert set(recorded_studies(machine("worker"))) == {one.path for one in studies}
