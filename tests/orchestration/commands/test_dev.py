"""`assay dev` in a terminal: Dagster and the app answer, and Ctrl-C ends both."""

from __future__ import annotations

import re
import urllib.request

import pytest

from rag_assay.orchestration.loopback import free_loopback_port
from tests.fakes.processes import assay_command, end_all_of, in_terminal, of_home, wait_until
from tests.orchestration.conftest import Finished

pytestmark = pytest.mark.models


def test_dagster_and_the_app_start_together_and_end_with_ctrl_c(finished: Finished) -> None:
    home = finished.home.root
    dagster, app = free_loopback_port(), free_loopback_port()
    command = assay_command("dev", "--port", str(dagster), "--app-port", str(app))
    errors = home / "dev.log"
    with errors.open("wb") as stderr:
        running = in_terminal(command, stderr.fileno(), ASSAY_HOME=str(home))
    try:
        addresses = [f"http://127.0.0.1:{dagster}/", f"http://127.0.0.1:{app}/"]
        assert wait_until(lambda: errors.exists() and "Ctrl-C ends both" in errors.read_text(), 150)
        assert all(map(answers, addresses))
        assert len(of_home(home)) > 2, "the command, Dagster, the app"
        running.type("\x03")
        code, _ = running.end()
    finally:
        assert wait_until(lambda: not of_home(home), 30), of_home(home)
        end_all_of(home)
    said = errors.read_text()
    assert code == 130, said
    assert [f"Dagster: {addresses[0]}", f"App:     {addresses[1]}"] == re.findall(
        r"(?:Dagster|App): .*", said
    )
    assert "Traceback" not in said


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5) as found:  # noqa: S310 -- loopback
            return found.status == 200
    except OSError:
        return False
