"""Runs that Dagster launches for a study: ranges of partitions, on whatever machines it has."""

from __future__ import annotations

import json
import secrets
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import dagster as dg
import httpx

from rag_assay.assets.engine.builder import checks_of
from rag_assay.assets.engine.definition import REASONS, RunOptions, bring_up, collect
from rag_assay.assets.engine.stage import BuildContext, KeyOutcome, PartitionRef, Stage, blocked_by
from rag_assay.assets.engine.submission import (
    SUBMITTED_TAG,
    Submission,
    current_code,
    recipes_of,
    spent_of,
)
from rag_assay.orchestration.child_module import start_module
from rag_assay.orchestration.loopback import free_loopback_port
from rag_assay.orchestration.runs.run import Spread
from rag_assay.orchestration.runs.run_monitor import Ended, Patience, RunMonitor
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.inference.budget import Amount, sum_of
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.processes import end_process

REPOSITORY = "__repository__"  # what Dagster calls the definitions of a code location
ASSET_JOB = "__ASSET_JOB"
_PATIENCE = 180.0  # seconds until a server that does not answer is given up
_GRACE = 5.0  # seconds to end in

_LOADED = (
    "{ workspaceOrError { ... on Workspace { locationEntries { locationOrLoadError { __typename "
    "... on PythonError { message } } } } } }"
)
_PARTITIONS = "query ($keys: [AssetKeyInput!]) { assetNodes(assetKeys: $keys) { partitionKeys } }"
_LAUNCH = (
    "mutation ($params: ExecutionParams!) { launchRun(executionParams: $params) { __typename "
    "... on LaunchRunSuccess { run { runId } } ... on Error { message } "
    "... on RunConfigValidationInvalid { errors { message } } } }"
)


class GraphQLServer:
    """A web server of Dagster on loopback, under a path that only this process knows."""

    def __init__(self, module: str, attribute: str) -> None:
        self._module = module
        self._folder = tempfile.TemporaryDirectory(prefix="assay-graphql-")
        workspace = Path(self._folder.name) / "workspace.yaml"
        where = {"module_name": module, "attribute": attribute, "location_name": module}
        workspace.write_text(json.dumps({"load_from": [{"python_module": where}]}))
        port, prefix = free_loopback_port(), f"/{secrets.token_urlsafe(24)}"
        quiet = [
            option
            for name in ("", "dagster-", "code-server-")
            for option in (f"--{name}log-level", "critical")
        ]
        options = ["-w", str(workspace), "-h", "127.0.0.1", "-p", str(port), "-l", prefix, *quiet]
        self._process = start_module("dagster_webserver", *options)
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{port}{prefix}", timeout=60, trust_env=False)
        try:
            self._wait_until_loaded()
        except BaseException:
            self.close()
            raise

    def partition_keys(self, asset: Sequence[str]) -> list[str]:
        nodes = self._ask(_PARTITIONS, {"keys": [{"path": list(asset)}]})["assetNodes"]
        return [str(key) for node in nodes for key in node["partitionKeys"]]

    def launch(self, asset: Sequence[str], tags: Mapping[str, str]) -> str:
        selector = {
            "repositoryLocationName": self._module,
            "repositoryName": REPOSITORY,
            "jobName": ASSET_JOB,
            "assetSelection": [{"path": list(asset)}],
        }
        named = [{"key": name, "value": value} for name, value in tags.items()]
        params = {"selector": selector, "runConfigData": {}, "executionMetadata": {"tags": named}}
        found = self._ask(_LAUNCH, {"params": params})["launchRun"]
        if "run" not in found:
            errors = [one["message"] for one in found.get("errors", [])]
            raise AssayError(f"Dagster refused a run: {found.get('message') or '; '.join(errors)}")
        return str(found["run"]["runId"])

    def close(self) -> None:
        self._client.close()
        end_process(self._process, _GRACE)
        self._folder.cleanup()

    def _wait_until_loaded(self) -> None:
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            if (code := self._process.poll()) is not None:
                raise AssayError(f"dagster-webserver ended with exit code {code}")
            with suppress(httpx.TransportError):
                (entry,) = self._ask(_LOADED, {})["workspaceOrError"]["locationEntries"]
                if message := entry["locationOrLoadError"].get("message"):
                    raise AssayError(f"{self._module} cannot be loaded: {message.strip()}")
                return
            time.sleep(0.1)
        raise AssayError(f"dagster-webserver did not answer within {_PATIENCE:.0f} s")

    def _ask(self, query: str, variables: Mapping[str, Any]) -> Any:
        answer = self._client.post("/graphql", json={"query": query, "variables": variables})
        found = answer.json()
        if found.get("errors"):
            raise AssayError(f"Dagster refused a query: {found['errors'][0]['message']}")
        return found["data"]


