"""What each start of a command or of a Dagster process pays for: heavy libraries wait for their use."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ["scipy.stats", "sentence_transformers", "torch", "litellm", "ragas", "lancedb", "trafilatura"]


PAGE_HEAVY = [*HEAVY, "polars", "numpy", "duckdb", "dagster"]


@pytest.mark.parametrize(
    ("modules", "heavy"),
    [
        ("rag_assay.orchestration.definitions, rag_assay.orchestration.driver", HEAVY),
        (
            "rag_assay.orchestration.web.app, rag_assay.orchestration.web.pages.chat",
            PAGE_HEAVY,
        ),  # it is shown while all else is loaded
    ],
)
def test_what_is_started_loads_without_heavy_libraries(modules: str, heavy: list[str]) -> None:
    loaded = f"[name for name in {heavy} if name in sys.modules]"
    code = f"import sys, {modules}; print({loaded})"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert found.stdout.strip() == "[]"
