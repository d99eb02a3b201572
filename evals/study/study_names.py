"""Finds study files and their names without reading them whole, for shell completion."""

from __future__ import annotations

import os
import re
from pathlib import Path

BUNDLED = Path(__file__).parents[1] / "studies"
_STUDY = re.compile(r"^study:\s*[\"']?([\w.-]+)", re.MULTILINE)
HEAD = 4096  # characters in which a file says its name


def study_folder() -> Path:
    return Path(os.environ.get("ASSAY_STUDIES") or BUNDLED).expanduser()


def study_files(folder: Path | None = None) -> list[Path]:
    found = sorted((folder or study_folder()).glob("*.yaml"))
    return [path for path in found if not path.name.endswith(".questions.yaml") and path.is_file()]


def known_names() -> list[str]:
    return sorted({_name(path) for path in study_files()})


def _name(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            named = _STUDY.search(file.read(HEAD))
    except OSError:
        named = None
    return named.group(1) if named else path.stem
