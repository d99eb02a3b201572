"""What a run that a driver has submitted is to do, and what its worker says back, as tags of the run."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import dagster as dg

from rag_assay.assets.engine.stage import Stage
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.identity import digest, sha256_text
from rag_assay.warehouse.inference.budget import Amount, Budgets, sum_of

SUBMITTED_TAG = "assay/submitted"
SPENT_TAG = "assay/spent"
ALIVE_TAG = "assay/alive"
BEAT = 20.0  # seconds between two signs of life of a worker


@dataclass(frozen=True)
class Submission:
    """What a submitted run is to do.

    code, recipes: digests of the driver's code and of the recipes of the keys
    share: share of each remaining budget that it may spend; spent: what had been spent before, by budget

    >>> there = Submission("c", "r", share=0.5, spent={'"news"': Amount(1.5, 10, 2)})
    >>> read_submission({SUBMITTED_TAG: there.tag()}) == there
    True
    """

    code: str
    recipes: str
    again: bool = False
    share: float = 1.0
    spent: Mapping[str, Amount] = field(default_factory=dict)

    def tag(self) -> str:
        return json.dumps({**vars(self), "spent": dict(self.spent)}, sort_keys=True)


def read_submission(tags: Mapping[str, str]) -> Submission | None:
    """Return what the run with these tags is to do; None: it was not submitted by a driver."""
    if SUBMITTED_TAG not in tags:
        return None
    found = json.loads(tags[SUBMITTED_TAG])
    return Submission(**{**found, "spent": _amounts(found["spent"])})


def spent_of(tags: Mapping[str, str]) -> dict[str, Amount]:
    return _amounts(json.loads(tags.get(SPENT_TAG, "{}")))


def _amounts(found: Mapping[str, Sequence[float]]) -> dict[str, Amount]:
    return {name: Amount(float(usd), int(tokens), int(calls)) for name, (usd, tokens, calls) in found.items()}


@cache
def current_code() -> str:
    """Return the digest of all modules of rag_assay at the first call in this process."""
    root = Path(__file__).parents[2]
    paths = sorted(path for package in root.glob("*/") for path in package.rglob("*.py"))
    return digest([[str(path.relative_to(root)), sha256_text(path.read_text("utf-8"))] for path in paths])


def recipes_of(stage: Stage, keys: Sequence[str]) -> str:
    return digest([stage.name, stage.code_version, [[key, stage.recipes(key)] for key in sorted(keys)]])


def refuse_other(submission: Submission, stage: Stage, keys: Sequence[str]) -> None:
    if submission.code != current_code():
        raise AssayError(
            "this worker runs another version of rag-assay than the driver that has submitted the run: "
            "install the same version for both, and restart the worker. Nothing was built"
        )
    unknown = sorted(set(keys) - set(stage.keys()))
    if unknown or submission.recipes != recipes_of(stage, keys):
        which = f"does not know {stage.name} of {unknown[0]}" if unknown else "has it otherwise"
        raise AssayError(
            f"this worker {which}: the study file, or a file that it names, is not the driver's. "
            "Let both see the same files, and restart the worker. Nothing was built"
        )


def budgets_of(submission: Submission, instance: dg.DagsterInstance, run: dg.DagsterRun) -> Budgets:
    """Return what a run may spend; what a killed run has spent, of which it is the retry, is taken off."""
    before: list[dict[str, Amount]] = []
    if run.root_run_id:
        group = instance.get_run_group(run.root_run_id)
        before = [spent_of(one.tags) for one in (group[1] if group else ()) if one.run_id != run.run_id]
    return Budgets(submission.share, submission.spent, sum_of(before))


@contextmanager
def heartbeat(instance: dg.DagsterInstance, run_id: str, budgets: Budgets) -> Iterator[None]:
    ended = threading.Event()

    def note() -> None:
        spent = {name: list(amount) for name, amount in budgets.spent().items()}
        tags = {ALIVE_TAG: f"{time.time():.0f}", SPENT_TAG: json.dumps(spent)}
        instance.add_run_tags(run_id, tags)

    def beat() -> None:
        while not ended.wait(BEAT):
            note()

    note()
    thread = threading.Thread(target=beat, name="signs of life", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        note()
