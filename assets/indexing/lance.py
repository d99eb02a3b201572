"""Imports LanceDB in two thirds of the time: without the checks of a REST client that comes with it.

`lancedb` imports `lance_namespace_urllib3_client`, whose methods `pydantic.validate_call` decorates: a
schema for each of some 360 methods, 0.4 s of a processor, for requests to a server that an index in a folder
never sends. Those methods are left as they are written; nothing else of pydantic is touched.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from threading import Lock
from types import ModuleType
from typing import Any

import pydantic

CLIENT = "lance_namespace_urllib3_client."
_LOCK = Lock()


@cache
def lancedb() -> ModuleType:
    """Return the module `lancedb`, imported when it is first asked for."""
    with _LOCK:
        check: Callable[..., Any] = pydantic.validate_call
        vars(pydantic)["validate_call"] = _unless_of_client(check)
        try:
            import lancedb
        finally:
            vars(pydantic)["validate_call"] = check
    return lancedb


def _unless_of_client(check: Callable[..., Any]) -> Callable[..., Any]:
    def decorated(function: Any = None, /, **options: Any) -> Any:
        if getattr(function, "__module__", "").startswith(CLIENT):
            return function
        return check(function, **options)

    return decorated