MODULE = "rag_assay.orchestration.definitions"
"""The code location, by whose name the daemon and the web server load it too."""
RANGE_BEGIN, RANGE_END = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"
REFUSED = "The budget of "  # begins why a call was refused


def ranges(keys: Sequence[str], order: Sequence[str], most: int) -> list[list[str]]:
    """Return keys in runs of neighbours, each of at most so many; a run covers all between its ends.

    >>> ranges(["a", "b", "d", "e", "f"], ["a", "b", "c", "d", "e", "f"], 2)
    [['a', 'b'], ['d', 'e'], ['f']]
    """
    places = {key: place for place, key in enumerate(order)}
    found: list[list[str]] = []
    for key in sorted(keys, key=places.__getitem__):
        last = found[-1] if found else []
        if last and len(last) < most and places[last[-1]] + 1 == places[key]:
            last.append(key)
        else:
            found.append([key])
    return found


class SubmittedRunner:
    """Builds keys of stages in runs that Dagster launches, and reads from its event log what came of them.

    A stage that goes on with gaps is built here, for the driver alone knows the gaps, and so are keys that
    the definitions of all studies do not have (those of a slice of questions). Results come through the home;
    DuckDB is written here alone.

    Args:
        home: the home that the workers share.
        instance: Dagster's, whose run launcher and coordinator do the work.
        tags: of each run.
    """

    def __init__(
        self, home: Home, instance: dg.DagsterInstance, tags: Mapping[str, str], spread: Spread | None = None
    ) -> None:
        self.home = home
        self.instance = instance
        self.spread = spread or Spread()
        self._tags = dict(tags)
        self._spent: dict[str, Amount] = {}
        self._orders: dict[str, list[str]] = {}

    def __call__(
        self, stage: Stage, keys: Sequence[str], context: dg.OpExecutionContext, options: RunOptions
    ) -> None:
        there = set() if stage.tolerates_gaps else set(self._order(stage))
        away = [key for key in keys if key in there]
        outcomes = self._built_away(stage, away, options) if away else []
        if outcomes:
            collect(stage, away, outcomes, BuildContext(self.home, options.progress, dagster=context))
        here = [key for key in keys if key not in there]
        if here:
            bring_up(stage, here, context, options)

    def close(self) -> None:
        if "_server" in vars(self):
            self._server.close()

    @cached_property
    def _server(self) -> GraphQLServer:
        """The current definitions, named by their content: a worker keeps what it has loaded of a name."""
        return GraphQLServer(MODULE, f"defs_{digest([current_code(), time.time()])[:12]}")

    def _order(self, stage: Stage) -> Sequence[str]:
        if stage.name not in self._orders:
            self._orders[stage.name] = self._server.partition_keys([stage.name])
        return self._orders[stage.name]

    def _built_away(self, stage: Stage, keys: Sequence[str], options: RunOptions) -> list[KeyOutcome]:
        """Submit runs for keys; those that a part of a budget was too small for have all of it in the end.

        Sources that share a host are crawled one after another, as they are in one process.
        """
        most = 1 if stage.by_source else self.spread.partitions
        in_turn = [key for key in keys if stage.crawls and not stage.waits_for_servers(key)]
        parts = ranges([key for key in keys if key not in in_turn], self._order(stage), most)
        spends = any(stage.spends(key) for key in keys)
        at_once = min(self.spread.workers, len(parts)) if spends else len(parts)
        found: dict[str, KeyOutcome] = {}
        for some, n in ((parts, at_once), ([[key] for key in in_turn], 1)):
            if some:
                found |= {one.key: one for one in self._waves(stage, some, options, n, spends=spends)}
        refused = [key for key, one in found.items() if one.error and REFUSED in one.error]
        if spends and at_once > 1 and refused:
            again = ranges(refused, self._order(stage), most)
            found |= {one.key: one for one in self._waves(stage, again, options, 1, spends=True)}
        return list(found.values())

    def _waves(
        self, stage: Stage, parts: list[list[str]], options: RunOptions, at_once: int, *, spends: bool
    ) -> Iterator[KeyOutcome]:
        done, total = 0, sum(map(len, parts))
        options.progress(stage.name, done, total)
        for begin in range(0, len(parts), max(1, at_once)):
            wave = parts[begin : begin + at_once]
            before = sum_of([options.budgets.spent(), self._spent])
            order = {"share": 1 / len(wave) if spends else 1.0, "spent": before}
            waiting = RunMonitor(self.instance, Patience())
            with _canceled_when_stopped(waiting):
                for keys in wave:
                    waiting.add(self._submit(stage, keys, options.again, order), keys)
                for ended in waiting.ended():
                    self._spent = sum_of([self._spent, *(spent_of(run.tags) for run in ended.runs)])
                    for outcome in self._outcomes(stage, ended):
                        options.report(outcome)
                        yield outcome
                    done += len(ended.keys)
                    options.progress(stage.name, done, total)

    def _submit(self, stage: Stage, keys: list[str], again: bool, order: Mapping[str, Any]) -> str:
        submission = Submission(current_code(), recipes_of(stage, keys), again=again, **order)
        where = (
            {"dagster/partition": keys[0]} if len(keys) == 1 else {RANGE_BEGIN: keys[0], RANGE_END: keys[-1]}
        )
        return self._server.launch([stage.name], {**self._tags, **where, SUBMITTED_TAG: submission.tag()})

    def _outcomes(self, stage: Stage, ended: Ended) -> Iterator[KeyOutcome]:
        store = BuildContext(self.home).store
        store.refresh()
        built = _built_in(self.instance, ended.run.run_id)
        reasons = _reasons_in(self.instance, ended.run.run_id)
        for key in ended.keys:
            why, damaged = reasons.get(key, (None, ()))
            artifact = store.current(stage.name, key)
            if artifact and key in built:
                checks = checks_of(artifact)
                computed, seconds = built[key]
                yield KeyOutcome(
                    key, artifact, checks, blocked_by(checks), computed=computed, seconds=seconds
                )
            else:
                reason = why or ended.why or "its run ended without a result for it"
                needs = tuple(PartitionRef(*need) for need in damaged)
                yield KeyOutcome(key, artifact, error=reason, damaged=needs, computed=why is not None)


def _built_in(instance: dg.DagsterInstance, run_id: str) -> dict[str, tuple[bool, float]]:
    records = instance.get_records_for_run(run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION)
    found = {}
    for record in records.records:
        said = record.asset_materialization
        if said is not None and said.partition is not None:
            values = {name: one.value for name, one in said.metadata.items()}
            found[said.partition] = (
                bool(values.get("computed")),
                float(str(values.get("build_seconds") or 0)),
            )
    return found


def _reasons_in(instance: dg.DagsterInstance, run_id: str) -> dict[str, tuple[str, Sequence[Sequence[str]]]]:
    records = instance.get_records_for_run(run_id, of_type=dg.DagsterEventType.STEP_FAILURE)
    found: dict[str, tuple[str, Sequence[Sequence[str]]]] = {}
    for record in records.records:
        event = record.event_log_entry.dagster_event
        user = event.step_failure_data.user_failure_data if event else None
        if user and REASONS in user.metadata:
            said: Any = user.metadata[REASONS].value
            found |= {key: (why, damaged) for key, (why, damaged) in said.items()}
    return found


@contextmanager
def _canceled_when_stopped(waiting: RunMonitor) -> Iterator[None]:
    try:
        yield
    except BaseException:
        waiting.cancel()
        raise
