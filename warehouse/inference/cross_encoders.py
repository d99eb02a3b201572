"""Weights of cross-encoders, which read two texts together: named by a folder, or on the hub by a commit."""

from __future__ import annotations

import logging
import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, model_validator

from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.identity import digest, sha256_file
from rag_assay.warehouse.recipe import Strict

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder as Model


class PairModel(Strict):
    """Names a cross-encoder.

    model: a folder with a sentence-transformers CrossEncoder, or its name on the Hugging Face hub
    revision: of a model of the hub: the commit, so that the same weights are loaded again
    """

    model: Annotated[str, Field(min_length=1)]
    revision: str | None = None

    @model_validator(mode="after")
    def _names_weights(self) -> PairModel:
        is_path = self.model.startswith(("/", ".", "~")) or self.folder.is_dir()
        if is_path and not self.folder.is_dir():
            raise ValueError(f"there is no folder {self.folder} with a cross-encoder")
        if is_path and not (self.folder / "config.json").is_file():
            raise ValueError(f"{self.folder} holds no cross-encoder: it has no config.json")
        if not is_path and self.revision is None:
            raise ValueError(
                f"`{self.model}` is not a folder; a model of the hub needs its `revision` (the commit), "
                "so that the same weights are loaded again"
            )
        return self

    @property
    def folder(self) -> Path:
        return Path(self.model).expanduser()

    def weights(self) -> str:
        if not self.folder.is_dir():
            return digest([self.model, self.revision])
        files = sorted(path for path in self.folder.rglob("*") if path.is_file())
        return digest([[str(path.relative_to(self.folder)), _sha256(path)] for path in files])


def load_pair_model(model: str, revision: str | None, max_length: int) -> Model:
    """Load a cross-encoder; it reads ``max_length`` tokens of a pair, or as many as it has places."""
    if Path(model).expanduser().is_dir():
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
    logging.getLogger("sentence_transformers").setLevel(logging.WARNING)
    from sentence_transformers import CrossEncoder as Model
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        found = Model(str(Path(model).expanduser()), revision=revision)
    except Exception as error:  # a torn file of weights has an error class of its own library
        raise InputError(f"the cross-encoder {model} cannot be loaded: {error}") from error
    found.max_seq_length = min(max_length, found.max_seq_length or max_length, *_places(found))
    return found


def _places(model: Model) -> list[int]:
    """Return how many tokens each table of positions has room for; RoBERTa's begin after its padding."""
    tables = [part for name, part in model.named_modules() if name.endswith("position_embeddings")]
    return [
        table.num_embeddings - (0 if table.padding_idx is None else table.padding_idx + 1)
        for table in tables
        if hasattr(table, "num_embeddings")
    ]


@lru_cache(maxsize=256)
def _sha256_of(path: Path, size: int, changed: int) -> str:
    return sha256_file(path)


def _sha256(path: Path) -> str:
    facts = path.stat()
    return _sha256_of(path, facts.st_size, facts.st_mtime_ns)
