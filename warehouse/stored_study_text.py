"""The text of a study file as records keep it: enough to read the study again, and no secret."""

from __future__ import annotations

import re
from contextlib import suppress

from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.inference.egress import without_credentials
from rag_assay.warehouse.inference.redaction import is_secret_name, secrets_in, without_key
from rag_assay.warehouse.yaml_positions import Place, rewrite, with_paths

_REFERENCE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_NOT_OF_RESULTS = ("alerts",)
"""Sections that no result depends on."""


def stored_study_text(text: str) -> str:
    """Return a study file's text without comments, `alerts` and credentials; "" if it may hold a secret."""
    with suppress(_SecretError, InputError):
        stored = rewrite(text, _scalar, _NOT_OF_RESULTS)
        return "" if secrets_in(stored) else stored
    return ""


class _SecretError(Exception):
    """A scalar may hold a secret. Without it the study would be another one."""


def _scalar(place: Place, value: str) -> str:
    value = with_paths(value)
    name = next((part for part in reversed(place) if isinstance(part, str)), "")
    if name == "api_base" and not _REFERENCE.search(value):
        with suppress(ValueError):
            value = without_credentials(value)
    typed = _REFERENCE.sub("", value).replace("://:@", "://")
    if without_key(typed) != typed or secrets_in(value) or (is_secret_name(name) and typed.strip()):
        raise _SecretError
    return value
