"""Systems in Python, from a study's folder: functions, and objects of LangChain, LlamaIndex and Haystack."""

from __future__ import annotations

import ast
import asyncio
import inspect
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache, reduce
from importlib import import_module, invalidate_caches, util
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, cast

from pydantic import AfterValidator, Field, JsonValue

from rag_assay.evals.systems import live_objects
from rag_assay.evals.systems.contract import CalledSystem, SystemReply
from rag_assay.evals.systems.given_passages import (
    ANSWERS,
    PASSAGES,
    GivenPassage,
    UnreadableError,
    read_passages,
    read_reply,
)
from rag_assay.evals.systems.json_template import check_template, fill
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.inference.chat_completions import NoCompletionError, ServerError
from rag_assay.warehouse.inference.redaction import encode_without_secrets
from rag_assay.warehouse.inference.replies import Completion

if TYPE_CHECKING:
    from rag_assay.evals.generation.contract import GenerationContext

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
    """Return the object that a place names, imported once until a file changes; raises ImportError."""
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


_HISTORY = ("history", "messages", "conversation", "chat_history")


def _is_place(place: str) -> str:
    module, colon, name = place.partition(":")
    parts = [*module.split("."), *name.split(".")]
    if not colon or not all(part.isidentifier() for part in parts):
        raise ValueError(f"{place!r} names no function; write module:function, as in my_app.rag:answer")
    return place


class Python(CalledSystem):
    """Calls Python code of the user's own, from the folder of the study file or an installed package.

    A function takes the question, and the conversation before it where it has a parameter named `history`, or
    a second one without a default. It returns a text, or a mapping with `answer` and `passages`. An object
    is called by its method: `invoke` (LangChain), `query` or `retrieve` (LlamaIndex), `run` (Haystack).

    call: `module:function`, or `module:object`
    input: argument in place of the question, with placeholders as in `http`
    answers: false: it only retrieves
    """

    kind: ClassVar[str] = "python"
    at_once: ClassVar[int] = 1  # code of the user's own need not be safe to use from many threads

    call: Annotated[str, AfterValidator(_is_place)]
    input: Annotated[JsonValue, AfterValidator(check_template)] = Field(default="{{ question }}")
    answers: bool = True
    passages: None = None

    def missing(self) -> str | None:
        return missing_module(self.call, self._folder)

    def meaning(self) -> dict[str, JsonValue]:
        return {**super().meaning(), **self._code}

    @property
    def _code(self) -> dict[str, JsonValue]:
        found = code_digest(self.call, self._folder)
        return {"code": found} if found else {}

    @property
    def target(self) -> str:
        return self.call

    @property
    def has_answers(self) -> bool:
        return self.answers

    def request(self, values: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        return {"input": fill(self.input, values), "history": values["history"], **self._code}

    def prepare(self, context: GenerationContext) -> None:
        with suppress(Exception):  # `send` raises it again, as the reason of the answer
            load(self.call, context.folder)

    def send(self, request: dict[str, JsonValue], timeout: float, context: GenerationContext) -> Completion:
        history = cast("list[dict[str, str]]", request["history"])
        try:
            system = load(self.call, context.folder)
            given = within(lambda: respond(system, request["input"], history), timeout)
            _, whole = encode_without_secrets(given)
        except TimeoutError as error:
            import httpx

            raise httpx.ReadTimeout(str(error) or "it took too long") from error
        except Exception as error:
            raise _failure(error) from error
        return Completion(whole, None, None, None, None, whole, {})

    def read(self, given: object) -> SystemReply:
        said = cast("dict[str, Any]", given)  # as `respond` returned it
        passages = said["passages"]
        return SystemReply(
            said["answer"],
            None if passages is None else tuple(GivenPassage(**one) for one in passages),
        )


def _failure(error: Exception) -> Exception:
    reason = f"{type(error).__name__}: {error}"
    code = getattr(error, "status_code", None)
    if isinstance(code, int) and code >= 400:  # of a server that it has asked
        headers = getattr(getattr(error, "response", None), "headers", {})
        return ServerError(code, reason, None, dict(headers or {}))
    return NoCompletionError(reason)


def within(call: Callable[[], Any], timeout: float) -> Any:
    """Return what a call returns.

    Raises:
        TimeoutError: it has not ended in time; its thread is left alone.
    """
    ended: list[tuple[Any, BaseException | None]] = []

    def work() -> None:
        try:
            ended.append((call(), None))
        except BaseException as error:  # raised again below
            ended.append((None, error))

    thread = threading.Thread(target=work, name="system", daemon=True)
    thread.start()
    thread.join(timeout)
    if not ended:
        raise TimeoutError(f"it has not returned within {timeout:g} s")
    result, error = ended[0]
    if isinstance(error, Exception):
        raise error
    if error is not None:
        raise RuntimeError(f"it raised {type(error).__name__}") from error
    return result


def respond(system: Any, asked: Any, history: list[dict[str, str]]) -> dict[str, Any]:
    """Call a system, and return its answer (None: none) and passages (None: not told), as JSON.

    Raises:
        UnreadableError: what it returns is neither.
    """
    given = _called(system, asked, history)
    if inspect.isawaitable(given):
        given = asyncio.run(_awaited(given))
    answer, passages = read_reply(given)
    return {
        "answer": answer,
        "passages": None if passages is None else [one._asdict() for one in read_passages(passages)],
    }


async def _awaited(given: Any) -> Any:
    return await given


def _called(system: Any, asked: Any, history: list[dict[str, str]]) -> Any:
    for method in ("invoke", "query", "retrieve"):
        if callable(found := getattr(system, method, None)):
            return found(asked)
    if callable(getattr(system, "run", None)) and callable(getattr(system, "inputs", None)):
        return _run_pipeline(system, asked)
    if not callable(system):
        raise UnreadableError(f"{type(system).__name__} has none of: a call, invoke, query, retrieve, run")
    return _call_function(system, asked, history)


def _call_function(function: Any, asked: Any, history: list[dict[str, str]]) -> Any:
    try:
        _, *others = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return function(asked)
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    by_keyword = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    second = others[0] if others and others[0].kind in positional else None
    if second is not None and (second.default is second.empty or second.name in _HISTORY):
        return function(asked, history)
    name = next((one.name for one in others if one.name in _HISTORY and one.kind in by_keyword), None)
    return function(asked) if name is None else function(asked, **{name: history})


def _run_pipeline(pipeline: Any, asked: Any) -> dict[str, Any]:
    """Run a Haystack pipeline: open inputs for a question are given it, and the outputs of all parts kept."""
    data = asked
    if isinstance(asked, str):
        data = {
            component: {name: asked for name in inputs if name in {"query", "question", "text"}}
            for component, inputs in pipeline.inputs().items()
        }
        data = {component: inputs for component, inputs in data.items() if inputs}
    graph = getattr(pipeline, "graph", None)
    names = set(graph.nodes) if graph is not None else None
    outputs = pipeline.run(data, include_outputs_from=names) if names else pipeline.run(data)
    found: dict[str, Any] = {}
    for output in outputs.values():
        found |= {name: value for name, value in output.items() if name in (*ANSWERS, *PASSAGES)}
    return found
