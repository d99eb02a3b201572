"""Reads the arguments of `scrapy crawl NAME -a NAME=VALUE` as the fields of a source."""

from __future__ import annotations

from typing import Any

import yaml
from pydantic import ValidationError

from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.source import Source

_BY_COMMA = {"start", "domains"}  # the other lists may hold commas: regular expressions
_ELSEWHERE = {
    "allow_private": "Give it as `-s ALLOW_PRIVATE=1`.",
    "mirror": "Only `python -m crawlers` and `assay` serve the sample site.",
    "spider": "It is named by the command itself.",
}


def source_of(spider: str, arguments: dict[str, str]) -> Source:
    """Return the source that the arguments of a command line describe.

    `start` and `domains` are lists with commas; values of other fields are YAML, as in
    `-a 'limits={pages: 50}'`; a lone value stands for a list of one.

    Raises:
        InputError: an argument is no field of a source, or its value cannot be used.

    >>> source_of("news", {"start": "https://a.example/,https://b.example/", "deny": "/video/"}).deny
    ('/video/',)
    """
    values = {name: _value(name, text) for name, text in arguments.items()}
    try:
        return Source.model_validate({**values, "spider": spider})
    except ValidationError as error:
        lines = (f"-a {'.'.join(map(str, one['loc'])) or 'start'}: {one['msg']}" for one in error.errors())
        raise InputError(f"scrapy crawl {spider}:", *lines) from None


def _value(name: str, text: str) -> Any:
    if name in _ELSEWHERE:
        raise InputError(f"-a {name}: {_ELSEWHERE[name]}")
    if name in _BY_COMMA:
        return [part.strip() for part in text.split(",") if part.strip()]
    is_list = name in Source.model_fields and tuple in {
        getattr(Source.model_fields[name].annotation, "__origin__", None)
    }
    if is_list and not text.startswith("["):
        return [text]
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InputError(f"-a {name}: {text!r} cannot be read ({error}).") from error
