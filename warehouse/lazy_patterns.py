"""Regular expressions that are compiled where they are first used: large ones cost milliseconds each, and
most processes that import them search nothing.
"""

from __future__ import annotations

import re
from typing import Any, cast


class _LazyPattern:
    """Stands for a pattern; attributes of that are kept, so that later uses cost nothing.

    Functions of `re` do not take it: call its methods.
    """

    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what copying and pickling ask for is not the pattern's
            raise AttributeError(name)
        compiled = re.compile(self.pattern, self._flags)
        self.__dict__.update({one: getattr(compiled, one) for one in dir(compiled) if one[0] != "_"})
        return getattr(compiled, name)


def lazy_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    return cast("re.Pattern[str]", _LazyPattern(pattern, flags))
