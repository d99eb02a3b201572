"""What a failed check stops: a warning nothing, a severe one that blocks all that is built from its key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import dagster as dg
import polars as pl
import pytest

from rag_assay.assets.chunks import _Tally
from rag_assay.assets.engine.builder import build_key, checks_of
from rag_assay.assets.engine.definition import OPTIONS, RunOptions, as_assets
from rag_assay.assets.engine.row_checks import at_most
from rag_assay.assets.engine.stage import BuildContext, Check
from rag_assay.evals.answers import _checks as checks_of_answers
from rag_assay.evals.judgements import _checks as checks_of_judgements
from rag_assay.evals.questions import _resolvable
from rag_assay.warehouse.paths import Home
from tests.fakes.stages import Letters, Words


class Vowels(Letters):
    """Letters of which only vowels may be used."""

    blocking: ClassVar[frozenset[str]] = frozenset({"is_vowel"})


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BuildContext]:
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path))
    work = BuildContext(Home(tmp_path))
    yield work
    work.close()


def test_nothing_is_built_from_a_key_with_a_failed_blocking_check(work: BuildContext) -> None:
    letters, words = Vowels({"a": "a", "b": "b"}), Words({"good": ["a"], "bad": ["a", "b"]})
    for again in (False, True):  # the second time nothing is computed, and it is blocked as before
        outcomes = {key: build_key(letters, key, work) for key in letters.keys()}
        assert outcomes["a"].ok
        assert outcomes["b"].artifact is not None, "what is wrong stays, to be looked at"
        assert not outcomes["b"].ok
        assert outcomes["b"].error == "the check `is_vowel` fails: b is looked at"
        assert outcomes["b"].computed is not again
        assert build_key(words, "good", work).ok
        refused = build_key(words, "bad", work)
        assert refused.error == "letters of b: the check `is_vowel` fails: b is looked at"
    assert words.built == ["good"], "the build did not even begin"
    letters.texts["b"] = "e"
    assert build_key(letters, "b", work).ok
    assert build_key(words, "bad", work).ok


def test_what_does_not_block_stops_nothing(work: BuildContext) -> None:
    """A check that fails and is not among the stage's blocking ones, or was stored by an earlier version."""
    letters, words = Letters({"b": "b"}), Words({"w": ["b"]})
    outcome = build_key(letters, "b", work)
    assert outcome.ok
    assert [check.passed for check in outcome.checks] == [False]
    assert build_key(words, "w", work).ok
    artifact = work.store.current("letters", "b")
    assert artifact is not None
    for check in artifact.meta["checks"]:
        del check["blocking"]
    assert [check.blocks for check in checks_of(artifact)] == [False]
    assert not Check("one", False, "", severe=False, blocking=True).blocks, "a warning never blocks"


def test_dagster_shows_a_blocked_key_as_failed_and_runs_nothing_from_it(work: BuildContext) -> None:
    letters, words = Vowels({"a": "a", "b": "b"}), Words({"bad": ["b"], "good": ["a"]})
    known = {"letters": letters, "words": words}
    definitions = dg.Definitions(
        assets=[one for stage in known.values() for one in as_assets(stage)],
        resources={OPTIONS: RunOptions()},
    )
    assert definitions.resolve_asset_graph().get_check_spec(_key()).blocking
    with dg.DagsterInstance.ephemeral() as instance:
        results = {
            stage: definitions.resolve_implicit_global_asset_job_def().execute_in_process(
                instance=instance,
                asset_selection=[dg.AssetKey(stage)],
                raise_on_error=False,
                run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
                tags={
                    "dagster/asset_partition_range_start": first,
                    "dagster/asset_partition_range_end": last,
                },
            )
            for stage, first, last in (("letters", "a", "b"), ("words", "bad", "good"))
        }
        assert not any(result.success for result in results.values())
        logged = {stage: instance.get_materialized_partitions(dg.AssetKey(stage)) for stage in known}
        checked = dg.DagsterEventType.ASSET_CHECK_EVALUATION
        logs = instance.all_logs(results["letters"].run_id, of_type=checked)
        found = [one.get_dagster_event().asset_check_evaluation_data for one in logs]
    assert logged == {"letters": {"a"}, "words": {"good"}}, "a backfill goes on from these alone"
    assert {one.partition: one.passed for one in found} == {"a": True, "b": False}
    assert {one.severity for one in found} == {dg.AssetCheckSeverity.ERROR}
    failures = [
        str(event.step_failure_data) for event in results["words"].all_events if event.is_step_failure
    ]
    assert "letters of b: the check `is_vowel` fails" in failures[0]


