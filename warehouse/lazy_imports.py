"""Puts off the import of libraries until something of them is used, for commands that may use nothing."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from threading import RLock
from types import ModuleType
from typing import Any

_lock = RLock()
_loading: set[str] = set()


class _LazyModule(ModuleType):
    """A module that is executed for an attribute; `importlib.util.LazyLoader` acts on `import`."""

    def __getattr__(self, name: str) -> Any:
        spec: Any = self.__spec__
        with _lock:
            if spec.name in _loading:  # it asks for a part of its own that is not there yet
                raise AttributeError(f"module {spec.name!r} has no attribute {name!r}")
            _execute(self)
        return getattr(self, name)


def _execute(module: ModuleType) -> None:
    spec: Any = module.__spec__
    with _lock:
        if type(module) is _LazyModule and spec.name not in _loading:
            _loading.add(spec.name)
            try:
                spec.loader.exec_module(module)
                module.__class__ = ModuleType  # type: ignore[assignment]
            finally:
                _loading.discard(spec.name)


class _Parts:
    """Finder that executes a lazy package before a part of it is imported, which it may import itself."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        package = sys.modules.get(name.partition(".")[0])
        if type(package) is not _LazyModule or package.__name__ in _loading:
            return None
        _execute(package)
        part = sys.modules.get(name)
        if part is None:
            return None
        part.__spec__ = ModuleSpec(name, _Imported(part.__spec__))  # type: ignore[arg-type]
        return part.__spec__


class _Imported:
    def __init__(self, spec: ModuleSpec | None) -> None:
        self._spec = spec

    @staticmethod
    def create_module(spec: ModuleSpec) -> ModuleType:
        return sys.modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec


def is_put_off(package: str) -> bool:
    """Return whether a package is to be imported lazily, and nothing of it was used yet."""
    return type(sys.modules.get(package)) is _LazyModule


def import_lazily(*packages: str) -> None:
    """Let `import NAME` of these do nothing yet; to be called while one thread runs."""
    if _Parts not in sys.meta_path:
        sys.meta_path.insert(0, _Parts)
    for name in packages:
        package, _, part = name.rpartition(".")
        whole = sys.modules.get(package)
        if name in sys.modules or (part != name and type(whole) is not _LazyModule):
            continue
        spec = PathFinder.find_spec(name, whole.__path__ if whole else None)
        if spec is not None:
            module = module_from_spec(spec)
            module.__class__ = _LazyModule
            sys.modules[name] = module
            if whole:
                setattr(whole, part, module)
