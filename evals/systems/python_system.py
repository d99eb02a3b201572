"""Systems in Python: a function, or an object of LangChain, LlamaIndex or Haystack, by its methods."""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from functools import lru_cache, reduce
from importlib import import_module, util
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

from pydantic import AfterValidator, Field, JsonValue

from rag_assay.evals.systems.contract import System, SystemReply
from rag_assay.evals.systems.given_passages import GivenPassage, UnreadableError, read_passages
from rag_assay.evals.systems.json_template import check_template, fill
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.inference.chat_completions import NoCompletionError, ServerError
from rag_assay.warehouse.inference.redaction import encode_without_secrets
from rag_assay.warehouse.inference.replies import Completion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rag_assay.evals.generation.contract import GenerationContext

_ANSWERS = ("answer", "result", "output", "response", "replies", "answers", "text", "content")
_PASSAGES = (
    *("passages", "contexts", "context", "source_documents", "sources", "source_nodes", "documents"),
    "nodes",
)
_HISTORY = ("history", "messages", "conversation", "chat_history")
_imports = threading.RLock()


def _is_place(place: str) -> str:
    module, colon, name = place.partition(":")
    parts = [*module.split("."), *name.split(".")]
    if not colon or not all(part.isidentifier() for part in parts):
        raise ValueError(f"{place!r} names no function; write module:function, as in my_app.rag:answer")
    return place


class Python(System):
    """Calls Python code of the user's own, from the folder of the study file or an installed package.

    A function takes the question, and the conversation before it where it has a second parameter without a
    default, or one named `history`. It returns a text, or a mapping with `answer` and `passages`. An object
    is called by its method: `invoke` (LangChain), `query` or `retrieve` (LlamaIndex), `run` (Haystack).

    call: `module:function`, or `module:object`
    input: what it is called with in place of the question, with placeholders as in `http`
    answers: false: it only retrieves
    """

    kind: ClassVar[str] = "python"
    at_once: ClassVar[int] = 1  # code of the user's own need not be safe to use from many threads

    call: Annotated[str, AfterValidator(_is_place)]
    input: Annotated[JsonValue, AfterValidator(check_template)] = Field(default="{{ question }}")
    answers: bool = True
    passages: None = None

    @property
    def target(self) -> str:
        return self.call

    @property
    def has_answers(self) -> bool:
        return self.answers

    def request(self, values: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        return {"input": fill(self.input, values), "history": values["history"]}

    def send(self, request: dict[str, JsonValue], timeout: float, context: GenerationContext) -> Completion:
        history = cast("list[dict[str, str]]", request["history"])
        try:
            given = within(
                lambda: respond(load(self.call, context.folder), request["input"], history), timeout
            )
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


def missing_module(place: str, folder: Path) -> str | None:
    """Return why the module of a place is not found, without running it; None: it is there."""
    module = place.partition(":")[0]
    if _file_of(module, folder) is not None or (folder / module.partition(".")[0]).is_dir():
        return None
    try:
        found = util.find_spec(module.partition(".")[0])
    except (ImportError, ValueError):
        found = None
    if found is not None:
        return None
    return f"there is no module `{module}`, neither installed nor in {folder}"


def _file_of(module: str, folder: Path) -> Path | None:
    path = folder / f"{module}.py"
    return path if "." not in module and path.is_file() else None


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Let modules in a folder be imported before all others in the block."""
    with _imports:
        sys.path.insert(0, str(folder))
        try:
            yield
        finally:
            sys.path.remove(str(folder))


@lru_cache(64)
def load(place: str, folder: Path) -> Any:
    """Return the object that a place names; its module is imported once in a process.

    A file beside the study is imported under a name of its own: studies in two folders may each have one of
    the same name.
    """
    module, _, name = place.partition(":")
    file = _file_of(module, folder)
    with _importable(folder):
        if file is None:
            loaded = import_module(module)
        else:
            known = f"rag_assay_system_{digest(str(file.resolve()))[:12]}_{module}"
            spec = util.spec_from_file_location(known, file)
            if spec is None or spec.loader is None:
                raise ImportError(f"{file} cannot be imported")
            loaded = util.module_from_spec(spec)
            sys.modules[known] = loaded
            spec.loader.exec_module(loaded)
    found = reduce(getattr, name.split("."), loaded)
    return found() if isinstance(found, type) else found


def respond(system: Any, asked: Any, history: list[dict[str, str]]) -> dict[str, Any]:
    """Call a system, and return its answer (None: none) and passages (None: not told), as JSON.

    Raises:
        UnreadableError: what it returns is neither.
    """
    given = _called(system, asked, history)
    if inspect.isawaitable(given):
        given = asyncio.run(_awaited(given))
    answer, passages = _parts(given)
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
    return system(asked, history) if _takes_history(system) else system(asked)


def _takes_history(function: Any) -> bool:
    try:
        parameters = [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    second = next((one for one in parameters[1:2] if one.kind in kinds), None)
    return second is not None and (second.default is second.empty or second.name in _HISTORY)


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
        found |= {name: value for name, value in output.items() if name in (*_ANSWERS, *_PASSAGES)}
    return found


def _parts(given: Any) -> tuple[str | None, Any]:
    if given is None or isinstance(given, str):
        return given, None
    if isinstance(given, list | tuple):  # of a retriever
        return None, given
    fields = given if isinstance(given, Mapping) else _Attributes(given)
    answer = next((text for name in _ANSWERS if (text := _said(fields.get(name)))), None)
    passages = next((fields.get(name) for name in _PASSAGES if fields.get(name) is not None), None)
    if isinstance(passages, str):  # a prompt's context, already joined
        passages = [passages]
    if answer is None and passages is None:
        what = ", ".join(map(str, given)) if isinstance(given, Mapping) else type(given).__name__
        raise UnreadableError(f"it returned neither text nor a mapping with `answer` or `passages`: {what}")
    return answer, passages


def _said(value: Any) -> str | None:
    if isinstance(value, list | tuple) and value:
        return _said(value[0])
    if value is None or isinstance(value, str):
        return value
    for name in ("content", "text", "data"):  # a message
        if isinstance(found := getattr(value, name, None), str):
            return found
    return json.dumps(value) if isinstance(value, int | float) else None


class _Attributes:
    """Reads the attributes of an object as a mapping."""

    def __init__(self, of: Any) -> None:
        self._of = of

    def get(self, name: str) -> Any:
        found = getattr(self._of, name, None)
        return None if callable(found) else found
