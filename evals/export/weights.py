"""The weights, prompt files and servers that a recipe names: what travels with it, and what is looked for."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.inference import models, weights
from rag_assay.warehouse.inference.model_servers import LOCAL
from rag_assay.warehouse.paths import Home

MODELS, PROMPTS = "models", "prompts"
_HELD = re.compile(rf"(?:{MODELS}|{PROMPTS})/[^/\\]+")
_SIGNED_IN = re.compile(r"\w+://[^\s/]*@")
_SAFE = {".json", ".txt", ".safetensors", ".model"}  # what loads a model and is no program and no pickle
Kind = Literal["registry", "hub", "folder", "server"]
Written = dict[str, Any]


@dataclass(frozen=True)
class Used:
    """A model that a recipe names.

    kind: of the registry; of the hub, by its commit; a folder; or one on a server, whose weights are
        unknown
    identity: digest of the weights; None of a server's
    """

    name: str
    kind: Kind
    identity: str | None

    def record(self) -> Written:
        return {"name": self.name, "kind": self.kind, "weights": self.identity}


def used_models(written: Written) -> list[Used]:
    """Return the models of a recipe whose paths are those of this machine, each once."""
    found = {}
    for key, value, beside in _texts(written):
        if key == "model" or (key == "tokenizer" and (_is_path(value) or _is_weights(value))):
            used = _used(value, beside if key == "model" else {})
            found[used.name, used.kind] = used
    return list(found.values())


def _used(name: str, beside: Written) -> Used:
    """Return what a name stands for.

    beside: what stands beside it in the recipe: `revision`, `api`
    """
    if name.startswith(LOCAL):
        return Used(name, "registry", models.digest(name.removeprefix(LOCAL)))
    if beside.get("api"):
        return Used(name, "server", None)
    if _is_path(name):
        return Used(name, "folder", _folder_digest(Path(name)))
    plain, _, commit = name.partition("@")
    revision = beside.get("revision") or commit or None
    registered = weights.registered(plain, revision)
    if registered:
        return Used(registered, "registry", models.digest(registered))
    return Used(name, "hub", digest(["hub", plain, revision])) if revision else Used(name, "server", None)


def _is_weights(tokenizer: str) -> bool:
    return "/" in tokenizer or weights.registered(tokenizer, None) is not None


def _folder_digest(folder: Path) -> str:
    return weights.identity(str(folder.expanduser().resolve()))


# Written ---------------------------------------------------------------------------------------------------


def relocate_recipe(written: Written, base: Path) -> tuple[Written, dict[str, Path]]:
    """Return a recipe without paths of this machine, and which file or folder each name in it stands for.

    base: relative paths start there
    """
    held: dict[str, Path] = {}

    def moved(key: str, value: str) -> str:
        if key == "file" and value:
            name, path = f"{PROMPTS}/{Path(value).name}", base / Path(value).expanduser()
        elif key in {"model", "tokenizer"} and _is_path(value):
            path = (base / Path(value).expanduser()).resolve()
            name = f"{MODELS}/{path.name}-{_folder_digest(path)[:8]}"
        elif value.startswith(("/", "~/")) and Path(value).expanduser().exists():
            raise InputError(f"`{key}: {value}` is a path of this machine, which an export cannot hold")
        else:
            return value
        held[name] = path
        return name

    return _changed(written, moved), held


def refuse_credentials(written: Written) -> None:
    """Refuse an address that holds a user, a password or a key."""
    for address in servers(written):
        parts = urlsplit(address)
        if parts.username or parts.password or parts.query or parts.fragment:
            raise InputError(
                f"the address of a model server holds credentials ({parts.scheme}://…@{parts.hostname}…), "
                "and an export holds none: let the key come from the environment"
            )


def copy_models(used: list[Used], held: dict[str, Path], target: Path, home: Home) -> None:
    """Copy the weights of a recipe into an export: those of the registry, and of folders without pickles."""
    for one in used:
        if one.kind == "registry":
            name = one.name.removeprefix(LOCAL)
            source = models.fetch(name, home)
            for path in models.get(name).files:
                _copy(source / path, target / MODELS / name / path)
    for name, source in held.items():
        if name.startswith(f"{MODELS}/"):
            files = [path for path in sorted(source.rglob("*")) if path.is_file() and path.suffix in _SAFE]
            if not any(path.suffix == ".safetensors" for path in files):
                raise InputError(f"{source}: has no safetensors file; pickled weights are not exported")
            for file in files:
                _copy(file, target / name / file.relative_to(source))


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


# Read ------------------------------------------------------------------------------------------------------


def located(written: Written, folder: Path, home: Home, known: list[Written]) -> Written:
    """Return a recipe with the places that its prompts and weights have here.

    Weights are taken from the models of this home, or else from the export, and only as they were.
    """
    expected = {one.get("name"): one.get("weights") for one in known}

    def placed(key: str, value: str) -> str:
        if key == "file":
            return str(_inside(value, PROMPTS, folder))
        if key not in {"model", "tokenizer"} or not (_is_path(value) or value.startswith(f"{MODELS}/")):
            return value
        inside = _inside(value, MODELS, folder)
        for place in (home.models / inside.name, inside):
            if place.is_dir() and _is_safe(place) and _folder_digest(place) == expected.get(value):
                return str(place)
        raise InputError(
            f"{folder}: the weights {inside.name} are neither in {home.models} nor in {folder / MODELS}, as "
            "they were measured; copy them there, or export with --with-models"
        )

    return _changed(written, placed)


def bring_models(used: list[Used], folder: Path, home: Home) -> None:
    """Let registered weights that an export holds be those of this home, once their checksums are right."""
    for one in used:
        if one.kind == "registry":
            name = one.name.removeprefix(LOCAL)
            if (folder / MODELS / name).is_dir():
                models.fetch(name, home, copy=folder / MODELS)


def servers(written: Written) -> list[str]:
    """Return the addresses of model servers that a recipe names, and all with credentials, each once."""
    found = (
        value for key, value, _ in _texts(written) if key in {"api_base", "base"} or _SIGNED_IN.match(value)
    )
    return list(dict.fromkeys(found))


def _inside(value: str, room: str, folder: Path) -> Path:
    if not _HELD.fullmatch(value) or not value.startswith(f"{room}/") or Path(value).name in {".", ".."}:
        raise InputError(f"{folder}: names {value!r}, which is not in its {room}/; an export names no other")
    return folder / value


def _is_safe(folder: Path) -> bool:
    return all(path.suffix in _SAFE for path in folder.rglob("*") if path.is_file() and path.name[0] != ".")


def _is_path(name: str) -> bool:
    return name.startswith((".", "/", "~"))


def _texts(value: object, key: str = "", beside: Written | None = None) -> Iterator[tuple[str, str, Written]]:
    if isinstance(value, dict):
        for name, one in value.items():
            yield from _texts(one, str(name), value)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts(one, key, beside)
    elif isinstance(value, str):
        yield key, value, beside or {}


def _changed(value: Any, change: Callable[[str, str], str], key: str = "") -> Any:
    """Return a copy with each text replaced by what `change` makes of its key and itself."""
    if isinstance(value, dict):
        return {name: _changed(one, change, str(name)) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_changed(one, change, key) for one in value]
    return change(key, value) if isinstance(value, str) else value
