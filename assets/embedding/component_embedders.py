"""Embedders that are no models, ours and other packages': what they keep to, and how a study names one."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import (
    SerializationInfo,
    SerializerFunctionWrapHandler,
    ValidatorFunctionWrapHandler,
    WrapSerializer,
    WrapValidator,
    model_validator,
)

from rag_assay.assets.embedding.embedder import Embedder, EmbedderRecipe
from rag_assay.warehouse.components import validate_kind
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.recipe import error_at
from rag_assay.warehouse.registry import BrokenComponentError, Registry

if TYPE_CHECKING:
    from rag_assay.warehouse.inference.models import Progress
    from rag_assay.warehouse.paths import Home

NOT_ITS_OWN = ("model", "commit", "query_prompt", "passage_prompt", "dtype", "device", "api")
"""Fields of a recipe that say how weights are found and run, which such an embedder does by itself."""


class OtherEmbedder(EmbedderRecipe):
    """An embedder that is not a model, ours or another package's; a study writes `{kind: {its parameters}}`.

    Its vectors follow the contract of `Embedder`. Tokens are not counted for it: it handles long texts
    itself.

    kind: the name that study files use
    package: the other package that it is from, with its version; None: ours
    """

    kind: ClassVar[str]
    package: ClassVar[str | None] = None

    @model_validator(mode="before")
    @classmethod
    def _is_told_of_its_model(cls, written: Any) -> Any:
        return {"model": cls.kind, **written} if isinstance(written, dict) else written

    @model_validator(mode="after")
    def _names_a_model(self) -> Self:
        for name in NOT_ITS_OWN:
            if name != "model" and getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"`{name}` is for embedders that are models; leave it out")
        return self

    @abstractmethod
    def load(self) -> Embedder:
        """Return the embedder, ready to embed."""

    def weights_identity(self) -> str:
        own = self.meaning().keys() - EmbedderRecipe.model_fields.keys() - {"revision"}
        parameters = {name: value for name, value in self.meaning().items() if name in own}
        return digest([self.kind, parameters, self.versions(), self.package])

    def tokenizer_folder(self, home: Home, progress: Progress | None = None) -> Path | None:
        return None


EMBEDDERS: Registry[OtherEmbedder] = Registry("embedders", OtherEmbedder)
EMBEDDERS.add_places("rag_assay.assets.embedding", hashing="hashing:Hashing")


def _of_its_kind(written: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    if isinstance(written, OtherEmbedder):
        return written
    name = next(iter(written), None) if isinstance(written, dict) and len(written) == 1 else None
    if not isinstance(name, str) or name in EmbedderRecipe.model_fields or name not in EMBEDDERS:
        return handler(written)
    try:
        kind = EMBEDDERS[name]
    except BrokenComponentError as error:
        raise error_at((name,), str(error)) from error
    return validate_kind(name, kind, written[name])


def _by_its_kind(
    recipe: EmbedderRecipe, handler: SerializerFunctionWrapHandler, info: SerializationInfo
) -> dict[str, Any]:
    if not isinstance(recipe, OtherEmbedder):
        written: dict[str, Any] = handler(recipe)
        return written
    return {recipe.kind: recipe.model_dump(mode=info.mode, exclude={*NOT_ITS_OWN})}


AnyEmbedder = Annotated[EmbedderRecipe, WrapValidator(_of_its_kind), WrapSerializer(_by_its_kind)]
"""An embedder as a study writes it: the parameters of a model, or `{kind: {its parameters}}`."""
