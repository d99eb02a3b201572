"""Resolves the paths in a study file."""

from __future__ import annotations

from pathlib import Path

from rag_assay.warehouse.errors import InputError


def absolute(path: str, base: Path) -> Path:
    """Return a path of a study as an absolute one: from `~`, the study's folder or the working folder.

    Question files stand beside the study; what comes from an environment variable is meant from where
    the command was typed. So a path that is only there is taken from there.

    Raises:
        InputError: it can be no path: a NUL in it, too long, or the home of a user that there is not.
    """
    try:
        expanded = Path(path).expanduser()
        if expanded.is_absolute():
            expanded.exists()  # which raises for what can be no path
            return expanded
        beside = (base / expanded).resolve()
        return expanded.resolve() if expanded.exists() and not beside.exists() else beside
    except (OSError, RuntimeError, ValueError) as error:  # too long, `~nobody`, a NUL in it
        why = getattr(error, "strerror", None) or error
        raise InputError(f"{path[:80]!r} cannot be used as a path: {why}") from error
