"""The entry point of `assay`: small, so that a Ctrl-C while the rest is imported is no traceback either."""

from __future__ import annotations

import sys


def main() -> None:
    """Import the command line and run it; exit with 130 where Ctrl-C comes before that was imported."""
    try:
        from orchestration.cli import main as command
    except KeyboardInterrupt:
        sys.stderr.write("stopped. Nothing was begun.\n")
        raise SystemExit(130) from None
    command()
