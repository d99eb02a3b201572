"""Names of question sets."""

from __future__ import annotations

from pathlib import Path


def set_name(path: Path) -> str:
    """Return the name of a file's question set: that of the file.

    >>> set_name(Path("demo/Energy.questions.yaml"))
    'energy'
    """
    return path.name.removesuffix(".yaml").removesuffix(".questions").lower().replace(".", "-")
