"""Makes texts from outside safe to show and store: secrets removed, one line, encodable."""

from __future__ import annotations

import json
import os
import re
from base64 import b64encode
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from rag_assay.warehouse.encodable import encodable

LONGEST = 400  # characters of a reason
SHORTEST = 6  # characters of a secret; a shorter one stands in too many words

_known: dict[str, None] = {}  # secrets from elsewhere than the environment, in their order

_KEY_SHAPES = re.compile(
    r"""\b(?:sk|pk|gsk|hf|xai|AIza)[-_]?[\w*-]{12,}      # the usual shapes of keys, also masked ones
      | (?<=Bearer\s)\S+
      | (?<=://)[^/@\s]+(?=@)                            # credentials in a URL
      | (?<=key=)[^&\s]+""",
    re.VERBOSE,
)
_IN_URLS = re.compile(  # its repeats are bounded, for a text may be anything
    r"""(?P<kept>://(?:[^\s/]{0,200}hook[^\s/]{0,200}/  # whoever knows it can post there
                  | [^\s/]{1,200}/(?:[^\s?\#'"]{0,500}/)?(?:web)?hooks?/))[^\s'"`<>]+
      | (?P<name>(?i:[?&;][\w.-]{0,60}(?:token|secret|passw(?:or)?d|pwd|auth|credential|sig|signature)=))
        [^&\s\#'"`<>]+
      | (?P<before>://[^\s?\#'"]{0,500}/)(?=\w*[A-Z])(?=\w*[a-z])(?=\w*\d)\w{24,}(?![\w.-])""",
    re.VERBOSE | re.ASCII,
)
_SECRET_NAME = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(?:_?\d+)?$", re.IGNORECASE)


def without_key(text: str) -> str:
    """Return ``text`` with stars for whatever has the shape of a key, or stands where one stands in a URL.

    In a URL those are user and password, the values of a query whose names say so, what follows `hooks/`, and
    a part of a path that looks random.

    >>> without_key("https://user:password@host/v1?page=2&access_token=abc")
    'https://***@host/v1?page=2&access_token=***'
    >>> without_key("https://hooks.example.org/services/T0/B0 and https://host/api/webhooks/1/x?wait=1")
    'https://hooks.example.org/*** and https://host/api/webhooks/***'
    """
    return _IN_URLS.sub(_starred, _KEY_SHAPES.sub("***", text))


def _starred(match: re.Match[str]) -> str:
    return f"{match['kept'] or match['name'] or match['before']}***"


def one_line(text: str) -> str:
    """Return ``text`` in one line of at most 400 characters that can be stored, and without any secret.

    A secret is the value of an environment variable whose name says so, in any of its usual encodings, and
    whatever has the shape of a key. Of a traceback, which some libraries put into their messages, only what
    was raised at its end is kept.

    >>> one_line('no answer Traceback (most recent call last):\\n  File "/x.py", line 1\\nValueError: bad')
    'no answer ValueError: bad'
    """
    text = _without_traceback(text)
    for forms in _secrets().values():
        for form in forms:
            text = text.replace(form, "***")
    plain = " ".join(without_key(encodable(text)).split())
    return plain if len(plain) <= LONGEST else plain[: LONGEST - 1] + "…"


def know_secret(value: str | None) -> None:
    """Let a secret of at least 6 characters be found in texts, as those of the environment are."""
    if value and len(value) >= SHORTEST:
        _known[value] = None


def without_secrets(value: Any) -> Any:
    """Return JSON from outside with stars for every secret in its texts and names, nested ones too."""
    return _starred_in(value, [form for forms in _secrets().values() for form in forms])


def _starred_in(value: Any, forms: list[str]) -> Any:
    if isinstance(value, str):
        for form in forms:
            value = value.replace(form, "***")
        return value
    if isinstance(value, dict):
        return {_starred_in(name, forms): _starred_in(one, forms) for name, one in value.items()}
    return [_starred_in(one, forms) for one in value] if isinstance(value, list) else value


def is_secret_name(name: str) -> bool:
    """Return whether the value of an environment variable or setting of that name is a secret.

    >>> is_secret_name("api_key"), is_secret_name("max_tokens")
    (True, False)
    """
    return _SECRET_NAME.search(name) is not None


def secrets_in(text: str) -> list[str]:
    """Return the names of the environment's secrets whose values stand in a text, sorted."""
    return sorted(name for name, forms in _secrets().items() if any(form in text for form in forms))


def _secrets() -> dict[str, tuple[str, ...]]:
    """Return the known secrets: name of the variable (or "a configured secret") -> usual encodings."""
    found = {name: value for name, value in os.environ.items() if is_secret_name(name) and len(value) >= 8}
    found |= {f"a configured secret ({number})": value for number, value in enumerate(_known, 1)}
    return {name: _forms(value) for name, value in found.items()}


@lru_cache(512)
def _forms(value: str) -> tuple[str, ...]:
    """Return a secret in its usual encodings, the longest first."""
    in_json = json.dumps(value)[1:-1]
    encoded = {value, quote(value, safe=""), b64encode(os.fsencode(value)).decode(), in_json}
    return tuple(sorted(encoded, key=len, reverse=True))


_TRACEBACK = "Traceback (most recent call last)"


def _without_traceback(text: str) -> str:
    before, mark, _ = text.partition(_TRACEBACK)
    if not mark:
        return text
    lines = text.rpartition(_TRACEBACK)[2].splitlines()[1:]
    raised = [number for number, line in enumerate(lines) if line and not line[0].isspace()]
    return f"{before.rstrip()} {' '.join(lines[raised[0] :]) if raised else ''}"
