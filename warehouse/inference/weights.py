"""Weights of embedding models: of the registry, the Hugging Face hub at a commit, or a folder."""

from __future__ import annotations

import json
import os
import re
import shutil
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.errors import AssayError, InputError
from rag_assay.warehouse.identity import digest, sha256_file
from rag_assay.warehouse.inference import models
from rag_assay.warehouse.paths import Home, home

if TYPE_CHECKING:
    from rag_assay.warehouse.inference.models import Progress

Place = Literal["registry", "hub", "folder"]

COMMIT = re.compile(r"[0-9a-f]{40}")
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
# What loads a model and is no program and no pickle.
_WANTED = ["*.json", "*.txt", "*.safetensors", "*.model"]
_UNWANTED = ["onnx/*", "openvino/*", "flax*", "tf_*"]


def place_of(model: str, revision: str | None) -> Place:
    """Return where a model's files come from; raise `ValueError` with what to write when that is not clear.

    >>> place_of("all-MiniLM-L6-v2", None)
    'registry'
    >>> place_of("./models/mine", None)
    'folder'
    """
    if registered(model, revision):
        return "registry"
    if model.startswith((".", "/", "~")):
        if revision is not None:
            raise ValueError(f"{model!r} is a folder, which has no revision: leave `revision` out")
        return "folder"
    if _HUB_ID.fullmatch(model):
        if revision is None or not COMMIT.fullmatch(revision):
            raise ValueError(
                f"{model!r} is a model of the Hugging Face hub: give `revision`, its commit (40 hex digits; "
                f"see 'Files and versions' on its page). If it is a folder, write './{model}'"
            )
        return "hub"
    known = [entry.name for entry in models.known() if entry.kind == "embedder"]
    raise ValueError(
        f"unknown embedding model {model!r}; known are {', '.join(known)}. Other models: a hub id "
        "(owner/name) with `revision`, or a folder (./path)"
    )


def registered(model: str, revision: str | None) -> str | None:
    for entry in models.known():
        if entry.kind == "embedder" and (
            (model == entry.name and revision is None)
            or (model == entry.hub_id and revision == entry.revision)
        ):
            return entry.name
    return None


def identity(model: str, revision: str | None = None) -> str:
    """Return the digest (20 hex digits) of a model's weights, without loading or fetching them."""
    place = place_of(model, revision)
    if place == "registry":
        return models.digest(registered(model, revision) or model)
    if place == "hub":
        return digest(["hub", model, revision])  # a commit's hash is one of its content
    folder = _folder(model)
    stamps = _stamps(folder)
    return _hashed(folder, digest(stamps), tuple(stamps))


def fetch(model: str, revision: str | None, root: Home, progress: Progress | None = None) -> Path:
    place = place_of(model, revision)
    if place == "registry":
        return models.fetch(registered(model, revision) or model, root, progress)
    if place == "folder":
        return _folder(model)
    assert revision is not None  # noqa: S101 -- `place_of` has seen to it
    folder = root.models / "hub" / f"{model.replace('/', '--')}@{revision}"
    if not folder.is_dir():
        _from_hub(model, revision, folder, progress or (lambda _text: None))
    return folder


def _folder(model: str) -> Path:
    folder = Path(model).expanduser().resolve()
    if not (folder / "modules.json").is_file() and not (folder / "config.json").is_file():
        what = "holds no model (no modules.json, no config.json)" if folder.is_dir() else "is not there"
        raise InputError(f"the embedding model {model!r}: the folder {folder} {what}")
    return folder


def _from_hub(model: str, revision: str, folder: Path, say: Progress) -> None:
    advice = (
        f"Without the hub: fetch it on another machine (`hf download {model} --revision {revision} "
        "--local-dir FOLDER`), copy the folder here and name the folder as `model`."
    )
    if os.environ.get("HF_HUB_OFFLINE", "").lower() in {"1", "true", "yes", "on"}:
        raise AssayError(
            f"The model {model!r} is not in {folder.parent}, and the Hugging Face hub was not asked, as "
            f"HF_HUB_OFFLINE is set. {advice}"
        )
    from huggingface_hub import snapshot_download

    with models.locked(folder.parent, folder.name, say):
        if folder.is_dir():  # another process has fetched it while this one waited
            return
        say(f"{model}: fetching its files at {revision[:12]} from the Hugging Face hub.")
        scratch = folder.with_name(f".{folder.name}.fetching")
        shutil.rmtree(scratch, ignore_errors=True)  # what a killed process left
        try:
            snapshot_download(
                model,
                revision=revision,
                local_dir=scratch,
                allow_patterns=_WANTED,
                ignore_patterns=_UNWANTED,
                etag_timeout=10,
            )
            shutil.rmtree(scratch / ".cache", ignore_errors=True)
        except Exception as error:  # the hub's client raises its own, httpx's and the system's errors
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            raise AssayError(f"The model {model!r} could not be fetched ({reason}). {advice}") from error
        if not list(scratch.rglob("*.safetensors")):
            shutil.rmtree(scratch, ignore_errors=True)
            raise AssayError(f"The model {model!r} has no safetensors file; pickled weights are not loaded.")
        scratch.rename(folder)


# Folders ---------------------------------------------------------------------------------------------------


def _stamps(folder: Path) -> dict[str, list[int]]:
    stamps = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not any(part.startswith(".") for part in Path(name).parts):
            status = path.stat()
            # Archives and package managers give different files one size and time; this one is the system's.
            stamps[name] = [status.st_size, status.st_mtime_ns, status.st_ctime_ns]
    return stamps


@lru_cache(maxsize=16)
def _hashed(folder: Path, stamps: str, names: tuple[str, ...]) -> str:
    record = home().cache("weights") / f"{digest([str(folder), stamps])}.json"
    with suppress(OSError, ValueError, KeyError, TypeError):
        return str(json.loads(record.read_text())["identity"])
    found = digest(["folder", {name: sha256_file(folder / name) for name in names}])
    with suppress(OSError), atomic_write(record) as temporary:  # a read-only home: hashed at each start
        temporary.write_text(json.dumps({"identity": found}))
    return found
