from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from rag_assay.assets.engine.builder import build_key, build_keys, checks_of
from rag_assay.assets.engine.stage import BuildContext, BuildResult, KeyOutcome, PartitionRef, Resource, Stage
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.paths import Home
from tests.fakes.stages import Letters, Words


@pytest.fixture
def work(tmp_path: Path) -> BuildContext:
    return BuildContext(Home(tmp_path))


@pytest.fixture
def letters() -> Letters:
    return Letters({"one": "a", "two": "b", "three": "c"})


def run(stage: Stage, work: BuildContext, *keys: str) -> dict[str, KeyOutcome]:
    return {outcome.key: outcome for outcome in build_keys(stage, keys or stage.keys(), work)}


def text(stage: Stage, key: str, work: BuildContext) -> str:
    artifact = work.store.current(stage.name, key)
    assert artifact is not None
    return (work.store.folder(stage.name, artifact.identity) / "text.txt").read_text()


def fresh(stage: Stage, work: BuildContext) -> set[str]:
    return {key for key in stage.keys() if stage.fresh(key, work.store)}


def test_what_is_built_is_fresh_and_is_not_built_again(letters: Letters, work: BuildContext) -> None:
    assert fresh(letters, work) == set()
    first = run(letters, work)
    assert all(outcome.ok and outcome.computed for outcome in first.values())
    assert fresh(letters, work) == {"one", "two", "three"}
    second = run(letters, work)
    assert all(outcome.ok and not outcome.computed for outcome in second.values())
    assert letters.built == ["one", "three", "two"], "sorted, and once"
    assert second["one"].checks == first["one"].checks, "checks are kept with the result"


def test_a_changed_recipe_makes_its_own_key_stale_and_no_other(letters: Letters, work: BuildContext) -> None:
    run(letters, work)
    letters.texts["two"] = "z"
    assert fresh(letters, work) == {"one", "three"}
    run(letters, work)
    assert letters.built == ["one", "three", "two", "two"]
    assert text(letters, "two", work) == "z"


def test_going_back_to_an_old_recipe_computes_nothing(letters: Letters, work: BuildContext) -> None:
    run(letters, work)
    letters.texts["two"] = "z"
    run(letters, work)
    letters.texts["two"] = "b"
    assert "two" not in fresh(letters, work)
    (outcome,) = run(letters, work, "two").values()
    assert (outcome.ok, outcome.computed) == (True, False)
    assert text(letters, "two", work) == "b"
    assert fresh(letters, work) == {"one", "two", "three"}


def test_a_crawl_that_another_one_followed_is_not_gone_back_to(letters: Letters, work: BuildContext) -> None:
    """What it stored has been changed since: its manifest is that of the later crawl."""

    class Crawled(Letters):
        crawls: ClassVar[bool] = True
        in_place: ClassVar[bool] = True

    source = Crawled({"site": "a"})
    run(source, work)
    assert not run(source, work)["site"].computed, "nothing came between"
    source.texts["site"] = "b"
    run(source, work)
    source.texts["site"] = "a"
    assert run(source, work)["site"].computed
    assert source.built == ["site", "site", "site"]
    assert text(source, "site", work) == "a"


def test_a_raised_code_version_makes_every_key_stale(letters: Letters, work: BuildContext) -> None:
    run(letters, work)

    class Better(Letters):
        code_version = "2"

    assert fresh(Better(letters.texts), work) == set()


def test_upstream_content_decides_and_equal_content_ends_the_chain(
    letters: Letters, work: BuildContext
) -> None:
    words = Words({"ab": ["one", "two"], "c": ["three"]})
    run(letters, work)
    run(words, work)
    assert text(words, "ab", work) == "a-b"
    letters.texts["two"] = "y"
    run(letters, work)
    assert fresh(words, work) == {"c"}
    run(words, work)
    assert text(words, "ab", work) == "a-y"
    letters.recipe["three"] = "another way to the same letter"
    assert "three" not in fresh(letters, work)
    run(letters, work)
    assert letters.built[-1] == "three", "its recipe changed, so it was built"
    assert fresh(words, work) == {"ab", "c"}, "its content did not, so nothing after it is stale"


