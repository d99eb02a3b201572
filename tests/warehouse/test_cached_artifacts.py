"""A store that looks each artifact up once, until it is refreshed."""

from __future__ import annotations

from pathlib import Path

from rag_assay.warehouse.artifacts import Artifact, ArtifactStore, StillArtifacts
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.study_records import PinnedArtifacts


def test_what_was_found_stays_until_it_is_refreshed(tmp_path: Path) -> None:
    home = Home(tmp_path)
    store, still = ArtifactStore(home), StillArtifacts(home)
    first = store.commit(Artifact("chunks", "c.a", "1", "v1"))
    assert still.current("chunks", "c.a") == first
    assert still.current("chunks", "c.b") is None

    second = store.commit(Artifact("chunks", "c.a", "2", "v2"))
    other = store.commit(Artifact("chunks", "c.b", "3", "v3"))
    assert (still.current("chunks", "c.a"), still.current("chunks", "c.b")) == (first, None)
    still.refresh()
    assert (still.current("chunks", "c.a"), still.current("chunks", "c.b")) == (second, other)


def test_a_key_that_it_points_elsewhere_itself_is_looked_up_again(tmp_path: Path) -> None:
    still = StillArtifacts(Home(tmp_path))
    first = still.commit(Artifact("chunks", "c.a", "1", "v1"))
    assert still.current("chunks", "c.a") == first
    second = still.commit(Artifact("chunks", "c.a", "2", "v2"))
    assert still.current("chunks", "c.a") == second
    still.point("chunks", "c.a", "1")
    assert still.current("chunks", "c.a") == first


def test_what_it_sets_aside_is_there_no_longer(tmp_path: Path) -> None:
    still = StillArtifacts(Home(tmp_path))
    first, other = (still.commit(Artifact("chunks", f"c.{key}", key, "v")) for key in "ab")
    still.point("chunks", "c.same", "a")
    for key in ("c.a", "c.same", "c.b", "c.none"):
        still.current("chunks", key)
    still.set_aside(first)
    assert [still.current("chunks", key) for key in ("c.a", "c.same", "c.b", "c.none")] == [
        None,
        None,
        other,
        None,
    ]


def test_what_a_finished_run_pinned_is_looked_up_once_too(tmp_path: Path) -> None:
    home = Home(tmp_path)
    store, pinned = ArtifactStore(home), PinnedArtifacts(home, {"chunks": {"c.a": "1"}})
    first = store.commit(Artifact("chunks", "c.a", "1", "v1"))
    store.commit(Artifact("chunks", "c.a", "2", "v2"))
    assert pinned.current("chunks", "c.a") == first
    store.set_aside(first)
    assert pinned.current("chunks", "c.a") == first
    pinned.refresh()
    assert pinned.current("chunks", "c.a") is None
