"""The recipe of an embedder, and the protocol of a loaded one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol, Self, TypeAlias

from pydantic import ConfigDict, Field, model_validator

from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.inference import models, weights
from rag_assay.warehouse.inference.chat_model import Address
from rag_assay.warehouse.recipe import Recipe, Strict

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from rag_assay.warehouse.inference.models import Progress
    from rag_assay.warehouse.paths import Home

Matrix: TypeAlias = "npt.NDArray[np.float32]"


class Api(Strict):
    """A server that embeds, called through LiteLLM; its key comes from the environment (`OPENAI_API_KEY` …).

    base: URL of an OpenAI-compatible server, with a model name that begins with `openai/`
    dimensions: of the vectors, if the model has a choice
    tokenizer: an embedding model (registry name or folder) whose tokens are counted, so that a chunk that is
        too long is found before it is sent; without one, the server refuses it
    retries: further attempts after a rate limit or a transient failure
    timeout: seconds that the server may stay silent
    budget_usd: no request is sent once that much was spent by one process
    """

    base: Address | None = None
    dimensions: Annotated[int, Field(ge=1, le=16384)] | None = None
    tokenizer: str | None = None
    retries: Annotated[int, Field(ge=0, le=10)] = 3
    timeout: Annotated[float, Field(gt=0, le=3600)] = 60.0
    budget_usd: Annotated[float, Field(ge=0)] | None = None


class EmbedderRecipe(Recipe):
    """A model that turns texts into vectors.

    model: a name of the model registry (`assay models list`), a hub id (`owner/name`) with `revision`, a
        folder (`./path`, from where the command is run), or with `api` the name in LiteLLM
    revision: the commit of a hub id, 40 hex digits
    max_tokens: tokens that the model reads, special tokens included (all-MiniLM-L6-v2: 256 as published, 512
        at most); default: 256, or what the registry has for the model
    overflow: a longer chunk is an error (`fail`), is cut (`truncate`, as BEIR does), or its windows are
        embedded one by one and averaged (`average`)
    query_prefix, passage_prefix: text before a question or a chunk when it is embedded; default: what a model
        of the registry was trained with
    query_prompt, passage_prompt: the same, by its name in the model (`query`, `document`)
    normalise: bring vectors to length 1, so that their dot product is the cosine
    dtype: number format; bf16 is faster on processors that have it, and its distance to fp32 is measured
    device: `auto` takes the first of cuda, mps and cpu that is available
    batch_size: texts that are computed (or sent) together; changes no vector
    similarities: store the cosine of each chunk with the title and the tags of its document; embeds these
        too, which may double the work
    api: a server that embeds in place of this machine
    """

    model_config = ConfigDict(serialize_by_alias=True)

    code_version: ClassVar[str] = "1"

    model: Annotated[str, Field(min_length=1)]
    commit: Annotated[str | None, Field(alias="revision")] = None  # `revision()` is that of the vectors
    max_tokens: Annotated[int, Field(ge=16, le=32768)] = 256
    overflow: Literal["fail", "truncate", "average"] = "fail"
    query_prefix: str = ""
    passage_prefix: str = ""
    query_prompt: str | None = None
    passage_prompt: str | None = None
    normalise: bool = True
    dtype: Literal["fp32", "bf16"] = "fp32"
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    batch_size: Annotated[int, Field(ge=1, le=2048)] = 16
    similarities: bool = False
    api: Api | None = None

    @property
    def registered(self) -> models.Model | None:
        """The registered model of these weights, in any precision."""
        return None if self.api else models.REGISTRY.get(Path(self.model).name)

    @property
    def dense_weight(self) -> float:
        return self.registered.dense_weight if self.registered else 0.5

    @model_validator(mode="before")
    @classmethod
    def _takes_settings_of_its_model(cls, value: Any) -> Any:
        if not isinstance(value, dict) or value.get("api") is not None:
            return value
        known = models.REGISTRY.get(str(value.get("model")))
        if known is None:
            return value
        settings: dict[str, Any] = {"max_tokens": known.max_tokens}
        for side, prefix in (("query", known.query_prefix), ("passage", known.passage_prefix)):
            if value.get(f"{side}_prompt") is None:
                settings[f"{side}_prefix"] = prefix
        return {**settings, **value}

    @model_validator(mode="after")
    def _names_a_model(self) -> Self:
        if self.api is None:
            weights.place_of(self.model, self.commit)
            return self
        of_the_server = {
            "revision": self.commit,
            "query_prompt": self.query_prompt,
            "passage_prompt": self.passage_prompt,
            "dtype": self.dtype != "fp32",
            "device": self.device != "auto",
        }
        if misplaced := [name for name, setting in of_the_server.items() if setting]:
            raise ValueError(f"{', '.join(misplaced)}: the server of an `api` decides that, leave it out")
        if self.api.tokenizer:
            weights.place_of(self.api.tokenizer, None)
        elif self.overflow != "fail":
            raise ValueError(
                f"`overflow: {self.overflow}` needs `api: {{tokenizer: …}}`, which counts the tokens"
            )
        return self

    @model_validator(mode="after")
    def _says_each_prefix_once(self) -> Self:
        for side in ("query", "passage"):
            if getattr(self, f"{side}_prefix") and getattr(self, f"{side}_prompt"):
                raise ValueError(f"give {side}_prefix or {side}_prompt, not both")
        return self

    def revision(self) -> str:
        """Return the digest of all that changes the vector of a given text: the key of the vector cache."""
        parts = [self.weights_identity(), self.max_tokens, self.overflow, self.code_version]
        # Only what is not as it always was: vectors that are stored keep their key.
        changed = {"normalise": self.normalise is False, "dtype": self.dtype != "fp32"}
        # Texts for a server were once cut by their characters where those were few.
        cut = [["cut", "by tokens"]] if self.api and self.overflow == "truncate" else []
        return digest([*parts, *([name, getattr(self, name)] for name, yes in changed.items() if yes), *cut])

    def query_revision(self) -> str:
        prompt = [self.query_prompt] if self.query_prompt else []
        return digest([self.revision(), self.query_prefix, *prompt])

    def passage_revision(self) -> str:
        changed: list[object] = [["prompt", self.passage_prompt]] if self.passage_prompt else []
        similarities = ["similarities"] if self.similarities else []
        # Where it does not change the vectors, it still tells which chunks are too long.
        counts = self.api.tokenizer if self.api and self.overflow == "fail" else None
        counted = [["tokenizer", weights.identity(counts)]] if counts else []
        return digest([self.revision(), self.passage_prefix, *changed, *similarities, *counted])

    def weights_identity(self) -> str:
        if self.api is None:
            return weights.identity(self.model, self.commit)
        from rag_assay.warehouse.inference.model_servers import server_of

        tokenizer = self.api.tokenizer if self.overflow != "fail" else None
        tokens = weights.identity(tokenizer) if tokenizer else None
        return digest(["api", self.model, server_of(self.model, self.api.base), self.api.dimensions, tokens])

    def fetch(self, home: Home, progress: Progress | None = None) -> Path:
        return weights.fetch(self.model, self.commit, home, progress)

    def tokenizer_folder(self, home: Home, progress: Progress | None = None) -> Path | None:
        """Return the folder whose tokenizer counts the tokens; None where an `api` names none."""
        if self.api is None:
            return self.fetch(home, progress)
        return weights.fetch(self.api.tokenizer, None, home, progress) if self.api.tokenizer else None

    def prefix(self, side: Literal["query", "passage"], home: Home) -> str:
        name = self.query_prompt if side == "query" else self.passage_prompt
        if name is None:
            return self.query_prefix if side == "query" else self.passage_prefix
        prompts = model_prompts(self.fetch(home))
        if name not in prompts:
            known = ", ".join(sorted(prompts)) or "none"
            raise InputError(
                f"embedder {self.model}: {side}_prompt {name!r} is unknown; the model has {known}"
            )
        return prompts[name]


class Embedder(Protocol):
    """A loaded embedder; `tests/contracts/test_embedders.py` checks each one.

    Vectors: float32, shape (texts, dimensions), length 1 unless `normalise: false`, independent of the batch.
        Raises InputError: a text is too long under `overflow: fail`.
    """

    @property
    def recipe(self) -> EmbedderRecipe: ...

    @property
    def dimensions(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> Matrix: ...


def model_prompts(folder: Path) -> dict[str, str]:
    try:
        kept = json.loads((folder / "config_sentence_transformers.json").read_text(encoding="utf-8"))
        return {str(name): str(text) for name, text in (kept.get("prompts") or {}).items()}
    except (OSError, ValueError, AttributeError):
        return {}
