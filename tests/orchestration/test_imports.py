"""What each start of a command or of a Dagster process pays for: heavy libraries wait for their use."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ["scipy.stats", "sentence_transformers", "torch", "litellm", "ragas", "lancedb", "trafilatura"]


def test_definitions_load_without_heavy_libraries() -> None:
    loaded = f"[name for name in {HEAVY} if name in sys.modules]"
    code = f"import sys, orchestration.definitions, orchestration.driver; print({loaded})"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert found.stdout.strip() == "[]"
