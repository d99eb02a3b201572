"""Makes texts from outside safe to show and store: secrets removed, one line, encodable."""

from __future__ import annotations

import json
import logging
import os
import re
import traceback
from base64 import b64encode
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any
from urllib.parse import quote, quote_plus, unquote, unquote_plus, urlsplit

from rag_assay.warehouse.encodable import encodable
from rag_assay.warehouse.json_encoder import json_encoder

LONGEST = 400  # characters of a reason
SHORTEST = 6  # characters of a secret; a shorter one stands in too many words
TOKEN = 8  # least characters of a secret of the environment, and of a part of a webhook's path
PASSPHRASE = 16  # least characters of words alone that stand in no text by chance

_encode = json_encoder(escape_surrogates=True)
_known: dict[str, None] = {}  # secrets from elsewhere than the environment, in their order

_LOGGERS = frozenset({"assay", "httpcore", "httpx", "LiteLLM", "openai", "urllib3"})

_KEY_SHAPES = r"""(?x)\b(?:sk|pk|gsk|hf|xai|AIza)[-_]?[\w*-]{12,}  # usual shapes of keys, also masked ones
      | (?<=Bearer\s)\S+
      | (?<=://)[^/@\s]+(?=@)                            # credentials in a URL
      | (?<=key=)[^&\s]+"""
# Its repeats are bounded, for a text may be anything.
_IN_URLS = r"""(?xa)(?P<kept>://(?:[^\s/]{0,200}hook[^\s/]{0,200}/  # anyone who knows it can post there
                  | [^\s/]{1,200}/(?:[^\s?\#'"]{0,500}/)?(?:web)?hooks?/))[^\s'"`<>]+
      | (?P<name>(?i:[?&;][\w.-]{0,60}(?:token|secret|passw(?:or)?d|pwd|auth|credential|sig|signature)=))
        [^&\s\#'"`<>]+
      | (?P<before>://[^\s?\#'"]{0,500}/)(?=\w*[A-Z])(?=\w*[a-z])(?=\w*\d)\w{24,}(?![\w.-])"""
_SECRET_NAME = (
    r"(?i)(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|(?:^|_)(?:PASS|PAT))(?:_?\d+)?$"  # noqa: S105 -- a pattern
)
_SECRET_PARAMETER = r"(?i)key|token|secret|passw|pwd|auth|credential|sig|code"  # noqa: S105 -- a pattern
_RANDOM = r"(?a)(?=\w*\d)(?=\w*[A-Za-z])\w{12,}"
_WORDS = r"[\W\d_]+|[^\W\d_]+(?:[-_ ./][^\W\d_]+)*"


def without_key(text: str) -> str:
    """Return ``text`` with stars for whatever has the shape of a key, or stands where one stands in a URL:
    user and password, values of a query whose names say so, what follows `hooks/`, random parts of a path.

    >>> without_key("https://user:password@host/v1?page=2&access_token=abc")
    'https://***@host/v1?page=2&access_token=***'
    >>> without_key("https://hooks.example.org/services/T0/B0 and https://host/api/webhooks/1/x?wait=1")
    'https://hooks.example.org/*** and https://host/api/webhooks/***'
    """
    return re.sub(
        _IN_URLS,
        lambda match: f"{match['kept'] or match['name'] or match['before']}***",
        re.sub(_KEY_SHAPES, "***", text),
    )


def one_line(text: str) -> str:
    """Return ``text`` in one line of at most 400 characters, without any secret: of the environment, of
    `know_secret`, and whatever has the shape of a key. Of a traceback only its end stays.

    >>> one_line('no answer Traceback (most recent call last):\\n  File "/x.py", line 1\\nValueError: bad')
    'no answer ValueError: bad'
    """
    plain = " ".join(without_known(encodable(_without_traceback(text))).split())
    return plain if len(plain) <= LONGEST else plain[: LONGEST - 1] + "…"


def without_known(text: str) -> str:
    """Return ``text`` with stars for every known secret, and for whatever has the shape of a key."""
    return without_key(_starred_in(text, _secrets().forms))


def know_secret(value: str | None) -> None:
    """Let a secret of at least 6 characters be found in texts, as those of the environment are."""
    if value and len(value) >= SHORTEST:
        _known[value] = None


def know_url(url: str, *, is_webhook: bool = False) -> None:
    for secret in _secrets_of_url(url, is_webhook=is_webhook):
        know_secret(secret)


@lru_cache(512)
def _secrets_of_url(url: str, *, is_webhook: bool) -> tuple[str, ...]:
    """Return what is secret in a URL: user, password, both as HTTP sends them, and values of its query
    whose names say so, or that look random. Of a webhook also the URL as a whole and all parts of its path
    that are not words.
    """
    try:
        parts = urlsplit(url)
        user, password = parts.username, parts.password
        query = [one.partition("=")[::2] for one in parts.query.split("&")]
    except ValueError:
        return ()
    raw = [one for one in (user, password) if one]
    found = [*raw, *map(unquote, raw)]
    if raw:
        found.append(b64encode(f"{unquote(user or '')}:{unquote(password or '')}".encode()).decode())
    hidden = [
        value for name, value in query if re.search(_SECRET_PARAMETER, name) or re.search(_RANDOM, value)
    ]
    found += [*hidden, *map(unquote_plus, hidden)]
    if is_webhook:
        steps = [one for one in parts.path.split("/") if len(one) >= TOKEN and not re.fullmatch(_WORDS, one)]
        found += [url, *steps, *map(unquote, steps)]
    return tuple(found)


