"""Whether building by a recipe may cost money: what asks a model that is not on this machine."""

from __future__ import annotations

from pydantic import BaseModel

from rag_assay.assets.embedding.embedder import Api
from rag_assay.warehouse.inference.chat_model import ChatModel


def may_cost(*parts: object) -> bool:
    """Return whether one of these parts of a study, or of their parts, may ask somebody who wants money.

    A model of this process costs nothing, nor does one whose study says that its price is 0. Every other
    model on a server may, whether its price is known or not, and so may the server of an embedder.

    >>> from rag_assay.assets.embedding.embedder import EmbedderRecipe
    >>> may_cost(EmbedderRecipe(model="all-MiniLM-L6-v2"), None)
    False
    >>> may_cost(EmbedderRecipe(model="openai/any", api={}))
    True
    """
    return any(map(_may_cost, parts))


def _may_cost(part: object) -> bool:
    if isinstance(part, Api):
        return True
    chat = part if isinstance(part, ChatModel) else getattr(part, "chat", None)
    if isinstance(chat, ChatModel) and any(map(_is_paid, chat.ranked())):
        return True
    if isinstance(part, BaseModel):
        return may_cost(*(getattr(part, name) for name in type(part).model_fields))
    if isinstance(part, dict):
        return may_cost(*part.values())
    return may_cost(*part) if isinstance(part, list | tuple) else False


def _is_paid(chat: ChatModel) -> bool:
    is_given_away = chat.price is not None and not chat.price.read and not chat.price.written
    return not chat.is_local and not is_given_away