def test_a_key_that_fails_says_why_and_leaves_the_others(letters: Letters, work: BuildContext) -> None:
    letters.failing = {"one": AssayError("there is no folder /letters"), "two": ZeroDivisionError("by zero")}
    outcomes = run(letters, work)
    assert outcomes["one"].error == "there is no folder /letters"
    assert outcomes["two"].error == "ZeroDivisionError: by zero"
    assert outcomes["one"].artifact is None
    assert outcomes["three"].ok
    assert fresh(letters, work) == {"three"}
    letters.failing = {}
    assert {key for key, outcome in run(letters, work).items() if outcome.computed} == {"one", "two"}


def test_a_key_that_fails_later_keeps_what_it_had_but_is_not_fresh(
    letters: Letters, work: BuildContext
) -> None:
    run(letters, work)
    letters.texts["one"] = "e"
    letters.failing = {"one": AssayError("no")}
    (outcome,) = run(letters, work, "one").values()
    assert not outcome.ok
    assert text(letters, "one", work) == "a"
    assert fresh(letters, work) == {"two", "three"}


def test_an_incomplete_result_is_stored_and_tried_again(letters: Letters, work: BuildContext) -> None:
    letters.incomplete = {"one"}
    (outcome,) = run(letters, work, "one").values()
    assert outcome.error == "1 of 1 rows failed"
    assert outcome.artifact is not None
    assert not outcome.ok
    assert text(letters, "one", work) == "a", "what there is can be looked at"
    assert fresh(letters, work) == set()
    letters.incomplete = set()
    (outcome,) = run(letters, work, "one").values()
    assert outcome.ok
    assert letters.built == ["one", "one"]


def test_the_same_identity_under_another_key_is_not_computed_again(work: BuildContext) -> None:
    letters = Letters({"one": "a", "two": "b"})
    run(letters, work)
    words = Words({"ab": ["one", "two"], "alias": ["one", "two"], "ba": ["two", "one"]})
    outcomes = run(words, work)
    assert words.built == ["ab", "ba"], "the order of what a key needs is part of its identity"
    alias = outcomes["alias"].artifact
    assert alias is not None
    assert (alias.key, outcomes["alias"].computed) == ("alias", False)
    assert text(words, "alias", work) == "a-b"
    assert fresh(words, work) == {"ab", "alias", "ba"}


def test_what_is_missing_upstream_is_named(letters: Letters, work: BuildContext) -> None:
    words = Words({"ab": ["one", "two"]})
    run(letters, work, "one")
    (outcome,) = run(words, work).values()
    assert outcome.error == "words of ab needs letters of two, which is not there yet"
    assert words.built == []


@pytest.mark.parametrize("damage", ["deleted", "torn"])
def test_a_stored_file_that_was_deleted_or_torn_is_made_again(
    letters: Letters, work: BuildContext, damage: str
) -> None:
    run(letters, work)
    artifact = work.store.current("letters", "one")
    assert artifact is not None
    file = work.store.folder("letters", artifact.identity) / "text.txt"
    file.unlink() if damage == "deleted" else file.write_bytes(b"")
    assert fresh(letters, work) == {"two", "three"}
    run(letters, work)
    assert letters.built.count("one") == 2
    assert text(letters, "one", work) == "a"


def test_building_again_on_request(letters: Letters, work: BuildContext) -> None:
    run(letters, work)
    assert build_key(letters, "one", work, again=True).computed
    assert letters.built == ["one", "three", "two", "one"]


def test_checks_survive_storing(letters: Letters, work: BuildContext) -> None:
    (outcome,) = run(letters, work, "two").values()
    assert outcome.artifact is not None
    (check,) = checks_of(outcome.artifact)
    assert (check.name, check.passed, check.description) == ("is_vowel", False, "b is looked at")


def test_progress_counts_the_keys(letters: Letters, tmp_path: Path) -> None:
    heard: list[tuple[str, int, int]] = []
    run(letters, BuildContext(Home(tmp_path), lambda *what: heard.append(what)))
    assert heard == [("letters", n, 3) for n in range(4)]


class Servers(Resource):
    """Servers that a run starts."""

    def __init__(self, work: BuildContext) -> None:
        super().__init__(work)
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


