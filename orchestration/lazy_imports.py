"""Puts off the import of libraries until something of them is used, for commands that may use nothing."""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec
from threading import RLock
from types import ModuleType
from typing import Any

_lock = RLock()
_loading: set[str] = set()


class _LazyModule(ModuleType):
    """A module that is executed where an attribute of it is missed.

    `importlib.util.LazyLoader` would execute it at the second `import`, which asks for `__spec__`.
    """

    def __getattr__(self, name: str) -> Any:
        spec: Any = self.__spec__
        with _lock:
            if spec.name in _loading:  # it asks for a part of its own that is not there yet
                raise AttributeError(f"module {spec.name!r} has no attribute {name!r}")
            if type(self) is _LazyModule:
                _loading.add(spec.name)
                try:
                    self.__path__ = spec.submodule_search_locations or []
                    spec.loader.exec_module(self)
                    self.__class__ = ModuleType  # type: ignore[assignment]
                except BaseException:
                    del self.__path__
                    raise
                finally:
                    _loading.discard(spec.name)
        return getattr(self, name)


def import_lazily(*packages: str) -> None:
    """Let `import NAME` of these top-level packages do nothing yet; to be called while one thread runs."""
    for name in packages:
        spec = None if name in sys.modules else find_spec(name)
        if spec is not None:
            module = module_from_spec(spec)
            del module.__path__  # else its parts would be imported without it
            module.__class__ = _LazyModule
            sys.modules[name] = module
