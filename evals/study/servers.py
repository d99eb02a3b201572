"""The servers that a study or cell names (models, components, webhook): requests go to no others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from pydantic import BaseModel, SecretStr

from rag_assay.assets.embedding.embedder import EmbedderRecipe
from rag_assay.evals.study.sections import Alerts
from rag_assay.evals.systems.contract import System
from rag_assay.warehouse.inference.chat_model import CallOptions
from rag_assay.warehouse.inference.egress import allow, origin
from rag_assay.warehouse.inference.model_servers import LOCAL, server_name
from rag_assay.warehouse.recipe import children_of, nested_recipes

_URL = re.compile(r"(?:\b[a-z][a-z0-9+.-]*:|^\s*)//[^\s\"'<>`|(){}]+", re.IGNORECASE)
_HOST = re.compile(
    r"(?<![\w.-])(?:localhost|\[[0-9a-f:.]+\]|[\w-]+(?:\.[\w-]+)+):\d{1,5}(?![\w.])", re.IGNORECASE
)
_NAMES_SERVER = re.compile(r"(?:^|_)(?:base|host|server|ur[il]|endpoint|address)s?(?:$|_)", re.IGNORECASE)


class ForeignAddress(NamedTuple):
    """An address in a parameter of another package's component; origin: None: a server without address."""

    kind: str
    package: str
    origin: str | None


def open_servers(part: object) -> None:
    found = [one.origin for one in foreign_addresses(part) if one.origin]
    for one in nested_recipes(part):
        if isinstance(one, Alerts) and one.webhook:
            with suppress(ValueError):  # not an address: the channel says so
                found.append(origin(one.webhook.get_secret_value()))
        if isinstance(one, System) and one.address:
            found.append(origin(one.address))
    for model, address in asked_models(part):
        with suppress(ValueError):  # no address, which no call gets past
            found.append(server_name(model, address))
    allow(found)


def asked_models(part: object) -> Iterator[tuple[str, str | None]]:
    for one in nested_recipes(part):
        if isinstance(one, CallOptions) and isinstance(model := getattr(one, "model", None), str):
            if not model.startswith(LOCAL):
                yield model, one.api_base
        elif isinstance(one, EmbedderRecipe) and one.api is not None:
            yield one.model, one.api.base


def foreign_addresses(part: object) -> Iterator[ForeignAddress]:
    package = getattr(type(part), "package", None)
    if isinstance(part, BaseModel) and package is not None:
        for name, text in _texts(part):
            for address in _addresses(name, text):
                yield ForeignAddress(getattr(type(part), "kind", ""), package, address)
    else:
        for one in children_of(part):
            yield from foreign_addresses(one)


def _addresses(name: str, text: str) -> Iterator[str | None]:
    found = [*_URL.findall(text), *_HOST.findall(_URL.sub(" ", text))]
    if not found and text.strip() and _NAMES_SERVER.search(name):
        found = [text.strip()]
    for one in found:
        scheme, _, rest = one.rpartition("//")
        try:
            yield origin(one if scheme.lower() in {"http:", "https:"} else f"http://{rest}")
        except ValueError:
            yield None


def _texts(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if isinstance(value, BaseModel):
        value = {one: getattr(value, one) for one in type(value).model_fields}
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield name, str(key)
            yield from _texts(one, str(key))
    elif isinstance(value, list | tuple | set | frozenset):
        for one in value:
            yield from _texts(one, name)
    elif value is not None and not isinstance(value, int | float):
        yield name, str(value)