class Watchers(Servers):
    """Uses the servers to its end."""

    def __init__(self, work: BuildContext) -> None:
        super().__init__(work)
        self.servers = work.resource(Servers)

    def close(self) -> None:
        assert not self.servers.closed
        super().close()


def test_a_resource_is_made_once_a_run_and_closed_at_its_end(work: BuildContext) -> None:
    watchers, servers = work.resource(Watchers), work.resource(Servers)
    assert work.resource(Watchers) is watchers
    assert watchers.servers is servers
    assert BuildContext(work.home).resource(Servers) is not servers, "each run has its own"
    work.close()
    assert (watchers.closed, servers.closed) == (1, 1), "the one that was made of another is closed first"
    work.close()
    assert servers.closed == 1
    assert work.resource(Servers) is not servers


def flip(stage: Stage, key: str, work: BuildContext) -> None:
    """Change a byte of a key's file; its size stays."""
    artifact = work.store.current(stage.name, key)
    assert artifact is not None
    file = work.store.folder(stage.name, artifact.identity) / "text.txt"
    file.write_bytes(bytes([file.read_bytes()[0] ^ 1]) + file.read_bytes()[1:])


def test_a_damaged_input_is_set_aside_said_and_built_again(letters: Letters, tmp_path: Path) -> None:
    told: list[str] = []
    words = Words({"ab": ["one", "two"]})
    run(letters, BuildContext(Home(tmp_path)))
    flip(letters, "two", BuildContext(Home(tmp_path)))
    work = BuildContext(Home(tmp_path), lambda label, _done, _of: told.append(label))
    (outcome,) = run(words, work).values()
    assert outcome.damaged == (PartitionRef("letters", "two"),)
    why = "letters of two is damaged (text.txt has other bytes than were written)"
    assert outcome.error == f"words of ab: {why}; it is built again by the next run"
    assert f"{why} and is built again" in told
    assert fresh(letters, work) == {"one", "three"}
    run(letters, work)
    assert letters.built.count("two") == 2
    assert text(letters, "two", work) == "b"
    (outcome,) = run(words, work).values()
    assert outcome.ok
    assert text(words, "ab", work) == "a-b"


def test_an_input_is_read_and_checked_once_a_run(
    letters: Letters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(letters, BuildContext(Home(tmp_path)))
    read: list[str] = []
    real = ArtifactStore.damage
    monkeypatch.setattr(
        ArtifactStore, "damage", lambda store, found: (read.append(found.key), real(store, found))[1]
    )
    run(Words({"ab": ["one", "two"], "ba": ["two", "one"]}), BuildContext(Home(tmp_path)))
    assert sorted(read) == ["one", "two"]


def test_what_changes_while_it_is_read_is_not_stored_under_the_old_name(
    letters: Letters, work: BuildContext
) -> None:
    """Another process gives the key of an input another meaning during the build."""

    class Slow(Words):
        def build(self, key: str, folder: Path, work: BuildContext) -> BuildResult:
            letters.texts["two"] = "z"
            run(letters, work)
            return super().build(key, folder, work)

    run(letters, work)
    (outcome,) = run(Slow({"ab": ["one", "two"]}), work).values()
    changed = "another process changed what it is built from meanwhile"
    assert outcome.error == f"words of ab: {changed}; it is built again by the next run"
    (outcome,) = run(Words({"ab": ["one", "two"]}), work).values()
    assert outcome.ok
    assert text(Words({}), "ab", work) == "a-z"


def test_good_rows_of_an_incomplete_artifact_are_there_when_it_is_built_again(
    letters: Letters, work: BuildContext
) -> None:
    found: list[str] = []

    class Carried(Letters):
        def build(self, key: str, folder: Path, work: BuildContext) -> BuildResult:
            found.extend(path.name for path in folder.iterdir())
            return super().build(key, folder, work)

    stage = Carried({"one": "a"}, incomplete={"one"})
    run(stage, work)
    run(stage, work)
    assert found == ["text.txt"]
    flip(stage, "one", work)
    found.clear()
    run(stage, BuildContext(work.home))
    assert found == [], "damaged ones are not"
