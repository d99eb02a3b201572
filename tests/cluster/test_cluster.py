"""A slice of `make cluster`: the town's study on two workers has the rows of one process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.comparing import rows
from tests.cluster.machines import cluster, lone_machine
from tests.cluster.servers import lacking
from tests.drill import town
from tests.drill.trial import differences
from tests.fakes.commands import assay
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.processes import assay_command
from tests.orchestration.conftest import replace_in

MODEL = "minilm: {model: all-MiniLM-L6-v2, max_tokens: 256}"
HASHED = "minilm: {hashing: {size: 64}}"  # no machine is to import torch


@pytest.mark.models
@pytest.mark.skipif(lacking() is not None, reason=str(lacking()))
def test_two_workers_give_the_rows_of_one_process(tmp_path: Path, weights: Callable[[str], Path]) -> None:
    weights("all-MiniLM-L6-v2")
    with FakeOpenAI(respond=town.reply) as server, cluster(tmp_path, queued=False) as found:
        path = town.write(tmp_path / "town", server.api_base).small
        replace_in(path, MODEL, HASHED)
        study = str(path)
        here = found.machine("driver")
        for name in ("first", "second"):
            found.worker(name)
        ended = here.run(*assay_command("run", study, "--on", "dagster", "--partitions-per-run", "1"))
        assert ended.code == 0, ended.told
        alone = lone_machine(tmp_path / "alone")
        done = assay("run", study, folder=alone.folder, **alone.environment, DAGSTER_HOME="")
        assert done.returncode == 0, done.stderr
        assert not differences(rows(here.environment), rows(alone.environment))
        built = [
            found.machines[name].log("worker").read_text().count("succeeded") for name in ("first", "second")
        ]
        assert min(built) > 0, "both have built something"
