"""The rows of a home, written by a process that has its environment: `python -m tests.cluster.comparing`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping

from rag_assay.orchestration.settings import prepare
from tests.drill.trial import rows_file, write_rows


def rows(environment: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the rows that must be equal, of the home that an environment names.

    Raises:
        RuntimeError: they cannot be read.
    """
    ended = subprocess.run(
        [sys.executable, "-m", "tests.cluster.comparing"],
        env=dict(environment),
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise RuntimeError(f"the rows cannot be read: {ended.stderr[-2000:]}")
    found: dict[str, list[str]] = json.loads(ended.stdout.splitlines()[-1])
    return {
        name: [_MANY.sub("null", row) for row in of if not _MEASURED.search(row)]
        for name, of in found.items()
    }


_MEASURED = re.compile(r'"(answer|retrieval)_latency[@"]|"verdict"')
"""What no two runs have alike: seconds, and the verdict, which names them."""
_MANY = re.compile(r"(?<=, )\d{5,}(?=, )")
"""How many questions would tell two cells apart: of means that are nearly alike, 1e-7 more changes it."""


def main() -> None:
    """Print the rows of the home of this process, as JSON on the last line."""
    root = prepare()
    write_rows(root)
    print(rows_file(root).read_text().replace("\n", " "))


if __name__ == "__main__":
    main()