def without_secrets(value: Any) -> Any:
    """Return JSON with stars for every secret in its texts and names, but ordinary words and numbers."""
    return _starred_in(value, _secrets().forms_in_answers)


def encode_without_secrets(value: Any) -> tuple[Any, str]:
    """Return a value without secrets, and as JSON. ValueError: a number is not finite."""
    text = _encode(value)
    if any(form in text for form in _secrets().in_json):
        value = without_secrets(value)
        text = _encode(value)
    return value, text


@cache
def keep_secrets_out_of_logs() -> None:
    make = logging.getLogRecordFactory()

    def record_of(*arguments: Any, **more: Any) -> logging.LogRecord:
        record = make(*arguments, **more)
        if str(record.name).partition(".")[0] in _LOGGERS:
            record.msg, record.args = without_known(record.getMessage()), ()
            if record.exc_info:
                record.exc_text = without_known("".join(traceback.format_exception(*record.exc_info)))
        return record

    logging.setLogRecordFactory(record_of)


def _starred_in(value: Any, forms: list[str]) -> Any:
    if isinstance(value, str):
        for form in forms:
            value = value.replace(form, "***")
        return value
    if isinstance(value, dict):
        return {_starred_in(name, forms): _starred_in(one, forms) for name, one in value.items()}
    return [_starred_in(one, forms) for one in value] if isinstance(value, list) else value


@lru_cache(512)
def is_ordinary(secret: str) -> bool:
    """Return whether a secret is so short and plain that texts may hold it by chance.

    >>> [is_ordinary(one) for one in ("lm-studio", "Library", "2024-10-21", "Harbour-2024!", "hQzWmXcVbN")]
    [True, True, True, False, False]
    """
    words = re.findall(r"[^\W\d_]+", secret)
    is_cased = all(one.islower() or one.isupper() or one.istitle() for one in words)
    return len(secret) < PASSPHRASE and is_cased and re.fullmatch(_WORDS, secret) is not None


@lru_cache(4096)
def is_secret_name(name: str) -> bool:
    """Return whether the value of an environment variable or setting of that name is a secret.

    >>> is_secret_name("api_key"), is_secret_name("max_tokens")
    (True, False)
    """
    return re.search(_SECRET_NAME, name) is not None


def is_secret_parameter(name: str) -> bool:
    """Return whether the value of a query's or header's name is a secret.

    >>> [is_secret_parameter(one) for one in ("Authorization", "X-Api-Key", "Cookie", "Accept", "index")]
    [True, True, True, False, False]
    """
    return re.search(_SECRET_PARAMETER, name) is not None or "cookie" in name.lower()


def looks_random(value: str) -> bool:
    return re.search(_RANDOM, value) is not None


def secrets_in(text: str) -> list[str]:
    return sorted(
        name
        for name, secrets in _secrets().by_name.items()
        if any(form in text for one in secrets if not is_ordinary(one) for form in _forms(one))
    )


@lru_cache(512)
def _forms(value: str) -> tuple[str, ...]:
    in_json = {json.dumps(value, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)}
    quoted = {quote(value, safe=""), quote(value), quote_plus(value)}
    in_base64 = b64encode(os.fsencode(value)).decode()
    encoded = {value, *in_json, *quoted, in_base64, in_base64.rstrip("=")}  # its end may be quoted
    return tuple(encoded)


def _forms_of(secrets: Iterable[str]) -> list[str]:
    return sorted({form for one in secrets for form in _forms(one)}, key=len, reverse=True)


class _Secrets:
    """The secrets of one state of the environment and of `know_secret`, by variable, in all encodings."""

    def __init__(self, environment: dict[bytes, bytes], known: dict[str, None]) -> None:
        self.state = environment, known
        found: dict[str, tuple[str, ...]] = {}
        for name, value in ((os.fsdecode(one), os.fsdecode(other)) for one, other in environment.items()):
            if is_secret_name(name):
                found[name] = (value,)
            elif "://" in value:
                found[name] = _secrets_of_url(value, is_webhook="HOOK" in name.upper())
        self.by_name = {name: tuple(one for one in some if len(one) >= TOKEN) for name, some in found.items()}
        self.by_name |= {f"a configured secret ({number})": (one,) for number, one in enumerate(known, 1)}
        secrets = {one for some in self.by_name.values() for one in some}
        self.forms = _forms_of(secrets)
        self.forms_in_answers = _forms_of(one for one in secrets if not is_ordinary(one))
        self.in_json = [_encode(form)[1:-1] for form in self.forms_in_answers]


_last = _Secrets({}, {})


def _secrets() -> _Secrets:
    global _last  # noqa: PLW0603 -- of a process, as the environment is
    # As the system has them: `os.environ` decodes each at each look
    state = vars(os.environ)["_data"], _known
    if _last.state != state:
        _last = _Secrets(*map(dict, state))
    return _last


_TRACEBACK = "Traceback (most recent call last)"


def _without_traceback(text: str) -> str:
    before, mark, _ = text.partition(_TRACEBACK)
    if not mark:
        return text
    lines = text.rpartition(_TRACEBACK)[2].splitlines()[1:]
    raised = [number for number, line in enumerate(lines) if line and not line[0].isspace()]
    return f"{before.rstrip()} {' '.join(lines[raised[0] :]) if raised else ''}"