def _key() -> dg.AssetCheckKey:
    return dg.AssetCheckKey(dg.AssetKey("letters"), "is_vowel")


@pytest.mark.parametrize(
    ("faults", "of", "share", "passed"),
    [(0, 0, 0.0, True), (0, 1, 0.0, True), (1, 1, 0.0, False), (1, 10, 0.1, True), (2, 10, 0.1, False)],
)
def test_a_threshold_holds_up_to_its_share_and_no_further(
    faults: int, of: int, share: float, passed: bool
) -> None:
    check = at_most("few", share, ["x" * 5_000] * faults, of, "rows are bad")
    assert check.passed is passed
    assert check.metadata["count"] == faults
    assert all(len(one) <= 200 for one in check.metadata["first"])
    assert len(check.description) < 300


@pytest.mark.parametrize(
    ("unread", "read", "passed", "is_error"),
    [
        (0, 0, True, False),
        (1, 0, False, False),
        (4, 0, False, False),
        (5, 0, False, True),
        (5, 1, False, False),
        (1, 9, True, False),
        (2, 9, False, False),
    ],
)
def test_only_a_judge_that_never_can_be_read_is_an_error(
    unread: int, read: int, passed: bool, is_error: bool
) -> None:
    rows = [
        {"question_id": f"q{n}", "metric": "m", "status": status, "reason": "no number <b>", "value": None}
        for n, status in enumerate(["parse_failed"] * unread + ["ok"] * read)
    ]
    check = checks_of_judgements(rows)[0]
    assert (check.passed, check.severe and not check.passed) == (passed, is_error)
    failed = [{**row, "status": "error"} for row in rows]
    assert all(not one.severe for one in checks_of_judgements(failed)), "a server that fails is no bad judge"


@pytest.mark.parametrize(
    ("found", "lost", "passed"), [(0, 0, True), (1, 0, True), (1, 99, True), (0, 1, False), (0, 99, False)]
)
def test_gold_that_no_document_holds_blocks_and_a_part_of_it_does_not(
    found: int, lost: int, passed: bool
) -> None:
    items = [{"reason": None, "url": "u"}] * found + [{"reason": "no such document", "url": "gone"}] * lost
    check = _resolvable([{"question_id": "q", "evidence": items}, {"question_id": "none", "evidence": []}])
    assert (check.passed, check.severe) == (passed, True)
    assert ("gone" in check.description) is not passed


@pytest.mark.parametrize(
    ("statuses", "failing"),
    [
        ([], set()),
        (["ok"], set()),
        (["error"], {"answered"}),
        (["no_context", "refused"], set()),
        (["over_budget"], {"answered", "within_budget"}),
        (["truncated"], {"answered", "whole"}),
        (["ok"] * 98 + ["error"] * 2, set()),
        (["ok"] * 97 + ["error"] * 3, {"answered"}),
    ],
)
def test_checks_of_answers_count_what_is_missing(statuses: list[str], failing: set[str]) -> None:
    rows = [
        {"question_id": str(n), "status": one, "reason": "why", "cuts": []} for n, one in enumerate(statuses)
    ]
    found = checks_of_answers(rows, {})
    assert {check.name for check in found if not check.passed} == failing
    assert all(not check.severe for check in found), "what can be counted as missing is told by coverage"


def test_a_chunk_that_is_not_where_its_offsets_say_blocks() -> None:
    documents = pl.DataFrame({"doc_id": ["d", "e"], "url": ["u", "v"], "text": ["abcdef", "none of it"]})
    row = {"chunk_id": "c", "doc_version": "1", "prefix": "", "context_start": 0, "context_end": 3}
    good = {**row, "doc_id": "d", "start": 0, "end": 3, "text": "abc", "n_tokens": 1}
    for text, passed in (("abc", True), ("abd", False)):
        tally = _Tally(documents)
        list(tally.counted([pl.DataFrame([{**good, "text": text}])], lambda _done, _of: None))
        offsets, covered = tally.checks()
        assert (offsets.name, offsets.passed, offsets.severe) == ("exact_offsets", passed, True)
        assert (covered.passed, covered.severe, covered.metadata["first"]) == (False, False, ["v"])
