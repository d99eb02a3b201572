"""Loads Python code of the user's own, from the folder of a study or an installed package."""

from __future__ import annotations

import ast
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache, reduce
from importlib import import_module, invalidate_caches, util
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from rag_assay.evals.systems import live_objects
from rag_assay.warehouse.identity import digest

_lock = threading.RLock()
_loaded: dict[_Key, Any] = {}
_modules: dict[Path, dict[str, ModuleType]] = {}
"""Folder -> modules below it that `load` has imported, under the names by which they import each other."""
_active: Path | None = None


class _Key(NamedTuple):
    place: str
    folder: Path
    code: str | None

    @property
    def module(self) -> tuple[Path, str]:
        return self.folder, self.place.partition(":")[0]


def missing_module(place: str, folder: Path) -> str | None:
    """Return why the module of a place is not found, without running it; None: it is there."""
    module = place.partition(":")[0]
    if _files_of(module.partition(".")[0], folder):
        return None
    try:
        found = util.find_spec(module.partition(".")[0])
    except (ImportError, ValueError):
        found = None
    if found is not None:
        return None
    return f"there is no module `{module}`, neither installed nor in {folder}"


def code_digest(place: str, folder: Path) -> str | None:
    """Return a digest of the texts of a module and its folder's modules; None: it is installed."""
    files = [path for paths in _own_code(place.partition(":")[0], folder).values() for path in paths]
    texts = {one.relative_to(folder).as_posix(): _source(one).digest for one in files}
    return digest(texts) if texts else None


def load(place: str, folder: Path) -> Any:
    """Return the object that a place names, its module imported once until a file changes; modules of other
    folders with its names are put aside meanwhile. Raises ImportError.
    """
    if live_objects.is_held(place):
        return live_objects.find(place)
    folder = folder.resolve()
    with _lock:
        key = _Key(place, folder, code_digest(place, folder))
        tops = _own_code(place.partition(":")[0], folder)
        _activate(folder)
        if key not in _loaded:
            if stale := [one for one in _loaded if one.module == key.module and one.code != key.code]:
                _forget(folder, tops)
                for one in stale:
                    del _loaded[one]
            _refuse_others(folder, tops)
            _loaded[key] = _imported(key, tops)
        return _loaded[key]


def _imported(key: _Key, tops: dict[str, list[Path]]) -> Any:
    module, _, name = key.place.partition(":")
    file = key.folder / f"{module}.py"
    try:
        with _importable(key.folder):
            if "." in module or not file.is_file():
                loaded = import_module(module)
            else:
                known = f"rag_assay_system_{digest([str(file), key.code])[:12]}_{module}"
                loaded = sys.modules.get(known) or _run_file(known, file)
    finally:
        kept = {one: there for one, there in sys.modules.items() if one.partition(".")[0] in tops}
        _modules.setdefault(key.folder, {}).update(kept)
    found = reduce(getattr, name.split("."), loaded)
    return found() if isinstance(found, type) else found


def _run_file(name: str, file: Path) -> ModuleType:
    spec = util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be imported")
    loaded = util.module_from_spec(spec)
    sys.modules[name] = loaded
    try:
        spec.loader.exec_module(loaded)
    except BaseException:
        del sys.modules[name]
        raise
    return loaded


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    invalidate_caches()
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        with suppress(ValueError):  # the code itself may have removed it
            sys.path.remove(str(folder))


def _activate(folder: Path) -> None:
    global _active  # noqa: PLW0603 -- of a process, as `sys.modules` is
    if _active not in {None, folder}:
        own = _modules.get(_active, {}) if _active else {}
        tops = {name.partition(".")[0] for name in own}
        for name in [one for one in sys.modules if one.partition(".")[0] in tops]:
            own[name] = sys.modules.pop(name)
        sys.modules.update(_modules.get(folder, {}))
    _active = folder


def _forget(folder: Path, tops: dict[str, list[Path]]) -> None:
    own = _modules.get(folder, {})
    for name in [one for one in own if one.partition(".")[0] in tops]:
        del own[name]
        sys.modules.pop(name, None)


def _refuse_others(folder: Path, tops: dict[str, list[Path]]) -> None:
    for name, files in tops.items():
        there = getattr(sys.modules.get(name), "__file__", None)
        if there is not None and Path(there).resolve() not in {one.resolve() for one in files}:
            raise ImportError(
                f"{folder} has a module `{name}`, and another one of that name is in use: "
                f"{there}; rename yours"
            )


def _own_code(module: str, folder: Path) -> dict[str, list[Path]]:
    """Return the modules and packages of a folder that a module consists of: top-level name -> its files."""
    found: dict[str, list[Path]] = {}
    waiting = [module.partition(".")[0]]
    while waiting:
        name = waiting.pop()
        if name in found or not (files := _files_of(name, folder)):
            continue
        found[name] = files
        waiting += [one for file in files for one in _source(file).imports]
    return dict(sorted(found.items()))


def _files_of(name: str, folder: Path) -> list[Path]:
    file, package = folder / f"{name}.py", folder / name
    if package.is_dir() and ((package / "__init__.py").is_file() or not file.is_file()):
        return sorted(package.rglob("*.py"))
    return [file] if file.is_file() else []


class _Source(NamedTuple):
    """digest: of a file's text; imports: top-level names of the modules that it imports."""

    digest: str
    imports: tuple[str, ...]


def _source(file: Path) -> _Source:
    state = file.stat()
    return _read_source(file, state.st_mtime_ns, state.st_size)


@lru_cache(4096)
def _read_source(file: Path, _changed: int, _size: int) -> _Source:
    text = file.read_text(encoding="utf-8", errors="replace")
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):  # told where it is imported
        return _Source(digest(text), ())
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.append(node.module)
    return _Source(digest(text), tuple({one.partition(".")[0]: None for one in names}))
