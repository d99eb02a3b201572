"""Audit hooks that end with their test.

Python keeps every hook to the end of its process and calls all of them at each event, also at every `id()`. A
command that may store its output adds one: after a hundred commands in a process, tests took twice the time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

_hooks: list[Callable[[str, tuple[Any, ...]], Any]] = []


def install() -> None:
    """Let `sys.addaudithook` add to hooks that `forget` removes; Python itself gets one."""
    sys.addaudithook(_call_all)
    sys.addaudithook = _hooks.append


def forget() -> None:
    _hooks.clear()


def _call_all(event: str, given: tuple[Any, ...]) -> None:
    for hook in _hooks:
        hook(event, given)
